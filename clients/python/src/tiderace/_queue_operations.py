"""What can be done with queues beyond sending and receiving (docs/queues.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from ._core import Core


@dataclass(frozen=True)
class ReadyMessage:
    """A message that is ready in a queue, and stays there."""

    position: int
    redeliveries: int
    #: For how long it has been on the server, in milliseconds.
    age_ms: int
    persistent: bool
    #: When its time is over, in milliseconds since 1970.
    expires: int | None
    #: Bytes of its body, if the value is only its beginning.
    cut: int | None
    value: Any = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """What has become of messages that were to go to another queue."""

    messages: int
    #: How many had to stay, and why the first of these had to: `code` and `reason`.
    kept: int
    refused: dict[str, Any] | None
    #: The position up to which messages were looked at: what came later has a higher one.
    up_to: int | None


class Queues:
    """All queues that a client may see."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def list(self, pattern: str = "**", *, page: int | None = None) -> AsyncIterator[dict[str, Any]]:
        """The queues that a pattern names, page by page: `path`, `messages`, `in_flight` and the like of each."""
        after: str | None = None
        while True:
            found = await self._core.read({"do": "queues", "pattern": pattern, "after": after, "limit": page})
            for row in found["queues"]:
                yield row
            after = found.get("next")
            if not found["more"]:
                return

    async def show(self, path: str) -> dict[str, Any]:
        """A queue with its `options` and all its consumers (`listed`)."""
        listed: list[Any] = []
        after: int | None = None
        while True:
            found = await self._core.read({"do": "queue", "path": path, "after": after})
            listed += found["listed"]
            after = found.pop("next", None)
            if not found.pop("more"):
                return {**found, "listed": listed}

    async def peek(
        self,
        path: str,
        *,
        start: int | None = None,
        selector: str | None = None,
        body_bytes: int | None = None,
        page: int | None = None,
    ) -> AsyncIterator[ReadyMessage]:
        """The messages that are ready in a queue and stay there, page by page, from a position on.

        `body_bytes`: bytes of each body; what is longer is cut.
        """
        asked = {"do": "peek", "path": path, "limit": page, "body_bytes": body_bytes, "selector": selector}
        while True:
            found = await self._core.read({**asked, "from": start})
            for row in found["messages"]:
                yield ReadyMessage(
                    row["position"],
                    row["redeliveries"],
                    row["age_ms"],
                    row["persistent"],
                    row.get("expires"),
                    row.get("cut"),
                    row.get("value"),
                    row.get("properties") or {},
                )
            start = found.get("next")
            if not found["more"]:
                return

    async def purge(self, path: str, *, selector: str | None = None, up_to: int | None = None) -> int:
        """Removes the messages that are ready in a queue; how many."""
        asked = {"do": "purge", "path": path, "selector": selector, "up_to": up_to}
        return int((await self._core.operate(asked))["messages"])

    async def move(
        self,
        source: str,
        target: str,
        *,
        selector: str | None = None,
        limit: int | None = None,
        up_to: int | None = None,
    ) -> Moved:
        """Moves the messages that are ready in a queue to another one."""
        asked = {"do": "move", "from": source, "to": target, "selector": selector, "limit": limit, "up_to": up_to}
        return moved(await self._core.operate(asked))

    async def redrive(
        self,
        path: str,
        *,
        to: str | None = None,
        selector: str | None = None,
        limit: int | None = None,
        up_to: int | None = None,
    ) -> Moved:
        """Sends dead letters back to where they came from, or to another queue, as new."""
        asked = {"do": "redrive", "path": path, "to": to, "selector": selector, "limit": limit, "up_to": up_to}
        return moved(await self._core.operate(asked))

    async def pause(self, path: str) -> None:
        """Lets consumers wait: they get nothing of a queue until it is resumed."""
        await self._core.operate({"do": "pause", "path": path})

    async def resume(self, path: str) -> None:
        """Gives consumers the messages of a queue again."""
        await self._core.operate({"do": "resume", "path": path})


def moved(found: dict[str, Any]) -> Moved:
    return Moved(found["messages"], found.get("kept", 0), found.get("refused"), found.get("up_to"))
