"""A server that says exactly what it is told to, and tells what it has heard."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.typing import Subprotocol

from tiderace import Client, connect
from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s
from tiderace._framing import decode_client, encode, split

F = TypeVar("F")

WELCOME = s.Welcome("ann", b"\x05", 30_000, 1 << 24, 10_000, 1000, 0, (1,), "fake/1")


class Peer:
    """One client's connection, as the server has it."""

    def __init__(self, socket: ServerConnection) -> None:
        self.socket = socket
        self.raw = b""
        self._heard: list[tuple[c.ClientFrame, bytes]] = []

    async def frame(self) -> c.ClientFrame:
        """The next message, whatever it is; `raw` has its bytes."""
        while not self._heard:
            data = await self.socket.recv()
            assert isinstance(data, bytes)
            ends = [size for _, _, size in split(data)]
            at = 0
            for frame, size in zip(decode_client(data), ends, strict=True):
                self._heard.append((frame, data[at : at + size]))
                at += size
        frame, self.raw = self._heard.pop(0)
        return frame

    async def hears(self, kind: type[F]) -> F:
        """The next message, which has to be of that type; credit is left aside unless it is wanted."""
        while True:
            frame = await self.frame()
            if isinstance(frame, kind):
                return frame
            assert isinstance(frame, c.Credit), f"{frame} instead of {kind.__name__}"

    async def says(self, *frames: s.ServerFrame) -> None:
        """All in one transport message."""
        await self.socket.send(b"".join(encode(frame) for frame in frames))

    async def bytes(self, data: bytes) -> None:
        await self.socket.send(data)

    async def welcomes(self, epoch: int = 5, features: int = 0, **more: Any) -> c.Hello:
        hello = await self.hears(c.Hello)
        fields = {
            name: getattr(WELCOME, name) for name in ("name", "ping_ms", "message_bytes_max", "subscriptions_max")
        }
        fields |= {"declarations_max": 1000, "jitter_ms": 0, "codecs": (1,), "server": "fake/1"}
        fields |= {"epoch": bytes([epoch]), "features": features, **more}
        await self.says(s.Welcome(**fields))
        return hello

    async def ok(self, request: int, more: int = 0) -> None:
        await self.says(s.Ok(request, more))

    async def update(self, number: int, version: int, body: str, flags: int = 1) -> None:
        """One update with its whole version; JSON unless `flags` say otherwise."""
        await self.says(updates(entry(number, version, body, flags)))

    def cut(self) -> None:
        self.socket.transport.abort()

    async def gone(self) -> None:
        """Returns when the client has closed the connection."""
        await self.socket.wait_closed()


def entry(number: int, version: int, body: str, flags: int = 1) -> s.UpdateEntry:
    return s.UpdateEntry(flags | m.FULL_VERSION, number, version, body.encode())


def updates(*entries: s.UpdateEntry) -> s.Updates:
    return s.Updates(list(entries))


class Fake:
    """Listens; each client that connects is a `Peer`."""

    def __init__(self) -> None:
        self._peers: asyncio.Queue[Peer] = asyncio.Queue()
        self._server: Server | None = None
        self._clients: list[Client] = []
        self.url = ""

    async def __aenter__(self) -> Fake:
        async def accepted(socket: ServerConnection) -> None:
            await self._peers.put(Peer(socket))
            await socket.wait_closed()

        subprotocols = [Subprotocol("tiderace.v1")]
        self._server = await serve(accepted, "127.0.0.1", 0, subprotocols=subprotocols, compression=None)
        port = next(iter(self._server.sockets)).getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self._clients:
            await client.close()
        assert self._server is not None
        self._server.close()

    async def peer(self) -> Peer:
        """The next connection."""
        return await self._peers.get()

    def client(self, **options: Any) -> Client:
        """A client of this server that has begun to connect."""
        client = connect(
            options.pop("addresses", self.url), **{"reconnect_base": 0.01, "reconnect_max": 0.05, **options}
        )
        client.start()
        self._clients.append(client)
        return client

    async def pair(self, **options: Any) -> tuple[Client, Peer]:
        """A client that was let in."""
        client = self.client(**options)
        peer = await self.peer()
        await peer.welcomes()
        await client.connected()
        return client, peer


class Recorder:
    """Remembers what it is called with."""

    def __init__(self) -> None:
        self.all: list[Any] = []

    def __call__(self, value: Any) -> None:
        self.all.append(value)

    def having(self, fits: Callable[[Any], bool]) -> list[Any]:
        return [value for value in self.all if fits(value)]
