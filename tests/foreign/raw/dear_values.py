"""Dear operations on values: conditions, patches, merges, deltas, schemas, lists and histories, by each protocol."""

import base64
import json

import rswire
from dear import BYTES_MAX, DONE, Attack, dear, filled
from hostile_engineio import dial
from hostile_events import TOKEN, ask, json_request, request
from hostile_operations import varint
from wire import Client, encode, unique
from wsclient import BINARY, WebSocket, frame

MIB = 2**20


def put(path, body, **fields):
    fields = {"Content_Type": "application/json"} | fields
    answer = ask(request(f"PUT /topics/{path}?retain=true", body.encode(), **fields))
    assert answer.startswith(b"HTTP/1.1 20"), answer[:300]


def operate(operation):
    answer = ask(json_request("POST /operations", json.dumps(operation)))
    assert answer.startswith(b"HTTP/1.1 200"), answer[:300]
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def push_all(one, data):
    """Sends all of it, unless the server does not read on: then it has sent what the server takes."""
    one.settimeout(20)
    try:
        one.sendall(data)
    except OSError:
        pass
    return one


# One way to send operations for each protocol: prepared bytes, so that making them is not measured.


def by_rest(operations):
    client = Client()
    ready = b"".join(json_request("POST /operations", text, Connection="keep-alive") for text in operations)
    return client.socket, ready


def by_socketio(operations):
    websocket = dial()
    events = (f'42{number}["operate",{text}]' for number, text in enumerate(operations))
    return websocket.socket, b"".join(frame(1, event) for event in events)


def counted(payload):
    return varint_low(len(payload)) + payload


def varint_low(number):
    """LEB128: seven bits a byte, the lowest first."""
    out = bytearray()
    while number > 127:
        out.append(128 | number & 127)
        number >>= 7
    return bytes([*out, number])


def native_hello():
    hello = b"\x01\x00\x02" + counted(TOKEN.encode()) + b"\x00" + counted(b"dear") + b"\x00"
    websocket = WebSocket(path="/tiderace", Sec_WebSocket_Protocol="tiderace.v1")
    websocket.send(b"\x01" + counted(hello), BINARY)
    assert websocket.receive()[1][:1] == b"\x41"
    return websocket


NATIVE_TOGETHER = 16_000
"""Messages that one message of the transport holds: a few less than it may."""


def native_frames(messages):
    """Messages of the native protocol in as few messages of the transport as may be."""
    parts = (messages[first : first + NATIVE_TOGETHER] for first in range(0, len(messages), NATIVE_TOGETHER))
    return b"".join(frame(BINARY, b"".join(part)) for part in parts)


def by_native(operations):
    websocket = native_hello()
    messages = []
    for number, text in enumerate(operations, 1):
        payload = varint_low(number) + b"\0" + counted(text.encode())
        messages.append(b"\x0e" + counted(payload))
    return websocket.socket, native_frames(messages)


def by_rsocket(operations):
    client = rswire.Client().login(lifetime=60_000)
    frames = []
    for text in operations:
        stream = next(client.streams)
        frames.append(rswire.request(rswire.REQUEST_RESPONSE, stream, text.encode(), rswire.route("operate:")))
    return client.socket, b"".join(map(client.carrier.encode, frames))


PROTOCOLS = {"REST": by_rest, "Socket.IO": by_socketio, "native": by_native, "RSocket": by_rsocket}
OVERHEAD = {"REST": 160, "Socket.IO": 24, "native": 10, "RSocket": 40}
"""Bytes that a protocol adds to an operation, about."""


def by_each(sends, *answers):
    """Registers the function below it for each protocol: it gives a function from numbers to operations."""

    def register(prepare):
        for protocol, send in PROTOCOLS.items():

            def attack(send=send, protocol=protocol):
                make = prepare()
                texts = filled(lambda number: json.dumps(make(number)) + " " * OVERHEAD[protocol])
                one, ready = send([text.rstrip() for text in texts])
                return Attack([(one, ready)])

            dear(protocol, sends, *answers)(attack)
        return prepare

    return register


def large(megabytes):
    """A topic with a large value: JSON with many fields."""
    path = unique("dear")
    fields = {f"k{number:06}": "x" * 40 for number in range(int(megabytes * MIB) // 58)}
    put(path, json.dumps(fields | {"n": 1}, separators=(",", ":")))
    return path


@by_each("60 conditions on places of a value of 15 MiB, again and again", "too-much-work")
def conditions_15():
    path = large(14.5)
    parts = [{"at": f"/p{number}", "exists": True} for number in range(60)]
    return lambda _: {"do": "update", "path": path, "value": 1, "if": {"any": parts}}


@by_each("60 conditions on places of a value of 1 MiB, again and again", "condition-failed")
def conditions_1():
    path = large(0.9)
    parts = [{"at": f"/p{number}", "exists": True} for number in range(60)]
    return lambda _: {"do": "update", "path": path, "value": 1, "if": {"any": parts}}


@by_each("one condition on a place of a value of 1 MiB, again and again", "condition-failed")
def condition():
    path = large(0.9)
    return lambda _: {"do": "update", "path": path, "value": 1, "if": {"at": "/none", "exists": True}}


@by_each("a JSON Patch of a value of 15 MiB, again and again", "too-much-work")
def patch_15():
    path = large(14.5)
    return lambda number: {"do": "update", "path": path, "patch": [{"op": "replace", "path": "/n", "value": number}]}


@by_each("a JSON Patch of a value of 1 MiB, again and again", DONE)
def patch_1():
    path = large(0.9)
    return lambda number: {"do": "update", "path": path, "patch": [{"op": "replace", "path": "/n", "value": number}]}


@by_each("a JSON Patch that tests a value of 1 MiB 100 times, again and again", "bad-patch")
def patch_tests():
    path = large(0.9)
    tests = [{"op": "test", "path": "/n", "value": 1}] * 100
    return lambda _: {"do": "update", "path": path, "patch": tests}


@by_each("a merge patch of a value of 1 MiB, again and again", DONE)
def merge():
    path = large(0.9)
    return lambda number: {"do": "update", "path": path, "merge": {"n": number}}


def copying(size):
    """A VCDIFF that copies its source."""
    sections = varint(size) + b"\0" + varint(0) + varint(1 + len(varint(size))) + varint(1)
    body = sections + b"\x13" + varint(size) + b"\0"
    return b"\xd6\xc3\xc4\0\0" + b"\x01" + varint(size) + varint(0) + varint(len(body)) + body


def deltas_of(size, spec=None):
    path = unique("dear")
    if spec:
        operate({"do": "create", "path": path, "spec": spec})
    put(path, "x" * size, Content_Type="text/plain")
    first = operate({"do": "fetch", "selector": path})["topics"][0]["version"]
    delta = base64.b64encode(copying(size)).decode()
    return lambda number: {
        "do": "update", "path": path, "delta": {"codec": 2, "base": first + number, "base64": delta}
    }


@by_each("a delta of a value of 15 MB, again and again", DONE, "memory-full", "condition-failed")
def deltas_15():
    return deltas_of(15_000_000)


@by_each("a delta of a value of 1 MB, again and again", DONE, "memory-full", "condition-failed")
def deltas_1():
    return deltas_of(1_000_000)


def many_topics(count, value="1"):
    root = unique("dear")
    for begin in range(0, count, 1000):
        batch = [{"topic": f"{root}/{n}", "value": value, "retain": True} for n in range(begin, begin + 1000)]
        ask(json_request("POST /batch", json.dumps(batch)))
    return root


@by_each("the longest page of topics with their values, again and again", DONE)
def pages():
    root = many_topics(10_000)
    return lambda _: {"do": "fetch", "selector": f"{root}/**", "limit": 1_000, "values": True}


@by_each("a list of topics that are looked at and not shown, again and again", DONE)
def misses():
    root = many_topics(10_000)
    return lambda _: {"do": "fetch", "selector": f"?{root}/x+y"}


@by_each("the whole history of 10,000 messages, again and again", DONE)
def histories():
    path = unique("dear")
    operate({"do": "create", "path": path, "spec": {"history": 10_000}})
    for _ in range(10):
        ask(json_request("POST /batch", json.dumps([{"topic": path, "value": n} for n in range(1000)])))
    return lambda _: {"do": "history", "path": path, "version": 0, "limit": 10_000}


@by_each("a schema with large expressions, another each time", "bad-specification")
def schemas():
    root = unique("dear")
    return lambda number: {
        "do": "create",
        "path": f"{root}/{number}",
        "spec": {"type": "json", "schema": {"pattern": "(a|b|[c-x]{1,40}){1,20}", "description": str(number)}},
    }


@by_each("a schema with an expression, another each time", DONE)
def schemas_that_are_taken():
    root = unique("dear")
    return lambda number: {
        "do": "update",
        "path": f"{root}/{number}",
        "value": "b",
        "spec": {"type": "json", "schema": {"pattern": "(a|b|[c-x]{1,8}){1,8}", "description": str(number)}},
    }


@by_each("a list by a selector of 16 large expressions, others each time", DONE)
def expressions():
    root = unique("dear")

    def fetch(number):
        members = ",".join(f"?{root}/{number}/(a?){{14}}{letter}" for letter in "abcdefghijklmnop")
        return {"do": "fetch", "selector": f"[{members}]"}

    return fetch


@by_each("a list by a selector with an expression that is too large, another each time", "bad-destination", "bad-selector")
def expressions_too_large():
    root = unique("dear")
    return lambda number: {"do": "fetch", "selector": f"?{root}/{number}/(a|b|[c-x]{{1,40}}){{1,20}}"}


@by_each("values that a schema of many parts is tried on", "bad-value")
def checked():
    path = unique("dear")
    parts = [{"type": "object", "required": [f"r{n}"]} for n in range(150)]
    operate({"do": "create", "path": path, "spec": {"type": "json", "schema": {"items": {"anyOf": [*parts, True]}}}})
    return lambda number: {"do": "update", "path": path, "value": [{"a": 1}] * 100}


# What STOMP can say of it.


def stomp(sends):
    def register(prepare):
        def attack():
            make = prepare()
            client = Client()
            client.login(heart_beat="0,0")
            # An update that is refused ends a session of STOMP. The last answer is the receipt.
            return Attack([(client.socket, b"".join(filled(make)))], grows={"tiderace_messages_received_total": 20})

        dear("STOMP", sends)(attack)
        return prepare

    return register


def send(path, body, **headers):
    fields = {"destination": f"/topic/{path}"} | {name.replace("_", "-"): value for name, value in headers.items()}
    return encode("SEND", fields, body)


@stomp("a JSON Patch of a value of 1 MiB, again and again")
def stomp_patch():
    path = large(0.9)
    return lambda number: send(path, json.dumps([{"op": "replace", "path": "/n", "value": number}]), patch="json")


@stomp("a merge patch of a value of 1 MiB, again and again")
def stomp_merge():
    path = large(0.9)
    return lambda number: send(path, json.dumps({"n": number}), patch="merge")


@stomp("small values for a topic with a schema")
def stomp_small():
    path = unique("dear")
    parts = [{"type": "object", "required": [f"r{n}"]} for n in range(5)]
    operate({"do": "create", "path": path, "spec": {"type": "json", "schema": {"anyOf": [*parts, True]}}})
    return lambda _: send(path, '{"a":1}')
