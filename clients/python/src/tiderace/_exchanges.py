"""The exchanges of one client by their numbers (docs/protocol.md, section 9); they do not outlive its connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from . import _messages as m
from ._client_frames import Cancel, ClientFrame
from ._errors import TideraceError
from ._server_frames import Ended, Exchange

#: Writes a message on the connection that an exchange lives on.
Transmit = Callable[[ClientFrame], None]

CALLER = 0
RESPONDER = 1


class ExchangeEnd(Protocol):
    """One side of an exchange, as the application has it."""

    def take(self, frame: Exchange) -> None: ...

    def fail(self, error: TideraceError) -> None: ...


class Exchanges:
    """What is open, by side and number."""

    def __init__(self) -> None:
        self._open: tuple[dict[int, ExchangeEnd], dict[int, ExchangeEnd]] = ({}, {})
        self._last_call = 0

    def next_call(self) -> int:
        """A number that no open call has."""
        number = m.after(self._last_call)
        while number in self._open[CALLER]:
            number = m.after(number)
        self._last_call = number
        return number

    def open(self, side: int, number: int, end: ExchangeEnd) -> None:
        self._open[side][number] = end

    def close(self, side: int, number: int, end: ExchangeEnd) -> None:
        """It is over; a later exchange of the same number is left alone."""
        if self._open[side].get(number) is end:
            del self._open[side][number]

    def exchange(
        self, frame: Exchange, transmit: Transmit, called: Callable[[Exchange, Transmit], ExchangeEnd | None]
    ) -> None:
        """Takes EXCHANGE; `called` says who answers a new one."""
        side = RESPONDER if frame.flags & m.RESPONDER else CALLER
        if side == RESPONDER and frame.flags & m.FIRST:
            end = called(frame, transmit)
            if end is None:
                transmit(Cancel(RESPONDER, frame.number, m.DONE_CODE, "nobody serves here any more"))
                return
            self._open[RESPONDER][frame.number] = end
        else:
            end = self._open[side].get(frame.number)
        # What was on its way when this side ended the exchange is dropped.
        if end is not None:
            end.take(frame)

    def ended(self, frame: Ended) -> None:
        end = self._open[frame.side].get(frame.number)
        if end is not None:
            end.fail(TideraceError(frame.name, frame.sentence, frame.code))

    def lost(self, reason: TideraceError) -> None:
        """The connection is gone, and all exchanges with it."""
        for side in self._open:
            for end in list(side.values()):
                end.fail(TideraceError("connection-lost", str(reason)))
            side.clear()
