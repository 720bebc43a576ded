"""What the RSocket attacks share, and attacks on the first frame, on single frames and on what they say of streams.

Each is named by what it attacks. While one runs, `companion` goes on beside it on a connection of its own.
"""

import random
import struct

import rswire as rs
from hostile import case
from rswire import LEASED, MANY, METADATA, NEXT, Client, Closed, Tcp, Ws

SETUP_REFUSED = "INVALID_SETUP .*"
REFUSED = "CONNECTION_ERROR .*"


def attack(against, sends, expected):
    """Registers the function below it as an attack on RSocket."""
    return case(f"RSocket: {against}", sends, expected, beside=True)


def last(found):
    """The name of the error that ended a connection, from all its frames."""
    for got in reversed(found):
        if got.type == rs.ERROR and got.stream == 0:
            return f"{got.code} {got.text.split(':')[0]}"
    return "closed"


def outcome(client):
    """`lives` if the connection still answers a keep-alive; otherwise the last thing said of it."""
    client.socket.settimeout(3)
    try:
        client.socket.sendall(client.carrier.encode(rs.keepalive(b"alive")))
    except TimeoutError:
        return "open, not read"
    except OSError:  # cut while sending: what was said is still to be read
        return last(client.drain())
    try:
        got = client.next_that(
            lambda got: got.stream == 0 and (got.type == rs.ERROR or got.type == rs.KEEPALIVE and got.data == b"alive")
        )
    except TimeoutError:
        return "open, no answer"
    except Closed:
        return last(client.kept)
    return "lives" if got.type == rs.KEEPALIVE else last([got])


def sent(*frames, carrier=Tcp, login=True, then=outcome):
    """Sends frames on a connection of its own, and says what became of it."""
    with Client(carrier) as client:
        if login:
            client.login()
        try:
            client.send(*frames)
        except OSError:  # cut while sending: what was said is still to be read
            pass
        return then(client)


def answered(*frames, carrier=Tcp):
    """The same where the connection must go on: the first error of a stream, and whether it lives."""
    with Client(carrier) as client:
        client.login()
        client.send(*frames)
        end = outcome(client)
        errors = [got.code for got in client.kept if got.type == rs.ERROR]
        return f"{errors[0]}, {end}" if errors else end


def register(against, expected, attacks, **options):
    for sends, frames in attacks.items():
        frames = frames if isinstance(frames, tuple) else (frames,)
        attack(against, sends, expected)(lambda frames=frames: sent(*frames, **options))


def tolerated(against, expected, attacks):
    for sends, frames in attacks.items():
        frames = frames if isinstance(frames, tuple) else (frames,)
        attack(against, sends, expected)(lambda frames=frames: answered(*frames))


ASK = rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.route("echo"))

# 2: the first frame.
register(
    "the first frame",
    SETUP_REFUSED,
    {
        "a request, by WebSocket": ASK,
        "a keep-alive, by WebSocket": rs.keepalive(),
        "a METADATA_PUSH of 8 KiB, by WebSocket": rs.metadata_push(b"x" * 8192),
        "an item of nothing, by WebSocket": rs.item(1, b"x"),
        "SETUP on stream 1, by WebSocket": rs.setup(stream=1),
        "a frame of no bytes, by WebSocket": b"",
        "a frame of five bytes, by WebSocket": b"\0\0\0\0\4",
        "a frame of random bytes, by WebSocket": random.Random(7).randbytes(2000),
    },
    carrier=Ws,
    login=False,
)
register(
    "the first frame",
    f"{SETUP_REFUSED}|REJECTED_SETUP .*",
    {
        "a SETUP of 60 KiB": rs.setup(data=b"x" * 60_000),
        "a SETUP that declares 16 MiB": b"\0\0\0\0\4\0" + b"x" * 100,
        "a keep-alive interval of nothing": rs.setup(keepalive=0),
        "a max lifetime of nothing": rs.setup(lifetime=0),
        "a MIME type that is not ASCII": rs.setup(mime=b"\xff\xfe"),
        "a MIME type beyond the frame": rs.frame(rs.SETUP, 0, struct.pack("!HHIIB", 1, 0, 1, 1, 255) + b"x"),
        "a token beyond the frame": rs.frame(rs.SETUP, 0, struct.pack("!HHIIH", 1, 0, 1, 1, 65535), rs.RESUMABLE),
        "metadata beyond the frame": rs.frame(rs.SETUP, 0, rs.setup()[6:] + b"\xff\xff\xffx", METADATA),
        "composite metadata that is none": rs.setup(metadata=b"\xff\xff\xff\xff\xff"),
        "an authentication type beyond its entry": rs.setup(metadata=rs.entry(0x7C, b"\x7f")),
        "a user name beyond its entry": rs.setup(metadata=rs.entry(0x7C, b"\x80\xff\xffx")),
    },
    login=False,
)
register(
    "the first frame",
    "UNSUPPORTED_SETUP .*",
    {"version 2.0": rs.setup(version=(2, 0)), "version 65535.65535": rs.setup(version=(65535, 65535))},
    login=False,
)
register(
    "the first frame",
    "REJECTED_SETUP .*",
    {
        "a wrong token": rs.setup(metadata=rs.bearer("wrong")),
        "a wrong password": rs.setup(metadata=rs.simple("tide", "wrong")),
        "a user name of 3 KB": rs.setup(metadata=rs.simple("u" * 3000, "p")),
    },
    login=False,
)
register(
    "the first frame",
    "INVALID_SETUP frame-too-large|REJECTED_SETUP .*",
    {"a user name of 8 KB": rs.setup(metadata=rs.simple("u" * 8000, "p"))},
    login=False,
)


@attack("the first frame", "64 MiB before the login is done, by WebSocket", f"{REFUSED}|{SETUP_REFUSED}|closed|lives")
def early():
    with Client(Ws) as client:
        client.send(rs.setup(metadata=rs.simple()))
        one = client.carrier.encode(rs.request(rs.REQUEST_FNF, 1, b"x" * 8000, rs.route("early")))
        flood(client, one, 64)
        return outcome(client)


def flood(client, one, mebibytes, seconds=3):
    """Sends the same bytes again and again until so much is sent, or the server will not have more."""
    block = one * max(1, 262_144 // len(one))
    client.socket.settimeout(seconds)
    try:
        for _ in range(mebibytes * 2**20 // len(block) + 1):
            client.socket.sendall(block)
    except TimeoutError:
        return "held back"
    except OSError:
        return "refused"
    return "taken"


# 11: metadata.
register(
    "metadata",
    REFUSED,
    {
        "metadata longer than the frame": rs.frame(rs.REQUEST_RESPONSE, 1, b"\xff\xff\xffx", METADATA),
        "a length of metadata cut short": rs.frame(rs.REQUEST_RESPONSE, 1, b"\0\0", METADATA),
        "an item with metadata longer than the frame": rs.frame(rs.PAYLOAD, 1, b"\0\1\0x", METADATA | NEXT),
    },
)
tolerated(
    "metadata",
    "(INVALID|REJECTED|APPLICATION_ERROR), lives",
    {
        "an entry beyond its metadata": rs.request(rs.REQUEST_RESPONSE, 1, b"x", b"\xfe\0\xff\xffx"),
        "a tag beyond its entry": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.entry(0x7E, b"\xffx")),
        "a MIME type beyond its metadata": rs.request(rs.REQUEST_RESPONSE, 1, b"x", b"\x7fx"),
        "a route that is not UTF-8": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.entry(0x7E, b"\2\xff\xfe")),
        "a route with control characters": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.route("a\0b")),
        "a route of no levels": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.route("a//b")),
        "a pattern with stars everywhere": rs.request(rs.REQUEST_STREAM, 1, b"", rs.route("*a" * 100), MANY),
        "an expression of 10 to the 9 states": rs.request(
            rs.REQUEST_STREAM, 1, b"", rs.route("?(((a{99}){99}){99}){99}"), MANY
        ),
    },
)
tolerated(
    "metadata",
    "lives|INVALID, lives",
    {
        "4,000 entries nobody knows": rs.request(
            rs.REQUEST_RESPONSE, 1, b"x", rs.entry(b"x/y", b"") * 2000 + rs.route("echo")
        ),
        "4,000 tags": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.entry(0x7E, b"\4echo" + b"\1x" * 4000)),
    },
)

# 12: frames.
register(
    "frames",
    REFUSED,
    {
        "a frame of no bytes": b"",
        "a frame of five bytes": b"\0\0\0\1\x10",
        "a type that is not known": rs.frame(0x2A, 1, b"x"),
        "a type that is not known, on stream 0": rs.frame(0x2A, 0, b"x"),
        "an extension that must be understood": rs.frame(rs.EXT, 1, b"\0\0\0\1x"),
        "a stream's request without its demand": rs.frame(rs.REQUEST_STREAM, 1, b"\0"),
        "a REQUEST_N of two bytes": rs.frame(rs.REQUEST_N, 1, b"\0\0"),
        "a keep-alive of seven bytes": rs.frame(rs.KEEPALIVE, 0, b"\0" * 7),
        "an error of three bytes": rs.frame(rs.ERROR, 1, b"\0\0\1"),
        "a lease of seven bytes": rs.frame(rs.LEASE, 0, b"\0" * 7),
        "a RESUME in the middle": rs.resume(b"t" * 16),
        "a RESUME_OK nobody waits for": rs.frame(rs.RESUME_OK, 0, b"\0" * 8),
    },
)
register("frames", f"{REFUSED}|lives", {"text, by WebSocket": ()}, carrier=Ws, then=lambda client: as_text(client))
tolerated(
    "frames",
    "lives",
    {
        "a type that is not known and may be ignored": rs.frame(0x2A, 1, b"x", rs.IGNORE),
        "an extension that may be ignored": rs.frame(rs.EXT, 0, b"\0\0\0\1x", rs.IGNORE),
        "CANCEL, REQUEST_N, ERROR and an item of streams that never were": (
            rs.cancel(99),
            rs.request_n(101, 5),
            rs.error(103, 0x201, "no"),
            rs.item(105, b"x"),
        ),
        "METADATA_PUSH on stream 5": rs.metadata_push(b"x", stream=5),
        "a lease, to a server that asked for none": rs.lease(1000, 10),
        "all flags at once": rs.request(rs.REQUEST_RESPONSE, 1, b"x", rs.route("echo"), flags=0x27F),
    },
)


def as_text(client):
    client.carrier.websocket.send("SETUP")
    got = outcome(client)
    return f"{got}" if client.carrier.close_code else got


@attack("frames", "20,000 frames of random bytes, each on a new connection where the last is refused", "answered")
def random_frames():
    source, client = random.Random(20), None
    for _ in range(20_000):
        if client is None:
            client = Client().login()
        try:
            size = source.choice((0, 1, 5, 6, 7, 10, 14, 20, 60))
            client.send(source.randbytes(size) if source.random() < 0.1 else likely(source, size))
        except OSError:
            client.close()
            client = None
    if client:
        client.close()
    return "answered"


def likely(source, size):
    """A frame of a known type on a stream with a small id, the rest by chance."""
    kind = source.choice((*range(1, 16), rs.EXT))
    return rs.frame(kind, source.choice((0, 0, 1, 2, 3, 2**31 - 1)), source.randbytes(size), source.randrange(1024))


@attack("frames", "every frame cut at every byte", "answered")
def truncated_frames():
    frames = [
        rs.setup(metadata=rs.bearer(), token=b"t" * 16),
        rs.request(rs.REQUEST_CHANNEL, 1, b"x", rs.route("echo"), 5),
        rs.item(1, b"x", b"metadata"),
        rs.resume(b"t" * 16, 5, 5),
        rs.keepalive(b"data"),
        rs.lease(5, 5),
    ]
    for one in frames:
        for size in range(len(one)):
            sent(one[:size], login=one is not frames[0], then=lambda client: None)
    return "answered"


# 5 and 13: ids of streams.
@attack("stream ids", "100,000 requests under the id of a stream that is open", "CONNECTION_ERROR too-many-faults")
def repeated_ids():
    with Client() as client:
        client.login()
        flood(client, client.carrier.encode(rs.request(rs.REQUEST_STREAM, 1, b"x", rs.route("echo"), 1)), 6)
        return outcome(client)


@attack("stream ids", "a request under the id of a stream that is open", "2 items, lives")
def repeated_id():
    with Client() as client:
        client.login()
        client.send(rs.request(rs.REQUEST_STREAM, 1, b"first", rs.route("echo"), 1))
        client.send(rs.request(rs.REQUEST_STREAM, 1, b"second", rs.route("echo"), 1), rs.request_n(1, 1))
        items = [client.next(1).data for _ in range(2)]
        assert items == [b"first", b"first"], items
        return f"2 items, {outcome(client)}"


register(
    "stream ids",
    "CONNECTION_ERROR too-many-faults",
    {
        "1,000 requests with even ids": tuple(
            rs.request(rs.REQUEST_FNF, 2 * n, b"x", rs.route("t")) for n in range(1, 1001)
        ),
        "1,000 requests on stream 0": (rs.request(rs.REQUEST_FNF, 0, b"x", rs.route("t")),) * 1000,
        "1,000 items on stream 0": (rs.item(0, b"x"),) * 1000,
    },
)
tolerated(
    "stream ids",
    "lives",
    {
        "the highest id of all": rs.request(rs.REQUEST_RESPONSE, 2**31 - 1, b"x", rs.route("echo")),
        "ids from high to low": tuple(
            rs.request(rs.REQUEST_RESPONSE, n, b"x", rs.route("echo")) for n in range(199, 0, -2)
        ),
    },
)

# 14 and 15: demand of nothing, SETUP again.
register(
    "demand",
    "CONNECTION_ERROR too-many-faults",
    {
        "1,000 streams with a demand of nothing": tuple(
            rs.request(rs.REQUEST_STREAM, n, b"x", rs.route("echo"), 0) for n in range(1, 2001, 2)
        ),
        "1,000 REQUEST_N of nothing": (rs.request(rs.REQUEST_STREAM, 1, b"x", rs.route("echo"), 1),)
        + (rs.request_n(1, 0),) * 1000,
    },
)
register(
    "SETUP again", "CONNECTION_ERROR too-many-faults", {"100,000 SETUPs": (rs.setup(metadata=rs.bearer()),) * 100_000}
)
tolerated("SETUP again", "lives", {"ten SETUPs": (rs.setup(metadata=rs.bearer("wrong")),) * 10})


# 18: leases.
@attack(
    "leases", "1,000 requests before the first lease could come, and beyond it", "REJECTED|lives|CONNECTION_ERROR .*"
)
def without_lease():
    with Client() as client:
        client.send(rs.setup(metadata=rs.bearer(), flags=LEASED))
        for _ in range(1000):
            client.ask(rs.REQUEST_RESPONSE, "echo", data=b"x")
        got = client.next_that(lambda got: got.type == rs.ERROR)
        return got.code


@attack("leases", "ten times as many requests as the lease allows", "REJECTED|CONNECTION_ERROR")
def beyond_lease():
    with Client() as client:
        client.send(rs.setup(metadata=rs.bearer(), flags=LEASED))
        granted = client.next_that(lambda got: got.type == rs.LEASE)
        assert 0 < granted.n <= 100_000 and granted.ttl > 0, granted
        one = b"".join(
            client.carrier.encode(rs.request(rs.REQUEST_FNF, n, b"", rs.route("lease")))
            for n in range(1, 2 * granted.n, 2)
        )
        client.raw(one)
        while True:
            client.send(rs.request(rs.REQUEST_RESPONSE, 2**30 + next(client.streams), b"x", rs.route("echo")))
            got = client.next_that(lambda got: got.type in (rs.ERROR, rs.PAYLOAD))
            if got.type == rs.ERROR:
                return got.code
