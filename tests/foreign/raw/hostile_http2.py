"""Attacks on HTTP/2: floods of every kind, windows that never open, bombs of compressed fields."""

import struct
import time

from hostile import case, push, served, tcp
from wire import WAIT, Client

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
NAMES = {0: "NO_ERROR", 1: "PROTOCOL_ERROR", 3: "FLOW_CONTROL_ERROR", 6: "FRAME_SIZE_ERROR", 9: "COMPRESSION_ERROR", 11: "ENHANCE_YOUR_CALM"}
CALM = r"GOAWAY ENHANCE_YOUR_CALM|closed"
"""A client that is still sending when the server ends may lose the last word to a reset."""


def frame(kind, flags, stream, payload=b""):
    return struct.pack("!I", len(payload))[1:] + bytes([kind, flags]) + struct.pack("!I", stream) + payload


def get(path=b"/livez"):
    """The fields of a GET, none of them to be remembered."""
    return b"\x82\x86\x01\x01h\x04" + bytes([len(path)]) + path


HELLO = PREFACE + frame(4, 0, 0)
POST = b"\x83" + get(b"/topics/h2")[1:]


def frames(data):
    while len(data) >= 9:
        length = int.from_bytes(data[:3])
        yield data[3], int.from_bytes(data[5:9]), data[9 : 9 + length]
        data = data[9 + length :]


def outcome(client, wait=WAIT):
    """Reads to the end and names the last GOAWAY, or what became of the connection."""
    data = b""
    try:
        data = client.drain(wait)
    except TimeoutError:
        data = bytes(client.buffer)
    except OSError:
        return "closed"
    last = [payload for kind, _, payload in frames(data) if kind == 7]
    if not last:
        return "closed"
    code = int.from_bytes(last[-1][4:8])
    return f"GOAWAY {NAMES.get(code, code)}"


def flood(sends, expected, *pieces):
    @case("HTTP/2", sends, expected)
    def attack():
        client = tcp()
        push(client, (bytes(piece) for piece in (HELLO, *pieces)))
        try:
            return outcome(client)
        finally:
            client.close()


flood(
    "20,000 streams begun and reset",
    CALM,
    *(frame(1, 5, 2 * at + 1, get()) + frame(3, 0, 2 * at + 1, b"\0\0\0\x08") for at in range(20_000)),
)
flood("a header block in 10,000 CONTINUATION frames", CALM, frame(1, 1, 1, get()), *[frame(9, 0, 1, b"") * 100] * 100)
flood("a header block of 64 MiB", CALM, frame(1, 1, 1, get()), *[frame(9, 0, 1, b"\0" * 16_000)] * 4_200)
flood("100,000 pings", CALM, *[frame(6, 0, 0, b"12345678") * 1000] * 100)
flood("100,000 changes of settings", CALM, *[frame(4, 0, 0, b"\0\3\0\0\0\x64") * 1000] * 100)
flood("100,000 empty frames on one stream", CALM, frame(1, 4, 1, POST), *[frame(0, 0, 1) * 1000] * 100)
flood("100,000 frames of an unknown kind", CALM, *[frame(0xEE, 0, 0, b"x") * 1000] * 100)
flood("100,000 priorities", CALM, *[frame(2, 0, 1, b"\0\0\0\0\x01") * 1000] * 100)
flood("200,000 windows opened by a byte", CALM, *[frame(8, 0, 0, b"\0\0\0\x01") * 1000] * 200)
flood(
    "one field of 3,000 bytes meant 100,000 times",
    CALM,
    frame(1, 1, 1, get() + b"\x40\x01x\x7f\xb9\x16" + b"y" * 3000),
    *[frame(9, 0, 1, b"\xbe" * 10_000)] * 10,
)
flood("a window that overflows", "GOAWAY FLOW_CONTROL_ERROR|closed", *[frame(8, 0, 0, b"\x7f\xff\xff\xff")] * 2)
flood("data on a stream that never was", "GOAWAY PROTOCOL_ERROR|closed", frame(0, 0, 1, b"x"))
flood("a frame of 16 MiB announced", "GOAWAY FRAME_SIZE_ERROR|closed", b"\xff\xff\xff\0\0\0\0\0\1" + b"x" * 20_000)


@case("HTTP/2", "256 answers of 1 MiB asked for and none taken", "served meanwhile")
def zero_window():
    put = tcp()
    body = b"x" * 2**20
    head = b"PUT /topics/h2/large HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer robot-secret\r\nContent-Length: %d\r\n\r\n"
    push(put, head % len(body) + body)
    put.fill(time.monotonic() + WAIT)
    put.close()
    # Somebody who is there already: what a login takes on a busy machine says nothing about the answers.
    other = Client()
    other.login()
    client = tcp()
    token = b"\x00\x0dauthorization\x13Bearer robot-secret"
    asks = (frame(1, 5, 2 * at + 1, get(b"/topics/h2/large") + token) for at in range(256))
    push(client, [PREFACE, frame(4, 0, 0, b"\0\4\0\0\0\0"), *asks])
    for turn in range(100):
        other.ask("BEGIN", {"transaction": f"turn {turn}"})
        other.ask("ABORT", {"transaction": f"turn {turn}"})
    other.close()
    client.close()
    return "served meanwhile"


@case("HTTP/2", "half a preface", "closed")
def half_a_preface():
    client = tcp()
    push(client, PREFACE[:12])
    return outcome(client)


@case("HTTP/2", "half a header block", "GOAWAY PROTOCOL_ERROR|closed|still open")
def half_a_block():
    client = tcp()
    push(client, HELLO + frame(1, 1, 1, get()))
    client.socket.settimeout(1)
    answered = served()
    client.close()
    return "still open" if answered is True else repr(answered)


@case("HTTP/2", "what may be sent ahead beside 64 KiB, before a login and after it", "nothing, then 448 KiB")
def windows():
    """No connection can do with less than 65,535 bytes (RFC 9113); more are `http2.connection_window_bytes`."""
    client = Client()
    client.socket.settimeout(WAIT)
    token = b"\x00\x0dauthorization\x13Bearer robot-secret"
    opened, data, answered = [0, 0], b"", 0
    client.socket.sendall(HELLO + frame(1, 5, 1, get()))
    while answered < 2:
        data += client.socket.recv(65_536)
        while len(data) >= 9 and len(data) >= 9 + int.from_bytes(data[:3]):
            kind, stream, payload = next(frames(data))
            data = data[9 + len(payload) :]
            if kind == 8 and stream == 0:
                opened[answered] += int.from_bytes(payload)
                if answered:
                    client.socket.sendall(frame(0, 1, 3, b"x"))
            elif kind == 1:
                answered += 1
                if answered == 1:
                    client.socket.sendall(frame(1, 4, 3, POST + token) + frame(0, 0, 3, b"x"))
    client.close()
    return f"{opened[0] or 'nothing'}, then {opened[1] // 1024} KiB"
