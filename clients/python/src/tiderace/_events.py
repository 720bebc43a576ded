"""What a subscription to topics tells."""

from __future__ import annotations

from typing import Any, Literal

from ._content import content_type, decode_properties, decode_value

GapReason = Literal["skipped", "not-recovered", "restarted", "defect"]


class Update:
    """One message of a topic."""

    __slots__ = ("_block", "_flags", "_value", "bytes", "gap", "removed", "topic", "version")

    def __init__(
        self, topic: str, version: int, removed: bool, body: bytes, flags: int = 0, block: bytes | None = None
    ) -> None:
        #: The topic, also for subscriptions to patterns.
        self.topic = topic
        #: The topic's count of messages.
        self.version = version
        #: The topic has no current value any more.
        self.removed = removed
        #: The body as it came.
        self.bytes = body
        #: What is missing since the update before, of any topic of the subscription; `None` if nothing is.
        self.gap: Gap | None = None
        self._flags = flags
        self._block = block

    @property
    def value(self) -> Any:
        """The value, decoded when first asked for; `None` when removed."""
        try:
            return self._value
        except AttributeError:
            self._value: Any = None if self.removed else decode_value(self._flags, self._block, self.bytes)
            return self._value

    @property
    def properties(self) -> dict[str, str]:
        """Named values beside it."""
        return decode_properties(self._block)

    @property
    def type(self) -> str:
        """The content type; empty if the publisher said nothing."""
        return content_type(self._flags, self._block)

    def __repr__(self) -> str:
        return f"Update({self.topic!r}, version={self.version}, value={self.value!r})"


class Gap:
    """Messages were missed.

    `skipped`: a topic's versions jumped, since the server left messages out for a slow client or since nobody
    recovered them. `not-recovered`: the client was away for too long. `restarted`: the server was started anew, or is
    another one, and it is not known what was missed. `defect`: a delta could not be applied.
    """

    __slots__ = ("missed", "reason", "topic")

    def __init__(self, reason: GapReason, topic: str | None = None, missed: int | None = None) -> None:
        self.reason: GapReason = reason
        #: Which topic, if it is known.
        self.topic = topic
        #: How many messages, if it is known.
        self.missed = missed

    def __repr__(self) -> str:
        return f"Gap({self.reason!r}, topic={self.topic!r}, missed={self.missed!r})"


class Recovered:
    """After a new connection: whether all that was missed comes now."""

    __slots__ = ("complete",)

    def __init__(self, complete: bool) -> None:
        self.complete = complete

    def __repr__(self) -> str:
        return f"Recovered(complete={self.complete})"


class Joined:
    """The subscription has gained a topic: all there are at first, also after a new connection."""

    __slots__ = ("spec", "topic")

    def __init__(self, topic: str, spec: dict[str, Any]) -> None:
        self.topic = topic
        #: What the topic is (docs/topics.md).
        self.spec = spec

    def __repr__(self) -> str:
        return f"Joined({self.topic!r})"


class Left:
    """The subscription has lost a topic: `removed`, or `not-authorised`."""

    __slots__ = ("reason", "topic")

    def __init__(self, topic: str, reason: str) -> None:
        self.topic = topic
        self.reason = reason

    def __repr__(self) -> str:
        return f"Left({self.topic!r}, {self.reason!r})"


TopicEvent = Update | Gap | Recovered | Joined | Left
