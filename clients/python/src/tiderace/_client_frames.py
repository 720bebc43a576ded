"""Messages from client to server (docs/protocol.md, section 4): one class each, with both directions of its bytes.

A client only encodes them; what stands in for a server decodes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from . import _messages as m
from ._errors import malformed
from ._wire import Reader, Writer

SUBSCRIBE_FLAGS = 0x1FFFF
SEND_FLAGS = m.CONTENT | m.PROPERTIES | m.LAST | m.RESPONDER | m.BARE


@dataclass(slots=True)
class Anonymous:
    """Nobody in particular."""


@dataclass(slots=True)
class Password:
    """A name and its password."""

    user: str
    password: str


@dataclass(slots=True)
class Token:
    """A token, whose meaning the server knows."""

    token: str


Auth = Anonymous | Password | Token


def _write_auth(out: Writer, auth: Auth) -> None:
    if isinstance(auth, Token):
        out.u8(2).string(auth.token)
    elif isinstance(auth, Password):
        out.u8(1).string(auth.user).string(auth.password)
    else:
        out.u8(0)


def _read_auth(data: Reader) -> Auth:
    kind = data.u8()
    if kind == 0:
        return Anonymous()
    if kind == 1:
        return Password(data.string(), data.string())
    if kind == 2:
        return Token(data.string())
    raise malformed(f"credentials of kind {kind} are unknown")


@dataclass(slots=True)
class Destination:
    """A kind and a path, or the number that a DECLARE gave them."""

    kind: int = m.TOPIC_KIND
    path: str = ""
    declared: int = 0

    def write(self, out: Writer) -> None:
        out.varint(self.declared)
        if not self.declared:
            out.u8(self.kind).string(self.path)

    @staticmethod
    def read(data: Reader) -> Destination:
        declared = data.varint()
        if declared:
            return Destination(declared=declared)
        return Destination(data.u8(), data.string())


def known_flags(flags: int, known: int, message: str) -> int:
    """The flags; unknown bits are refused by both sides."""
    if flags & ~known:
        raise malformed(f"{message} has the unknown flags {flags & ~known:#x}")
    return flags


def write_properties(out: Writer, flags: int, properties: bytes | None) -> None:
    if flags & m.PROPERTIES:
        out.blob(properties or b"")


def read_properties(data: Reader, flags: int) -> bytes | None:
    return data.blob() if flags & m.PROPERTIES else None


@dataclass(slots=True)
class Hello:
    TYPE: ClassVar[int] = m.HELLO
    auth: Auth
    codecs: tuple[int, ...]
    client: str
    position: bytes = b""
    host: str | None = None
    version: int = 1

    def write(self, out: Writer) -> None:
        out.varint(self.version).varint(0 if self.host is None else m.HOST)
        _write_auth(out, self.auth)
        out.varint(len(self.codecs))
        for codec in self.codecs:
            out.varint(codec)
        out.string(self.client).blob(self.position)
        if self.host is not None:
            out.string(self.host)

    @staticmethod
    def read(data: Reader) -> Hello:
        version = data.varint()
        flags = known_flags(data.varint(), m.HOST, "HELLO")
        auth = _read_auth(data)
        codecs = tuple(data.varint() for _ in range(bounded(data)))
        client, position = data.string(), data.blob()
        return Hello(auth, codecs, client, position, data.string() if flags & m.HOST else None, version)


def bounded(data: Reader) -> int:
    """A count of what follows; no more than there are bytes."""
    count = data.varint()
    if count > data.end - data.at:
        raise malformed(f"{count} fields are announced at byte {data.at}, and the message ends at byte {data.end}")
    return count


@dataclass(slots=True)
class Login:
    TYPE: ClassVar[int] = m.LOGIN
    request: int
    auth: Auth

    def write(self, out: Writer) -> None:
        _write_auth(out.varint(self.request), self.auth)

    @staticmethod
    def read(data: Reader) -> Login:
        return Login(data.varint(), _read_auth(data))


@dataclass(slots=True)
class Subscribe:
    TYPE: ClassVar[int] = m.SUBSCRIBE
    request: int
    subscription: int
    flags: int
    kind: int
    path: str
    selector: str = ""
    window: tuple[int, int] = (0, 0)
    position: bytes = b""
    replay: tuple[int, int] = (0, 0)
    interval_ms: int = 0
    start: int = 0

    def write(self, out: Writer) -> None:
        flags = self.flags
        out.varint(self.request).varint(self.subscription).varint(flags).u8(self.kind).string(self.path)
        if flags & m.SELECTOR:
            out.string(self.selector)
        if flags & m.WINDOW:
            out.varint(self.window[0]).varint(self.window[1])
        if flags & m.RESUME:
            out.blob(self.position)
        if flags & m.REPLAY:
            out.u8(self.replay[0]).varint(self.replay[1])
        if flags & m.INTERVAL:
            out.varint(self.interval_ms)
        if flags & m.START:
            out.varint(self.start)

    @staticmethod
    def read(data: Reader) -> Subscribe:
        request, subscription = data.varint(), data.varint()
        flags = known_flags(data.varint(), SUBSCRIBE_FLAGS, "SUBSCRIBE")
        kind, path = data.u8(), data.string()
        return Subscribe(
            request,
            subscription,
            flags,
            kind,
            path,
            selector=data.string() if flags & m.SELECTOR else "",
            window=(data.varint(), data.varint()) if flags & m.WINDOW else (0, 0),
            position=data.blob() if flags & m.RESUME else b"",
            replay=(data.u8(), data.varint()) if flags & m.REPLAY else (0, 0),
            interval_ms=data.varint() if flags & m.INTERVAL else 0,
            start=data.varint() if flags & m.START else 0,
        )


@dataclass(slots=True)
class Unsubscribe:
    TYPE: ClassVar[int] = m.UNSUBSCRIBE
    request: int
    subscription: int

    def write(self, out: Writer) -> None:
        out.varint(self.request).varint(self.subscription)

    @staticmethod
    def read(data: Reader) -> Unsubscribe:
        return Unsubscribe(data.varint(), data.varint())


@dataclass(slots=True)
class Declare:
    TYPE: ClassVar[int] = m.DECLARE
    declared: int
    kind: int
    path: str

    def write(self, out: Writer) -> None:
        out.varint(self.declared).u8(self.kind).string(self.path)

    @staticmethod
    def read(data: Reader) -> Declare:
        return Declare(data.varint(), data.u8(), data.string())


@dataclass(slots=True)
class Publish:
    TYPE: ClassVar[int] = m.PUBLISH
    request: int
    flags: int
    destination: Destination
    body: bytes
    properties: bytes | None = None
    expires_ms: int = 0

    def write(self, out: Writer) -> None:
        self.destination.write(out.varint(self.request).u8(self.flags))
        if self.flags & m.EXPIRES:
            out.varint(self.expires_ms)
        write_properties(out, self.flags, self.properties)
        out.raw(self.body)

    @staticmethod
    def read(data: Reader) -> Publish:
        request, flags = data.varint(), data.u8()
        destination = Destination.read(data)
        expires_ms = data.varint() if flags & m.EXPIRES else 0
        properties = read_properties(data, flags)
        return Publish(request, flags, destination, data.rest(), properties, expires_ms)


@dataclass(slots=True)
class Settle:
    """Each range is the first number, and how many follow it."""

    TYPE: ClassVar[int] = m.SETTLE
    request: int
    subscription: int
    home: int
    outcome: int
    ranges: tuple[tuple[int, int], ...]

    def write(self, out: Writer) -> None:
        out.varint(self.request).varint(self.subscription).varint(self.home).u8(self.outcome)
        out.varint(len(self.ranges))
        for first, more in self.ranges:
            out.varint(first).varint(more)

    @staticmethod
    def read(data: Reader) -> Settle:
        fields = data.varint(), data.varint(), data.varint(), data.u8()
        return Settle(*fields, tuple((data.varint(), data.varint()) for _ in range(bounded(data))))


@dataclass(slots=True)
class Call:
    TYPE: ClassVar[int] = m.CALL
    number: int
    flags: int
    timeout_ms: int
    destination: Destination
    body: bytes
    properties: bytes | None = None

    def write(self, out: Writer) -> None:
        self.destination.write(out.varint(self.number).u8(self.flags).varint(self.timeout_ms))
        write_properties(out, self.flags, self.properties)
        out.raw(self.body)

    @staticmethod
    def read(data: Reader) -> Call:
        number = data.varint()
        flags = known_flags(data.u8(), m.CONTENT | m.PROPERTIES | m.LAST, "CALL")
        timeout_ms = data.varint()
        destination = Destination.read(data)
        properties = read_properties(data, flags)
        return Call(number, flags, timeout_ms, destination, data.rest(), properties)


@dataclass(slots=True)
class Send:
    TYPE: ClassVar[int] = m.SEND
    number: int
    flags: int
    body: bytes = b""
    properties: bytes | None = None

    def write(self, out: Writer) -> None:
        write_properties(out.varint(self.number).u8(self.flags), self.flags, self.properties)
        out.raw(self.body)

    @staticmethod
    def read(data: Reader) -> Send:
        number, flags = data.varint(), known_flags(data.u8(), SEND_FLAGS, "SEND")
        properties = read_properties(data, flags)
        return Send(number, flags, data.rest(), properties)


@dataclass(slots=True)
class Cancel:
    TYPE: ClassVar[int] = m.CANCEL
    side: int
    number: int
    code: int
    sentence: str

    def write(self, out: Writer) -> None:
        out.u8(self.side).varint(self.number).varint(self.code).string(self.sentence)

    @staticmethod
    def read(data: Reader) -> Cancel:
        return Cancel(data.u8(), data.varint(), data.varint(), data.string())


@dataclass(slots=True)
class Credit:
    TYPE: ClassVar[int] = m.CREDIT
    size: int

    def write(self, out: Writer) -> None:
        out.varint(self.size)

    @staticmethod
    def read(data: Reader) -> Credit:
        return Credit(data.varint())


@dataclass(slots=True)
class Ping:
    TYPE: ClassVar[int] = m.PING
    data: bytes = b""

    def write(self, out: Writer) -> None:
        out.raw(self.data)

    @staticmethod
    def read(data: Reader) -> Ping:
        return Ping(data.rest())


@dataclass(slots=True)
class Bye:
    TYPE: ClassVar[int] = m.BYE

    def write(self, out: Writer) -> None:
        pass

    @staticmethod
    def read(data: Reader) -> Bye:
        return Bye()


@dataclass(slots=True)
class Operate:
    TYPE: ClassVar[int] = m.OPERATE
    request: int
    operation: str
    body: bytes | None = None

    def write(self, out: Writer) -> None:
        out.varint(self.request).u8(0 if self.body is None else m.BODY).string(self.operation)
        if self.body is not None:
            out.raw(self.body)

    @staticmethod
    def read(data: Reader) -> Operate:
        request, flags = data.varint(), known_flags(data.u8(), m.BODY, "OPERATE")
        return Operate(request, data.string(), data.rest() if flags & m.BODY else None)


ClientFrame = (
    Hello | Login | Subscribe | Unsubscribe | Declare | Publish | Settle | Call | Send | Cancel | Credit | Ping | Bye
    | Operate
)  # fmt: skip

_READERS: dict[int, Callable[[Reader], ClientFrame]] = {
    Hello.TYPE: Hello.read,
    Login.TYPE: Login.read,
    Subscribe.TYPE: Subscribe.read,
    Unsubscribe.TYPE: Unsubscribe.read,
    Declare.TYPE: Declare.read,
    Publish.TYPE: Publish.read,
    Settle.TYPE: Settle.read,
    Call.TYPE: Call.read,
    Send.TYPE: Send.read,
    Cancel.TYPE: Cancel.read,
    Credit.TYPE: Credit.read,
    Ping.TYPE: Ping.read,
    Bye.TYPE: Bye.read,
    Operate.TYPE: Operate.read,
}


def read_client_frame(kind: int, data: Reader) -> ClientFrame | None:
    """The message of that type; `None` for unknown ones that a server skips."""
    reader = _READERS.get(kind)
    if reader is None:
        if kind < 0x80:
            raise malformed(f"messages of type {kind:#04x} are unknown")
        return None
    return reader(data)
