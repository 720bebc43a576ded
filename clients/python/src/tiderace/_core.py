"""What the parts of a client share: one connection that is kept, and what the application has begun on it.

Invariant: whatever depends on a connection is answered at the latest when that ends.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from . import _messages as m
from ._addresses import Addresses
from ._admission import Admission
from ._backoff import Backoff
from ._client_frames import (
    Anonymous,
    Auth,
    ClientFrame,
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
from ._content import Encoded, to_json
from ._credit import Credit
from ._declarations import Declarations
from ._errors import TideraceError, malformed
from ._exchanges import Exchanges
from ._framing import encode
from ._interest import Interest
from ._position import Position
from ._progress import TopicCounts
from ._registry import Registry
from ._results import result_of
from ._server_frames import (
    Ended,
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
from ._times import milliseconds

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
        self._admission = Admission(settings.send_max, lambda: self.session, self._closed)
        self._declarations = Declarations()
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
        self._credit.begin(lambda size: session.send(CreditFrame(size)))
        self._registry.up(session, restarted, renewed)
        for told in self.on_up:
            told()
        self._admission.look()

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
            self._admission.end()
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
        self._admission.look()

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
        closed = self._closed()
        if closed is None:
            self._registry.add(interest)
        else:
            interest.failed(closed)

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
        return await self._admission.enter(size)

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
        self._connector.renamed(answer.name)
        return answer.name

    async def publish(
        self, kind: int, path: str, flags: int, value: Encoded, expires: float | None, confirm: bool
    ) -> None:
        """Returns when the server has it, or without `confirm` when it is on its way."""
        flags |= value.flags | (0 if expires is None else m.EXPIRES)
        expires_ms = 0 if expires is None else milliseconds(expires)

        def build(number: int, session: Session) -> Publish:
            destination = self._declarations.destination(session, kind, path)
            return Publish(number, flags, destination, value.body, value.properties, expires_ms)

        if confirm:
            await self.request(value.size, build)
        else:
            session = await self.admit(value.size)
            session.send(build(0, session))

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

    def _closed(self) -> TideraceError | None:
        """Why nothing can be begun any more."""
        state = self.state
        if state.status != "closed":
            return None
        reason = state.reason or TideraceError("closed", "closed")
        return TideraceError(reason.name, reason.sentence, reason.code)


def guarded(told: Callable[..., object], *arguments: object) -> None:
    """Calls a function of the application; what it raises is logged and stops nothing."""
    try:
        told(*arguments)
    except Exception:
        log.exception("a function of the application failed")
