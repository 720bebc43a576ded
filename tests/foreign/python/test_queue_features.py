"""What can be chosen for queues and said to them, one scenario for each feature of docs/queues.md.

The server's configuration gives the queues below `features/` their options. Waits only bound failure.
"""

import queue as queues
import time

import pytest
from conftest import KINDS, is_quiet, unique

NEWER = KINDS[1:]


def named(option):
    """A queue that the configuration gives this option."""
    return f"/queue/features.{option}.{unique('q')}"


def refusal(one, destination, **headers):
    """The code of the error that ends the connection of who sends such a message."""
    one.connection.send(destination, "x", headers=headers, receipt="never")
    return one.next("error").headers["code"]


@pytest.mark.parametrize("kind", NEWER)
def test_a_message_that_fails_waits_longer_each_time_and_is_then_a_dead_letter(peer, kind):
    destination = named("backoff")
    producer, consumer = peer(kind), peer(kind)
    consumer.subscribe(destination, ack="client-individual")
    producer.publish(destination, "poison")
    frame = consumer.next()
    # As configured: 200 ms, then twice as long.
    for failures, delay in enumerate((0.19, 0.39)):
        assert frame.headers.get("redeliveries", "0") == str(failures)
        began = time.monotonic()
        consumer.nack(frame)
        producer.publish(destination, other := f"other {failures}")
        sent, came = time.monotonic() - began, {}
        for _ in range(2):
            frame = consumer.next()
            came[frame.body] = (frame, time.monotonic() - began)
        assert set(came) == {other, "poison"}
        # Others go on meanwhile, if they were sent before its time.
        assert next(iter(came)) == other or sent >= delay, (came, sent)
        consumer.ack(came[other][0])
        frame, waited = came["poison"]
        # It never comes before its time.
        assert waited >= delay, waited
    consumer.nack(frame)
    consumer.subscribe(destination.replace("/queue/", "/queue/dlq."))
    dead = consumer.next()
    assert dead.body == "poison"
    assert dead.headers["dead-letter-reason"] == "redeliveries"


@pytest.mark.parametrize("kind", KINDS)
def test_a_delayed_message_comes_at_its_time(peer, kind, queue_name):
    producer, consumer = peer(kind), peer(kind)
    consumer.subscribe(queue_name)
    began, wall = time.monotonic(), time.time()
    # Far enough off for the others, which are sent behind it and come before it.
    at = str(int(wall * 1000) + 4000)
    producer.publish(queue_name, "scheduled", headers={"deliver-at": at})
    producer.publish(queue_name, "now")
    later = time.monotonic()
    producer.publish(queue_name, "delayed", headers={"delay": "300"})
    frames, came = [], []
    for _ in range(3):
        frames.append(consumer.next())
        came.append(time.monotonic())
    assert [frame.body for frame in frames] == ["now", "delayed", "scheduled"]
    # By the clock of the wall, which says milliseconds.
    assert came[1] - later >= 0.29 and came[2] - began >= 3.99, (began, later, came)
    assert frames[2].headers["deliver-at"] == at
    assert "delay" not in frames[1].headers and "deliver-at" in frames[1].headers


@pytest.mark.parametrize("value", ["soon", "-5", "1e9", "99999999999999999999", "4000000000000"])
@pytest.mark.parametrize("header", ["delay", "deliver-at"])
def test_a_time_that_makes_no_sense_is_refused(peer, queue_name, header, value):
    if (header, value) == ("deliver-at", "4000000000000"):
        value = "9000000000000"
    assert refusal(peer(), queue_name, **{header: value}) == "bad-schedule"


def test_what_waits_may_be_very_much(peer, queue_name):
    producer, consumer = peer(), peer()
    consumer.subscribe(queue_name)
    for n in range(3000):
        producer.connection.send(queue_name, str(n), headers={"delay": str(200 + n % 50)})
    assert sorted(int(text) for text in consumer.texts(3000)) == list(range(3000))


def test_a_message_that_expires_is_a_dead_letter(peer):
    destination = named("expired")
    producer, consumer = peer(), peer()
    producer.publish(destination, "late", headers={"ttl": "100", "k": "v"})
    producer.publish(destination, "delayed too long", headers={"ttl": "100", "delay": "60000"})
    consumer.subscribe(destination.replace("/queue/", "/queue/dlq."))
    dead = [consumer.next() for _ in range(2)]
    assert {frame.body for frame in dead} == {"late", "delayed too long"}
    assert {frame.headers["dead-letter-reason"] for frame in dead} == {"expired"}
    assert {frame.headers.get("k") for frame in dead} == {"v", None}


def test_a_full_queue_rejects_and_keeps_what_it_has(peer):
    destination = named("reject")
    producer, consumer = peer(), peer()
    for n in range(3):
        producer.publish(destination, str(n))
    assert refusal(peer(), destination) == "queue-full"
    consumer.subscribe(destination, ack="client-individual")
    frames = [consumer.next() for _ in range(3)]
    assert [frame.body for frame in frames] == ["0", "1", "2"]
    assert refusal(peer(), destination) == "queue-full"
    consumer.ack(frames[0])
    producer.publish(destination, "3")
    assert consumer.next().body == "3"


@pytest.mark.parametrize("option, kept", [("drop-head", ["2", "3", "4"]), ("drop-tail", ["0", "1", "2"])])
def test_a_full_queue_drops(peer, option, kept):
    destination = named(option)
    producer, consumer = peer(), peer()
    for n in range(5):
        producer.publish(destination, str(n))
    consumer.subscribe(destination, ack="client-individual")
    frames = [consumer.next() for _ in range(3)]
    assert [frame.body for frame in frames] == kept and is_quiet(consumer)
    for frame in frames:
        consumer.ack(frame)
    producer.publish(destination, "after")
    assert consumer.next().body == "after"


def test_the_first_consumer_gets_all_until_it_has_no_room(peer):
    destination = named("first")
    producer, first, second = peer(), peer(), peer()
    for one in (first, second):
        one.subscribe(destination, ack="client-individual", headers={"credit": "2,0"})
    for n in range(4):
        producer.publish(destination, str(n))
    frames = [first.next() for _ in range(2)]
    assert [frame.body for frame in frames] == ["0", "1"]
    assert second.texts(2) == ["2", "3"]
    first.ack(frames[0])
    producer.publish(destination, "4")
    assert first.next().body == "4" and is_quiet(second)


def test_an_exclusive_consumer_is_followed_by_the_next(peer, queue_name):
    producer, first, second, plain = peer(), peer(), peer(), peer()
    plain.subscribe(queue_name)
    for one in (first, second):
        one.subscribe(queue_name, headers={"exclusive": "true"})
    for one in (first, second, plain):
        producer.publish(queue_name, "x")
        assert one.next().body == "x"
        assert all(is_quiet(other, 0.05) for other in (first, second, plain) if other is not one)
        if one is not plain:
            one.disconnect()
            one.next("disconnected")
            one.listener.of["message"].queue.clear()


@pytest.mark.parametrize("kind", KINDS)
def test_a_group_goes_to_one_consumer_and_comes_in_order(peer, kind, queue_name):
    producer, consumers = peer(kind), [peer(kind) for _ in range(3)]
    for one in consumers:
        one.subscribe(queue_name)
    groups = [f"group {n}" for n in range(20)]
    for n in range(10):
        for group in groups:
            producer.connection.send(queue_name, str(n), headers={"message_group": group})
    producer.publish(queue_name, "last", headers={"message_group": "end"})
    got, owners = {}, {}
    left = 10 * len(groups) + 1
    while left:
        for place, one in enumerate(consumers):
            while True:
                try:
                    frame = one.listener.of["message"].get(timeout=0.02)
                except queues.Empty:
                    break
                left -= 1
                group = frame.headers["message_group"]
                got.setdefault(group, []).append(frame.body)
                owners.setdefault(group, set()).add(place)
    assert all(got[group] == [str(n) for n in range(10)] for group in groups)
    assert all(len(places) == 1 for places in owners.values())
    assert len({place for places in owners.values() for place in places}) > 1


def test_a_group_moves_when_its_consumer_has_gone(peer, queue_name):
    producer, first, second = peer(), peer(), peer()
    first.subscribe(queue_name, ack="client-individual", headers={"credit": "1,0"})
    for n in range(3):
        producer.publish(queue_name, str(n), headers={"message_group": "g"})
    held = first.next()
    second.subscribe(queue_name)
    assert is_quiet(second), "the first has a message of it"
    first.ack(held)
    first.disconnect()
    first.next("disconnected")
    taken = list(first.listener.of["message"].queue)
    assert [frame.body for frame in taken] in ([], ["1"])
    assert second.texts(2) == ["1", "2"]


def test_thousands_of_groups_leave_nothing_behind(peer, queue_name):
    producer, consumer = peer(), peer()
    consumer.subscribe(queue_name)
    for n in range(5000):
        producer.connection.send(queue_name, str(n), headers={"message_group": f"{n}-" + "x" * 200})
    assert consumer.texts(5000) == [str(n) for n in range(5000)]


@pytest.mark.parametrize("group", ["", "x" * 257])
def test_a_group_without_a_name_or_with_a_long_one_is_refused(peer, queue_name, group):
    assert refusal(peer(), queue_name, message_group=group) == "bad-group"
