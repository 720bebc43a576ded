"""Attacks on RSocket over HTTP/2: floods of frames, compression, windows, and what a stream may cost."""

import struct

import h2wire as h2
import rswire as rs
from h2wire import Connection, Ended, Post, frame, settings
from hostile_rsocket import attack, flood, outcome
from hostile_rsocket_floods import flooded, unread
from limits import LIMITS
from rswire import FOLLOWS, MANY, NEXT, Client
from wire import WAIT, unique

CALM, FLOW, PROTOCOL = "GOAWAY 11", "GOAWAY 3", "GOAWAY 1"
ENDED = "GOAWAY (1|2|3|5|6|7|9|11)|closed"


def ended_by(*blocks, then=None, **values):
    """Sends blocks of bytes on a connection that carries a working RSocket connection; how it ends."""
    with Connection(**values) as connection:
        h2.tunnel(connection).login()
        try:
            for block in blocks:
                connection.raw(block)
        except OSError:  # cut while sending: what was said is still to be read
            pass
        return connection.end(3) if then is None else then(connection)


def register(sends, expected, *blocks, **options):
    attack("HTTP/2", sends, expected)(lambda: ended_by(*blocks, **options))


def begun(stream):
    """A stream with a SETUP in it."""
    one = rs.setup(metadata=rs.bearer())
    return frame(h2.HEADERS, h2.END_HEADERS, stream, h2.post()) + frame(
        h2.DATA, 0, stream, len(one).to_bytes(3, "big") + one
    )


register(
    "50,000 RSocket connections begun and reset",
    ENDED,
    b"".join(begun(n) + frame(h2.RST_STREAM, 0, n, struct.pack("!I", 8)) for n in range(3, 100_003, 2)),
)
register(
    "50,000 streams reset before their SETUP",
    ENDED,
    b"".join(
        frame(h2.HEADERS, h2.END_HEADERS, n, h2.post()) + frame(h2.RST_STREAM, 0, n, struct.pack("!I", 8))
        for n in range(3, 100_003, 2)
    ),
)
register(
    "a header block of 10,000 CONTINUATION frames",
    ENDED,
    frame(h2.HEADERS, 0, 3, h2.post()) + frame(h2.CONTINUATION, 0, 3, h2.literal("a", "b" * 100)) * 10_000,
)
register(
    "100,000 empty CONTINUATION frames",
    ENDED,
    frame(h2.HEADERS, 0, 3, h2.post()) + frame(h2.CONTINUATION, 0, 3) * 100_000,
)
register("1,000,000 pings", ENDED, frame(h2.PING, data=b"12345678") * 1_000_000)
register("100,000 SETTINGS", ENDED, settings(window=65_535) * 100_000)
register("1,000,000 empty DATA frames in an RSocket connection", ENDED, frame(h2.DATA, 0, 1) * 1_000_000)
register(
    "1,000,000 window updates of one byte",
    ENDED + "|open",
    frame(h2.WINDOW_UPDATE, 0, 1, struct.pack("!I", 1)) * 1_000_000,
)
register("1,000,000 PRIORITY frames", ENDED, frame(h2.PRIORITY, 0, 1, b"\0\0\0\0\1") * 1_000_000)
register("1,000,000 frames of an unknown type", ENDED, frame(0x77, 0, 1, b"x") * 1_000_000)
register(
    "a block of 4 KiB that unpacks to 16 MiB of fields",
    ENDED + "|open",
    frame(h2.HEADERS, h2.END_HEADERS, 3, h2.post(more=b"\x40\x01a\x7f\xe1\x1e" + b"x" * 4000)),
    frame(h2.HEADERS, h2.END_HEADERS, 5, h2.post(more=b"\xbe" * 4096)),
)
register("a window update beyond 2^31", FLOW, frame(h2.WINDOW_UPDATE, 0, 0, struct.pack("!I", 2**31 - 1)) * 2)
register("a window update of nothing", PROTOCOL, frame(h2.WINDOW_UPDATE, 0, 0, b"\0\0\0\0"))
register("DATA for a stream that never was", ENDED, frame(h2.DATA, 0, 99, b"x"))
register("DATA on stream 0", PROTOCOL, frame(h2.DATA, 0, 0, b"x"))
register("a stream with an even id", PROTOCOL, frame(h2.HEADERS, h2.END_HEADERS, 2, h2.post()))
register("a frame of 16 MiB", ENDED, b"\xff\xff\xff\0\0\0\0\0\1" + b"x" * 2**20)
register("fields that are not compressed as they should be", ENDED, frame(h2.HEADERS, h2.END_HEADERS, 3, b"\xff" * 64))


@attack("HTTP/2", "6 MiB of frames of nothing, whatever the window has", "GOAWAY 3|ended|closed")
def beyond_the_window():
    def then(connection):
        try:
            connection.until(lambda: connection.streams[1].over or connection.goaway is not None)
        except Ended:
            return "closed"
        return "ended" if connection.goaway is None else f"GOAWAY {connection.goaway}"

    return ended_by(frame(h2.DATA, 0, 1, b"\0" * 16_000) * 400, then=then)


@attack("HTTP/2", "300 streams more than allowed, none with a SETUP", "refused, lives")
def many_streams():
    with Connection() as connection:
        client = h2.tunnel(connection).login()
        assert connection.limit <= 10_000, connection.limit
        count = connection.limit + 300
        for stream in range(3, 2 * count + 3, 2):
            connection.streams[stream] = h2.Stream(connection, stream)
            connection.raw(frame(h2.HEADERS, h2.END_HEADERS, stream, h2.post()))
        end = outcome(client)
        return f"{'refused' if 7 in connection.resets.values() else 'all taken'}, {end}"


@attack("HTTP/2", "100 streams on one connection, each without a SETUP", "all ended, lives")
def silent_streams():
    with Connection() as connection:
        client = h2.tunnel(connection).login(lifetime=60_000)
        streams = [connection.streams[connection.begin()] for _ in range(100)]
        connection.until(lambda: all(one.over for one in streams), LIMITS["login_timeout"] + WAIT)
        return f"all ended, {outcome(client)}"


@attack("HTTP/2", "an RSocket connection that breaks the rules, beside one that does not", "reset or ended, lives")
def one_of_two():
    with Connection() as connection:
        good, bad = h2.tunnel(connection).login(), h2.tunnel(connection).login()
        bad.send(b"\0\0")
        stream = bad.carrier.socket
        connection.until(lambda: stream.over)
        return f"reset or ended, {outcome(good)}"


@attack("HTTP/2", "a window of nothing, and 128 MiB of request-responses", "held back|refused")
def no_window():
    return unread(
        lambda n: rs.request(rs.REQUEST_RESPONSE, n, b"x" * 16_000, rs.route("echo")),
        mebibytes=128,
        carrier=lambda receive_buffer: Post(receive_buffer=receive_buffer, window=0),
    )


@attack("HTTP/2", "a window of nothing, and a topic that 256 MiB are published to", "taken|held back")
def no_window_for_a_topic():
    topic = unique("windowless")
    with Client(Post, window=0) as reader, Client().login() as publisher:
        reader.login()
        reader.send(rs.request(rs.REQUEST_STREAM, 1, b"", rs.route(topic), MANY))
        one = publisher.carrier.encode(rs.request(rs.REQUEST_FNF, 1, b"x" * 8000, rs.route(topic)))
        return flood(publisher, one, 256, seconds=3)


@attack("HTTP/2", "30 connections in one, with windows of one byte that open byte by byte", "lives")
def tiny_windows():
    with Connection(window=1) as connection:
        clients = [h2.tunnel(connection).login() for _ in range(30)]
        assert {outcome(client) for client in clients} == {"lives"}
        for client in clients:
            client.ask(rs.REQUEST_RESPONSE, "echo", data=b"x" * 200)
        return outcome(clients[-1])


@attack("HTTP/2", "METADATA_PUSH, 64 MiB", "CONNECTION_ERROR .*")
def metadata_pushes():
    return flooded(rs.metadata_push(b"x" * 8192), mebibytes=64, carrier=Post)


@attack("HTTP/2", "256 MiB of fragments of one message", "CONNECTION_ERROR .*")
def fragments():
    ask = rs.request(rs.REQUEST_RESPONSE, 1, b"x" * 100, rs.route("echo"), flags=FOLLOWS)
    return flooded(rs.item(1, b"x" * 60_000, flags=NEXT | FOLLOWS), mebibytes=256, carrier=Post, first=(ask,))


@attack("HTTP/2", "an echo, each byte in a DATA frame of its own", "lives")
def byte_by_byte():
    with Client(Post) as client:
        client.login()
        one = client.carrier.encode(rs.request(rs.REQUEST_RESPONSE, 1, b"x" * 500, rs.route("echo")))
        for n in range(len(one)):
            client.raw(one[n : n + 1])
        assert client.next(1).data == b"x" * 500
        return outcome(client)


@attack("HTTP/2", "a POST that ends with its fields", "200|400")
def no_body():
    with Connection() as connection:
        stream = connection.begin(flags=h2.END_HEADERS | h2.END_STREAM)
        try:
            connection.until(lambda: stream in connection.statuses)
        except Ended:
            return "closed"
        return str(connection.statuses[stream])
