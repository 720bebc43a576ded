"""Mirrored queues, after Apollo's StompMirroredQueueTest. The configuration mirrors the queues below `features/mirrored/`.

Waits only bound failure.
"""

import pytest
from conftest import KINDS, is_quiet, unique


@pytest.fixture
def name():
    return f"features.mirrored.{unique('m')}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_topic_gets_a_copy_of_what_is_sent_to_the_queue(peer, kind, name):
    listener, producer = peer(kind), peer(kind)
    listener.subscribe(f"/topic/{name}")
    producer.publish(f"/queue/{name}", "1")
    frame = listener.next()
    assert (frame.body, frame.headers["destination"]) == ("1", f"/topic/{name}")
    consumer = peer(kind)
    consumer.subscribe(f"/queue/{name}")
    frame = consumer.next()
    assert (frame.body, frame.headers["destination"]) == ("1", f"/queue/{name}")
    assert is_quiet(listener) and is_quiet(consumer)


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_gets_a_copy_of_what_is_published_to_the_topic(peer, kind, name):
    consumers, listeners, producer = [peer(kind) for _ in range(2)], [peer(kind) for _ in range(3)], peer(kind)
    for consumer in consumers:
        consumer.subscribe(f"/queue/{name}", ack="client-individual", headers={"credit": "1,0"})
    for listener in listeners:
        listener.subscribe(f"/topic/{name}")
    bodies = [str(number) for number in range(6)]
    for number, body in enumerate(bodies):
        producer.publish(f"/{'topic' if number % 2 else 'queue'}/{name}", body)
    for listener in listeners:
        assert listener.texts(6) == bodies
    # The consumers share them.
    shared = []
    for _ in range(3):
        for consumer in consumers:
            frame = consumer.next()
            shared.append(frame.body)
            consumer.ack(frame)
    assert sorted(shared) == bodies


@pytest.mark.parametrize("kind", KINDS)
def test_a_queue_gets_nothing_of_the_topic_before_it_is_there(peer, kind, name):
    one = peer(kind)
    one.publish(f"/topic/{name}", "nobody's")
    one.subscribe(f"/queue/{name}")
    one.publish(f"/topic/{name}", "the queue's")
    assert one.texts(1) == ["the queue's"]


@pytest.mark.parametrize("kind", KINDS[1:])
def test_both_or_neither_get_what_comes_together(peer, kind, name):
    one, listener = peer(kind), peer(kind)
    listener.subscribe(f"/topic/{name}")
    for transaction, end in [("kept", one.connection.commit), ("dropped", one.connection.abort)]:
        one.receipt(one.connection.begin, transaction=transaction)
        one.publish(f"/queue/{name}", transaction, transaction=transaction)
        one.receipt(end, transaction)
    one.publish(f"/topic/{name}", "last")
    assert listener.texts(2) == ["kept", "last"]
    one.subscribe(f"/queue/{name}")
    assert one.texts(2) == ["kept", "last"]
