"""Keeps one connection: chooses the address, connects, and connects again after a loss.

    connecting -> connected -> waiting -> connecting ...      any -> closed

Invariant: at most one session lives; one that was replaced is not heard any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from random import Random
from typing import Literal, Protocol

from ._addresses import Addresses
from ._backoff import Backoff
from ._client_frames import Hello
from ._connection import GOODBYE_TIMEOUT, CarrierOptions, Connection, Counters, log, open_socket
from ._errors import TideraceError
from ._server_frames import ServerFrame, Welcome
from ._session import End, Liveness, Session

#: Seconds: no advice of a server keeps a client away for longer.
ADVICE_MAX = 600.0


def advised(jitter_ms: int) -> float:
    """Seconds that a server advises to wait at most."""
    return min(jitter_ms / 1000, ADVICE_MAX)


@dataclass(frozen=True)
class State:
    """How a client is connected; fields that do not belong to its status are empty."""

    status: Literal["connecting", "connected", "waiting", "paused", "closed"]
    #: How many rounds of attempts in a row have failed.
    attempt: int = 0
    #: Seconds until the next round.
    delay: float = 0.0
    #: Why the last attempt or connection ended, or why it is closed.
    reason: TideraceError | None = None
    #: The WebSocket that it connects to, or is connected to.
    address: str = ""
    #: Who the client is at the server.
    name: str = ""
    #: The server's name and version.
    server: str = ""


class ConnectorEvents(Protocol):
    """Who is told of connections."""

    async def hello(self) -> Hello:
        """The first message of a connection; asked for anew each time."""

    def up(self, session: Session, welcome: Welcome) -> None: ...

    def frame(self, session: Session, frame: ServerFrame, size: int) -> None: ...

    def refused(self, error: TideraceError) -> None: ...

    def settled(self) -> None: ...

    def drained(self) -> None:
        """Bytes have left."""

    def down(self, reason: TideraceError) -> None:
        """A connection on which WELCOME had come is gone."""

    def state_is(self, state: State) -> None:
        """The state has changed."""


class _Link:
    """A session with its connection, as long as they live."""

    def __init__(self, connector: Connector, url: str, hello: Hello) -> None:
        self._connector = connector
        self._url = url
        self.connection: Connection | None = None
        self.session = Session(hello, self)
        self.liveness: Liveness | None = None

    def welcomed(self, welcome: Welcome) -> None:
        if self.liveness is not None and self.connection is not None:
            self.liveness.welcomed(asyncio.get_running_loop().time(), welcome.ping_ms)
            self.connection.welcomed()
        self._connector._welcomed(self._url, self.session, welcome)

    def frame(self, frame: ServerFrame, size: int) -> None:
        self._connector.events.frame(self.session, frame, size)

    def refused(self, error: TideraceError) -> None:
        self._connector.events.refused(error)

    def settled(self) -> None:
        self._connector.events.settled()

    def has_output(self) -> None:
        if self.connection is not None:
            self.connection.has_output()

    def ended(self, end: End) -> None:
        if self.connection is not None:
            self.connection.ended()
        if self.session.welcome is not None:
            self._connector.events.down(end.error)


class Connector:
    """See the module. `counters` count what all connections carry."""

    def __init__(
        self,
        addresses: Addresses,
        backoff: Backoff,
        carrier: CarrierOptions,
        random: Random,
        events: ConnectorEvents,
    ) -> None:
        self.state = State("waiting")
        self.counters = Counters()
        self.events = events
        self._addresses = addresses
        self._backoff = backoff
        self._carrier = carrier
        self._random = random
        self._link: _Link | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing: TideraceError | None = None
        self._paused = False
        #: The application wants the next round at once.
        self._hurry = False
        self._wake = asyncio.Event()
        #: Seconds that the server advises to wait at most, after a loss.
        self._advised = 0.0

    @property
    def session(self) -> Session | None:
        """The present one, once the server has let it in."""
        session = self._link.session if self._link else None
        return session if session and session.welcome and session.end is None else None

    def start(self) -> None:
        """Connects now, if there is no connection; ends a pause."""
        self._paused = False
        self._hurry = True
        self._wake.set()
        if self._task is None and self._closing is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def pause(self) -> None:
        """Gives the connection up, until `start`."""
        self._paused, self._hurry = True, False
        if self._link is not None:
            self._link.session.leave(TideraceError("connection-lost", "paused by the application"))

    def cut(self) -> None:
        """Drops the connection as a broken network would."""
        if self._link is not None:
            self._link.session.fail(TideraceError("connection-lost", "the connection was cut"))

    async def close(self, reason: TideraceError) -> None:
        """Takes leave."""
        if self._closing is None:
            self._closing = reason
            if self._link is not None:
                self._link.session.leave(reason)
        task = self._task
        if task is not None and not task.done():
            if self._link is not None:
                await asyncio.wait([task], timeout=2 * GOODBYE_TIMEOUT)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._enter(State("closed", reason=reason))

    def renamed(self, name: str) -> None:
        """The client is somebody else on its present connection."""
        if self.state.status == "connected":
            self._enter(replace(self.state, name=name))

    def _enter(self, state: State) -> None:
        if self.state.status != "closed":
            self.state = state
            self.events.state_is(state)

    def _welcomed(self, url: str, session: Session, welcome: Welcome) -> None:
        self._addresses.reached()
        self._advised = advised(welcome.jitter_ms)
        self._enter(State("connected", address=url, name=welcome.name, server=welcome.server))
        self.events.up(session, welcome)

    async def _run(self) -> None:
        try:
            await self._keep()
        except Exception as defect:
            log.exception("the client failed by a defect of its own")
            self._enter(State("closed", reason=TideraceError("internal-error", f"a defect of the client: {defect!r}")))

    async def _keep(self) -> None:
        attempt = 0
        while self._closing is None:
            self._hurry = False
            end, welcomed = await self._round(attempt)
            if self._closing is not None:
                return
            if end.told and not end.again:
                self._enter(State("closed", reason=end.error))
                return
            if welcomed:
                attempt = 0
            if self._paused:
                self._enter(State("paused", reason=end.error))
                self._wake.clear()
                await self._wake.wait()
            if self._hurry:
                continue
            delay = self._backoff.delay(attempt, self._advised, self._random)
            attempt += 1
            self._wake.clear()
            self._enter(State("waiting", attempt, delay, end.error))
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._wake.wait(), delay)

    async def _round(self, attempt: int) -> tuple[End, bool]:
        """Tries every address once, until one has let the client in; how the last one ended, and whether it had."""
        end = End(TideraceError("unreachable", "no address"))
        reason = self.state.reason
        for url in self._addresses.round():
            if self._paused or self._closing is not None:
                break
            self._enter(State("connecting", attempt, reason=reason, address=url))
            end, welcomed = await self._attempt(url)
            reason = end.error
            if end.jitter_ms is not None:
                self._advised = advised(end.jitter_ms)
            if end.told:
                self._addresses.advise(end.addresses, url)
            if welcomed or (end.told and not end.again):
                return end, welcomed
        return end, False

    async def _attempt(self, url: str) -> tuple[End, bool]:
        try:
            link = _Link(self, url, await self.events.hello())
            socket = await open_socket(url, self._carrier)
        except TideraceError as error:
            return End(error), False
        except Exception as thrown:  # the application's function that gets a token
            log.warning("no credentials for %s", url, exc_info=thrown)
            return End(TideraceError("unreachable", f"no credentials: {thrown!r}")), False
        now = asyncio.get_running_loop().time()
        link.liveness = Liveness(now, self._carrier.connect_timeout, self._carrier.pong_timeout)
        link.connection = Connection(socket, link.session, link.liveness, self.counters, self.events.drained)
        link.connection.has_output()
        self._link = link
        try:
            await link.connection.run()
        finally:
            self._link = None
        end = link.session.end
        assert end is not None
        return end, link.session.welcome is not None
