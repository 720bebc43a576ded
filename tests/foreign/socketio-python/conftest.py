"""python-socketio 4 or 5, whichever is installed, against a running server.

A `Peer` is one client whose events go into queues, so that a test reads the conversation in order.
Waits only bound failure.
"""

import itertools
import os
import queue
import threading
import urllib.parse

import engineio.client
import engineio.payload
import pytest
import requests
import socketio

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
BASE = "http://" + os.environ.get("TIDERACE_STOMP", "127.0.0.1:7800")
TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")
LIMITED = {"user": "limited", "password": "limited-passcode"}
MAJOR = 5 if hasattr(socketio, "SimpleClient") else 4
MODES = {"polling": ["polling"], "websocket": ["websocket"], "upgrade": ["polling", "websocket"]}
EVENTS = ["message", "job", "request", "said", "ended", "problem"]

# Without this the client gives up on a payload of more than 16 packets, which any burst is.
engineio.payload.Payload.max_decode_packets = 10_000
if MAJOR == 4:
    # The client gives up if a pong has not come by its next ping, one second later, whatever `pingTimeout` the server has
    # told it; a machine that is busy may take longer. Whether the server still answers is seen by what the tests wait for.
    # Once the connection has ended, it is for want of a pong that its loop of pings ends.
    engineio.client.Client.pong_received = property(
        lambda self: not (self.ping_loop_event and self.ping_loop_event.is_set()), lambda self, value: None
    )

_serial = itertools.count(1)


def unique(prefix="t"):
    return f"{prefix}-pysio{MAJOR}-{os.getpid()}-{next(_serial)}"


def publish(topic, value):
    """Publishes by plain HTTP, for what should come from elsewhere."""
    headers = {"Authorization": f"Bearer {TOKEN}"}
    requests.post(f"{BASE}/topics/{topic}", json=value, headers=headers, timeout=WAIT).raise_for_status()


class Peer:
    def __init__(self, mode, auth=None, namespace="/", reconnection=False, more=()):
        self.namespace = namespace
        self.inboxes = {name: queue.Queue() for name in [*EVENTS, *more, "connect", "connect_error", "disconnect"]}
        self.answers = {}
        self.client = socketio.Client(
            reconnection=reconnection, reconnection_delay=0.2, reconnection_delay_max=0.2, randomization_factor=0
        )
        trigger = self.client.eio._trigger_event

        def in_order(event, *arguments, **options):
            # The client starts a thread for each message, which loses their order.
            return trigger(event, *arguments, **options | {"run_async": False})

        self.client.eio._trigger_event = in_order
        for name in self.inboxes:
            self.client.on(name, self._listener(name), namespace=namespace)
        auth = {"token": TOKEN} if auth is None else auth
        if MAJOR == 5:
            self.client.connect(BASE, transports=MODES[mode], auth=auth, namespaces=[namespace], wait_timeout=WAIT)
        else:
            query = urllib.parse.urlencode(auth)
            self.client.connect(f"{BASE}?{query}", transports=MODES[mode], namespaces=[namespace])
            self.next("connect")

    def _listener(self, name):
        def listener(*arguments):
            self.inboxes[name].put(arguments)
            # What a handler returns is the ack: here, whatever the test has laid ready.
            answer = self.answers.get(name)
            return answer(*arguments) if answer else None

        return listener

    def next(self, name="message"):
        return self.inboxes[name].get(timeout=WAIT)

    def values(self, count):
        return [self.next()[1] for _ in range(count)]

    def emit(self, event, *arguments):
        self.client.emit(event, arguments, namespace=self.namespace)

    def ask(self, event, *arguments):
        """Emits and waits for the ack."""
        return self.client.call(event, arguments, namespace=self.namespace, timeout=WAIT)

    def done(self, event, *arguments):
        answer = self.ask(event, *arguments)
        assert answer["ok"] is True, (event, answer)
        return answer

    def transport(self):
        return self.client.transport() if callable(self.client.transport) else self.client.transport

    def cut(self):
        """Ends the connection as a network does."""
        engine = self.client.eio
        if engine.ws is not None:
            engine.ws.sock.shutdown(2)
        else:
            request = engine.http.request

            def fail(method, *arguments, **options):
                if method != "GET":
                    return request(method, *arguments, **options)
                engine.http.request = request
                # Otherwise the client waits nine seconds for its own writer before it comes back.
                engine.queue.put(None)
                raise requests.exceptions.ConnectionError

            engine.http.request = fail

    def close(self):
        try:
            self.client.disconnect()
        except Exception as problem:  # it may be gone already
            print(problem)


@pytest.fixture(params=MODES)
def peer(request):
    """Makes connected clients of one mode, and disconnects them afterwards."""
    made = []

    def make(**options):
        made.append(Peer(request.param, **options))
        return made[-1]

    make.mode = request.param
    yield make
    closing = [threading.Thread(target=one.close) for one in made]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join(WAIT)
