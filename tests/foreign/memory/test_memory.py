"""Whatever clients of any protocol make the server keep, it stays within its budget and lives.

Each attack tries to make it keep several times the budget. What is judged is the server's resident memory while the
attack lasts, that it serves somebody else, and that it stops in good order afterwards.
"""

import socket
import struct
import time

import pytest
from conftest import ADDRESS_SPACE
from floods import (
    CONNECT,
    CREDENTIALS,
    QUIET,
    ROBOT,
    SEND,
    WEBSOCKETS,
    Flood,
    connect,
    flood,
    frame,
    http2,
    logged_in,
    post,
    websocket,
)

def test_idle(server):
    """What is merely reserved leaves the address space to what is kept."""
    assert server.status("VmSize") <= ADDRESS_SPACE // 4


@pytest.mark.parametrize("who", CREDENTIALS)
@pytest.mark.parametrize("path", ["/topics/x", "/operations"])
def test_bodies(server, who, path):
    flood(server, 60, 15_900_000, lambda *_: post(CREDENTIALS[who], path=path))


@pytest.mark.parametrize("who", CREDENTIALS)
def test_bodies_in_chunks(server, who):
    head = f"POST /topics/x HTTP/1.1\r\nHost: h\r\n{CREDENTIALS[who]}Transfer-Encoding: chunked\r\n\r\n".encode()
    flood(server, 60, 15_900_000, lambda *_: head, b"8000\r\n" + b"x" * 0x8000 + b"\r\n")


def test_bodies_to_sessions_without_login(server):
    def begin(client, _):
        client.sendall(b"GET /socket.io/?EIO=4&transport=polling HTTP/1.1\r\nHost: h\r\n\r\n")
        answer = client.recv(4096)
        while b'"sid":"' not in answer:
            answer += client.recv(4096)
        sid = answer.split(b'"sid":"')[1].split(b'"')[0].decode()
        return post(length=999_000, path=f"/socket.io/?EIO=4&transport=polling&sid={sid}")

    flood(server, 400, 998_000, begin)


@pytest.mark.parametrize("who", ["nobody", "a token"])
def test_streams_of_http2(server, who):
    """Windows are honoured: what the server opens is used."""
    token = b"\x00\x0dauthorization\x13Bearer robot-secret" if who == "a token" else b""
    fields = b"\x83\x86\x00\x05:path\x09/topics/x\x00\x0a:authority\x01h" + token
    one = Flood(server)
    links = []
    for _ in range(4):
        client = connect(server)
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + http2(4, 0, 0))
        client.sendall(b"".join(http2(1, 4, 2 * at + 1, fields) for at in range(100)))
        client.settimeout(0.02)
        links.append((client, {0: 65_535} | {2 * at + 1: 65_535 for at in range(100)}, bytearray()))
    last = time.monotonic()
    while time.monotonic() - last < QUIET:
        for client, windows, buffer in list(links):
            for stream in list(windows)[1:]:
                size = min(16_384, windows[0], windows[stream])
                if size > 0:
                    try:
                        client.settimeout(0.5)
                        client.sendall(http2(0, 0, stream, b"x" * size))
                        client.settimeout(0.002)
                    except OSError:
                        break
                    windows[0] -= size
                    windows[stream] -= size
                    last = time.monotonic()
            try:
                buffer += client.recv(65536)
            except OSError:
                continue
            while len(buffer) >= 9:
                length, kind = int.from_bytes(buffer[:3], "big"), buffer[3]
                if len(buffer) < 9 + length:
                    break
                stream = int.from_bytes(buffer[5:9], "big")
                if kind == 8 and stream in windows:
                    windows[stream] += int.from_bytes(buffer[9:13], "big")
                elif kind == 3:
                    windows.pop(stream, None)
                elif kind == 4 and not buffer[4] & 1:
                    client.send(http2(4, 1, 0))
                del buffer[: 9 + length]
    one.sockets = [[client] for client, _, _ in links]
    one.judge()


@pytest.mark.parametrize("protocol", WEBSOCKETS)
def test_fragments_of_messages_without_login(server, protocol):
    upgrade = websocket(*WEBSOCKETS[protocol])
    flood(server, 60, 15_000_000, lambda *_: [upgrade, frame(b"a", 2, False)], frame(b"x" * 32_768, 0, False))


@pytest.mark.parametrize("protocol", WEBSOCKETS)
def test_frames_without_login(server, protocol):
    head = b"\x82\xff" + struct.pack("!Q", 15_000_000) + b"\0\0\0\0"
    flood(server, 60, 14_900_000, lambda *_: [websocket(*WEBSOCKETS[protocol]), head])


def test_stomp_without_login(server):
    flood(server, 60, 15_900_000, lambda *_: [CONNECT[:-2], b"x:", b"\0"])
    flood(server, 60, 15_900_000, lambda *_: SEND)


def test_stomp_messages_unfinished(server):
    flood(server, 60, 15_000_000, lambda *args: [logged_in(*args), SEND])


def test_websocket_messages_unfinished(server):
    def begin(client, _):
        client.sendall(websocket("/stomp", "v12.stomp") + frame(CONNECT))
        answer = client.recv(4096)
        while b"CONNECTED" not in answer:
            answer += client.recv(4096)
        return [frame(SEND, 2, False)]

    flood(server, 60, 15_000_000, begin, frame(b"x" * 32_768, 0, False))


def test_stomp_transactions(server):
    message = b"SEND\ntransaction:t\ndestination:/topic/x\ncontent-length:60000\n\n" + b"x" * 60_000 + b"\0"
    begin = lambda *args: [logged_in(*args), b"BEGIN\ntransaction:t\n\n\0"]
    flood(server, 20, 50_000_000, begin, message)


@pytest.mark.parametrize("kind", ["topic", "queue"])
def test_names(server, kind):
    def begin(client, number):
        logged_in(client)
        name = "n" * 900
        return b"".join(
            f"SEND\ndestination:/{kind}/{number}/{place}/{name}\n\n\0".encode() for place in range(50_000)
        )

    flood(server, 12, 0, begin)


def test_subscriptions(server):
    def begin(client, number):
        logged_in(client)
        return b"".join(
            f"SUBSCRIBE\nid:{place}\ndestination:/topic/{number}/{place}/*x{'y' * 200}\n\n\0".encode()
            for place in range(10_000)
        )

    flood(server, 100, 0, begin)


def test_readers_that_do_not_read(server):
    """Each has a topic of its own, so that no message is shared."""
    readers = []
    for number in range(60):
        reader = connect(server)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        logged_in(reader)
        reader.sendall(f"SUBSCRIBE\nid:0\ndestination:/topic/r/{number}\n\n\0".encode())
        readers.append(reader)

    def begin(client, number):
        logged_in(client)
        size = 8_000_000
        return [
            part
            for place in range(5)
            for part in (
                f"SEND\ndestination:/topic/r/{number * 5 + place}\ncontent-length:{size}\n\n".encode(),
                b"x" * size,
                b"\0",
            )
        ]

    flood(server, 12, 0, begin)
    for reader in readers:
        reader.close()


def test_changes_of_a_large_value(server):
    """Some bytes each, of which every reader would get a megabyte."""
    with connect(server) as one:
        value = b'{"a":"' + b"x" * 900_000 + b'"}'
        head = f"PUT /topics/m HTTP/1.1\r\nHost: h\r\nAuthorization: {ROBOT}\r\nContent-Type: application/json\r\n"
        one.sendall(head.encode() + f"Content-Length: {len(value)}\r\n\r\n".encode() + value)
        assert one.recv(100).startswith(b"HTTP/1.1 2")
    readers = []
    for _ in range(4):
        reader = connect(server)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        logged_in(reader)
        reader.sendall(b"SUBSCRIBE\nid:0\ndestination:/topic/m\n\n\0")
        readers.append(reader)
    head = f"PATCH /topics/m HTTP/1.1\r\nHost: h\r\nAuthorization: {ROBOT}\r\n"
    head += "Content-Type: application/merge-patch+json\r\nContent-Length: 11\r\n\r\n"
    flood(server, 10, 0, lambda _, number: b"".join(head.encode() + b'{"b":%5d}' % place for place in range(100)))
    for reader in readers:
        reader.close()


def test_values(server):
    """Retained, each under a name of its own."""
    def begin(client, number):
        logged_in(client)
        return [
            part
            for place in range(20)
            for part in (
                f"SEND\ndestination:/topic/v/{number}/{place}\nretain:true\ncontent-length:2000000\n\n".encode(),
                b"x" * 2_000_000,
                b"\0",
            )
        ]

    flood(server, 10, 0, begin)


def test_many_changes_in_one_message(server):
    """Each some bytes long, of which a value of a megabyte is made that a reader would get."""
    from dear_values import by_native

    with connect(server) as one:
        value = b'{"a":"' + b"x" * 900_000 + b'"}'
        head = f"PUT /topics/m HTTP/1.1\r\nHost: h\r\nAuthorization: {ROBOT}\r\nContent-Type: application/json\r\n"
        one.sendall(head.encode() + f"Content-Length: {len(value)}\r\n\r\n".encode() + value)
        assert one.recv(100).startswith(b"HTTP/1.1 2")
    reader = connect(server)
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    logged_in(reader)
    reader.sendall(b"SUBSCRIBE\nid:0\ndestination:/topic/m\n\n\0")
    changes = (f'{{"do":"update","path":"m","merge":{{"b":{number}}}}}' for number in range(1_500))
    client, message = by_native(changes)
    one = Flood(server)
    one.add(client, message)
    one.run()
    one.judge()
    reader.close()
