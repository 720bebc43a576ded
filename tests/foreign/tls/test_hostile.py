"""Bytes that are no proper TLS: each connection ends, by itself and soon, and the server goes on."""

import os
import socket
import ssl
import subprocess
import time

import pytest

from conftest import WAIT

GONE = 'tiderace_tls_failures_total{reason="gone"}'


def hello(server):
    """The first flight of a client, as bytes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = server.trusting().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        one.do_handshake()
    return outgoing.read()


def ends(one):
    """All that comes before the end of the connection."""
    data = b""
    try:
        while piece := one.recv(65536):
            data += piece
    except ConnectionError:
        pass
    return data


def record(kind, body, version=b"\x03\x03", length=None):
    return bytes([kind]) + version + (len(body) if length is None else length).to_bytes(2, "big") + body


CASES = {
    "garbage": lambda server: b"\x16" + os.urandom(5000),
    "plain text behind a hello": lambda server: hello(server) + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a hello twice": lambda server: hello(server) * 2,
    "an oversized record": lambda server: record(0x16, os.urandom(100), length=0xFFFF),
    "a record of the size that is just too large": lambda server: record(0x16, os.urandom(16385 + 2048)),
    "empty records": lambda server: record(0x16, b"") * 10_000,
    "an alert first": lambda server: record(0x16, b"\x01")[:-1] + record(0x15, b"\x02\x28"),
    "application data first": lambda server: record(0x16, b"\x01\x00\x00\x05") + record(0x17, os.urandom(500)),
    "a hello that announces sixteen megabytes": lambda server: record(0x16, b"\x01\xff\xff\xff" + os.urandom(16000)),
    "a hello in one-byte records": lambda server: b"".join(
        record(0x16, bytes([byte])) for byte in b"\x01\x00\xff\xff" + os.urandom(65535)
    ),
    "a version that never was": lambda server: record(0x16, os.urandom(300), version=b"\x07\x07"),
    "an old hello": lambda server: b"\x80\x2e\x01\x03\x01" + os.urandom(64),
}


@pytest.mark.parametrize("case", CASES)
def test_it_ends(server, case):
    with server.plain(server.only) as one:
        begin = time.monotonic()
        try:
            one.sendall(CASES[case](server))
        except ConnectionError:
            pass
        ends(one)
        # An alert at once, or silence until the handshake's deadline.
        assert time.monotonic() - begin < WAIT
    with server.connect() as good:
        assert good.version()


def test_half_a_hello_waits_no_longer_than_the_deadline(server):
    before = server.metric('tiderace_connections_closed_total{reason="tls-timeout"}')
    many = [server.plain() for _ in range(50)]
    for one in many:
        one.sendall(hello(server)[:100])
    for one in many:
        ends(one)
        one.close()
    server.reaches('tiderace_connections_closed_total{reason="tls-timeout"}', before + 50)


def test_a_handshake_byte_by_byte(server):
    with server.plain() as one:
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in hello(server):
            one.sendall(bytes([byte]))
        assert one.recv(5)[0] == 0x16


def test_one_address_cannot_have_all_handshakes(server):
    before = server.metric('tiderace_tls_failures_total{reason="too-many"}')
    many = []
    for _ in range(300):
        one = server.plain()
        one.sendall(b"\x16\x03\x01")
        many.append(one)
    server.reaches('tiderace_tls_failures_total{reason="too-many"}', before + 1)
    for one in many:
        one.close()
    server.reaches(GONE, 250)
    with server.connect() as good:
        assert good.version()


def test_renegotiation_and_floods_of_key_updates_are_refused(server):
    # `R` and `k` are words of s_client: renegotiate, and ask for new keys.
    for version, word in [("-tls1_2", b"R\n"), ("-tls1_3", b"k\n")]:
        command = ["openssl", "s_client", version, "-connect", f"127.0.0.1:{server.only}"]
        command += ["-CAfile", server.authority.file]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as one:
            end = time.monotonic() + WAIT
            try:
                while one.poll() is None and time.monotonic() < end:
                    one.stdin.write(word)
                    one.stdin.flush()
                    time.sleep(0.02)
            except BrokenPipeError:
                pass
            assert one.wait(WAIT) is not None
    with server.connect() as good:
        assert good.version()


def test_who_does_not_read_is_not_read_either(server):
    # Elsewhere what the subscriber is too slow for is dropped, and publishers are read on.
    with server.connect() as one:
        one.sendall(b"CONNECT\naccept-version:1.2\nhost:a\n\n\0")
        assert one.recv(1)
        one.sendall(b"SUBSCRIBE\nid:1\ndestination:/topic/blocking/flood\n\n\0")
        body = os.urandom(60_000).hex().encode()
        frame = b"SEND\ndestination:/topic/blocking/flood\ncontent-length:%d\n\n" % len(body) + body + b"\0"
        one.settimeout(1)
        with pytest.raises((TimeoutError, ssl.SSLError, ConnectionError)):
            for _ in range(2000):
                one.sendall(frame)
    with server.connect() as good:
        assert good.version()


PREFACES = {
    "a request of HTTP/1.1": b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "nearly the preface": b"PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n",
    "garbage": b"nonsense" * 8,
}


@pytest.mark.parametrize("case", PREFACES)
def test_a_wrong_preface_where_h2_was_agreed(server, case):
    """An error of HTTP/2 (RFC 9113 section 3.4): frames or nothing, and the end."""
    context = server.trusting()
    context.set_alpn_protocols(["h2"])
    with server.connect(context) as one:
        assert one.selected_alpn_protocol() == "h2"
        one.settimeout(WAIT)
        one.sendall(PREFACES[case])
        said = ends(one)
    kinds = []
    while said:
        assert len(said) >= 9, f"no frame: {said}"
        length, kind = int.from_bytes(said[:3], "big"), said[3]
        kinds.append(kind)
        assert len(said) >= 9 + length, f"no frame: {said}"
        said = said[9 + length :]
    settings, goaway = 4, 7
    assert kinds in ([], [settings], [goaway], [settings, goaway])
