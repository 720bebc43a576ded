"""Queues, services and operations against a server that says exactly what it is told to."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import Any

import pytest
from fake import Fake, Peer
from harness import asynchronous, every, refused, take

from tiderace import Conversation, TideraceError
from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s


def queued(first: int, *bodies: str, number: int = 0, home: int = 3, redeliveries: int = 1) -> s.Queued:
    return s.Queued(0, number, home, first, redeliveries, [s.Entry(1, body.encode()) for body in bodies])


async def settled(peer: Peer) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Outcome and ranges."""
    frame = await peer.hears(c.Settle)
    return frame.outcome, frame.ranges


# Queues.


@asynchronous
async def test_outcomes_are_said_as_ranges() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        consumer = client.queue("work").receive(prefetch=5, auto_accept=False)
        said = await peer.hears(c.Subscribe)
        assert (said.kind, said.flags, said.window) == (m.QUEUE_KIND, m.EXPLICIT | m.WINDOW, (5, 0))
        await peer.ok(1)
        await consumer.ready()
        await peer.says(queued(100, "1", "2", "3", "4"))
        messages = await take(4, consumer)
        assert [(one.queue, one.redeliveries, one.value) for one in messages] == [("work", 1, n) for n in (1, 2, 3, 4)]
        for one in messages:
            (one.reject if one.value == 2 else one.accept)()
            one.accept()
            assert one.settled
        frame = await peer.hears(c.Settle)
        assert frame == c.Settle(0, 0, 3, 0, ((100, 0), (102, 1)))
        assert await settled(peer) == (1, ((101, 0),))


@asynchronous
async def test_a_loop_accepts_when_it_asks_for_the_next_and_gives_back_what_it_leaves() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()

        async def consume() -> list[int]:
            values = []
            async with client.queue("work").receive() as consumer:
                async for message in consumer:
                    values.append(message.value)
                    if message.value == 2:
                        break
            return values

        loop = asyncio.ensure_future(consume())
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await peer.says(queued(1, "1", "2", "3"))
        assert await settled(peer) == (0, ((1, 0),))
        assert await settled(peer) == (1, ((2, 0),))
        await peer.ok((await peer.hears(c.Unsubscribe)).request)
        assert await loop == [1, 2]


@asynchronous
async def test_an_outcome_that_comes_after_a_loss_is_not_said_to_the_next_connection() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        consumer = client.queue("work").receive(auto_accept=False)
        await peer.hears(c.Subscribe)
        await peer.says(queued(1, "1", "2"))
        [old] = await take(1, consumer)
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes()
        await peer.hears(c.Subscribe)
        old.accept()
        await peer.says(queued(1, "1"))
        # What lay unread is not given twice.
        [new] = await take(1, consumer)
        assert new.value == 1
        new.accept()
        assert await settled(peer) == (0, ((1, 0),))


@asynchronous
async def test_a_browser_is_shown_what_is_there_and_its_end() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        browser = client.queue("work").browse(start=7, prefetch=5)
        said = await peer.hears(c.Subscribe)
        assert said.flags == m.EXPLICIT | m.WINDOW | m.BROWSE | m.START
        assert (said.window, said.start) == ((5, 0), 7)
        await peer.ok(1)
        await peer.says(queued(1, "1", "2"), s.Browsed(0))
        assert [message.value for message in await every(browser)] == [1, 2]


@asynchronous
async def test_what_the_server_ends_says_why_and_its_id_is_free() -> None:
    told: list[str] = []
    async with Fake() as fake:
        client, peer = await fake.pair(on_error=lambda error: told.append(error.name))
        browser = client.queue("work").browse(follow=True)
        consumer = client.queue("other").receive(auto_accept=False)
        await peer.hears(c.Subscribe)
        await peer.hears(c.Subscribe)
        await peer.ok(1, 1)
        await browser.ready()
        await consumer.ready()
        away = (531, "upstream-away", "The connection was lost.")
        await peer.says(queued(1, "1"), queued(1, "2", number=1), s.Unsubscribed(0, *away))
        # What has come is still given.
        [shown] = await take(1, browser)
        assert shown.value == 1
        await refused(browser.__anext__(), "upstream-away")
        assert told == ["upstream-away"]
        # Of what was ended nothing is settled any more.
        shown.accept()
        [message] = await take(1, consumer)
        message.accept()
        assert (await peer.hears(c.Settle)).subscription == 1
        # While its own end is on its way nothing is told of the server's, and the id waits for the answer.
        stopped = asyncio.ensure_future(consumer.stop())
        request = (await peer.hears(c.Unsubscribe)).request
        await peer.says(s.Unsubscribed(1, *away))
        client.queue("first").receive()
        assert (await peer.hears(c.Subscribe)).subscription == 0
        client.queue("second").receive()
        assert (await peer.hears(c.Subscribe)).subscription == 2
        await peer.says(s.Error(request, 502, "unknown-subscription", "There is none."))
        await stopped
        client.queue("third").receive()
        assert (await peer.hears(c.Subscribe)).subscription == 1
        assert told == ["upstream-away"]
        # On the next connection there are those alone that were not ended.
        peer.cut()
        peer = await fake.peer()
        await peer.welcomes()
        again = {(await peer.hears(c.Subscribe)).path for _ in range(3)}
        assert again == {"first", "second", "third"}


@asynchronous
async def test_a_browser_does_not_outlive_its_connection() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        browser = client.queue("work").browse(follow=True)
        assert (await peer.hears(c.Subscribe)).flags == m.EXPLICIT | m.WINDOW | m.BROWSE | m.FOLLOW
        await peer.ok(1)
        await browser.ready()
        peer.cut()
        await refused(browser.__anext__(), "connection-lost")


@asynchronous
async def test_a_message_says_when_it_is_delivered_to_which_group_it_belongs_and_how_urgent_it_is() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        at = datetime.fromtimestamp(1_767_225_600, timezone.utc)
        fields: dict[str, Any] = {"delay": 0.5, "deliver_at": at, "group": "a:b", "priority": 0, "persistent": True}
        properties = {"k": "v", "delay": "9"}
        sending = asyncio.ensure_future(client.queue("work").send(1, properties=properties, expires=1.5, **fields))
        frame = await peer.hears(c.Publish)
        assert frame.flags == 1 | m.PROPERTIES | m.PERSISTENT | m.QUEUE_FIELDS | m.EXPIRES
        assert (frame.destination, frame.expires_ms) == (c.Destination(m.QUEUE_KIND, "work"), 1500)
        wanted = b"k:v\ndelay:500\ndeliver-at:1767225600000\nmessage_group:a\\cb\npriority:0\n"
        assert frame.properties == wanted
        await peer.ok(1)
        await sending


@asynchronous
async def test_a_durable_subscription_is_made_in_the_write_that_subscribes() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        consumer = client.durable("audit", ["fx/**"], selector="a = 1").receive()
        made = await peer.hears(c.Operate)
        assert made.operation == '{"do":"create-subscription","name":"audit","topics":["fx/**"],"selector":"a = 1"}'
        assert (await peer.hears(c.Subscribe)).path == "dsub/audit"
        await peer.says(s.Error(1, 601, "too-many-subscriptions", "No more."), s.Ok(2))
        await refused(consumer.ready(), "too-many-subscriptions")
        # The other one of the two requests was done.
        assert (await peer.hears(c.Unsubscribe)).subscription == 0


# Publishing.


@asynchronous
async def test_a_path_that_is_published_to_again_is_declared() -> None:
    async with Fake() as fake:
        client = fake.client()
        peer = await fake.peer()
        await peer.welcomes(declarations_max=1)
        await client.connected()
        for path in ("a", "a", "a", "b", "b"):
            await client.topic(path).publish(1, confirm=False)
        frames = [await peer.frame() for _ in range(7)]
        assert isinstance(frames[0], c.Credit)
        targets = [frame.destination for frame in frames if isinstance(frame, c.Publish)]
        assert [frame for frame in frames if isinstance(frame, c.Declare)] == [c.Declare(1, 0, "a")]
        one = c.Destination(declared=1)
        assert targets == [c.Destination(0, "a"), one, one, c.Destination(0, "b"), c.Destination(0, "b")]


@asynchronous
async def test_publishing_waits_for_a_connection_and_fails_when_it_is_lost_unanswered() -> None:
    async with Fake() as fake:
        client = fake.client()
        waiting = [asyncio.ensure_future(client.topic(f"a/{n}").publish(n)) for n in range(3)]
        peer = await fake.peer()
        await peer.welcomes()
        bodies = [(await peer.hears(c.Publish)).body for _ in range(3)]
        assert bodies == [b"0", b"1", b"2"], "in the order in which it was asked for"
        await peer.ok(1, 1)
        await asyncio.gather(*waiting[:2])
        peer.cut()
        await refused(waiting[2], "connection-lost")
        await client.close()
        await refused(client.topic("a").publish(1), "closed")


@asynchronous
async def test_publishers_wait_while_too_much_waits_to_be_sent() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair(send_max=100_000)
        body = b"x" * 60_000
        sent = 0

        async def publish() -> None:
            nonlocal sent
            for _ in range(400):
                await client.topic("a").publish(body, confirm=False)
                sent += 1

        publishing = asyncio.ensure_future(publish())
        # Nobody reads: what is sent comes to a halt far below all of it.
        last = -1
        while last != sent:
            last = sent
            for _ in range(200):
                await asyncio.sleep(0)
        assert sent < 400
        for _ in range(400):
            await hears_publish(peer)
        await publishing
        assert sent == 400


async def hears_publish(peer: Peer) -> None:
    while not isinstance(await peer.frame(), c.Publish):
        pass


@asynchronous
async def test_values_of_a_result_come_into_their_places() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        asking = asyncio.ensure_future(client.operate({"do": "fetch", "selector": "**", "after": None}))
        assert (await peer.hears(c.Operate)).operation == '{"do":"fetch","selector":"**"}'
        text = '{"topics":[{"path":"a","version":3,"bytes":2},{"path":"b"}],"more":false}'
        await peer.says(s.Result(1, text, [s.Entry(5, b"{}", b"k:v\n")]))
        topics = [{"path": "a", "version": 3, "value": {}, "properties": {"k": "v"}}, {"path": "b"}]
        assert await asking == {"topics": topics, "more": False}


@asynchronous
async def test_a_login_is_renewed_on_the_same_connection() -> None:
    tokens = iter(["one", "two", "three"])

    async def token() -> str:
        return next(tokens)

    async with Fake() as fake:
        client = fake.client(token=token)
        peer = await fake.peer()
        assert (await peer.welcomes()).auth == c.Token("one")
        renewing = asyncio.ensure_future(client.login())
        assert await peer.hears(c.Login) == c.Login(1, c.Token("two"))
        await peer.says(s.LoggedIn(1, "bob"))
        assert await renewing == "bob"
        peer.cut()
        peer = await fake.peer()
        assert (await peer.welcomes()).auth == c.Token("three")
        given = asyncio.ensure_future(client.login(user="ann", password="pw"))
        assert await peer.hears(c.Login) == c.Login(1, c.Password("ann", "pw"))
        await peer.says(s.Error(1, 401, "not-authorised", "No."))
        await refused(given, "not-authorised")


# Services.


def exchange(flags: int, number: int, body: str) -> s.Exchange:
    return s.Exchange(flags | 1, number, body.encode())


@asynchronous
async def test_a_call_is_answered() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        answer = asyncio.ensure_future(client.call("sum", [1, 2], timeout=5))
        assert await peer.hears(c.Call) == c.Call(1, 1 | m.LAST, 5000, c.Destination(2, "sum"), b"[1,2]")
        await peer.says(exchange(m.LAST, 1, "3"))
        assert await answer == 3
        empty = asyncio.ensure_future(client.call("sum"))
        assert await peer.hears(c.Call) == c.Call(2, m.LAST, 30_000, c.Destination(2, "sum"), b"")
        await peer.says(s.Exchange(m.LAST | m.BARE, 2))
        assert await empty is None


@asynchronous
async def test_a_call_that_fails_is_given_up_or_loses_its_connection_says_so() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        failing = asyncio.ensure_future(client.call("nobody"))
        await peer.hears(c.Call)
        await peer.says(s.Ended(0, 1, 700, "no-responder", "Nobody."))
        assert (await refused(failing, "no-responder")).code == 700
        late = asyncio.ensure_future(client.call("slow", 1, timeout=0.03))
        await peer.hears(c.Call)
        await refused(late, "timeout")
        assert (await peer.hears(c.Cancel)) == c.Cancel(0, 2, 705, "given up by the caller")
        given_up = asyncio.ensure_future(client.call("slow", 1))
        await peer.hears(c.Call)
        given_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await given_up
        assert (await peer.hears(c.Cancel)).number == 3
        lost = asyncio.ensure_future(client.call("slow", 1))
        await peer.hears(c.Call)
        peer.cut()
        await refused(lost, "connection-lost")


@asynchronous
async def test_a_service_answers_or_says_what_went_wrong() -> None:
    async def double(call: Conversation) -> int:
        if call.value > 9:
            raise ValueError("too much")
        if call.value < 0:
            raise TideraceError("nonsense", "less than nothing", 999)
        return int(call.value) * 2

    async with Fake() as fake:
        client, peer = await fake.pair()
        service = client.serve("double", double, concurrency=7)
        said = await peer.hears(c.Subscribe)
        assert (said.kind, said.flags, said.window) == (m.SERVICE_KIND, m.WINDOW, (7, 0))
        await peer.ok(1)
        await service.ready()
        first = m.LAST | m.RESPONDER | m.FIRST
        await peer.says(exchange(first, 7, "4"))
        assert await peer.hears(c.Send) == c.Send(7, 1 | m.LAST | m.RESPONDER, b"8")
        await peer.says(exchange(first, 8, "40"))
        assert await peer.hears(c.Cancel) == c.Cancel(1, 8, 708, "too much")
        await peer.says(exchange(first, 9, "-1"))
        assert await peer.hears(c.Cancel) == c.Cancel(1, 9, 999, "less than nothing")
        stopping = asyncio.ensure_future(service.stop())
        await peer.hears(c.Unsubscribe)
        await peer.says(exchange(first, 10, "1"))
        assert await peer.hears(c.Cancel) == c.Cancel(1, 10, 100, "nobody serves here any more")
        await peer.ok(2)
        await stopping


@asynchronous
async def test_more_calls_than_were_asked_for_are_refused() -> None:
    begun: list[Conversation] = []

    async def wait(call: Conversation) -> None:
        begun.append(call)
        async for _ in call:
            pass

    async with Fake() as fake:
        client, peer = await fake.pair()
        client.serve("wait", wait, concurrency=2)
        await peer.hears(c.Subscribe)
        for number in (1, 2, 3):
            await peer.says(exchange(m.RESPONDER | m.FIRST, number, "1"))
        assert (await peer.hears(c.Cancel)) == c.Cancel(
            1, 3, 701, "2 calls are being answered, and no more were let in"
        )
        assert len(begun) == 2


@asynchronous
async def test_a_handler_ends_with_its_exchange() -> None:
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def forever(call: Conversation) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set_result("cancelled")
            raise

    async with Fake() as fake:
        client, peer = await fake.pair()
        client.serve("forever", forever)
        await peer.hears(c.Subscribe)
        await peer.says(exchange(m.RESPONDER | m.FIRST | m.LAST, 1, "1"), s.Ended(1, 1, 704, "caller-gone", "Gone."))
        assert await ended == "cancelled"


@asynchronous
async def test_a_conversation_goes_both_ways_in_order_until_both_have_said_their_last() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        conversation = await client.converse("chat", "hello", timeout=0.5, properties={"k": "v"})
        said = await peer.hears(c.Call)
        assert (said.flags, said.timeout_ms, said.properties) == (1 | m.PROPERTIES, 500, b"k:v\n")
        rows = [exchange(0, 1, '"a"'), exchange(0, 1, '"b"'), exchange(m.LAST, 1, '"c"')]
        await peer.says(*rows)
        await conversation.send("more")
        await conversation.end("enough")
        assert await peer.hears(c.Send) == c.Send(1, 1, b'"more"')
        assert await peer.hears(c.Send) == c.Send(1, 1 | m.LAST, b'"enough"')
        assert await every(conversation) == ["a", "b", "c"]
        assert conversation.done
        await refused(conversation.send("late"), "closed")


@asynchronous
async def test_a_conversation_that_is_left_is_cancelled_and_one_that_nobody_reads_is_ended() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        async with await client.converse("chat", 1):
            await peer.hears(c.Call)
        assert await peer.hears(c.Cancel) == c.Cancel(0, 1, 100, "cancelled")
        unread = await client.converse("chat", 1, buffer=1000)
        await peer.hears(c.Call)
        for _ in range(10):
            await peer.says(exchange(0, 2, '"' + "x" * 300 + '"'))
        assert (await peer.hears(c.Cancel)).code == 603
        assert len(await unread.__anext__()) == 300
        with pytest.raises(TideraceError, match="slow-consumer"):
            await every(unread)
