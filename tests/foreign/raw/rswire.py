"""RSocket 1.0 by hand: frames, metadata, and a bare client over TCP, WebSocket or one HTTP/2 stream.

It relies on the standard library alone, and on `wsclient` and `h2wire` beside it. Whatever a caller wants to send is
sent, right or wrong; what comes is parsed strictly. Every wait has a limit that only bounds failure.
"""

import itertools
import os
import socket
import struct
import time
from collections import deque

from wire import LOGIN, PASSCODE, WAIT, address
from wsclient import BINARY, WebSocket
from wsclient import frame as websocket_frame

SETUP, LEASE, KEEPALIVE, REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL = range(1, 8)
REQUEST_N, CANCEL, PAYLOAD, ERROR, METADATA_PUSH, RESUME, RESUME_OK = range(8, 15)
EXT = 0x3F
IGNORE, METADATA, FOLLOWS, RESPOND, RESUMABLE, COMPLETE, LEASED, NEXT = 0x200, 0x100, 0x80, 0x80, 0x80, 0x40, 0x40, 0x20
MANY = 2**31 - 1

KINDS = {
    SETUP: "SETUP",
    LEASE: "LEASE",
    KEEPALIVE: "KEEPALIVE",
    REQUEST_N: "REQUEST_N",
    CANCEL: "CANCEL",
    PAYLOAD: "PAYLOAD",
    ERROR: "ERROR",
    RESUME_OK: "RESUME_OK",
}
CODES = {
    0x001: "INVALID_SETUP",
    0x002: "UNSUPPORTED_SETUP",
    0x003: "REJECTED_SETUP",
    0x004: "REJECTED_RESUME",
    0x101: "CONNECTION_ERROR",
    0x102: "CONNECTION_CLOSE",
    0x201: "APPLICATION_ERROR",
    0x202: "REJECTED",
    0x203: "CANCELED",
    0x204: "INVALID",
}
COMPOSITE = b"message/x.rsocket.composite-metadata.v0"
TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")

# Frames: header and body, without the length that streams put before them.


def frame(kind, stream=0, body=b"", flags=0):
    return struct.pack("!IH", stream, kind << 10 | flags) + body


def payload(data=b"", metadata=None):
    """The flag for metadata, and the bytes behind the fields."""
    data = data.encode() if isinstance(data, str) else data
    if metadata is None:
        return 0, data
    return METADATA, len(metadata).to_bytes(3, "big") + metadata + data


def setup(
    data=b"",
    metadata=None,
    version=(1, 0),
    keepalive=1000,
    lifetime=20_000,
    token=None,
    mime=COMPOSITE,
    data_mime=b"application/octet-stream",
    flags=0,
    stream=0,
):
    body = struct.pack("!HHII", *version, keepalive, lifetime)
    if token is not None:
        flags |= RESUMABLE
        body += struct.pack("!H", len(token)) + token
    for one in (mime, data_mime):
        body += bytes([len(one)]) + one
    more, rest = payload(data, metadata)
    return frame(SETUP, stream, body + rest, flags | more)


def request(kind, stream, data=b"", metadata=None, n=None, flags=0):
    """A request of any kind, with its initial credit where the kind has one."""
    more, rest = payload(data, metadata)
    return frame(kind, stream, (b"" if n is None else struct.pack("!I", n)) + rest, flags | more)


def item(stream, data=b"", metadata=None, flags=NEXT):
    more, rest = payload(data, metadata)
    return frame(PAYLOAD, stream, rest, flags | more)


def request_n(stream, n):
    return frame(REQUEST_N, stream, struct.pack("!I", n))


def cancel(stream):
    return frame(CANCEL, stream)


def error(stream, code, text=""):
    return frame(ERROR, stream, struct.pack("!I", code) + text.encode())


def keepalive(data=b"", respond=True, position=0):
    return frame(KEEPALIVE, 0, struct.pack("!Q", position) + data, RESPOND if respond else 0)


def lease(ttl, requests):
    return frame(LEASE, 0, struct.pack("!II", ttl, requests))


def metadata_push(metadata, stream=0):
    return frame(METADATA_PUSH, stream, metadata, METADATA)


def resume(token, received=0, available=0, version=(1, 0)):
    body = struct.pack("!HHH", *version, len(token)) + token + struct.pack("!QQ", received, available)
    return frame(RESUME, 0, body)


# Metadata.


def entry(mime, data):
    """One entry of composite metadata; the MIME type is a well-known id or a name."""
    head = bytes([0x80 | mime]) if isinstance(mime, int) else bytes([len(mime) - 1]) + mime
    return head + len(data).to_bytes(3, "big") + data


def routing(*tags):
    return b"".join(bytes([len(tag.encode())]) + tag.encode() for tag in tags)


def route(*tags):
    return entry(0x7E, routing(*tags))


def simple(user=LOGIN, password=PASSCODE):
    return entry(0x7C, b"\x80" + struct.pack("!H", len(user)) + user.encode() + password.encode())


def bearer(token=TOKEN):
    return entry(0x7C, b"\x81" + token.encode())


class Got:
    """One frame as it came."""

    def __init__(self, raw):
        self.raw = raw
        self.stream, word = struct.unpack("!IH", raw[:6])
        assert self.stream < 2**31, f"the highest bit of the stream id is set: {raw[:6].hex()}"
        self.type, self.flags = word >> 10, word & 0x3FF
        assert self.type in KINDS or self.type in range(REQUEST_RESPONSE, REQUEST_CHANNEL + 1), raw[:6].hex()
        self.kind = KINDS.get(self.type, "REQUEST")
        body, self.n, self.metadata = raw[6:], None, None
        if self.type == KEEPALIVE:
            self.position, body = struct.unpack("!Q", body[:8])[0], body[8:]
        elif self.type in (ERROR, REQUEST_N, REQUEST_STREAM, REQUEST_CHANNEL):
            self.n, body = struct.unpack("!I", body[:4])[0], body[4:]
        elif self.type == LEASE:
            self.ttl, self.n = struct.unpack("!II", body[:8])
        elif self.type == RESUME_OK:
            self.position = struct.unpack("!Q", body[:8])[0]
        if self.flags & METADATA and self.type not in (LEASE, METADATA_PUSH):
            size = int.from_bytes(body[:3], "big")
            assert len(body) >= 3 + size, f"metadata beyond the frame: {raw[:40].hex()}"
            self.metadata, body = body[3 : 3 + size], body[3 + size :]
        self.data = body

    @property
    def code(self):
        """The name of an error's code."""
        return CODES.get(self.n, f"{self.n:#x}") if self.type == ERROR else None

    @property
    def text(self):
        return self.data.decode()

    @property
    def complete(self):
        return bool(self.flags & COMPLETE)

    def __repr__(self):
        return f"{self.kind} of {self.stream}, flags {self.flags:#x}, {self.code or ''} {self.data[:200]!r}"


class Closed(Exception):
    """The server closed the connection where a frame was expected."""


class Tcp:
    """Frames behind their 24-bit lengths."""

    def __init__(self, source=None, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(WAIT)
        if source:
            self.socket.bind(source)
        self.socket.connect(address())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = bytearray()

    def encode(self, one):
        return len(one).to_bytes(3, "big") + one

    def fill(self, wait):
        self.socket.settimeout(max(0.01, wait))
        try:
            data = self.socket.recv(262_144)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)

    def parse(self):
        size = int.from_bytes(self.buffer[:3], "big")
        if len(self.buffer) < 3 or len(self.buffer) < 3 + size:
            return None
        one = bytes(self.buffer[3 : 3 + size])
        del self.buffer[: 3 + size]
        return one


class Ws(Tcp):
    """Each frame in a binary message."""

    def __init__(self, source=None, receive_buffer=None, path="/rsocket", **changes):
        self.websocket = WebSocket(path=path, **{"Sec_WebSocket_Protocol": None} | changes)
        assert self.websocket.status == 101, self.websocket.status
        self.socket, self.buffer = self.websocket.socket, self.websocket.buffer
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.close_code = None

    def encode(self, one):
        return websocket_frame(BINARY, one)

    def parse(self):
        while (got := self.websocket.parse()) is not None:
            opcode, data, fin = got
            if opcode == 8:
                self.close_code = struct.unpack("!H", data[:2])[0] if len(data) >= 2 else None
            elif opcode not in (9, 10):
                assert opcode == BINARY and fin, f"not one binary message: {opcode} {fin}"
                return data
        return None


class Client:
    """One connection. Frames read while waiting for others are kept for later."""

    def __init__(self, carrier=None, **options):
        self.carrier = (carrier or Tcp)(**options)
        self.kept = deque()
        self.streams = itertools.count(1, 2)

    @property
    def socket(self):
        return self.carrier.socket

    # Out

    def raw(self, data):
        self.socket.settimeout(WAIT)
        self.socket.sendall(data)

    def send(self, *frames):
        self.raw(b"".join(map(self.carrier.encode, frames)))

    def login(self, credentials=None, **options):
        """SETUP with credentials; a good one has no answer."""
        self.send(setup(metadata=bearer() if credentials is None else credentials, **options))
        return self

    def ask(self, kind, *tags, data=b"", more=b"", n=None, flags=0):
        """A request on the next stream; returns its id."""
        stream = next(self.streams)
        if n is None and kind in (REQUEST_STREAM, REQUEST_CHANNEL):
            n = MANY
        self.send(request(kind, stream, data, route(*tags) + more, n, flags))
        return stream

    def respond(self, *tags, data=b"", more=b"", wait=WAIT):
        """Request and response."""
        return self.next(self.ask(REQUEST_RESPONSE, *tags, data=data, more=more), wait)

    # In

    def frame(self, wait=WAIT):
        """The next frame, kept ones first."""
        return self.kept.popleft() if self.kept else self.read(wait)

    def next(self, stream, wait=WAIT):
        """The next frame of a stream, or that ends the connection."""
        return self.next_that(lambda got: got.stream == stream or got.stream == 0 and got.type == ERROR, wait)

    def next_that(self, wanted, wait=WAIT):
        for index, got in enumerate(self.kept):
            if wanted(got):
                del self.kept[index]
                return got
        deadline = time.monotonic() + wait
        while not wanted(got := self.read(deadline - time.monotonic())):
            self.kept.append(got)
        return got

    def read(self, wait=WAIT):
        deadline = time.monotonic() + wait
        while (one := self.carrier.parse()) is None:
            if not self.carrier.fill(deadline - time.monotonic()):
                raise Closed
        return Got(one)

    def drain(self, wait=WAIT):
        """All frames up to the end of the connection, which must come in time."""
        found, deadline = list(self.kept), time.monotonic() + wait
        self.kept.clear()
        while True:
            try:
                found.append(self.read(deadline - time.monotonic()))
            except Closed:
                return found

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
