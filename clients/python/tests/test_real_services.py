"""Services and operations of a real server."""

from __future__ import annotations

import asyncio

import pytest
from harness import asynchronous, every, fresh, refused, take
from test_real_topics import client

from tiderace import Conversation, TideraceError


@asynchronous
async def test_a_service_answers_fails_and_converses(url: str) -> None:
    async def double(call: Conversation) -> int:
        if call.value < 0:
            raise ValueError("negative")
        async for more in call:
            await call.send(more * 10)
        return int(call.value) * 2

    async with client(url) as caller, client(url) as server:
        path = fresh("service")
        await refused(caller.call(path, 1, timeout=5), "no-responder")
        async with server.serve(path, double):
            assert await caller.call(path, 21, properties={"k": "v"}) == 42
            assert (await refused(caller.call(path, -1), "call-failed")).sentence == "negative"
            answers = await asyncio.gather(*(caller.call(path, n) for n in range(30)))
            assert answers == [n * 2 for n in range(30)]
            async with await caller.converse(path, 7) as conversation:
                await conversation.send(1)
                await conversation.send(2)
                await conversation.end()
                assert await every(conversation) == [10, 20, 14]
        await refused(caller.call(path, 1), "no-responder")


@asynchronous
async def test_what_is_said_before_an_end_arrives_before_it_and_an_end_is_no_value(url: str) -> None:
    async def count(call: Conversation) -> None:
        for n in range(5):
            await call.send(n)
        if call.value < 0:
            raise ValueError("enough")

    async with client(url) as caller, client(url) as server:
        path = fresh("ends")
        async with server.serve(path, count):
            for _ in range(10):
                heard = []
                failing = await caller.converse(path, -1)
                with pytest.raises(TideraceError, match="call-failed: enough"):
                    async for value in failing:
                        heard.append(value)
                assert heard == [0, 1, 2, 3, 4]
                complete = await caller.converse(path, 1)
                await complete.end()
                assert await every(complete) == [0, 1, 2, 3, 4]


@asynchronous
async def test_a_call_that_is_given_up_reaches_its_handler(url: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(call: Conversation) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with client(url) as caller, client(url) as server, server.serve(path := fresh("slow"), forever):
        call = asyncio.ensure_future(caller.call(path, 1))
        await begun.wait()
        call.cancel()
        await ended.wait()
        ended.clear()
        await refused(caller.call(path, 1, timeout=2), "timeout")
        await ended.wait()


@asynchronous
async def test_a_responder_that_is_gone_is_told_to_its_caller(url: str) -> None:
    async def leave(call: Conversation) -> None:
        server.cut()
        await asyncio.Event().wait()

    async with client(url) as caller, client(url) as server, server.serve(path := fresh("gone"), leave):
        await refused(caller.call(path, 1), "responder-gone")


@asynchronous
async def test_a_caller_that_reads_slowly_is_ended_before_it_takes_all_memory(url: str) -> None:
    async def flood(call: Conversation) -> None:
        for _ in range(100):
            await call.send("x" * 100_000)

    async with client(url) as caller, client(url) as server, server.serve(path := fresh("flood"), flood):
        conversation = await caller.converse(path, 1, buffer=1_000_000)
        while not conversation.done:
            await asyncio.sleep(0.01)
        assert conversation._inbox.size < 1_200_000
        with pytest.raises(TideraceError, match="slow-consumer"):
            await every(conversation)


@asynchronous
async def test_topics_are_created_set_patched_and_read(url: str) -> None:
    async with client(url) as one:
        topic = one.topic(fresh("quote"))
        assert await topic.get() is None
        assert not await topic.create({"type": "json", "history": 100}, {"bid": 1.0, "ask": 2})
        assert await topic.create({"type": "json", "history": 100})
        entry = await topic.get()
        assert entry is not None and entry.spec is not None and entry.version is not None
        assert (entry.value, entry.spec["type"]) == ({"bid": 1.0, "ask": 2}, "json")
        version = await topic.set({"bid": 1.5, "ask": 2}, condition={"version": entry.version})
        await refused(topic.set({}, condition={"version": entry.version}), "condition-failed")
        assert await topic.merge({"bid": 1.7}) == version + 1
        await topic.patch([{"op": "replace", "path": "/ask", "value": 3}], condition={"at": "/bid", "gt": 1.6})
        await refused(topic.patch([{"op": "test", "path": "/ask", "value": 9}]), "bad-patch")
        assert await topic.value() == {"bid": 1.7, "ask": 3}
        found = [event.value["bid"] for event in await every(topic.history(page=2))]
        assert found == [1.0, 1.5, 1.7, 1.7]
        assert [event.value["ask"] for event in await every(topic.history(last=1))] == [3]
        assert [event.version for event in await every(topic.history(version=version, to=version))] == [version]
        assert await topic.remove() and not await topic.remove()


@asynchronous
async def test_values_of_all_kinds_can_be_set_and_fetched_page_by_page(url: str) -> None:
    async with client(url) as one:
        folder = fresh("fetched")
        spec = {"retain": True}
        values = {"a": {"x": 1}, "b": b"\x00\xff", "c": None, "d/e": [1], "f": "text"}
        for name, value in values.items():
            await one.topic(f"{folder}/{name}").set(value, spec=spec, properties={"n": name})
        await one.topic(f"{folder}/g").set("plain", spec=spec, type="text/plain")
        entries = await every(one.topics.fetch(f"{folder}/**", values=True, page=2))
        assert {entry.path.removeprefix(f"{folder}/"): entry.value for entry in entries} == {**values, "g": "plain"}
        assert entries[0].properties == {"n": "a"}
        cut = await every(one.topics.fetch(f"{folder}/**", depth=len(folder.split("/")) + 1))
        assert len(cut) == 6 and not any("d/e" in entry.path for entry in cut)
        assert await one.topics.remove([f"{folder}/a", f"{folder}/b"]) == 2
        assert (await one.operate({"do": "remove", "selector": f"{folder}/**"}))["topics"] == 4


@asynchronous
async def test_what_is_set_by_delta_is_what_is_meant(url: str) -> None:
    async with client(url) as one, client(url) as other:
        topic = one.topic(fresh("delta"))
        await topic.create({"type": "json"})
        value = {"text": "x" * 2000, "n": 0}
        await topic.set(value, delta=True)
        before = one.counts.bytes_sent
        for n in range(1, 20):
            value["n"] = n
            await topic.set(value, delta=True)
        assert await other.topic(topic.path).value() == value
        assert one.counts.bytes_sent - before < 19 * 500
        # Somebody else changes it: then the whole value goes.
        await other.topic(topic.path).set({"else": 1})
        value["n"] = 99
        await topic.set(value, delta=True)
        assert await other.topic(topic.path).value() == value


@asynchronous
async def test_events_of_a_time_series_are_amended(url: str) -> None:
    async with client(url) as one:
        topic = one.topic(fresh("series"))
        await topic.create({"type": "timeseries"})
        await topic.publish({"t": 1})
        [event] = await every(topic.history())
        await topic.amend(event.version, {"t": 2})
        assert [event.value for event in await every(topic.history())] == [{"t": 2}]
        both = await every(topic.history(amended=True))
        assert [(one.value, one.amends) for one in both] == [({"t": 1}, None), ({"t": 2}, event.version)]


@asynchronous
async def test_locks_and_claims_are_held_by_one_client_and_end_with_it(url: str) -> None:
    async with client(url) as ann:
        name = fresh("lock")
        async with client(url) as bob:
            async with await ann.topics.lock(name) as lock:
                await refused(bob.topics.lock(name), "lock-held")
                await ann.topic(name).set(1, spec={}, condition={"locked": name})
                await refused(bob.topic(name).set(2, condition={"locked": name}), "lock-not-held")
                waiting = asyncio.ensure_future(bob.topics.lock(name, timeout=15))
            second = await waiting
            assert lock.lost.is_set() and not second.lost.is_set() and second.fence > lock.fence
            claim = await bob.topic(fresh("claimed")).claim()
            await refused(ann.topic(claim.name).set(1, spec={}), "topic-claimed")
        assert second.lost.is_set() and claim.lost.is_set(), "lost with the connection"
        await (await ann.topics.lock(name, timeout=15)).release()
        await ann.topic(claim.name).set(1, spec={})


@asynchronous
async def test_a_will_is_published_for_a_client_that_is_lost_and_not_for_one_that_leaves(url: str) -> None:
    async with client(url) as watcher:
        folder = fresh("will")
        async with watcher.topic(f"{folder}/*").subscribe() as subscription, client(url) as lost:
            async with client(url) as left, client(url) as forgetful:
                await left.topics.will(f"{folder}/left", "gone")
                await forgetful.topics.will(f"{folder}/forgotten", "gone")
                await forgetful.topics.forget_will()
                forgetful.cut()
                await forgetful.connected()
            await lost.topics.will(f"{folder}/lost", "gone", retain=True)
            for _ in range(2):
                # It is said anew on each connection.
                lost.cut()
                [update] = await take(1, subscription)
                assert (update.topic, update.value) == (f"{folder}/lost", "gone")
                while lost.state.status != "connected":
                    await asyncio.sleep(0.005)
                await lost.topics.session()
            assert not len(subscription._inbox)


@asynchronous
async def test_views_make_topics_of_others_and_how_a_session_fares_can_be_asked(url: str) -> None:
    async with client(url) as one:
        folder = fresh("views")
        name = folder.replace("/", "-")
        level = len(folder.split("/")) + 1
        async with one.topic(f"{folder}/out/**").subscribe() as subscription:
            await one.topics.views.put(name, f"map {folder}/in/** to {folder}/out/<path({level})>")
            await one.topic(f"{folder}/in/a").set({"n": 1}, spec={"type": "json"})
            [update] = await take(1, subscription)
            assert (update.topic, update.value) == (f"{folder}/out/a", {"n": 1})
            await refused(one.topic(update.topic).set(2), "topic-read-only")
            assert name in await one.topics.views.list()
            await one.topics.views.remove(name)
            assert name not in await one.topics.views.list()
            await refused(one.topics.views.put(name, "nonsense"), "bad-view")
            assert (await one.topics.session())["subscriptions"] == 1
