"""Attacks on Engine.IO and Socket.IO: sessions, payloads, packets, attachments and greed."""

import http.client
import json
import os
import re
import socket
import struct

from hostile import case
from limits import LIMITS
from wire import WAIT, address, unique
from wsclient import BINARY, CONTINUATION, TEXT, WebSocket

TOKEN = os.environ.get("TIDERACE_TOKEN", "robot-secret")
PATH = "/socket.io/"


def http_ask(method="GET", query="EIO=4&transport=polling", body=None, **headers):
    connection = http.client.HTTPConnection(*address(), timeout=WAIT)
    try:
        connection.request(method, f"{PATH}?{query}", body, {n.replace("_", "-"): v for n, v in headers.items()})
        response = connection.getresponse()
        return response.status, response.read()
    except (ConnectionError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def opened(revision=4):
    """The query of a new polling session that is connected to the namespace `/`."""
    query = f"EIO={revision}&transport=polling&token={TOKEN}" + ("&b64=1" if revision == 3 else "")
    _, body = http_ask(query=query)
    sid = re.search(rb'"sid":"([^"]+)"', body)[1].decode()
    query += f"&sid={sid}"
    if revision == 4:
        http_ask("POST", query, b'40{"token":"%s"}' % TOKEN.encode())
        http_ask(query=query)
    return query


def posted(payload, revision=4, content_type="text/plain;charset=UTF-8"):
    """What became of a session that posted this."""
    query = opened(revision)
    status, _ = http_ask("POST", query, payload, Content_Type=content_type)
    for _ in range(4):
        last, body = http_ask(query=query)
        if last != 200:
            return f"HTTP {status}, session over"
        if revision == 4 and body == b"2":
            return f"HTTP {status}, session lives"
    return f"HTTP {status}, session lives"


def register(group, sends, expected, attack):
    case(group, sends, expected)(attack)


for sends, query in {
    "the transport __proto__": "EIO=4&transport=__proto__",
    "the transport constructor": "EIO=4&transport=constructor",
    "the session __proto__": "EIO=4&transport=polling&sid=__proto__",
    "a session of 6 KiB": "EIO=4&transport=polling&sid=" + "x" * 6144,
    "a session of zero bytes and escapes": "EIO=4&transport=polling&sid=%00%00%2e%2e",
    "revision 99999999999999999999": "EIO=99999999999999999999&transport=polling",
    "two revisions": "EIO=5&EIO=4&transport=polling",
    "a query of nothing but ampersands": "&" * 4000,
}.items():
    register("Engine.IO", sends, "HTTP 400", lambda query=query: f"HTTP {http_ask(query=query)[0]}")

for sends, (revision, payload) in {
    "a packet of an unknown type": (4, b"9"),
    "an open packet": (4, b'0{"sid":"x"}'),
    "a ping of the client in revision 4": (4, b"2"),
    "an upgrade packet on polling": (4, b"5"),
    "base64 that is none": (4, b"b!!!!"),
    "nothing but separators": (4, b"\x1e" * 1000),
    "10,001 packets": (4, b"\x1e".join([b"6"] * 10_001)),
    "text that is not UTF-8": (4, b"4\xff\xfe"),
    "a declared length of 10 GB": (3, b"10000000000:4x"),
    "a declared length of 100 digits": (3, b"9" * 100 + b":4"),
    "a negative length": (3, b"-5:4x"),
    "a length without a colon": (3, b"12345"),
    "a length that cuts an emoji in two": (3, "2:4🌊".encode()),
    "a pong of the client in revision 3": (3, b"1:3"),
    "base64 in a text packet that is none": (3, b"5:b4!!!"),
}.items():
    register("Engine.IO", sends, "HTTP (200|400), session over", lambda p=payload, r=revision: posted(p, r))

for sends, payload in {
    "a binary payload without its end of length": b"\0\1\2\3",
    "a binary length of 300 digits": b"\0" + b"\x09" * 300 + b"\xff4x",
    "a binary length above the payload": b"\1\x09\x09\x09\xff\x04x",
    "a binary packet of type 255": b"\1\2\xff\xff\xff",
}.items():
    register(
        "Engine.IO", sends, "HTTP (200|400), session over", lambda p=payload: posted(p, 3, "application/octet-stream")
    )


@case("Engine.IO", "a body above the limit", "HTTP 413.*")
def large_body():
    return posted(b"4" + b"x" * 1_000_001)


@case("Engine.IO", "a declared body of 10 GB and one byte of it", "HTTP 413|closed")
def declared_body():
    query = opened()
    with socket.create_connection(address(), timeout=WAIT) as one:
        one.sendall(f"POST {PATH}?{query} HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000000\r\n\r\n4".encode())
        got = one.recv(65536)
    return f"HTTP {got.split()[1].decode()}" if got else "closed"


@case("Engine.IO", "two polls at once", "one refused, session over")
def two_polls():
    query = opened()
    first = http.client.HTTPConnection(*address(), timeout=WAIT)
    first.request("GET", f"{PATH}?{query}")
    # Either may be the first to arrive.
    both = {http_ask(query=query)[0], first.getresponse().status}
    first.close()
    over = http_ask(query=query)[0] == 400
    return f"{'one' if 400 in both else 'none'} refused, session {'over' if over else 'lives'}"


@case("Engine.IO", "an origin with bytes that are no text", "HTTP 40[03]")
def odd_origin():
    return f"HTTP {http_ask(Origin=b'http://' + bytes(range(128, 160)))[0]}"


@case("Engine.IO", "a script's index that closes its call", "HTTP 400|escaped")
def script_index():
    status, body = http_ask(query="EIO=3&transport=polling&j=1);alert(1);//")
    return f"HTTP {status}" if status != 200 else "escaped" if b"alert" not in body else repr(body[:60])


@case("Engine.IO", "300 sessions opened and left alone", "opened|opened as far as one address may")
def abandoned_sessions():
    bodies = [body for status, body in (http_ask() for _ in range(300)) if status == 200]
    # Those that come next begin when these are over.
    sid = re.search(rb'"sid":"([^"]+)"', bodies[-1])[1].decode()
    while http_ask(query=f"EIO=4&transport=polling&sid={sid}")[0] == 200:
        pass
    return "opened" if len(bodies) == 300 else "opened as far as one address may"


@case("Engine.IO", "100 upgrades cut by a reset in the middle", "session lives")
def reset_upgrades():
    query = opened()
    for _ in range(100):
        websocket = WebSocket(path=f"{PATH}?{query.replace('polling', 'websocket')}", Sec_WebSocket_Protocol=None)
        websocket.send("2probe")
        websocket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        websocket.close()
    status, _ = http_ask("POST", query, b"6")
    return "session lives" if status == 200 else f"HTTP {status}"


# Socket.IO over a WebSocket


def dial(revision=4, connect=True):
    path = f"{PATH}?EIO={revision}&transport=websocket&token={TOKEN}"
    websocket = WebSocket(path=path, Sec_WebSocket_Protocol=None)
    websocket.receive()
    if connect and revision == 4:
        websocket.send('40{"token":"%s"}' % TOKEN)
    if connect:
        websocket.receive()
    return websocket


def outcome(websocket):
    """`lives` if an event is answered after all; before that, the code of the first complaint; or the end."""
    code = None
    try:
        websocket.send('42777777["publish","hostile/lives",1]')
    except OSError:
        return "closed"
    while True:
        try:
            got = websocket.receive()
        except TimeoutError:
            return "no answer"
        if got is None or got[0] == 8:
            return f"{code}, closed" if code else "closed"
        text = got[1].decode("utf-8", "replace")
        if text == "2":
            websocket.send("3")
        elif text.startswith("43777777"):
            websocket.close()
            return code or "lives"
        elif found := re.search(r'"code":"([a-z0-9-]+)"', text):
            code = code or found[1]


def said(*messages, revision=4, connect=True):
    def attack():
        websocket = dial(revision, connect)
        try:
            for message in messages:
                websocket.send(message, BINARY if isinstance(message, bytes) else TEXT)
        except OSError:
            return "closed"
        return outcome(websocket)

    return attack


BREACH = "((bad-frame|frame-too-large|unexpected-frame), )?closed"
PLACEHOLDER = '451-["publish","hostile/x",%s]'
for sends, (expected, attack) in {
    "an event before CONNECT": (BREACH, said('42["publish","a",1]', connect=False)),
    "a second CONNECT": (BREACH, said("40")),
    "an unknown packet type": (BREACH, said("49")),
    "an event that is no array": (BREACH, said('42{"a":1}')),
    "an empty event": (BREACH, said("42[]")),
    "an event named connect": (BREACH, said('42["connect"]')),
    "an event named disconnect": (BREACH, said('42["disconnect"]')),
    "an event named null": (BREACH, said("42[null]")),
    "an event named __proto__": ("unexpected-frame", said('420["__proto__",{"__proto__":{"a":1}}]')),
    "JSON cut in the middle": (BREACH, said('42["publish","a",{"x":')),
    "JSON nested 100,000 deep": (BREACH, said('42["publish","a",' + "[" * 100_000)),
    "an ack id of 100 digits": (BREACH, said("42" + "9" * 100 + '["publish","a",1]')),
    "an ack nobody asked for": (f"{BREACH}|lives|unknown-ack", said("4312345[]")),
    "a namespace of 64 KiB": (f"{BREACH}|bad-.*", said("40/" + "x" * 65536 + ",")),
    "1,000 unknown namespaces": ("bad-destination", said(*[f"40/hostile{n}," for n in range(1000)])),
    "11 attachments": (BREACH, said('4511-["publish","a",1]')),
    "10 to the 9 attachments": (BREACH, said('451000000000-["publish","a",1]')),
    "attachments without a number": (BREACH, said('45-["publish","a",1]')),
    "an attachment out of nowhere": (BREACH, said(b"x")),
    "text among attachments": (BREACH, said(PLACEHOLDER % '{"_placeholder":true,"num":0}', '42["publish","a",1]')),
    "a placeholder above the attachments": (f"{BREACH}|bad-.*", said(PLACEHOLDER % '{"_placeholder":true,"num":7}', b"x")),
    "a negative placeholder": (f"{BREACH}|bad-.*", said(PLACEHOLDER % '{"_placeholder":true,"num":-1}', b"x")),
    "a placeholder that is a text": (f"{BREACH}|bad-.*|lives", said(PLACEHOLDER % '{"_placeholder":true,"num":"splice"}', b"x")),
    "a placeholder of 10 to the 30": (f"{BREACH}|bad-.*", said(PLACEHOLDER % '{"_placeholder":true,"num":1e30}', b"x")),
    "a name out of the tree": ("bad-destination", said('420["publish","../../x",1]', '421["publish","a//b",1]')),
    "a prefetch of 10 to the 12": ("bad-frame", said('420["receive","hostile/q",{"prefetch":1000000000000}]')),
    "a selector of 100,000 brackets": (f"bad-selector|{BREACH}", said('420["subscribe","a",{"selector":"%s"}]' % ("(" * 100_000))),
    "a wait for a service of 10 to the 18": ("no-responder", said('420["call","hostile/none",1,{"timeout":1000000000000000000}]')),
    "headers that are no texts": ("bad-frame", said('420["publish","a",1,{"headers":{"a":[1]}}]')),
    "a login with the wrong token, then events": ("login-failed", said('420["login",{"token":"wrong"}]')),
    "one subscription too many": (
        "too-many-subscriptions",
        said(*[f'42{n}["subscribe","hostile/{n}"]' for n in range(LIMITS["subscriptions_per_session_max"] + 1)]),
    ),
    "an end of the session as a packet, then more": ("closed", said("1", '42["publish","a",1]')),
    "an Engine.IO packet of type 9": (BREACH, said("9")),
}.items():
    register("Socket.IO", sends, expected, attack)


@case("Socket.IO", "text that is not UTF-8", "close 1007")
def bad_text():
    websocket = dial()
    websocket.send(b'42["publish","a","\xff"]', TEXT)
    while (got := websocket.receive()) and got[0] != 8:
        pass
    return f"close {struct.unpack('!H', got[1][:2])[0]}" if got else "closed"


@case("Socket.IO", "a message of 100,000 fragments of one byte", "closed|lives|close.*")
def fragments():
    websocket = dial()
    try:
        websocket.send("4", fin=False)
        piece = b"\0\x81\x37\xfa\x21\x3d" + bytes([ord("x") ^ 0x37])
        for _ in range(100):
            websocket.raw(piece * 1000)
        websocket.send("", CONTINUATION)
    except OSError:
        return "closed"
    return outcome(websocket)


@case("Socket.IO", "50,000 pings of revision 3, no pong read", "closed|held back")
def ping_flood():
    websocket = dial(3)
    websocket.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    ping = b"\x81\xfe\x04\x00\x37\xfa\x21\x3d" + bytes(a ^ b for a, b in zip(b"2" + b"p" * 1023, b"\x37\xfa\x21\x3d" * 256))
    websocket.socket.settimeout(3)
    try:
        for _ in range(50):
            websocket.socket.sendall(ping * 1000)
    except TimeoutError:
        return "held back"
    except OSError:
        return "closed"
    finally:
        websocket.close()
    return "taken"


@case("Socket.IO", "64 MiB published to a session that does not poll", "published")
def no_poll():
    topic, query = unique("hostile"), opened()
    http_ask("POST", query, f'420["subscribe","{topic}"]'.encode())
    websocket = dial()
    value = json.dumps("x" * 900_000)
    for n in range(70):
        websocket.send(f'42{n}["publish","{topic}",{value}]')
        while (got := websocket.receive()) is not None and not got[1].startswith(b"43"):
            if got[1] == b"2":
                websocket.send("3")
        if got is None:
            return "closed"
    websocket.close()
    return "published"
