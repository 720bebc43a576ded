"""Fields of the protocol: varints, strings and blocks (docs/protocol.md, section 2).

Invariant: every read is checked against the end; what does not fit is a `TideraceError`, never a wrong value.
"""

from __future__ import annotations

from ._errors import malformed

VARINT_BYTES_MAX = 10
U64_MAX = (1 << 64) - 1


class Writer:
    """Appends fields to a growing block."""

    __slots__ = ("block",)

    def __init__(self) -> None:
        self.block = bytearray()

    def u8(self, value: int) -> Writer:
        self.block.append(value)
        return self

    def u16le(self, value: int) -> Writer:
        self.block += value.to_bytes(2, "little")
        return self

    def varint(self, value: int) -> Writer:
        if 0 <= value < 0x80:
            self.block.append(value)
            return self
        if not 0 <= value <= U64_MAX:
            raise ValueError(f"{value} is no number of the protocol: 0 to 2^64 - 1")
        while value >= 0x80:
            self.block.append(value & 0x7F | 0x80)
            value >>= 7
        self.block.append(value)
        return self

    def raw(self, value: bytes) -> Writer:
        """Bytes as they are."""
        self.block += value
        return self

    def blob(self, value: bytes) -> Writer:
        """Bytes behind their length."""
        self.varint(len(value)).block.extend(value)
        return self

    def string(self, value: str) -> Writer:
        return self.blob(value.encode())

    def done(self) -> bytes:
        return bytes(self.block)


class Reader:
    """Takes fields from the front of a block."""

    __slots__ = ("at", "block", "end")

    def __init__(self, block: bytes, at: int = 0, end: int | None = None) -> None:
        self.block = block
        self.at = at
        self.end = len(block) if end is None else end

    @property
    def empty(self) -> bool:
        return self.at >= self.end

    def u8(self) -> int:
        at = self.at
        if at >= self.end:
            raise self._short(1)
        self.at = at + 1
        return self.block[at]

    def u16le(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def varint(self) -> int:
        value = self.u8()
        if value < 0x80:
            return value
        value &= 0x7F
        for shift in range(7, 7 * VARINT_BYTES_MAX, 7):
            byte = self.u8()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > U64_MAX:
                    break
                return value
        raise malformed(f"the number that ends at byte {self.at} has more than 64 bits")

    def take(self, length: int) -> bytes:
        at = self.at
        if length > self.end - at:
            raise self._short(length)
        self.at = at + length
        return self.block[at : at + length]

    def blob(self) -> bytes:
        return self.take(self.varint())

    def string(self) -> str:
        block = self.blob()
        try:
            return block.decode()
        except UnicodeDecodeError:
            raise malformed(f"the text that ends at byte {self.at} is not UTF-8") from None

    def rest(self) -> bytes:
        return self.take(self.end - self.at)

    def _short(self, wanted: int) -> Exception:
        return malformed(f"{wanted} bytes are wanted at byte {self.at}, and the message ends at byte {self.end}")
