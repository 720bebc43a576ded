"""One connection of the native protocol, from HELLO to its end: a state machine without I/O.

Bytes go in by `receive`, bytes come out by `output`. It cuts messages out of what arrives, matches answers to
requests, and says how the connection ended. Invariant: every request is answered exactly once, at the latest by the
end; `ended` is told once; no bytes of a server make it raise.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from . import _messages as m
from ._client_frames import Bye, ClientFrame, Hello, Ping
from ._errors import TideraceError, malformed
from ._framing import decode_server, encode
from ._server_frames import Close, Error, LoggedIn, Ok, Pong, Result, ServerFrame, Welcome

Answer = Ok | LoggedIn | Result | TideraceError
OnAnswer = Callable[[Answer], None]

#: Of one transport message, unless one message alone is larger.
BATCH_BYTES_MAX = 48 * 1024
#: Messages of one transport message; the server takes no more than 16,384 (docs/protocol.md, section 10).
BATCH_MESSAGES_MAX = 4096


@dataclass
class End:
    """Why a connection ended, and what the server advised."""

    error: TideraceError
    #: Whether the server said so itself, by CLOSE.
    told: bool = False
    again: bool = True
    jitter_ms: int | None = None
    addresses: list[str] = field(default_factory=list)


class SessionEvents(Protocol):
    """Who hears what a session has to tell."""

    def welcomed(self, welcome: Welcome) -> None: ...

    def frame(self, frame: ServerFrame, size: int) -> None:
        """A message that is not about the connection itself; `size` in bytes, type and length included."""

    def refused(self, error: TideraceError) -> None:
        """A request that wanted no answer was refused."""

    def settled(self) -> None:
        """All messages of a transport message were told."""

    def has_output(self) -> None:
        """There are bytes to be sent."""

    def ended(self, end: End) -> None: ...


class Session:
    """See the module."""

    def __init__(self, hello: Hello, events: SessionEvents) -> None:
        self.welcome: Welcome | None = None
        self.end: End | None = None
        #: Bytes that were given to be sent and have not left.
        self.buffered = 0
        self._events = events
        self._out: deque[bytes] = deque()
        self._requests: dict[int, OnAnswer] = {}
        self._next_request = 1
        self._pings: deque[Callable[[], None]] = deque()
        self.send(hello)

    def send(self, frame: ClientFrame) -> None:
        """Sends what wants no answer."""
        if self.end is not None:
            return
        message = encode(frame)
        self._out.append(message)
        self.buffered += len(message)
        self._events.has_output()

    def request(self, build: Callable[[int], ClientFrame], done: OnAnswer) -> None:
        """Sends what wants an answer."""
        if self.end is not None:
            done(self._lost())
            return
        number = self._next_request
        # What cannot be encoded is the caller's mistake, and takes no number.
        self.send(build(number))
        self._next_request = m.after(number)
        self._requests[number] = done

    def ping(self, done: Callable[[], None]) -> None:
        """Tells when the server has answered everything that was sent so far, or the connection is gone."""
        if self.end is not None:
            done()
            return
        self._pings.append(done)
        self.send(Ping())

    def output(self) -> bytes:
        """The next transport message; empty if nothing waits."""
        batch: list[bytes] = []
        size = 0
        out = self._out
        while out and len(batch) < BATCH_MESSAGES_MAX and (not batch or size + len(out[0]) <= BATCH_BYTES_MAX):
            message = out.popleft()
            size += len(message)
            batch.append(message)
        self.buffered -= size
        return b"".join(batch)

    def receive(self, data: bytes) -> None:
        """Takes in a transport message."""
        try:
            for frame, size in decode_server(data):
                if self.end is not None:
                    return
                self._take(frame, size)
            if self.end is None:
                self._events.settled()
        except TideraceError as error:
            self.fail(error)

    def fail(self, error: TideraceError) -> None:
        """Ends the connection as one that was lost."""
        self._finish(End(error))

    def leave(self, error: TideraceError) -> None:
        """Says goodbye; what waits to be sent is still there for `output`."""
        self.send(Bye())
        self._finish(End(error, again=False))

    def _take(self, frame: ServerFrame, size: int) -> None:
        if isinstance(frame, Ok):
            self._ok(frame)
        elif isinstance(frame, LoggedIn | Result):
            self._answer(frame.request, frame)
        elif isinstance(frame, Error):
            error = TideraceError(frame.name, frame.sentence, frame.code)
            if frame.request:
                self._answer(frame.request, error)
            else:
                self._events.refused(error)
        elif isinstance(frame, Welcome):
            self._welcomed(frame)
        elif isinstance(frame, Close):
            self._closed(frame)
        elif self.welcome is None:
            raise malformed(f"the server says {type(frame).__name__} before WELCOME")
        elif isinstance(frame, Pong):
            if self._pings:
                self._pings.popleft()()
        else:
            self._events.frame(frame, size)

    def _welcomed(self, welcome: Welcome) -> None:
        if self.welcome is not None:
            raise malformed("the server says WELCOME twice")
        if welcome.version != 1:
            raise malformed(f"the server speaks version {welcome.version}, this client speaks version 1")
        self.welcome = welcome
        self._events.welcomed(welcome)

    def _ok(self, frame: Ok) -> None:
        if frame.more >= max(len(self._requests), 1):
            raise malformed(f"the server answers {frame.more + 1} requests, and {len(self._requests)} wait")
        number = frame.first
        for _ in range(frame.more + 1):
            self._answer(number, frame)
            number = m.after(number)

    def _answer(self, number: int, answer: Answer) -> None:
        done = self._requests.pop(number, None)
        if done is not None:
            done(answer)

    def _closed(self, frame: Close) -> None:
        error = TideraceError(frame.name, frame.sentence, frame.code)
        # Being late is the network's fault as a rule, and the next one may be faster.
        again = frame.reconnect or frame.name.endswith("-timeout")
        self._finish(End(error, True, again, frame.jitter_ms, frame.addresses))

    def _finish(self, end: End) -> None:
        if self.end is not None:
            return
        self.end = end
        lost = self._lost()
        requests, self._requests = self._requests, {}
        for done in requests.values():
            done(lost)
        pings, self._pings = self._pings, deque()
        for pong in pings:
            pong()
        self._events.ended(end)

    def _lost(self) -> TideraceError:
        reason = "the connection is gone" if self.end is None else str(self.end.error)
        return TideraceError("connection-lost", f"no answer: {reason}")


class Liveness:
    """When to ask the server for a sign of life, and when to give it up; all times in seconds, given from outside."""

    def __init__(self, begun: float, connect_timeout: float, pong_timeout: float) -> None:
        self._heard_at = begun
        self._pong_timeout = pong_timeout
        self._every = 0.0
        self._deadline: float | None = begun + connect_timeout
        self._sentence = "no answer to HELLO in time"

    def welcomed(self, now: float, ping_ms: int) -> None:
        """From now on silence is noticed: as often as the server advises, or every 25 s."""
        self._every = max((ping_ms or 25_000) / 1000, 1.0)
        self._heard_at = now
        self._deadline = None

    def heard(self, now: float) -> None:
        self._heard_at = now
        if self._every:
            self._deadline = None

    def asked(self, now: float) -> None:
        """A PING was sent."""
        if self._deadline is None:
            self._deadline = now + self._pong_timeout
            self._sentence = "the server fell silent"

    def due(self, now: float) -> bool | TideraceError:
        """Whether to ask now, or why to give up."""
        if self._deadline is not None:
            return now >= self._deadline and TideraceError("connection-lost", self._sentence)
        return now >= self._heard_at + self._every

    def next(self) -> float:
        """When to look again."""
        return self._heard_at + self._every if self._deadline is None else self._deadline


def answer_of(answers: Iterable[Answer]) -> TideraceError | None:
    """The first refusal among the answers to requests that belong together."""
    return next((answer for answer in answers if isinstance(answer, TideraceError)), None)
