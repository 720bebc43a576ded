"""What the parts of a client share: one connection that is kept, and what the application has begun on it.

Invariant: what waits to be sent is bounded by `send_max`; whatever depends on a connection is answered at the latest
when that ends.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from . import _messages as m
from ._addresses import Addresses
from ._backoff import Backoff
from ._client_frames import (
    Anonymous,
    Auth,
    ClientFrame,
    Declare,
    Destination,
    Hello,
    Login,
    Operate,
    Password,
    Publish,
    Token,
)
from ._client_frames import (
    Credit as CreditFrame,
)
from ._connection import CarrierOptions, log
from ._connector import Connector, State
from ._content import Encoded, decode_properties, decode_value, to_json
from ._credit import Credit
from ._errors import TideraceError, malformed
from ._exchanges import Exchanges
from ._framing import encode
from ._interest import Interest
from ._position import Position
from ._progress import TopicCounts
from ._registry import Registry
from ._server_frames import (
    Ended,
    Entry,
    Exchange,
    LoggedIn,
    PositionFrame,
    Queued,
    Result,
    ServerFrame,
    Updates,
    Welcome,
)
from ._session import Answer, Session

TokenSource = str | Callable[[], str | Awaitable[str]]

#: Operations that read under way at a time (docs/protocol.md, section 4).
READS_MAX = 16


class Counts(TopicCounts):
    """What has been counted since the client was made."""

    def __init__(self) -> None:
        super().__init__()
        self.connections = 0
        #: As they came and went, without the frames of WebSocket.
        self.bytes_received = 0
        self.bytes_sent = 0


@dataclass
class Settings:
    """What an application may choose."""

    addresses: list[str]
    user: str | None
    password: str | None
    token: TokenSource | None
    name: str
    host: str | None
    codecs: tuple[int, ...]
    window: int
    send_max: int
    backoff: Backoff
    carrier: CarrierOptions
    on_state: Callable[[State], None] | None
    on_error: Callable[[TideraceError], None] | None


class Core:
    """See the module."""

    def __init__(self, settings: Settings) -> None:
        random = Random()
        self.settings = settings
        self.counts = Counts()
        self.exchanges = Exchanges()
        self.reads = asyncio.Semaphore(READS_MAX)
        #: Told of every connection: wills are said anew.
        self.on_up: list[Callable[[], None]] = []
        #: Told when a connection is gone, or the client is closed: locks are lost.
        self.on_down: set[Callable[[], None]] = set()
        self._registry = Registry(self.refused)
        self._credit = Credit(settings.window)
        self._position: Position | None = None
        #: Of another life of the server, until that tells where this client is.
        self._renewed: Position | None = None
        self._last_epoch: bytes | None = None
        #: Who waits for a connection, or for room: with the bytes that each wants to send.
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._promised = 0
        #: Paths published to on this connection: seen once (0), or declared under a number.
        self._declared: dict[tuple[int, str], int] = {}
        self._declarations = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed: list[asyncio.Future[None]] = []
        addresses = Addresses(settings.addresses, random)
        self._connector = Connector(addresses, settings.backoff, settings.carrier, random, self)

    # The connection's life.

    @property
    def state(self) -> State:
        return self._connector.state

    @property
    def connector(self) -> Connector:
        return self._connector

    async def hello(self) -> Hello:
        settings = self.settings
        position = b"" if self._position is None else self._position.encode()
        return Hello(await self.auth(), settings.codecs, settings.name, position, settings.host)

    async def auth(self) -> Auth:
        """What the client shows; a function that gets a token is asked each time."""
        settings = self.settings
        if settings.token is not None:
            token = settings.token if isinstance(settings.token, str) else settings.token()
            return Token(await token if inspect.isawaitable(token) else token)
        if settings.user is not None:
            return Password(settings.user, settings.password or "")
        return Anonymous()

    def up(self, session: Session, welcome: Welcome) -> None:
        epoch = welcome.epoch
        self.counts.connections += 1
        restarted = self._position is not None and self._position.epoch != epoch
        renewed = self._last_epoch is not None and self._last_epoch != epoch
        self._renewed = Position(epoch) if restarted else None
        self._last_epoch = epoch
        if self._position is None:
            self._position = Position(epoch)
        self._declared = {}
        self._declarations = 0
        self._credit.begin(lambda size: session.send(CreditFrame(size)))
        self._registry.up(session, restarted, renewed)
        for told in self.on_up:
            told()
        self._let_in()

    def down(self, reason: TideraceError) -> None:
        self._credit.end()
        self._registry.down()
        self.exchanges.lost(reason)
        for told in list(self.on_down):
            told()

    def state_changed(self) -> asyncio.Future[None]:
        """Done when the state changes next."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._changed.append(future)
        return future

    def state_is(self, state: State) -> None:
        if state.status == "closed":
            reason = state.reason or TideraceError("closed", "closed")
            while self._waiting:
                self._release_first()
            self._registry.close(reason)
        changed, self._changed = self._changed, []
        for future in changed:
            if not future.done():
                future.set_result(None)
        if self.settings.on_state is not None:
            guarded(self.settings.on_state, state)

    def frame(self, session: Session, frame: ServerFrame, size: int) -> None:
        if isinstance(frame, Updates | Queued):
            self._credit.received(size)
            self._registry.frame(frame)
        elif isinstance(frame, PositionFrame):
            self._advance(frame)
        elif isinstance(frame, Exchange):
            self.exchanges.exchange(frame, session.send, self._registry.called)
        elif isinstance(frame, Ended):
            self.exchanges.ended(frame)
        else:
            self._registry.frame(frame)

    def settled(self) -> None:
        self._credit.grant()

    def drained(self) -> None:
        self._let_in()

    def refused(self, error: TideraceError) -> None:
        """Something was refused that nobody waits for."""
        if self.settings.on_error is not None:
            guarded(self.settings.on_error, error)
        else:
            log.warning("refused: %s", error)

    def _advance(self, frame: PositionFrame) -> None:
        if self._renewed is not None:
            self._position, self._renewed = self._renewed, None
            self._registry.moved()
        if self._position is not None:
            self._position.advance(frame.homes)

    async def close(self) -> None:
        await self._connector.close(TideraceError("closed", "closed by the application"))
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # What the parts ask of it.

    def held(self, size: int) -> None:
        """Bytes that begin, or cease, to wait for the application."""
        self._credit.hold(size)

    def add(self, interest: Interest) -> None:
        # What cannot be written is refused here, and not on some later connection.
        encode(interest.wish.subscribe(0, 0, interest.wish.flags))
        if self.state.status == "closed":
            interest.failed(self._closed())
        else:
            self._registry.add(interest)

    async def remove(self, interest: Interest) -> None:
        """Returns when the server has let go of it."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._registry.remove(interest, lambda: None if future.done() else future.set_result(None))
        await future

    def drop(self, interest: Interest) -> None:
        """The same, without waiting."""
        self._registry.remove(interest)

    def id_of(self, interest: Interest) -> int | None:
        return self._registry.id_of(interest)

    @property
    def session(self) -> Session | None:
        return self._connector.session

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs something that belongs to the client, and ends with it at the latest."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def admit(self, size: int) -> Session:
        """The session, once there is one with room for so many bytes; in the order in which it was asked for."""
        first = True
        while True:
            if self.state.status == "closed":
                raise self._closed()
            session = self.session
            if session is not None and self._has_room(session, size) and not (first and self._waiting):
                return session
            first = False
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            row = (future, size)
            self._waiting.append(row)
            try:
                await future
                self._promised -= size
            except asyncio.CancelledError:
                if future.done() and not future.cancelled():
                    self._promised -= size
                    self._let_in()
                elif row in self._waiting:
                    self._waiting.remove(row)
                raise

    def _has_room(self, session: Session, size: int) -> bool:
        waiting = session.buffered + self._promised
        return not waiting or waiting + size <= self.settings.send_max

    def _let_in(self) -> None:
        session = self.session
        while session is not None and self._waiting and self._has_room(session, self._waiting[0][1]):
            self._release_first()

    def _release_first(self) -> None:
        future, size = self._waiting.popleft()
        if not future.done():
            self._promised += size
            future.set_result(None)

    async def request(self, size: int, build: Callable[[int, Session], ClientFrame]) -> Answer:
        """Sends a request as soon as there is a connection, and gives its answer; a refusal is raised."""
        session = await self.admit(size)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        session.request(
            lambda number: build(number, session),
            lambda answer: None if future.done() else future.set_result(answer),
        )
        answer = await future
        if isinstance(answer, TideraceError):
            raise TideraceError(answer.name, answer.sentence, answer.code)
        return answer

    async def round_trip(self) -> None:
        """Returns when what the server had on its way has come."""
        session = await self.admit(0)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        session.ping(lambda: None if future.done() else future.set_result(None))
        await future

    async def login(self, auth: Auth) -> str:
        answer = await self.request(0, lambda number, _: Login(number, auth))
        if not isinstance(answer, LoggedIn):
            raise malformed("LOGIN is answered by another message than LOGGED_IN")
        return answer.name

    async def publish(
        self, kind: int, path: str, flags: int, value: Encoded, expires: float | None, confirm: bool
    ) -> None:
        """Returns when the server has it, or without `confirm` when it is on its way."""
        flags |= value.flags | (0 if expires is None else m.EXPIRES)
        expires_ms = 0 if expires is None else milliseconds(expires)

        def build(number: int, session: Session) -> Publish:
            destination = self._destination(session, kind, path)
            return Publish(number, flags, destination, value.body, value.properties, expires_ms)

        if confirm:
            await self.request(value.size, build)
        else:
            session = await self.admit(value.size)
            session.send(build(0, session))

    def _destination(self, session: Session, kind: int, path: str) -> Destination:
        """From the second time on a path is published to, a number stands for it."""
        key = (kind, path)
        known = self._declared.get(key)
        if known:
            return Destination(declared=known)
        most = session.welcome.declarations_max if session.welcome else 0
        if known == 0 and self._declarations < most:
            self._declarations += 1
            self._declared[key] = self._declarations
            session.send(Declare(self._declarations, kind, path))
            return Destination(declared=self._declarations)
        if known is None and len(self._declared) < most:
            self._declared[key] = 0
        return Destination(kind, path)

    async def operate(self, operation: dict[str, Any], body: bytes | None = None) -> dict[str, Any]:
        """Does what docs/protocol.md, section 12, says; fields that are `None` are left away."""
        text = to_json({name: value for name, value in operation.items() if value is not None})
        size = len(text) + len(body or b"")
        answer = await self.request(size, lambda number, _: Operate(number, text, body))
        if not isinstance(answer, Result):
            raise malformed("OPERATE is answered by another message than RESULT")
        return result_of(answer)

    async def read(self, operation: dict[str, Any]) -> dict[str, Any]:
        """An operation that reads: the server answers only so many of these at a time."""
        async with self.reads:
            return await self.operate(operation)

    def _closed(self) -> TideraceError:
        reason = self.state.reason or TideraceError("closed", "closed")
        return TideraceError(reason.name, reason.sentence, reason.code)


def result_of(answer: Result) -> dict[str, Any]:
    """The result of an operation, with the values that came beside it in their places."""
    try:
        result = json.loads(answer.result)
        rows = [row for name in ("topics", "events", "messages") for row in _rows(result, name)]
        entries = iter(answer.entries)
        for row in rows:
            if "bytes" in row:
                _fill(row, next(entries))
    except (ValueError, RecursionError, StopIteration, AttributeError, TypeError):
        raise malformed("the result of an operation is not what the protocol says") from None
    return dict(result)


def _rows(result: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = result.get(name)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def _fill(row: dict[str, Any], entry: Entry) -> None:
    del row["bytes"]
    row["value"] = decode_value(entry.flags, entry.properties, entry.body)
    if entry.properties is not None:
        row["properties"] = decode_properties(entry.properties)


def milliseconds(seconds: float) -> int:
    """No less than was said."""
    return max(0, -int(-seconds * 1000 // 1))


def guarded(told: Callable[..., object], *arguments: object) -> None:
    """Calls a function of the application; what it raises is logged and stops nothing."""
    try:
        told(*arguments)
    except Exception:
        log.exception("a function of the application failed")
