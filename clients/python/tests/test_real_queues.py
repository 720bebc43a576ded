"""Queues and durable subscriptions of a real server."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Any

from harness import asynchronous, every, fresh, refused, take
from server import Line
from test_real_topics import client


@asynchronous
async def test_a_message_goes_to_one_consumer_and_back_when_it_is_rejected(url: str) -> None:
    async with client(url) as sender, client(url) as worker:
        queue = sender.queue(fresh("queue"))
        rows = []
        async with worker.queue(queue.path).receive() as consumer:
            for n in (1, 2, 3):
                await queue.send(n)
            async for message in consumer:
                rows.append((message.value, message.redeliveries))
                if message.value == 2 and not message.redeliveries:
                    message.reject()
                if len(rows) == 4:
                    message.accept()
                    break
        assert sorted(rows) == [(1, 0), (2, 0), (2, 1), (3, 0)]
        [row] = await every(sender.queues.list(queue.path))
        assert row["messages"] == 0


@asynchronous
async def test_what_is_not_settled_when_the_connection_is_lost_is_delivered_again(url: str) -> None:
    async with Line(url) as line, client(line.url) as worker, client(url) as sender:
        queue = sender.queue(fresh("lost"))
        for n in range(10):
            await queue.send(n)
        async with worker.queue(queue.path).receive(prefetch=3, auto_accept=False) as consumer:
            taken = await take(3, consumer)
            taken[0].accept()
            await sender.topics.session()
            while (await sender.queues.show(queue.path))["messages"] > 6:
                await asyncio.sleep(0.01)
            line.cut()
            while worker.counts.connections < 2:
                await asyncio.sleep(0.01)
            # What was not settled is too late now, and comes again.
            taken[1].accept()
            for n in range(1, 10):
                [message] = await take(1, consumer)
                assert message.value == n
                message.accept()
        assert (await sender.queues.show(queue.path))["messages"] == 0


@asynchronous
async def test_leaving_a_loop_gives_the_present_one_back_and_others_come_as_new(url: str) -> None:
    async with client(url) as sender:
        queue = sender.queue(fresh("unread"))
        for n in range(30):
            await queue.send(n)
        for round_ in range(10):
            async with client(url) as worker, worker.queue(queue.path).receive(prefetch=100) as consumer:
                first, second = await take(2, consumer)
                assert (first.value, second.value) == (round_, round_ + 1)
        async with sender.queue(queue.path).receive(prefetch=100) as consumer:
            rest = await take(20, consumer)
            assert [message.value for message in rest] == list(range(10, 30))
            assert [message.redeliveries for message in rest[1:]] == [0] * 19


@asynchronous
async def test_several_tasks_share_a_consumer_that_settles_by_hand(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("shared"))
        await asyncio.gather(*(queue.send(n) for n in range(200)))
        done: list[int] = []

        async with one.queue(queue.path).receive(auto_accept=False, prefetch=10) as consumer:

            async def work() -> None:
                async for message in consumer:
                    await asyncio.sleep(0)
                    done.append(message.value)
                    message.accept()
                    if len(done) == 200:
                        await consumer.stop()

            await asyncio.gather(*(work() for _ in range(5)))
        assert sorted(done) == list(range(200))
        assert (await one.queues.show(queue.path))["messages"] == 0


@asynchronous
async def test_prefetch_bounds_what_is_under_way(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("prefetch"))
        for n in range(50):
            await queue.send(n)
        async with one.queue(queue.path).receive(prefetch=7):
            assert (await one.queues.show(queue.path))["in_flight"] == 7


@asynchronous
async def test_an_exclusive_consumer_has_the_queue_for_itself(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("exclusive"))
        async with queue.receive(exclusive=True) as first, queue.receive() as second:
            for n in range(10):
                await queue.send(n)
            assert [message.value for message in await take(10, first)] == list(range(10))
            assert not len(second._inbox)


@asynchronous
async def test_a_selector_chooses_messages(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("chosen"))
        for n in range(6):
            await queue.send(n, properties={"odd": str(n % 2)})
        async with queue.receive(selector="odd = '1'") as consumer:
            assert [message.value for message in await take(3, consumer)] == [1, 3, 5]


@asynchronous
async def test_a_browser_sees_a_queue_to_its_end_or_as_it_goes_on_and_takes_nothing(url: str) -> None:
    async with client(url) as sender, client(url) as watcher:
        queue = sender.queue(fresh("browsed"))
        for n in range(50):
            await queue.send(n, properties={"odd": str(n % 2)})
        browsed = watcher.queue(queue.path)
        assert [message.value for message in await every(browsed.browse())] == list(range(50))
        odd = browsed.browse(selector="odd = '1'", prefetch=3)
        assert [message.value for message in await every(odd)] == list(range(1, 50, 2))
        async with browsed.browse(follow=True, start=0) as following:
            await queue.send(50)
            assert [message.value for message in await take(1, following)] == [50]
        async with queue.receive(prefetch=100) as consumer:
            assert [message.value for message in await take(51, consumer)] == list(range(51))


@asynchronous
async def test_messages_are_delayed_have_groups_and_priorities(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("delayed"))
        # For an hour, so that they wait however long a busy machine takes for what comes behind them.
        await queue.send("in an hour", delay=3600, group="g")
        await queue.send("at that time", deliver_at=datetime.now(timezone.utc) + timedelta(hours=1))
        await queue.send("now", priority=9)
        assert (await one.queues.show(queue.path))["delayed"] == 2
        async with queue.receive() as consumer:
            [now] = await take(1, consumer)
            assert (now.value, now.properties["priority"]) == ("now", "9")
            began = time.time()
            await queue.send("late", delay=0.3, group="g")
            await queue.send("later", deliver_at=datetime.now(timezone.utc) + timedelta(seconds=0.5))
            [late] = await take(1, consumer)
            waited = [time.time() - began]
            [later] = await take(1, consumer)
            waited.append(time.time() - began)
            assert (late.value, late.properties["message_group"], later.value) == ("late", "g", "later")
            # By the server's clock of the wall, which says milliseconds.
            assert waited[0] >= 0.29 and waited[1] >= 0.49, waited
        await refused(queue.send(1, delay=1e12), "bad-schedule")
        await refused(queue.send(1, group=""), "bad-group")
        await refused(queue.send(1, priority=10), "bad-priority")


@asynchronous
async def test_a_message_expires_in_its_queue(url: str) -> None:
    async with client(url) as one:
        queue = one.queue(fresh("expires"))
        await queue.send("short", expires=0.02)
        await queue.send("long")
        while (await one.queues.show(queue.path))["messages"] > 1:
            await asyncio.sleep(0.02)
        async with queue.receive() as consumer:
            assert (await take(1, consumer))[0].value == "long"


@asynchronous
async def test_queues_are_looked_at_moved_paused_and_purged(url: str) -> None:
    async with client(url) as one:
        path, other = fresh("managed"), fresh("other")
        for n in range(5):
            await one.queue(path).send({"n": n}, properties={"odd": str(n % 2)})
        [listed] = await every(one.queues.list(path))
        assert (listed["messages"], listed["in_flight"], listed["paused"]) == (5, 0, False)
        shown = await one.queues.show(path)
        assert (shown["options"]["dead_letter"], shown["listed"]) == (f"dlq/{path}", [])

        async def values(**options: Any) -> list[int]:
            return [message.value["n"] for message in await every(one.queues.peek(path, **options))]

        assert await values(page=2) == [0, 1, 2, 3, 4]
        assert await values(selector="odd = '1'") == [1, 3]
        assert (await one.queues.move(path, other, selector="odd = '1'")).messages == 2
        assert await values() == [0, 2, 4]
        await one.queues.pause(path)
        assert (await one.queues.show(path))["paused"]
        await one.queues.resume(path)
        [peeked] = (await every(one.queues.peek(other, body_bytes=3)))[:1]
        assert peeked.cut == 7
        assert await one.queues.purge(path) == 3
        assert await one.queues.purge(other) == 2
        await refused(one.queues.purge(fresh("none")), "queue-unknown")


@asynchronous
async def test_dead_letters_go_back_to_where_they_came_from(url: str) -> None:
    async with client(url) as one:
        path = fresh("mail")
        await one.queue(f"dlq/{path}").send("back", properties={"dead-letter-queue": path})
        moved = await one.queues.redrive(f"dlq/{path}")
        assert (moved.messages, moved.kept) == (1, 0)
        async with one.queue(path).receive() as consumer:
            assert (await take(1, consumer))[0].value == "back"


@asynchronous
async def test_a_durable_subscription_gathers_while_nobody_is_there_until_it_is_deleted(url: str) -> None:
    async with client(url) as one:
        folder = fresh("durable")
        durable = one.durable(folder, [f"{folder}/**"], selector="side = 'buy'")
        topic = one.topic(f"{folder}/a")
        async with durable.receive() as consumer:
            await topic.publish(1, properties={"side": "buy"})
            await topic.publish(2)
            [message] = await take(1, consumer)
            assert (message.value, message.topic) == (1, topic.path)
            message.accept()
            await refused(durable.delete(), "subscription-in-use")
        await topic.publish(3, properties={"side": "buy"})
        [listed] = await every(one.queues.list(f"dsub/{folder}"))
        assert (listed["topics"], listed["selector"], listed["messages"]) == (f"{folder}/**", "side = 'buy'", 1)
        # Another client that knows its name consumes from it.
        async with client(url) as other, other.durable(folder).receive() as consumer:
            async for message in consumer:
                assert message.value == 3
                message.accept()
                break
        await durable.delete()
        await refused(durable.delete(), "queue-unknown")
        await refused(one.durable(folder).create(), "bad-operation")
