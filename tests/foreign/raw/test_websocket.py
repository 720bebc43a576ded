"""STOMP over WebSocket: handshake, subprotocols, framing of either kind, control frames, close."""

import struct

import pytest

import wsclient
from wire import LOGIN, PASSCODE, Client, encode
from wsclient import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT


@pytest.fixture
def upgrade():
    opened = []

    def open_one(**changes):
        opened.append(wsclient.WebSocket(**changes))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


LOGIN_FRAME = encode("CONNECT", {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE})


class Stomp(Client):
    """The STOMP reader of this suite fed from WebSocket messages."""

    def __init__(self, websocket, opcode=TEXT):
        self.websocket, self.opcode = websocket, opcode
        self.version, self.buffer, self.beats = "1.2", bytearray(), 0
        from collections import deque

        self.kept = deque()

    def raw(self, data):
        self.websocket.send(data, self.opcode)

    def fill(self, deadline):
        got = self.websocket.receive()
        if got is None or got[0] == CLOSE:
            return False
        self.buffer += got[1] if got[0] in (TEXT, BINARY, CONTINUATION) else b""
        return True


@pytest.fixture
def stomp(upgrade):
    client = Stomp(upgrade())
    client.login()
    return client


def test_the_handshake_is_that_of_rfc_6455(upgrade):
    websocket = upgrade()
    assert websocket.status == 101
    assert websocket.headers["sec-websocket-accept"] == websocket.accept_expected()
    assert websocket.headers["upgrade"].lower() == "websocket"
    assert "sec-websocket-extensions" not in websocket.headers


@pytest.mark.parametrize(
    "offered, chosen",
    [
        ("v12.stomp", "v12.stomp"),
        ("v10.stomp", "v10.stomp"),
        ("v10.stomp, v11.stomp, v12.stomp", None),
        ("chat, v11.stomp", "v11.stomp"),
    ],
)
def test_a_stomp_subprotocol_is_chosen_from_those_offered(upgrade, offered, chosen):
    websocket = upgrade(Sec_WebSocket_Protocol=offered)
    assert websocket.status == 101
    answer = websocket.headers["sec-websocket-protocol"]
    assert answer == chosen if chosen else answer in offered.split(", ")


def test_without_a_subprotocol_the_path_decides(upgrade):
    websocket = upgrade(Sec_WebSocket_Protocol=None)
    assert websocket.status == 101
    assert "sec-websocket-protocol" not in websocket.headers
    assert Stomp(websocket).login()["version"] == "1.2"


@pytest.mark.parametrize("opcode", [TEXT, BINARY])
def test_a_conversation_in_either_kind_of_frame(upgrade, topic, opcode):
    client = Stomp(upgrade(), opcode)
    client.login()
    client.subscribe(topic)
    client.publish(topic, "through the window")
    assert client.message().text == "through the window"
    client.send("DISCONNECT", {"receipt": "bye"})
    client.receipt("bye")
    client.closed()


def test_tcp_and_websocket_meet(stomp, clients, topic, queue):
    (tcp,) = clients(1)
    stomp.subscribe(topic)
    tcp.subscribe(queue)
    tcp.publish(topic, "to the browser")
    stomp.publish(queue, "to the server")
    assert stomp.message().text == "to the browser"
    assert tcp.message().text == "to the server"


def test_several_frames_in_one_message(upgrade, topic):
    websocket = upgrade()
    frames = [LOGIN_FRAME, encode("SUBSCRIBE", {"id": "1", "destination": topic, "receipt": "s"})]
    websocket.send(b"".join(frames + [encode("SEND", {"destination": topic}, str(n)) for n in range(10)]))
    client = Stomp(websocket)
    assert client.frame().command == "CONNECTED"
    client.receipt("s")
    assert [m.text for m in client.messages(10)] == [str(n) for n in range(10)]


def test_one_frame_over_several_messages(stomp, topic):
    stomp.subscribe(topic)
    data = encode("SEND", {"destination": topic}, "in pieces")
    for at in range(0, len(data), 7):
        stomp.websocket.send(data[at : at + 7])
    assert stomp.message().text == "in pieces"


def test_one_frame_over_several_fragments_with_a_ping_between(stomp, topic):
    stomp.subscribe(topic)
    data = encode("SEND", {"destination": topic}, "in fragments")
    stomp.websocket.send(data[:10], TEXT, fin=False)
    stomp.websocket.send(b"are you there", PING)
    stomp.websocket.send(data[10:20], CONTINUATION, fin=False)
    stomp.websocket.send(data[20:], CONTINUATION)
    assert stomp.message().text == "in fragments"


def test_a_character_may_be_split_between_fragments(stomp, topic):
    stomp.subscribe(topic)
    data = encode("SEND", {"destination": topic}, "🌊")
    at = data.index("🌊".encode()) + 2
    stomp.websocket.send(data[:at], TEXT, fin=False)
    stomp.websocket.send(data[at:], CONTINUATION)
    assert stomp.message().text == "🌊"


def test_a_ping_is_answered_with_its_payload(upgrade):
    websocket = upgrade()
    websocket.send(b"payload \x00\xff", PING)
    assert websocket.receive() == (PONG, b"payload \x00\xff", True)


def test_an_unasked_pong_is_ignored(stomp):
    stomp.websocket.send(b"unasked", PONG)
    stomp.ask("BEGIN", {"transaction": "t"})


def test_a_close_is_answered_with_a_close(upgrade):
    websocket = upgrade()
    websocket.send(struct.pack("!H", 1000) + b"bye", CLOSE)
    opcode, payload, _ = websocket.receive()
    assert opcode == CLOSE and payload[:2] == struct.pack("!H", 1000)
    assert websocket.receive() is None


def test_an_error_comes_before_the_close_frame(stomp):
    stomp.send("COMMIT", {"transaction": "nope", "receipt": "r"})
    error = stomp.read_frame(10)
    assert (error.command, error["code"], error["receipt-id"]) == ("ERROR", "unknown-transaction", "r")
    opcode, payload, _ = stomp.websocket.receive()
    assert opcode == CLOSE and len(payload) >= 2
    assert struct.unpack("!H", payload[:2])[0] == 1008


@pytest.mark.parametrize("size", [0, 125, 126, 65535, 65536, 1_000_000])
def test_bodies_at_the_edges_of_the_length_forms(stomp, topic, size):
    stomp.subscribe(topic)
    stomp.publish(topic, b"z" * size)
    assert len(stomp.message().body) == size


def test_binary_bodies_never_travel_in_text_frames(upgrade, clients, topic):
    """What is not UTF-8 reaches a text client as a binary frame, never as bad text."""
    client = Stomp(upgrade(), TEXT)
    client.login()
    client.subscribe(topic)
    (tcp,) = clients(1)
    tcp.send("SEND", {"destination": topic, "content-length": 4}, b"\xff\xfe\x00\x80")
    while True:
        opcode, payload, _ = client.websocket.receive()
        if b"MESSAGE" in payload:
            break
    assert opcode == BINARY or payload.decode("utf-8") is not None


def origins(name):
    """Origins as a browser would send them, relative to where the server listens."""
    host, port, _ = wsclient.url()
    return {
        "none": None,
        "its own": f"http://{host}:{port}",
        "another host": "https://evil.example",
        "its own host as a prefix": f"http://{host}.evil.example:{port}",
        "null": "null",
        "no URL": "evil",
    }[name]


@pytest.mark.parametrize("name", ["none", "its own"])
def test_allowed_origins(upgrade, name):
    assert upgrade(Origin=origins(name)).status == 101


@pytest.mark.parametrize("name", ["another host", "its own host as a prefix", "null", "no URL"])
def test_other_origins_are_refused(upgrade, name):
    assert upgrade(Origin=origins(name)).status == 403
