"""Queues and acknowledgements: sharing, auto, client (cumulative), client-individual, NACK, redelivery."""

import pytest

from limits import REDELIVERIES_MAX
from test_frames import acknowledges
from wire import unique


def fill(client, queue, count, first=1):
    """Send numbered messages and wait until the last is in the queue."""
    for n in range(first, first + count - 1):
        client.send("SEND", {"destination": queue}, str(n))
    client.publish(queue, str(first + count - 1))


def test_a_queue_keeps_messages_until_somebody_comes(clients, queue):
    producer, consumer = clients(2)
    fill(producer, queue, 10)
    consumer.subscribe(queue)
    assert [m.text for m in consumer.messages(10)] == [str(n) for n in range(1, 11)]


def test_each_message_of_a_queue_goes_to_one_consumer(clients, queue):
    producer, one, two = clients(3)
    for consumer in (one, two):
        consumer.subscribe(queue, ack="client-individual", credit="1,0")
    fill(producer, queue, 2)
    assert {one.message().text, two.message().text} == {"1", "2"}


def test_a_queue_keeps_order_for_one_consumer(clients, queue):
    producer, consumer = clients(2)
    consumer.subscribe(queue)
    fill(producer, queue, 2000)
    assert [m.text for m in consumer.messages(2000)] == [str(n) for n in range(1, 2001)]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_an_ack_header_comes_with_explicit_modes(clients, queue, mode):
    producer, consumer = clients(2)
    consumer.subscribe(queue, ack=mode)
    fill(producer, queue, 2)
    first, second = consumer.messages(2)
    assert first["ack"] and second["ack"] and first["ack"] != second["ack"]


def test_auto_needs_no_ack_and_nothing_comes_twice(clients, queue):
    producer, first, second = clients(3)
    first.subscribe(queue, ack="auto")
    fill(producer, queue, 1)
    assert first.message().text == "1"
    first.ask("DISCONNECT")
    second.subscribe(queue)
    fill(producer, queue, 1, first=2)
    assert second.message().text == "2"


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_client_mode_acknowledges_all_messages_up_to_this_one(dial, queue, version):
    producer, first, second = dial(), dial(), dial()
    producer.login()
    first.login(version)
    second.login()
    fill(producer, queue, 5)
    first.subscribe(queue, ack="client")
    messages = first.messages(5)
    first.ask("ACK", acknowledges(messages[2], version))
    first.ask("DISCONNECT")
    second.subscribe(queue)
    assert [m.text for m in second.messages(2)] == ["4", "5"]
    fill(producer, queue, 1, first=6)
    assert second.message().text == "6"


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_client_individual_acknowledges_this_message_alone(dial, queue, version):
    producer, first, second = dial(), dial(), dial()
    producer.login()
    first.login(version)
    second.login()
    fill(producer, queue, 5)
    first.subscribe(queue, ack="client-individual")
    messages = first.messages(5)
    for n in (1, 3):
        first.ask("ACK", acknowledges(messages[n], version))
    first.ask("DISCONNECT")
    second.subscribe(queue)
    assert [m.text for m in second.messages(3)] == ["1", "3", "5"]


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_a_refused_message_goes_to_another_consumer(dial, queue, version):
    producer, first, second = dial(), dial(), dial()
    for one in (first, second):
        one.login(version)
    producer.login()
    first.subscribe(queue, ack="client-individual")
    fill(producer, queue, 1)
    message = first.message()
    second.subscribe(queue, ack="client-individual")
    first.ask("NACK", acknowledges(message, version))
    again = second.message()
    assert again.text == "1"
    second.ask("ACK", acknowledges(again, version))


def test_a_cumulative_refusal_returns_all_messages_up_to_it(clients, queue):
    producer, first, second = clients(3)
    first.subscribe(queue, ack="client")
    fill(producer, queue, 3)
    messages = first.messages(3)
    second.subscribe(queue, ack="client")
    first.ask("NACK", {"id": messages[1]["ack"]})
    assert [m.text for m in second.messages(2)] == ["1", "2"]


@pytest.mark.parametrize("how", ["disconnect", "cut"])
def test_what_was_not_acknowledged_returns_when_the_consumer_goes(clients, queue, how):
    producer, first, second = clients(3)
    first.subscribe(queue, ack="client-individual")
    fill(producer, queue, 3)
    messages = first.messages(3)
    first.ask("ACK", {"id": messages[0]["ack"]})
    second.subscribe(queue)
    if how == "disconnect":
        first.ask("DISCONNECT")
    else:
        first.close()
    assert [m.text for m in second.messages(2)] == ["2", "3"]


@pytest.mark.parametrize("mode", ["client", "client-individual"])
@pytest.mark.parametrize("how", ["unsubscribe", "disconnect", "crash"])
def test_unread_messages_are_no_redeliveries(dial, how, mode):
    """However often a consumer leaves what lay unread in its window (Apollo: APLO-198)."""
    path = f"poison/{unique('unread')}"
    producer = dial()
    producer.login()
    fill(producer, f"/queue/{path}", 50)
    consumer = None
    for n in range(1, 26):
        if consumer is None:
            consumer = dial()
            consumer.login()
        id = consumer.subscribe(f"/queue/{path}", ack=mode)
        message = consumer.message()
        assert message.text == str(n)
        if how != "crash":
            assert message.get("redelivered") is None, message
        consumer.ask("ACK", {"id": message["ack"]})
        if how == "unsubscribe":
            consumer.ask("UNSUBSCRIBE", {"id": id})
            consumer.kept.clear()
            continue
        if how == "disconnect":
            consumer.ask("DISCONNECT")
        consumer.close()
        consumer = None
    last, dead = dial(), dial()
    for one in (last, dead):
        one.login()
    dead.subscribe(f"/queue/dlq/{path}")
    last.subscribe(f"/queue/{path}")
    rest = last.messages(25)
    assert [m.text for m in rest] == [str(n) for n in range(26, 51)]
    assert all(m.get("redelivered") is None for m in rest[1:]), "nobody has taken them"
    dead.ask("SEND", {"destination": f"/queue/dlq/{path}"}, "first")
    assert dead.message().text == "first", "nothing was dead"


def test_a_message_that_its_consumers_die_of_ends_as_a_dead_letter(dial):
    path = f"poison/{unique('dies')}"
    producer = dial()
    producer.login()
    fill(producer, f"/queue/{path}", 3)
    for n in range(REDELIVERIES_MAX + 1):
        consumer = dial()
        consumer.login()
        consumer.subscribe(f"/queue/{path}", ack="client-individual")
        message = consumer.message()
        assert (message.text, message.get("redeliveries")) == ("1", str(n) if n else None)
        consumer.close()
    producer.subscribe(f"/queue/{path}")
    assert [(m.text, m.get("redelivered")) for m in producer.messages(2)] == [("2", None), ("3", None)]
    producer.subscribe(f"/queue/dlq/{path}")
    assert producer.message().text == "1"


def test_what_was_not_acknowledged_returns_when_the_subscription_ends(clients, queue):
    producer, first, second = clients(3)
    id = first.subscribe(queue, ack="client-individual")
    fill(producer, queue, 2)
    first.messages(2)
    second.subscribe(queue)
    first.ask("UNSUBSCRIBE", {"id": id})
    assert [m.text for m in second.messages(2)] == ["1", "2"]


def test_returned_messages_come_before_younger_ones(clients, queue):
    producer, first, second = clients(3)
    id = first.subscribe(queue, ack="client-individual", credit="2,0")
    fill(producer, queue, 4)
    first.messages(2)
    first.send("UNSUBSCRIBE", {"id": id})
    # What one client sends to a queue after it has left comes after what it gave back.
    first.publish(queue, "5")
    second.subscribe(queue)
    assert [m.text for m in second.messages(5)] == ["1", "2", "3", "4", "5"]


def test_nothing_comes_after_unsubscribe(clients, topic):
    producer, consumer = clients(2)
    id = consumer.subscribe(topic)
    consumer.subscribe(topic + ".fence")
    consumer.ask("UNSUBSCRIBE", {"id": id})
    producer.publish(topic, "unwanted")
    producer.publish(topic + ".fence", "fence")
    assert consumer.message().text == "fence"


def test_1_0_unsubscribes_by_destination(dial, topic):
    producer, consumer = dial(), dial()
    producer.login()
    consumer.login("1.0")
    consumer.ask("SUBSCRIBE", {"destination": topic})
    consumer.ask("SUBSCRIBE", {"destination": topic + ".fence"})
    producer.publish(topic, "wanted")
    assert consumer.message().text == "wanted"
    consumer.ask("UNSUBSCRIBE", {"destination": topic})
    producer.publish(topic, "unwanted")
    producer.publish(topic + ".fence", "fence")
    assert consumer.message().text == "fence"


def test_1_0_subscribes_without_an_id(dial, queue):
    client = dial()
    client.login("1.0")
    client.ask("SUBSCRIBE", {"destination": queue, "ack": "client"})
    client.ask("SEND", {"destination": queue}, "1")
    message = client.message()
    client.ask("ACK", {"message-id": message["message-id"]})


def test_two_subscriptions_of_one_connection_are_told_apart(client):
    one, two = f"/topic/{unique()}", f"/topic/{unique()}"
    client.subscribe(one, id="one")
    client.subscribe(two, id="two")
    client.publish(two, "2")
    client.publish(one, "1")
    assert {m["subscription"]: m.text for m in client.messages(2)} == {"one": "1", "two": "2"}


def test_two_subscriptions_to_the_same_topic_both_get_it(client, topic):
    client.subscribe(topic, id="a")
    client.subscribe(topic, id="b")
    client.publish(topic, "x")
    assert {m["subscription"] for m in client.messages(2)} == {"a", "b"}


def test_an_id_may_be_used_again_after_unsubscribe(client, topic):
    for n in range(3):
        client.subscribe(topic, id="same")
        client.publish(topic, str(n))
        assert client.message().text == str(n)
        client.ask("UNSUBSCRIBE", {"id": "same"})


def test_credit_bounds_what_is_delivered_before_an_ack(clients, queue):
    """With a credit of one, the next message comes only after the ACK of the one before."""
    producer, slow, other = clients(3)
    slow.subscribe(queue, ack="client-individual", credit="1,0")
    fill(producer, queue, 3)
    first = slow.message()
    other.subscribe(queue, ack="client-individual")
    assert [m.text for m in other.messages(2)] == ["2", "3"], "all but the first were free for another"
    slow.ask("ACK", {"id": first["ack"]})
    fill(producer, queue, 2, first=4)
    assert slow.message().text in ("4", "5"), "the ACK gave the credit back"


def test_credit_of_two_takes_two(clients, queue):
    producer, slow, other = clients(3)
    slow.subscribe(queue, ack="client", credit="2,0")
    fill(producer, queue, 3)
    slow.messages(2)
    other.subscribe(queue)
    assert other.message().text == "3"


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_credit_on_a_topic_bounds_what_is_not_acknowledged(clients, topic, mode):
    """As RabbitMQ's test_topic_prefetch and Apollo's APLO-249 want it."""
    producer, slow, fence = clients(3)
    slow.subscribe(topic, ack=mode, credit="5,0")
    fence.subscribe(topic)
    for n in range(10):
        producer.publish(topic, str(n))
    fence.messages(10)
    first = slow.messages(5)
    assert [m.text for m in first] == ["0", "1", "2", "3", "4"]
    slow.publish(f"{topic}.fence", "")
    assert not [f for f in slow.kept if f.command == "MESSAGE"], "no sixth one"
    slow.ask("ACK", {"id": first[0]["ack"]})
    assert slow.message().text == "9", "the newest of those that waited"
    slow.ask("NACK" if mode == "client-individual" else "ACK", {"id": first[4]["ack"]})
    for n in (10, 11):
        producer.publish(topic, str(n))
        if mode == "client" or n == 10:
            assert slow.message().text == str(n)


def test_unread_receipts_do_not_stop_deliveries(client, topic):
    """A client that asks for many receipts before reading any still gets all of them."""
    client.subscribe(topic)
    for n in range(500):
        client.send("SEND", {"destination": topic, "receipt": f"r{n}"}, str(n))
    seen = [client.frame() for _ in range(1000)]
    assert [f["receipt-id"] for f in seen if f.command == "RECEIPT"] == [f"r{n}" for n in range(500)]
    assert [f.text for f in seen if f.command == "MESSAGE"] == [str(n) for n in range(500)]
