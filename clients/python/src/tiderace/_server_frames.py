"""Messages from server to client (docs/protocol.md, section 5): one class each, with both directions of its bytes.

A client only decodes them; what stands in for a server encodes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from . import _messages as m
from ._client_frames import bounded, known_flags, read_properties, write_properties
from ._wire import Reader, Writer


@dataclass(slots=True)
class Welcome:
    TYPE: ClassVar[int] = m.WELCOME
    name: str
    epoch: bytes
    ping_ms: int
    message_bytes_max: int
    subscriptions_max: int
    declarations_max: int
    jitter_ms: int
    codecs: tuple[int, ...]
    server: str
    features: int = 0
    version: int = 1

    def write(self, out: Writer) -> None:
        out.varint(self.version).varint(0).string(self.name).blob(self.epoch).varint(self.ping_ms)
        out.varint(self.message_bytes_max).varint(self.subscriptions_max).varint(self.declarations_max)
        out.varint(self.jitter_ms).varint(len(self.codecs))
        for codec in self.codecs:
            out.varint(codec)
        out.string(self.server)
        if self.features:
            out.varint(self.features)

    @staticmethod
    def read(data: Reader) -> Welcome:
        version = data.varint()
        known_flags(data.varint(), 0, "WELCOME")
        name, epoch = data.string(), data.blob()
        numbers = data.varint(), data.varint(), data.varint(), data.varint(), data.varint()
        codecs = tuple(data.varint() for _ in range(bounded(data)))
        server = data.string()
        return Welcome(name, epoch, *numbers, codecs, server, 0 if data.empty else data.varint(), version)


@dataclass(slots=True)
class Ok:
    TYPE: ClassVar[int] = m.OK
    first: int
    more: int = 0

    def write(self, out: Writer) -> None:
        out.varint(self.first).varint(self.more)

    @staticmethod
    def read(data: Reader) -> Ok:
        return Ok(data.varint(), data.varint())


@dataclass(slots=True)
class Error:
    TYPE: ClassVar[int] = m.ERROR
    request: int
    code: int
    name: str
    sentence: str

    def write(self, out: Writer) -> None:
        out.varint(self.request).varint(self.code).string(self.name).string(self.sentence)

    @staticmethod
    def read(data: Reader) -> Error:
        return Error(data.varint(), data.varint(), data.string(), data.string())


@dataclass(slots=True)
class TopicId:
    TYPE: ClassVar[int] = m.TOPIC
    topic: int
    subscription: int
    path: str

    def write(self, out: Writer) -> None:
        out.varint(self.topic).varint(self.subscription).string(self.path)

    @staticmethod
    def read(data: Reader) -> TopicId:
        return TopicId(data.varint(), data.varint(), data.string())


class UpdateEntry(NamedTuple):
    """One update: `version` is whole with FULL_VERSION, otherwise its lowest 16 bits."""

    flags: int
    id: int
    version: int
    data: bytes
    properties: bytes | None = None


@dataclass(slots=True)
class Updates:
    TYPE: ClassVar[int] = m.UPDATES
    entries: list[UpdateEntry]

    def write(self, out: Writer) -> None:
        for flags, number, version, data, properties in self.entries:
            out.u8(flags).varint(number)
            if flags & m.FULL_VERSION:
                out.varint(version)
            else:
                out.u16le(version)
            write_properties(out, flags, properties)
            out.blob(data)

    @staticmethod
    def read(data: Reader) -> Updates:
        entries = []
        while data.at < data.end:
            flags = data.u8()
            number = data.varint()
            version = data.varint() if flags & m.FULL_VERSION else data.u16le()
            properties = data.blob() if flags & m.PROPERTIES else None
            entries.append(UpdateEntry(flags, number, version, data.blob(), properties))
        return Updates(entries)


class Entry(NamedTuple):
    """A body with its content and properties, as QUEUED and RESULT have them."""

    flags: int
    body: bytes
    properties: bytes | None = None


def _write_entries(out: Writer, entries: list[Entry]) -> None:
    for flags, body, properties in entries:
        write_properties(out.u8(flags), flags, properties)
        out.blob(body)


def _read_entries(data: Reader, message: str) -> list[Entry]:
    entries = []
    while not data.empty:
        flags = known_flags(data.u8(), m.CONTENT | m.PROPERTIES, message)
        properties = read_properties(data, flags)
        entries.append(Entry(flags, data.blob(), properties))
    return entries


@dataclass(slots=True)
class Queued:
    TYPE: ClassVar[int] = m.QUEUED
    flags: int
    id: int
    home: int
    first: int
    redeliveries: int
    entries: list[Entry]

    def write(self, out: Writer) -> None:
        out.u8(self.flags).varint(self.id).varint(self.home).varint(self.first).varint(self.redeliveries)
        _write_entries(out, self.entries)

    @staticmethod
    def read(data: Reader) -> Queued:
        flags = known_flags(data.u8(), m.ANNOUNCED, "QUEUED")
        fields = data.varint(), data.varint(), data.varint(), data.varint()
        return Queued(flags, *fields, _read_entries(data, "an entry of QUEUED"))


@dataclass(slots=True)
class Exchange:
    """`id` says which service was called, if RESPONDER and FIRST are both set."""

    TYPE: ClassVar[int] = m.EXCHANGE
    flags: int
    number: int
    body: bytes = b""
    properties: bytes | None = None
    id: int = 0

    def write(self, out: Writer) -> None:
        out.u8(self.flags).varint(self.number)
        if self.flags & m.RESPONDER and self.flags & m.FIRST:
            out.varint(self.id)
        write_properties(out, self.flags, self.properties)
        out.raw(self.body)

    @staticmethod
    def read(data: Reader) -> Exchange:
        flags, number = data.u8(), data.varint()
        service = data.varint() if flags & m.RESPONDER and flags & m.FIRST else 0
        properties = read_properties(data, flags)
        return Exchange(flags, number, data.rest(), properties, service)


@dataclass(slots=True)
class PositionFrame:
    """By numbering the number of the last message."""

    TYPE: ClassVar[int] = m.POSITION
    homes: list[tuple[int, int]]

    def write(self, out: Writer) -> None:
        for home, number in self.homes:
            out.varint(home).varint(number)

    @staticmethod
    def read(data: Reader) -> PositionFrame:
        homes = []
        while not data.empty:
            homes.append((data.varint(), data.varint()))
        return PositionFrame(homes)


@dataclass(slots=True)
class Recovered:
    TYPE: ClassVar[int] = m.RECOVERED
    request: int
    complete: bool
    continues: bool

    def write(self, out: Writer) -> None:
        out.varint(self.request).u8(self.complete).u8(self.continues)

    @staticmethod
    def read(data: Reader) -> Recovered:
        request, complete = data.varint(), data.u8() == 1
        return Recovered(request, complete, not data.empty and data.u8() == 1)


@dataclass(slots=True)
class Ended:
    TYPE: ClassVar[int] = m.ENDED
    side: int
    number: int
    code: int
    name: str
    sentence: str

    def write(self, out: Writer) -> None:
        out.u8(self.side).varint(self.number).varint(self.code).string(self.name).string(self.sentence)

    @staticmethod
    def read(data: Reader) -> Ended:
        return Ended(1 if data.u8() else 0, data.varint(), data.varint(), data.string(), data.string())


@dataclass(slots=True)
class Pong:
    TYPE: ClassVar[int] = m.PONG
    data: bytes = b""

    def write(self, out: Writer) -> None:
        out.raw(self.data)

    @staticmethod
    def read(data: Reader) -> Pong:
        return Pong(data.rest())


@dataclass(slots=True)
class Close:
    """`addresses` say where to connect instead; servers that know none leave the field away."""

    TYPE: ClassVar[int] = m.CLOSE
    code: int
    name: str
    sentence: str
    reconnect: bool
    jitter_ms: int
    addresses: list[str] = field(default_factory=list)

    def write(self, out: Writer) -> None:
        out.varint(self.code).string(self.name).string(self.sentence).u8(self.reconnect).varint(self.jitter_ms)
        if self.addresses:
            out.varint(len(self.addresses))
            for address in self.addresses:
                out.string(address)

    @staticmethod
    def read(data: Reader) -> Close:
        code, name, sentence = data.varint(), data.string(), data.string()
        reconnect, jitter_ms = data.u8() == 1, data.varint()
        addresses = [] if data.empty else [data.string() for _ in range(bounded(data))]
        return Close(code, name, sentence, reconnect, jitter_ms, addresses)


@dataclass(slots=True)
class LoggedIn:
    TYPE: ClassVar[int] = m.LOGGED_IN
    request: int
    name: str

    def write(self, out: Writer) -> None:
        out.varint(self.request).string(self.name)

    @staticmethod
    def read(data: Reader) -> LoggedIn:
        return LoggedIn(data.varint(), data.string())


@dataclass(slots=True)
class Result:
    TYPE: ClassVar[int] = m.RESULT
    request: int
    result: str
    entries: list[Entry]

    def write(self, out: Writer) -> None:
        _write_entries(out.varint(self.request).string(self.result), self.entries)

    @staticmethod
    def read(data: Reader) -> Result:
        request, result = data.varint(), data.string()
        return Result(request, result, _read_entries(data, "an entry of RESULT"))


@dataclass(slots=True)
class Joined:
    TYPE: ClassVar[int] = m.JOINED
    subscription: int
    path: str
    spec: str

    def write(self, out: Writer) -> None:
        out.varint(self.subscription).string(self.path).string(self.spec)

    @staticmethod
    def read(data: Reader) -> Joined:
        return Joined(data.varint(), data.string(), data.string())


@dataclass(slots=True)
class Left:
    TYPE: ClassVar[int] = m.LEFT
    subscription: int
    path: str
    reason: str

    def write(self, out: Writer) -> None:
        out.varint(self.subscription).string(self.path).string(self.reason)

    @staticmethod
    def read(data: Reader) -> Left:
        return Left(data.varint(), data.string(), data.string())


@dataclass(slots=True)
class Follows:
    TYPE: ClassVar[int] = m.FOLLOWS
    flags: int
    id: int
    version: int

    def write(self, out: Writer) -> None:
        out.u8(self.flags).varint(self.id).varint(self.version)

    @staticmethod
    def read(data: Reader) -> Follows:
        return Follows(known_flags(data.u8(), m.ANNOUNCED, "FOLLOWS"), data.varint(), data.varint())


@dataclass(slots=True)
class Browsed:
    TYPE: ClassVar[int] = m.BROWSED
    subscription: int

    def write(self, out: Writer) -> None:
        out.varint(self.subscription)

    @staticmethod
    def read(data: Reader) -> Browsed:
        return Browsed(data.varint())


@dataclass(slots=True)
class Unsubscribed:
    TYPE: ClassVar[int] = m.UNSUBSCRIBED
    subscription: int
    code: int
    name: str
    sentence: str

    def write(self, out: Writer) -> None:
        out.varint(self.subscription).varint(self.code).string(self.name).string(self.sentence)

    @staticmethod
    def read(data: Reader) -> Unsubscribed:
        return Unsubscribed(data.varint(), data.varint(), data.string(), data.string())


ServerFrame = (
    Welcome | Ok | Error | TopicId | Updates | Queued | Exchange | PositionFrame | Recovered | Ended | Pong | Close
    | LoggedIn | Result | Joined | Left | Follows | Browsed | Unsubscribed
)  # fmt: skip

_READERS: dict[int, Callable[[Reader], ServerFrame]] = {
    Welcome.TYPE: Welcome.read,
    Ok.TYPE: Ok.read,
    Error.TYPE: Error.read,
    TopicId.TYPE: TopicId.read,
    Updates.TYPE: Updates.read,
    Queued.TYPE: Queued.read,
    Exchange.TYPE: Exchange.read,
    PositionFrame.TYPE: PositionFrame.read,
    Recovered.TYPE: Recovered.read,
    Ended.TYPE: Ended.read,
    Pong.TYPE: Pong.read,
    Close.TYPE: Close.read,
    LoggedIn.TYPE: LoggedIn.read,
    Result.TYPE: Result.read,
    Joined.TYPE: Joined.read,
    Left.TYPE: Left.read,
    Follows.TYPE: Follows.read,
    Browsed.TYPE: Browsed.read,
    Unsubscribed.TYPE: Unsubscribed.read,
}


def read_server_frame(kind: int, data: Reader) -> ServerFrame | None:
    """The message of that type; `None` for unknown ones, which clients skip."""
    reader = _READERS.get(kind)
    return None if reader is None else reader(data)
