"""Queues: sending, and receiving with an outcome for each message."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from . import _messages as m
from ._client_frames import Settle
from ._content import decode_properties, decode_value, encode_value
from ._core import Core
from ._errors import TideraceError
from ._inbox import Inbox
from ._interest import Wish
from ._ready import Ready
from ._server_frames import Entry, Queued
from ._times import milliseconds, moment


class QueueMessage:
    """One message of a queue. It is given back if the connection ends before it was settled."""

    __slots__ = ("_entry", "_home", "_number", "_settler", "queue", "redeliveries")

    def __init__(self, queue: str, entry: Entry, redeliveries: int, settler: Settler, home: int, number: int) -> None:
        self.queue = queue
        #: How often a consumer had it before, as far as the server knows, and did not accept it.
        self.redeliveries = redeliveries
        self._entry = entry
        self._settler: Settler | None = settler
        self._home = home
        self._number = number

    @property
    def value(self) -> Any:
        """The value, decoded each time that it is asked for."""
        return decode_value(self._entry.flags, self._entry.properties, self._entry.body)

    @property
    def bytes(self) -> bytes:
        """The body as it came."""
        return self._entry.body

    @property
    def properties(self) -> dict[str, str]:
        """Named values beside it."""
        return decode_properties(self._entry.properties)

    @property
    def topic(self) -> str | None:
        """The topic that it was published to, if it comes by a durable subscription."""
        return self.properties.get("source-topic")

    @property
    def settled(self) -> bool:
        """It was accepted or rejected here."""
        return self._settler is None

    def accept(self) -> None:
        """It is dealt with."""
        self._settle(True)

    def reject(self) -> None:
        """It is given back, to be delivered again."""
        self._settle(False)

    def _settle(self, accept: bool) -> None:
        settler, self._settler = self._settler, None
        if settler is not None:
            settler.add(self._home, self._number, accept)

    def __repr__(self) -> str:
        return f"QueueMessage({self.queue!r}, value={self.value!r}, redeliveries={self.redeliveries})"


class Settler:
    """Gathers outcomes of messages of one connection and writes them as ranges; silent when that is gone."""

    def __init__(self, core: Core, consumer: Consumer) -> None:
        self._core = core
        self._consumer = consumer
        self._session = core.session
        self._rows: dict[tuple[int, int], list[int]] = {}

    def add(self, home: int, number: int, accept: bool) -> None:
        if not self._rows:
            asyncio.get_running_loop().call_soon(self.flush)
        self._rows.setdefault((home, 0 if accept else 1), []).append(number)

    def flush(self) -> None:
        rows, self._rows = self._rows, {}
        number = self._core.id_of(self._consumer)
        if self._session is None or number is None:
            return
        for (home, outcome), numbers in rows.items():
            self._session.send(Settle(0, number, home, outcome, tuple(ranges(numbers))))


def ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Numbers as stretches: the first, and how many follow it."""
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][0] + found[-1][1] + 1:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 0))
    return found


class Consumer(Ready):
    """A consumer of a queue or of a pattern of queues; ends by `stop`, or with its `async with`.

    Iterating gives the messages. One that the application has not settled is accepted when the next is asked for, and
    given back when the loop is left; without `auto_accept` the application settles each.
    """

    def __init__(
        self,
        core: Core,
        path: str,
        *,
        prefetch: int,
        exclusive: bool,
        selector: str | None,
        auto_accept: bool,
        browse: int = 0,
        start: int | None = None,
        makes: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(core)
        self.path = path
        flags = (
            m.EXPLICIT
            | m.WINDOW
            | (m.EXCLUSIVE if exclusive else 0)
            | browse
            | (0 if start is None else m.START)
            | (0 if selector is None else m.SELECTOR)
            | m.pattern_flag(path)
        )
        window = (prefetch, 0)
        self.wish = Wish(m.QUEUE_KIND, path, flags, selector or "", window, start=start or 0, makes=makes)
        self._auto_accept = auto_accept
        self._browses = bool(browse)
        self._inbox: Inbox[QueueMessage] = Inbox(core.held)
        self._settler: Settler | None = None
        self._present: QueueMessage | None = None
        self._stopping = False

    async def stop(self) -> None:
        """No more comes. What is not settled goes back to the queue; returns when the server knows."""
        if not self._stopping:
            self._stopping = True
            self._inbox.end()
            self._inbox.clear()
            self._refuse(TideraceError("closed", "the consumer was stopped by the application"))
            present, self._present = self._present, None
            if present is not None and self._auto_accept:
                present.reject()
        if self._settler is not None:
            self._settler.flush()
        await self._core.remove(self)

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> QueueMessage:
        present, self._present = self._present, None
        if present is not None and self._auto_accept:
            present.accept()
        self._present = await self._inbox.get()
        return self._present

    # What the registry tells.

    def failed(self, error: TideraceError) -> None:
        self._refuse(error)
        self._inbox.end(error)

    def lost(self) -> None:
        self._settler = None
        # What waits comes again on the next connection; who has one of them cannot settle it any more.
        if not self._browses:
            self._inbox.clear()
        elif self.confirmed:
            self._core.drop(self)
            self.failed(TideraceError("connection-lost", "what was shown is not known on another connection"))

    def browsed(self) -> None:
        self._inbox.end()

    def queued(self, frame: Queued, path: str | None) -> None:
        if self._stopping:
            # These are not settled: the end of the subscription gives them back.
            return
        settler = self._settler
        if settler is None:
            settler = self._settler = Settler(self._core, self)
        queue = path or self.path
        for number, entry in enumerate(frame.entries, frame.first):
            message = QueueMessage(queue, entry, frame.redeliveries, settler, frame.home, number)
            self._inbox.push(message, len(entry.body) + len(entry.properties or b""))


class Queue:
    """A queue: each message goes to one consumer."""

    def __init__(self, core: Core, path: str, makes: dict[str, Any] | None = None) -> None:
        self.path = path
        self._core = core
        self._makes = makes

    async def send(
        self,
        value: Any,
        *,
        type: str | None = None,
        properties: Mapping[str, str] | None = None,
        persistent: bool = False,
        expires: float | None = None,
        delay: float | None = None,
        deliver_at: datetime | float | None = None,
        group: str | None = None,
        priority: int | None = None,
        confirm: bool = True,
    ) -> None:
        """Returns when the server has it; a persistent one, when it is stored.

        `persistent`: it survives a restart of the server, which must have a store. `expires`: seconds after which it
        is worthless. `delay`: seconds after which it is delivered; or `deliver_at`, a `datetime` or seconds since 1970.
        `group`: all messages of a group go to one consumer while it is there, in their order. `priority`: from 0 to 9,
        the most urgent, for queues that order by it.
        """
        fields = {
            "delay": None if delay is None else str(milliseconds(delay)),
            "deliver-at": None if deliver_at is None else str(moment(deliver_at)),
            "message_group": group,
            "priority": None if priority is None else str(priority),
        }
        said = {name: field for name, field in fields.items() if field is not None}
        flags = (m.PERSISTENT if persistent else 0) | (m.QUEUE_FIELDS if said else 0)
        encoded = encode_value(value, type, {**(properties or {}), **said})
        await self._core.publish(m.QUEUE_KIND, self.path, flags, encoded, expires, confirm)

    def receive(
        self,
        *,
        prefetch: int = 16,
        exclusive: bool = False,
        selector: str | None = None,
        auto_accept: bool = True,
    ) -> Consumer:
        """Consumes; iterate over what is returned.

        `prefetch`: unsettled messages that may be under way. `exclusive`: no other consumer gets anything while this
        one lives. `selector`: only messages whose properties match this SQL-92 condition. `auto_accept`: see
        `Consumer`.
        """
        consumer = Consumer(
            self._core,
            self.path,
            prefetch=prefetch,
            exclusive=exclusive,
            selector=selector,
            auto_accept=auto_accept,
            makes=self._makes,
        )
        self._core.add(consumer)
        return consumer

    def browse(
        self,
        *,
        follow: bool = False,
        start: int | None = None,
        prefetch: int = 16,
        selector: str | None = None,
    ) -> Consumer:
        """Shows the messages of the queue, which stay there: those that are there, in their order.

        `follow`: it goes on with what comes. `start`: it begins with the first message of at least this position (of
        `client.queues.peek`), or, with 0, with what comes. A browser does not outlive its connection.
        """
        browser = Consumer(
            self._core,
            self.path,
            prefetch=prefetch,
            exclusive=False,
            selector=selector,
            auto_accept=True,
            browse=m.BROWSE | (m.FOLLOW if follow else 0),
            start=start,
        )
        self._core.add(browser)
        return browser


class DurableSubscription(Queue):
    """A queue that topics feed, whether anybody is connected or not.

    Who consumes from it shares its messages with all others who do. That a consumer stops, or the client closes, ends
    nothing: it goes on gathering until somebody calls `delete`.
    """

    def __init__(self, core: Core, name: str, topics: str | list[str] | None, selector: str | None) -> None:
        makes: dict[str, Any] | None = None
        if topics is not None:
            makes = {"do": "create-subscription", "name": name, "topics": topics}
            if selector is not None:
                makes["selector"] = selector
        super().__init__(core, f"dsub/{name}", makes)
        self.name = name

    async def create(self) -> None:
        """Makes it, or changes what it gathers from now on; `receive` does so by itself."""
        if self._makes is None:
            raise TideraceError("bad-operation", "say which topics it gathers")
        await self._core.operate(self._makes)

    async def delete(self) -> None:
        """Ends it, with all that it has gathered; `subscription-in-use` while somebody consumes from it."""
        await self._core.operate({"do": "delete-subscription", "name": self.name})
