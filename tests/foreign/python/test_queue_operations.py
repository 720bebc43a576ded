"""What operators do with queues by REST, and what stomp.py sees of it: looking, purging, moving, redriving, pausing.

The server's configuration gives the right to manage the queues below `managed/` and their dead letters, and no others.
"""

import base64
import json
import urllib.error
import urllib.request

import pytest
from conftest import HOST, LOGIN, PASSCODE, PORT, WAIT, is_quiet, unique

CREDENTIALS = base64.b64encode(f"{LOGIN}:{PASSCODE}".encode()).decode()


def operate(do, **fields):
    """The status of an operation, and what it gives."""
    head = {"Authorization": f"Basic {CREDENTIALS}", "Content-Type": "application/json"}
    body = json.dumps({"do": do, **fields}).encode()
    request = urllib.request.Request(f"http://{HOST}:{PORT}/operations", body, head)
    try:
        with urllib.request.urlopen(request, timeout=WAIT) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as refusal:
        return refusal.code, json.load(refusal)


def done(do, **fields):
    status, given = operate(do, **fields)
    assert status == 200, given
    return given


@pytest.fixture
def name():
    return f"managed/{unique('q')}"


def sent(peer, name, count, **headers):
    """A producer that has sent so many messages, one in two of them red."""
    one = peer()
    for number in range(count):
        colour = "red" if number % 2 == 0 else "blue"
        one.publish(f"/queue/{name}", str(number), headers={"colour": colour, **headers})
    return one


def died(peer, name, count):
    """Dead letters of a queue."""
    sent(peer, name, count)
    one = peer()
    id = one.subscribe(f"/queue/{name}", ack="client-individual")
    for _ in range(2 * count):
        one.nack(one.next())
    one.unsubscribe(id)
    return f"dlq/{name}"


def listed(pattern):
    """The names of queues, of all pages: one may be empty, since it looks at so many places of one shard and no more."""
    names, more = [], {}
    while True:
        page = done("queues", pattern=pattern, **more)
        names += [queue["path"] for queue in page["queues"]]
        if not page["more"]:
            return names
        more = {"after": page["next"]}


def received(peer, name, count):
    """The next messages of a queue, acknowledged; there are no more."""
    one = peer()
    id = one.subscribe(f"/queue/{name}", ack="client-individual")
    frames = [one.next() for _ in range(count)]
    for frame in frames:
        one.ack(frame)
    assert is_quiet(one)
    one.unsubscribe(id)
    return frames


def bodies(frames):
    return [frame.body for frame in frames]


def test_looking_leaves_everything_where_it_is(peer, name):
    sent(peer, name, 5)
    first = done("peek", path=name, limit=2)
    rest = done("peek", path=name, **{"from": first["next"]})
    shown = first["messages"] + rest["messages"]
    assert [message["text"] for message in shown] == ["0", "1", "2", "3", "4"]
    assert shown[0]["properties"]["colour"] == "red" and not rest["more"]
    chosen = done("peek", path=name, selector="colour = 'blue'")
    assert [message["text"] for message in chosen["messages"]] == ["1", "3"]
    queue = done("queue", path=name)
    assert (queue["messages"], queue["in_flight"], queue["listed"]) == (5, 0, [])
    assert name in listed("managed/**")
    assert bodies(received(peer, name, 5)) == ["0", "1", "2", "3", "4"]


def test_a_purge_takes_what_its_selector_chooses_or_everything(peer, name):
    sent(peer, name, 6)
    assert done("purge", path=name, selector="colour = 'red'")["messages"] == 3
    assert [message["text"] for message in done("peek", path=name)["messages"]] == ["1", "3", "5"]
    assert done("purge", path=name)["messages"] == 3
    received(peer, name, 0)


def test_what_is_moved_keeps_its_order_and_its_properties(peer, name):
    sent(peer, name, 4)
    to = f"{name}-later"
    assert done("move", **{"from": name}, to=to, limit=1)["messages"] == 1
    assert done("move", **{"from": name}, to=to)["messages"] == 3
    received(peer, name, 0)
    frames = received(peer, to, 4)
    assert bodies(frames) == ["0", "1", "2", "3"]
    assert [frame.headers["colour"] for frame in frames] == ["red", "blue", "red", "blue"]


def test_dead_letters_go_back_one_by_one_or_all_together(peer, name):
    dead = died(peer, name, 4)
    shown = done("peek", path=dead)["messages"]
    assert [message["properties"]["dead-letter-queue"] for message in shown] == [name] * 4
    assert done("redrive", path=dead, limit=1)["messages"] == 1
    assert done("redrive", path=dead, selector="colour = 'red'")["messages"] == 1
    frames = received(peer, name, 2)
    assert bodies(frames) == ["0", "2"]
    assert not [header for frame in frames for header in frame.headers if header.startswith("dead-letter")]
    assert done("redrive", path=dead)["messages"] == 2
    assert bodies(received(peer, name, 2)) == ["1", "3"]


def test_dead_letters_go_to_another_queue_if_that_is_said(peer, name):
    dead = died(peer, name, 2)
    assert done("redrive", path=dead, to=f"{name}-other")["messages"] == 2
    assert bodies(received(peer, f"{name}-other", 2)) == ["0", "1"]
    received(peer, name, 0)


def test_nothing_comes_out_of_a_queue_that_is_paused(peer, name):
    producer, consumer = sent(peer, name, 1), peer()
    done("pause", path=name)
    consumer.subscribe(f"/queue/{name}")
    producer.publish(f"/queue/{name}", "1")
    assert is_quiet(consumer)
    assert done("queue", path=name)["paused"] is True
    done("resume", path=name)
    assert consumer.texts(2) == ["0", "1"]


@pytest.mark.parametrize("do", ["purge", "pause", "redrive"])
def test_who_consumes_may_not_therefore_manage(peer, do):
    path = unique("unmanaged")
    sent(peer, path, 2)
    status, refusal = operate(do, path=path)
    assert (status, refusal["code"]) == (403, "not-authorised")
    assert bodies(received(peer, path, 2)) == ["0", "1"]
