"""Topics of a real server."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timezone
from random import Random
from typing import Any

import pytest
from harness import asynchronous, every, fresh, refused, take, until
from server import Line

from tiderace import (
    Client,
    Conversation,
    FromVersion,
    Gap,
    Joined,
    Last,
    Left,
    Recovered,
    Since,
    TideraceError,
    TopicEvent,
    Update,
    connect,
)


def client(url: str | list[str], **options: Any) -> Client:
    return connect(url, **{"reconnect_base": 0.02, "reconnect_max": 0.2, **options})


@asynchronous
async def test_the_current_value_first_then_what_is_published(url: str) -> None:
    async with client(url) as publisher, client(url) as subscriber:
        path = fresh("value")
        await publisher.topic(path).publish({"n": 1}, retain=True)
        assert await subscriber.topic(path).value() == {"n": 1}
        assert await subscriber.topic(fresh("none")).value() is None
        async with subscriber.topic(path).subscribe() as subscription:
            await publisher.topic(path).publish({"n": 2}, retain=True)
            assert [update.value for update in await take(2, subscription)] == [{"n": 1}, {"n": 2}]
            await publisher.topic(path).remove_value()
            [gone] = await take(1, subscription)
            assert gone.removed and gone.value is None
        assert await subscriber.topic(path).value() is None


@asynchronous
async def test_all_kinds_of_values_with_properties(url: str) -> None:
    async with client(url) as publisher, client(url) as subscriber:
        topic = publisher.topic(fresh("kinds"))
        async with subscriber.topic(topic.path).subscribe() as subscription:
            values = [1, "ö", None, [True], {"a": {"b": []}}, bytes(range(256)), "", b""]
            for value in values:
                await topic.publish(value, properties={"a:b": "c\nd"})
            await topic.publish("plain", type="text/plain")
            await topic.publish({"x": 1}, type="application/vnd.x+json")
            found = await take(len(values) + 2, subscription)
            assert [update.value for update in found] == [*values, "plain", {"x": 1}]
            assert found[0].properties == {"a:b": "c\nd"} and found[-2].properties == {}
            kinds = [update.type for update in found[-5:]]
            octets = "application/octet-stream"
            assert kinds == [octets, "application/json", octets, "text/plain", "application/vnd.x+json"]


@asynchronous
async def test_patterns_sets_expressions_and_selectors(url: str) -> None:
    async with client(url) as publisher, client(url) as subscriber:
        folder = fresh("many")
        selectors = {
            f"{folder}/*": set(range(100)),
            f"{folder}/1*": {1, *range(10, 20)},
            f"?{folder}/[0-4][05]": {n for n in range(10, 50) if n % 5 == 0},
            f"[{folder}/7, {folder}/8*, ?{folder}/9]": {7, 8, 9, *range(80, 90)},
        }
        subscriptions = [subscriber.topic(path).subscribe() for path in selectors]
        red = subscriber.topic(f"{folder}/**").subscribe(selector="colour = 'red'")
        for subscription in (*subscriptions, red):
            await subscription.ready()
        await asyncio.gather(
            *(
                publisher.topic(f"{folder}/{n}").publish(n, properties={"colour": "blue" if n % 25 else "red"})
                for n in range(100)
            )
        )
        for subscription, wanted in zip(subscriptions, selectors.values(), strict=True):
            found = await take(len(wanted), subscription)
            assert {update.value for update in found} == wanted
            assert all(update.topic == f"{folder}/{update.value}" for update in found)
        assert sorted(update.value for update in await take(4, red)) == [0, 25, 50, 75]
        assert subscriber.counts.gaps == 0


@pytest.mark.parametrize("codec", ["tiderace", "vcdiff"])
@asynchronous
async def test_deltas_are_equal_to_plain_bodies(url: str, codec: str) -> None:
    async with client(url) as publisher, client(url, delta_codecs=[codec]) as subscriber:
        topic = publisher.topic(fresh("deltas"))
        with_deltas = subscriber.topic(topic.path).subscribe()
        plain = subscriber.topic(topic.path).subscribe(deltas=False)
        await with_deltas.ready()
        await plain.ready()
        value: dict[str, Any] = {"text": "x" * 500, "n": 0, "more": ["y" * 40] * 12}
        for n in range(1, 101):
            value["n"] = n * n * n
            value["more"][n % 12] = f"{n:040}"
            value["text"] = value["text"][n % 7 :] + "z" * (n % 9)
            await topic.publish(value)
            [one], [other] = await take(1, with_deltas), await take(1, plain)
            assert one.value == value and one.bytes == other.bytes and one.version == other.version
        counts = subscriber.counts
        assert counts.deltas >= 95 and counts.delta_bytes_saved > 40_000 and counts.gaps == 0, vars(counts)


@asynchronous
async def test_what_is_published_while_the_line_is_down_comes_afterwards(url: str) -> None:
    async with Line(url) as line, client(line.url) as subscriber, client(url) as publisher:
        topic = publisher.topic(fresh("resume"))
        async with subscriber.topic(topic.path).subscribe() as subscription:
            events = subscription.events()
            published = expected = 0
            for _ in range(5):
                for _ in range(20):
                    await topic.publish(published)
                    published += 1
                line.cut(down=True)
                for _ in range(20):
                    await topic.publish(published)
                    published += 1
                line.down = False
                recovered = False
                while expected < published or not recovered:
                    event = await anext(events)
                    if isinstance(event, Recovered):
                        assert event.complete
                        recovered = True
                    else:
                        assert isinstance(event, Update) and event.value == expected, event
                        expected += 1
            assert (subscriber.counts.gaps, subscriber.counts.connections) == (0, 6)


@asynchronous
async def test_whenever_the_line_is_cut_every_topic_of_a_pattern_comes_whole_and_in_order(url: str) -> None:
    random = Random(20_261_127)
    async with Line(url) as line, client(line.url) as subscriber, client(url) as publisher:
        folder, topics, many = fresh("chaos"), 8, 150
        value = {"text": "x" * 300, "n": 0}
        done = asyncio.Event()

        async def publish(name: int) -> None:
            n = 0
            while n < many or subscriber.counts.connections < 6:
                await publisher.topic(f"{folder}/{name}").publish({**value, "n": n})
                n += 1
            await publisher.topic(f"{folder}/{name}").publish("end")

        async def cut() -> None:
            while not done.is_set():
                await asyncio.sleep(random.random() * 0.05)
                line.cut()

        async with subscriber.topic(f"{folder}/*").subscribe() as subscription:
            work = [asyncio.ensure_future(publish(name)) for name in range(topics)]
            cutting = asyncio.ensure_future(cut())
            expected = dict.fromkeys((f"{folder}/{name}" for name in range(topics)), 0)
            while expected:
                update = await anext(subscription)
                if update.value == "end":
                    assert expected.pop(update.topic) >= many
                else:
                    assert update.value == {**value, "n": expected[update.topic]}
                    expected[update.topic] += 1
            done.set()
            await asyncio.gather(*work, cutting)
            counts = subscriber.counts
            assert counts.gaps == 0 and counts.deltas > 0, vars(counts)


@asynchronous
async def test_a_line_that_was_silent_is_noticed_and_replaced(url: str) -> None:
    async with Line(url) as line, client(line.url, pong_timeout=0.2, connect_timeout=1.0) as subscriber:
        path = fresh("silence")
        async with subscriber.topic(path).subscribe() as subscription, client(url) as publisher:
            line.silence()
            await publisher.topic(path).publish(1)
            # The server advises to ask every so often; here the application asks, and its question is not answered.
            session = subscriber._core.session
            link = subscriber._core.connector._link
            assert session is not None and link is not None and link.liveness is not None
            session.ping(lambda: None)
            link.liveness.asked(asyncio.get_running_loop().time())
            assert link.connection is not None
            link.connection.welcomed()
            assert [update.value for update in await take(1, subscription)] == [1]
            assert subscriber.counts.connections == 2


@asynchronous
async def test_replays_begin_where_they_are_asked_to(url: str) -> None:
    async with client(url) as one:
        topic = one.topic(fresh("replay"))
        await topic.create({"history": 100, "type": "json"})
        versions = [await topic.set(n) for n in range(10)]
        events = await every(topic.history())
        assert [event.value for event in events] == list(range(10))

        async def replayed(replay: Last | FromVersion | Since, many: int) -> list[Any]:
            async with one.topic(topic.path).subscribe(replay=replay) as subscription:
                return [update.value for update in await take(many, subscription)]

        begin = datetime.fromtimestamp(events[0].time / 1000, timezone.utc)
        assert len(await every(topic.history(since=begin))) == 10
        assert await replayed(Last(3), 3) == [7, 8, 9]
        assert await replayed(FromVersion(versions[4]), 6) == [4, 5, 6, 7, 8, 9]
        assert await replayed(Since(events[0].time / 1000), 10) == list(range(10))
        moment = datetime.fromtimestamp(events[-1].time / 1000, timezone.utc)
        assert (await replayed(Since(moment), 1))[-1] in range(10)


@asynchronous
async def test_an_interval_lets_the_newest_value_through(url: str) -> None:
    async with client(url) as publisher, client(url) as watcher:
        topic = publisher.topic(fresh("interval"))
        await topic.create({"type": "json", "conflation": "latest"}, 0)
        async with watcher.topic(topic.path).subscribe(interval=0.3) as subscription:
            for n in range(1, 51):
                await topic.set(n)
            many = 0
            async for update in subscription:
                many += 1
                if update.value == 50:
                    break
            assert many < 40
            assert watcher.counts.gaps == 0


@asynchronous
async def test_notices_say_which_topics_come_and_go(url: str) -> None:
    async with client(url) as publisher, client(url) as watcher:
        folder = fresh("notices")
        await publisher.topic(f"{folder}/a").create({"type": "json"}, 1)
        async with watcher.topic(f"{folder}/*").subscribe(notices=True) as subscription:
            await publisher.topic(f"{folder}/b").create({"type": "string"})
            await publisher.topics.remove(f"{folder}/a")
            seen: list[TopicEvent] = []
            async for event in subscription.events():
                seen.append(event)
                if isinstance(event, Left):
                    break
            joined = [(event.topic, event.spec["type"]) for event in seen if isinstance(event, Joined)]
            assert joined == [(f"{folder}/a", "json"), (f"{folder}/b", "string")]
            left = seen[-1]
            assert isinstance(left, Left) and (left.topic, left.reason) == (f"{folder}/a", "removed")


@asynchronous
async def test_a_message_expires_while_nobody_takes_it(url: str) -> None:
    async with client(url) as one:
        topic = one.topic(fresh("expires"))
        await topic.publish("short", retain=True, expires=0.05)
        await topic.publish("long", retain=True, expires=3600)
        assert await topic.value() == "long"
        await topic.publish("short", retain=True, expires=0.05)

        async def gone() -> bool:
            return await topic.value() is None

        while not await gone():
            await asyncio.sleep(0.02)


@asynchronous
async def test_many_messages_at_once_arrive_in_order(url: str) -> None:
    async with client(url) as publisher, client(url) as subscriber:
        topic = publisher.topic(fresh("order"))
        async with subscriber.topic(topic.path).subscribe() as subscription:
            publishing = asyncio.gather(*(topic.publish(n) for n in range(5000)))
            assert [update.value for update in await take(5000, subscription)] == list(range(5000))
            await publishing
            assert subscriber.counts.gaps == 0


@asynchronous
async def test_large_values(url: str) -> None:
    async with client(url) as publisher, client(url) as subscriber:
        topic = publisher.topic(fresh("large"))
        async with subscriber.topic(topic.path).subscribe() as subscription:
            value = bytes(n * 7 % 251 for n in range(500_000))
            await topic.publish(value)
            [update] = await take(1, subscription)
            assert update.value == value
        with contextlib.suppress(TideraceError):
            # Larger than the server takes: refused, or the connection is closed with a code.
            await topic.publish(bytes(17 << 20))
            raise AssertionError("it was taken")


@asynchronous
async def test_a_slow_consumer_holds_little_is_told_what_it_missed_and_gets_the_newest(url: str) -> None:
    window = 64 * 1024
    async with client(url) as publisher, client(url, window=window) as subscriber:
        topic = publisher.topic(fresh("slow"))
        await topic.create({"type": "any", "slow_consumer": "conflate", "conflation": "latest"}, "0" * 1000)
        async with subscriber.topic(topic.path).subscribe(deltas=False) as subscription:
            for n in range(2000):
                await topic.publish(f"{n:010000}", confirm=n % 100 == 0)
            await topic.publish("last")
            # Twenty megabytes were published and nobody read: no more than the window has come.
            [session] = [row for row in await publisher.topics.sessions() if row["conflated"]]
            assert session["backlog_bytes"] > 0
            assert subscriber.counts.bytes_received < 2 * window
            assert subscription._inbox.size < 2 * window
            versions: list[int] = []
            missed = 0
            async for event in subscription.events():
                if isinstance(event, Gap):
                    assert event.reason == "skipped" and event.missed is not None
                    missed += event.missed
                elif isinstance(event, Update):
                    versions.append(event.version)
                    if event.value == "last":
                        break
            assert missed > 1000
            assert versions[-1] - versions[0] == len(versions) - 1 + missed
        assert subscriber._core._credit._held == 0


@asynchronous
async def test_a_subscription_that_is_refused_says_why(url: str) -> None:
    async with client(url, on_error=lambda _: None) as one:
        error = await refused(one.topic("?[a").subscribe().ready(), "bad-destination")
        assert error.code > 0 and error.sentence
        with pytest.raises(TideraceError, match="bad-"):
            async with one.topic("a").subscribe(selector="no condition ="):
                pass
        assert one.state.status == "connected"


@asynchronous
async def test_a_refusal_that_nobody_waits_for_is_told(url: str) -> None:
    refusals: asyncio.Queue[TideraceError] = asyncio.Queue()
    async with client(url, on_error=refusals.put_nowait) as one:
        topic = one.topic(fresh("number"))
        await topic.create({"type": "int64"})
        await topic.publish("no number", confirm=False)
        # The topic's home says it, which may be another shard than the session's.
        refusal = await refusals.get()
        error = await refused(topic.publish("no number"), refusal.name)
        assert (refusal.code, refusal.sentence) == (error.code, error.sentence)


@asynchronous
async def test_a_client_that_is_closed_leaves_no_task_behind(url: str) -> None:
    begun: asyncio.Queue[int] = asyncio.Queue()

    async def forever(call: Conversation) -> None:
        begun.put_nowait(1)
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    one = client(url)
    async with one:
        path = fresh("left")
        subscription, consumer = one.topic(path).subscribe(), one.queue(path).receive()
        for part in (subscription, consumer, one.serve(path, forever)):
            await part.ready()
        calling = asyncio.ensure_future(one.call(path))
        await begun.get()
        one.cut()
        await refused(calling, "connection-lost")
        await one.connected()
        calling = asyncio.ensure_future(one.call(path))
        await begun.get()
    with pytest.raises(TideraceError):
        await calling
    await one.close()
    assert asyncio.all_tasks() == before


@asynchronous
async def test_two_clients_close_in_good_order(url: str) -> None:
    async with client(url) as one:
        subscription = one.topic(fresh("a")).subscribe()
        await subscription.ready()
        waiting = asyncio.ensure_future(every(subscription))
        await until(lambda: not waiting.done())
    await refused(waiting, "closed")
    await refused(one.topic("a").publish(1), "closed")
    assert one.state.status == "closed"
