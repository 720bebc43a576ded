"""All interests of a client by their ids: subscribes them on each new connection and leads to them what arrives.

No I/O. Invariant: an id is used again only when the server has let go of it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

from . import _messages as m
from ._client_frames import ClientFrame, Operate, Subscribe, Unsubscribe
from ._content import to_json
from ._delta import apply_delta
from ._errors import TideraceError, malformed
from ._exchanges import ExchangeEnd, Transmit
from ._interest import Interest
from ._progress import ApplyDelta
from ._server_frames import (
    Browsed,
    Exchange,
    Follows,
    Joined,
    Left,
    Queued,
    Recovered,
    ServerFrame,
    TopicId,
    Unsubscribed,
    Updates,
)
from ._session import Answer, Session, answer_of
from ._vcdiff import apply_vcdiff

DECODERS: dict[int, ApplyDelta] = {m.CODEC_TIDERACE: apply_delta, m.CODEC_VCDIFF: apply_vcdiff}

#: Names of topics of patterns that one connection may give numbers.
TOPIC_IDS_MAX = 4 * 1024 * 1024


class _Place:
    """One id."""

    __slots__ = ("ended", "id", "interest", "topic_ids")

    def __init__(self, number: int, interest: Interest) -> None:
        self.id = number
        self.interest = interest
        #: The application is through with it; the id waits for the server's answer.
        self.ended = False
        #: Of the present connection.
        self.topic_ids: set[int] = set()


class Registry:
    """See the module."""

    def __init__(self, refused: Callable[[TideraceError], None]) -> None:
        self._refused = refused
        self._places: dict[int, _Place] = {}
        self._ids: dict[Interest, int] = {}
        self._free: list[int] = []
        self._topics: dict[int, tuple[_Place, str]] = {}
        self._recovering: dict[int, Interest] = {}
        self._session: Session | None = None
        self._restarted = False
        #: The position is still that of another life of the server, or of another server.
        self._elsewhere = False
        self._apply: ApplyDelta = apply_delta

    def add(self, interest: Interest) -> None:
        """Subscribes it: now, or when there is a connection."""
        number = heapq.heappop(self._free) if self._free else len(self._places)
        place = self._places[number] = _Place(number, interest)
        self._ids[interest] = number
        self._subscribe(place)

    def remove(self, interest: Interest, done: Callable[[], None] = lambda: None) -> None:
        """Tells when the server has let go of it."""
        number = self._ids.pop(interest, None)
        if number is None:
            done()
            return
        place = self._places[number]
        place.ended = True

        def answered(_: Answer) -> None:
            # Without a connection the subscription is gone as well.
            self._release(place)
            done()

        if self._session is None:
            answered(TideraceError("connection-lost", "there is no connection"))
        else:
            self._session.request(lambda request: Unsubscribe(request, number), answered)

    def id_of(self, interest: Interest) -> int | None:
        return self._ids.get(interest)

    def up(self, session: Session, restarted: bool, renewed: bool) -> None:
        """A connection is there.

        `restarted`: in another life of the server than the position. `renewed`: in another one than the last
        connection.
        """
        self._session = session
        self._restarted = self._elsewhere = restarted
        codecs = session.welcome.codecs if session.welcome else ()
        self._apply = DECODERS.get(codecs[0], apply_delta) if codecs else apply_delta
        for place in list(self._places.values()):
            interest = place.interest
            if place.ended:
                continue
            if not interest.wish.flags & m.RECOVERABLE:
                if renewed and interest.confirmed:
                    interest.confirmed = False
                    interest.restarted()
            elif not restarted:
                interest.returned()
            self._subscribe(place)

    def moved(self) -> None:
        """The position is that of the present server from now on."""
        self._elsewhere = False
        for place in self._places.values():
            place.interest.moved()

    def down(self) -> None:
        """The connection is gone."""
        self._session = None
        self._topics.clear()
        self._recovering.clear()
        for place in list(self._places.values()):
            place.topic_ids.clear()
            if place.ended:
                self._release(place)
            else:
                place.interest.lost()

    def close(self, error: TideraceError) -> None:
        """Nothing will come any more."""
        places, self._places = self._places, {}
        self._ids.clear()
        for place in places.values():
            if not place.ended:
                place.ended = True
                place.interest.failed(error)

    def frame(self, frame: ServerFrame) -> None:
        """Takes a message, if it is about interests."""
        if isinstance(frame, Updates):
            self._updates(frame)
        elif isinstance(frame, Queued):
            place, path = self._find(frame.flags & m.ANNOUNCED, frame.id)
            if not place.ended:
                place.interest.queued(frame, path)
        elif isinstance(frame, TopicId):
            self._announced(frame)
        elif isinstance(frame, Follows):
            place, path = self._find(frame.flags & m.ANNOUNCED, frame.id)
            if not place.ended:
                place.interest.follows(path, frame.version)
        elif isinstance(frame, Joined | Left):
            told = self._living(frame.subscription)
            if told is not None:
                gained = isinstance(frame, Joined)
                told.noticed(gained, frame.path, frame.spec if isinstance(frame, Joined) else frame.reason)
        elif isinstance(frame, Browsed):
            browser = self._living(frame.subscription)
            if browser is not None:
                browser.browsed()
        elif isinstance(frame, Unsubscribed):
            self._unsubscribed(frame)
        elif isinstance(frame, Recovered):
            interest = self._recovering.pop(frame.request, None)
            if interest is not None:
                interest.recovered(frame.complete, frame.continues, self._restarted, self._tells_values)

    def called(self, frame: Exchange, transmit: Transmit) -> ExchangeEnd | None:
        """Who answers a call."""
        place, _ = self._find(frame.flags & m.EXCHANGE_ANNOUNCED, frame.id)
        return None if place.ended else place.interest.called(frame, transmit)

    @property
    def _tells_values(self) -> bool:
        welcome = self._session.welcome if self._session else None
        return bool(welcome and welcome.features & m.CAN_TELL_VALUES)

    def _living(self, number: int) -> Interest | None:
        place = self._places.get(number)
        return None if place is None or place.ended else place.interest

    def _find(self, announced: int, number: int) -> tuple[_Place, str | None]:
        """Whose id that is; one that nobody knows would be a loss that nobody notices."""
        if announced:
            found = self._topics.get(number)
            if found is None:
                raise malformed(f"topic id {number} was not announced")
            return found
        place = self._places.get(number)
        if place is None:
            raise malformed(f"there is no subscription {number}")
        return place, None

    def _unsubscribed(self, frame: Unsubscribed) -> None:
        place = self._places.get(frame.subscription)
        # One that the application is through with has its id until its UNSUBSCRIBE is answered.
        if place is None or place.ended:
            return
        place.ended = True
        self._ids.pop(place.interest, None)
        self._release(place)
        error = TideraceError(frame.name, frame.sentence, frame.code)
        place.interest.failed(error)
        self._refused(error)

    def _announced(self, frame: TopicId) -> None:
        place = self._places.get(frame.subscription)
        if place is None:
            raise malformed(f"there is no subscription {frame.subscription} to announce a topic to")
        before = self._topics.get(frame.topic)
        if before is None and len(self._topics) >= TOPIC_IDS_MAX:
            raise malformed(f"more than {TOPIC_IDS_MAX} topics are announced")
        if before is not None:
            before[0].topic_ids.discard(frame.topic)
        place.topic_ids.add(frame.topic)
        self._topics[frame.topic] = (place, frame.path)

    def _updates(self, frame: Updates) -> None:
        places, topics, apply = self._places, self._topics, self._apply
        for entry in frame.entries:
            place: _Place | None
            path: str | None
            if entry.flags & m.ANNOUNCED:
                place, path = topics.get(entry.id) or self._find(m.ANNOUNCED, entry.id)
            else:
                place, path = places.get(entry.id) or self._find(0, entry.id)[0], None
            # What was on its way when a subscription ended is left aside.
            if not place.ended:
                place.interest.update(entry, path, apply)

    def _release(self, place: _Place) -> None:
        if self._places.get(place.id) is place:
            del self._places[place.id]
            heapq.heappush(self._free, place.id)
        for number in place.topic_ids:
            self._topics.pop(number, None)
        place.topic_ids.clear()

    def _flags(self, interest: Interest) -> int:
        wish = interest.wish
        flags = wish.flags
        if flags & m.RECOVERABLE and interest.confirmed:
            # What was missed, instead of the beginning.
            flags = (flags | m.RESUME) & ~m.REPLAY
        if wish.kind == m.TOPIC_KIND and flags & m.SNAPSHOT and self._tells_values:
            flags |= m.VALUES
            # What these do not confirm is gone.
            if interest.stale and not flags & m.RESUME:
                flags |= m.OK_LAST
        return flags

    def _subscribe(self, place: _Place) -> None:
        session, interest = self._session, place.interest
        if session is None:
            return
        flags = self._flags(interest)
        if self._elsewhere and not flags & m.RESUME:
            interest.elsewhere()
        answers: list[Answer] = []
        wish = interest.wish
        makes = wish.makes
        wanted = 1 if makes is None else 2

        def answered(answer: Answer) -> None:
            answers.append(answer)
            if len(answers) == wanted and self._session is session and session.end is None:
                self._answered(place, flags, answer_of(answers))

        def build(request: int) -> ClientFrame:
            subscribe: Subscribe = wish.subscribe(request, place.id, flags)
            if flags & m.RESUME:
                self._recovering[request] = interest
            return subscribe

        # One write: what is subscribed to is there before the server comes to that.
        if makes is not None:
            operation = to_json(makes)
            session.request(lambda request: Operate(request, operation), answered)
        session.request(build, answered)

    def _answered(self, place: _Place, flags: int, error: TideraceError | None) -> None:
        interest = place.interest
        if error is None:
            if not place.ended:
                interest.confirmed = True
                interest.begun(bool(flags & m.OK_LAST))
            return
        if interest.wish.makes is not None:
            # The other one of two requests may have been done.
            ended = place.ended
            self.remove(interest)
        else:
            ended, place.ended = place.ended, True
            self._ids.pop(interest, None)
            self._release(place)
        if not ended:
            interest.failed(error)
            self._refused(error)
