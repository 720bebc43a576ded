"""Attacks on WebSocket framing after a correct handshake (RFC 6455 sections 5 to 7)."""

import struct

from hostile import case, websocket_outcome
from limits import LIMITS
from wire import encode
from wsclient import BINARY, CLOSE, CONTINUATION, PING, TEXT, WebSocket, frame

PROTOCOL_ERROR, BAD_TEXT, POLICY, TOO_BIG = "close 1002", "close 1007", "close 1008", "close 1009"


def code(number, reason=b""):
    return struct.pack("!H", number) + reason


ATTACKS = {
    "an unmasked frame": (PROTOCOL_ERROR, frame(TEXT, "x", mask=False)),
    "reserved bit 1 without an extension": (PROTOCOL_ERROR, frame(TEXT, "x", rsv=4)),
    "reserved bit 2": (PROTOCOL_ERROR, frame(TEXT, "x", rsv=2)),
    "reserved bit 3": (PROTOCOL_ERROR, frame(PING, "x", rsv=1)),
    "reserved opcode 3": (PROTOCOL_ERROR, frame(3, "x")),
    "reserved opcode 7": (PROTOCOL_ERROR, frame(7, "x")),
    "reserved control opcode 11": (PROTOCOL_ERROR, frame(11, "x")),
    "reserved control opcode 15": (PROTOCOL_ERROR, frame(15)),
    "a ping of 126 bytes": (PROTOCOL_ERROR, frame(PING, b"x" * 126)),
    "a ping that declares 8 EiB": (PROTOCOL_ERROR, frame(PING, b"x", length=2**63 - 1)),
    "a fragmented ping": (PROTOCOL_ERROR, frame(PING, b"x", fin=False)),
    "a close of 126 bytes": (PROTOCOL_ERROR, frame(CLOSE, code(1000, b"x" * 124))),
    "a close of one byte": (PROTOCOL_ERROR, frame(CLOSE, b"\x03")),
    "close code 999": (PROTOCOL_ERROR, frame(CLOSE, code(999))),
    "close code 1005, which may not be sent": (PROTOCOL_ERROR, frame(CLOSE, code(1005))),
    "close code 5000": (PROTOCOL_ERROR, frame(CLOSE, code(5000))),
    "a close whose reason is not UTF-8": (f"{BAD_TEXT}|{PROTOCOL_ERROR}", frame(CLOSE, code(1000, b"\xff"))),
    "a continuation of nothing": (PROTOCOL_ERROR, frame(CONTINUATION, "x")),
    "a new message within a fragmented one": (PROTOCOL_ERROR, frame(TEXT, "x", fin=False) + frame(TEXT, "y")),
    "text that is not UTF-8": (BAD_TEXT, frame(TEXT, b"CONNECT\n\xff\n\n\0")),
    "text that ends within a character": (BAD_TEXT, frame(TEXT, b"CONNECT\nx:\xe2\x82")),
    "a surrogate in text": (BAD_TEXT, frame(TEXT, b"\xed\xa0\x80")),
    "text that is not UTF-8 over two fragments": (
        BAD_TEXT,
        frame(TEXT, b"\xe2", fin=False) + frame(CONTINUATION, b"\x28\xa1"),
    ),
    "a frame that declares 8 EiB": (TOO_BIG, frame(BINARY, b"x", length=2**63 - 1)),
    "a frame that declares more than 63 bits": (f"{PROTOCOL_ERROR}|{TOO_BIG}", frame(BINARY, b"x", length=2**64 - 1)),
    "a length of 5 in eight bytes": (PROTOCOL_ERROR, b"\x82\xff" + struct.pack("!Q", 5) + b"\0\0\0\0hello"),
    "a length of 5 in two bytes": (PROTOCOL_ERROR, b"\x82\xfe" + struct.pack("!H", 5) + b"\0\0\0\0hello"),
    "HTTP after the handshake": (f"{PROTOCOL_ERROR}|{TOO_BIG}", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    "STOMP without frames after the handshake": (
        f"{PROTOCOL_ERROR}|{TOO_BIG}",
        encode("CONNECT", {"accept-version": "1.2"}),
    ),
    "SEND before CONNECT": (f"{POLICY}|{PROTOCOL_ERROR}", frame(TEXT, encode("SEND", {"destination": "/topic/a"}))),
    "a STOMP header beyond the limit before login": (
        f"{TOO_BIG}|{PROTOCOL_ERROR}|{POLICY}|closed",
        frame(TEXT, b"CONNECT\nx:" + b"y" * (2 * LIMITS["preauth_bytes_max"])),
    ),
    "a million fragments of one byte": (
        f"{TOO_BIG}|{PROTOCOL_ERROR}|{POLICY}|closed",
        frame(TEXT, b"C", fin=False) + frame(CONTINUATION, b"C", fin=False) * 1_000_000,
    ),
    "a million empty fragments": (
        f"{TOO_BIG}|{PROTOCOL_ERROR}|{POLICY}|closed",
        frame(TEXT, b"C", fin=False) + frame(CONTINUATION, b"", fin=False) * 1_000_000,
    ),
    "a million empty messages": (f"{TOO_BIG}|{PROTOCOL_ERROR}|{POLICY}|closed", frame(TEXT, b"") * 1_000_000),
}


def register(sends, expected, data):
    @case("WebSocket", sends, expected)
    def attack():
        websocket = WebSocket()
        try:
            websocket.raw(data)
        except OSError:  # cut while sending: what was said is still to be read
            pass
        outcome = websocket_outcome(websocket)
        websocket.close()
        return outcome


for sends, (expected, data) in ATTACKS.items():
    register(sends, expected, data)


@case("WebSocket", "500,000 pings, no pong read", "held back|refused|taken")
def ping_flood():
    websocket = WebSocket()
    websocket.socket.settimeout(3)
    try:
        websocket.socket.sendall(frame(PING, b"x" * 100) * 500_000)
        return "taken"
    except TimeoutError:
        return "held back"
    except OSError:
        return "refused"
    finally:
        websocket.close()


@case("WebSocket", "a handshake, then silence", f"{POLICY}|closed|close 1001")
def silence_after_handshake():
    websocket = WebSocket()
    outcome = websocket_outcome(websocket, LIMITS["login_timeout"] + 8)
    websocket.close()
    return outcome
