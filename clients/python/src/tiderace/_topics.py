"""Topics: publishing, and subscriptions that miss nothing unnoticed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import _messages as m
from ._content import NOTHING, encode_value
from ._core import Core
from ._errors import TideraceError, malformed
from ._events import Joined, Left, Recovered, TopicEvent, Update
from ._inbox import Inbox
from ._interest import Wish
from ._progress import ApplyDelta, DeltaDefect, Progress
from ._ready import Ready
from ._server_frames import UpdateEntry
from ._times import milliseconds, moment
from ._topic_operations import TopicOperations

#: Notices that wait for the application; they need no credit, so this bounds them.
NOTICES_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True)
class Last:
    """Begin with the last so many messages of each topic."""

    messages: int


@dataclass(frozen=True)
class FromVersion:
    """Begin with this version."""

    version: int


@dataclass(frozen=True)
class Since:
    """Begin with the first message at or after this time: a `datetime`, or seconds since 1970."""

    time: datetime | float


Replay = Last | FromVersion | Since


def replay_fields(replay: Replay) -> tuple[int, int]:
    """Kind and number of the protocol."""
    if isinstance(replay, Last):
        return 0, replay.messages
    if isinstance(replay, FromVersion):
        return 1, replay.version
    return 2, moment(replay.time)


class Subscription(Ready):
    """A subscription to a topic or pattern.

    Iterating gives its updates, `events()` gives gaps, recoveries and notices as well, in their order; both take from
    the same buffer. It ends by `stop`, or with its `async with`.
    """

    def __init__(
        self,
        core: Core,
        path: str,
        *,
        snapshot: bool,
        recoverable: bool,
        deltas: bool,
        selector: str | None,
        replay: Replay | None,
        interval: float | None,
        notices: bool,
    ) -> None:
        super().__init__(core)
        self.path = path
        flags = (
            (m.SNAPSHOT if snapshot else 0)
            | (m.RECOVERABLE if recoverable else 0)
            | (m.DELTAS if deltas else 0)
            | (0 if selector is None else m.SELECTOR)
            | (0 if replay is None else m.REPLAY)
            | (m.INTERVAL if interval else 0)
            | (m.NOTICES if notices else 0)
            | m.pattern_flag(path)
        )
        self.wish = Wish(m.TOPIC_KIND, path, flags, selector or "")
        if replay is not None:
            self.wish.replay = replay_fields(replay)
        if interval:
            self.wish.interval_ms = milliseconds(interval)
        self._progress = Progress(deltas, selector is None and not interval, core.counts)
        self._inbox: Inbox[TopicEvent] = Inbox(core.held)
        self._gap: TopicEvent | None = None
        self._over = False

    async def stop(self) -> None:
        """No more comes from now on, and what waits is dropped; returns when the server knows."""
        self._end(None)
        self._inbox.clear()
        await self._core.remove(self)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Update:
        while True:
            event = await self._inbox.get()
            if isinstance(event, Update):
                return event

    async def events(self) -> AsyncIterator[TopicEvent]:
        """Updates, gaps, recoveries and notices in their order."""
        while True:
            try:
                event = await self._inbox.get()
            except StopAsyncIteration:
                return
            yield event

    # What the registry tells.

    @property
    def stale(self) -> bool:
        return self._progress.stale

    def begun(self, settled: bool) -> None:
        super().begun(settled)
        if settled:
            self._tell(self._progress.settled())

    def failed(self, error: TideraceError) -> None:
        self._end(error)

    def recovered(self, complete: bool, continues: bool, restarted: bool, settles: bool) -> None:
        if not complete:
            self._tell(self._progress.incomplete(continues, restarted))
        self._tell([Recovered(complete)])
        # Values anew, to know which of those that are known are not there any more.
        if not complete and settles and self.wish.flags & (m.SNAPSHOT | m.REPLAY):
            self._renew()

    def lost(self) -> None:
        self._progress.lost()

    def restarted(self) -> None:
        self._tell(self._progress.restarted())

    def returned(self) -> None:
        self._progress.returned()

    def elsewhere(self) -> None:
        self._progress.elsewhere()

    def moved(self) -> None:
        self._progress.moved()

    def noticed(self, gained: bool, topic: str, text: str) -> None:
        if not gained:
            if text != "removed":
                self._progress.hidden(topic)
            self._tell([Left(topic, text)])
            return
        try:
            spec = dict(json.loads(text))
        except (ValueError, TypeError, RecursionError):
            raise malformed(f"the specification of {topic!r} is no JSON object") from None
        self._tell([Joined(topic, spec)])
        if self._inbox.size > NOTICES_BYTES_MAX:
            self._core.drop(self)
            self._end(TideraceError("too-much-waiting", "more notices wait than the application reads"))

    def follows(self, path: str | None, version: int) -> None:
        self._progress.follows(path or self.path, version)

    def update(self, entry: UpdateEntry, path: str | None, apply: ApplyDelta) -> None:
        try:
            events = self._progress.update(entry, path or self.path, apply)
        except DeltaDefect:
            self.wish.flags &= ~m.DELTAS
            self._tell(self._progress.defect())
            self._renew()
            return
        self._tell(events)

    def _tell(self, events: list[TopicEvent]) -> None:
        for event in events:
            size = 0
            if isinstance(event, Update):
                size = len(event.bytes)
                if self._gap is not None:
                    event.gap, self._gap = self._gap, None  # type: ignore[assignment]
            elif not isinstance(event, Recovered | Joined | Left):
                self._gap = event
            self._inbox.push(event, size)

    def _renew(self) -> None:
        """Subscribes again under another id."""
        if self._over:
            return
        self._core.drop(self)
        self.confirmed = False
        self._progress.lost()
        self._core.add(self)

    def _end(self, error: TideraceError | None) -> None:
        if self._over:
            return
        self._over = True
        self._refuse(error or TideraceError("closed", "the subscription was ended by the application"))
        self._inbox.end(error)


class Topic(TopicOperations):
    """A topic, or a pattern of topics to subscribe to."""

    def subscribe(
        self,
        *,
        snapshot: bool = True,
        recoverable: bool = True,
        deltas: bool = True,
        selector: str | None = None,
        replay: Replay | None = None,
        interval: float | None = None,
        notices: bool = False,
    ) -> Subscription:
        """Subscribes; iterate over what is returned.

        `snapshot`: the current value first. `recoverable`: what is missed while the connection is away comes
        afterwards. `deltas`: values that changed little are sent as differences; not seen from outside. `selector`:
        only messages whose properties match this SQL-92 condition. `replay`: what topics keep comes first, instead of
        their values: `Last(10)`, `FromVersion(7)`, `Since(time)`. `interval`: seconds at least between two updates of
        one topic; what comes in between is conflated. `notices`: `events()` tells which topics it gains and loses.
        """
        subscription = Subscription(
            self._core,
            self.path,
            snapshot=snapshot,
            recoverable=recoverable,
            deltas=deltas,
            selector=selector,
            replay=replay,
            interval=interval,
            notices=notices,
        )
        self._core.add(subscription)
        return subscription

    async def publish(
        self,
        value: Any,
        *,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
        retain: bool = False,
        expires: float | None = None,
        confirm: bool = True,
    ) -> None:
        """Returns when the server has it; without `confirm` when it is on its way. It waits for a connection.

        `type`: the content type, JSON if nothing is said, and `application/octet-stream` for bytes. `retain`: it
        becomes the current value, also where the server would not keep one. `expires`: seconds after which it is
        worthless.
        """
        encoded = encode_value(value, type, properties)
        flags = m.RETAIN if retain else 0
        await self._core.publish(m.TOPIC_KIND, self.path, flags, encoded, expires, confirm)

    async def remove_value(self, *, properties: Mapping[str, str] | None = None) -> None:
        """Removes the current value, not the topic; subscribers get an update that says so."""
        encoded = encode_value(NOTHING, None, properties)
        await self._core.publish(m.TOPIC_KIND, self.path, m.REMOVE, encoded, None, True)

    async def value(self) -> Any:
        """The current value, `None` if there is none."""
        subscription = self.subscribe(recoverable=False, deltas=False)
        try:
            await subscription.ready()
            if not len(subscription._inbox):
                await self._core.round_trip()
            return (await subscription.__anext__()).value if len(subscription._inbox) else None
        finally:
            subscription._end(None)
            subscription._inbox.clear()
            self._core.drop(subscription)
