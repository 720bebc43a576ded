"""The codec against whatever can be written, and whatever can be sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiderace import TideraceError
from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s
from tiderace._content import NOTHING, decode_properties, decode_value, encode_properties, encode_value
from tiderace._framing import decode_client, decode_server, encode
from tiderace._position import NUMBERINGS_MAX, Position
from tiderace._wire import Reader, Writer

numbers = st.integers(0, (1 << 64) - 1)
texts = st.text(max_size=20)
blobs = st.binary(max_size=40)
properties = st.dictionaries(texts, texts, max_size=4)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)
entries = st.builds(
    lambda flags, body, block: s.Entry(flags, body, block if flags & m.PROPERTIES else None),
    st.integers(0, 7),
    blobs,
    blobs,
)


def update_entry(flags: int, number: int, version: int, data: bytes, block: bytes) -> s.UpdateEntry:
    whole = version if flags & m.FULL_VERSION else version & 0xFFFF
    return s.UpdateEntry(flags, number, whole, data, block if flags & m.PROPERTIES else None)


server_frames = st.one_of(
    st.builds(s.Welcome, texts, blobs, *[numbers] * 5, st.lists(numbers, max_size=3).map(tuple), texts, numbers),
    st.builds(s.Ok, numbers, numbers),
    st.builds(s.Error, numbers, numbers, texts, texts),
    st.builds(s.TopicId, numbers, numbers, texts),
    st.builds(s.Updates, st.lists(st.builds(update_entry, st.integers(0, 255), numbers, numbers, blobs, blobs))),
    st.builds(s.Queued, st.sampled_from([0, m.ANNOUNCED]), numbers, numbers, numbers, numbers, st.lists(entries)),
    st.builds(s.PositionFrame, st.lists(st.tuples(numbers, numbers))),
    st.builds(s.Recovered, numbers, st.booleans(), st.booleans()),
    st.builds(s.Ended, st.integers(0, 1), numbers, numbers, texts, texts),
    st.builds(s.Pong, blobs),
    st.builds(s.Close, numbers, texts, texts, st.booleans(), numbers, st.lists(texts, max_size=3)),
    st.builds(s.LoggedIn, numbers, texts),
    st.builds(s.Result, numbers, texts, st.lists(entries)),
    st.builds(s.Joined, numbers, texts, texts),
    st.builds(s.Left, numbers, texts, texts),
    st.builds(s.Follows, st.sampled_from([0, m.ANNOUNCED]), numbers, numbers),
    st.builds(s.Browsed, numbers),
    st.builds(s.Unsubscribed, numbers, numbers, texts, texts),
)
auths = st.one_of(st.builds(c.Anonymous), st.builds(c.Password, texts, texts), st.builds(c.Token, texts))
client_frames = st.one_of(
    st.builds(c.Hello, auths, st.lists(numbers, max_size=3).map(tuple), texts, blobs, st.none() | texts),
    st.builds(c.Login, numbers, auths),
    st.builds(c.Unsubscribe, numbers, numbers),
    st.builds(c.Declare, numbers, st.integers(0, 2), texts),
    st.builds(c.Settle, numbers, numbers, numbers, st.integers(0, 1), st.lists(st.tuples(numbers, numbers)).map(tuple)),
    st.builds(c.Cancel, st.integers(0, 1), numbers, numbers, texts),
    st.builds(c.Credit, numbers),
    st.builds(c.Ping, blobs),
    st.builds(c.Operate, numbers, texts, st.none() | blobs),
)


@given(numbers)
def test_a_number_is_read_as_it_was_written(value: int) -> None:
    data = Writer().varint(value).done()
    assert Reader(data).varint() == value
    assert len(data) == max(1, -(-value.bit_length() // 7))


@given(st.integers(0, 127), st.integers(0, 8))
def test_padding_of_a_number_is_allowed_up_to_ten_bytes(value: int, padding: int) -> None:
    assert Reader(bytes([value | 0x80]) + b"\x80" * padding + b"\x00").varint() == value


@pytest.mark.parametrize("data", [b"", b"\x80", b"\x80" * 10 + b"\x00", b"\xff" * 9 + b"\x02"])
def test_a_number_that_is_none_is_refused(data: bytes) -> None:
    with pytest.raises(TideraceError, match="bad-frame"):
        Reader(data).varint()


@given(st.lists(server_frames, max_size=5))
def test_messages_of_a_server_are_read_as_they_were_written(frames: list[s.ServerFrame]) -> None:
    data = b"".join(encode(frame) for frame in frames)
    assert [frame for frame, _ in decode_server(data)] == frames


@given(st.lists(client_frames, max_size=5))
def test_messages_of_a_client_are_read_as_they_were_written(frames: list[c.ClientFrame]) -> None:
    assert list(decode_client(b"".join(encode(frame) for frame in frames))) == frames


@given(server_frames, st.data())
def test_no_bytes_of_a_server_do_worse_than_being_refused(frame: s.ServerFrame, data: st.DataObject) -> None:
    whole = bytearray(encode(frame))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        list(decode_server(cut))
    except TideraceError as error:
        assert error.name == "bad-frame"


@given(st.binary(max_size=60))
def test_noise_does_no_worse_either(noise: bytes) -> None:
    try:
        list(decode_server(noise))
    except TideraceError as error:
        assert error.name == "bad-frame"


def test_what_a_later_server_adds_is_left_aside() -> None:
    later = Writer().u8(m.OK).blob(b"\x03\x01 and more").u8(0x7E).blob(b"unknown").done()
    assert [frame for frame, _ in decode_server(later)] == [s.Ok(3, 1)]


@pytest.mark.parametrize(
    ("message", "payload"),
    [
        (m.WELCOME, b"\x01\x01"),
        (m.QUEUED, b"\x10\x00\x00\x00\x00"),
        (m.QUEUED, b"\x00\x00\x00\x00\x00\x08\x00"),
        (m.FOLLOWS, b"\x01\x00\x00"),
        (m.ERROR, b"\x01\x01\x01\xff\x00"),
    ],
)
def test_unknown_flags_and_text_that_is_none_are_refused(message: int, payload: bytes) -> None:
    with pytest.raises(TideraceError, match="bad-frame"):
        list(decode_server(Writer().u8(message).blob(payload).done()))


@given(properties)
def test_properties_are_read_as_they_were_written(found: dict[str, str]) -> None:
    assert decode_properties(encode_properties(found)) == found


def test_of_equal_properties_the_first_counts() -> None:
    assert decode_properties(b"a:1\na:2\nno colon\nb\\c:x\\ny\n") == {"a": "1", "b:": "x\ny"}


@given(json_values)
def test_json_is_read_as_it_was_written(value: object) -> None:
    encoded = encode_value(value)
    assert encoded.flags == 1
    assert decode_value(encoded.flags, encoded.properties, encoded.body) == value


@pytest.mark.parametrize(
    ("value", "kind", "flags", "body"),
    [
        (b"\x00\xff", None, 3, b"\x00\xff"),
        ("hi", None, 1, b'"hi"'),
        ("hi", "text/plain", 2, b"hi"),
        (NOTHING, None, 0, b""),
        ({"a": 1}, "application/vnd.x+json", 4, b'{"a":1}'),
        ("<a/>", "text/xml", 4, b"<a/>"),
        (b"\x89PNG", "image/png", 4, b"\x89PNG"),
    ],
)
def test_content_types(value: object, kind: str | None, flags: int, body: bytes) -> None:
    encoded = encode_value(value, kind)
    assert (encoded.flags, encoded.body) == (flags, body)
    wanted = None if value is NOTHING else value
    assert decode_value(encoded.flags, encoded.properties, encoded.body) == wanted


def test_a_body_that_is_not_what_it_says_is_given_as_it_is() -> None:
    assert decode_value(1, None, b"{no json") == "{no json"
    assert decode_value(1, None, b"[" * 100_000) == "[" * 100_000
    assert decode_value(0, None, b"text") == "text"
    assert decode_value(0, None, b"\xff") == b"\xff"
    assert decode_value(2, None, b"\xff") == "\ufffd"


def test_what_is_no_json_is_refused_before_it_is_sent() -> None:
    for value in (float("nan"), {1, 2}, object()):
        with pytest.raises((TypeError, ValueError)):
            encode_value(value)


def test_a_position_keeps_the_larger_number_of_each_numbering_and_no_more_than_a_server_takes() -> None:
    position = Position(b"\xac\x02")
    position.advance([(1, 9), (0, 12)])
    position.advance([(1, 7)])
    assert position.encode().hex() == "ac0202000c0109"
    for numbering in range(64, 64 + NUMBERINGS_MAX):
        position.advance([(numbering, 1)])
        position.advance([(1, numbering)])
    data = Reader(position.encode()[2:])
    assert data.varint() == NUMBERINGS_MAX
    kept = {data.varint(): data.varint() for _ in range(NUMBERINGS_MAX)}
    assert data.empty
    assert kept[1] == 63 + NUMBERINGS_MAX
    assert 0 not in kept
