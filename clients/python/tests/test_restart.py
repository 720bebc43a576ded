"""Servers that are killed and started again, with and without a store, and with users."""

from __future__ import annotations

import asyncio
import os
import ssl

from harness import asynchronous, refused, take
from server import Server
from test_real_topics import client

from tiderace import Gap, Recovered, Update

USERS = """
[[rule]]
allow = ["publish", "subscribe"]
principals = ["*"]
paths = ["**"]
[[user]]
name = "ann"
password = "env:ANNS_PASSWORD"
[[token]]
name = "bob"
secret = "env:BOBS_TOKEN"
"""


@asynchronous
async def test_a_persistent_topic_goes_on_over_a_kill_without_a_gap() -> None:
    with Server() as server:
        async with client(server.url) as publisher, client(server.url) as subscriber:
            topic = publisher.topic("kept")
            await topic.create({"persistent": True, "history": 1000, "type": "json"})
            async with subscriber.topic("kept").subscribe() as subscription:
                expected = published = 0
                for _ in range(3):
                    for _ in range(10):
                        await topic.set(published)
                        published += 1
                    while expected < published:
                        [update] = await take(1, subscription)
                        assert update.value == expected
                        expected += 1
                    subscriber.pause()
                    for _ in range(10):
                        await topic.set(published)
                        published += 1
                    server.kill()
                    server.start()
                    publisher.start()
                    subscriber.start()
                    await publisher.connected()
                    gaps: list[Gap] = []
                    async for event in subscription.events():
                        if isinstance(event, Gap):
                            gaps.append(event)
                        elif isinstance(event, Update):
                            assert event.value == expected, (event, expected)
                            expected += 1
                            if expected == published:
                                break
                    # What the client had received, the store had as well: confirmed before it was told.
                    assert not gaps


@asynchronous
async def test_what_was_only_in_memory_is_told_as_missing_after_a_restart() -> None:
    with Server(store=False) as server:
        async with client(server.url) as one:
            await one.topic("a").publish(1, retain=True)
            await one.topic("b").publish(1, retain=True)
            async with one.topic("*").subscribe() as subscription:
                assert {update.topic for update in await take(2, subscription)} == {"a", "b"}
                server.kill()
                server.start()
                one.start()
                events = subscription.events()
                gap = await anext(events)
                assert isinstance(gap, Gap) and gap.reason == "restarted"
                recovered = await anext(events)
                assert isinstance(recovered, Recovered) and not recovered.complete
                # The values are gone with the server, and told so.
                gone = [await anext(events), await anext(events)]
                assert all(isinstance(update, Update) and update.removed for update in gone)
                assert await one.topic("a").value() is None
                await one.topic("a").publish(2, retain=True)
                update = await anext(events)
                assert isinstance(update, Update) and (update.topic, update.value) == ("a", 2)


@asynchronous
async def test_persistent_messages_of_a_queue_survive_a_kill_and_unsettled_ones_come_again() -> None:
    with Server() as server:
        async with client(server.url) as one:
            queue = one.queue("jobs")
            for n in range(10):
                await queue.send(n, persistent=True)
            async with queue.receive(auto_accept=False, prefetch=5) as consumer:
                taken = await take(5, consumer)
                for message in taken[:3]:
                    message.accept()
                while (await one.queues.show("jobs"))["messages"] > 2:
                    await asyncio.sleep(0.01)
                server.kill()
                server.start()
                one.start()
                found: list[int] = []
                while len(found) < 7 or 9 not in found:
                    [message] = await take(1, consumer)
                    message.accept()
                    found.append(message.value)
            # What was accepted may come again if its acceptance was not stored yet; nothing is lost.
            assert set(found) >= set(range(3, 10))


@asynchronous
async def test_users_tokens_and_a_login_that_is_renewed() -> None:
    os.environ |= {"ANNS_PASSWORD": "pw", "BOBS_TOKEN": "the-token-of-bob"}
    with Server(USERS, mode=("serve",)) as server:
        await refused(client(server.url, user="ann", password="wrong").__aenter__(), "login-failed")
        async with client(server.url, user="ann", password="pw") as one:
            assert one.state.name == "ann"
            assert await one.login("the-token-of-bob") == "bob"
            assert one.state.name == "bob"
            await refused(one.login("nobodys"), "login-failed")
            one.cut()
            while one.counts.connections < 2:
                await asyncio.sleep(0.005)
            assert one.state.name == "bob", "what was shown last is shown again"
        asked = 0

        async def token() -> str:
            nonlocal asked
            asked += 1
            return "the-token-of-bob"

        async with client(server.url, token=token) as two:
            assert (two.state.name, asked) == ("bob", 1)
            two.cut()
            while two.counts.connections < 2:
                await asyncio.sleep(0.005)
            assert asked == 2


@asynchronous
async def test_with_two_servers_the_other_one_takes_over() -> None:
    with Server(store=False) as one, Server(store=False) as two:
        async with client([one.url, two.url]) as both, both.topic("a").subscribe() as subscription:
            events = subscription.events()
            for _ in range(2):
                here, there = (one, two) if str(one.port) in both.state.address else (two, one)
                async with client(here.url) as publisher:
                    await publisher.topic("a").publish(here.port)
                event = await anext(events)
                while not isinstance(event, Update):
                    event = await anext(events)
                assert event.value == here.port
                count = both.counts.connections
                here.stop()
                while both.counts.connections == count:
                    await asyncio.sleep(0.005)
                assert str(there.port) in both.state.address
                here.start()


@asynchronous
async def test_tls_by_certificates_that_are_trusted() -> None:
    with Server(store=False, mode=("serve", "--tls-self-signed")) as server:
        url = server.url.replace("http:", "https:")
        error = await refused(client(url, start_timeout=5).__aenter__(), "unreachable")
        assert "certificate" in error.sentence.lower()
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        async with client(url, ssl=trusting) as one:
            await one.topic("a").publish(1, retain=True)
            assert await one.topic("a").value() == 1
            assert one.state.address.startswith("wss://")


@asynchronous
async def test_clients_of_another_virtual_host_see_topics_of_their_own() -> None:
    with Server('[[virtual_host]]\nname = "shop"\nhosts = ["shop.example"]\n', store=False) as server:
        async with client(server.url) as all_, client(server.url, host="shop.example") as shop:
            await shop.topic("a").publish(1, retain=True)
            assert (await shop.topic("a").value(), await all_.topic("a").value()) == (1, None)
            assert await all_.topic("@shop/a").value() == 1
