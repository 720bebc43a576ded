"""Apollo's own STOMP scenarios with stomp.py: what its users rely on has to hold here.

After the names of ActiveMQ Apollo's tests (StompParallelTest, StompSerialTest, StompWildcardParallelTest,
StompWebSocketTests, DeadLetterQueueLoadTest). Left out is UDP, which is not here. Durable subscriptions, mirrored
queues, browsers, sequence headers and the features of queues have files of their own. The exact bytes are in
raw/test_apollo.py.
"""

import socket
import time

import pytest
from conftest import unique

CLIENTS = ["1.1", "1.2", "websocket"]


@pytest.fixture(params=CLIENTS)
def kind(request):
    return request.param


@pytest.fixture
def connect(peer, kind):
    """Connections of the version at hand."""
    return lambda **options: peer(kind, **options)


@pytest.fixture(params=["queue", "topic"])
def destination(request):
    return f"/{request.param}/{unique('apollo')}"


def send(peer, destination, *bodies, **headers):
    """Sends without waiting; Apollo's `async_send`."""
    for body in bodies:
        peer.connection.send(destination, str(body), headers={k.replace("_", "-"): v for k, v in headers.items()})


def pass_time(peer, seconds):
    """Until the server has answered somebody that much later."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        peer.publish(f"/topic/{unique('clock')}", "tick")


# Values of topics


def test_retain_set_makes_a_topic_remember_the_message(connect, topic):
    one = connect()
    send(one, topic, 1)
    send(one, topic, 2, retain="set")
    one.publish(topic, "3")
    one.subscribe(topic)
    assert one.texts(1) == ["2"]
    send(one, topic, 4)
    assert one.texts(1) == ["4"]


def test_retain_remove_makes_a_topic_forget_the_message(connect, topic):
    one = connect()
    send(one, topic, 1)
    send(one, topic, 2, retain="set")
    send(one, topic, 3, retain="remove")
    one.subscribe(topic)
    send(one, topic, 4)
    assert one.texts(1) == ["4"]


def test_a_topic_drops_what_came_before_the_subscription(connect, topic):
    one = connect()
    send(one, topic, 1)
    one.subscribe(topic)
    send(one, topic, 2, 3)
    assert one.texts(2) == ["2", "3"]


# Selectors


@pytest.mark.parametrize(
    "selector, headers, chosen",
    [
        ("color = 'red'", [("color", "blue"), ("not", "set"), ("color", "red")], [3]),
        ("age >= 21", [("age", "3"), ("not", "set"), ("age", "21"), ("age", "30")], [3, 4]),
        ("hyphen - 5 = 5", [("hyphen", "9"), ("not", "set"), ("hyphen", "10")], [3]),
        ("hyphen -5 = 5", [("hyphen", "9"), ("not", "set"), ("hyphen", "10")], [3]),
        ("hyphen-5 = 5", [("hyphen", "9"), ("hyphen-5", "5"), ("not", "set"), ("hyphen", "10")], [2]),
    ],
)
def test_selector_syntax(connect, topic, selector, headers, chosen):
    one = connect()
    id = one.subscribe(topic, headers={"selector": selector})
    for number, (name, value) in enumerate(headers, 1):
        one.connection.send(topic, str(number), headers={name: value})
    # Not chosen, but behind all that are.
    one.publish(topic, "end")
    one.unsubscribe(id)
    one.subscribe(topic)
    one.publish(topic, "fence")
    assert one.texts(len(chosen) + 1) == [str(n) for n in chosen] + ["fence"]


def test_a_selector(connect, destination):
    one = connect()
    one.subscribe(destination, headers={"selector": "color='red'"})
    for number, colour in ((1, "red"), (2, "blue"), (3, "red")):
        send(one, destination, number, color=colour)
    assert one.texts(2) == ["1", "3"]


# Queues and their consumers


def test_queues_balance_load_across_subscribers(connect, queue_name):
    one = connect()
    ids = [one.subscribe(queue_name), one.subscribe(queue_name)]
    send(one, queue_name, *range(4))
    subscriptions = [one.next().headers["subscription"] for _ in range(4)]
    assert [subscriptions.count(id) for id in ids] == [2, 2]


def test_queues_do_not_balance_load_across_exclusive_subscribers(connect, queue_name):
    one = connect()
    other = one.subscribe(queue_name)
    exclusive = one.subscribe(queue_name, ack="client", headers={"exclusive": "true"})
    send(one, queue_name, *range(4))
    assert [one.next().headers["subscription"] for _ in range(4)] == [exclusive] * 4
    one.unsubscribe(exclusive)
    frames = [one.next() for _ in range(4)]
    assert [(f.headers["subscription"], f.body) for f in frames] == [(other, str(n)) for n in range(4)]


def test_the_order_of_a_queue_is_kept(connect, queue_name):
    one = connect()
    send(one, queue_name, 1, 2, 3)
    one.subscribe(queue_name)
    assert one.texts(3) == ["1", "2", "3"]


@pytest.mark.parametrize("kind_of", ["queue", "topic"])
@pytest.mark.parametrize("separator", [".", "/"])
def test_wildcard_subscriptions(connect, kind_of, separator):
    one, root = connect(), unique("wild")
    one.subscribe(f"/{kind_of}/{root}{separator}foo{separator}*")
    for name in ("bar", "foo"):
        for leaf in ("a", "b"):
            send(one, f"/{kind_of}/{root}{separator}{name}{separator}{leaf}", name + leaf)
    # The two went to different queues, so they may come in any order.
    assert sorted(one.texts(2)) == ["fooa", "foob"]


# Expiry


@pytest.mark.parametrize("how", ["expires", "ttl"])
def test_messages_expire_while_they_wait(connect, queue_name, how):
    one = connect()
    send(one, queue_name, 1)
    send(one, queue_name, 2, **{how: 50 + (int(time.time() * 1000) if how == "expires" else 0)})
    # The server has all three before the time begins that is to pass.
    one.publish(queue_name, "3")
    pass_time(one, 0.1)
    one.subscribe(queue_name)
    assert one.texts(2) == ["1", "3"]


def test_a_message_that_has_expired_already(connect, destination):
    producer, consumer = connect(), connect()
    consumer.subscribe(destination)
    send(producer, destination, "m1")
    send(producer, destination, "e1", expires=int(time.time() * 1000) - 1000)
    send(producer, destination, "m2")
    assert consumer.texts(2) == ["m1", "m2"]


def test_expiry_on_topics_with_a_slow_consumer(connect, topic):
    """APLO-249: what waits for a consumer of a topic expires like what waits in a queue."""
    producer, consumer = connect(), connect()
    consumer.subscribe(topic, ack="client", headers={"credit": "10,0"})
    # The first are not to expire on their way.
    send(producer, topic, *(f"{n:01024}" for n in range(10)))
    for n in range(10, 200):
        send(producer, topic, f"{n:01024}", expires=int(time.time() * 1000) + 500)
    producer.publish(topic, "DONE")
    pass_time(producer, 0.6)
    frames = [consumer.next() for _ in range(10)]
    assert [int(f.body) for f in frames] == list(range(10))
    consumer.ack(frames[-1])
    assert consumer.texts(1) == ["DONE"]


# Receipts and transactions


def test_receipts_of_an_unconsumed_topic(connect, topic):
    one = connect()
    one.publish(topic, "1")
    one.publish(topic, "2")


def test_receipts_of_a_consumed_topic(connect, topic):
    producer, consumer = connect(), connect()
    consumer.subscribe(topic)
    producer.publish(topic, "1")
    producer.publish(topic, "2")
    assert consumer.texts(2) == ["1", "2"]


def test_a_transacted_send(connect, destination):
    one = connect()
    if destination.startswith("/topic/"):
        one.subscribe(destination)
    send(one, destination, 1)
    name = one.connection.begin()
    send(one, destination, 2, transaction=name)
    send(one, destination, 3)
    if destination.startswith("/queue/"):
        one.subscribe(destination)
    assert one.texts(2) == ["1", "3"]
    one.connection.commit(name)
    assert one.texts(1) == ["2"]


def test_the_order_of_a_commit(connect, destination):
    producer, consumer = connect(), connect()
    consumer.subscribe(destination)
    send(producer, destination, "m1")
    name = producer.connection.begin()
    send(producer, destination, "t1", transaction=name)
    send(producer, destination, "m2")
    send(producer, destination, "t2", transaction=name)
    producer.receipt(producer.connection.commit, name)
    send(producer, destination, "m3")
    assert consumer.texts(5) == ["m1", "m2", "t1", "t2", "m3"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_acknowledgements_inside_and_outside_of_a_transaction(connect, destination, end):
    """Neither end leads to a redelivery: the subscription goes on."""
    producer, consumer = connect(), connect()
    consumer.subscribe(destination, ack="client")
    send(producer, destination, "m1", "m2", "m3", "m4")
    name = consumer.connection.begin()
    for number in (1, 2, 3, 4):
        frame = consumer.next()
        assert frame.body == f"m{number}"
        consumer.ack(frame, **({"transaction": name} if number % 2 == 0 else {}))
    consumer.receipt(getattr(consumer.connection, end), name)
    send(producer, destination, "m5")
    assert consumer.texts(1) == ["m5"]


def test_an_acknowledgement_committed_after_the_subscription_has_ended(connect, queue_name):
    """The one difference to Apollo, and documented: the message has gone back to its queue by then."""
    producer, consumer = connect(), connect()
    id = consumer.subscribe(queue_name, ack="client-individual")
    name = consumer.connection.begin()
    producer.publish(queue_name, "Hello world")
    consumer.ack(consumer.next(), transaction=name)
    consumer.unsubscribe(id)
    consumer.receipt(consumer.connection.commit, name)
    producer.publish(queue_name, "END")
    producer.subscribe(queue_name)
    assert producer.texts(2) == ["Hello world", "END"]


# Acknowledgements


def test_client_redelivers_on_disconnect(connect, queue_name):
    first = connect()
    send(first, queue_name, 1, 2, 3)
    first.subscribe(queue_name, ack="client")
    frames = [first.next() for _ in range(3)]
    first.ack(frames[1])
    first.disconnect()
    second = connect()
    second.subscribe(queue_name, ack="client")
    assert second.texts(1) == ["3"]


def test_client_individual_redelivers_on_disconnect(connect, queue_name):
    first = connect()
    send(first, queue_name, 1, 2, 3)
    first.subscribe(queue_name, ack="client-individual")
    frames = [first.next() for _ in range(3)]
    first.ack(frames[1])
    first.disconnect()
    second = connect()
    second.subscribe(queue_name, ack="client-individual")
    assert second.texts(2) == ["1", "3"]


@pytest.mark.parametrize("mode, left", [("client", []), ("client-individual", ["1"])])
def test_an_ack_of_the_second_of_two(connect, queue_name, mode, left):
    """STOMP 1.2 client and client-individual ack."""
    first = connect()
    first.subscribe(queue_name, ack=mode)
    send(first, queue_name, 1, 2)
    first.ack([first.next() for _ in range(2)][1])
    first.disconnect()
    # What it has not acknowledged is in the queue again before the third is sent.
    first.next("disconnected")
    second = connect()
    second.subscribe(queue_name, ack="client")
    send(second, queue_name, 3)
    for body in left + ["3"]:
        frame = second.next()
        assert frame.body == body
        second.ack(frame)


@pytest.mark.parametrize("ending", ["disconnect", "cut"])
def test_an_ack_counts_although_the_socket_closes_right_after_it(connect, queue_name, ending):
    """APLO-88: with and without DISCONNECT, and without a receipt."""
    first = connect()
    first.publish(queue_name, "1")
    first.publish(queue_name, "2")
    first.subscribe(queue_name, ack="client")
    frame = first.next()
    if first.kind == "1.1":
        first.connection.ack(frame.headers["message-id"], frame.headers["subscription"])
    else:
        first.connection.ack(frame.headers["ack"])
    if ending == "disconnect":
        first.connection.disconnect()
    else:
        plain = first.connection.transport.socket
        getattr(plain, "sock", plain).shutdown(socket.SHUT_RDWR)
        first.next("disconnected")
    second = connect()
    second.subscribe(queue_name, ack="client")
    assert second.texts(1) == ["2"]


def test_a_backlog_read_by_many_short_sessions(peer, queue_name):
    """APLO-198, smaller: every session takes what comes, settles a part and leaves; nothing is skipped."""
    producer = peer()
    rounds, share = 30, 20
    send(producer, queue_name, *range(rounds * share))
    producer.publish(queue_name, "END")
    for n in range(rounds):
        one = peer()
        one.subscribe(queue_name, ack="client")
        frames = [one.next() for _ in range(share)]
        assert [f.body for f in frames] == [str(n * share + k) for k in range(share)]
        one.ack(frames[-1])
        one.disconnect()
        one.next("disconnected")
    last = peer()
    last.subscribe(queue_name, ack="client")
    assert last.texts(1) == ["END"]


# Refusals and dead letters: `nacker/**` allows one redelivery.


def refuse_twice(consumer, body):
    for _ in range(2):
        frame = consumer.next()
        assert frame.body == body
        consumer.nack(frame)


def test_refusals_move_a_message_to_the_dead_letters(connect):
    name = unique("a")
    consumer, dead = connect(), connect()
    consumer.publish(f"/queue/nacker.{name}", "refused")
    consumer.subscribe(f"/queue/nacker.{name}", ack="client")
    dead.subscribe(f"/queue/dlq.nacker.{name}")
    refuse_twice(consumer, "refused")
    assert dead.texts(1) == ["refused"]


def test_refusals_without_a_consumer_of_the_dead_letters(connect):
    name = unique("c")
    consumer, dead = connect(), connect()
    consumer.publish(f"/queue/nacker.{name}", "refused")
    consumer.subscribe(f"/queue/nacker.{name}", ack="client")
    refuse_twice(consumer, "refused")
    consumer.publish(f"/queue/nacker.{name}", "next")
    assert consumer.texts(1) == ["next"], "the refused one is out of the way"
    dead.subscribe(f"/queue/dlq.nacker.{name}")
    assert dead.texts(1) == ["refused"]


# Flow control


def test_flow_control_by_credit(connect, queue_name):
    consumer = connect()
    consumer.subscribe(queue_name, ack="client", headers={"credit": "1,0"})
    body = "x" * 10_240
    for n in range(10):
        producer = connect()
        # Producers at different shards are in no order unless each waits until its message is in the queue.
        producer.publish(queue_name, body + str(n))
        producer.disconnect()
    for n in range(10):
        frame = consumer.next()
        assert frame.body == body + str(n)
        assert consumer.listener.of["message"].empty(), "one at a time"
        consumer.ack(frame)


def test_job_queues_with_small_credit(connect, queue_name):
    """APLO-206: a worker that has settled its job gets the next one."""
    one = connect()
    send(one, queue_name, 1, 2, 3, 4)
    first = one.subscribe(queue_name, ack="client", headers={"credit": "1,0"})
    ack1 = one.next()
    second = one.subscribe(queue_name, ack="client", headers={"credit": "1,0"})
    ack2 = one.next()
    assert [(f.headers["subscription"], f.body) for f in (ack1, ack2)] == [(first, "1"), (second, "2")]
    for settled, subscription, body in ((ack1, first, "3"), (ack2, second, "4")):
        one.ack(settled)
        frame = one.next()
        assert (frame.headers["subscription"], frame.body) == (subscription, body)


# WebSocket beside TCP


@pytest.mark.parametrize("body", ["Hello", "x" * 16_385, "你好"], ids=["plain", "large", "utf-8"])
def test_texts_from_tcp_to_websocket_and_back(peer, queue_name, body):
    page, client = peer("websocket"), peer("1.1")
    page.subscribe(queue_name)
    client.publish(queue_name, body)
    assert page.texts(1) == [body]
    client.subscribe(queue_name + ".back")
    page.publish(queue_name + ".back", body)
    assert client.texts(1) == [body]


def test_a_bunch_of_messages_from_tcp_to_websocket(peer, queue_name):
    page, client = peer("websocket"), peer("1.1")
    page.subscribe(queue_name)
    send(client, queue_name, *(f"messages #{n}" for n in range(2000)))
    assert page.texts(2000) == [f"messages #{n}" for n in range(2000)]
