"""A bare STOMP client on a plain socket: it hides nothing and mends nothing.

It relies on the standard library alone, so that what a test sends is exactly what reaches the
server, and what the server sends is seen byte by byte. Every wait has a limit that only bounds
failure; nothing here sleeps.
"""

import itertools
import os
import socket
import time
from collections import deque

WAIT = float(os.environ.get("TIDERACE_WAIT", "10"))
"""Seconds after which a missing answer is a failure."""

LOGIN, PASSCODE = os.environ.get("TIDERACE_LOGIN", "tide:tide-passcode").split(":", 1)
LIMITED, LIMITED_PASSCODE = "limited", "limited-passcode"

_serial = itertools.count(1)


def address():
    """Where the server listens, from the environment."""
    host, port = os.environ.get("TIDERACE_STOMP", "127.0.0.1:7800").rsplit(":", 1)
    return host, int(port)


def stomp_only_address():
    """The listener that is pinned to STOMP, if the environment names one."""
    host, _, port = os.environ.get("TIDERACE_STOMP_ONLY", "").rpartition(":")
    return (host, int(port)) if port else None


def unique(prefix="t"):
    """A name that no other test, run or process uses."""
    return f"{prefix}-{os.getpid()}-{next(_serial)}"


class Closed(Exception):
    """The server closed the connection where a frame was expected."""


class Frame:
    """One frame as it came: command, headers in order with repeats, body."""

    def __init__(self, command, headers, body, raw):
        self.command, self.pairs, self.body, self.raw = command, headers, body, raw

    def __getitem__(self, name):
        """The first header of that name, as the specification rules; KeyError if there is none."""
        for key, value in self.pairs:
            if key == name:
                return value
        raise KeyError(f"{name} in {self!r}")

    def get(self, name, default=None):
        """The first header of that name, or the default."""
        return next((value for key, value in self.pairs if key == name), default)

    def all(self, name):
        """Every value of a header, in order."""
        return [value for key, value in self.pairs if key == name]

    @property
    def text(self):
        return self.body.decode()

    def __repr__(self):
        return f"{self.command} {self.pairs} {self.body[:200]!r}"


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}


def escape(text, version="1.2"):
    """Header text as its version writes it: 1.0 nothing, 1.1 without CR, 1.2 all four."""
    if version == "1.0":
        return text
    return "".join(c if c == "\r" and version == "1.1" else _ESCAPES.get(c, c) for c in text)


def unescape(text):
    """The reverse of `escape`; an undefined escape is the server's fault and raises."""
    out, chars = [], iter(text)
    for c in chars:
        if c == "\\":
            c = {"n": "\n", "c": ":", "\\": "\\", "r": "\r"}[next(chars)]
        out.append(c)
    return "".join(out)


def encode(command, headers=(), body=b"", version="1.2", eol="\n"):
    """The bytes of one frame. Headers are a dict, or pairs where repeats are wanted."""
    pairs = headers.items() if isinstance(headers, dict) else headers
    plain = version == "1.0" or command in ("CONNECT", "CONNECTED")
    lines = [command]
    for key, value in pairs:
        key, value = str(key), str(value)
        lines.append(f"{key}:{value}" if plain else f"{escape(key, version)}:{escape(value, version)}")
    body = body.encode() if isinstance(body, str) else body
    return eol.join(lines).encode() + (eol * 2).encode() + body + b"\0"


class Client:
    """One connection. Frames read while waiting for another kind are kept for later."""

    def __init__(self, to=None, source=None):
        self.socket = socket.create_connection(to or address(), timeout=WAIT, source_address=source)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.version = "1.0"
        """The version spoken; what comes before it is agreed on knows no escapes."""
        self.buffer = bytearray()
        self.kept = deque()
        self.beats = 0
        """EOLs seen between frames: the server's heart-beats (and the ends of padded frames)."""

    # Out

    def raw(self, data):
        """Send these bytes and nothing else."""
        self.socket.settimeout(WAIT)
        self.socket.sendall(data)

    def send(self, command, headers=(), body=b""):
        self.raw(encode(command, headers, body, self.version))

    def ask(self, command, headers=(), body=b""):
        """Send a frame with a receipt and wait for that receipt."""
        receipt = unique("r")
        pairs = list(headers.items() if isinstance(headers, dict) else headers)
        self.send(command, pairs + [("receipt", receipt)], body)
        return self.receipt(receipt)

    def login(self, version="1.2", login=LOGIN, passcode=PASSCODE, command="CONNECT", **headers):
        """CONNECT, and the CONNECTED that answers it."""
        fields = {"host": "localhost"} | {k.replace("_", "-"): v for k, v in headers.items()}
        if version != "1.0":
            fields["accept-version"] = version
        if login is not None:
            fields |= {"login": login, "passcode": passcode}
        self.version = "1.0"
        self.raw(encode(command, fields, version="1.0"))
        connected = self.frame()
        assert connected.command == "CONNECTED", connected
        self.version = connected.get("version", "1.0")
        return connected

    def subscribe(self, destination, id=None, **headers):
        """SUBSCRIBE, confirmed by its receipt. Returns the id."""
        id = id or unique("s")
        fields = {"id": id, "destination": destination}
        self.ask("SUBSCRIBE", fields | {k.replace("_", "-"): v for k, v in headers.items()})
        return id

    def publish(self, destination, body=b"", **headers):
        """SEND, confirmed by its receipt."""
        fields = {"destination": destination} | {k.replace("_", "-"): v for k, v in headers.items()}
        return self.ask("SEND", fields, body)

    # In

    def frame(self, wait=WAIT):
        """The next frame, kept ones first."""
        return self.kept.popleft() if self.kept else self.read_frame(wait)

    def message(self, wait=WAIT):
        """The next MESSAGE; receipts that come before it are kept."""
        return self.next_that(lambda f: f.command == "MESSAGE", wait)

    def messages(self, count):
        return [self.message() for _ in range(count)]

    def receipt(self, id, wait=WAIT):
        """The RECEIPT of that id; messages that come before it are kept."""
        return self.next_that(lambda f: f.command == "RECEIPT" and f["receipt-id"] == id, wait)

    def error(self, wait=WAIT):
        """The next ERROR, after which the server must close; what came before is dropped."""
        while True:
            frame = self.frame(wait)
            if frame.command == "ERROR":
                self.closed(wait)
                return frame

    def next_that(self, wanted, wait):
        for index, frame in enumerate(self.kept):
            if wanted(frame):
                del self.kept[index]
                return frame
        deadline = time.monotonic() + wait
        while True:
            frame = self.read_frame(max(0.01, deadline - time.monotonic()))
            if wanted(frame):
                return frame
            assert frame.command != "ERROR", frame
            self.kept.append(frame)

    def closed(self, wait=WAIT):
        """Assert that the server ends the connection and says nothing more."""
        rest = self.drain(wait)
        assert rest.strip(b"\r\n") == b"", f"bytes after the end: {rest[:200]!r}"

    def drain(self, wait=WAIT):
        """Everything up to the end of the connection, which must come in time."""
        deadline = time.monotonic() + wait
        while self.fill(deadline):
            pass
        rest, self.buffer = bytes(self.buffer), bytearray()
        return rest

    def fill(self, deadline):
        """Read once into the buffer; False at the end of the connection."""
        self.socket.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)

    def read_frame(self, wait):
        deadline = time.monotonic() + wait
        while True:
            frame = self.parse()
            if frame:
                return frame
            if not self.fill(deadline):
                raise Closed(f"after {bytes(self.buffer)[:200]!r}")

    def parse(self):
        """One whole frame from the buffer, or None. Strict: what it refuses, the server may not send."""
        while self.buffer[:1] == b"\n" or self.buffer[:2] == b"\r\n":
            self.beats += 1
            del self.buffer[: 1 if self.buffer[:1] == b"\n" else 2]
        end = self.buffer.find(b"\n\n")
        if end < 0:
            return None
        command, *lines = self.buffer[:end].decode().split("\n")
        plain = command == "CONNECTED" or self.version == "1.0"
        pairs = []
        for line in lines:
            key, colon, value = line.partition(":")
            assert colon and (plain or ":" not in value), f"header line {line!r}"
            pairs.append((key, value) if plain else (unescape(key), unescape(value)))
        length = next((int(v) for k, v in pairs if k == "content-length"), None)
        start = end + 2
        stop = self.buffer.find(b"\0", start) if length is None else start + length
        if stop < start or len(self.buffer) <= stop:
            return None
        assert self.buffer[stop] == 0, f"no NUL after {length} bytes of body"
        raw = bytes(self.buffer[: stop + 1])
        del self.buffer[: stop + 1]
        return Frame(command, pairs, raw[start:stop], raw)

    def close(self):
        self.socket.close()
