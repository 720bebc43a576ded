"""Credit: how much the server may send before it hears more from us.

Bytes are given back as soon as they are taken in, unless too much waits for the application; then the server waits as
well, and its topics' policies say what becomes of the rest.
"""

from __future__ import annotations

from collections.abc import Callable


class Credit:
    """A window of 0 bytes means no limit."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._owed = 0
        self._held = 0
        self._send: Callable[[int], None] | None = None

    def begin(self, send: Callable[[int], None]) -> None:
        """A connection is there: the whole window is given."""
        self._owed = 0
        if self._window:
            self._send = send
            send(self._window)

    def end(self) -> None:
        self._send = None

    def received(self, size: int) -> None:
        """Bytes of UPDATES and QUEUED have come."""
        self._owed += size

    def hold(self, size: int) -> None:
        """Bytes begin, or cease if negative, to wait for the application."""
        self._held += size
        if size < 0:
            self.grant()

    def grant(self) -> None:
        """Gives back what was taken in, once that is half of the window and less than half waits."""
        if self._send is None or self._held * 2 >= self._window or self._owed * 2 < self._window:
            return
        owed, self._owed = self._owed, 0
        self._send(owed)
