"""Where the topics of one subscription stand, and what that says of each message (docs/protocol.md, sections 6 to 8).

No I/O. Of each topic the version of the last message is kept across connections; a jump is told as a gap before the
message behind it. Versions are kept with the position that they belong to: those of one server are not compared with
those of another.
"""

from __future__ import annotations

from collections.abc import Callable

from . import _messages as m
from ._errors import TideraceError, malformed
from ._events import Gap, TopicEvent, Update
from ._server_frames import UpdateEntry

ApplyDelta = Callable[[bytes, bytes], bytes]


class DeltaDefect(Exception):
    """A delta could not be applied: the subscription has to be renewed without deltas."""


class TopicCounts:
    """What has been counted of topics."""

    def __init__(self) -> None:
        self.updates = 0
        self.deltas = 0
        #: Bytes that deltas were shorter than the values they stood for.
        self.delta_bytes_saved = 0
        #: Updates that had come before a loss and were sent again; not given to the application.
        self.duplicates = 0
        self.gaps = 0


class _Topic:
    """One topic of a subscription."""

    __slots__ = ("again", "base", "cursor", "follows", "fresh", "held", "told", "version")

    def __init__(self) -> None:
        #: Of the last message given to the application.
        self.version: int | None = None
        #: Of the last message on the present connection, and its body if deltas may refer to it.
        self.cursor: int | None = None
        self.base: bytes | None = None
        #: Which version the next one follows, if that is not one less.
        self.follows: int | None = None
        #: It has been told already that something may be missing before the next version.
        self.told = False
        #: The topic holds a value, as far as is known, and whether that has come since it was subscribed last.
        self.held = False
        self.fresh = False
        #: What came again, although it was known.
        self.again: Update | None = None


class Progress:
    """All topics of one subscription."""

    def __init__(self, deltas: bool, tells_jumps: bool, counts: TopicCounts) -> None:
        self.deltas = deltas
        #: Where a selector or an interval leaves messages out, jumps of versions mean nothing.
        self._tells_jumps = tells_jumps
        self._counts = counts
        self._topics: dict[str, _Topic] = {}
        #: The versions of the kept position, while a server that does not know it has others.
        self._kept: dict[str, int] | None = None

    @property
    def stale(self) -> bool:
        """Whether values are known that the server may not have any more."""
        return any(topic.held for topic in self._topics.values())

    def follows(self, path: str, version: int) -> None:
        """The next version of a topic follows this one: none in between was given to a message."""
        self._topic(path).follows = version

    def update(self, entry: UpdateEntry, path: str, apply: ApplyDelta) -> list[TopicEvent]:
        """What one entry of UPDATES means. Raises `DeltaDefect`, and `bad-frame` if its version has no beginning."""
        flags, _, low, data, block = entry
        topic = self._topic(path)
        version = low if flags & m.FULL_VERSION else whole_version(low, topic.cursor, path)
        body = self._body(flags, topic, data, apply)
        cursor, last = topic.cursor, topic.version
        # A value that was hidden comes again with the version that it had.
        shown = version == last and not topic.held and bool(flags & m.VALUE)
        repeated = last is not None and version <= last and not shown and (cursor is None or cursor < last)
        topic.cursor = version
        if self.deltas:
            topic.base = body
        if flags & (m.REMOVED | m.VALUE):
            topic.held = not flags & m.REMOVED
        topic.fresh = True
        before = version - 1 if topic.follows is None else topic.follows
        topic.follows = None
        update = Update(path, version, bool(flags & m.REMOVED), body, flags & m.CONTENT, block)
        if repeated:
            # It came before the connection was lost, and the server could not know.
            topic.again = update
            self._counts.duplicates += 1
            return []
        told, topic.told, topic.version = topic.told, False, version
        self._counts.updates += 1
        if last is not None and not told and self._tells_jumps:
            if version <= last and not shown:
                return [self._gap(Gap("skipped", path)), update]
            if before > last:
                return [self._gap(Gap("skipped", path, before - last)), update]
        return [update]

    def hidden(self, path: str) -> None:
        """A topic is there that this client may not have any more."""
        topic = self._topics.get(path)
        if topic is not None:
            topic.held = False

    def settled(self) -> list[TopicEvent]:
        """All current values have come: what they did not bring is not there any more."""
        events: list[TopicEvent] = []
        for path, topic in list(self._topics.items()):
            version = topic.version or 0
            if not topic.fresh:
                del self._topics[path]
                if topic.held:
                    self._counts.updates += 1
                    events.append(Update(path, version, True, b""))
            elif topic.again is not None and topic.cursor is not None and topic.cursor < version:
                # The server has lost what came behind it.
                topic.version = topic.cursor
                self._counts.updates += 1
                events.append(topic.again)
            topic.again = None
        return events

    def lost(self) -> None:
        """The connection is gone."""
        for topic in self._topics.values():
            topic.cursor = topic.base = topic.again = topic.follows = None
            topic.fresh = False

    def incomplete(self, continues: bool, restarted: bool) -> list[TopicEvent]:
        """What was missed does not come, or not all of it."""
        if not continues:
            if restarted and self._kept is None:
                self._kept = {path: topic.version for path, topic in self._topics.items() if topic.version is not None}
            self.forget()
        for topic in self._topics.values():
            topic.told = True
        return [self._gap(Gap("restarted" if restarted else "not-recovered"))]

    def returned(self) -> None:
        """The server is the one that the kept position is of: its versions count again."""
        if self._kept is None:
            return
        for topic in self._topics.values():
            topic.version = None
        for path, version in self._kept.items():
            self._topic(path).version = version
        self._kept = None

    def elsewhere(self) -> None:
        """What comes now is of a server that the position is not of; nothing is known of the other."""
        if self._kept is None:
            self._kept = {}

    def moved(self) -> None:
        """The position is that of the present server from now on."""
        self._kept = None

    def restarted(self) -> list[TopicEvent]:
        """The server is in another life, and nothing was to be recovered."""
        self.forget()
        return [self._gap(Gap("restarted"))]

    def defect(self) -> list[TopicEvent]:
        """From now on without deltas."""
        self.deltas = False
        self.forget()
        return [self._gap(Gap("defect"))]

    def forget(self) -> None:
        """The next versions are compared with nothing. What this connection has sent stays known."""
        for topic in self._topics.values():
            topic.version = None

    def _topic(self, path: str) -> _Topic:
        topic = self._topics.get(path)
        if topic is None:
            topic = self._topics[path] = _Topic()
        return topic

    def _body(self, flags: int, topic: _Topic, data: bytes, apply: ApplyDelta) -> bytes:
        if not flags & m.DELTA:
            return data
        if topic.base is None:
            raise DeltaDefect
        try:
            body = apply(topic.base, data)
        except TideraceError:
            raise DeltaDefect from None
        self._counts.deltas += 1
        self._counts.delta_bytes_saved += len(body) - len(data)
        return body

    def _gap(self, gap: Gap) -> Gap:
        self._counts.gaps += 1
        return gap


def whole_version(low: int, last: int | None, path: str) -> int:
    """The version whose lowest 16 bits these are: the first above the last one."""
    if last is None:
        raise malformed(f"the first update of {path!r} does not say its whole version")
    return last + ((low - last) % 0x10000 or 0x10000)
