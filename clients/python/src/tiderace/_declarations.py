"""Numbers of paths that are published to, on one connection: from the second time on a number stands for a path."""

from __future__ import annotations

from ._client_frames import Declare, Destination
from ._session import Session


class Declarations:
    """Invariant: there are no more of them than the server lets there be, and no more paths are remembered."""

    def __init__(self) -> None:
        self._session: Session | None = None
        #: Paths that were seen once (0), or declared under a number.
        self._known: dict[tuple[int, str], int] = {}
        self._last = 0

    def destination(self, session: Session, kind: int, path: str) -> Destination:
        """How a message on that connection names its destination; declares it, if it is time to."""
        if session is not self._session:
            self._session, self._known, self._last = session, {}, 0
        key = (kind, path)
        known = self._known.get(key)
        if known:
            return Destination(declared=known)
        most = session.welcome.declarations_max if session.welcome else 0
        if known == 0 and self._last < most:
            session.send(Declare(self._last + 1, kind, path))
            self._last += 1
            self._known[key] = self._last
            return Destination(declared=self._last)
        if known is None and len(self._known) < most:
            self._known[key] = 0
        return Destination(kind, path)
