"""Conversations with python-socketio over polling, over WebSocket and over an upgrade."""

import pathlib
import queue
import re
from concurrent.futures import ThreadPoolExecutor

import pytest
import socketio

from conftest import BASE, LIMITED, MAJOR, TOKEN, WAIT, Peer, publish, unique

VALUES = ["grüße 🌊 \x00 \u2028 \"quoted\" \\", "", 0, -1.5e300, True, None, [], {}, [[[1]]], {"a": {"b": [1, "zwei", None]}, "": "🌊"}]


def test_connects(peer):
    assert peer().transport() == ("polling" if peer.mode == "polling" else "websocket")


def test_snapshot_then_live(peer):
    topic = unique("topic")
    publisher, subscriber = peer(), peer()
    publisher.done("publish", topic, {"bid": 1}, {"retain": True})
    assert isinstance(subscriber.done("subscribe", topic, {"snapshot": True})["id"], int)
    for n in range(50):
        publisher.emit("publish", topic, n)
    path, value, meta = subscriber.next()
    assert (path, value, meta["retained"]) == (topic, {"bid": 1}, True)
    got = [subscriber.next() for _ in range(50)]
    assert [(one[1], one[2]["version"]) for one in got] == [(n, meta["version"] + 1 + n) for n in range(50)]


def test_patterns_headers_and_the_end_of_a_subscription(peer):
    topic, one = unique("topic"), peer()
    one.done("subscribe", f"{topic}/*/price")
    one.done("subscribe", f"{topic}/news/**")
    one.done("publish", f"{topic}/fx/price", 1, {"headers": {"region": "eu"}})
    one.done("publish", f"{topic}/fx/volume", 2)
    one.done("publish", f"{topic}/news/a/b", 3)
    path, value, meta = one.next()
    assert (path, value, meta["region"]) == (f"{topic}/fx/price", 1, "eu")
    assert one.next()[:2] == (f"{topic}/news/a/b", 3)
    one.done("unsubscribe", f"{topic}/*/price")
    one.done("publish", f"{topic}/fx/price", 4)
    one.done("publish", f"{topic}/news/x", 5)
    assert one.values(1) == [5]


def test_every_kind_of_value(peer):
    topic, one = unique("grüße 🌊"), peer()
    one.done("subscribe", topic)
    for value in VALUES:
        one.done("publish", topic, value)
    assert [one.next()[:2] for _ in VALUES] == [(topic, value) for value in VALUES]


def test_binary_values(peer):
    topic, one = unique("topic"), peer()
    data = bytes(range(256)) * 4
    one.done("subscribe", topic)
    one.done("publish", topic, data)
    one.done("publish", topic, {"name": "grüße 🌊", "first": data, "more": [b"\0", {"last": data}]})
    assert one.values(2) == [data, {"name": "grüße 🌊", "first": data, "more": [b"\0", {"last": data}]}]


def test_half_a_megabyte(peer):
    topic, one = unique("topic"), peer()
    text, data = "0123456789abcde🌊" * 26_000, b"\7" * 500_000
    one.done("subscribe", topic)
    one.done("publish", topic, text)
    one.done("publish", topic, data)
    assert one.values(2) == [text, data]


def test_a_queue(peer):
    name, one = unique("queue"), peer()
    for value in ["a", "b", "c"]:
        one.done("send", name, value)
    seen = []

    def settle(path, value, meta):
        seen.append(value)
        return {"reject": True} if value == "b" and not meta["redelivered"] else None

    one.answers["job"] = settle
    one.done("receive", name, {"prefetch": 1})
    got = [one.next("job") for _ in range(4)]
    assert sorted((value, meta["redelivered"]) for _, value, meta in got) == [
        ("a", False), ("b", False), ("b", True), ("c", False)
    ]


def test_a_durable_subscription(peer):
    name, topic, one = unique("durable"), unique("topic"), peer()
    options = {"durable": name, "selector": "colour = 'red'", "prefetch": 1}
    seen = []

    def settle(path, value, meta):
        if "redelivered" in meta:
            seen.append(value)
        return {"reject": True} if value == "b" and not meta["redelivered"] else None

    one.answers["message"] = settle
    one.done("subscribe", f"{topic}/*", options)
    for value, colour in [("a", "red"), ("b", "red"), ("never", "blue")]:
        one.done("publish", f"{topic}/x", value, {"headers": {"colour": colour}})
    got = [one.next() for _ in range(3)]
    assert {path for path, _, _ in got} == {f"{topic}/x"}
    assert [(value, meta["redelivered"]) for _, value, meta in got] == [("a", False), ("b", False), ("b", True)]
    delete = {"do": "delete-subscription", "name": name}
    assert one.ask("operate", delete)["code"] == "subscription-in-use"
    # A client that leaves ends nothing, and others share it.
    one.done("unsubscribe", f"{topic}/*")
    publish(f"{topic}/y?retain=false", "not red")
    one.done("publish", f"{topic}/y", "c", {"headers": {"colour": "red"}})
    other = peer()
    other.done("subscribe", f"{topic}/*", options)
    assert other.next()[:2] == (f"{topic}/y", "c")
    other.done("unsubscribe", f"{topic}/*")
    one.done("operate", delete)
    assert one.ask("operate", delete)["code"] == "queue-unknown"


def test_a_service(peer):
    name, caller, server = unique("service"), peer(), peer()
    server.answers["request"] = lambda path, value, meta: {"twice": value["n"] * 2, "bytes": value["bytes"]}
    server.done("serve", name)
    for n in range(10):
        answer = caller.done("call", name, {"n": n, "bytes": bytes([n])})
        assert answer["value"] == {"twice": n * 2, "bytes": bytes([n])}
    server.done("unserve", name)
    assert caller.ask("call", name, 1, {"timeout": 500})["code"] == "no-responder"


def test_a_conversation(peer):
    name, caller, server = unique("service"), peer(), peer()
    server.done("serve", name)
    id = caller.done("open", name, "hello")["id"]
    _, value, meta = server.next("request")
    assert (value, meta["last"]) == ("hello", False)
    # python-socketio acks every event when its handler returns: the server's last word is out.
    said = caller.next("said")
    assert said[0] == id and said[2]["last"] is True
    caller.ask("say", id, "bye", {"last": True})


@pytest.mark.parametrize(
    "code, event",
    [
        ("bad-destination", ("publish", "a//b", 1)),
        ("bad-destination", ("subscribe", "a**b")),
        ("bad-frame", ("receive", "q", {"prefetch": -1})),
        ("unexpected-frame", ("nonsense", 1)),
    ],
)
def test_mistakes(peer, code, event):
    one = peer()
    answer = one.ask(*event)
    assert (answer["ok"], answer["code"]) == (False, code)
    one.done("publish", unique("topic"), 1)


def test_what_the_rules_forbid(peer):
    one = peer(auth=LIMITED)
    one.done("publish", "open/x", 1)
    for event in [("publish", "open/secret/x", 1), ("subscribe", "closed/x"), ("serve", "open/s")]:
        assert one.ask(*event)["code"] == "not-authorised", event


def test_wrong_credentials(peer):
    if MAJOR == 5:
        with pytest.raises(socketio.exceptions.ConnectionError):
            Peer(peer.mode, auth={"token": "wrong"})
    else:
        with pytest.raises(Exception):
            Peer(peer.mode, auth={"token": "wrong"})


def test_an_application_namespace(peer):
    room = unique("room")
    one, two = (peer(namespace="/app", more=["chat"]) for _ in range(2))
    one.done("join", room)
    two.done("to", room, "chat", {"text": "hi 🌊", "bytes": b"\0"})
    assert one.next("chat") == ({"text": "hi 🌊", "bytes": b"\0"},)


def test_comes_back_by_itself(peer):
    one, topic = peer(reconnection=True), unique("topic")
    if MAJOR == 5:
        one.next("connect")
    one.cut()
    one.next("connect")
    one.done("subscribe", topic)
    publish(topic, "here")
    assert one.values(1) == ["here"]


def test_fifty_clients(peer):
    topic = unique("topic")
    with ThreadPoolExecutor(50) as pool:
        crowd = list(pool.map(lambda _: peer(), range(50)))
        list(pool.map(lambda one: one.done("subscribe", topic), crowd))
    for n in range(10):
        publish(topic, n)
    for one in crowd:
        assert one.values(10) == list(range(10))


if MAJOR == 5:

    def test_what_the_readme_prints():
        page = pathlib.Path(__file__).parents[3] / "protocols/socketio/README.md"
        (code,) = re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.M | re.S)
        for printed, here in [("http://127.0.0.1:7800", BASE), ("…", TOKEN), ("client.wait()", "")]:
            assert printed in code
            code = code.replace(printed, here)
        lines = queue.Queue()
        names = {"print": lambda *values: lines.put(values)}
        exec(compile(code, page.name, "exec"), names)
        try:
            # Other suites have left values behind, which come first.
            answered, delivered = False, False
            while not (answered and delivered):
                line = lines.get(timeout=WAIT)
                answered |= len(line) == 1 and line[0]["ok"]
                delivered |= line[:2] == ("fx/EUR-USD", {"bid": 1.0842}) and line[2] > 0
        finally:
            names["client"].disconnect()
