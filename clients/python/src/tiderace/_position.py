"""How far a client has come (docs/protocol.md, section 7): the epoch, and by numbering the number of the last message.

It is kept as the server says it and sent back when the connection is made anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from ._wire import Writer

#: A server takes no more of them.
NUMBERINGS_MAX = 256


class Position:
    """Of one epoch. Of a numbering's numbers the larger counts."""

    def __init__(self, epoch: bytes) -> None:
        self.epoch = epoch
        self._numbers: dict[int, int] = {}

    def advance(self, homes: Iterable[tuple[int, int]]) -> None:
        """Takes in a POSITION."""
        numbers = self._numbers
        for home, number in homes:
            # What was advanced last stands last, so that the longest untouched goes first.
            numbers[home] = max(number, numbers.pop(home, 0))
            if len(numbers) > NUMBERINGS_MAX:
                del numbers[next(iter(numbers))]

    def encode(self) -> bytes:
        out = Writer().raw(self.epoch).varint(len(self._numbers))
        for home, number in sorted(self._numbers.items()):
            out.varint(home).varint(number)
        return out.done()
