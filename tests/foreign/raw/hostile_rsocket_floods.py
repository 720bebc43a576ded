"""Attacks on what RSocket makes a server keep: floods, fragments, credit, slow readers, silence, resumption."""

import contextlib
import os
import select
import time

import rswire as rs
from hostile_rsocket import attack, flood, outcome, register
from limits import LIMITS
from rswire import FOLLOWS, MANY, NEXT, Client, Tcp, Ws
from wire import WAIT, unique

MIB = 2**20
ENDED = "CONNECTION_ERROR .*"
SMALL = 4096
"""Bytes that the kernel may hold for a client that does not read."""


def encoded(client, *frames):
    return b"".join(map(client.carrier.encode, frames))


def flooded(*frames, mebibytes=64, carrier=Tcp, first=(), then=outcome):
    """Sends the same frames again and again; what became of the connection."""
    with Client(carrier) as client:
        client.login()
        client.send(*first)
        flood(client, encoded(client, *frames), mebibytes)
        return then(client)


def unread(frame_of, mebibytes=64, carrier=Tcp, first=()):
    """Sends frames, each made from its number, without reading what they are answered with."""
    with Client(carrier, receive_buffer=SMALL) as client:
        client.login()
        client.send(*first)
        client.socket.settimeout(3)
        sent_bytes, number = 0, 1
        try:
            while sent_bytes < mebibytes * MIB:
                block = encoded(client, *(frame_of(number + 2 * n) for n in range(64)))
                client.socket.sendall(block)
                sent_bytes, number = sent_bytes + len(block), number + 128
        except TimeoutError:
            return "held back"
        except OSError:
            return "refused"
        return "taken"


# 1: METADATA_PUSH.
for sends, size, carrier in [
    ("128 MiB of 8 KiB each", 8192, Tcp),
    ("128 MiB of 8 KiB each, by WebSocket", 8192, Ws),
    ("16 MiB of one byte each", 1, Tcp),
]:
    # Before the login is done it is one of too many bytes.
    attack("METADATA_PUSH", sends, f"{ENDED}|INVALID_SETUP frame-too-large")(
        lambda size=size, carrier=carrier: flooded(
            rs.metadata_push(b"x" * size), mebibytes=128 if size > 1 else 16, carrier=carrier
        )
    )


# 3: items beyond what was asked for.
@attack("demand", "64 MiB of items in a channel that was granted a few", ENDED)
def beyond_demand():
    first = rs.request(rs.REQUEST_CHANNEL, 1, b"x", rs.route("echo"), 1)
    return flooded(rs.item(1, b"x" * 8192), first=(first,))


@attack(
    "demand",
    "1,000,000 items of nothing to a topic, by a channel whose acknowledgements are not read",
    f"{ENDED}|open, not read",
)
def beyond_demand_of_a_topic():
    first = rs.request(rs.REQUEST_CHANNEL, 1, b"x", rs.route(unique("overflow")), MANY)
    return flooded(rs.item(1, b""), mebibytes=9, first=(first,))


@attack("demand", "64 MiB of items of a stream that the server has ended", f"{ENDED}|lives")
def items_of_dead_streams():
    first = rs.request(rs.REQUEST_CHANNEL, 1, b"x", rs.route("a//b"), 1)
    return flooded(rs.item(1, b"x" * 8192), first=(first,))


# 4 and 6: fragments.
ASK = rs.request(rs.REQUEST_RESPONSE, 1, b"x" * 100, rs.route("echo"), flags=FOLLOWS)
for sends, one, mebibytes in [
    ("1,000,000 fragments of nothing", rs.item(1, b"", flags=NEXT | FOLLOWS), 9),
    ("1,000,000 fragments of one byte", rs.item(1, b"x", flags=NEXT | FOLLOWS), 10),
    ("1,000,000 fragments of nothing but empty metadata", rs.item(1, b"", b"", flags=NEXT | FOLLOWS), 12),
    ("256 MiB of fragments of one message", rs.item(1, b"x" * 60_000, flags=NEXT | FOLLOWS), 256),
    ("256 MiB of metadata in fragments", rs.item(1, b"", b"m" * 60_000, flags=NEXT | FOLLOWS), 256),
]:
    attack("fragments", sends, ENDED)(
        lambda one=one, mebibytes=mebibytes: flooded(one, mebibytes=mebibytes, first=(ASK,))
    )


@attack("fragments", "10,000 messages begun and not ended, of 16 KiB each", f"{ENDED}|REJECTED, lives|INVALID, lives")
def begun_messages():
    with Client() as client:
        client.login()
        with contextlib.suppress(OSError):
            for n in range(10_000):
                client.send(rs.request(rs.REQUEST_FNF, 2 * n + 1, b"x" * 16_384, rs.route("begun"), flags=FOLLOWS))
        return with_errors(client)


def with_errors(client):
    """The codes of the errors of streams, then what became of the connection."""
    end = outcome(client)
    codes = sorted({got.code for got in client.kept if got.type == rs.ERROR and got.stream})
    return ", ".join([*codes, end])


@attack("fragments", "100 connections, each with half a message of 1.5 MiB", "answered|refused")
def half_messages():
    with contextlib.ExitStack() as stack:
        for n in range(100):
            client = stack.enter_context(Client(source=(f"127.0.0.{n % 4 + 2}", 0)).login())
            with contextlib.suppress(OSError):
                client.send(rs.request(rs.REQUEST_FNF, 1, b"x" * 60_000, rs.route("half"), flags=FOLLOWS))
                for _ in range(24):
                    client.send(rs.item(1, b"x" * 60_000, flags=NEXT | FOLLOWS))
        with Client().login() as other:
            return "answered" if outcome(other) == "lives" else "not answered"


# 7 and 8: clients that do not read.
@attack("slow readers", "endless demand for a topic, 256 MiB published to it, nothing read", "taken|held back|refused")
def demand_without_reading():
    topic = unique("unread")
    with Client(receive_buffer=SMALL) as reader, Client() as publisher:
        reader.login()
        publisher.login()
        reader.send(rs.request(rs.REQUEST_STREAM, 1, b"", rs.route(topic), MANY))
        flood(reader, encoded(reader, rs.request_n(1, MANY)), 1, seconds=2)
        return flood(
            publisher, encoded(publisher, rs.request(rs.REQUEST_FNF, 1, b"x" * 8000, rs.route(topic))), 256, seconds=3
        )


@attack("slow readers", "16 MiB of REQUEST_N, nothing read", "taken|held back|refused")
def demand_alone():
    first = rs.request(rs.REQUEST_STREAM, 1, b"x" * 1000, rs.route("echo"), MANY)
    return unread(lambda _: rs.request_n(1, MANY), mebibytes=16, first=(first,))


@attack("slow readers", "1,000 echo streams of 16 KiB with endless demand, nothing read", "held back|refused|taken")
def endless_echoes():
    return unread(lambda n: rs.request(rs.REQUEST_STREAM, n, b"x" * 16_000, rs.route("echo"), MANY), mebibytes=16)


for sends, carrier in [("128 MiB of request-responses, no response read", Tcp), ("the same, by WebSocket", Ws)]:
    attack("slow readers", sends, "held back|refused")(
        lambda carrier=carrier: unread(
            lambda n: rs.request(rs.REQUEST_RESPONSE, n, b"x" * 16_000, rs.route("echo")),
            mebibytes=128,
            carrier=carrier,
        )
    )


@attack("slow readers", "1,000,000 request-responses that fail, no error read", "held back|refused")
def unread_errors():
    return unread(lambda n: rs.request(rs.REQUEST_RESPONSE, n, b"x", rs.route("a//b")), mebibytes=32)


@attack("slow readers", "256 MiB in a channel that echoes, nothing read", "held back|refused")
def unread_channel():
    first = rs.request(rs.REQUEST_CHANNEL, 1, b"x", rs.route("echo"), MANY)
    return unread(lambda _: rs.item(1, b"x" * 8192), mebibytes=256, first=(first,))


# 9: keep-alives.
for sends, data, mebibytes, read in [
    ("64 MiB of 9 KB each, no answer read", 9000, 64, False),
    ("64 MiB of 9 KB each", 9000, 64, True),
    ("16 MiB without data, no answer read", 0, 16, False),
    ("16 MiB without data", 0, 16, True),
]:

    def keepalives(data=data, mebibytes=mebibytes, read=read):
        one = rs.keepalive(b"x" * data)
        if read:
            return flooded(one, mebibytes=mebibytes)
        return unread(lambda _: one, mebibytes=mebibytes)

    attack("keep-alives", sends, ENDED if read else "refused|held back")(keepalives)


# 10: clients that say nothing.
def all_closed(begin, wait):
    """Opens 200 connections and waits for the server to close each of them."""
    clients = [begin() for _ in range(200)]
    waiting = {client.socket.fileno(): client for client in clients}
    deadline = time.monotonic() + wait
    while waiting and time.monotonic() < deadline:
        for descriptor in select.select(list(waiting), [], [], 0.5)[0]:
            client = waiting[descriptor]
            try:
                if client.socket.recv(65536):
                    continue
            except OSError:
                pass
            del waiting[descriptor]
    for client in clients:
        client.close()
    return "all closed" if not waiting else f"{len(waiting)} of 200 open"


@attack("silence", "200 connections without a byte", "all closed")
def silent_connections():
    return all_closed(Client, LIMITS["first_byte_timeout"] + WAIT)


@attack("silence", "200 connections with half a SETUP", "all closed")
def half_setups():
    def begin():
        client = Client()
        client.raw(client.carrier.encode(rs.setup())[:20])
        return client

    return all_closed(begin, LIMITS["login_timeout"] + WAIT)


@attack("silence", "200 WebSockets without a SETUP", "all closed")
def silent_websockets():
    return all_closed(lambda: Client(Ws), LIMITS["login_timeout"] + WAIT)


@attack("silence", "200 sessions that promise a keep-alive a second and send none", "all closed")
def broken_promises():
    return all_closed(lambda: Client().login(keepalive=100, lifetime=1000), 6 + WAIT)


# 16: open streams.
@attack("open streams", "100,000 streams on one connection", "REJECTED, lives")
def many_streams():
    with Client() as client:
        client.login()
        for n in range(0, 100_000, 1000):
            client.send(
                *(rs.request(rs.REQUEST_STREAM, 2 * (n + m) + 1, b"", rs.route("echo"), 1) for m in range(1000)),
                rs.keepalive(respond=False) if n % 20_000 == 0 else rs.cancel(1),
            )
        return with_errors(client)


@attack("open streams", "20,000 subscriptions on one connection", "REJECTED, lives")
def many_subscriptions():
    root = unique("many")
    with Client() as client:
        client.login()
        for n in range(0, 20_000, 1000):
            client.send(
                *(
                    rs.request(rs.REQUEST_STREAM, 2 * (n + m) + 1, b"", rs.route(f"{root}/{n + m}"), 1)
                    for m in range(1000)
                )
            )
        return with_errors(client)


@attack("open streams", "100,000 streams begun and cancelled", "lives")
def stream_churn():
    root = unique("churn")
    with Client() as client:
        client.login()
        for n in range(0, 100_000, 1000):
            client.send(
                *(
                    one
                    for m in range(1000)
                    for one in (
                        rs.request(rs.REQUEST_STREAM, 2 * (n + m) + 1, b"", rs.route(f"{root}/*/x"), 1),
                        rs.cancel(2 * (n + m) + 1),
                    )
                )
            )
        return outcome(client)


@attack(
    "open streams", "10,000 calls of a service that never answers", "REJECTED, lives|APPLICATION_ERROR, REJECTED, lives"
)
def many_calls():
    service = unique("silent")
    with Client().login() as server, Client().login() as client:
        server.send(rs.request(rs.REQUEST_STREAM, 1, b"", rs.route(f"serve:{service}"), MANY))
        for n in range(0, 10_000, 1000):
            client.send(
                *(
                    rs.request(rs.REQUEST_RESPONSE, 2 * (n + m) + 1, b"x" * 100, rs.route(f"service:{service}"))
                    for m in range(1000)
                )
            )
        return with_errors(client)


# 17: resumption.
def resuming(token, **options):
    return Client().login(token=token, **options)


def keep(client):
    """Sends what makes a session worth keeping; returns how far its client has come, in bytes."""
    client.ask(rs.REQUEST_STREAM, unique("kept"))
    got = client.respond("echo", data=b"ready")
    assert got.data == b"ready", got
    return len(got.raw)


def resumed(token, received, available=0, credentials=None):
    """RESUME on a new connection: what the server says."""
    client = Client()
    client.send(rs.resume(token, received, available))
    got = client.next_that(lambda got: got.type in (rs.RESUME_OK, rs.ERROR))
    return client, got


@attack("resumption", "SETUP with the token of somebody's live session", "REJECTED_SETUP .*, the other lives")
def taken_token():
    token = os.urandom(16)
    with resuming(token) as victim:
        keep(victim)
        with resuming(token) as thief:
            # The token is looked up on another shard, which takes a moment.
            for _ in range(1000):
                got = thief.respond("echo", data=b"mine?")
                if got.stream == 0:
                    break
        return f"{got.code} {got.text.split(':')[0]}, the other {outcome(victim)}"


@attack(
    "resumption", "RESUME from a position that never was, then from the right one", "REJECTED_RESUME, RESUME_OK, lives"
)
def wrong_position():
    token = os.urandom(16)
    victim = resuming(token)
    received = keep(victim)
    victim.close()
    thief, first = resumed(token, 2**40, 2**40)
    thief.close()
    client, second = resumed(token, received)
    with client:
        return f"{first.code}, {second.kind}, {outcome(client)}"


@attack("resumption", "1,000 guesses of tokens", "1,000 times REJECTED_RESUME")
def guesses():
    codes = []
    for n in range(1000):
        client, got = resumed(os.urandom(16), 0)
        client.close()
        codes.append(got.code)
    assert set(codes) == {"REJECTED_RESUME"}, set(codes)
    return "1,000 times REJECTED_RESUME"


register(
    "resumption",
    "REJECTED_SETUP .*|INVALID_SETUP .*",
    {
        "a token of no bytes": rs.setup(metadata=rs.bearer(), token=b""),
        "a token of one byte": rs.setup(metadata=rs.bearer(), token=b"x"),
        "a token of 15 KiB": rs.setup(metadata=rs.bearer(), token=b"x" * 15_000),
    },
    login=False,
)


@attack("resumption", "2,000 sessions left behind, each with 60 KiB that was not read", "answered")
def left_behind():
    for n in range(2000):
        client = Client(source=(f"127.0.0.{n % 100 + 2}", 0))
        client.login(token=os.urandom(16))
        client.send(*(rs.request(rs.REQUEST_RESPONSE, 2 * m + 1, b"x" * 6000, rs.route("echo")) for m in range(10)))
        client.close()
    # While so many logins wait, others are asked to come again.
    while True:
        with Client().login() as other:
            if (end := outcome(other)) != "REJECTED_SETUP too-many-logins":
                return "answered" if end == "lives" else end


@attack("resumption", "one session handed to and fro 300 times", "lives")
def to_and_fro():
    token = os.urandom(16)
    client = resuming(token)
    received = keep(client)
    for _ in range(300):
        before = client
        client, got = resumed(token, received)
        before.close()
        assert got.type == rs.RESUME_OK, got
    with client:
        return outcome(client)
