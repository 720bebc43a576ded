"""Browsers with stomp.py: a queue is shown and stays as it is, once or as it goes on.

What must not come is shown by something sent after it that does come, or by the end of the browser.
"""

import pytest
from conftest import KINDS

NEWER = KINDS[1:]
BROWSE = {"browser": "true"}
FOLLOW = {"browser": "true", "browser-end": "false"}


def fill(producer, queue_name, count, first=0, **headers):
    for n in range(first, first + count - 1):
        producer.connection.send(queue_name, str(n), headers=headers)
    producer.publish(queue_name, str(first + count - 1), headers=headers)


def shown(browser):
    """The bodies up to the end."""
    bodies = []
    while (frame := browser.next()).headers.get("browser") != "end":
        bodies.append(frame.body)
    assert frame.body == ""
    return bodies


def numbers(count, first=0):
    return [str(n) for n in range(first, first + count)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_sees_the_queue_and_consumers_have_it_all(peer, kind, queue_name):
    producer, browser, consumer = peer(kind), peer(kind), peer(kind)
    fill(producer, queue_name, 100)
    browser.subscribe(queue_name, headers=BROWSE)
    assert shown(browser) == numbers(100)
    # Another one sees the same, for nothing is gone.
    other = peer(kind)
    other.subscribe(queue_name, headers=BROWSE)
    assert shown(other) == numbers(100)
    consumer.subscribe(queue_name)
    assert consumer.texts(100) == numbers(100)


@pytest.mark.parametrize("kind", NEWER)
def test_one_that_follows_sees_what_consumers_take(peer, kind, queue_name):
    producer, browser, consumer = peer(kind), peer(kind), peer(kind)
    fill(producer, queue_name, 10)
    id = browser.subscribe(queue_name, headers=FOLLOW)
    assert browser.texts(10) == numbers(10)
    consumer.subscribe(queue_name)
    fill(producer, queue_name, 10, first=10)
    assert browser.texts(10) == numbers(10, first=10)
    assert consumer.texts(20) == numbers(20)
    browser.unsubscribe(id)
    fill(producer, queue_name, 1, first=20)
    browser.subscribe(queue_name, headers=BROWSE)
    assert shown(browser) == []


@pytest.mark.parametrize("mode", ["client", "client-individual"])
def test_what_a_browser_acknowledges_stays(peer, queue_name, mode):
    producer, browser, consumer = peer(), peer(), peer()
    fill(producer, queue_name, 5)
    browser.subscribe(queue_name, ack=mode, headers=BROWSE | {"credit": "1,0"})
    for n in range(5):
        frame = browser.next()
        assert frame.body == str(n)
        (browser.ack if n % 2 else browser.nack)(frame)
    end = browser.next()
    assert end.headers["browser"] == "end"
    # It can be acknowledged like a message, since clients do that.
    browser.ack(end)
    consumer.subscribe(queue_name)
    frames = [consumer.next() for _ in range(5)]
    assert [frame.body for frame in frames] == numbers(5)
    assert all("redelivered" not in frame.headers for frame in frames)


def test_a_selector_chooses_what_is_shown(peer, queue_name):
    producer, browser = peer(), peer()
    for n in range(20):
        producer.publish(queue_name, str(n), headers={"n": str(n)})
    browser.subscribe(queue_name, headers=BROWSE | {"selector": "n >= 7 AND n < 11"})
    assert shown(browser) == numbers(4, first=7)


def test_a_queue_that_is_not_there_has_an_end_at_once_and_is_not_made(peer, queue_name):
    browser, producer = peer(), peer()
    browser.subscribe(queue_name, headers=BROWSE)
    assert shown(browser) == []
    browser.subscribe(queue_name, headers=FOLLOW)
    fill(producer, queue_name, 3)
    assert browser.texts(3) == numbers(3)


def test_a_queue_of_a_durable_subscription_can_be_browsed(peer, topic):
    subscriber, producer, browser = peer(), peer(), peer()
    name = "browsed." + topic.rpartition("/")[2]
    id = subscriber.subscribe(topic, id=name, ack="client", headers={"persistent": "true", "credit": "1,0"})
    producer.publish(topic, "one")
    producer.publish(topic, "two")
    assert subscriber.next().body == "one"
    browser.subscribe(f"/dsub/{name}", headers=BROWSE)
    assert shown(browser) == ["two"]
    subscriber.receipt(subscriber.connection.unsubscribe, id=id, headers={"persistent": "true"})


@pytest.mark.parametrize(
    ("destination", "headers"),
    [
        ("/topic/browsed", {}),
        ("/queue/browsed.*", {}),
        ("/queue/browsed.a,/queue/browsed.b", {}),
        ("/queue/browsed.a", {"exclusive": "true"}),
        ("/topic/browsed", {"persistent": "true"}),
        ("/queue/browsed.a", {"browser": "maybe"}),
        ("/queue/browsed.a", {"browser-end": "maybe"}),
    ],
)
def test_what_makes_no_sense_is_refused(peer, destination, headers):
    one = peer()
    one.connection.subscribe(destination, id="s", headers=BROWSE | headers)
    assert one.next("error").headers["code"] == "bad-header"
