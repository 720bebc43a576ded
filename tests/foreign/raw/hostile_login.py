"""Attacks before anybody has logged in: foreign protocols, floods, and clients that take their time."""

import random
import time

from hostile import case, chunks, finish, outcome_of, push, simple, tcp
from limits import LIMITS, LOGIN_FAILURES_MAX
from wire import LOGIN, PASSCODE, Client, encode, stomp_only_address

CONNECT = {"accept-version": "1.2", "host": "localhost", "login": LOGIN, "passcode": PASSCODE}
FOREIGN = "unknown-protocol|closed"
MIB = 2**20

simple(
    "login",
    FOREIGN,
    login=False,
    SEND_before_CONNECT=encode("SEND", {"destination": "/topic/a"}, "x"),
    SUBSCRIBE_before_CONNECT=encode("SUBSCRIBE", {"id": "1", "destination": "/topic/a"}),
    BEGIN_before_CONNECT=encode("BEGIN", {"transaction": "t"}),
    ACK_before_CONNECT=encode("ACK", {"id": "1"}),
)
simple(
    "login",
    "unsupported-version",
    login=False,
    unsupported_accept_version=encode("CONNECT", CONNECT | {"accept-version": "9.9"}),
    empty_accept_version=encode("CONNECT", CONNECT | {"accept-version": ""}),
)
simple(
    "login",
    "bad-text|bad-header",
    login=False,
    invalid_UTF__8_in_a_CONNECT_header=b"CONNECT\naccept-version:1.2\nhost:\xff\xfe\n\n\0",
    an_overlong_UTF__8_encoding_in_the_login=b"CONNECT\naccept-version:1.2\nhost:h\nlogin:\xc0\xaf\n\n\0",
)
simple(
    "login",
    "frame-too-large|bad-frame|bad-header|closed",
    login=False,
    CONNECT_with_a_header_of_1_MiB=encode("CONNECT", CONNECT | {"x": "y" * MIB}),
    CONNECT_with_10_000_headers=encode("CONNECT", list(CONNECT.items()) + [(f"h{n}", "v") for n in range(10_000)]),
    CONNECT_with_a_body_of_1_MiB=encode("CONNECT", CONNECT | {"content-length": MIB}, b"x" * MIB),
    CONNECT_declaring_a_body_of_8_EiB=encode("CONNECT", CONNECT | {"content-length": 2**63 - 1}, b"x"),
    CONNECT_with_just_over_the_limit_before_login=encode("CONNECT", CONNECT | {"x": "y" * LIMITS["preauth_bytes_max"]}),
)
simple(
    "login",
    FOREIGN,
    login=False,
    an_unknown_command_first=b"JUMP\n\n\0",
    a_lower_case_command=b"connect\naccept-version:1.2\n\n\0",
    NUL_bytes_first=b"\0" * 100,
    an_SSH_greeting=b"SSH-2.0-OpenSSH_9.6\r\n",
    an_SMTP_greeting=b"EHLO example.org\r\n",
    a_Redis_command=b"*1\r\n$4\r\nPING\r\n",
    an_MQTT_CONNECT=b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd",
    an_AMQP_header=b"AMQP\x00\x00\x09\x01",
)
simple(
    "login",
    "proxy-not-trusted",
    login=False,
    a_PROXY_header_nobody_asked_for=b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n" + encode("CONNECT", CONNECT),
)
simple("login", FOREIGN, login=False, random_bytes=random.Random(7).randbytes(4000))
CLIENT_HELLO = bytes.fromhex("1603010075010000710303") + bytes(32) + b"\x00" + bytes.fromhex("000213010100") + bytes(70)
simple("login", "TLS alert|tls-not-supported", login=False, a_TLS_ClientHello_to_the_plain_port=CLIENT_HELLO)

PINNED = {
    "SEND before CONNECT": (
        "login-required|unexpected-frame|unknown-protocol",
        encode("SEND", {"destination": "/topic/a"}, "x"),
    ),
    "DISCONNECT before CONNECT": ("login-required|unexpected-frame|unknown-protocol|closed", encode("DISCONNECT")),
    "an unknown command first": ("bad-frame|unexpected-frame|unknown-protocol", b"JUMP\n\n\0"),
    "HTTP": (
        "protocol-not-allowed|unknown-protocol|bad-frame|unexpected-frame|HTTP 400|closed",
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    ),
    "random bytes": ("bad-frame|unexpected-frame|unknown-protocol|closed", random.Random(8).randbytes(4000)),
}


def register_pinned(sends, expected, data):
    @case("the port for STOMP alone", sends, expected)
    def attack():
        client = Client(to=stomp_only_address())
        push(client, data)
        outcome = finish(client)
        client.close()
        return outcome


if stomp_only_address():
    for sends, (expected, data) in PINNED.items():
        register_pinned(sends, expected, data)


@case("login", "16 MiB of a header without a line end", "frame-too-large|bad-header|closed")
def endless_header():
    client = tcp()
    push(client, b"CONNECT\nlogin:")
    assert push(client, chunks(b"a", 16 * MIB)) != "taken", "the server read all of it"
    return finish(client)


@case("login", "16 MiB of line ends", "frame-too-large|unknown-protocol|closed")
def endless_line_ends():
    client = tcp()
    assert push(client, chunks(b"\n", 16 * MIB)) != "taken", "the server read all of it"
    return finish(client)


@case("login", "nothing at all", "first-byte-timeout|closed")
def silence():
    client = tcp()
    started = time.monotonic()
    outcome = finish(client, LIMITS["first_byte_timeout"] + 8)
    assert time.monotonic() - started >= LIMITS["first_byte_timeout"] * 0.9, "cut too early"
    return outcome


def trickle(data, period, wait):
    """One byte per period until the server has had enough; what it said at last."""
    client = tcp()
    client.socket.settimeout(period)
    until = time.monotonic() + wait
    for byte in data:
        assert time.monotonic() < until, "still not cut"
        if push(client, bytes([byte])) == "refused":
            break
        client.socket.settimeout(period)
        try:  # the wait for an answer is the pause between two bytes
            got = client.socket.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            break
        client.buffer += got
        if not got:
            break
    return finish(client)


@case("login", "CONNECT, one byte every 100 ms", "login-timeout|closed")
def slow_connect():
    return trickle(encode("CONNECT", CONNECT | {"x": "y" * 2000}), 0.1, LIMITS["login_timeout"] + 8)


@case("login", "CONNECT without its NUL, then silence", "login-timeout|closed")
def unfinished_connect():
    return outcome_of(encode("CONNECT", CONNECT)[:-1], login=False, wait=LIMITS["login_timeout"] + 8)


@case("login", "one line end every 100 ms", "login-timeout|first-byte-timeout|closed")
def slow_line_ends():
    return trickle(b"\n" * 2000, 0.1, LIMITS["first_byte_timeout"] + LIMITS["login_timeout"] + 8)


@case("login", "an HTTP head, one byte every 100 ms", "HTTP 408|head-timeout|closed")
def slow_http_head():
    return trickle(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 2000, 0.1, LIMITS["head_timeout"] + 8)


@case("login", "more wrong passwords than allowed", "too-many-logins")
def password_guessing():
    for n in range(LOGIN_FAILURES_MAX + 1):
        outcome = outcome_of(encode("CONNECT", CONNECT | {"login": "clumsy", "passcode": f"guess {n}"}), login=False)
        if outcome != "login-failed":
            break
    return outcome


@case("login", "more connections from one address than allowed", "too-many-connections|closed")
def connection_flood():
    source = ("127.0.0.9", 0)
    crowd = []
    try:
        for _ in range(LIMITS["connections_per_ip_max"]):
            crowd.append(tcp(source))
        last = tcp(source)
        crowd.append(last)
        return finish(last, wait=LIMITS["first_byte_timeout"] * 0.75)
    finally:
        for client in crowd:
            client.close()


@case("login", "200 connections that each declare the largest body and send 10 bytes of it", "waiting, then closed")
def declared_bodies():
    """Allocation follows the bytes received: 200 × 2 MiB declared must not show in memory."""
    crowd = []
    try:
        for _ in range(200):
            crowd.append(client := tcp())
            client.login()
            client.raw(b"SEND\ndestination:/topic/a\ncontent-length:2097152\n\n0123456789")
        return "waiting, then closed"
    finally:
        for client in crowd:
            client.close()
