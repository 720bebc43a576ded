"""Destinations: wildcards, separators, composites, temporary ones, selectors, retained, expiry."""

import time

import pytest

from wire import unique


def test_a_topic_copies_to_every_subscriber(clients, topic):
    producer, *consumers = clients(4)
    for consumer in consumers:
        consumer.subscribe(topic)
    producer.publish(topic, "news")
    assert [c.message().text for c in consumers] == ["news"] * 3


def test_a_topic_keeps_nothing_for_late_comers(clients, topic):
    producer, consumer = clients(2)
    producer.publish(topic, "early")
    consumer.subscribe(topic)
    producer.publish(topic, "late")
    assert consumer.message().text == "late"


def test_topics_and_queues_of_one_name_are_different_places(client):
    name = unique()
    client.subscribe(f"/topic/{name}", id="t")
    client.subscribe(f"/queue/{name}", id="q")
    client.publish(f"/queue/{name}", "for the queue")
    client.publish(f"/topic/{name}", "for the topic")
    assert {m["subscription"]: m.text for m in client.messages(2)} == {"q": "for the queue", "t": "for the topic"}


@pytest.mark.parametrize(
    "pattern, matching, other",
    [
        ("*", ["a", "b"], ["a.b"]),
        ("*.b", ["a.b", "c.b"], ["a.c", "a", "a.b.c"]),
        ("a.*.c", ["a.b.c", "a.x.c"], ["a.c", "a.b.b.c"]),
        ("a.**", ["a.b", "a.b.c", "a.b.c.d"], ["b", "b.a"]),
        ("**", ["a", "a.b", "a.b.c"], []),
        ("a.b*", ["a.b", "a.bcd"], ["a.c", "a.b.c"]),
    ],
)
def test_wildcards_in_subscriptions(clients, pattern, matching, other):
    root = unique("w")
    producer, consumer = clients(2)
    consumer.subscribe(f"/topic/{root}.{pattern}", id="pattern")
    consumer.subscribe(f"/topic/{root}-fence", id="fence")
    for name in other + matching:
        producer.publish(f"/topic/{root}.{name}", name)
    assert sorted(m.text for m in consumer.messages(len(matching))) == sorted(matching)
    producer.publish(f"/topic/{root}-fence", "end")
    assert consumer.message()["subscription"] == "fence"


@pytest.mark.parametrize(
    "subscribed, sent", [("a.b.c", "a/b/c"), ("a/b/c", "a.b.c"), ("a/*/c", "a.b.c"), ("a.**", "a/b/c")]
)
def test_dot_and_slash_separate_alike(clients, subscribed, sent):
    root = unique("sep")
    producer, consumer = clients(2)
    consumer.subscribe(f"/topic/{root}.{subscribed}")
    producer.publish(f"/topic/{root}/{sent}", "x")
    assert consumer.message().text == "x"


@pytest.mark.parametrize("end", [".", "/", "./."])
def test_separators_at_the_end_are_dropped(clients, queue, end):
    producer, consumer = clients(2)
    consumer.subscribe(queue + end)
    producer.publish(queue, "1")
    producer.publish(queue + end, "2")
    assert [m.text for m in consumer.messages(2)] == ["1", "2"]
    consumer.publish(f"{queue}{end},{queue}", "once")
    assert consumer.message().text == "once"
    consumer.publish(queue, "last")
    assert consumer.message().text == "last"


def test_a_message_names_its_own_destination_under_a_wildcard(clients):
    root = unique("own")
    producer, consumer = clients(2)
    consumer.subscribe(f"/topic/{root}.*")
    producer.publish(f"/topic/{root}.a", "x")
    assert consumer.message()["destination"] == f"/topic/{root}.a"


def test_overlapping_subscriptions_each_get_their_copy(client):
    root = unique("overlap")
    client.subscribe(f"/topic/{root}.*", id="star")
    client.subscribe(f"/topic/{root}.**", id="rest")
    client.subscribe(f"/topic/{root}.a", id="exact")
    client.publish(f"/topic/{root}.a", "x")
    assert {m["subscription"] for m in client.messages(3)} == {"star", "rest", "exact"}


def test_a_composite_send_reaches_each_part(clients, topic, queue):
    producer, consumer = clients(2)
    consumer.subscribe(topic, id="t")
    consumer.subscribe(queue, id="q")
    producer.publish(f"{topic},{queue}", "both")
    assert sorted(m["subscription"] for m in consumer.messages(2)) == ["q", "t"]


def test_a_composite_subscription_hears_each_part(clients, topic, queue):
    producer, consumer = clients(2)
    consumer.subscribe(f"{topic},{queue}", id="both")
    producer.publish(queue, "from queue")
    producer.publish(topic, "from topic")
    messages = consumer.messages(2)
    assert {m.text for m in messages} == {"from queue", "from topic"}
    assert {m["subscription"] for m in messages} == {"both"}


def test_a_composite_subscription_acknowledges_and_ends_as_one(clients, topic, queue):
    producer, consumer, second = clients(3)
    id = consumer.subscribe(f"{topic},{queue}", ack="client-individual")
    producer.publish(queue, "1")
    message = consumer.message()
    consumer.ask("ACK", {"id": message["ack"]})
    consumer.ask("UNSUBSCRIBE", {"id": id})
    producer.publish(queue, "2")
    second.subscribe(queue)
    assert second.message().text == "2"


@pytest.mark.parametrize("kind", ["queue", "topic"])
def test_request_and_reply_over_a_temporary_destination(clients, queue, kind):
    requester, responder = clients(2)
    responder.subscribe(queue)
    requester.subscribe(f"/temp-{kind}/answers", id="mine")
    requester.publish(queue, "question", reply_to=f"/temp-{kind}/answers")
    request = responder.message()
    assert request["reply-to"] != f"/temp-{kind}/answers", "rewritten so that the other side can use it"
    responder.publish(request["reply-to"], "answer")
    reply = requester.message()
    assert (reply.text, reply["subscription"]) == ("answer", "mine")


def test_temporary_destinations_of_two_connections_are_apart(clients):
    one, two = clients(2)
    one.subscribe("/temp-queue/box")
    two.subscribe("/temp-queue/box")
    one.publish("/temp-queue/box", "for one")
    two.publish("/temp-queue/box", "for two")
    assert (one.message().text, two.message().text) == ("for one", "for two")


def test_only_its_owner_may_consume_a_temporary_destination(clients, queue):
    owner, stranger = clients(2)
    stranger.subscribe(queue)
    owner.subscribe("/temp-queue/private")
    owner.publish(queue, "here", reply_to="/temp-queue/private")
    address = stranger.message()["reply-to"]
    stranger.send("SUBSCRIBE", {"id": "spy", "destination": address})
    assert stranger.error()["code"] == "not-owner"


@pytest.mark.parametrize(
    "selector, chosen",
    [
        ("colour = 'blue'", "1 3"),
        ("colour <> 'blue'", "2"),
        ("size > 10", "2 3"),
        ("size BETWEEN 5 AND 15", "1 2"),
        ("colour IN ('red', 'green')", "2"),
        ("colour LIKE 'b%'", "1 3"),
        ("colour LIKE '_ed'", "2"),
        ("shape IS NULL", "1 2"),
        ("shape IS NOT NULL", "3"),
        ("colour = 'blue' AND size > 10", "3"),
        ("colour = 'red' OR shape = 'round'", "2 3"),
        ("NOT (colour = 'blue')", "2"),
        ("size * 2 + 1 = 25", "2"),
        ("unit-price >= 2.5", "3"),
    ],
)
def test_selectors_choose(clients, topic, selector, chosen):
    producer, consumer = clients(2)
    consumer.subscribe(topic, selector=selector)
    consumer.subscribe(topic + ".fence")
    producer.publish(topic, "1", colour="blue", size=5, unit_price="1.0")
    producer.publish(topic, "2", colour="red", size=12, unit_price="2.0")
    producer.publish(topic, "3", colour="blue", size=20, shape="round", unit_price="2.50")
    assert [m.text for m in consumer.messages(len(chosen.split()))] == chosen.split()
    producer.publish(topic + ".fence", "end")
    assert consumer.message().text == "end"


def test_a_selector_on_a_queue_leaves_the_others_there(clients, queue):
    producer, picky, other = clients(3)
    picky.subscribe(queue, selector="colour = 'blue'")
    producer.publish(queue, "1", colour="red")
    producer.publish(queue, "2", colour="blue")
    assert picky.message().text == "2"
    other.subscribe(queue)
    assert other.message().text == "1"


def test_retain_set_gives_the_last_value_to_late_comers(clients, topic):
    producer, consumer = clients(2)
    producer.publish(topic, "old", retain="set")
    producer.publish(topic, "new", retain="set", colour="blue")
    producer.publish(topic, "not kept")
    consumer.subscribe(topic)
    message = consumer.message()
    assert (message.text, message["colour"], message["destination"]) == ("new", "blue", topic)


def test_retain_remove_forgets(clients, topic):
    producer, consumer = clients(2)
    producer.publish(topic, "kept", retain="set")
    producer.publish(topic, "", retain="remove")
    consumer.subscribe(topic)
    producer.publish(topic, "live")
    assert consumer.message().text == "live"


def test_retained_values_come_to_wildcard_subscribers(clients):
    root = unique("retained")
    producer, consumer = clients(2)
    for name in ("a", "b.c"):
        producer.publish(f"/topic/{root}.{name}", name, retain="set")
    consumer.subscribe(f"/topic/{root}.**")
    assert {m.text for m in consumer.messages(2)} == {"a", "b.c"}


def test_an_expired_message_is_not_delivered(clients, queue):
    producer, consumer = clients(2)
    past = int(time.time() * 1000) - 60_000
    producer.publish(queue, "stale", expires=past)
    producer.publish(queue, "fresh", expires=past + 3_600_000)
    producer.publish(queue, "lasting", ttl=3_600_000)
    producer.publish(queue, "eternal", expires=0)
    consumer.subscribe(queue)
    assert [m.text for m in consumer.messages(3)] == ["fresh", "lasting", "eternal"]


def test_a_ttl_ends(clients, queue):
    """The message with one millisecond to live is gone once a later clock reading says so."""
    producer, consumer = clients(2)
    producer.publish(queue, "brief", ttl=1)
    born = time.monotonic()
    while time.monotonic() - born < 0.05:
        producer.publish(queue + ".clock", "tick")
    producer.publish(queue, "after")
    consumer.subscribe(queue)
    assert consumer.message().text == "after"
