"""HTTP/2 by hand (RFC 9113), as far as attacks need it: frames, a connection, and streams that look like sockets.

Fields are written as literals without indexing, and of what the server answers only the status is read. Windows are
kept, and opened again as bytes are read, unless a test says otherwise.
"""

import socket
import struct
import time

from rswire import Client, Tcp
from wire import WAIT, address

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADER_TABLE_SIZE, ENABLE_PUSH, STREAMS_MAX, INITIAL_WINDOW, FRAME_MAX = 1, 2, 3, 4, 5
STATUSES = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
"""Of the static table of RFC 7541."""


def frame(kind, flags=0, stream=0, data=b""):
    return len(data).to_bytes(3, "big") + struct.pack("!BBI", kind, flags, stream) + data


def settings(**values):
    names = {"window": INITIAL_WINDOW, "table": HEADER_TABLE_SIZE, "frame": FRAME_MAX}
    return frame(SETTINGS, data=b"".join(struct.pack("!HI", names[name], value) for name, value in values.items()))


def literal(name, value):
    """A field without indexing; both lengths below 127."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def post(path="/rsocket", more=b""):
    """The fields of a POST: two of them by their place in the static table."""
    return b"\x83\x86" + literal(":path", path) + literal(":authority", "localhost") + more


class Ended(Exception):
    """The connection ended where something was expected."""


class Connection:
    """One connection. `goaway` is the code it was ended with, `resets` those of its streams."""

    def __init__(self, source=None, receive_buffer=None, **values):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind(source)
        self.socket.settimeout(WAIT)
        self.socket.connect(address())
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer, self.next, self.streams = bytearray(), 1, {}
        self.window, self.initial, self.opens = 65_535, 65_535, True
        self.goaway, self.resets, self.statuses, self.limit = None, {}, {}, None
        self.raw(PREFACE + settings(**values))
        self.until(lambda: self.limit is not None)

    def raw(self, data, seconds=WAIT):
        self.socket.settimeout(seconds)
        self.socket.sendall(data)

    def begin(self, fields=None, flags=END_HEADERS):
        """A new stream; returns its id."""
        stream, self.next = self.next, self.next + 2
        self.streams[stream] = Stream(self, stream)
        self.raw(frame(HEADERS, flags, stream, post() if fields is None else fields))
        return stream

    def until(self, so, wait=WAIT):
        deadline = time.monotonic() + wait
        while not so():
            self.pump(deadline - time.monotonic())

    def pump(self, wait):
        """Reads once, and handles what is whole."""
        self.socket.settimeout(max(0.01, wait))
        try:
            data = self.socket.recv(262_144)
        except ConnectionError:
            data = b""
        if not data:
            raise Ended
        self.buffer += data
        while len(self.buffer) >= 9 and len(self.buffer) >= 9 + (size := int.from_bytes(self.buffer[:3], "big")):
            kind, flags, stream = struct.unpack("!BBI", self.buffer[3:9])
            payload = bytes(self.buffer[9 : 9 + size])
            del self.buffer[: 9 + size]
            self.handle(kind, flags, stream, payload)

    def handle(self, kind, flags, stream, payload):
        found = self.streams.get(stream)
        if kind == SETTINGS and not flags & ACK:
            values = dict(struct.iter_unpack("!HI", payload))
            self.initial = values.get(INITIAL_WINDOW, self.initial)
            self.limit = values.get(STREAMS_MAX, 2**31)
            self.raw(frame(SETTINGS, ACK))
        elif kind == PING and not flags & ACK:
            self.raw(frame(PING, ACK, data=payload))
        elif kind == WINDOW_UPDATE:
            more = struct.unpack("!I", payload)[0]
            if stream == 0:
                self.window += more
            elif found:
                found.window += more
        elif kind == GOAWAY:
            self.goaway = struct.unpack("!II", payload[:8])[1]
        elif kind == RST_STREAM:
            self.resets[stream] = struct.unpack("!I", payload)[0]
            if found:
                found.over = True
        elif kind == HEADERS:
            field = next((byte & 0x7F for byte in payload[:3] if byte & 0x80), None)
            self.statuses.setdefault(stream, STATUSES.get(field, "other"))
        elif kind == DATA and found:
            found.inbox += payload
            if self.opens and payload:
                self.raw(b"".join(frame(WINDOW_UPDATE, 0, to, struct.pack("!I", len(payload))) for to in (0, stream)))
        if kind in (DATA, HEADERS) and flags & END_STREAM and found:
            found.over = True

    def end(self, wait=WAIT):
        """Reads to the end of the connection and names it."""
        try:
            self.until(lambda: False, wait)
        except Ended:
            return "closed" if self.goaway is None else f"GOAWAY {self.goaway}"
        except TimeoutError:
            return "open" if self.goaway is None else f"GOAWAY {self.goaway}"

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Stream:
    """One stream, with as much of a socket's face as `rswire` wants."""

    def __init__(self, connection, id):
        self.connection, self.id, self.window = connection, id, connection.initial
        self.inbox, self.over, self.seconds = bytearray(), False, WAIT

    def settimeout(self, seconds):
        self.seconds = seconds

    def sendall(self, data):
        """In frames as large as the windows allow, waiting for more where they are used up."""
        connection, deadline = self.connection, time.monotonic() + self.seconds
        view = memoryview(data)
        while view:
            size = min(len(view), 16_384, self.window, connection.window)
            if size <= 0:
                if self.over or time.monotonic() > deadline:
                    raise BrokenPipeError if self.over else TimeoutError
                try:
                    connection.pump(deadline - time.monotonic())
                except Ended:
                    raise BrokenPipeError from None
                continue
            connection.raw(frame(DATA, 0, self.id, bytes(view[:size])), self.seconds)
            self.window, connection.window, view = self.window - size, connection.window - size, view[size:]

    def recv(self, _):
        deadline = time.monotonic() + self.seconds
        try:
            while not self.inbox and not self.over:
                self.connection.pump(deadline - time.monotonic())
        except Ended:
            return b""
        data, self.inbox = bytes(self.inbox), bytearray()
        return data

    def close(self):
        pass


class Post(Tcp):
    """RSocket's frames behind their lengths, in one stream of HTTP/2."""

    def __init__(self, connection=None, **options):
        self.own = connection is None
        self.connection = Connection(**options) if self.own else connection
        self.socket, self.buffer = self.connection.streams[self.connection.begin()], bytearray()
        if self.own:
            self.socket.close = self.connection.close


def tunnel(connection):
    """An RSocket client on another stream of a connection."""
    return Client(Post, connection=connection)
