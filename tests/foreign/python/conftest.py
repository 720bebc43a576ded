"""stomp.py against a running server: connections of every version, over TCP and WebSocket.

A `Peer` is one stomp.py connection whose listener puts every frame into a queue, so that a test
reads the conversation in order. Waits only bound failure.
"""

import itertools
import os
import queue
import threading
from urllib.parse import urlsplit

import pytest
import stomp

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
LOGIN, PASSCODE = os.environ.get("TIDERACE_LOGIN", "tide:tide-passcode").split(":", 1)
HOST, PORT = os.environ.get("TIDERACE_STOMP", "127.0.0.1:7800").rsplit(":", 1)

_serial = itertools.count(1)
KINDS = ["1.0", "1.1", "1.2", "websocket"]


def unique(prefix):
    return f"{prefix}-py-{os.getpid()}-{next(_serial)}"


def is_quiet(peer, seconds=0.2):
    """Whether no message comes to a peer for so long."""
    try:
        peer.listener.of["message"].get(timeout=seconds)
    except queue.Empty:
        return True
    return False


class Listener(stomp.ConnectionListener):
    """Sorts what arrives by kind."""

    def __init__(self):
        self.of = {kind: queue.Queue() for kind in ("message", "receipt", "error", "beat", "disconnected")}
        self.connected = None
        self.ended = threading.Event()
        self.is_refused = False

    def on_connected(self, frame):
        self.connected = frame

    def on_message(self, frame):
        self.of["message"].put(frame)

    def on_receipt(self, frame):
        self.of["receipt"].put(frame)

    def on_error(self, frame):
        self.is_refused = True
        self.of["error"].put(frame)

    def on_heartbeat(self):
        self.of["beat"].put(True)

    def on_disconnected(self):
        self.of["disconnected"].put(True)
        self.ended.set()


class Peer:
    """A connection, and short words for what the tests do with it."""

    def __init__(self, kind, login=LOGIN, passcode=PASSCODE, heartbeats=(0, 0), **options):
        self.kind, self.listener = kind, Listener()
        self.connection = make(kind, heartbeats, options)
        self.connection.set_listener("", self.listener)
        headers = {"accept-version": "1.0"} if kind == "1.0" else {}
        self.connection.connect(login, passcode, wait=True, headers=headers)

    def next(self, kind="message"):
        return self.listener.of[kind].get(timeout=WAIT)

    def texts(self, count):
        return [self.next().body for _ in range(count)]

    def receipt(self, act, *args, **kwargs):
        """Does it with a receipt and waits for that receipt."""
        id = unique("r")
        act(*args, receipt=id, **kwargs)
        assert self.next("receipt").headers["receipt-id"] == id

    def subscribe(self, destination, id=None, **kwargs):
        id = id or unique("s")
        self.receipt(self.connection.subscribe, destination, id=id, **kwargs)
        return id

    def unsubscribe(self, id):
        self.receipt(self.connection.unsubscribe, id=id)

    def publish(self, destination, body, **kwargs):
        self.receipt(self.connection.send, destination, body, **kwargs)

    def ack(self, frame, **kwargs):
        self.answer(self.connection.ack, frame, **kwargs)

    def nack(self, frame, **kwargs):
        self.answer(self.connection.nack, frame, **kwargs)

    def answer(self, act, frame, **kwargs):
        headers = frame.headers
        if self.kind == "1.0":
            args = (headers["message-id"],)
        elif self.kind == "1.1":
            args = (headers["message-id"], headers["subscription"])
        else:
            args = (headers["ack"],)
        self.receipt(act, *args, **kwargs)

    def disconnect(self):
        id = unique("bye")
        self.connection.disconnect(receipt=id)

    def close(self):
        if self.listener.is_refused:
            # The server ends the connection behind an ERROR, at any moment.
            assert self.listener.ended.wait(timeout=WAIT)
        elif self.connection.is_connected():
            self.connection.disconnect()


def make(kind, heartbeats, options):
    vhost = options.pop("vhost", "localhost")
    shared = {"reconnect_attempts_max": 1, "timeout": WAIT} | options
    if kind == "websocket":
        parts = urlsplit(os.environ.get("TIDERACE_WS", f"ws://{HOST}:{PORT}/stomp"))
        return stomp.WSConnection(
            [(parts.hostname, parts.port)], ws_path=parts.path, vhost=vhost, heartbeats=heartbeats, **shared
        )
    address = [(HOST, int(PORT))]
    if kind == "1.0":
        return stomp.Connection10(address, **shared)
    make_one = stomp.Connection11 if kind == "1.1" else stomp.Connection12
    return make_one(address, vhost=vhost, heartbeats=heartbeats, **shared)


@pytest.fixture
def peer():
    """Makes connections and closes them afterwards."""
    made = []

    def make_one(kind="1.2", **options):
        made.append(Peer(kind, **options))
        return made[-1]

    yield make_one
    for one in made:
        one.close()


@pytest.fixture
def topic():
    return f"/topic/{unique('topic')}"


@pytest.fixture
def queue_name():
    return f"/queue/{unique('queue')}"
