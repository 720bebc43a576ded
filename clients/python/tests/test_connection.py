"""The connection's life: losses, addresses, goodbyes, silence, and servers that talk nonsense."""

from __future__ import annotations

import asyncio
import contextlib
from random import Random
from typing import Any

import pytest
from fake import Fake, Peer, Recorder, entry, updates
from harness import asynchronous, refused, take, until
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from tiderace import Last, State, TideraceError, connect
from tiderace import _client_frames as c
from tiderace import _messages as m
from tiderace import _server_frames as s
from tiderace._addresses import Addresses
from tiderace._backoff import Backoff
from tiderace._framing import decode_client, encode
from tiderace._server_frames import Welcome
from tiderace._session import BATCH_BYTES_MAX, BATCH_MESSAGES_MAX, End, Liveness, Session
from tiderace._wire import Writer

# Without I/O.


class Told:
    """What a session has told."""

    def __init__(self) -> None:
        self.frames: list[s.ServerFrame] = []
        self.refusals: list[TideraceError] = []
        self.ends: list[End] = []
        self.outputs = 0

    def welcomed(self, welcome: Welcome) -> None:
        self.frames.append(welcome)

    def frame(self, frame: s.ServerFrame, size: int) -> None:
        self.frames.append(frame)

    def refused(self, error: TideraceError) -> None:
        self.refusals.append(error)

    def settled(self) -> None:
        pass

    def has_output(self) -> None:
        self.outputs += 1

    def ended(self, end: End) -> None:
        self.ends.append(end)


WELCOME = Welcome("ann", b"\x05", 0, 1 << 24, 100, 100, 0, (1,), "fake/1")


def session() -> tuple[Session, Told]:
    told = Told()
    one = Session(c.Hello(c.Anonymous(), (1,), "test"), told)
    one.receive(encode(WELCOME))
    one.output()
    return one, told


def test_answers_find_their_requests_also_by_ranges_and_behind_the_last_number() -> None:
    one, _ = session()
    one._next_request = 0xFFFF_FFFE
    answers: dict[int, object] = {}
    for place in range(5):
        one.request(lambda number: c.Unsubscribe(number, 0), lambda answer, at=place: answers.update({at: answer}))  # type: ignore[misc]
    numbers = [frame.request for frame in decode_client(one.output()) if isinstance(frame, c.Unsubscribe)]
    assert numbers == [0xFFFF_FFFE, 0xFFFF_FFFF, 1, 2, 3]
    one.receive(encode(s.Ok(0xFFFF_FFFF, 2)) + encode(s.Error(0xFFFF_FFFE, 401, "no", "No.")))
    assert sorted(answers) == [0, 1, 2, 3]
    assert isinstance(answers[0], TideraceError) and isinstance(answers[3], s.Ok)
    one.fail(TideraceError("connection-lost", "gone"))
    assert isinstance(answers[4], TideraceError) and answers[4].name == "connection-lost"
    one.request(lambda number: c.Unsubscribe(number, 0), lambda answer: answers.update({5: answer}))
    assert isinstance(answers[5], TideraceError), "told at once"


@pytest.mark.parametrize("messages", [[s.Ok(1, 7)], [s.Ok(1, (1 << 64) - 1)], [WELCOME]])
def test_answers_to_what_nobody_asked_end_the_session(messages: list[s.ServerFrame]) -> None:
    one, told = session()
    one.receive(b"".join(encode(message) for message in messages))
    assert [end.error.name for end in told.ends] == ["bad-frame"]
    one.receive(encode(s.Pong()))
    one.fail(TideraceError("connection-lost", "again"))
    assert len(told.ends) == 1, "an end is told once"


def test_nothing_comes_before_welcome() -> None:
    told = Told()
    one = Session(c.Hello(c.Anonymous(), (1,), "test"), told)
    one.receive(encode(s.Browsed(0)))
    assert told.ends[0].error.name == "bad-frame" and "before WELCOME" in told.ends[0].error.sentence
    old = Session(c.Hello(c.Anonymous(), (1,), "test"), told)
    old.receive(encode(Welcome("a", b"", 0, 0, 0, 0, 0, (), "s", version=2)))
    assert "version 2" in told.ends[1].error.sentence


def test_transport_messages_stay_small_and_whole() -> None:
    one, _ = session()
    for _ in range(2 * BATCH_MESSAGES_MAX):
        one.send(c.Ping())
    one.send(c.Ping(b"x" * BATCH_BYTES_MAX))
    one.send(c.Ping())
    sizes = []
    while batch := one.output():
        sizes.append(len(list(decode_client(batch))))
    assert sizes == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX, 1, 1]
    assert one.buffered == 0


def test_a_close_says_whether_to_come_back_and_where() -> None:
    for name, reconnect, again in (("login-failed", False, False), ("x", True, True), ("login-timeout", False, True)):
        one, told = session()
        one.receive(encode(s.Close(1, name, "So.", reconnect, 500, ["a:1", "b:2"])))
        [end] = told.ends
        assert (end.told, end.again, end.jitter_ms, end.addresses) == (True, again, 500, ["a:1", "b:2"])


@given(st.binary(max_size=80))
def test_no_bytes_make_a_session_raise(noise: bytes) -> None:
    one, told = session()
    one.receive(noise)
    assert all(end.error.name in ("bad-frame",) or end.told for end in told.ends)


def test_silence_is_noticed() -> None:
    liveness = Liveness(100.0, 8.0, 5.0)
    assert liveness.due(107.0) is False and liveness.next() == 108.0
    assert isinstance(liveness.due(108.0), TideraceError)
    liveness.welcomed(105.0, 30_000)
    assert liveness.due(134.0) is False and liveness.due(135.0) is True
    liveness.asked(135.0)
    assert liveness.due(139.9) is False and liveness.next() == 140.0
    liveness.heard(139.9)
    assert liveness.due(140.0) is False
    liveness.asked(169.9)
    assert isinstance(liveness.due(175.0), TideraceError)


def test_the_wait_is_a_random_part_of_a_window_that_doubles() -> None:
    class Whole(Random):
        def random(self) -> float:
            return 1.0

    backoff = Backoff(1.0, 30.0)
    assert [backoff.delay(attempt, 0, Whole()) for attempt in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [backoff.delay(attempt, 5, Whole()) for attempt in range(4)] == [5, 10, 20, 30]
    assert backoff.delay(0, 60, Whole()) == 60
    waits = [backoff.delay(0, 0, Random(seed)) for seed in range(200)]
    assert min(waits) < 0.1 and max(waits) > 0.9


def test_each_round_has_every_address_once_in_an_order_of_its_own() -> None:
    own = ["http://a:1", "https://b", "ws://c:3/base"]
    wanted = {"ws://a:1/tiderace", "wss://b/tiderace", "ws://c:3/base/tiderace"}
    addresses = Addresses(own, Random(7))
    rounds = [addresses.round() for _ in range(100)]
    assert all(set(one) == wanted and len(one) == 3 for one in rounds)
    assert {one[0] for one in rounds} == wanted, "it begins anywhere"
    assert len({tuple(one) for one in rounds}) == 6, "all orders come"
    for wrong in ("a:1", "ftp://a", "http://"):
        with pytest.raises(ValueError, match="no address"):
            Addresses([wrong], Random(1))


def test_a_goodbyes_addresses_come_first_until_one_has_let_the_client_in() -> None:
    addresses = Addresses(["https://a", "https://b"], Random(7))
    advised = ["c:443", "wss://d/tiderace", "http://plain", "ftp://no", "https://a", "c:443", "x" * 5000, "https://["]
    addresses.advise(advised, "wss://a/tiderace")
    one = addresses.round()
    assert set(one[:3]) == {"wss://c:443/tiderace", "wss://d/tiderace", "wss://a/tiderace"} or set(one[:3]) == {
        "wss://c:443/tiderace",
        "wss://d/tiderace/tiderace",
        "wss://a/tiderace",
    }
    assert one[3:] == ["wss://b/tiderace"], "nothing without TLS"
    addresses.reached()
    assert set(addresses.round()) == {"wss://a/tiderace", "wss://b/tiderace"}
    addresses.advise([f"https://h{at}" for at in range(99)], "wss://a/tiderace")
    assert len(addresses.round()) == 16 + 2


# Over sockets.


def statuses(states: Recorder) -> list[str]:
    return [state.status for state in states.all]


@asynchronous
async def test_a_refused_login_is_final() -> None:
    async with Fake() as fake:
        states = Recorder()
        client = fake.client(on_state=states)
        subscription = client.topic("a").subscribe()
        waiting = asyncio.ensure_future(client.topic("a").publish(1))
        peer = await fake.peer()
        await peer.hears(c.Hello)
        await peer.says(s.Close(400, "login-failed", "Wrong password.", False, 0))
        error = await refused(client.connected(), "login-failed")
        assert (error.code, error.sentence) == (400, "Wrong password.")
        await refused(subscription.ready(), "login-failed")
        await refused(waiting, "login-failed")
        await refused(client.call("a"), "login-failed")
        assert statuses(states) == ["connecting", "closed"]


@asynchronous
async def test_a_goodbye_names_the_address_to_go_to() -> None:
    async with Fake() as one, Fake() as two:
        states = Recorder()
        client = one.client(on_state=states)
        peer = await one.peer()
        await peer.welcomes()
        await client.connected()
        await peer.says(s.Close(102, "shutting-down", "Bye.", True, 1, [two.url.replace("http://", "")]))
        peer = await two.peer()
        await peer.welcomes()
        await client.connected()
        assert statuses(states) == ["connecting", "connected", "waiting", "connecting", "connected"]
        assert client.state.address == two.url.replace("http", "ws") + "/tiderace"
        waiting: State = states.all[2]
        assert waiting.reason is not None and waiting.reason.name == "shutting-down"


@asynchronous
async def test_an_address_that_does_not_answer_is_passed_over_without_waiting() -> None:
    async with Fake() as fake:
        states = Recorder()
        # Nobody listens at the first one; a wait between rounds would be longer than the test may take.
        addresses = ["http://127.0.0.1:1", fake.url]
        client = connect(addresses, reconnect_base=1e6, reconnect_max=1e6, on_state=states)
        client.start()
        await (await fake.peer()).welcomes()
        await client.connected()
        assert statuses(states)[-1] == "connected" and "waiting" not in statuses(states)
        await client.close()


@asynchronous
async def test_a_function_that_gets_no_token_is_asked_again() -> None:
    asked = 0

    def token() -> str:
        nonlocal asked
        asked += 1
        if asked < 3:
            raise RuntimeError("no token today")
        return "t"

    async with Fake() as fake:
        client = fake.client(token=token)
        assert (await (await fake.peer()).welcomes()).auth == c.Token("t")
        await client.connected()
        assert asked == 3


@asynchronous
async def test_nobody_there_is_told_in_time() -> None:
    client = connect("http://127.0.0.1:1", start_timeout=0.5, reconnect_base=0.01)
    with pytest.raises(TideraceError, match=r"unreachable: no connection in 0.5 s") as found:
        async with client:
            pass
    assert "ws://127.0.0.1:1/tiderace" in found.value.sentence
    assert client.state.status == "closed"


@asynchronous
async def test_what_is_no_tiderace_is_told_as_it_answers() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 15\r\n\r\norigin refused!")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    states = Recorder()
    client = connect(f"http://127.0.0.1:{port}", reconnect_base=1e6, reconnect_max=1e6, on_state=states)
    client.start()
    await until(lambda: "waiting" in statuses(states))
    [waiting] = states.having(lambda state: state.status == "waiting")[:1]
    assert "HTTP 403 origin refused!" in waiting.reason.sentence
    await client.close()
    server.close()


@asynchronous
async def test_a_pause_gives_the_connection_up_and_a_goodbye_is_said() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.ok(1)
        await subscription.ready()
        client.pause()
        await peer.hears(c.Bye)
        await until(lambda: client.state.status == "paused")
        client.start()
        peer = await fake.peer()
        await peer.welcomes()
        assert (await peer.hears(c.Subscribe)).flags & m.RESUME
        await client.close()
        await peer.hears(c.Bye)
        await peer.gone()
        assert client.state.status == "closed"


@asynchronous
async def test_a_server_that_falls_silent_is_left() -> None:
    async with Fake() as fake:
        client = fake.client(pong_timeout=0.05)
        peer = await fake.peer()
        await peer.welcomes(ping_ms=1)
        await client.connected()
        await peer.hears(c.Ping)
        # No answer: the next connection comes.
        await (await fake.peer()).welcomes()
        assert client.counts.connections == 2 or await connected_twice(client)


async def connected_twice(client: Any) -> bool:
    await until(lambda: client.counts.connections == 2)
    return True


@asynchronous
async def test_a_server_that_never_says_welcome_is_left() -> None:
    async with Fake() as fake:
        states = Recorder()
        # The handshake of the WebSocket has to be done by then as well.
        fake.client(connect_timeout=1, on_state=states)
        await (await fake.peer()).hears(c.Hello)
        await fake.peer()
        [waiting] = states.having(lambda state: state.status == "waiting")[:1]
        assert waiting.reason.sentence == "no answer to HELLO in time"


@asynchronous
async def test_what_cannot_be_written_is_refused_at_once() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        for wrong in ({"replay": Last(-1)}, {"interval": 1e30}, {"selector": "\ud800"}):
            with pytest.raises(ValueError):
                client.topic("a").subscribe(**wrong)
        with pytest.raises(ValueError):
            await client.topic("\ud800").publish(1)
        with pytest.raises(ValueError):
            await client.call("a", 1, timeout=1e30)
        # Nothing of it has done any harm.
        client.topic("b").subscribe()
        assert (await peer.hears(c.Subscribe)).request == 1


@asynchronous
async def test_credentials_that_cannot_be_written_are_told() -> None:
    async with Fake() as fake:
        states = Recorder()
        fake.client(token=lambda: None, on_state=states)
        await until(lambda: "waiting" in statuses(states))
        [waiting] = states.having(lambda state: state.status == "waiting")[:1]
        assert "no credentials" in waiting.reason.sentence


HOSTILE: dict[str, bytes] = {
    "a message that ends behind its transport message": b"\x45\x10\x00",
    "a number without an end": b"\x42" + b"\x80" * 11,
    "an answer to a thousand requests": encode(s.Ok(1, 1000)),
    "an answer to all requests there can be": encode(s.Ok(1, (1 << 64) - 1)),
    "welcome again": encode(WELCOME),
    "an update of nothing": encode(updates(entry(7, 1, "1"))),
    "an update of a topic that was not announced": encode(updates(entry(7, 1, "1", m.ANNOUNCED))),
    "a version without its beginning": encode(s.Updates([s.UpdateEntry(0, 0, 1, b"")])),
    "a topic of nothing": encode(s.TopicId(0, 9, "a")),
    "messages of a queue that is none": encode(s.Queued(0, 9, 0, 0, 0, [])),
    "a call of nothing": encode(s.Exchange(m.RESPONDER | m.FIRST, 1, b"", None, 9)),
    "a specification that is none": encode(s.Joined(0, "a", "[1,")),
    "a specification that is a list": encode(s.Joined(0, "a", "[1]")),
    "text that is none": Writer().u8(m.JOINED).blob(b"\x00\x01\xff\x00").done(),
    "unknown flags": Writer().u8(m.FOLLOWS).blob(b"\xf0\x00\x00").done(),
}


@pytest.mark.parametrize("name", HOSTILE)
@asynchronous
async def test_hostile_bytes_end_the_connection_with_a_clear_error(name: str) -> None:
    async with Fake() as fake:
        states = Recorder()
        client, peer = await fake.pair(on_state=states)
        subscription = client.topic("a").subscribe()
        await peer.hears(c.Subscribe)
        await peer.bytes(HOSTILE[name])
        # The client comes back, and goes on with the next connection.
        peer = await fake.peer()
        [waiting] = states.having(lambda state: state.status == "waiting")
        assert waiting.reason.name == "bad-frame" and len(waiting.reason.sentence) > 20, waiting
        await peer.welcomes()
        await peer.hears(c.Subscribe)
        await peer.update(0, 1, '"fine"')
        assert [update.value for update in await take(1, subscription)] == ["fine"]


@asynchronous
async def test_text_and_messages_beyond_the_limit_end_the_connection_too() -> None:
    async with Fake() as fake:
        states = Recorder()
        _, peer = await fake.pair(on_state=states, receive_max=1000)
        await peer.socket.send("text")
        peer = await fake.peer()
        await peer.welcomes()
        await peer.bytes(encode(s.Pong(b"x" * 2000)))
        await fake.peer()
        reasons = [state.reason for state in states.having(lambda state: state.status == "waiting")]
        assert "text" in reasons[0].sentence and "1000" in reasons[1].sentence


@asynchronous
async def test_a_result_that_is_not_what_the_protocol_says_is_refused_and_stops_nothing() -> None:
    async with Fake() as fake:
        client, peer = await fake.pair()
        texts = ["no json", "[]", '{"topics":[{"path":"a","bytes":3}]}', "[" * 100_000, '"a"']
        for number, text in enumerate(texts, 1):
            asking = asyncio.ensure_future(client.operate({"do": "fetch"}))
            await peer.hears(c.Operate)
            await peer.says(s.Result(number, text, []))
            await refused(asking, "bad-frame")
        odd = asyncio.ensure_future(client.operate({"do": "fetch"}))
        await peer.hears(c.Operate)
        await peer.ok(len(texts) + 1)
        await refused(odd, "bad-frame")


@asynchronous
async def test_random_bytes_never_reach_the_application_as_anything_but_an_end() -> None:
    random = Random(42)
    valid = [
        encode(updates(entry(0, 1, "1"))),
        encode(s.TopicId(0, 0, "a")),
        encode(s.Recovered(1, False, False)),
        encode(s.Close(1, "a", "b", True, 1, ["c"])),
        encode(s.Joined(0, "a", "{}")),
        encode(s.Exchange(m.RESPONDER | m.FIRST, 1)),
        encode(s.Ended(0, 1, 2, "a", "b")),
    ]
    async with Fake() as fake:
        client = fake.client()
        client.topic("a").subscribe()

        async def loops(peer: Peer) -> None:
            await peer.hears(c.Hello)
            await peer.says(WELCOME)
            for _ in range(20):
                data = bytearray(random.choice(valid))
                for _ in range(random.randrange(3)):
                    data[random.randrange(len(data))] = random.randrange(256)
                await peer.bytes(bytes(data))
            await peer.bytes(b"\xff")

        for _ in range(60):
            peer = await fake.peer()
            # The client may have gone before all was said.
            with contextlib.suppress(ConnectionClosed):
                await loops(peer)
            await peer.gone()
            while client.state.status == "connected":
                await asyncio.sleep(0)
            if client.state.status == "closed":
                await client.close()
                client = fake.client()
                client.topic("a").subscribe()
            # However long the server has advised to wait.
            client.start()
