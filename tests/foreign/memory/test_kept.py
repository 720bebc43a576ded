"""What clients make the server keep for others, by each protocol, from clients with and without credentials: see
`test_memory.py` for what is judged."""

import base64
import json
import socket

import pytest
from floods import ROBOT, connect, counted, flood, frame, framed, native, opened, rsocket, stomp, until

import rswire
from dear_values import copying

WHO = ["anonymous", "logged in"]
SPEAKERS = ["native", "rsocket", "socket.io"]


def authorised(who):
    return "" if who == "anonymous" else f"Authorization: {ROBOT}\r\n"


def request(method, path, body, who, kind="application/json"):
    head = f"{method} {path} HTTP/1.1\r\nHost: h\r\n{authorised(who)}Content-Type: {kind}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def operation(protocol, number, asked, who):
    """One operation as that protocol says it, number by number from 1."""
    text = json.dumps(asked).encode()
    if protocol == "REST":
        return request("POST", "/operations", text, who)
    if protocol == "socket.io":
        return frame(b"42" + counted_event(b"operate", text))
    if protocol == "rsocket":
        ask = rswire.request(rswire.REQUEST_RESPONSE, 2 * number - 1, text, rswire.route("operate:"))
        return framed(ask)
    return binary(b"\x0e" + counted(varint(number) + b"\0" + counted(text)))


def counted_event(name, argument):
    return b'["' + name + b'",' + argument + b"]"


def varint(number):
    return counted(b"x" * number)[:-number] if number else b"\0"


def binary(payload):
    """A WebSocket message of any length."""
    size = len(payload)
    if size < 65_536:
        return frame(payload, 2)
    return b"\x82\xff" + size.to_bytes(8, "big") + b"\0\0\0\0" + payload


def begun(client, protocol, who):
    """Logs in; returns what is left to be sent."""
    if protocol == "REST":
        return b""
    if protocol == "rsocket":
        return framed(rsocket(who))
    return opened(client, protocol, who)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("protocol", SPEAKERS)
def test_names(open_server, protocol, who):
    """Each is published to once."""
    tail = "n" * (230 if protocol == "rsocket" else 900)

    def published(number, place):
        path = f"{number}/{place}/{tail}"
        if protocol == "socket.io":
            return frame(b"42" + json.dumps(["publish", path, 1]).encode())
        if protocol == "rsocket":
            return framed(rswire.request(rswire.REQUEST_FNF, 2 * place + 1, b"", rswire.route(path)))
        return binary(b"\x06" + counted(b"\0\0\0\0" + counted(path.encode())))

    def begin(client, number):
        first = begun(client, protocol, who)
        return [first, b"".join(published(number, place) for place in range(30_000))]

    flood(open_server, 12, 0, begin)


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("protocol", SPEAKERS)
def test_wills(open_server, protocol, who):
    will = {"do": "will", "path": "w", "text": "x" * 900_000}

    def begin(client, _):
        first = begun(client, protocol, who)
        if protocol == "socket.io":
            return [binary_text(b"42" + counted_event(b"operate", json.dumps(will).encode()))]
        return [first, operation(protocol, 1, will, who)]

    flood(open_server, 400, 0, begin)


def binary_text(payload):
    return b"\x81" + binary(payload)[1:]


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("protocol", [*SPEAKERS, "events", "lines"])
def test_readers_that_do_not_read(open_server, protocol, who):
    """Each has a topic of its own, so that no message is shared."""
    readers = []
    for number in range(60):
        reader = connect(open_server)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        topic = f"r/{number}"
        if protocol in ("events", "lines"):
            accept = "text/event-stream" if protocol == "events" else "application/x-ndjson"
            head = f"GET /events?topic={topic} HTTP/1.1\r\nHost: h\r\nAccept: {accept}\r\n{authorised(who)}\r\n"
            reader.sendall(head.encode())
            until(reader, b"\r\n\r\n")
        elif protocol == "socket.io":
            opened(reader, protocol, who)
            reader.sendall(frame(b"420" + json.dumps(["subscribe", topic]).encode()))
            until(reader, b"430")
        elif protocol == "rsocket":
            ask = rswire.request(rswire.REQUEST_STREAM, 1, b"", rswire.route(topic), rswire.MANY)
            reader.sendall(framed(rsocket(who)) + framed(ask))
        else:
            opened(reader, protocol, who)
            reader.sendall(frame(b"\x03" + counted(b"\x01\0\0\0" + counted(topic.encode())), 2))
            until(reader, b"\x42\x02\x01\0")
        readers.append(reader)

    def begin(client, number):
        size = 8_000_000
        heads = (
            f"SEND\ndestination:/topic/r/{number * 5 + place}\ncontent-length:{size}\n\n".encode()
            for place in range(5)
        )
        return [stomp(who), *(part for head in heads for part in (head, b"x" * size, b"\0"))]

    flood(open_server, 12, 0, begin)
    for reader in readers:
        reader.close()


def delta(size, version):
    text = base64.b64encode(copying(size)).decode()
    return {"delta": {"codec": 2, "base": version, "base64": text}}


CHANGES = {
    "merges": (900_000, lambda number, *_: {"merge": {"n": number}}),
    "patches": (900_000, lambda number, *_: {"patch": [{"op": "replace", "path": "/n", "value": number}]}),
    "deltas": (7_000_000, lambda number, version, size: delta(size, version + number - 1)),
}


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("protocol", [*SPEAKERS, "REST"])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_large_values(open_server, change, protocol, who):
    """Some bytes each, of which every reader would get all of the value; each client has a topic of its own."""
    size, make = CHANGES[change]
    readers, versions = [], []
    for number in range(6):
        with connect(open_server) as one:
            value = json.dumps({"a": "x" * (size - 20), "n": 0}, separators=(",", ":")).encode()
            one.sendall(request("PUT", f"/topics/m/{number}?retain=true", value, who))
            assert until(one, b"\r\n\r\n").startswith(b"HTTP/1.1 2")
        with connect(open_server) as one:
            one.sendall(request("POST", "/operations", json.dumps({"do": "fetch", "selector": f"m/{number}"}).encode(), who))
            answer = until(one, b'"version":')
            versions.append((int(answer.split(b'"version":')[1].split(b",")[0].split(b"}")[0]), len(value)))
        reader = connect(open_server)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        reader.sendall(stomp(who))
        until(reader, b"CONNECTED")
        reader.sendall(f"SUBSCRIBE\nid:0\ndestination:/topic/m/{number}\nsnapshot:none\n\n\0".encode())
        readers.append(reader)

    def begin(client, number):
        first = begun(client, protocol, who)
        version, length = versions[number]
        asked = (
            {"do": "update", "path": f"m/{number}"} | make(place, version, length) for place in range(1, 201)
        )
        return [first, b"".join(operation(protocol, place, one, who) for place, one in enumerate(asked, 1))]

    flood(open_server, 6, 0, begin)
    for reader in readers:
        reader.close()
