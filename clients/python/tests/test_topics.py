"""Topics against a server that says exactly what it is told to."""

from __future__ import annotations

import asyncio
from typing import Any

from fake import Fake, Peer, entry, updates
from harness import asynchronous, every, refused, take
from vectors import message

from tiderace import Gap, Joined, Last, Left, Recovered, Subscription, TopicEvent, Update
from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s
from tiderace._framing import encode


async def told(many: int, subscription: Subscription) -> list[Any]:
    """The next events: of an update topic, version and value."""
    return [shown(event) for event in await take(many, subscription.events())]


def shown(event: TopicEvent) -> Any:
    if isinstance(event, Update):
        return (event.topic, event.version, event.value)
    if isinstance(event, Gap):
        return (event.reason, event.topic, event.missed)
    if isinstance(event, Recovered):
        return event.complete
    return (event.topic, event.spec if isinstance(event, Joined) else event.reason)


@asynchronous
async def test_what_is_said_is_what_the_vectors_say() -> None:
    async with Fake() as fake:
        client = fake.client(user="ann", password="pw", name="demo")
        peer = await fake.peer()
        await peer.hears(c.Hello)
        assert peer.raw == message("hello with a password")
        one = client.topic("fx/EUR-USD").subscribe()
        two = client.topic("news/**").subscribe(recoverable=False, deltas=False)
        await peer.bytes(message("welcome"))
        await peer.hears(c.Subscribe)
        assert peer.raw == message("subscribe to one topic")
        await peer.hears(c.Subscribe)
        assert peer.raw == message("subscribe to a pattern")
        await peer.bytes(message("two answers"))
        await one.ready()
        names = ("a value in full", "a delta", "a topic is announced", "an announced topic's update", "a position")
        for name in names:
            await peer.bytes(message(name))
        assert await told(2, one) == [
            ("fx/EUR-USD", 70, {"bid": 1.0845, "ask": 1.0847}),
            ("fx/EUR-USD", 71, {"bid": 1.0846, "ask": 1.0848}),
        ]
        assert await told(1, two) == [("news/eu", 5, "Hi")]
        async with peer_publishes(peer, 3):
            await client.topic("fx/EUR-USD").publish({"bid": 1.0846, "ask": 1.0848}, retain=True)
        assert peer.raw == message("publish in full")
        assert (client.counts.deltas, client.counts.gaps) == (1, 0)


class peer_publishes:
    """Answers the next PUBLISH meanwhile."""

    def __init__(self, peer: Peer, request: int) -> None:
        async def answer() -> None:
            await peer.hears(c.Publish)
            await peer.ok(request)

        self.task = asyncio.ensure_future(answer())

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        await self.task


@asynchronous
async def test_versions_are_read_from_16_bits_and_a_jump_is_a_gap() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.update(0, 65_534, "1")
        short = [s.UpdateEntry(1, 0, low & 0xFFFF, b"1") for low in (65_535, 0, 1, 4, 4)]
        await peer.says(updates(*short))
        found = await told(8, subscription)
        assert found == [
            ("a", 65_534, 1),
            ("a", 65_535, 1),
            ("a", 65_536, 1),
            ("a", 65_537, 1),
            ("skipped", "a", 2),
            ("a", 65_540, 1),
            ("skipped", "a", 65_535),
            ("a", 131_076, 1),
        ]


@asynchronous
async def test_an_update_says_which_gap_is_before_it() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.says(updates(entry(0, 1, "1"), entry(0, 4, "4"), entry(0, 5, "5")))
        gaps = [update.gap for update in await take(3, subscription)]
        assert gaps[0] is None and gaps[2] is None
        assert gaps[1] is not None and (gaps[1].reason, gaps[1].missed) == ("skipped", 2)


@asynchronous
async def test_a_patterns_topics_are_told_apart_whatever_becomes_of_their_ids() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("x/*").subscribe()
        await peer.hears(c.Subscribe)
        await peer.says(s.TopicId(0, 0, "x/a"), updates(entry(0, 1, "1", 1 | m.ANNOUNCED)))
        await peer.says(s.TopicId(0, 0, "x/b"), updates(entry(0, 9, "2", 1 | m.ANNOUNCED)))
        await peer.says(s.TopicId(1, 0, "x/a"), updates(entry(1, 2, "3", 1 | m.ANNOUNCED)))
        await peer.update(0, 10, "", m.ANNOUNCED | m.REMOVED)
        found = await told(4, subscription)
        assert found == [("x/a", 1, 1), ("x/b", 9, 2), ("x/a", 2, 3), ("x/b", 10, None)]


@asynchronous
async def test_after_a_loss_it_goes_on_where_it_was_nothing_twice_nothing_missing() -> None:
    async with Fake() as fake:
        client = fake.client()
        subscription = client.topic("a").subscribe()
        peer = await fake.peer()
        assert (await peer.welcomes()).position == b""
        assert (await peer.hears(c.Subscribe)).flags == m.SNAPSHOT | m.RECOVERABLE | m.DELTAS
        await peer.ok(1)
        await peer.update(0, 10, "10")
        await peer.says(s.PositionFrame([(2, 99)]), updates(entry(0, 11, "11")))
        assert await told(2, subscription) == [("a", 10, 10), ("a", 11, 11)]
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes()).position.hex() == "05010263"
        again = await peer.hears(c.Subscribe)
        assert again.flags & m.RESUME and again.position == b"", "an empty position: that of HELLO"
        await peer.says(s.Recovered(again.request, True, False), updates(entry(0, 11, "11"), entry(0, 12, "12")))
        assert await told(2, subscription) == [True, ("a", 12, 12)]
        assert (client.counts.duplicates, client.counts.gaps) == (1, 0)


@asynchronous
async def test_what_could_not_be_recovered_is_told_and_then_the_current_value_comes() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.update(0, 3, "3")
        assert await told(1, subscription) == [("a", 3, 3)]
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes()
        request = (await peer.hears(c.Subscribe)).request
        await peer.says(s.Recovered(request, False, False), updates(entry(0, 3000, "4")))
        assert await told(3, subscription) == [("not-recovered", None, None), False, ("a", 3000, 4)]


@asynchronous
async def test_a_value_that_was_hidden_and_is_shown_again_after_a_loss_comes_with_its_version() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        removed = client.topic("a").subscribe()
        left = client.topic("b").subscribe(notices=True)
        await peer.hears(c.Subscribe)
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.ok(2)
        await peer.update(0, 3, "3", 1 | m.VALUE)
        await peer.update(0, 3, "", m.REMOVED)
        await peer.update(1, 5, "5", 1 | m.VALUE)
        await peer.says(s.Left(1, "b", "not-authorised"))
        assert (await told(3, removed))[::2] == [("a", 3, 3), ("a", 3, None)]
        assert await told(2, left) == [("b", 5, 5), ("b", "not-authorised")]
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes()
        for subscription, topic, version in ((removed, "a", 3), (left, "b", 5)):
            request = (await peer.hears(c.Subscribe)).request
            value = entry(version == 5, version, str(version), 1 | m.VALUE)
            await peer.says(s.Recovered(request, True, False), updates(value))
            assert await told(2, subscription) == [True, (topic, version, version)]
        assert client.counts.duplicates == 0


@asynchronous
async def test_a_jump_that_nobody_explained_is_told_after_a_loss_as_well() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe(recoverable=False)
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.update(0, 3, "3")
        await told(1, subscription)
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes()
        assert not (await peer.hears(c.Subscribe)).flags & m.RESUME
        await peer.update(0, 7, "7")
        assert await told(2, subscription) == [("skipped", "a", 3), ("a", 7, 7)]


@asynchronous
async def test_a_version_that_follows_a_lower_one_is_no_gap() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("x/*").subscribe()
        await peer.hears(c.Subscribe)
        mark = 1 | m.ANNOUNCED
        await peer.says(s.TopicId(0, 0, "x/a"), s.TopicId(1, 0, "x/b"))
        await peer.says(updates(entry(0, 3, "1", mark), entry(1, 3, "1", mark)))
        # The server was started anew, and it kept what came before; of the other topic two are missing.
        await peer.says(s.Follows(m.ANNOUNCED, 0, 3), updates(entry(0, 1_048_580, "2", mark)))
        await peer.says(s.Follows(m.ANNOUNCED, 1, 5), updates(entry(1, 1_048_581, "2", mark)))
        await peer.update(0, 1_048_581, "3", mark)
        assert await told(6, subscription) == [
            ("x/a", 3, 1),
            ("x/b", 3, 1),
            ("x/a", 1_048_580, 2),
            ("skipped", "x/b", 2),
            ("x/b", 1_048_581, 2),
            ("x/a", 1_048_581, 3),
        ]


@asynchronous
async def test_another_epoch_is_a_gap_unless_the_server_knows_the_one_before() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        passing = client.topic("b").subscribe(recoverable=False)
        for request in (1, 2):
            await peer.hears(c.Subscribe)
            await peer.ok(request)
        await peer.says(updates(entry(0, 30, "3")), s.PositionFrame([(0, 77)]))
        assert await told(1, subscription) == [("a", 30, 3)]
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes(epoch=6)
        request = (await peer.hears(c.Subscribe)).request
        await peer.says(s.Recovered(request, True, True), s.Follows(0, 0, 30), updates(entry(0, 1_048_600, "4")))
        assert await told(1, passing) == [("restarted", None, None)]
        assert await told(2, subscription) == [True, ("a", 1_048_600, 4)]
        # Until the new life has told where it is, the old position is still the best there is.
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes(epoch=6)).position.hex() == "0501004d"
        await peer.hears(c.Subscribe)
        await peer.says(s.PositionFrame([(1, 9)]), updates(entry(0, 1_048_601, "5")))
        assert await told(1, subscription) == [("a", 1_048_601, 5)]
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes(epoch=7)).position.hex() == "06010109"
        request = (await peer.hears(c.Subscribe)).request
        await peer.says(s.Recovered(request, False, False), updates(entry(0, 1, "1")))
        assert await told(3, subscription) == [("restarted", None, None), False, ("a", 1, 1)]


async def lost(fake: Fake, peer: Peer, continues: bool) -> tuple[Peer, c.Subscribe]:
    """Reconnects to another life of the server, which does not know what was missed; the new SUBSCRIBE."""
    peer.cut()
    peer = await fake.peer()
    await peer.welcomes(epoch=6, features=1)
    request = (await peer.hears(c.Subscribe)).request
    await peer.says(s.Recovered(request, False, continues))
    await peer.hears(c.Unsubscribe)
    await peer.ok(request, 1)
    return peer, await peer.hears(c.Subscribe)


@asynchronous
async def test_what_new_values_do_not_confirm_is_removed() -> None:
    async with Fake() as fake:
        client = fake.client()
        peer = await fake.peer()
        await peer.welcomes(features=1)
        subscription = client.topic("here/*").subscribe()
        assert (await peer.hears(c.Subscribe)).flags & (m.VALUES | m.OK_LAST) == m.VALUES
        await peer.ok(1)
        await peer.says(*[s.TopicId(at, 0, f"here/{who}") for at, who in enumerate(["ann", "bob", "said", "eve"])])
        value = m.ANNOUNCED | m.VALUE | 1
        rows = [entry(0, 1, "1", value), entry(1, 1, "1", value), entry(2, 1, "1", m.ANNOUNCED | 1)]
        await peer.says(updates(*rows, entry(3, 1, "1", value), entry(3, 2, "", m.ANNOUNCED | m.REMOVED)))
        await told(5, subscription)
        peer, again = await lost(fake, peer, False)
        assert again.flags & (m.RESUME | m.OK_LAST | m.SNAPSHOT) == m.OK_LAST | m.SNAPSHOT
        assert await told(2, subscription) == [("restarted", None, None), False]
        await peer.says(s.TopicId(0, again.subscription, "here/ann"), updates(entry(0, 7, "2", value)))
        assert await told(1, subscription) == [("here/ann", 7, 2)]
        await peer.ok(again.request)
        [gone] = await take(1, subscription)
        assert (gone.topic, gone.value, gone.removed) == ("here/bob", None, True)
        # What was only said is not gone, and what was removed is not removed again.
        await peer.update(0, 8, "3", value)
        assert await told(1, subscription) == [("here/ann", 8, 3)]


@asynchronous
async def test_a_replay_after_a_restart_brings_what_is_new_and_a_value_that_was_lost_is_taken_back() -> None:
    async with Fake() as fake:
        client = fake.client()
        peer = await fake.peer()
        await peer.welcomes(features=1)
        subscription = client.topic("a").subscribe(replay=Last(9))
        first = await peer.hears(c.Subscribe)
        assert first.flags & m.REPLAY and first.replay == (0, 9)
        await peer.ok(1)
        mark = m.VALUE | 1
        await peer.says(updates(*[entry(0, version, f"{version}", mark) for version in (1, 2, 3)]))
        assert await told(3, subscription) == [("a", 1, 1), ("a", 2, 2), ("a", 3, 3)]
        peer, again = await lost(fake, peer, True)
        assert again.flags & (m.RESUME | m.REPLAY) == m.REPLAY
        assert await told(2, subscription) == [("restarted", None, None), False]
        rows = [entry(again.subscription, version, f"{version}", mark) for version in (1, 2, 3, 1_048_577)]
        await peer.says(updates(*rows))
        assert await told(1, subscription) == [("a", 1_048_577, 1_048_577)]
        await peer.ok(again.request)
        await peer.update(again.subscription, 1_048_579, "9", mark)
        assert await told(2, subscription) == [("skipped", "a", 1), ("a", 1_048_579, 9)]
        # The server crashed before it had stored the last two.
        peer, third = await lost(fake, peer, True)
        assert await told(2, subscription) == [("restarted", None, None), False]
        await peer.says(
            updates(*[entry(third.subscription, version, f"{version}", mark) for version in (3, 1_048_577)])
        )
        await peer.ok(third.request)
        assert await told(1, subscription) == [("a", 1_048_577, 1_048_577)]
        assert client.counts.duplicates == 5


@asynchronous
async def test_versions_of_one_server_are_not_compared_with_those_of_another() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.says(updates(entry(0, 10, "10")), s.PositionFrame([(0, 7)]))
        assert await told(1, subscription) == [("a", 10, 10)]
        # Another server, which says nothing of its own position before it is lost.
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes(epoch=9)).position.hex() == "05010007"
        request = (await peer.hears(c.Subscribe)).request
        await peer.ok(1)
        late = client.topic("late").subscribe()
        await peer.hears(c.Subscribe)
        await peer.ok(2)
        await peer.says(s.Recovered(request, False, False), updates(entry(0, 5000, "1"), entry(1, 900, "1")))
        assert await told(3, subscription) == [("restarted", None, None), False, ("a", 5000, 1)]
        assert await told(1, late) == [("late", 900, 1)]
        # The first one again: what came since comes, and what was known of it is known.
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes(epoch=5)).position.hex() == "05010007"
        for _ in range(2):
            request = (await peer.hears(c.Subscribe)).request
            await peer.says(s.Recovered(request, True, True))
        await peer.says(updates(entry(0, 10, "10"), entry(0, 11, "11"), entry(1, 3, "3")))
        assert await told(2, subscription) == [True, ("a", 11, 11)]
        assert await told(2, late) == [True, ("late", 3, 3)]
        # And once a position of the other one is known, it is the other one's versions that count.
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes(epoch=9)
        requests = [(await peer.hears(c.Subscribe)).request for _ in range(2)]
        await peer.says(s.Recovered(requests[0], False, False), updates(entry(0, 5002, "2")), s.PositionFrame([(0, 1)]))
        assert await told(3, subscription) == [("restarted", None, None), False, ("a", 5002, 2)]
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes(epoch=9)).position.hex() == "09010001"
        request = (await peer.hears(c.Subscribe)).request
        await peer.says(s.Recovered(request, True, True), updates(entry(0, 5002, "2"), entry(0, 5003, "3")))
        assert await told(2, subscription) == [True, ("a", 5003, 3)]


@asynchronous
async def test_without_recovery_the_values_come_anew_on_each_connection() -> None:
    async with Fake() as fake:
        client = fake.client()
        peer = await fake.peer()
        await peer.welcomes(features=1)
        subscription = client.topic("a").subscribe(recoverable=False)
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.update(0, 5, "5", m.VALUE | 1)
        assert await told(1, subscription) == [("a", 5, 5)]
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes(features=1)
        again = await peer.hears(c.Subscribe)
        assert again.flags & (m.RESUME | m.OK_LAST) == m.OK_LAST
        await peer.ok(again.request)
        [gone] = await take(1, subscription)
        assert gone.removed


@asynchronous
async def test_a_delta_that_does_not_fit_renews_the_subscription_without_deltas() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.says(updates(entry(0, 1, "1"), entry(0, 2, "\x09\x09", 1 | m.DELTA), entry(0, 3, "late")))
        ended = await peer.hears(c.Unsubscribe)
        again = await peer.hears(c.Subscribe)
        assert (ended.subscription, again.subscription) == (0, 1)
        assert not again.flags & (m.DELTAS | m.RESUME)
        await peer.ok(ended.request, 1)
        await peer.update(1, 9, "9")
        assert await told(3, subscription) == [("a", 1, 1), ("defect", None, None), ("a", 9, 9)]


@asynchronous
async def test_a_refused_subscription_says_why_and_leaves_its_id() -> None:
    async with Fake() as fake:
        refusals: list[Any] = []
        client, peer = await fake.pair(on_error=refusals.append)
        subscription = client.topic("secret").subscribe()
        await peer.hears(c.Subscribe)
        await peer.says(s.Error(1, 401, "not-authorised", "No."))
        error = await refused(subscription.ready(), "not-authorised")
        assert (error.code, error.sentence, str(error)) == (401, "No.", "not-authorised: No.")
        await refused(subscription.__anext__(), "not-authorised")
        assert await every(subscription) == [], "an error is told once"
        assert [found.name for found in refusals] == ["not-authorised"]
        client.topic("b").subscribe()
        assert (await peer.hears(c.Subscribe)).subscription == 0


@asynchronous
async def test_the_loop_ends_with_the_subscription_and_an_id_is_used_again_when_the_server_says_so() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        values = []
        subscription = client.topic("a").subscribe(snapshot=False)
        assert not (await peer.hears(c.Subscribe)).flags & m.SNAPSHOT
        await peer.ok(1)
        await peer.says(updates(entry(0, 1, "1"), entry(0, 2, "2"), entry(0, 3, "3")))

        async def answer() -> None:
            ended = await peer.hears(c.Unsubscribe)
            client.topic("b").subscribe()
            assert (await peer.hears(c.Subscribe)).subscription == 1, "0 is not free yet"
            # What was on its way is dropped.
            await peer.update(0, 4, "4")
            await peer.ok(ended.request, 1)

        answering = asyncio.ensure_future(answer())
        async with subscription:
            async for update in subscription:
                values.append(update.value)
                if len(values) == 2:
                    break
        await answering
        assert values == [1, 2]
        assert await every(subscription) == []
        client.topic("c").subscribe()
        assert (await peer.hears(c.Subscribe)).subscription == 0


@asynchronous
async def test_the_current_value_is_asked_for_also_when_there_is_none() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        found = asyncio.ensure_future(client.topic("a").value())
        await peer.hears(c.Subscribe)
        await peer.update(0, 1, '{"a":1}')
        await peer.ok(1)
        assert await found == {"a": 1}
        await peer.ok((await peer.hears(c.Unsubscribe)).request)
        none = asyncio.ensure_future(client.topic("b").value())
        await peer.ok((await peer.hears(c.Subscribe)).request)
        await peer.hears(c.Ping)
        await peer.says(s.Pong())
        assert await none is None


@asynchronous
async def test_notices_are_told_and_their_specifications_read() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("x/*").subscribe(notices=True, interval=0.25, selector="a = 1")
        said = await peer.hears(c.Subscribe)
        assert said.flags & m.NOTICES and said.interval_ms == 250 and said.selector == "a = 1"
        await peer.says(s.Joined(0, "x/a", '{"type":"json"}'), s.Left(0, "x/a", "removed"))
        assert await told(2, subscription) == [("x/a", {"type": "json"}), ("x/a", "removed")]
        assert isinstance(Left("a", "b"), Left)


@asynchronous
async def test_credit_is_given_back_as_bytes_are_taken_and_not_while_they_wait() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair(window=2000)
        assert (await peer.frame()) == c.Credit(2000)
        subscription = client.topic("a").subscribe(deltas=False)
        await peer.hears(c.Subscribe)
        body = '"' + "x" * 400 + '"'
        for version in range(1, 5):
            await peer.update(0, version, body)
        # All of it waits: only when the application takes some does the server hear more.
        await client.topic("a").publish(1, confirm=False)
        assert isinstance(await peer.frame(), c.Publish)
        await take(4, subscription)
        credit = await peer.frame()
        assert credit == c.Credit(4 * len(encode(updates(entry(0, 1, body)))))
