"""Attacks by operations on topics: malformed and huge ones, and such as would cost far more than their bytes:
patches that double, schemas and expressions that explode, views that feed each other, deltas that lie.
"""

import base64
import json

from hostile import case, name, push, tcp
from hostile_engineio import dial, said
from hostile_events import ask, json_request, request
from wire import WAIT, Client, unique

MIB = 2**20
REFUSED = r"HTTP (400|403|404|409|412|413|422), [a-z-]+"
ANSWERED = rf"HTTP 200|{REFUSED}|HTTP 503, [a-z-]+"


def told(answer):
    """The status, and the code of a refusal."""
    got = name(answer)
    code = answer.partition(b"\r\n\r\n")[2].partition(b'"code":"')[2].partition(b'"')[0].decode()
    return f"{got}, {code}" if code and got != "HTTP 200" else got


def posted(operation):
    text = operation if isinstance(operation, str) else json.dumps(operation)
    return told(ask(json_request("POST /operations", text)))


def version_of(operation):
    """The version that an operation made."""
    return json.loads(ask(json_request("POST /operations", json.dumps(operation))).partition(b"\r\n\r\n")[2])["version"]


def all_posted(*operations):
    """What came of the last."""
    for operation in operations:
        outcome = posted(operation)
    return outcome


def refused(group, cases, send=posted, expected=REFUSED):
    for sends, operation in cases.items():
        case(group, sends, expected)(lambda operation=operation: send(operation))


def update(**more):
    return {"do": "update", "path": "hostile/value"} | more


def nested(depth, inner=None, kind="all"):
    for _ in range(depth):
        inner = {kind: [inner or {"absent": True}]}
    return inner


def valued(value, **more):
    """A topic of its own that has that value, then an operation on it."""
    path = unique("hostile")
    return all_posted({"do": "update", "path": path, "value": value}, {"do": "update", "path": path} | more)


refused(
    "operation",
    {
        "no JSON": "{do: fetch}",
        "an array": "[]",
        "an object without anything": "{}",
        "an operation nobody knows": {"do": "drop database"},
        "an operation that is a number": {"do": 7},
        "a name nobody knows": {"do": "create", "path": "a", "spce": {}},
        "JSON nested 100,000 deep": '{"do":"create","path":"a","value":' + "[" * 100_000,
        "a path with wildcards": {"do": "create", "path": "a/*"},
        "a path that is a list": {"do": "create", "path": ["a"]},
        "a path of 100 KiB": {"do": "create", "path": "x" * 102_400},
        "the server's own path": {"do": "update", "path": "$sys/sessions", "value": 1},
        "a lock by REST": {"do": "lock", "name": "l", "timeout": "1h"},
        "two kinds of value": update(value=1, text="x"),
        "base64 that is none": update(base64="*" * 1000),
        "properties that are no texts": update(value=1, properties={"a": {"b": 1}}),
        "a version of 10 to the 30": '{"do":"history","path":"a","version":' + "9" * 30 + "}",
        "a page of less than nothing": '{"do":"fetch","selector":"a","limit":-1}',
        "a body one byte over the limit": " " * (2 * MIB + 1),
    },
)
refused(
    "specification",
    {
        "a name nobody knows": {"do": "create", "path": "hostile/spec", "spec": {"__proto__": {}}},
        "a specification that is a list": {"do": "create", "path": "hostile/spec", "spec": []},
        "a type nobody knows": {"do": "create", "path": "hostile/spec", "spec": {"type": "xml"}},
        "an age of 10 to the 30": {"do": "create", "path": "hostile/spec", "spec": {"history": {"age": "9" * 30 + "d"}}},
        "a removal that says nothing": {"do": "create", "path": "hostile/spec", "spec": {"removal": "now"}},
        "a removal of 100 KiB": {"do": "create", "path": "hostile/spec", "spec": {"removal": "after 1s or " * 10_000}},
        "a schema above 16 KiB": {"do": "create", "path": "hostile/spec", "spec": {"schema": {"enum": ["x" * 17_000]}}},
    },
)
refused(
    "condition",
    {
        "a condition nobody knows": update(value=1, **{"if": {"verson": 7}}),
        "a condition without anything": update(value=1, **{"if": {}}),
        "conditions 9 deep": update(value=1, **{"if": nested(9)}),
        "conditions 60 deep": update(value=1, **{"if": nested(60, kind="any")}),
        "10,000 conditions": update(value=1, **{"if": {"all": [{"version": n} for n in range(10_000)]}}),
        "a place that is no pointer": update(value=1, **{"if": {"at": "no slash", "eq": 1}}),
        "a place of 1 MiB": update(value=1, **{"if": {"at": "/a" * (MIB // 2), "exists": True}}),
        "a comparison with an object": update(value=1, **{"if": {"at": "/a", "lt": {"a": 1}}}),
        "a lock nobody holds": update(value=1, **{"if": {"locked": "hostile/none"}}),
    },
)
refused(
    "topic selector",
    {
        "100,000 brackets": {"do": "fetch", "selector": "[" * 100_000},
        "a set of 10,000": {"do": "fetch", "selector": "[" + ",".join(f"a{n}" for n in range(10_000)) + "]"},
        "a list of 65": {"do": "fetch", "selector": ["a"] * 65},
        "a list in a list": {"do": "fetch", "selector": [["a"]]},
        "an expression that ends early": {"do": "fetch", "selector": "?hostile/(a"},
        "an expression of 64 KiB": {"do": "fetch", "selector": "?hostile/" + "a?" * 32_768},
        "an expression of 10 to the 9 states": {"do": "fetch", "selector": "?hostile/((a{1,1000}){1,1000}){1,1000}"},
        "an expression nested 500 deep": {"do": "fetch", "selector": "?" + "(" * 500 + "a" + ")" * 500},
        "a reference back": {"do": "fetch", "selector": r"?hostile/(a)\1"},
        "the largest repetition of every letter": {"do": "fetch", "selector": r"?\p{L}{1000}/\p{L}{1000}"},
    },
    expected=ANSWERED,
)


@case("topic selector", "an expression that explodes by backtracking, against 1,000 topics", "HTTP 200")
def backtracking():
    root = unique("hostile")
    batch = [{"topic": f"{root}/{'a' * 60}{n}!", "value": n, "retain": True} for n in range(1000)]
    ask(json_request("POST /batch", json.dumps(batch)))
    return posted({"do": "fetch", "selector": f"?{root}/(a+a+)+b", "values": True})


refused(
    "patch",
    {
        "a patch that is no array": {"patch": {"op": "add"}},
        "an operation nobody knows": {"patch": [{"op": "exec", "path": "/a"}]},
        "a place that is not there": {"patch": [{"op": "remove", "path": "/x/y/z"}]},
        "a pointer with half an escape": {"patch": [{"op": "add", "path": "/~", "value": 1}]},
        "a pointer of 1 MiB": {"patch": [{"op": "add", "path": "/a" * (MIB // 2), "value": 1}]},
        "an index of 100 digits": {"patch": [{"op": "add", "path": "/list/" + "9" * 100, "value": 1}]},
        "a move into its own child": {"patch": [{"op": "move", "from": "/a", "path": "/a/b"}]},
        "30,000 operations": {"patch": [{"op": "add", "path": "/list/0", "value": 0}] * 30_000},
        "30 copies that double each time": {
            "patch": [{"op": "copy", "from": "", "path": f"/c{n}"} for n in range(30)]
        },
        "100 copies that nest each time": {"patch": [{"op": "copy", "from": "", "path": "/a"}] * 100},
        "4,096 copies of 100 KiB": {
            "patch": [{"op": "add", "path": "/s", "value": "x" * 102_400}]
            + [{"op": "copy", "from": "/s", "path": f"/s{n}"} for n in range(4_095)]
        },
        "a merge patch nested 100 deep": {"merge": json.loads('{"a":' * 100 + "1" + "}" * 100)},
        "a patch and a merge patch": {"patch": [], "merge": {}},
    },
    send=lambda more: valued({"a": {"b": 1}, "list": []}, **more),
)


@case("patch", "4,096 insertions at the front of a list of 100,000", ANSWERED)
def front_insertions():
    patch = [{"op": "add", "path": "/0", "value": 0}] * 4_096
    return valued([0] * 100_000, patch=patch)


@case("patch", "150 tests of a list of 1,000 with itself", ANSWERED)
def large_tests():
    value = {"a": list(range(1_000))}
    return valued(value, patch=[{"op": "test", "path": "/a", "value": value["a"]}] * 150)


@case("patch", "a patch of what is no JSON", REFUSED)
def patched_text():
    path = unique("hostile")
    return all_posted(
        {"do": "update", "path": path, "text": "no JSON"}, {"do": "update", "path": path, "merge": {"a": 1}}
    )


def held_to(schema, value):
    """A topic with that schema is given that value."""
    path = unique("hostile")
    created = posted({"do": "create", "path": path, "spec": {"type": "json", "schema": schema}})
    return created if created != "HTTP 200" else posted({"do": "update", "path": path, "value": value})


def doubling(levels):
    """A schema whose every part stands for two of the one below."""
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$ref": "#/$defs/d0", "$defs": parts | {f"d{levels}": {"type": "string"}}}


refused(
    "schema",
    {
        "a schema that is a number": (7, 1),
        "a keyword nobody knows": ({"$dynamicRef": "#a"}, 1),
        "a reference to another server": ({"$ref": "http://169.254.169.254/latest"}, 1),
        "a reference to nowhere": ({"$ref": "#/$defs/none"}, 1),
        "a reference to itself": ({"$ref": "#"}, 1),
        "two references to each other": (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
            1,
        ),
        "40 references that double each time": (doubling(40), "x"),
        "an expression that looks ahead": ({"pattern": "(?=a)b"}, "b"),
        "an expression of 10 to the 9 states": ({"pattern": "((a{1,1000}){1,1000}){1,1000}"}, "a"),
        "an expression that is no regular one": ({"pattern": "(((("}, "a"),
        "a length of 10 to the 30": ({"maxLength": 10**30}, "a"),
        "schemas 100 deep": (json.loads('{"not":' * 100 + "true" + "}" * 100), 1),
        "unique items of 100,000": ({"uniqueItems": True, "maxItems": 10}, list(range(100_000))),
    },
    send=lambda pair: held_to(*pair),
    expected=ANSWERED,
)


@case("schema", "an expression that explodes by backtracking, against 1 MiB", ANSWERED)
def pattern_backtracking():
    return held_to({"type": "string", "pattern": "^(a+a+)+b$"}, "a" * MIB)


@case("schema", "unique items against 50,000 objects that are nearly equal", ANSWERED)
def unique_objects():
    return held_to({"uniqueItems": True}, [{"a": 0, "b": n} for n in range(50_000)])


def view(text):
    return posted({"do": "view", "name": unique("hostile"), "text": text})


refused(
    "view",
    {
        "no view": "drop table views",
        "a view of nothing": "",
        "a view of 1 MiB": "map a to b set /x = " + "1 + " * (MIB // 4) + "1",
        "parentheses 1,000 deep": "map hostile/a to hostile/b where " + "(" * 1000 + "1 = 1" + ")" * 1000,
        "not 1,000 times": "map hostile/a to hostile/b where " + "not " * 1000 + "/a = 1",
        "an open string": 'map hostile/a to hostile/b where /a = "',
        "an output below $sys": "map hostile/a to $sys/views/x",
        "an expression of 10 to the 9 states": "map ?hostile/((a{1,1000}){1,1000}){1,1000} to hostile/b",
        "a delay of 100 years": "map hostile/a to hostile/b delay 36500d",
        "a throttle of 10 to the 18": "map hostile/a to hostile/b throttle 1000000000000000000 per 1s",
        "zero bytes": "map hostile/a\0 to hostile/b",
    },
    send=view,
)


@case("view", "two views that feed each other, and a value", "HTTP 200")
def loop():
    root = unique("hostile")
    posted({"do": "view", "name": f"{root}-there", "text": f"map {root}/a/** to {root}/b/<path(2)>"})
    posted({"do": "view", "name": f"{root}-back", "text": f"map {root}/b/** to {root}/a/x/<path(2)>"})
    outcome = posted({"do": "update", "path": f"{root}/a/1", "value": 1})
    for end in ("there", "back"):
        posted({"do": "unview", "name": f"{root}-{end}"})
    return outcome


@case("view", "1,001 views", ANSWERED)
def many_views():
    root = unique("hostile")
    client = tcp()
    one = lambda n: json_request(
        "POST /operations",
        json.dumps({"do": "view", "name": f"{root}/{n}", "text": f"map {root}/a to {root}/b{n}"}),
        Connection="keep-alive",
    )
    push(client, b"".join(one(n) for n in range(1_001)))
    push(client, json_request("POST /operations", json.dumps({"do": "unview", "name": f"{root}/0"})))
    answer = client.drain(60)
    client.close()
    last = answer.split(b"HTTP/1.1 ")[1_001]
    ask(*(json_request("DELETE /views/" + f"{root}/{n}", "") for n in range(1_001)))
    return told(b"HTTP/1.1 " + last)


def varint(number):
    """As VCDIFF writes numbers: seven bits a byte, the highest first."""
    out = [number & 127]
    while number := number >> 7:
        out.append(128 | number & 127)
    return bytes(reversed(out))


def vcdiff(target, instructions, data=b"", addresses=b""):
    """A window of VCDIFF over a source of one byte."""
    sections = varint(target) + b"\0" + varint(len(data)) + varint(len(instructions)) + varint(len(addresses))
    body = sections + data + instructions + addresses
    return b"\xd6\xc3\xc4\0\0" + b"\x01" + varint(1) + varint(0) + varint(len(body)) + body


def differed(given):
    """A topic of its own is changed by that difference; base 0 stands for the right one."""
    codec, base, difference = given
    path = unique("hostile")
    version = version_of({"do": "update", "path": path, "value": "x" * 100})
    delta = {"codec": codec, "base": base or version, "base64": base64.b64encode(difference).decode()}
    return posted({"do": "update", "path": path, "delta": delta})


NOISE = bytes(n * 167 % 251 for n in range(2000))
refused(
    "delta",
    {
        "a codec nobody knows": (99, 0, b"x"),
        "a base that was never": (1, 2**60, b"x"),
        "a difference of no bytes": (1, 0, b""),
        "random bytes by the first codec": (1, 0, NOISE),
        "random bytes by the second codec": (2, 0, NOISE),
        "a VCDIFF that declares 4 GiB": (2, 0, vcdiff(2**32, b"\0" + varint(2**32), b"x", b"")),
        "a VCDIFF that runs one byte 2 GiB long": (2, 0, vcdiff(2**31, b"\0" + varint(2**31), b"x")),
        "a VCDIFF that copies from behind its end": (2, 0, vcdiff(64, b"\x13" + varint(64), b"", varint(2**31))),
        "numbers that never end": (2, 0, b"\xd6\xc3\xc4\0\0\x01" + b"\xff" * 100_000),
        "numbers that never end, by the first codec": (1, 0, b"\xff" * 100_000),
    },
    send=differed,
)
case("delta", "a VCDIFF of 10,000 windows of nothing", ANSWERED)(
    lambda: differed((2, 0, b"\xd6\xc3\xc4\0\0" + b"\x01\x01\x00\x05\x00\x00\x00\x00\x00" * 10_000))
)
refused(
    "REST",
    {
        "a patch without its type": request("PATCH /topics/a", b"[]"),
        "a patch that is no JSON": request("PATCH /topics/a", b"[", Content_Type="application/json-patch+json"),
        "a patch nested 100,000 deep": request(
            "PATCH /topics/a", b"[" * 100_000, Content_Type="application/json-patch+json"
        ),
        "a specification that is no JSON": json_request("PUT /topics/hostile/spec?create", "{"),
        "a specification that closes its operation": json_request(
            "PUT /topics/hostile/spec?create", '{}},"do":"remove","selector":"**"'
        ),
        "a tag of 4 KiB": request("PUT /topics/a", b"1", If_Match='"' + "f" * 4096 + '"'),
        "a tag that is JSON": request("PUT /topics/a", b"1", If_Match='1},"spec":{}'),
        "a history of 10 to the 30": request("GET /topics/a?history&last=" + "9" * 30),
        "a selector with half an escape": request("GET /topics?selector=%2"),
        "a view that is not UTF-8": request("PUT /views/hostile", b"\xff\xfe"),
    },
    send=lambda data: told(ask(data)),
    expected=REFUSED + "|HTTP 415, [a-z-]+",
)


@case("REST", "headers of STOMP as properties, and a frame as the body", "one message")
def smuggled_frame():
    topic = unique("hostile")
    client = Client()
    client.login()
    client.ask("SUBSCRIBE", {"id": "0", "destination": f"/topic/{topic}"})
    body = b"\0MESSAGE\nsubscription:0\nmessage-id:9\ndestination:/topic/forged\n\nforged"
    forged = {"Tiderace-Property-Content-Length": "0", "Tiderace-Property-Message-Id": "9"}
    ask(request(f"POST /topics/{topic}", body, **forged))
    zero = json.dumps([{"topic": topic, "value": 1, "headers": {"a": "b\0MESSAGE\n\n"}}])
    ask(json_request("POST /batch", zero))
    first, second = client.frame(WAIT), client.frame(WAIT)
    client.close()
    whole = first.body == body and second.body == b"1"
    return "one message" if whole and first["message-id"] != "9" else "forged"


@case("STOMP", "a patch whose copies double, by SEND", "bad-patch|bad-operation")
def stomp_patch():
    topic = f"/topic/{unique('hostile')}"
    patch = json.dumps([{"op": "copy", "from": "", "path": f"/c{n}"} for n in range(30)])
    client = Client()
    client.login()
    client.ask("SEND", {"destination": topic, "if-absent": "true"}, '{"a":1}')
    client.send("SEND", {"destination": topic, "patch": "json"}, patch)
    outcome = name(client.drain())
    client.close()
    return outcome


def event(name, *arguments):
    return f"420{json.dumps([name, *arguments])}"


for sends, (expected, message) in {
    "an operation that is no object": ("bad-.*", event("operate", "fetch")),
    "an operation nobody knows": ("bad-operation", event("operate", {"do": "constructor"})),
    "an operation without its argument": ("bad-.*", event("operate")),
    "a list of 65 selectors": ("bad-.*", event("operate", {"do": "fetch", "selector": ["a"] * 65})),
    "conditions 20 deep": ("bad-operation", event("operate", update(value=1, **{"if": nested(20)}))),
    "a value beside that is no Buffer": ("bad-.*", event("operate", {"do": "update", "path": "a"}, {"a": 1})),
    "a wait for a lock of 10 to the 30": (
        "bad-operation",
        '420["operate",{"do":"lock","name":"hostile","timeout":%s}]' % ("9" * 30),
    ),
    "a will below $sys": ("(topic-read-only|not-authorised|bad-.*)", event("operate", {"do": "will", "path": "$sys/a", "value": 1})),
    "a will of 900 KB, 50 times": ("lives", None),
    "a replay of 10 to the 30": ("bad-.*", '420["subscribe","hostile/a",{"replay":{"last":%s}}]' % ("9" * 30)),
    "a replay from two places": ("bad-.*", event("subscribe", "hostile/a", {"replay": {"last": 1, "version": 1}})),
    "an interval below nothing": ("bad-.*", event("subscribe", "hostile/a", {"interval": -1})),
    "an interval of 10 to the 18": ("lives|bad-.*", event("subscribe", "hostile/a", {"interval": 10**18})),
    "a topic selector of 100,000 brackets": ("bad-.*", event("subscribe", "[" * 100_000)),
    "an expression of 10 to the 9 states": ("bad-.*", event("subscribe", "?hostile/((a{1,1000}){1,1000}){1,1000}")),
}.items():
    messages = [message] if message else [event("operate", {"do": "will", "path": "hostile/will", "text": "x" * 900_000})] * 50
    case("Socket.IO", sends, expected)(said(*messages))


@case("Socket.IO", "20,000 locks and claims of one session", "too-many-topics|lives")
def many_locks():
    root = unique("hostile")
    locks = (event("operate", {"do": "lock", "name": f"{root}/l{n}"}) for n in range(10_000))
    claims = (event("operate", {"do": "claim", "path": f"{root}/c{n}"}) for n in range(10_000))
    return said(*locks, *claims)()


@case("Socket.IO", "10,000 who wait for one lock", "too-many-topics|lives")
def many_waiters():
    name = unique("hostile")
    holder = dial()
    holder.send(event("operate", {"do": "lock", "name": name}))
    holder.receive()
    outcome = said(*[event("operate", {"do": "lock", "name": name, "timeout": "1h"})] * 10_000)()
    holder.close()
    return outcome


@case("operation", "10,000 topics, each with a specification of its own", "HTTP 200")
def many_specifications():
    root = unique("hostile")
    for begin in range(0, 10_000, 500):
        client = tcp()
        one = lambda n: json_request(
            "POST /operations",
            json.dumps({"do": "create", "path": f"{root}/{n}", "spec": {"history": n, "schema": {"const": n}}}),
            Connection="keep-alive" if n % 500 != 499 else "close",
        )
        push(client, b"".join(one(n) for n in range(begin, begin + 500)))
        answer = client.drain(60)
        client.close()
    last = answer.split(b"HTTP/1.1 ")[-1]
    posted({"do": "remove", "selector": f"{root}/**"})
    return told(b"HTTP/1.1 " + last)
