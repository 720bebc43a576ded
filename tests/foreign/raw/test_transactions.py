"""Transactions: commit, abort, the implicit abort, acknowledgements inside, names."""

import pytest


def test_nothing_is_seen_before_commit_and_all_after_it(clients, topic):
    producer, consumer = clients(2)
    consumer.subscribe(topic)
    producer.ask("BEGIN", {"transaction": "t"})
    for n in range(5):
        producer.send("SEND", {"destination": topic, "transaction": "t"}, f"inside {n}")
    producer.publish(topic, "outside")
    producer.ask("COMMIT", {"transaction": "t"})
    assert [m.text for m in consumer.messages(6)] == ["outside"] + [f"inside {n}" for n in range(5)]


def test_an_abort_leaves_nothing(clients, topic):
    producer, consumer = clients(2)
    consumer.subscribe(topic)
    producer.ask("BEGIN", {"transaction": "t"})
    producer.send("SEND", {"destination": topic, "transaction": "t"}, "never")
    producer.ask("ABORT", {"transaction": "t"})
    producer.publish(topic, "after")
    assert consumer.message().text == "after"


@pytest.mark.parametrize("how", ["disconnect", "cut"])
def test_an_open_transaction_is_aborted_when_the_connection_ends(clients, queue, how):
    first, second = clients(2)
    first.ask("BEGIN", {"transaction": "t"})
    first.send("SEND", {"destination": queue, "transaction": "t"}, "never")
    if how == "disconnect":
        first.ask("DISCONNECT")
    else:
        first.close()
    second.subscribe(queue)
    second.publish(queue, "after")
    assert second.message().text == "after"


def test_an_acknowledgement_counts_only_after_commit(clients, queue):
    producer, first, second = clients(3)
    producer.publish(queue, "1")
    first.subscribe(queue, ack="client-individual")
    message = first.message()
    first.ask("BEGIN", {"transaction": "t"})
    first.ask("ACK", {"id": message["ack"], "transaction": "t"})
    first.ask("DISCONNECT")
    second.subscribe(queue)
    assert second.message().text == "1"


def test_a_committed_acknowledgement_removes_the_message(clients, queue):
    producer, first, second = clients(3)
    producer.publish(queue, "1")
    first.subscribe(queue, ack="client-individual")
    message = first.message()
    first.ask("BEGIN", {"transaction": "t"})
    first.ask("ACK", {"id": message["ack"], "transaction": "t"})
    first.ask("COMMIT", {"transaction": "t"})
    first.ask("DISCONNECT")
    producer.publish(queue, "2")
    second.subscribe(queue)
    assert second.message().text == "2"


def test_an_aborted_acknowledgement_can_be_given_again(clients, queue):
    producer, first, second = clients(3)
    producer.publish(queue, "1")
    first.subscribe(queue, ack="client-individual")
    message = first.message()
    first.ask("BEGIN", {"transaction": "t"})
    first.ask("ACK", {"id": message["ack"], "transaction": "t"})
    first.ask("ABORT", {"transaction": "t"})
    first.ask("ACK", {"id": message["ack"]})
    first.ask("DISCONNECT")
    producer.publish(queue, "2")
    second.subscribe(queue)
    assert second.message().text == "2"


def test_a_committed_refusal_returns_the_message(clients, queue):
    producer, first, second = clients(3)
    producer.publish(queue, "1")
    first.subscribe(queue, ack="client-individual")
    message = first.message()
    second.subscribe(queue)
    first.ask("BEGIN", {"transaction": "t"})
    first.ask("NACK", {"id": message["ack"], "transaction": "t"})
    first.ask("COMMIT", {"transaction": "t"})
    assert second.message().text == "1"


def test_transactions_of_one_connection_are_independent(clients, topic):
    producer, consumer = clients(2)
    consumer.subscribe(topic)
    for name in ("a", "b"):
        producer.ask("BEGIN", {"transaction": name})
        producer.send("SEND", {"destination": topic, "transaction": name}, name)
    producer.ask("COMMIT", {"transaction": "b"})
    producer.ask("ABORT", {"transaction": "a"})
    producer.publish(topic, "end")
    assert [m.text for m in consumer.messages(2)] == ["b", "end"]


def test_a_name_may_be_used_again_after_the_end(client, topic):
    client.subscribe(topic)
    for n, end in enumerate(["COMMIT", "ABORT", "COMMIT"]):
        client.ask("BEGIN", {"transaction": "same"})
        client.send("SEND", {"destination": topic, "transaction": "same"}, str(n))
        client.ask(end, {"transaction": "same"})
    assert [m.text for m in client.messages(2)] == ["0", "2"]


def test_names_belong_to_their_connection(clients, topic):
    one, two = clients(2)
    one.ask("BEGIN", {"transaction": "t"})
    two.ask("BEGIN", {"transaction": "t"})
    two.subscribe(topic)
    one.send("SEND", {"destination": topic, "transaction": "t"}, "one")
    two.ask("ABORT", {"transaction": "t"})
    one.ask("COMMIT", {"transaction": "t"})
    assert two.message().text == "one"


def test_a_transaction_spans_topics_and_queues(clients, topic, queue):
    producer, consumer = clients(2)
    consumer.subscribe(topic, id="t")
    consumer.subscribe(queue, id="q")
    producer.ask("BEGIN", {"transaction": "t"})
    producer.send("SEND", {"destination": topic, "transaction": "t"}, "to topic")
    producer.send("SEND", {"destination": queue, "transaction": "t"}, "to queue")
    producer.ask("COMMIT", {"transaction": "t"})
    assert {m["subscription"]: m.text for m in consumer.messages(2)} == {"t": "to topic", "q": "to queue"}
