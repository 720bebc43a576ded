"""Who may send, and when: in the order in which it was asked for, as soon as there is a connection with room.

Invariant: what waits to be sent on a connection is at most `send_max` bytes, or one message; all others wait with their
callers.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ._errors import TideraceError
from ._session import Session


class Admission:
    """`session` gives the present connection, `closed` says why there will be none any more."""

    def __init__(
        self, send_max: int, session: Callable[[], Session | None], closed: Callable[[], TideraceError | None]
    ) -> None:
        self._send_max = send_max
        self._session = session
        self._closed = closed
        #: Who waits, with the bytes that each wants to send.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        #: Bytes of those who were let in and have not gone on yet.
        self._promised = 0

    async def enter(self, size: int) -> Session:
        """The session, once there is one with room for so many bytes; raises when the client is closed."""
        first = True
        while True:
            closed = self._closed()
            if closed is not None:
                raise closed
            session = self._session()
            if session is not None and self._has_room(session, size) and not (first and self._waiting):
                return session
            first = False
            await self._turn(size)

    def look(self) -> None:
        """There is a connection, or room: lets in who comes next."""
        session = self._session()
        while session is not None and self._waiting and self._has_room(session, self._waiting[0][1]):
            self._release()

    def end(self) -> None:
        """The client is closed: all who wait are told."""
        while self._waiting:
            self._release()

    async def _turn(self, size: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        row = (future, size)
        self._waiting.append(row)
        try:
            await future
            self._promised -= size
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._promised -= size
                self.look()
            elif row in self._waiting:
                self._waiting.remove(row)
            raise

    def _has_room(self, session: Session, size: int) -> bool:
        waiting = session.buffered + self._promised
        return not waiting or waiting + size <= self._send_max

    def _release(self) -> None:
        future, size = self._waiting.popleft()
        if not future.done():
            self._promised += size
            future.set_result(None)
