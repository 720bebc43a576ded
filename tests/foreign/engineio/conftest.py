"""Engine.IO by plain HTTP and plain WebSocket frames: the exact bytes of both revisions.

What is inside the packets is Socket.IO's text: a message `0{"token":…}` connects to the namespace `/`.
"""

import http.client
import json
import os
import pathlib
import sys

import pytest

sys.path.append(str(pathlib.Path(__file__).parents[1] / "raw"))

from wire import WAIT, address, unique  # noqa: E402
from wsclient import WebSocket, frame  # noqa: E402, F401

TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")
PATH = "/socket.io/"


class Answer:
    def __init__(self, response):
        self.status, self.body = response.status, response.read()
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    @property
    def text(self):
        return self.body.decode()

    @property
    def code(self):
        return json.loads(self.body)["code"]


class Client:
    """Requests on connections of their own: any of them may reach any shard."""

    def __init__(self, revision, query=""):
        self.revision, self.extra, self.sid, self.waiting = revision, query, None, []

    def query(self, **changes):
        fields = {"EIO": self.revision, "transport": "polling"} | ({"sid": self.sid} if self.sid else {}) | changes
        text = "&".join(f"{name}={value}" for name, value in fields.items() if value is not None)
        return text + (f"&{self.extra}" if self.extra else "")

    def begin(self, method="GET", body=None, headers=None, **changes):
        """Sends a request; its answer is read by `end`."""
        connection = http.client.HTTPConnection(*address(), timeout=WAIT)
        connection.request(method, f"{PATH}?{self.query(**changes)}", body, headers or {})
        return connection

    @staticmethod
    def end(connection):
        answer = Answer(connection.getresponse())
        connection.close()
        return answer

    def ask(self, method="GET", body=None, headers=None, **changes):
        return self.end(self.begin(method, body, headers, **changes))

    def post(self, payload, content_type="text/plain;charset=UTF-8"):
        payload = payload.encode() if isinstance(payload, str) else payload
        return self.ask("POST", payload, {"Content-Type": content_type})

    def packets(self, payload):
        """The packets of a text payload."""
        if self.revision == 4:
            return payload.split("\x1e")
        found, units = [], payload.encode("utf-16-le")
        while units:
            text = units.decode("utf-16-le", "replace")
            length, _, _ = text.partition(":")
            start = (len(length) + 1) * 2
            found.append(units[start : start + int(length) * 2].decode("utf-16-le"))
            units = units[start + int(length) * 2 :]
        return found

    def payload(self, *packets):
        if self.revision == 4:
            return "\x1e".join(packets)
        return "".join(f"{len(packet.encode('utf-16-le')) // 2}:{packet}" for packet in packets)

    def open(self):
        """The handshake, and what it says."""
        self.waiting = self.packets(self.ask().text)
        packet = self.waiting.pop(0)
        assert packet[0] == "0", packet
        handshake = json.loads(packet[1:])
        self.sid = handshake["sid"]
        return handshake

    def packet(self):
        """The next packet, whatever it is."""
        while not self.waiting:
            got = self.ask()
            assert got.status == 200, got.body
            self.waiting = self.packets(got.text)
        return self.waiting.pop(0)

    def next(self):
        """The next packet that is no heartbeat."""
        while True:
            packet = self.packet()
            if packet == "2" and self.revision == 4:
                assert self.post("3").text == "ok"
            elif packet != "6":
                return packet

    def connect(self):
        """Handshake and Socket.IO's CONNECT."""
        handshake = self.open()
        if self.revision == 4:
            assert self.post(self.payload('40{"token":"%s"}' % TOKEN)).text == "ok"
        assert self.next().startswith("40")
        return handshake

    def is_gone(self):
        """Whether the session has ended; its last words may wait for a poll."""
        got = self.ask()
        while got.status == 200 and set(self.packets(got.text)[-1:]) <= {"1", "6", "41"}:
            got = self.ask()
        return got.status == 400 and got.code == 1

    def upgrade(self, **changes):
        """A WebSocket for this session, or for none."""
        return socket_of(self.query(transport="websocket", **changes))


def socket_of(query):
    return WebSocket(path=f"{PATH}?{query}", Sec_WebSocket_Protocol=None)


def next_of(websocket, skip=("2", "3")):
    """The next message that is no heartbeat; None at the end."""
    while True:
        got = websocket.receive()
        if got is None or got[0] == 8:
            return None
        opcode, payload, _ = got
        packet = payload.decode() if opcode == 1 else payload
        if packet == "2" and "2" in skip:
            websocket.send("3")
        elif packet not in skip:
            return packet


@pytest.fixture
def client():
    return Client(4)


@pytest.fixture
def old():
    # Text payloads are easier to look at; the binary form has tests of its own.
    return Client(3, f"b64=1&token={TOKEN}")


@pytest.fixture
def topic():
    return unique("topic")
