"""Deltas of codec 2 (docs/protocol.md, section 8): VCDIFF as of RFC 3284, with the default code table.

Refused: secondary compression, tables of one's own, windows that copy from the target's beginning (VCD_TARGET).
"""

from __future__ import annotations

from ._delta import BODY_BYTES_MAX
from ._errors import malformed
from ._wire import Reader

_MAGIC = b"\xd6\xc3\xc4\x00"
_APPLICATION_HEADER = 0x04
_SOURCE = 0x01
_NEAR = 4
_SAME = 3
_NOOP, _ADD, _RUN, _COPY = range(4)

_Half = tuple[int, int, int]


def _table() -> list[tuple[_Half, _Half]]:
    """Section 5.6: by code two instructions, each of type, size (0: it follows) and mode."""
    none = (_NOOP, 0, 0)
    rows: list[tuple[_Half, _Half]] = [((_RUN, 0, 0), none)]
    rows += [((_ADD, size, 0), none) for size in range(18)]
    for mode in range(9):
        rows += [((_COPY, size, mode), none) for size in (0, *range(4, 19))]
    for mode in range(6):
        rows += [((_ADD, add, 0), (_COPY, copy, mode)) for add in range(1, 5) for copy in range(4, 7)]
    for mode in range(6, 9):
        rows += [((_ADD, add, 0), (_COPY, 4, mode)) for add in range(1, 5)]
    rows += [((_COPY, 4, mode), (_ADD, 1, 0)) for mode in range(9)]
    return rows


_CODES = _table()


def apply_vcdiff(old: bytes, delta: bytes) -> bytes:
    """The new body."""
    data = Reader(delta)
    if data.take(4) != _MAGIC:
        raise malformed("a delta does not begin as VCDIFF does")
    indicator = data.u8()
    if indicator & ~_APPLICATION_HEADER:
        raise malformed(f"VCDIFF with the header {indicator:#04x} is not understood")
    if indicator:
        data.take(_integer(data))
    windows = []
    length = 0
    while not data.empty:
        windows.append(_window(old, data, BODY_BYTES_MAX - length))
        length += len(windows[-1])
    return b"".join(windows)


def _integer(data: Reader) -> int:
    """Seven bits a byte, the highest first."""
    value = 0
    for _ in range(10):
        byte = data.u8()
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value
    raise malformed("a number of VCDIFF is too long")


def _window(old: bytes, data: Reader, most: int) -> bytes:
    indicator = data.u8()
    if indicator & ~_SOURCE:
        raise malformed(f"a window of VCDIFF of kind {indicator:#04x} is not understood")
    source = b""
    if indicator:
        size, start = _integer(data), _integer(data)
        if start + size > len(old):
            raise malformed(f"VCDIFF takes {size} bytes at byte {start} of a body of {len(old)}")
        source = old[start : start + size]
    length = _integer(data)
    window = Reader(data.block, data.at, data.at + len(data.take(length)))
    size = _integer(window)
    if size > most:
        raise malformed(f"a delta makes a body of more than {BODY_BYTES_MAX} bytes")
    if window.u8():
        raise malformed("VCDIFF with secondary compression is not understood")
    lengths = _integer(window), _integer(window), _integer(window)
    added, codes, addresses = (Reader(window.take(length)) for length in lengths)
    return _Target(source, size, added, addresses).made_of(codes)


class _Target:
    """The body of one window as it grows."""

    def __init__(self, source: bytes, size: int, added: Reader, addresses: Reader) -> None:
        #: Source and target in one: addresses count through both.
        self._whole = bytearray(source)
        self._begin = len(source)
        self._end = len(source) + size
        self._added = added
        self._addresses = addresses
        self._near = [0] * _NEAR
        self._next_near = 0
        self._same = [0] * (_SAME * 256)

    def made_of(self, codes: Reader) -> bytes:
        while not codes.empty:
            for kind, size, mode in _CODES[codes.u8()]:
                if kind != _NOOP:
                    self._do(kind, size or _integer(codes), mode)
        if len(self._whole) != self._end:
            raise malformed(f"a window of VCDIFF has {len(self._whole) - self._begin} bytes and not as many as it says")
        return bytes(self._whole[self._begin :])

    def _do(self, kind: int, size: int, mode: int) -> None:
        if len(self._whole) + size > self._end:
            raise malformed("a window of VCDIFF has more bytes than it says")
        if kind == _ADD:
            self._whole += self._added.take(size)
        elif kind == _RUN:
            self._whole += self._added.take(1) * size
        else:
            self._copy(self._address(mode), size)

    def _copy(self, start: int, size: int) -> None:
        whole = self._whole
        if start < self._begin < start + size:
            raise malformed("VCDIFF copies from source and target at once")
        # A copy may reach into what it writes: then the piece repeats.
        piece = whole[start : min(start + size, len(whole))]
        whole += (piece * (size // len(piece) + 1))[:size]

    def _address(self, mode: int) -> int:
        here = len(self._whole)
        if mode == 0:
            address = _integer(self._addresses)
        elif mode == 1:
            address = here - _integer(self._addresses)
        elif mode < 2 + _NEAR:
            address = self._near[mode - 2] + _integer(self._addresses)
        else:
            address = self._same[(mode - 2 - _NEAR) * 256 + self._addresses.u8()]
        if not 0 <= address < here:
            raise malformed(f"VCDIFF copies from {address}, and there are {here} bytes")
        self._near[self._next_near] = address
        self._next_near = (self._next_near + 1) % _NEAR
        self._same[address % (_SAME * 256)] = address
        return address
