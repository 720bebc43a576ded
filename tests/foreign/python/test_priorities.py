"""Priorities with stomp.py: the most urgent message comes first, wherever it is.

The server's configuration lets the queues below `features/priorities/` order by priority; the last tests have servers of
their own, with a store and little memory. Waits only bound failure.
"""

import os
import shutil
import sys
from pathlib import Path

import conftest
import pytest
from conftest import KINDS, unique

sys.path.append(str(Path(__file__).resolve().parent.parent / "kill"))

ONE = {"credit": "1,0"}
"""Nothing is sent ahead."""


@pytest.fixture
def ordered():
    return f"/queue/features.priorities.{unique('q')}"


def send(producer, destination, bodies, **headers):
    """Messages whose bodies begin with their priority; the last is confirmed, and with it all."""
    for body in bodies:
        more = {"priority": body[0]} if body[0].isdigit() else {}
        producer.connection.send(destination, body, headers=headers | more)
    producer.publish(destination, "0 the last", headers=headers | {"priority": "0"})


def take(consumer, count):
    """The bodies of so many, each acknowledged before the next is sent."""
    bodies = []
    for _ in range(count):
        frame = consumer.next()
        bodies.append(frame.body)
        consumer.ack(frame)
    return bodies


@pytest.mark.parametrize("kind", KINDS)
def test_the_most_urgent_come_first_and_others_in_their_order(peer, kind, ordered):
    producer, consumer = peer(kind), peer(kind)
    send(producer, ordered, ["4a", "9a", "none", "0a", "9b", "5a", "4b"])
    consumer.subscribe(ordered)
    frames = [consumer.next() for _ in range(8)]
    assert [frame.body for frame in frames] == ["9a", "9b", "5a", "4a", "none", "4b", "0a", "0 the last"]
    assert [frame.headers.get("priority") for frame in frames[:5]] == ["9", "9", "5", "4", None]


def test_a_queue_that_does_not_order_by_it_tells_it(peer, queue_name):
    producer, consumer = peer(), peer()
    send(producer, queue_name, ["4a", "9a", "0a"])
    consumer.subscribe(queue_name)
    frames = [consumer.next() for _ in range(3)]
    assert [frame.body for frame in frames] == ["4a", "9a", "0a"]
    assert [frame.headers["priority"] for frame in frames] == ["4", "9", "0"]


@pytest.mark.parametrize("priority", ["10", "-1", "high", "4.5", "1e0", "+1"])
@pytest.mark.parametrize("option", ["priorities", "first"])
def test_what_is_no_priority_is_refused(peer, option, priority):
    one = peer()
    destination = f"/queue/features.{option}.{unique('q')}"
    one.connection.send(destination, "x", headers={"priority": priority}, receipt="never")
    assert one.next("error").headers["code"] == "bad-priority"


@pytest.mark.parametrize("kind", KINDS[1:])
def test_what_is_rejected_comes_back_to_its_place(peer, kind, ordered):
    producer, consumer = peer(kind), peer(kind)
    consumer.subscribe(ordered, ack="client-individual", headers=ONE)
    send(producer, ordered, ["5a"])
    first = consumer.next()
    assert first.body == "5a"
    send(producer, ordered, ["5b", "4a", "7a"])
    consumer.nack(first)
    assert take(consumer, 6) == ["7a", "5a", "5b", "4a", "0 the last", "0 the last"]


def test_what_a_lost_consumer_had_comes_before_the_others_of_its_priority(peer, ordered):
    producer, lost, consumer = peer(), peer(), peer()
    lost.subscribe(ordered, ack="client-individual", headers=ONE)
    send(producer, ordered, ["6a", "6b", "4a"])
    assert lost.next().body == "6a"
    lost.connection.transport.disconnect_socket()
    consumer.subscribe(ordered, ack="client-individual", headers=ONE)
    send(producer, ordered, ["8a"])
    frames = []
    while len(frames) < 4:
        frame = consumer.next()
        consumer.ack(frame)
        # It may be there before the server knows that the other one is lost.
        frames.append(frame.body)
    assert sorted(frames) == ["4a", "6a", "6b", "8a"]
    assert frames.index("6b") < frames.index("4a")


def test_browsers_are_shown_the_most_urgent_first_and_nothing_is_taken(peer, ordered):
    producer, browser, consumer = peer(), peer(), peer()
    send(producer, ordered, ["4a", "9a", "4b"])
    expected = ["9a", "4a", "4b", "0 the last"]
    browser.subscribe(ordered, headers={"browser": "true"})
    assert browser.texts(4) == expected
    assert browser.next().headers["browser"] == "end"
    following = peer()
    following.subscribe(ordered, headers={"browser": "true", "browser-end": "false", "include-seq": "seq"})
    frames = [following.next() for _ in range(4)]
    assert [frame.body for frame in frames] == expected
    producer.publish(ordered, "9b", headers={"priority": "9"})
    frames.append(following.next())
    assert frames[-1].body == "9b"
    numbers = [int(frame.headers["seq"]) for frame in frames]
    assert numbers == [numbers[1] + place for place in (1, 0, 2, 3, 4)], "in the order of coming"
    consumer.subscribe(ordered)
    assert consumer.texts(5) == ["9a", "9b", *expected[1:]]


def test_of_what_a_selector_chooses_the_most_urgent_comes_first(peer, ordered):
    producer, consumer = peer(), peer()
    for n in range(20):
        headers = {"priority": str(n % 10), "n": str(n)}
        producer.publish(ordered, str(n), headers=headers)
    consumer.subscribe(ordered, ack="client-individual", headers=ONE | {"selector": "n >= 5 AND n < 15"})
    assert take(consumer, 10) == ["9", "8", "7", "6", "5", "14", "13", "12", "11", "10"]


def test_in_a_transaction_each_message_has_its_own(peer, ordered):
    producer, consumer = peer(), peer()
    transaction = producer.connection.begin()
    for body in ("1a", "8a", "1b"):
        producer.connection.send(ordered, body, headers={"priority": body[0], "transaction": transaction})
    producer.receipt(producer.connection.commit, transaction=transaction)
    consumer.subscribe(ordered)
    assert consumer.texts(3) == ["8a", "1a", "1b"]


@pytest.fixture(params=[1, 2])
def own(request, monkeypatch):
    """A server with a store and 64 KiB of memory for each queue; peers connect to it."""
    from lives import Server

    server = Server(os.environ["TIDERACE_BINARY"], "always", request.param)
    with server.config.open("a") as config:
        config.write('[[queue]]\nmatch = "deep/**"\npriorities = true\n')
    server.spawn()
    server.wait()
    monkeypatch.setattr(conftest, "HOST", server.address[0])
    monkeypatch.setattr(conftest, "PORT", str(server.address[1]))
    yield server
    if server.process.poll() is None:
        server.end()
    server.log.close()
    shutil.rmtree(server.folder)


ANYBODY = {"login": None, "passcode": None}
DEEP = 5_000


def fill(producer, destination, **headers):
    """Half a megabyte of messages without a priority, and then a few that are urgent."""
    for n in range(DEEP):
        producer.connection.send(destination, f"{n}".ljust(100, "."), headers=headers)
    send(producer, destination, ["8a", "9a", "8b", "5a"], **headers)


def check_deep(consumer, producer, destination):
    consumer.subscribe(destination, ack="client-individual", headers=ONE)
    assert take(consumer, 5) == ["9a", "8a", "8b", "5a", "0".ljust(100, ".")]
    assert consumer.next().body.rstrip(".") == "1"
    producer.publish(destination, "9 later", headers={"priority": "9"})


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_urgent_messages_behind_many_on_the_disk_come_first(own, peer, persistent):
    producer, consumer = peer(**ANYBODY), peer(**ANYBODY)
    destination = "/queue/deep.swapped"
    fill(producer, destination, persistent=persistent)
    check_deep(consumer, producer, destination)
    # What it has is not overtaken; the next one is.
    consumer.disconnect()
    other = peer(**ANYBODY)
    other.subscribe(destination, ack="client-individual", headers=ONE)
    bodies = [body.rstrip(".") for body in take(other, DEEP + 1)]
    assert bodies[0] in ("9 later", "1")
    rest = [body for body in bodies if body != "9 later"]
    assert rest == [str(n) for n in range(1, DEEP)] + ["0 the last"]
    assert bodies.index("9 later") <= 1


def test_urgent_messages_come_first_after_the_server_was_killed(own, peer):
    destination = "/queue/deep.killed"
    producer = peer(**ANYBODY)
    fill(producer, destination, persistent="true")
    own.kill()
    own.spawn()
    own.wait()
    producer, consumer = peer(**ANYBODY), peer(**ANYBODY)
    check_deep(consumer, producer, destination)
