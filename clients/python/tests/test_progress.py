"""Whatever is sent, dropped, lost and sent again: nothing is given twice, and all that is missing is counted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tiderace import Gap, Update
from tiderace import _messages as m
from tiderace._delta import apply_delta, make_delta
from tiderace._progress import Progress, TopicCounts, whole_version
from tiderace._server_frames import UpdateEntry

#: What happens next to the messages of one topic.
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.just(0)),
        st.tuples(st.just("drop"), st.integers(1, 100_000)),
        # The server has begun anew and gives no version twice.
        st.tuples(st.just("jump"), st.integers(1, 1 << 20)),
        # The connection is lost, and the client comes back to a position that is so many messages behind.
        st.tuples(st.just("lose"), st.integers(0, 5)),
    ),
    max_size=40,
)


def body_of(version: int) -> bytes:
    return f'{{"version":{version},"text":"the same in all of them"}}'.encode()


class Source:
    """One topic at a server, and what one client has been sent of it on this connection."""

    def __init__(self) -> None:
        self.version = 100
        #: What was published: version, and the version before it.
        self.log: list[tuple[int, int]] = []
        self.sent: int | None = None
        self.counts = TopicCounts()
        self.progress = Progress(True, True, self.counts)
        self.given: list[int] = []
        self.missed = 0

    def publish(self, jump: int = 1) -> None:
        before, self.version = self.version, self.version + jump
        self.log.append((self.version, before))

    def send(self, at: int) -> None:
        """The message at a place of the log, in the shortest form that the protocol has for it."""
        version, before = self.log[at]
        if before != version - 1:
            self.progress.follows("a", before)
        flags, data, low = 1, body_of(version), version & 0xFFFF
        if self.sent != version - 1:
            flags, low = flags | m.FULL_VERSION, version
        else:
            flags, data = flags | m.DELTA, make_delta(body_of(self.sent), data)
        self.sent = version
        for event in self.progress.update(UpdateEntry(flags, 0, low, data), "a", apply_delta):
            if isinstance(event, Update):
                assert event.bytes == body_of(event.version)
                self.given.append(event.version)
            elif isinstance(event, Gap):
                assert event.missed is not None
                self.missed += event.missed


@given(steps)
def test_nothing_is_given_twice_and_all_that_is_missing_is_counted(wanted: list[tuple[str, int]]) -> None:
    source = Source()
    for kind, number in wanted:
        if kind == "drop":
            for _ in range(min(number, 50)):
                source.publish()
            continue
        if kind == "lose":
            source.progress.lost()
            source.sent = None
            for at in range(max(0, len(source.log) - number), len(source.log)):
                source.send(at)
            continue
        source.publish(number or 1)
        source.send(len(source.log) - 1)
    assert source.given == sorted(set(source.given)), "in order, and once"
    if source.given:
        first, last = source.given[0], source.given[-1]
        between = [version for version, _ in source.log if first <= version <= last]
        # What is dropped first and comes after a loss was missed when it was told.
        assert source.missed == len(between) - len(source.given)
    assert source.counts.updates == len(source.given)


@given(st.integers(0, 1 << 40), st.integers(1, 0x10000))
def test_a_version_is_known_by_its_lowest_bits_up_to_65536_further(last: int, further: int) -> None:
    assert whole_version((last + further) & 0xFFFF, last, "a") == last + further


@given(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), st.sets(st.sampled_from(["a", "b", "c"])))
def test_values_that_are_not_confirmed_are_told_as_removed_once(before: list[str], after: set[str]) -> None:
    progress = Progress(False, True, TopicCounts())
    for version, path in enumerate(before, 1):
        progress.update(UpdateEntry(1 | m.FULL_VERSION | m.VALUE, 0, version, b"1"), path, apply_delta)
    assert progress.stale == bool(before)
    progress.lost()
    progress.incomplete(continues=False, restarted=True)
    for version, path in enumerate(sorted(after), 1):
        progress.update(UpdateEntry(1 | m.FULL_VERSION | m.VALUE, 0, version, b"2"), path, apply_delta)
    removed = [event.topic for event in progress.settled() if isinstance(event, Update) and event.removed]
    assert removed == [path for path in dict.fromkeys(before) if path not in after]
    assert progress.settled() == [], "told once"
