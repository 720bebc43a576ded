"""Many small things: subscriptions with selectors and globs, consumers, responders, waiting requests, presences, by each protocol."""

import json

import rswire
from dear import BYTES_MAX, Attack, dear
from dear_values import counted, native_frames, native_hello, push_all, varint_low
from hostile_engineio import dial
from wire import Client, encode, unique
from wsclient import frame

COLOUR = "colour"
LIKE = "colour LIKE '%r%e_%'"
PART = 10_000
"""Things that the sessions of a case have."""
AGAIN = 50_000
"""The number of a subscription that comes and goes."""


class Stomp:
    """Each way to say something gives bytes; `sent` sends them, framed, on a session of their own."""

    name = "STOMP"

    def subscribe(self, number, topic, selector=None, kind="topic"):
        fields = {"id": number, "destination": f"/{kind}/{topic.replace('/', '.')}"}
        return encode("SUBSCRIBE", fields | ({"selector": selector} if selector else {}))

    def unsubscribe(self, number, topic):
        return encode("UNSUBSCRIBE", {"id": number})

    def consume(self, number, queue, selector=None):
        return self.subscribe(number, queue, selector, "queue")

    def publish(self, topic, kind="topic"):
        return encode("SEND", {"destination": f"/{kind}/{topic.replace('/', '.')}", COLOUR: "blue"}, "x")

    def send(self, queue):
        return self.publish(queue, "queue")

    def session(self):
        client = Client()
        client.login()
        return client.socket

    def framed(self, data):
        return data


class SocketIo:
    name = "Socket.IO"

    def event(self, *arguments):
        return b"42" + json.dumps(arguments, separators=(",", ":")).encode() + b"\x1e"

    def subscribe(self, number, topic, selector=None):
        # A session may subscribe once to each name.
        topic = f"[{topic}, {number}]"
        return self.event("subscribe", topic, {"selector": selector} if selector else {})

    def unsubscribe(self, number, topic):
        return self.event("unsubscribe", f"[{topic}, {number}]")

    def publish(self, topic):
        return self.event("publish", topic, "x", {"headers": {COLOUR: "blue"}})

    def operate(self, number, operation):
        return self.event("operate", operation)

    def session(self):
        return dial().socket

    def framed(self, data):
        return b"".join(frame(1, event) for event in data.split(b"\x1e") if event)


class Native:
    name = "native"
    again = 0

    def message(self, kind, payload):
        return bytes([kind]) + counted(payload)

    def subscribe(self, number, topic, selector=None, kind=0):
        flags = (8 if selector else 0) | (256 if any(mark in topic for mark in "*[?") else 0)
        # Requests are numbered from 1 in each session, subscriptions as well but for those that come again.
        self.again += number == AGAIN
        request = self.again if number == AGAIN else number + 1
        payload = varint_low(request) + varint_low(number) + varint_low(flags) + bytes([kind]) + counted(topic.encode())
        return self.message(3, payload + (counted(selector.encode()) if selector else b""))

    def unsubscribe(self, number, topic):
        return self.message(4, varint_low(0) + varint_low(number))

    def consume(self, number, queue, selector=None):
        return self.subscribe(number, queue, selector, 1)

    def publish(self, topic, kind=0):
        destination = varint_low(0) + bytes([kind]) + counted(topic.encode())
        return self.message(6, varint_low(0) + b"\x04" + destination + counted(b"colour:blue\n") + b"x")

    def send(self, queue):
        return self.publish(queue, 1)

    def serve(self, number, service):
        return self.subscribe(number, service, None, 2)

    def call(self, number, service):
        destination = varint_low(0) + b"\2" + counted(service.encode())
        return self.message(8, varint_low(number) + b"\1" + varint_low(0) + destination + b"x")

    def operate(self, number, operation):
        return self.message(14, varint_low(number) + b"\0" + counted(json.dumps(operation).encode()))

    def session(self):
        return native_hello().socket

    def framed(self, data):
        return native_frames(list(native_messages(data)))


def native_messages(data):
    """The messages that lie one behind the other, each of them a kind, the length of the rest and the rest."""
    begin = 0
    while begin < len(data):
        length = shift = 0
        end = begin + 1
        while True:
            length |= (data[end] & 127) << shift
            shift, end = shift + 7, end + 1
            if data[end - 1] < 128:
                break
        yield data[begin : end + length]
        begin = end + length


class Rsocket:
    name = "RSocket"
    stream = 1

    def ask(self, kind, where, data=b"", n=None, more=b""):
        self.stream += 2
        one = rswire.request(kind, self.stream, data, rswire.route(where) + more, n)
        return len(one).to_bytes(3, "big") + one

    def options(self, selector):
        return rswire.entry(b"message/x.tiderace.options.v0", f"selector:{selector}\n".encode()) if selector else b""

    def subscribe(self, number, topic, selector=None):
        return self.ask(rswire.REQUEST_STREAM, f"topic:{topic}", n=2**31 - 1, more=self.options(selector))

    def consume(self, number, queue, selector=None):
        return self.ask(rswire.REQUEST_STREAM, f"queue:{queue}", n=1, more=self.options(selector))

    def publish(self, topic, kind="topic"):
        properties = rswire.entry(b"message/x.tiderace.properties.v0", b"colour:blue\n")
        return self.ask(rswire.REQUEST_FNF, f"{kind}:{topic}", b"x", more=properties)

    def send(self, queue):
        return self.publish(queue, "queue")

    def serve(self, number, service):
        return self.ask(rswire.REQUEST_STREAM, f"serve:{service}", n=1)

    def call(self, number, service):
        return self.ask(rswire.REQUEST_RESPONSE, f"service:{service}", b"x")

    def operate(self, number, operation):
        return self.ask(rswire.REQUEST_RESPONSE, "operate:", json.dumps(operation).encode())

    def session(self):
        return rswire.Client().login(lifetime=60_000).socket

    def framed(self, data):
        return data


SPEAKERS = [Stomp, SocketIo, Native, Rsocket]


def many(name, *needs):
    """Registers the function below it for each protocol that can say what it needs. It gives, of a speaker, the bytes of what
    is had first, by session, and of what is sent then, again and again within the megabyte; or None, if all sessions end then."""

    def register(prepare):
        for speaker in SPEAKERS:
            if not all(hasattr(speaker, need) for need in needs):
                continue

            def attack(speaker=speaker):
                one, deep = speaker(), name.startswith("a queue of")
                had, then = prepare(one)
                sessions, size = [], 0
                sent = one.session()
                for part in had:
                    if size + len(part) > BYTES_MAX * 3 // 4:
                        break
                    size += len(part)
                    sessions.append(push_all(one.session(), one.framed(part)))
                rest = bytearray()
                while then and size + len(rest) < BYTES_MAX:
                    rest += then(len(rest))
                has = {} if needs == ("operate",) or deep else {"tiderace_subscriptions": 1_000}
                if then is None:
                    sent.close()
                    return Attack(ends=sessions, grows={"tiderace_sessions": 1 - len(sessions)}, has=has)
                grows = "tiderace_calls_total" if "call" in needs else "tiderace_messages_received_total"
                if deep:
                    grows = "tiderace_subscriptions"
                sends = [(sent, one.framed(bytes(rest)))]
                # Each new queue takes memory for every consumer that comes to it, until there is none.
                last = "memory-full" if "pattern" in name else None
                return Attack(sends, holds=sessions, grows={grows: 20}, has=has, last=last)

            dear(speaker.name, name)(attack)
        return prepare

    return register


def parts(piece, count=PART, each=1_000):
    """What several sessions have: so many pieces, by session."""
    for first in range(0, count, each):
        yield b"".join(piece(number) for number in range(first, min(count, first + each)))


@many("10,000 subscriptions with one LIKE to one topic, and messages", "subscribe", "publish")
def same_selectors(one):
    topic = unique("m")
    return parts(lambda n: one.subscribe(n % 1_000, topic, LIKE)), lambda _: one.publish(topic)


@many("thousands of subscriptions with a LIKE each to one topic, and messages", "subscribe", "publish")
def own_selectors(one):
    topic = unique("m")
    had = parts(lambda n: one.subscribe(n % 1_000, topic, f"{LIKE} OR colour='{n}'"))
    return had, lambda _: one.publish(topic)


@many("thousands of consumers with a LIKE each of one queue, and messages", "consume", "send")
def selective_consumers(one):
    queue = unique("m")
    had = parts(lambda n: one.consume(n % 1_000, queue, f"{LIKE} OR colour='{n}'"))
    return had, lambda _: one.send(queue)


@many("a queue of thousands of messages, and consumers with a LIKE each", "consume", "send")
def deep_queue(one):
    queue, number = unique("m"), iter(range(10**6))
    return parts(lambda _: one.send(queue)), lambda _: one.consume(next(number), queue, LIKE)


@many("10,000 consumers of one queue, and messages", "consume", "send")
def consumers(one):
    queue = unique("m")
    return parts(lambda n: one.consume(n % 1_000, queue)), lambda _: one.send(queue)


@many("10,000 globs of four stars, and messages to new topics", "subscribe", "publish")
def globs(one):
    letters, topic = "abcdefghijklmnopqrstuvwxyz", unique("m")

    def glob(n):
        return f"*{letters[n % 26]}*{letters[n // 26 % 26]}*{letters[n // 676 % 26]}*/*"

    return parts(lambda n: one.subscribe(n % 1_000, glob(n))), lambda at: one.publish(f"{topic}/{at}")


@many("globs that come and go between messages", "subscribe", "unsubscribe", "publish")
def churn(one):
    topic = unique("m")
    had = parts(lambda n: one.subscribe(n % 1_000, f"*{n}*a*/*"))

    def then(at):
        glob = f"*m*{at}*/*"
        return one.subscribe(AGAIN, glob) + one.publish(f"{topic}/a") + one.unsubscribe(AGAIN, glob)

    return had, then


@many("thousands of consumers by a pattern, and messages to new queues", "consume", "send")
def queue_patterns(one):
    queue = unique("m")
    return parts(lambda n: one.consume(n % 1_000, f"{queue}/**"), 2_000), lambda at: one.send(f"{queue}/{at}")


@many("10,000 plain subscriptions to one topic, and messages", "subscribe", "publish")
def plain(one):
    topic = unique("m")
    return parts(lambda n: one.subscribe(n % 1_000, f"{topic}*")), lambda _: one.publish(topic)


@many("10,000 requests that wait for one lock, and their sessions end", "operate")
def waiting(one):
    lock = {"do": "lock", "name": unique("m"), "timeout": "10m"}
    return parts(lambda n: one.operate(n % 1_000 + 1, lock)), None


@many("10,000 responders of one service that have no room, and their sessions end", "serve")
def responders(one):
    service = unique("m")
    return parts(lambda n: one.serve(n % 1_000, service)), None


@many("thousands of responders of one service, and calls", "serve", "call")
def calls(one):
    service, number = unique("m"), iter(range(1, 10**6))
    return parts(lambda n: one.serve(n % 1_000, service), 5_000), lambda _: one.call(next(number), service)


@many("sessions that end with thousands of subscriptions", "subscribe")
def ends(one):
    topic = unique("m")
    return parts(lambda n: one.subscribe(n % 1_000, f"{topic}/{n}")), None
