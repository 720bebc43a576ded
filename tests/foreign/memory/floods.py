"""What the attacks of this suite share: sending as much as is taken, judging, and the bytes of each protocol.

Logging in is one function for each protocol; `who` is `anonymous` or `logged in`.
"""

import base64
import json
import os
import selectors
import socket
import struct
import time

from conftest import ABOVE, BUDGET, MIB

QUIET = 0.4
"""Seconds without progress after which nobody takes more."""
BLOCK = 1 << 20
"""Bytes that are offered to a socket at once."""
ROBOT = "Bearer robot-secret"


def connect(server):
    one = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
    return one


class Flood:
    """Sends to many sockets at once as much as is taken."""

    def __init__(self, server):
        self.server, self.sockets = server, []

    def add(self, one, *parts, each=0, repeat=b""):
        """The parts, and then `each` bytes made of `repeat`."""
        one.setblocking(False)
        self.sockets.append([one, bytearray(b"".join(parts)), each, repeat])

    def run(self):
        last = time.monotonic()
        with selectors.DefaultSelector() as live:
            for entry in self.sockets:
                live.register(entry[0], selectors.EVENT_WRITE, entry)
            while live.get_map() and time.monotonic() - last < QUIET:
                for ready, _ in live.select(0.05):
                    if self.send(ready.data):
                        last = time.monotonic()
                    if self.is_done(ready.data):
                        live.unregister(ready.fileobj)

    def send(self, entry):
        """Sends some; whether some was taken."""
        one, waiting, left, repeat = entry
        if not waiting and left:
            waiting += repeat[:left]
            entry[2] = left - min(left, len(repeat))
        try:
            del waiting[: one.send(memoryview(waiting)[:BLOCK])]
        except BlockingIOError:
            return False
        except OSError:
            waiting.clear()
            entry[2] = 0
        return True

    def is_done(self, entry):
        return not entry[1] and not entry[2]

    def judge(self):
        """The attack is still there, and the server is well."""
        assert self.server.process.poll() is None, "the server is gone"
        with connect(self.server) as one:
            one.sendall(b"GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
            assert one.recv(100).startswith(b"HTTP/1.1 200")
        most = self.server.peak()
        assert most <= BUDGET + ABOVE, f"resident: {most // MIB} MiB"
        for entry in self.sockets:
            entry[0].close()


def flood(server, count, size, begin, repeat=b"x" * 65536):
    """So many connections that begin with something and send so many bytes after it."""
    one = Flood(server)
    for number in range(count):
        client = connect(server)
        parts = begin(client, number)
        one.add(client, *([parts] if isinstance(parts, bytes) else parts), each=size, repeat=repeat)
    one.run()
    one.judge()


def post(fields="", length=16_000_000, path="/topics/x"):
    return f"POST {path} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n".encode()


CREDENTIALS = {
    "none": "",
    "a wrong token": "Authorization: Bearer wrong\r\n",
    "a wrong password": f"Authorization: Basic {base64.b64encode(b'mal:wrong').decode()}\r\n",
    "a token": f"Authorization: {ROBOT}\r\n",
}


def http2(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def websocket(path, protocol):
    fields = "Host: h\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    key = base64.b64encode(os.urandom(16)).decode()
    offer = f"Sec-WebSocket-Protocol: {protocol}\r\n" if protocol else ""
    return f"GET {path} HTTP/1.1\r\n{fields}Sec-WebSocket-Key: {key}\r\n{offer}\r\n".encode()


def frame(payload, opcode=1, fin=True):
    head = bytes([(0x80 if fin else 0) | opcode])
    size = len(payload)
    head += bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + struct.pack("!H", size)
    return head + b"\0\0\0\0" + payload


WEBSOCKETS = {
    "stomp": ("/stomp", "v12.stomp"),
    "native": ("/tiderace", "tiderace.v1"),
    "rsocket": ("/rsocket", None),
    "socket.io": ("/socket.io/?EIO=4&transport=websocket", None),
}


CONNECT = b"CONNECT\naccept-version:1.2\nhost:h\nlogin:mal\npasscode:tide-passcode\n\n\0"
SEND = b"SEND\ndestination:/topic/x\ncontent-length:15900000\n\n"


def logged_in(client, *_):
    client.sendall(CONNECT)
    assert client.recv(4096).startswith(b"CONNECTED")
    return b""


TOKEN = "robot-secret"


def counted(payload):
    """LEB128 of the length, and the bytes."""
    length, out = len(payload), bytearray()
    while length > 127:
        out.append(128 | length & 127)
        length >>= 7
    return bytes([*out, length]) + payload


def stomp(who):
    login = "" if who == "anonymous" else "login:mal\npasscode:tide-passcode\n"
    return f"CONNECT\naccept-version:1.2\nhost:h\n{login}\n\0".encode()


def native(who):
    auth = b"\0" if who == "anonymous" else b"\x02" + counted(TOKEN.encode())
    return b"\x01" + counted(b"\x01\0" + auth + b"\0" + counted(b"floods") + b"\0")


def socketio(who):
    return b"40" if who == "anonymous" else b"40" + json.dumps({"token": TOKEN}).encode()


def rsocket(who):
    import rswire

    metadata = None if who == "anonymous" else rswire.bearer()
    return rswire.setup(metadata=metadata, keepalive=30_000, lifetime=60_000)


def framed(one):
    """A frame of RSocket on a stream."""
    return len(one).to_bytes(3, "big") + one


def until(client, *wanted):
    """Reads until something of that has come."""
    answer = b""
    while not any(one in answer for one in wanted):
        more = client.recv(65_536)
        assert more, answer
        answer += more
    return answer


def opened(client, protocol, who):
    """Begins a WebSocket and logs in on it; returns what is left to be sent."""
    client.sendall(websocket(*WEBSOCKETS[protocol]))
    until(client, b"\r\n\r\n")
    if protocol == "rsocket":
        return frame(rsocket(who), 2)
    hello, text = {
        "stomp": (stomp(who), b"CONNECTED"),
        "native": (native(who), b"\x41"),
        "socket.io": (socketio(who), b"40{"),
    }[protocol]
    client.sendall(frame(hello, 1 if protocol == "socket.io" else 2))
    until(client, text)
    return b""
