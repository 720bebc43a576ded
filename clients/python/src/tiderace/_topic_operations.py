"""What can be done with topics beyond publishing and subscribing (docs/protocol.md, section 12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any

from ._content import BYTES_TYPE, NOTHING, is_json, to_json
from ._core import Core
from ._delta import make_delta
from ._errors import TideraceError
from ._times import milliseconds, moment


@dataclass(frozen=True)
class TopicEntry:
    """A topic as `fetch` and `get` show it."""

    path: str
    #: `None` if there was no message yet.
    version: int | None = None
    value: Any = None
    properties: dict[str, str] = field(default_factory=dict)
    #: What the topic is, if that was asked for.
    spec: dict[str, Any] | None = None


@dataclass(frozen=True)
class Event:
    """A message that a topic keeps."""

    version: int
    #: When the server took it, in milliseconds since 1970.
    time: int
    value: Any
    properties: dict[str, str]
    author: str | None
    #: The version of the event that it replaces.
    amends: int | None


def content_of(
    value: Any, type: str | None, properties: Mapping[str, str] | None
) -> tuple[dict[str, Any], bytes | None]:
    """A value as fields of an operation, or as bytes beside it."""
    more = {"type": type, "properties": dict(properties) if properties else None}
    if value is NOTHING:
        return {}, None
    if isinstance(value, bytes | bytearray | memoryview):
        return {**more, "type": type or BYTES_TYPE}, bytes(value)
    if type is None or is_json(type):
        if value is None:
            # Fields that are `None` are left away, and this one means null.
            return {**more, "type": type or "application/json"}, b"null"
        return {**more, "value": value}, None
    return {**more, "text": str(value)}, None


class Held:
    """A lock or claim that is held until it is given back or the connection is lost."""

    def __init__(self, core: Core, name: str, fence: int, give_back: Callable[[], Awaitable[object]]) -> None:
        self.name = name
        #: Rises each time that somebody takes the lock: shown to others, they can tell a late holder.
        self.fence = fence
        #: Set when it is not held any more: given back, or lost with the connection.
        self.lost = asyncio.Event()
        self._core = core
        self._give_back = give_back
        core.on_down.add(self._end)

    async def release(self) -> None:
        """Gives it back."""
        if not self.lost.is_set():
            self._end()
            await self._give_back()

    async def __aenter__(self) -> Held:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    def _end(self) -> None:
        self._core.on_down.discard(self._end)
        self.lost.set()


class TopicOperations:
    """One topic, to be created, changed, read and removed."""

    def __init__(self, core: Core, path: str) -> None:
        self.path = path
        self._core = core
        #: The value that was set last with `delta`: version, content, bytes. Each next one waits for it.
        self._base: tuple[int, str, bytes] | None = None
        self._turn = asyncio.Lock()

    async def create(
        self,
        spec: Mapping[str, Any] | None = None,
        value: Any = NOTHING,
        *,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> bool:
        """Makes the topic known; whether it was there before. Refused if it is there with another specification."""
        fields = {"do": "create", "spec": dict(spec or {})}
        return bool((await self._write(fields, value, type, properties))["existed"])

    async def set(
        self,
        value: Any,
        *,
        condition: Mapping[str, Any] | None = None,
        spec: Mapping[str, Any] | None = None,
        delta: bool = False,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Gives it a value; the value's version.

        `condition`: otherwise nothing is done, and `condition-failed` is raised. `spec`: the topic is created so if it
        is not known. `delta`: only the difference to what this object set last is sent, unless somebody else has given
        the topic another value meanwhile.
        """
        fields: dict[str, Any] = {
            "if": dict(condition) if condition else None,
            "spec": None if spec is None else dict(spec),
        }
        if not delta:
            return await self._update(fields, value, type, properties)
        async with self._turn:
            return await self._change(fields, value, type, properties)

    async def patch(self, patch: list[dict[str, Any]], *, condition: Mapping[str, Any] | None = None) -> int:
        """Changes places in its value, which is JSON (RFC 6902); the new value's version."""
        return await self._update({"patch": patch, "if": dict(condition) if condition else None}, NOTHING, None, None)

    async def merge(self, merge: Any, *, condition: Mapping[str, Any] | None = None) -> int:
        """Puts fields in place of those in its value (RFC 7386; `None` removes one); the new value's version."""
        return await self._update({"merge": merge, "if": dict(condition) if condition else None}, NOTHING, None, None)

    async def get(self) -> TopicEntry | None:
        """Its value with its version and specification, or `None` if there is no such topic."""
        async for entry in fetch(self._core, self.path, values=True, specs=True):
            return entry
        return None

    async def remove(self) -> bool:
        """Removes the topic, its value and its history; whether it was there."""
        return bool((await self._core.operate({"do": "remove", "selector": self.path}))["topics"])

    async def history(
        self,
        *,
        last: int | None = None,
        version: int | None = None,
        since: datetime | float | None = None,
        to: int | None = None,
        amended: bool | None = None,
        page: int | None = None,
    ) -> AsyncIterator[Event]:
        """The messages that it keeps, oldest first, page by page.

        From the `last` so many on, from a `version` on, or `since` a time; `to` is the last version wanted, and with
        `amended` events that were replaced are wanted as well.
        """
        begin = {"last": last, "version": version, "since": None if since is None else moment(since)}
        left = last
        while True:
            request = {"do": "history", "path": self.path, "limit": page, "to": to, "amended": amended, **begin}
            found = await self._core.read(request)
            rows: list[dict[str, Any]] = found["events"]
            for row in rows if left is None else rows[:left]:
                yield Event(
                    row["version"],
                    row["time"],
                    row.get("value"),
                    row.get("properties") or {},
                    row.get("author"),
                    row.get("amends"),
                )
            left = None if left is None else left - len(rows)
            if not found["more"] or not rows or left == 0:
                return
            begin = {"version": rows[-1]["version"] + 1}

    async def amend(
        self, version: int, value: Any, *, type: str | None = None, properties: Mapping[str, str] | None = None
    ) -> int:
        """Puts another value in place of an event of a time series; the new event's version."""
        return int((await self._write({"do": "amend", "version": version}, value, type, properties))["version"])

    async def claim(self) -> Held:
        """From now on only this client may publish to it, until the claim is released or the connection is lost."""
        await self._core.operate({"do": "claim", "path": self.path})
        return Held(self._core, self.path, 0, lambda: self._core.operate({"do": "release", "path": self.path}))

    async def _change(
        self, fields: dict[str, Any], value: Any, type: str | None, properties: Mapping[str, str] | None
    ) -> int:
        content, bytes_ = content_of(value, type, properties)
        text = content.pop("text", None)
        plain = content.pop("value", NOTHING)
        body = bytes_ if bytes_ is not None else (text if text is not None else to_json(plain)).encode()
        about = to_json([content, text is None])
        base = self._base
        if base is not None and base[1] == about:
            delta = make_delta(base[2], body)
            if len(delta) < len(body):
                change = {"do": "update", "path": self.path, **fields, "delta": {"codec": 1, "base": base[0]}}
                try:
                    version = int((await self._core.operate(change, delta))["version"])
                    self._base = (version, about, body)
                    return version
                except TideraceError as error:
                    # Somebody else has changed it, or it is gone: then the whole value says it all.
                    if error.name not in ("condition-failed", "topic-unknown"):
                        raise
        version = await self._update(fields, value, type, properties)
        self._base = (version, about, body)
        return version

    async def _update(
        self, fields: dict[str, Any], value: Any, type: str | None, properties: Mapping[str, str] | None
    ) -> int:
        return int((await self._write({"do": "update", **fields}, value, type, properties))["version"])

    async def _write(
        self, fields: dict[str, Any], value: Any, type: str | None, properties: Mapping[str, str] | None
    ) -> dict[str, Any]:
        content, body = content_of(value, type, properties)
        return await self._core.operate({**fields, "path": self.path, **content}, body)


async def fetch(
    core: Core,
    selector: str | list[str],
    *,
    after: str | None = None,
    depth: int | None = None,
    values: bool = False,
    specs: bool = False,
    page: int | None = None,
) -> AsyncIterator[TopicEntry]:
    """The topics that a selector names, in the order of their paths, page by page."""
    wanted = {"do": "fetch", "selector": selector, "limit": page, "depth": depth, "values": values, "specs": specs}
    while True:
        found = await core.read({**wanted, "after": after})
        for row in found["topics"]:
            yield TopicEntry(
                row["path"], row.get("version"), row.get("value"), row.get("properties") or {}, row.get("spec")
            )
        after = found.get("next")
        if not found["more"]:
            return


class Views:
    """The server's views: topics that it makes of others."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def put(self, name: str, text: str) -> None:
        await self._core.operate({"do": "view", "name": name, "text": text})

    async def remove(self, name: str) -> None:
        await self._core.operate({"do": "unview", "name": name})

    async def list(self) -> dict[str, str]:
        """The text of each, by name."""
        views = (await self._core.read({"do": "views"}))["views"]
        return {view["name"]: view["text"] for view in views}


class Topics:
    """All topics that a client may see."""

    def __init__(self, core: Core) -> None:
        self.views = Views(core)
        self._core = core
        self._testament: Callable[[], Awaitable[object]] | None = None
        core.on_up.append(self._tell_again)

    def fetch(
        self,
        selector: str | list[str],
        *,
        values: bool = False,
        specs: bool = False,
        depth: int | None = None,
        after: str | None = None,
        page: int | None = None,
    ) -> AsyncIterator[TopicEntry]:
        """The topics that a selector names, in the order of their paths, page by page.

        `depth`: paths with more levels are cut off there and listed once. `after`: only those behind this path.
        `page`: how many the server is asked for at a time.
        """
        return fetch(self._core, selector, after=after, depth=depth, values=values, specs=specs, page=page)

    async def remove(self, selector: str | list[str]) -> int:
        """Removes all topics that a selector names; how many."""
        return int((await self._core.operate({"do": "remove", "selector": selector}))["topics"])

    async def lock(self, name: str, *, timeout: float | None = None) -> Held:
        """Takes a lock; waits for it for so many seconds if another client has it. Otherwise `lock-held`."""
        core = self._core
        wait = None if timeout is None else milliseconds(timeout)
        fence = (await core.operate({"do": "lock", "name": name, "timeout": wait}))["fence"]
        return Held(core, name, fence, lambda: core.operate({"do": "unlock", "name": name}))

    async def will(
        self,
        path: str,
        value: Any,
        *,
        retain: bool = False,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """What is published if this client is lost: ends otherwise than by `close`. Kept across connections."""
        content, body = content_of(value, type, properties)
        operation = {"do": "will", "path": path, "retain": retain, **content}
        await self._core.operate(operation, body)
        self._testament = lambda: self._core.operate(operation, body)

    async def forget_will(self) -> None:
        """Takes the will back."""
        self._testament = None
        await self._core.operate({"do": "will"})

    async def session(self) -> dict[str, Any]:
        """How this client's session fares at the server: `subscriptions`, `backlog_bytes`, `conflated` and the like."""
        return await self._core.operate({"do": "session"})

    async def sessions(self, *, limit: int | None = None) -> list[dict[str, Any]]:
        """The sessions of the server, first those for which most waits."""
        return list((await self._core.read({"do": "sessions", "limit": limit}))["sessions"])

    def _tell_again(self) -> None:
        testament = self._testament
        if testament is not None:
            self._core.spawn(self._tell(testament))

    async def _tell(self, testament: Callable[[], Awaitable[object]]) -> None:
        try:
            await testament()
        except TideraceError as error:
            if error.name not in ("connection-lost", "closed"):
                self._core.refused(error)
