"""Both codecs of deltas: what they make, and that no bytes make them do worse than refuse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiderace import TideraceError, _vcdiff
from tiderace._delta import apply_delta, make_delta
from tiderace._vcdiff import apply_vcdiff
from tiderace._wire import Writer

bodies = st.binary(max_size=200) | st.text(alphabet="ab{}:1", max_size=200).map(str.encode)


@given(bodies, bodies)
def test_a_delta_makes_the_new_body(old: bytes, new: bytes) -> None:
    assert apply_delta(old, make_delta(old, new)) == new


@given(bodies, st.integers(0, 200), st.integers(0, 200), bodies)
def test_what_is_the_same_is_not_sent(old: bytes, start: int, end: int, middle: bytes) -> None:
    start, end = sorted((min(start, len(old)), min(end, len(old))))
    new = old[:start] + middle + old[end:]
    delta = make_delta(old, new)
    assert apply_delta(old, delta) == new
    assert len(delta) <= len(middle) + 10


@given(bodies, st.binary(max_size=60))
def test_noise_is_refused_or_makes_a_body(old: bytes, noise: bytes) -> None:
    for apply in (apply_delta, apply_vcdiff):
        try:
            apply(old, noise)
        except TideraceError as error:
            assert error.name == "bad-frame"


operations = st.lists(
    st.tuples(st.just("copy"), st.integers(0, 99), st.integers(1, 40))
    | st.tuples(st.just("replace"), st.binary(min_size=1, max_size=20), st.just(0)),
    max_size=12,
)


@given(st.binary(min_size=100, max_size=100), operations)
def test_operations_of_codec_1_do_what_the_protocol_says(old: bytes, wanted: list[tuple[str, object, int]]) -> None:
    out, new, cursor = Writer().varint(0).varint(0), b"", 0
    for kind, what, count in wanted:
        if kind == "replace":
            assert isinstance(what, bytes)
            out.varint(len(what) << 2 | 1).raw(what)
            new += what
            cursor = min(cursor + len(what), len(old))
        else:
            assert isinstance(what, int)
            count = min(count, len(old) - what)
            move = what - cursor
            out.varint(count << 2 | 2).varint(move * 2 if move >= 0 else -move * 2 - 1)
            new += old[what : what + count]
            cursor = what + count
    assert apply_delta(old, out.done()) == new


@pytest.mark.parametrize(
    "delta", ["0401", "000014", "000003", "00000414", "00000614", "0000060130", "000009ff", "8080", ""]
)
def test_a_delta_that_does_not_fit_is_refused(delta: str) -> None:
    with pytest.raises(TideraceError, match="bad-frame"):
        apply_delta(b"abcd", bytes.fromhex(delta))


# VCDIFF, written here by the rules of RFC 3284.


def vc(value: int) -> bytes:
    """Seven bits a byte, the highest first."""
    out = [value & 0x7F]
    while value := value >> 7:
        out.append(value & 0x7F | 0x80)
    return bytes(reversed(out))


def vcdiff(source: bytes, size: int, added: bytes, codes: bytes, addresses: bytes, header: bytes = b"\x00") -> bytes:
    sections = vc(size) + b"\x00" + b"".join(vc(len(part)) for part in (added, codes, addresses))
    body = sections + added + codes + addresses
    return b"\xd6\xc3\xc4\x00" + header + b"\x01" + vc(len(source)) + vc(0) + vc(len(body)) + body


def test_the_default_code_table_is_that_of_the_rfc() -> None:
    table = _vcdiff._CODES
    assert len(table) == 256
    none = (0, 0, 0)
    # Rows of section 5.6, by their first and last codes.
    for code, row in {
        0: ((2, 0, 0), none),
        1: ((1, 0, 0), none),
        18: ((1, 17, 0), none),
        19: ((3, 0, 0), none),
        20: ((3, 4, 0), none),
        34: ((3, 18, 0), none),
        35: ((3, 0, 1), none),
        162: ((3, 18, 8), none),
        163: ((1, 1, 0), (3, 4, 0)),
        174: ((1, 4, 0), (3, 6, 0)),
        234: ((1, 4, 0), (3, 6, 5)),
        235: ((1, 1, 0), (3, 4, 6)),
        246: ((1, 4, 0), (3, 4, 8)),
        247: ((3, 4, 0), (1, 1, 0)),
        255: ((3, 4, 8), (1, 1, 0)),
    }.items():
        assert table[code] == row, code


def test_vcdiff_adds_runs_and_copies() -> None:
    old = b"abcdefghijklmnop"
    # COPY 4 at 0 (mode self); ADD 4 wxyz; COPY 4 at 4; COPY 12 at 24 in itself; RUN 4 z; from section 3 of the RFC.
    codes = bytes([20, 5, 20, 28, 0]) + vc(4)
    delta = vcdiff(old, 28, b"wxyzz", codes, vc(0) + vc(4) + vc(24))
    assert apply_vcdiff(old, delta) == b"abcdwxyzefghefghefghefghzzzz"


def test_vcdiff_knows_its_addresses_again() -> None:
    old = bytes(range(200))
    # COPY 4 at 100 by itself; then near (mode 2: +50), from here (mode 1: 204 + 8 - 208 = 4 back), same (mode 6: 100).
    codes = bytes([20, 20 + 16 * 2, 20 + 16 * 1, 20 + 16 * 6])
    delta = vcdiff(old, 16, b"", codes, vc(100) + vc(50) + vc(208 - 4) + bytes([100]))
    assert apply_vcdiff(old, delta) == old[100:104] + old[150:154] + old[4:8] + old[100:104]


@pytest.mark.parametrize(
    "delta",
    [
        vcdiff(b"abcd", 4, b"", bytes([20]), vc(1)),
        vcdiff(b"abcd", 9, b"", bytes([20]), vc(0)),
        vcdiff(b"abcd", 3, b"", bytes([20]), vc(0)),
        vcdiff(b"abcde", 4, b"", bytes([20]), vc(0)),
        vcdiff(b"abcd", 4, b"", bytes([20]), vc(0), header=b"\x01"),
        b"\xd6\xc3\xc4\x00\x00\x02",
        b"\xd6\xc3\xc4\x53\x00",
    ],
)
def test_vcdiff_that_does_not_fit_is_refused(delta: bytes) -> None:
    with pytest.raises(TideraceError, match="bad-frame"):
        apply_vcdiff(b"abcd", delta)


def test_a_body_beyond_all_bounds_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_vcdiff, "BODY_BYTES_MAX", 1000)
    run = vcdiff(b"abcd", 1001, b"x", bytes([0]) + vc(1001), b"")
    with pytest.raises(TideraceError, match="more than 1000 bytes"):
        apply_vcdiff(b"abcd", run)
