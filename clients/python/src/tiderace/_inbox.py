"""What waits for the application: an asynchronous iterator that can be pushed to.

It counts the bytes that wait, so that the server can be asked to slow down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ._errors import TideraceError

T = TypeVar("T")


#: What an object takes in memory beyond its bytes.
OBJECT_BYTES = 200


class Inbox(Generic[T]):
    """`held` hears of bytes that begin (or, negative, cease) to wait."""

    def __init__(self, held: Callable[[int], None] = lambda _: None) -> None:
        #: Bytes that wait.
        self.size = 0
        self._held = held
        self._waiting: deque[tuple[T, int]] = deque()
        self._takers: deque[asyncio.Future[None]] = deque()
        self._over = False
        self._error: TideraceError | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def push(self, value: T, size: int) -> None:
        """`size`: bytes that it brings with it."""
        if self._over:
            return
        size += OBJECT_BYTES
        self._waiting.append((value, size))
        self.size += size
        self._held(size)
        self._wake()

    def end(self, error: TideraceError | None = None) -> None:
        """No more comes; what waits is still given, and then the error, once."""
        if self._over:
            return
        self._over, self._error = True, error
        while self._takers:
            self._wake()

    def clear(self) -> None:
        """What waits is not wanted any more."""
        self._waiting.clear()
        size, self.size = self.size, 0
        if size:
            self._held(-size)

    async def get(self) -> T:
        """The next; `StopAsyncIteration` at the end."""
        while not self._waiting:
            if self._over:
                error, self._error = self._error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            taker = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                # Another one takes what this one was woken for.
                if self._waiting:
                    self._wake()
                raise
            finally:
                if taker in self._takers:
                    self._takers.remove(taker)
        value, size = self._waiting.popleft()
        self.size -= size
        self._held(-size)
        return value

    def _wake(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
