"""rsocket-py against a running server, over TCP and WebSocket.

A test is a coroutine that is given `open`, which makes connected `Peer`s and closes them afterwards. What arrives on a
stream waits in a queue, so that a test reads the conversation in order. Waits only bound failure.
"""

import asyncio
import contextlib
import inspect
import itertools
import os
from datetime import timedelta

import aiohttp
import pytest
from reactivestreams.publisher import Publisher
from reactivestreams.subscriber import Subscriber
from reactivestreams.subscription import Subscription
from rsocket.extensions.composite_metadata import CompositeMetadata
from rsocket.extensions.helpers import authenticate_bearer, composite, metadata_item, route
from rsocket.extensions.mimetypes import WellKnownMimeTypes
from rsocket.frame import MAX_REQUEST_N
from rsocket.helpers import single_transport_provider
from rsocket.payload import Payload
from rsocket.request_handler import BaseRequestHandler
from rsocket.rsocket_client import RSocketClient
from rsocket.transports.aiohttp_websocket import TransportAioHttpClient
from rsocket.transports.tcp import TransportTCP

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
HOST, PORT = os.environ.get("TIDERACE_STOMP", "127.0.0.1:7800").rsplit(":", 1)
BASE = f"http://{HOST}:{PORT}"
TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")
PROPERTIES = b"message/x.tiderace.properties.v0"
OPTIONS = b"message/x.tiderace.options.v0"
MESSAGE = b"message/x.tiderace.message.v0"
TRANSPORTS = ["tcp", "websocket"]

_serial = itertools.count(1)


def unique(prefix):
    return f"{prefix}-rspy-{os.getpid()}-{next(_serial)}"


def within(awaitable, seconds=WAIT):
    return asyncio.wait_for(awaitable, seconds)


def request(to, data=b"", *more):
    """A request: its route, its data, and more items of metadata."""
    return Payload(data.encode() if isinstance(data, str) else data, composite(route(to), *more))


def lines(mime, values):
    return metadata_item("".join(f"{name}:{value}\n" for name, value in values.items()).encode(), mime)


def properties(**values):
    return lines(PROPERTIES, values)


def options(**values):
    return lines(OPTIONS, values)


def properties_of(payload, mime=PROPERTIES):
    """The properties that came with an item, or what else is said of it in lines."""
    found = CompositeMetadata()
    found.parse(payload.metadata or b"")
    text = b"".join(one.content for one in found.items if one.encoding == mime).decode()
    return dict(line.split(":", 1) for line in text.splitlines())


async def http(method, path, body=None):
    """Another protocol: plain HTTP."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession() as session:
        async with session.request(method, BASE + path, data=body, headers=headers) as answer:
            text = await answer.text()
            assert answer.ok, (method, path, answer.status, text)
            return text


class Stream(Subscriber):
    """The requester's end of a stream; `None` in the queue is its end, an exception its error."""

    def __init__(self):
        self.items, self.ended = asyncio.Queue(), asyncio.Event()

    def on_subscribe(self, subscription):
        self.subscription = subscription

    def on_next(self, value, is_complete=False):
        self.items.put_nowait(value)
        if is_complete:
            self.ended.set()

    def on_error(self, exception):
        self.items.put_nowait(exception)
        self.ended.set()

    def on_complete(self):
        self.ended.set()

    async def next(self):
        item = await within(self.items.get())
        if isinstance(item, Exception):
            raise item
        return item

    async def text(self):
        return (await self.next()).data.decode()

    async def texts(self, count):
        return [await self.text() for _ in range(count)]

    def request(self, n):
        self.subscription.request(n)

    def cancel(self):
        self.subscription.cancel()


class Outbox(Publisher, Subscription):
    """What is said in a channel: `say` queues it, credit lets it go."""

    def __init__(self):
        self.waiting, self.credit, self.over, self.cancelled = [], 0, False, False
        self.subscriber = None

    def subscribe(self, subscriber):
        self.subscriber = subscriber
        subscriber.on_subscribe(self)

    def request(self, n):
        self.credit += n
        self.flush()

    def cancel(self):
        self.cancelled = True

    def say(self, data):
        self.waiting.append(Payload(data.encode()))
        self.flush()

    def end(self):
        self.over = True
        self.flush()

    def flush(self):
        while self.subscriber and self.waiting and self.credit:
            self.credit -= 1
            self.subscriber.on_next(self.waiting.pop(0))
        if self.subscriber and self.over and not self.waiting:
            self.subscriber.on_complete()


class Handler(BaseRequestHandler):
    """What the server may ask a client for, and what it says of the connection."""

    def __init__(self):
        self.calls, self.errors, self.closed = asyncio.Queue(), asyncio.Queue(), asyncio.Event()

    async def request_response(self, payload):
        self.calls.put_nowait(payload)
        found = asyncio.get_running_loop().create_future()
        if payload.data == b"fail":
            found.set_exception(RuntimeError("sold out"))
        else:
            found.set_result(Payload(payload.data + b"!"))
        return found

    async def request_channel(self, payload):
        answers = Outbox()
        answers.say(payload.data.decode() + "!")

        class Hearing(Subscriber):
            def on_subscribe(self, subscription):
                subscription.request(MAX_REQUEST_N)

            def on_next(self, value, is_complete=False):
                answers.say(value.data.decode() + "!")
                if is_complete:
                    answers.end()

            def on_error(self, exception):
                answers.end()

            def on_complete(self):
                answers.end()

        return answers, Hearing()

    async def on_error(self, error_code, payload):
        self.errors.put_nowait((error_code, payload.data))

    async def on_close(self, rsocket, exception=None):
        self.closed.set()


class Peer:
    """One connected client."""

    @classmethod
    async def make(cls, kind, auth=None, mtu=None, lease=False, period=1.0, lifetime=20.0):
        self = cls()
        self.handler = Handler()
        if kind == "tcp":
            transport = TransportTCP(*await asyncio.open_connection(HOST, int(PORT)))
        else:
            transport = TransportAioHttpClient(f"ws://{HOST}:{PORT}/rsocket")
        self.client = RSocketClient(
            single_transport_provider(transport),
            handler_factory=lambda: self.handler,
            honor_lease=lease,
            data_encoding=WellKnownMimeTypes.TEXT_PLAIN,
            metadata_encoding=WellKnownMimeTypes.MESSAGE_RSOCKET_COMPOSITE_METADATA,
            keep_alive_period=timedelta(seconds=period),
            max_lifetime_period=timedelta(seconds=lifetime),
            setup_payload=Payload(b"", composite(auth or authenticate_bearer(TOKEN))),
            fragment_size_bytes=mtu,
        )
        await within(self.client.connect())
        return self

    async def respond(self, to, data=b"", *more):
        return (await within(self.client.request_response(request(to, data, *more)))).data

    async def fire(self, to, data):
        await within(self.client.fire_and_forget(request(to, data)))

    def stream(self, to, n=MAX_REQUEST_N, data=b"", *more):
        found = Stream()
        self.client.request_stream(request(to, data, *more)).initial_request_n(n).subscribe(found)
        return found

    def channel(self, to, first, publisher=None, n=MAX_REQUEST_N):
        found = Stream()
        self.client.request_channel(request(to, first), publisher).initial_request_n(n).subscribe(found)
        return found

    async def close(self):
        with contextlib.suppress(Exception):
            await within(self.client.close())


async def until(so):
    """Asks again until it is so; the whole has the same limit as any wait."""
    deadline = asyncio.get_running_loop().time() + WAIT
    while True:
        try:
            if await so():
                return
        except Exception:
            if asyncio.get_running_loop().time() > deadline:
                raise
        assert asyncio.get_running_loop().time() < deadline, "it never came to be"


@pytest.fixture(params=TRANSPORTS)
def open(request):
    """Names the transport; the coroutine is given what opens peers on it instead."""
    return request.param


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """Runs a test that is a coroutine."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    others = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames if name != "open"}
    kind = pyfuncitem.funcargs["open"]

    async def hold():
        made = []

        async def make(**options):
            made.append(await Peer.make(kind, **options))
            return made[-1]

        try:
            await asyncio.wait_for(pyfuncitem.obj(make, **others), 6 * WAIT)
        finally:
            await asyncio.gather(*(one.close() for one in made))

    asyncio.run(hold())
    return True
