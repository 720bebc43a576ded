"""One session over one WebSocket: reads, writes and watches, until either side ends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.typing import Subprotocol

from ._errors import TideraceError, malformed
from ._session import Liveness, Session

log = logging.getLogger("tiderace")

SUBPROTOCOL = Subprotocol("tiderace.v1")
#: Messages of WebSocket that are read ahead of what is taken in.
READ_AHEAD = 8
#: Seconds for a goodbye to be sent.
GOODBYE_TIMEOUT = 2.0


@dataclass
class CarrierOptions:
    """What concerns the WebSocket alone; times in seconds."""

    connect_timeout: float
    pong_timeout: float
    receive_max: int
    ssl: ssl.SSLContext | None
    proxy: str | bool | None


class Counters:
    """Bytes as they came and went, without the frames of WebSocket."""

    def __init__(self) -> None:
        self.bytes_received = 0
        self.bytes_sent = 0


async def open_socket(url: str, options: CarrierOptions) -> ClientConnection:
    """Raises `unreachable`, with what happened."""
    try:
        return await connect(
            url,
            subprotocols=[SUBPROTOCOL],
            compression=None,
            open_timeout=options.connect_timeout,
            ping_interval=None,
            close_timeout=GOODBYE_TIMEOUT,
            max_size=options.receive_max,
            max_queue=READ_AHEAD,
            ssl=(options.ssl or True) if url.startswith("wss:") else None,
            proxy=None if options.proxy is False else options.proxy,
        )
    except InvalidStatus as error:
        answer = error.response
        body = bytes(answer.body or b"")[:200].decode(errors="replace").strip()
        raise TideraceError("unreachable", f"{url} answers HTTP {answer.status_code} {body}".strip()) from error
    except TimeoutError as error:
        raise TideraceError("unreachable", f"{url}: no connection in time") from error
    except asyncio.TimeoutError as error:  # its own class until Python 3.11
        raise TideraceError("unreachable", f"{url}: no connection in time") from error
    except (InvalidHandshake, InvalidURI, OSError, EOFError, ValueError) as error:
        raise TideraceError("unreachable", f"{url}: {error or type(error).__name__}") from error


class Connection:
    """Invariant: when `run` returns, the session has ended and nothing of the connection is left."""

    def __init__(
        self,
        socket: ClientConnection,
        session: Session,
        liveness: Liveness,
        counters: Counters,
        drained: Callable[[], None],
    ) -> None:
        self._socket = socket
        self._session = session
        self._liveness = liveness
        self._counters = counters
        self._drained = drained
        self._output = asyncio.Event()
        self._look = asyncio.Event()
        self._ended = asyncio.Event()

    def has_output(self) -> None:
        self._output.set()

    def welcomed(self) -> None:
        """The times to look for signs of life have changed."""
        self._look.set()

    def ended(self) -> None:
        """The session is over."""
        self._ended.set()

    async def run(self) -> None:
        tasks = [asyncio.ensure_future(part()) for part in (self._read, self._write, self._watch, self._over)]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, Exception):
                    log.error("the connection failed by a defect of the client", exc_info=outcome)
                    self._session.fail(TideraceError("internal-error", f"a defect of the client: {outcome!r}"))
            self._session.fail(TideraceError("connection-lost", "the connection was given up"))
            await self._close()

    async def _read(self) -> None:
        session, loop = self._session, asyncio.get_running_loop()
        try:
            while session.end is None:
                data = await self._socket.recv()
                if isinstance(data, str):
                    raise malformed("the server sent text, and messages are binary")
                self._liveness.heard(loop.time())
                self._counters.bytes_received += len(data)
                session.receive(data)
        except ConnectionClosed as closed:
            session.fail(lost(closed))
        except TideraceError as error:
            session.fail(error)

    async def _write(self) -> None:
        session = self._session
        try:
            while session.end is None:
                await self._output.wait()
                self._output.clear()
                while batch := session.output():
                    await self._socket.send(batch)
                    self._counters.bytes_sent += len(batch)
                    self._drained()
        except ConnectionClosed as closed:
            session.fail(lost(closed))

    async def _watch(self) -> None:
        session, liveness, loop = self._session, self._liveness, asyncio.get_running_loop()
        while session.end is None:
            due = liveness.due(loop.time())
            if isinstance(due, TideraceError):
                session.fail(due)
                return
            if due:
                session.ping(lambda: None)
                liveness.asked(loop.time())
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._look.wait(), max(liveness.next() - loop.time(), 0))
            self._look.clear()

    async def _over(self) -> None:
        await self._ended.wait()

    async def _close(self) -> None:
        """In good order after a goodbye, at once otherwise."""
        if self._session.end is not None and not self._session.end.again:
            with contextlib.suppress(ConnectionClosed, asyncio.TimeoutError):
                await asyncio.wait_for(self._goodbye(), GOODBYE_TIMEOUT)
        self._socket.transport.abort()

    async def _goodbye(self) -> None:
        while batch := self._session.output():
            await self._socket.send(batch)
        await self._socket.close()


def lost(closed: ConnectionClosed) -> TideraceError:
    """Why a WebSocket ended."""
    frame = closed.rcvd
    if frame is None and closed.sent is not None and closed.sent.reason:
        return TideraceError("connection-lost", f"the client closed the WebSocket: {closed.sent.reason}")
    if frame is None:
        return TideraceError("connection-lost", "the connection was lost")
    return TideraceError(
        "connection-lost", f"the WebSocket was closed ({frame.code} {frame.reason})".replace(" )", ")")
    )
