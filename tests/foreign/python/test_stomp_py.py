"""Conversations with stomp.py in STOMP 1.0, 1.1, 1.2 and over WebSocket, every frame type among them."""

import pytest
import stomp
from conftest import KINDS

NEWER = KINDS[1:]


@pytest.mark.parametrize("kind", KINDS)
def test_connect_and_disconnect(peer, kind):
    one = peer(kind)
    expected = {"websocket": "1.2"}.get(kind, kind)
    assert one.listener.connected.headers.get("version", "1.0") == expected
    one.disconnect()
    one.next("disconnected")


def test_a_wrong_passcode_is_refused(peer):
    peer("1.2")
    with pytest.raises(stomp.exception.ConnectFailedException):
        peer("1.2", passcode="wrong")


@pytest.mark.parametrize("kind", KINDS)
def test_publish_and_subscribe(peer, kind, topic):
    producer, consumer = peer(kind), peer(kind)
    consumer.subscribe(topic)
    for n in range(100):
        producer.connection.send(topic, f"message {n}", headers={"number": str(n)})
    frames = [consumer.next() for _ in range(100)]
    assert [f.body for f in frames] == [f"message {n}" for n in range(100)]
    assert frames[42].headers["number"] == "42"
    assert frames[0].headers["destination"] == topic


@pytest.mark.parametrize("sender", KINDS)
@pytest.mark.parametrize("receiver", KINDS)
def test_every_version_hears_every_other(peer, sender, receiver, topic):
    producer, consumer = peer(sender), peer(receiver)
    consumer.subscribe(topic)
    producer.publish(topic, "grüße 🌊", content_type="text/plain")
    frame = consumer.next()
    assert frame.body == "grüße 🌊"
    assert frame.headers["content-type"] == "text/plain"


@pytest.mark.parametrize("kind", KINDS)
def test_client_acknowledgement(peer, kind, queue_name):
    producer, first, second = peer(kind), peer(kind), peer(kind)
    first.subscribe(queue_name, ack="client")
    for n in range(3):
        producer.publish(queue_name, str(n))
    frames = [first.next() for _ in range(3)]
    first.ack(frames[1])
    first.disconnect()
    second.subscribe(queue_name)
    assert second.texts(1) == ["2"]


@pytest.mark.parametrize("kind", NEWER)
def test_individual_acknowledgement_and_refusal(peer, kind, queue_name):
    producer, first, second = peer(kind), peer(kind), peer(kind)
    first.subscribe(queue_name, ack="client-individual")
    for n in range(3):
        producer.publish(queue_name, str(n))
    frames = [first.next() for _ in range(3)]
    second.subscribe(queue_name, ack="client-individual")
    first.ack(frames[0])
    first.nack(frames[2])
    again = second.next()
    assert again.body == "2"
    second.ack(again)
    first.ack(frames[1])


@pytest.mark.parametrize("kind", KINDS)
def test_transactions(peer, kind, topic):
    producer, consumer = peer(kind), peer(kind)
    consumer.subscribe(topic)
    for end, body in (("abort", "never"), ("commit", "kept")):
        name = producer.connection.begin()
        producer.connection.send(topic, body, headers={"transaction": name})
        producer.receipt(getattr(producer.connection, end), name)
    producer.publish(topic, "end")
    assert consumer.texts(2) == ["kept", "end"]


@pytest.mark.parametrize("kind", NEWER)
def test_unsubscribe(peer, kind, topic):
    one = peer(kind)
    id = one.subscribe(topic)
    one.publish(topic, "wanted")
    assert one.texts(1) == ["wanted"]
    one.unsubscribe(id)
    one.subscribe(topic + ".fence")
    one.publish(topic, "unwanted")
    one.publish(topic + ".fence", "fence")
    assert one.texts(1) == ["fence"]


def test_1_0_unsubscribes_by_destination(peer, topic):
    one = peer("1.0")
    one.receipt(one.connection.subscribe, topic)
    one.receipt(one.connection.unsubscribe, topic)
    one.receipt(one.connection.subscribe, topic + ".fence")
    one.publish(topic, "unwanted")
    one.publish(topic + ".fence", "fence")
    assert one.texts(1) == ["fence"]


@pytest.mark.parametrize("kind", ["1.1", "1.2"])
def test_header_escapes(peer, kind, topic):
    one = peer(kind)
    one.subscribe(topic)
    value = "colon: backslash\\ newline\n end"
    one.publish(topic, "x", headers={"odd": value})
    assert one.next().headers["odd"] == value


@pytest.mark.parametrize("kind", ["1.0", "1.1", "1.2"])
def test_binary_bodies(peer, kind, topic):
    one = peer(kind, auto_decode=False)
    one.subscribe(topic)
    body = bytes(range(256)) * 4
    one.publish(topic, body, content_type="application/octet-stream")
    assert one.next().body == body


@pytest.mark.parametrize("kind", NEWER)
def test_heart_beats_keep_a_silent_connection(peer, kind):
    """Five beats from the server; meanwhile stomp.py sends its own and says nothing else."""
    # By itself stomp.py gives up after 600 ms, which a machine that is busy may take.
    one = peer(kind, heartbeats=(400, 400), heart_beat_receive_scale=20)
    for _ in range(5):
        one.next("beat")
    assert one.connection.is_connected()


@pytest.mark.parametrize("kind", NEWER)
def test_an_error_is_told_with_its_receipt_id(peer, kind):
    one = peer(kind)
    one.connection.commit("never begun", receipt="my-receipt")
    error = one.next("error")
    assert error.headers["code"] == "unknown-transaction"
    assert error.headers["receipt-id"] == "my-receipt"
    one.next("disconnected")


@pytest.mark.parametrize("kind", NEWER)
def test_request_and_reply(peer, kind, queue_name):
    requester, responder = peer(kind), peer(kind)
    responder.subscribe(queue_name)
    requester.subscribe("/temp-queue/answers")
    requester.publish(queue_name, "question", headers={"reply-to": "/temp-queue/answers"})
    request = responder.next()
    responder.publish(request.headers["reply-to"], "answer to " + request.body)
    assert requester.texts(1) == ["answer to question"]


@pytest.mark.parametrize("kind", KINDS)
def test_selectors_wildcards_and_composites(peer, kind, topic):
    producer, chosen, wild, both = peer(kind), peer(kind), peer(kind), peer(kind)
    chosen.subscribe(topic + ".a", headers={"selector": "size > 10"})
    wild.subscribe(topic + ".*")
    both.subscribe(f"{topic}.a,{topic}.b")
    producer.publish(topic + ".a", "small", headers={"size": "5"})
    producer.publish(topic + ".a", "large", headers={"size": "50"})
    producer.publish(f"{topic}.b,{topic}.c", "twice")
    assert chosen.texts(1) == ["large"]
    assert sorted(wild.texts(4)) == ["large", "small", "twice", "twice"]
    assert sorted(both.texts(3)) == ["large", "small", "twice"]


@pytest.mark.parametrize("kind", KINDS)
def test_retained_values(peer, kind, topic):
    one = peer(kind)
    one.publish(topic, "kept", headers={"retain": "set"})
    one.subscribe(topic)
    assert one.texts(1) == ["kept"]


@pytest.mark.parametrize("kind", NEWER)
def test_credit(peer, kind, queue_name):
    producer, slow, other = peer(kind), peer(kind), peer(kind)
    slow.subscribe(queue_name, ack="client-individual", headers={"credit": "1,0"})
    for n in range(3):
        producer.publish(queue_name, str(n))
    frame = slow.next()
    other.subscribe(queue_name)
    assert sorted([frame.body] + other.texts(2)) == ["0", "1", "2"]
    slow.ack(frame)


def test_a_queue_shares_its_work(peer, queue_name):
    producer, *workers = peer(), peer(), peer(), peer()
    arrivals = workers[0].listener.of["message"]
    owner = {}
    for worker in workers:
        worker.listener.of["message"] = arrivals
        owner[worker.subscribe(queue_name, ack="client-individual", headers={"credit": "1,0"})] = worker
    for n in range(30):
        producer.connection.send(queue_name, str(n))
    done = []
    for _ in range(30):
        frame = workers[0].next()
        done.append(frame)
        owner[frame.headers["subscription"]].ack(frame)
    assert sorted((f.body for f in done), key=int) == [str(n) for n in range(30)]
    assert len({f.headers["subscription"] for f in done}) == 3, "all three had work"
