"""Conversations of rsocket-py with a running server."""

import asyncio

import pytest
from conftest import MESSAGE, PROPERTIES, Outbox, http, options, properties, properties_of, unique, until, within
from rsocket.error_codes import ErrorCode
from rsocket.extensions.helpers import (
    authenticate_bearer,
    authenticate_simple,
    composite,
    data_mime_type,
    metadata_item,
)
from rsocket.extensions.mimetypes import WellKnownMimeTypes

NUMBERS = [str(n) for n in range(50)]


async def refused(peer, to, data, *more):
    """What the server says to a request that must fail."""
    with pytest.raises(Exception) as found:
        await peer.respond(to, data, *more)
    return str(found.value)


async def test_publish_confirmed_and_fetch(open):
    topic, peer = unique("topic"), await open()
    await http("PUT", f"/topics/{topic}", "before")
    assert await peer.respond(topic) == b"before"
    await peer.respond(topic, "after", options(retain="true"))
    assert await http("GET", f"/topics/{topic}") == "after"


async def test_snapshot_then_live_in_order(open):
    topic, peer, other = unique("topic"), await open(), await open()
    await http("PUT", f"/topics/{topic}", "now")
    stream = peer.stream(topic)
    assert await stream.text() == "now"
    for text in NUMBERS:
        await other.fire(topic, text)
    assert await stream.texts(50) == NUMBERS


async def test_patterns_say_their_paths(open):
    root, peer = unique("topic"), await open()
    await http("PUT", f"/topics/{root}/a/price", "0")
    stream = peer.stream(f"{root}/*/price")
    assert properties_of(await stream.next(), MESSAGE)["path"] == f"{root}/a/price"
    await peer.respond(f"{root}/b/size", "1")
    await peer.respond(f"{root}/b/price", "2")
    last = await stream.next()
    assert (properties_of(last, MESSAGE)["path"], last.data) == (f"{root}/b/price", b"2")


async def test_without_credit_the_newest_stays(open):
    topic, peer = unique("topic"), await open()
    await http("PUT", f"/topics/{topic}", "0")
    stream = peer.stream(topic, n=1)
    assert await stream.text() == "0"
    for n in range(1, 21):
        await peer.respond(topic, str(n))
    stream.request(1)
    assert await stream.text() == "20"
    await peer.respond(topic, "21")
    stream.request(2**31 - 1)
    assert await stream.text() == "21"


async def test_cancel_ends_a_stream_and_nothing_else(open):
    topic, peer = unique("topic"), await open()
    first, second = peer.stream(topic), peer.stream(topic)
    await peer.respond(topic, "a")
    assert [await first.text(), await second.text()] == ["a", "a"]
    first.cancel()
    for text in ["b", "c"]:
        await peer.respond(topic, text)
        assert await second.text() == text
    assert first.items.qsize() <= 1


async def test_a_queue(open):
    queue, peer, other = f"queue:{unique('queue')}", await open(), await open()
    for job in "abc":
        await peer.respond(queue, job)
    first = peer.stream(queue, n=1)
    assert await first.text() == "a"
    first.request(1)
    assert await first.text() == "b"
    first.cancel()
    assert sorted(await other.stream(queue).texts(2)) == ["b", "c"]


async def test_a_publishing_channel(open):
    topic, peer = unique("topic"), await open()
    stream, outbox = peer.stream(topic), Outbox()
    acknowledgements = peer.channel(topic, "0", outbox)
    for text in NUMBERS[1:]:
        outbox.say(text)
    for _ in NUMBERS:
        await acknowledgements.next()
    outbox.end()
    await within(acknowledgements.ended.wait())
    assert await stream.texts(50) == NUMBERS


async def test_echo(open):
    peer = await open()
    assert await peer.respond("echo", "hello") == b"hello"
    stream = peer.stream("echo", 2, "tick")
    assert await stream.texts(2) == ["tick", "tick"]
    stream.request(1)
    assert await stream.text() == "tick"
    stream.cancel()
    outbox = Outbox()
    channel = peer.channel("echo", "0", outbox)
    outbox.say("1")
    outbox.say("2")
    assert await channel.texts(3) == ["0", "1", "2"]
    outbox.end()
    await within(channel.ended.wait())


@pytest.mark.parametrize("mtu", [64, 1000])
async def test_fragments_both_ways(open, mtu):
    peer, data = await open(mtu=mtu), bytes(n % 251 for n in range(100_000))
    assert await peer.respond("echo", data) == data
    topic = unique("topic")
    stream = peer.stream(topic)
    await peer.respond(topic, data)
    assert (await stream.next()).data == data


async def test_a_service(open):
    service, server, caller = unique("service"), await open(), await open()
    serving = server.stream(f"serve:{service}")
    await serving.next()
    assert await caller.respond(f"service:{service}", "a") == b"a!"
    assert await http("POST", f"/services/{service}", "b") == "b!"
    assert "sold out" in await refused(caller, f"service:{service}", "fail")
    serving.cancel()

    async def over():
        try:
            await caller.respond(f"service:{service}", "a")
        except Exception:
            return True

    await until(over)


async def test_a_conversation(open):
    service, server, caller = unique("service"), await open(), await open()
    await server.stream(f"serve:{service}").next()
    outbox = Outbox()
    channel = caller.channel(f"service:{service}", "0", outbox)
    assert await channel.text() == "0!"
    for text in NUMBERS[1:10]:
        outbox.say(text)
        assert await channel.text() == f"{text}!"
    outbox.end()
    await within(channel.ended.wait())


async def test_properties_and_types(open):
    topic, peer = unique("topic"), await open()
    stream = peer.stream(topic, 10, b"", options(properties="true"))
    json = data_mime_type(WellKnownMimeTypes.APPLICATION_JSON)
    await peer.respond(topic, '{"bid":1}', json, properties(region="eu"))
    item = await stream.next()
    assert (item.data, properties_of(item)["region"]) == (b'{"bid":1}', "eu")


async def test_mistakes_cost_nothing_else(open):
    peer = await open()
    for to in ["a//b", "queue:", "service:a/*/b", f"service:{unique('nobody')}"]:
        assert await refused(peer, to, "x")
    assert await peer.respond("echo", "alive") == b"alive"


async def test_who_may_what(open):
    peer = await open(auth=authenticate_simple("limited", "limited-passcode"))
    await peer.respond(f"open/{unique('topic')}", "allowed")
    assert await refused(peer, f"closed/{unique('topic')}", "x")
    await peer.respond(f"open/{unique('topic')}", "still there")


async def test_wrong_credentials(open):
    peer = await open(auth=authenticate_bearer("wrong"))
    code, _ = await within(peer.handler.errors.get())
    assert code == ErrorCode.REJECTED_SETUP


async def test_keepalives(open):
    peer = await open(period=0.1, lifetime=4)
    # Five seconds of them: longer than a connection lives whose keepalives nobody answers.
    assert await peer.stream("echo", 50, "tick").texts(50) == ["tick"] * 50
    assert peer.client.is_server_alive()


async def test_leases(open):
    peer = await open(lease=True)
    answers = await asyncio.gather(*(peer.respond("echo", text) for text in NUMBERS[:40]))
    assert [one.decode() for one in answers] == NUMBERS[:40]


async def test_metadata_push(open):
    peer = await open()
    await within(peer.client.metadata_push(composite(metadata_item(b"x:y\n", PROPERTIES))))
    assert await peer.respond("echo", "alive") == b"alive"


async def test_fifty_clients(open):
    topic = unique("topic")
    await http("PUT", f"/topics/{topic}", "ready")
    crowd = await asyncio.gather(*(open() for _ in range(50)))
    streams = [peer.stream(topic) for peer in crowd]
    assert [await stream.text() for stream in streams] == ["ready"] * 50
    for text, peer in zip(NUMBERS[:10], crowd):
        await peer.respond(topic, text)
    for stream in streams:
        assert await stream.texts(10) == NUMBERS[:10]
