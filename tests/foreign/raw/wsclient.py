"""A bare WebSocket client: the opening handshake and frames built by hand, right or wrong."""

import base64
import hashlib
import os
import socket
import struct
import time
from urllib.parse import urlsplit

from wire import WAIT, address

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
TEXT, BINARY, CLOSE, PING, PONG, CONTINUATION = 1, 2, 8, 9, 10, 0


def url():
    """Host, port and path of the WebSocket, from the environment."""
    host, port = address()
    parts = urlsplit(os.environ.get("TIDERACE_WS", f"ws://{host}:{port}/stomp"))
    return parts.hostname, parts.port, parts.path or "/"


def frame(opcode, payload=b"", fin=True, mask=True, rsv=0, length=None):
    """The bytes of a frame. `length` declares another length than the payload has."""
    payload = payload.encode() if isinstance(payload, str) else payload
    count = len(payload) if length is None else length
    head = bytes([(0x80 if fin else 0) | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if count < 126:
        head += bytes([bit | count])
    elif count < 65536:
        head += bytes([bit | 126]) + struct.pack("!H", count)
    else:
        head += bytes([bit | 127]) + struct.pack("!Q", count)
    if not mask:
        return head + payload
    key = b"\x37\xfa\x21\x3d"
    pad = (key * (len(payload) // 4 + 1))[: len(payload)]
    masked = (int.from_bytes(payload, "big") ^ int.from_bytes(pad, "big")).to_bytes(len(payload), "big")
    return head + key + masked


def request(path=None, **changes):
    """The opening handshake; `name=None` leaves a header out, underscores stand for hyphens."""
    host, port, default = url()
    headers = {
        "Host": f"{host}:{port}",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": base64.b64encode(b"sixteen bytes ok").decode(),
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "v12.stomp, v11.stomp, v10.stomp",
    } | {name.replace("_", "-"): value for name, value in changes.items()}
    lines = [f"GET {path or default} HTTP/1.1"] + [f"{n}: {v}" for n, v in headers.items() if v is not None]
    return "\r\n".join(lines + ["", ""]).encode()


class WebSocket:
    """One upgraded connection."""

    def __init__(self, **changes):
        host, port, _ = url()
        self.socket = socket.create_connection((host, port), timeout=WAIT)
        self.buffer = bytearray()
        self.socket.sendall(request(**changes))
        while b"\r\n\r\n" not in self.buffer:
            assert self.fill(), f"no answer to the handshake: {bytes(self.buffer)!r}"
        head, _, rest = bytes(self.buffer).partition(b"\r\n\r\n")
        self.buffer = bytearray(rest)
        status, *lines = head.decode().split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(":") for line in lines)}

    def fill(self, wait=WAIT):
        self.socket.settimeout(wait)
        try:
            data = self.socket.recv(65536)
        except ConnectionError:
            return False
        self.buffer += data
        return bool(data)

    def raw(self, data):
        self.socket.settimeout(WAIT)
        self.socket.sendall(data)

    def send(self, payload, opcode=TEXT, **options):
        self.raw(frame(opcode, payload, **options))

    def receive(self, wait=WAIT):
        """The next frame as (opcode, payload, fin), or None at the end of the connection."""
        deadline = time.monotonic() + wait
        while True:
            got = self.parse()
            if got:
                return got
            if not self.fill(max(0.01, deadline - time.monotonic())):
                return None

    def parse(self):
        if len(self.buffer) < 2:
            return None
        first, second = self.buffer[0], self.buffer[1]
        assert not second & 0x80, "a server must not mask"
        size, start = second & 0x7F, 2
        if size >= 126:
            width, form = (2, "!H") if size == 126 else (8, "!Q")
            if len(self.buffer) < 2 + width:
                return None
            size, start = struct.unpack(form, self.buffer[2 : 2 + width])[0], 2 + width
        if len(self.buffer) < start + size:
            return None
        payload = bytes(self.buffer[start : start + size])
        del self.buffer[: start + size]
        return first & 0x0F, payload, bool(first & 0x80)

    def accept_expected(self):
        key = base64.b64encode(b"sixteen bytes ok")
        return base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()

    def close(self):
        self.socket.close()
