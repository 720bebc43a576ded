"""Durable subscriptions, as Apollo spells them: `persistent:true`, and `/dsub/ID`. Waits only bound failure."""

import queue
import time

import pytest
from conftest import KINDS, WAIT, unique

DURABLE = {"persistent": "true"}


@pytest.fixture
def name():
    return unique("durable")


def begin(one, id, destination, **headers):
    one.receipt(one.connection.subscribe, destination, id=id, ack="client-individual", headers=DURABLE | headers)


def next_of(*peers):
    """The next message that any of them gets."""
    deadline = time.monotonic() + WAIT
    while True:
        for peer in peers:
            try:
                return peer.listener.of["message"].get(timeout=0.02)
            except queue.Empty:
                assert time.monotonic() < deadline, "nobody has got one"


@pytest.mark.parametrize("kind", KINDS)
def test_it_gathers_while_nobody_is_connected(peer, kind, name):
    topic = f"/topic/{unique('t')}"
    first, producer = peer(kind), peer(kind)
    begin(first, name, f"{topic}.*")
    producer.publish(f"{topic}.a", "1")
    frame = first.next()
    assert (frame.body, frame.headers["destination"], frame.headers["subscription"]) == ("1", f"{topic}.a", name)
    first.ack(frame)
    first.disconnect()
    first.next("receipt")
    for number in range(2, 7):
        producer.publish(f"{topic}.{'ab'[number % 2]}", str(number))
    producer.publish(topic, "not named")
    again = peer(kind)
    begin(again, name, f"{topic}.*")
    frames = [again.next() for _ in range(5)]
    assert [frame.body for frame in frames] == ["2", "3", "4", "5", "6"]
    assert {frame.headers["source-topic"] for frame in frames} == {
        f"{topic}.{part}".removeprefix("/topic/").replace(".", "/") for part in "ab"
    }
    for frame in frames:
        again.ack(frame)


@pytest.mark.parametrize("kind", KINDS)
def test_consumers_share_it_and_it_is_a_destination(peer, kind, name):
    topic = f"/topic/{unique('t')}"
    one, two, producer = peer(kind), peer(kind), peer(kind)
    begin(one, name, topic, credit="1,0")
    two.receipt(
        two.connection.subscribe, f"/dsub/{name}", id="other", ack="client-individual", headers={"credit": "1,0"}
    )
    for number in range(10):
        producer.publish(topic, str(number))
    producer.publish(f"/dsub/{name}", "straight")
    got = {one: [], two: []}
    # Each has one message at a time, so that both get some.
    for _ in range(5):
        for consumer in (one, two):
            frame = consumer.next()
            got[consumer].append(frame.body)
            consumer.ack(frame)
    # Whoever is ready first gets what is left.
    last = next_of(one, two).body
    assert sorted(got[one] + got[two] + [last]) == [str(number) for number in range(10)] + ["straight"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_when_it_is_unsubscribed_persistently_and_not_before(peer, kind, name):
    topic = f"/topic/{unique('t')}"
    one = peer(kind)
    begin(one, name, topic)
    one.unsubscribe(name)
    one.publish(topic, "kept")
    begin(one, name, topic)
    assert one.next().body == "kept"
    one.receipt(one.connection.unsubscribe, id=name, headers=DURABLE)
    one.publish(topic, "nobody's")
    begin(one, name, topic)
    one.publish(topic, "anew")
    assert one.next().body == "anew"


@pytest.mark.parametrize("kind", KINDS)
def test_a_selector_and_another_topic_count_from_then_on(peer, kind, name):
    first, second = f"/topic/{unique('t')}", f"/topic/{unique('t')}"
    one = peer(kind)
    begin(one, name, first, selector="colour = 'red'")
    one.unsubscribe(name)
    for colour in ("red", "blue"):
        one.publish(first, colour, headers={"colour": colour})
    begin(one, name, f"{first},{second}")
    one.publish(second, "second")
    one.publish(first, "first")
    assert one.texts(3) == ["red", "second", "first"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_durable_is_refused(peer, kind):
    for destination, headers, code in [
        ("/queue/a", DURABLE, "bad-header"),
        ("/topic/a", {"persistent": "perhaps"}, "bad-header"),
    ]:
        one = peer(kind)
        one.connection.subscribe(destination, id=unique("s"), headers=headers)
        assert one.next("error").headers["code"] == code
    nobody = f"/dsub/{unique('nobody')}"
    for act in (lambda one: one.connection.subscribe(nobody, id="s"), lambda one: one.connection.send(nobody, "x")):
        one = peer(kind)
        act(one)
        assert one.next("error").headers["code"] == "queue-unknown"
    one = peer(kind)
    one.connection.unsubscribe(unique("nobody"), headers=DURABLE)
    assert one.next("error").headers["code"] == "queue-unknown"
