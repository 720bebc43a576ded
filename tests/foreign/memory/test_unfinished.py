"""What clients begin and do not finish, by each protocol, before the login and after it, from clients with and without
credentials: see `test_memory.py` for what is judged."""

import base64
import json
import socket
import struct

import pytest
from floods import (
    Flood,
    connect,
    flood,
    frame,
    framed,
    http2,
    opened,
    post,
    rsocket,
    socketio,
    stomp,
    until,
    websocket,
)

import rswire

WHO = ["anonymous", "logged in"]
POLLING = "/socket.io/?EIO=4&transport=polling"
REQUEST = rswire.request(rswire.REQUEST_FNF, 1, b"x" * 60_000, rswire.route("begun"), flags=rswire.FOLLOWS)
FRAGMENT = rswire.item(1, b"x" * 60_000, flags=rswire.NEXT | rswire.FOLLOWS)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("carrier", ["tcp", "websocket"])
def test_fragments_of_rsocket(open_server, carrier, who):
    def begin(client, _):
        if carrier == "tcp":
            return [framed(rsocket(who)), framed(REQUEST)]
        return [opened(client, "rsocket", who), frame(REQUEST, 2)]

    repeat = framed(FRAGMENT) if carrier == "tcp" else frame(FRAGMENT, 2)
    flood(open_server, 80, 8_000_000, begin, repeat)


@pytest.mark.parametrize("who", WHO)
def test_many_messages_begun_by_rsocket(open_server, who):
    def begin(*_):
        asks = (
            rswire.request(rswire.REQUEST_FNF, 2 * n + 1, b"x" * 16_000, rswire.route("begun"), flags=rswire.FOLLOWS)
            for n in range(300)
        )
        return [framed(rsocket(who)), *map(framed, asks)]

    flood(open_server, 100, 0, begin)


@pytest.mark.parametrize("beginning", ["a password that is judged", "nothing"])
def test_fragments_of_rsocket_before_the_login(server, beginning):
    def begin(*_):
        hello = rswire.setup(metadata=rswire.simple("mal", "wrong"), keepalive=30_000, lifetime=60_000)
        return [framed(hello) if beginning != "nothing" else b"", framed(REQUEST)]

    flood(server, 200, 2_000_000, begin, framed(FRAGMENT))


def event(attachments):
    places = [{"_placeholder": True, "num": number} for number in range(attachments)]
    return f"45{attachments}-{json.dumps(['publish', 'x', *places])}".encode()


@pytest.mark.parametrize("who", [*WHO, "nobody"])
def test_attachments_of_socketio(open_server, who):
    """Nine of ten come."""

    def begin(client, _):
        if who == "nobody":
            client.sendall(websocket("/socket.io/?EIO=4&transport=websocket", None))
            until(client, b"\r\n\r\n")
        else:
            opened(client, "socket.io", who)
        return [frame(event(10))] + [binary(b"x" * 900_000)] * 9

    flood(open_server, 100, 0, begin)


def binary(payload):
    """A frame whose length takes eight bytes."""
    return b"\x82\xff" + struct.pack("!Q", len(payload)) + b"\0\0\0\0" + payload


def session_of_polling(client):
    client.sendall(f"GET {POLLING} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
    return until(client, b'"upgrades"').split(b'"sid":"')[1].split(b'"')[0].decode()


@pytest.mark.parametrize("who", [*WHO, "nobody"])
def test_attachments_of_socketio_by_polling(open_server, who):
    def begin(client, _):
        path = f"{POLLING}&sid={session_of_polling(client)}"

        def posted(body):
            return post(length=len(body), path=path) + body

        if who != "nobody":
            client.sendall(posted(socketio(who)))
            until(client, b"\r\n\r\nok")
            client.sendall(f"GET {path} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            until(client, b"40{")
        part = base64.b64encode(b"x" * 700_000)
        return [posted(event(10))] + [posted(b"b" + part)] * 9

    flood(open_server, 60, 0, begin)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("protocol", ["native", "rsocket", "socket.io", "stomp"])
def test_frames_after_the_login(open_server, protocol, who):
    """Half a message each, in one frame and in fragments of the WebSocket."""

    def begin(client, number):
        first = opened(client, protocol, who)
        if number % 2:
            return [first, b"\x82\xff" + struct.pack("!Q", 15_000_000) + b"\0\0\0\0"]
        return [first, frame(b"\x06", 2, False)]

    flood(open_server, 60, 14_000_000, begin, frame(b"x" * 32_768, 0, False))


@pytest.mark.parametrize("who", WHO)
def test_transactions(open_server, who):
    message = b"SEND\ntransaction:t\ndestination:/topic/x\ncontent-length:60000\n\n" + b"x" * 60_000 + b"\0"
    flood(open_server, 20, 50_000_000, lambda *_: [stomp(who), b"BEGIN\ntransaction:t\n\n\0"], message)


@pytest.mark.parametrize("who", WHO)
def test_small_messages_of_many(open_server, who):
    """Each has less under way than a client is refused for by itself."""

    def begin(client, _):
        client.sendall(framed(rsocket(who)))
        return framed(rswire.request(rswire.REQUEST_FNF, 1, b"x" * 60_000, rswire.route("x"), flags=rswire.FOLLOWS))

    def partly(*args):
        return begin(*args)[:-1]

    flood(open_server, 3_000, 0, begin)
    flood(open_server, 3_000, 0, partly)


def test_small_messages_of_stomp(open_server):
    half = b"SEND\ndestination:/topic/x\ncontent-length:63000\n\n" + b"x" * 60_000
    flood(open_server, 5_000, 0, lambda *_: [stomp("anonymous"), half])


def test_heads_of_http2(server):
    """A few bytes each mean fields of 15 KB, of requests to a session that nobody has logged in to."""
    one = Flood(server)
    for _ in range(300):
        with connect(server) as other:
            sid = session_of_polling(other)
        client = connect(server)
        path = f"{POLLING}&sid={sid}".encode()
        fields = b"\x83\x86\x00\x05:path" + bytes([len(path)]) + path + b"\x00\x0a:authority\x01h"
        # Remembered by the first request, and meant by all others.
        large = b"\x40\x01a\x7f\x8d\x1d" + b"y" * 3_852
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2(4, 0, 0) + http2(1, 4, 1, fields + large))
        begun = (http2(1, 4, 2 * at + 3, fields + b"\xbe" * 3) for at in range(100))
        one.add(client, b"".join(begun))
    one.run()
    one.judge()


@pytest.mark.parametrize("who", WHO)
def test_publishers_of_full_queues(open_server, who):
    """They are held back, with what one read has brought."""
    message = b"SEND\ndestination:/queue/full/%d\ncontent-length:8000\n\n" + b"x" * 8_000 + b"\0"

    def begin(client, number):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        return [stomp("anonymous" if number else who), (message % (number % 50)) * 60]

    flood(open_server, 800, 0, begin)
