"""What the application listens to or serves: one subscription of the protocol, kept across connections.

The registry gives it its id and tells it what comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._client_frames import Subscribe
from ._errors import TideraceError
from ._exchanges import ExchangeEnd, Transmit
from ._progress import ApplyDelta
from ._server_frames import Exchange, Queued, UpdateEntry


@dataclass
class Wish:
    """What SUBSCRIBE says, apart from ids."""

    kind: int
    path: str
    flags: int
    selector: str = ""
    window: tuple[int, int] = (0, 0)
    replay: tuple[int, int] = (0, 0)
    interval_ms: int = 0
    start: int = 0
    #: An operation that makes what is subscribed to, if it is not there; it goes before SUBSCRIBE.
    makes: dict[str, Any] | None = None

    def subscribe(self, request: int, subscription: int, flags: int) -> Subscribe:
        """The message; its position is that of HELLO."""
        return Subscribe(
            request,
            subscription,
            flags,
            self.kind,
            self.path,
            self.selector,
            self.window,
            b"",
            self.replay,
            self.interval_ms,
            self.start,
        )


class Interest:
    """What comes of a wish. What does not concern an interest is left aside."""

    wish: Wish
    #: Whether the server has confirmed it on some connection, so that it may be resumed.
    confirmed = False

    @property
    def stale(self) -> bool:
        """Whether it knows values that the server has not confirmed since it was subscribed last."""
        return False

    def begun(self, settled: bool) -> None:
        """It stands at the server; `settled`: and all current values have come."""

    def failed(self, error: TideraceError) -> None:
        """The server refused or has ended it, or the client was closed: it is over."""

    def recovered(self, complete: bool, continues: bool, restarted: bool, settles: bool) -> None:
        """What was missed has been recovered, or not all of it.

        `continues`: versions are those of the messages that had them before. `restarted`: the server is in another
        life than the position. `settles`: it can be subscribed again so that the end of the values is told.
        """

    def lost(self) -> None:
        """The connection is gone."""

    def restarted(self) -> None:
        """The server is in another life, and what was missed cannot be recovered."""

    def returned(self) -> None:
        """The server is the one that the position is of."""

    def elsewhere(self) -> None:
        """It begins anew with a server that the position is not of."""

    def moved(self) -> None:
        """The position is that of the present server from now on."""

    def noticed(self, gained: bool, topic: str, text: str) -> None:
        """It has gained a topic, of a specification, or lost one, for a reason."""

    def follows(self, path: str | None, version: int) -> None:
        """The next version of a topic follows this one: none in between was given to a message."""

    def browsed(self) -> None:
        """All that was in the queue has come."""

    def update(self, entry: UpdateEntry, path: str | None, apply: ApplyDelta) -> None:
        """One entry of UPDATES; `path` of a topic that was announced."""

    def queued(self, frame: Queued, path: str | None) -> None:
        """Messages of a queue."""

    def called(self, frame: Exchange, transmit: Transmit) -> ExchangeEnd | None:
        """A call of its service: who answers it; nobody, if it was refused."""
        return None
