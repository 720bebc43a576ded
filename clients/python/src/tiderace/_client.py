"""The client: what an application begins with."""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any

from . import _messages as m
from ._backoff import Backoff
from ._client_frames import Password, Token
from ._connection import CarrierOptions
from ._connector import State
from ._content import NOTHING, encode_value
from ._core import Core, Counts, Settings, TokenSource
from ._errors import TideraceError
from ._queue_operations import Queues
from ._queues import DurableSubscription, Queue
from ._services import EXCHANGE_BYTES_MAX, Conversation, Responder, ServiceHandler, begin, call
from ._topic_operations import Topics
from ._topics import Topic

DELTA_CODECS = {"tiderace": m.CODEC_TIDERACE, "vcdiff": m.CODEC_VCDIFF}


class Client:
    """One connection that is kept, and what the application has begun on it. Made by `connect`."""

    def __init__(self, settings: Settings, start_timeout: float | None) -> None:
        self._core = Core(settings)
        self._start_timeout = start_timeout
        #: What can be done with topics beyond publishing and subscribing.
        self.topics = Topics(self._core)
        #: What can be done with queues beyond sending and receiving.
        self.queues = Queues(self._core)

    async def __aenter__(self) -> Client:
        self.start()
        try:
            await self.connected(self._start_timeout)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def start(self) -> None:
        """Connects, without waiting for it; ends a pause, and a wait before the next attempt."""
        self._core.connector.start()

    async def connected(self, timeout: float | None = None) -> None:
        """Returns when there is a connection; raises when that is refused for good, or after `timeout` seconds."""

        async def wait() -> None:
            while self._core.session is None:
                if self.state.status == "closed":
                    reason = self.state.reason or TideraceError("closed", "closed")
                    raise TideraceError(reason.name, reason.sentence, reason.code)
                await self._core.state_changed()

        try:
            await asyncio.wait_for(wait(), timeout)
        except asyncio.TimeoutError:
            reason = self.state.reason
            raise TideraceError(
                "unreachable", f"no connection in {timeout:g} s: {reason or self.state.status}"
            ) from None

    @property
    def state(self) -> State:
        """How it is connected."""
        return self._core.state

    @property
    def counts(self) -> Counts:
        """What has been counted since the client was made."""
        counts, carried = self._core.counts, self._core.connector.counters
        counts.bytes_received, counts.bytes_sent = carried.bytes_received, carried.bytes_sent
        return counts

    def topic(self, path: str) -> Topic:
        """A topic, or with `*` a pattern of topics."""
        return Topic(self._core, path)

    def queue(self, path: str) -> Queue:
        """A queue."""
        return Queue(self._core, path)

    def durable(
        self, name: str, topics: str | list[str] | None = None, *, selector: str | None = None
    ) -> DurableSubscription:
        """A durable subscription of that name to topics; without topics, one that is there already.

        `selector`: only messages whose properties match this SQL-92 condition are gathered.
        """
        return DurableSubscription(self._core, name, topics, selector)

    async def call(
        self,
        service: str,
        value: Any = NOTHING,
        *,
        timeout: float = 30.0,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Any:
        """Asks a service and waits for its answer, `timeout` seconds at most. Cancelling the task gives the call up."""
        return await call(self._core, service, encode_value(value, type, properties), timeout)

    async def converse(
        self,
        service: str,
        value: Any = NOTHING,
        *,
        timeout: float = 0.0,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
        buffer: int = EXCHANGE_BYTES_MAX,
    ) -> Conversation:
        """Begins a conversation with a service; `value` is the first thing said.

        `timeout`: seconds that the other side may be silent; 0: as many as the server lets it. `buffer`: bytes that may
        wait for the application; more ends the conversation by `slow-consumer`.
        """
        encoded = encode_value(value, type, properties)
        return await begin(self._core, service, encoded, timeout, last=False, buffer=buffer)

    def serve(
        self,
        service: str,
        handler: ServiceHandler,
        *,
        concurrency: int = 100,
        buffer: int = EXCHANGE_BYTES_MAX,
    ) -> Responder:
        """Answers calls of a service, so many at a time. What the handler returns is the answer."""
        responder = Responder(self._core, service, handler, concurrency, buffer)
        self._core.add(responder)
        return responder

    async def login(self, token: str | None = None, *, user: str | None = None, password: str = "") -> str:
        """Shows a new token, or a name and password, on this connection and on those to come; the principal's name.

        Without arguments what was given to `connect` is shown again: a function that gets a token is asked anew.
        """
        settings = self._core.settings
        if token is None and user is None:
            return await self._core.login(await self._core.auth())
        name = await self._core.login(Token(token) if token is not None else Password(user or "", password))
        settings.token, settings.user, settings.password = token, user, password
        return name

    async def operate(self, operation: Mapping[str, Any], body: bytes | None = None) -> dict[str, Any]:
        """Does any operation as docs/protocol.md, section 12, writes it, such as `{"do": "fetch", "selector": "a/**"}`.

        `body` is the value's bytes, if it is not in the operation.
        """
        return await self._core.operate(dict(operation), body)

    def pause(self) -> None:
        """Gives the connection up until `start`; subscriptions stay and are recovered then."""
        self._core.connector.pause()

    def cut(self) -> None:
        """Drops the connection as a broken network would: for demonstrations and tests."""
        self._core.connector.cut()

    async def close(self) -> None:
        """Takes leave and ends everything."""
        await self._core.close()


def connect(
    addresses: str | Iterable[str],
    *,
    user: str | None = None,
    password: str | None = None,
    token: TokenSource | None = None,
    name: str = "tiderace-python",
    host: str | None = None,
    ssl: tls.SSLContext | None = None,
    proxy: str | bool | None = True,
    start_timeout: float | None = 30.0,
    connect_timeout: float = 8.0,
    pong_timeout: float = 8.0,
    reconnect_base: float = 1.0,
    reconnect_max: float = 30.0,
    window: int = 1024 * 1024,
    send_max: int = 4 * 1024 * 1024,
    receive_max: int = 64 * 1024 * 1024,
    delta_codecs: Iterable[str] = ("tiderace",),
    on_state: Callable[[State], None] | None = None,
    on_error: Callable[[TideraceError], None] | None = None,
) -> Client:
    """A client of a server, or of several that are as good as one another; use it by `async with`.

    `addresses`: `http://HOST:PORT` or `https://HOST`. `token`: a token, or a function (also `async`) that gets one and
    is asked before each connection. `name`: what the server's operators see. `host`: the virtual host that is meant.
    `start_timeout`: seconds that `async with` waits for the first connection. `reconnect_base`, `reconnect_max`:
    windows of the random delay before the next round, in seconds; the server's advice goes before the first. `window`:
    bytes that may be under way to this client, 0: any. `send_max`: bytes that may wait to be sent; publishers wait
    beyond that. `receive_max`: bytes of the largest message that is taken. `delta_codecs`: `tiderace`, `vcdiff`, the
    best first. `on_state` is told of every change of the connection, `on_error` of refusals that nobody waits for.
    """
    carrier = CarrierOptions(connect_timeout, pong_timeout, receive_max, ssl, proxy)
    settings = Settings(
        addresses=[addresses] if isinstance(addresses, str) else list(addresses),
        user=user,
        password=password,
        token=token,
        name=name,
        host=host,
        codecs=tuple(DELTA_CODECS[codec] for codec in delta_codecs),
        window=window,
        send_max=send_max,
        backoff=Backoff(reconnect_base, reconnect_max),
        carrier=carrier,
        on_state=on_state,
        on_error=on_error,
    )
    return Client(settings, start_timeout)
