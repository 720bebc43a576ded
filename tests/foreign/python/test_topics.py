"""Topics that hold values, by stomp.py: conditions, patches and replays by headers."""

import json
import os
import urllib.request

import pytest

from conftest import HOST, KINDS, PORT, WAIT

NEWER = KINDS[1:]


def create(path, spec):
    """Creates a topic by REST, on the same port: STOMP has no frame for that."""
    body = json.dumps({"do": "create", "path": path, "spec": spec}).encode()
    token = os.environ.get("TIDERACE_TOKEN", "robot-secret")
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://{HOST}:{PORT}/operations", body, headers)
    assert json.load(urllib.request.urlopen(request, timeout=WAIT)) == {"existed": False}


def update(peer, topic, body, **headers):
    """A SEND with a receipt; the version that came of it."""
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    receipt = f"r-{topic}-{len(body)}-{json.dumps(headers, sort_keys=True)}".replace(":", "")
    peer.connection.send(topic, body, headers={"receipt": receipt, **headers})
    frame = peer.next("receipt")
    assert frame.headers["receipt-id"] == receipt
    return int(frame.headers["version"])


@pytest.mark.parametrize("kind", KINDS)
def test_conditions(peer, kind, topic):
    one, two = peer(kind), peer(kind)
    two.subscribe(topic)
    first = update(one, topic, "1.08", if_absent="true", source="desk")
    second = update(one, topic, "1.09", if_version=str(first))
    assert second == first + 1
    frames = [two.next(), two.next()]
    assert [frame.body for frame in frames] == ["1.08", "1.09"]
    assert frames[0].headers["source"] == "desk"
    assert not {"if-absent", "if-version", "version"} & set(frames[0].headers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_that_fails_is_an_error(peer, kind, topic):
    one, two = peer(kind), peer(kind)
    update(one, topic, "x", if_absent="true")
    one.connection.send(topic, "y", headers={"if-absent": "true", "receipt": "r"})
    error = one.next("error")
    assert (error.headers["code"], error.headers["receipt-id"]) == ("condition-failed", "r")
    one.next("disconnected")
    two.subscribe(topic)
    assert two.next().body == "x"


@pytest.mark.parametrize("kind", NEWER)
def test_patches(peer, kind, topic):
    one = peer(kind)
    first = update(one, topic, '{"bid":1}', if_absent="true")
    update(one, topic, '[{"op":"add","path":"/ask","value":2}]', patch="json")
    last = update(one, topic, '{"bid":null}', patch="merge", if_version=str(first + 1))
    assert last == first + 2
    one.subscribe(topic)
    assert json.loads(one.next().body) == {"ask": 2}


@pytest.mark.parametrize("kind", KINDS)
def test_replays(peer, kind, topic):
    one, two, three = peer(kind), peer(kind), peer(kind)
    create(topic.removeprefix("/topic/"), {"history": 5})
    versions = [update(one, topic, "0", if_absent="true")]
    for n in range(1, 8):
        versions.append(update(one, topic, str(n), if_version=str(versions[-1])))
    two.connection.subscribe(topic, id="last", headers={"replay": "last=3"})
    assert [two.next().body for _ in range(3)] == ["5", "6", "7"]
    three.connection.subscribe(topic, id="from", headers={"replay": f"version={versions[6]}", "interval": "100"})
    assert [three.next().body for _ in range(2)] == ["6", "7"]
