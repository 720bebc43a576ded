"""The numbers that messages have in their queues and topics, with stomp.py: said by `include-seq`, begun with by `from-seq`."""

import pytest
from conftest import KINDS

SEQ = {"include-seq": "seq"}
BROWSE = {"browser": "true"}


def fill(producer, destination, count, first=0):
    for n in range(first, first + count):
        producer.publish(destination, str(n), headers={"seq": "of its publisher"})


def numbered(frames):
    return [(int(frame.headers["seq"]), frame.body) for frame in frames]


def shown(browser):
    """What a browser sees up to its end."""
    frames = []
    while (frame := browser.next()).headers.get("browser") != "end":
        frames.append(frame)
    return numbered(frames)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_rise_and_stay_with_their_messages(peer, kind, queue_name):
    producer, browser, consumer = peer(kind), peer(kind), peer(kind)
    fill(producer, queue_name, 20)
    browser.subscribe(queue_name, headers=BROWSE | SEQ)
    seen = shown(browser)
    assert [body for _, body in seen] == [str(n) for n in range(20)]
    numbers = [number for number, _ in seen]
    assert numbers == list(range(numbers[0], numbers[0] + 20))
    consumer.subscribe(queue_name, headers=SEQ)
    assert numbered(consumer.next() for _ in range(20)) == seen


def test_who_goes_on_behind_the_last_number_misses_and_repeats_nothing(peer, queue_name):
    producer, number, seen = peer(), 0, []
    for turn in range(5):
        fill(producer, queue_name, 4, first=4 * turn)
        follower = peer()
        headers = BROWSE | SEQ | {"browser-end": "false", "from-seq": str(number)}
        id = follower.subscribe(queue_name, headers=headers)
        some = numbered(follower.next() for _ in range(4))
        follower.unsubscribe(id)
        seen += some
        number = some[-1][0] + 1
    assert [body for _, body in seen] == [str(n) for n in range(20)]


def test_a_consumer_leaves_what_lies_before_it_to_others(peer, queue_name):
    producer, browser, late, rest, news = (peer() for _ in range(5))
    fill(producer, queue_name, 10)
    browser.subscribe(queue_name, headers=BROWSE | SEQ)
    seen = shown(browser)
    news.subscribe(queue_name, headers=SEQ | {"from-seq": "-1"})
    late.subscribe(queue_name, headers=SEQ | {"from-seq": str(seen[6][0])})
    assert numbered(late.next() for _ in range(4)) == seen[6:]
    late.disconnect()
    producer.publish(queue_name, "new")
    assert news.next().body == "new"
    rest.subscribe(queue_name, headers=SEQ | {"from-seq": "0"})
    assert numbered(rest.next() for _ in range(6)) == seen[:6]


def test_of_a_topic_it_is_the_version(peer, topic):
    producer, one, other = peer(), peer(), peer()
    one.subscribe(topic, headers=SEQ)
    other.subscribe(topic, headers={"from-seq": "-1"})
    fill(producer, topic, 3)
    seen = numbered(one.next() for _ in range(3))
    assert [number - seen[0][0] for number, _ in seen] == [0, 1, 2]
    assert other.texts(3) == ["0", "1", "2"]
    assert other.listener.of["message"].empty()


@pytest.mark.parametrize(
    ("destination", "headers"),
    [
        ("/queue/numbered.*", {"from-seq": "3"}),
        ("/topic/numbered.a,/topic/numbered.b", {"from-seq": "-1"}),
        ("/queue/numbered.a", {"from-seq": "-2"}),
        ("/queue/numbered.a", {"from-seq": "first"}),
        ("/queue/numbered.a", {"include-seq": "content-length"}),
        ("/queue/numbered.a", {"include-seq": "two words"}),
    ],
)
def test_what_makes_no_sense_is_refused(peer, destination, headers):
    one = peer()
    one.connection.subscribe(destination, id="s", headers=headers)
    assert one.next("error").headers["code"] == "bad-header"
