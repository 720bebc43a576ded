"""Streams by sseclient, and the same as lines of JSON."""

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
import requests

from conftest import BASE, BEARER, LIMITED, WAIT, Stream, call


def test_snapshot_then_live(listen, topic):
    call("PUT", f"/topics/{topic}", b"snapshot")
    stream = listen(f"topic={topic}")
    assert stream.first.event == "ready"
    for n in range(20):
        call("POST", f"/topics/{topic}", f"live {n}")
    assert stream.data(21) == ["snapshot"] + [f"live {n}" for n in range(20)]


def test_anything_may_be_published(listen, topic):
    stream = listen(f"topic={topic}")
    bodies = ["one\ntwo", " fünf 🌊", "id: 7\n\ndata: x", ": no comment", "x" * 500_000]
    for body in bodies:
        call("POST", f"/topics/{topic}", body.encode())
    assert stream.data(len(bodies)) == bodies
    call("POST", f"/topics/{topic}", b"\xff\0")
    event = stream.next()
    assert (event.event, event.data) == ("binary", "/wA=")


def test_patterns_and_several_topics(listen, topic):
    stream = listen(f"topic={topic}/fx/*&topic={topic}/news&topic={topic}/fx/EUR")
    call("POST", f"/topics/{topic}/fx/EUR", json.dumps({"bid": 1}), Content_Type="application/json")
    call("POST", f"/topics/{topic}/other", b"no")
    call("POST", f"/topics/{topic}/news", b"hi", Tiderace_Property_Lang="de")
    first, second = (json.loads(text) for text in stream.data(2))
    assert (first["topic"], first["value"]) == (f"{topic}/fx/EUR", {"bid": 1})
    assert (second["topic"], second["value"], second["properties"]) == (f"{topic}/news", "hi", {"lang": "de"})


def test_expressions_and_sets(listen, topic):
    members = f"[{topic}/*, ?{topic}/[A-Z]{{3,,4}}, {topic}/EUR, ?{topic}/.*/\\d+]"
    stream = listen(f"topic={quote(members)}")
    for name in ["EUR", "later", "a/b", "a/17"]:
        call("POST", f"/topics/{topic}/{name}", b"x")
    found = [json.loads(text)["topic"] for text in stream.data(3)]
    assert found == [f"{topic}/EUR", f"{topic}/later", f"{topic}/a/17"]


@pytest.mark.parametrize("text", ["?a/(b", "?(a{1000}){1000}", "[a, b", "?" + "(" * 500, "?[ab]*a[ab]{20}"])
def test_selectors_that_cannot_be(text):
    answer = requests.get(f"{BASE}/events?topic={quote(text)}", headers=BEARER, timeout=WAIT)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad-destination")


def test_lines_of_json(listen, topic):
    stream = listen(f"topic={topic}", accept="application/x-ndjson")
    assert stream.first["event"] == "ready"
    call("PUT", f"/topics/{topic}", "a\nb 🌊".encode())
    call("DELETE", f"/topics/{topic}")
    assert stream.next()["value"] == "a\nb 🌊"
    gone = stream.next()
    assert gone["removed"] is True and gone["position"]


def test_coming_back_misses_nothing(listen, topic):
    stream = listen(f"topic={topic}")
    call("POST", f"/topics/{topic}", b"seen")
    seen = stream.next()
    assert seen.data == "seen" and seen.id
    stream.close()
    for n in range(10):
        call("POST", f"/topics/{topic}", f"missed {n}")
    again = listen(f"topic={topic}", Last_Event_ID=seen.id)
    assert again.first.event == "recovered"
    call("POST", f"/topics/{topic}", b"live")
    assert again.data(11) == [f"missed {n}" for n in range(10)] + ["live"]


def test_coming_back_to_a_quiet_topic(listen, topic):
    stream = listen(f"topic={topic}")
    place = stream.first.id
    stream.close()
    call("POST", f"/topics/{topic}", b"missed")
    again = listen(f"topic={topic}&lastEventId={place}")
    assert again.first.event == "recovered"
    assert again.data(1) == ["missed"]


def test_what_cannot_be_recovered_is_told(listen, topic):
    call("PUT", f"/topics/{topic}", b"snapshot")
    stream = listen(f"topic={topic}", Last_Event_ID="nonsense")
    assert stream.first.event == "gap"
    assert stream.data(1) == ["snapshot"]


def test_users_listen_to_their_own(listen, topic):
    stream = listen(f"topic=~/{topic}")
    call("POST", f"/topics/user/robot/{topic}", b"for me")
    assert stream.data(1) == ["for me"]


@pytest.mark.parametrize(
    "query, options, status",
    [
        ("", {"headers": BEARER}, 400),
        ("topic=a//b", {"headers": BEARER}, 400),
        ("topic=a", {}, 401),
        ("topic=a", {"headers": {"Authorization": "Bearer wrong"}}, 401),
        ("topic=closed", {"auth": LIMITED}, 403),
        ("topic=user/robot/x", {"auth": LIMITED}, 403),
        ("topic=a", {"headers": BEARER | {"Accept": "image/png"}}, 406),
        ("&".join(f"topic={n}" for n in range(101)), {"headers": BEARER}, 429),
    ],
)
def test_refusals_are_answers(query, options, status):
    got = requests.get(f"{BASE}/events?{query}", timeout=WAIT, **options)
    assert got.status_code == status and got.json()["code"], got.text


def test_fifty_listeners(topic):
    with ThreadPoolExecutor(50) as pool:
        streams = list(pool.map(lambda _: Stream(f"topic={topic}"), range(50)))
        for n in range(10):
            call("POST", f"/topics/{topic}", str(n))
        for stream in streams:
            assert stream.data(10) == [str(n) for n in range(10)]
        list(pool.map(Stream.close, streams))
