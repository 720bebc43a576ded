//! Ready messages of one queue that are in the store alone: one range of versions in each rank, and who wants some.
//!
//! ```text
//!   rank 0: in memory │ first ··· in the store alone, but for `outside` ··· last │ in memory until the store has them
//!   rank 5: in memory │ first ··· …
//! ```
//! Nearly all queues have one rank, those that order by priority one for each that is in use.
//! Messages leave the range at its front, when they are loaded for the consumer that takes the next, or from its midst, when
//! somebody has looked for them there. What left it from its midst the store still gives, until it has been told that
//! it is gone and has said so: until then it is `outside`. So the range never falls apart, however much is taken out of
//! it, and a queue costs the same however deep it is. A part that is asked for lies in one range: what comes into another
//! meanwhile is not in the answer. Invariant: a message is given for the range once.

use std::collections::{BTreeSet, VecDeque};

use tiderace_base::{Key, Time};
use tiderace_filter::Selector;
use tiderace_wire::{Flags, rank_of};

use crate::Segment;
use crate::ranks::{PerRank, last_of};
use crate::versions::Versions;

/// Why messages are to be read from the store.
#[derive(Clone, Debug)]
pub(crate) enum Want {
    /// Somebody takes whatever comes next.
    Front,
    /// Consumers with that selection have not looked at them.
    Selection(u32),
    /// The time of some is over.
    Expired,
    /// Those that have waited longest are to be dropped, and versions do not say which these are.
    Drop,
    /// An operation has not looked at them.
    Look(Box<Look>),
    /// A browser has not been shown them.
    Browser(Key),
}

/// What an operation looks for among messages that are in the store alone.
#[derive(Clone, Debug)]
pub struct Look {
    /// By this the answer is known.
    pub number: u64,
    /// The version of the first message to look at.
    pub from: u64,
    /// The number of the last, whatever its rank.
    pub to: u64,
    /// Only messages that match are wanted in memory.
    pub selector: Option<Selector>,
    /// At most so many.
    pub messages: u64,
    /// About so many bytes.
    pub bytes: usize,
}

/// Who is among those that want something, or is being answered: nobody is twice.
#[derive(Debug, Default)]
struct Wanting {
    front: bool,
    expired: bool,
    drop: bool,
    selections: BTreeSet<u32>,
}

impl Wanting {
    /// Whether it was not among them.
    fn add(&mut self, want: &Want) -> bool {
        match want {
            Want::Front => !std::mem::replace(&mut self.front, true),
            Want::Expired => !std::mem::replace(&mut self.expired, true),
            Want::Drop => !std::mem::replace(&mut self.drop, true),
            Want::Selection(id) => self.selections.insert(*id),
            // Each search has a number of its own, and a browser waits for one part.
            Want::Look(_) | Want::Browser(_) => true,
        }
    }

    fn remove(&mut self, want: &Want) {
        match want {
            Want::Front => self.front = false,
            Want::Expired => self.expired = false,
            Want::Drop => self.drop = false,
            Want::Selection(id) => _ = self.selections.remove(id),
            Want::Look(_) | Want::Browser(_) => {}
        }
    }
}

/// The range of one rank.
#[derive(Debug)]
pub(crate) struct Range {
    /// No version below it is in the range.
    pub(crate) first: u64,
    /// Nor one above it.
    pub(crate) last: u64,
    pub(crate) messages: u64,
    bytes: u64,
    outside: Versions,
}

impl Range {
    /// One that has nothing and ends before a version.
    fn before(first: u64) -> Range {
        let outside = Versions::default();
        Range { first, last: first.saturating_sub(1), messages: 0, bytes: 0, outside }
    }

    /// The first version from one on that is in the range.
    pub(crate) fn first_inside(&self, from: u64) -> Option<u64> {
        let version = self.outside.first_gap(from.max(self.first));
        (self.messages > 0 && version <= self.last).then_some(version)
    }

    fn within(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        if self.messages == 0 {
            return Vec::new();
        }
        self.outside.gaps(first.max(self.first), last.min(self.last))
    }

    /// Whether each version of the range that is not outside is that of a message: others are gone, or were never in the
    /// store.
    fn has_all(&self) -> bool {
        let versions = self.last.saturating_add(1).saturating_sub(self.first);
        versions.saturating_sub(self.outside.count()) == self.messages
    }

    fn forget(&mut self, messages: u64, bytes: u64) {
        self.messages = self.messages.saturating_sub(messages);
        self.bytes = if self.messages == 0 { 0 } else { self.bytes.saturating_sub(bytes) };
    }

    fn pass(&mut self, version: u64) -> u64 {
        self.first = self.first.max(version.saturating_add(1));
        self.outside.remove(0, version);
        if self.first <= self.last {
            return 0;
        }
        self.bytes = 0;
        std::mem::take(&mut self.messages)
    }
}

/// The messages of one queue that are in the store alone.
#[derive(Debug)]
pub(crate) struct Swapped {
    ranges: PerRank<Range>,
    /// When to look for expired ones among them.
    pub(crate) expires_ms: Option<u64>,
    /// Where the search for expired ones goes on, and when the first that it has passed expires.
    pub(crate) search: (u64, Option<u64>),
    /// When the first of them was published, or restored.
    pub(crate) since: Time,
    /// Versions that the store has said to be gone while it was asked: its answer may still have them.
    gone_meanwhile: Vec<(u64, u64)>,
    loading: Option<Want>,
    /// The version from which on the part under way was asked for.
    asked_from: u64,
    /// Bytes for which it was asked.
    asked_bytes: usize,
    /// The store cannot read just now: nothing is asked for before the next tick.
    is_stalled: bool,
    wants: VecDeque<Want>,
    /// Those of browsers, which get every other part at most, however many they are.
    browsers: VecDeque<Want>,
    /// Whether the last part was for a browser.
    was_browser: bool,
    wanting: Wanting,
    /// Whether messages in memory came to lie in a range since it was last looked whether any may be put back.
    may_put_back: bool,
    /// Operations that have not done yet with what they looked for.
    looks: u32,
}

impl Swapped {
    pub(crate) fn new(since: Time) -> Swapped {
        Swapped {
            ranges: PerRank::default(),
            expires_ms: None,
            search: (0, None),
            since,
            gone_meanwhile: Vec::new(),
            loading: None,
            asked_from: 0,
            asked_bytes: 0,
            is_stalled: false,
            wants: VecDeque::new(),
            browsers: VecDeque::new(),
            was_browser: false,
            wanting: Wanting::default(),
            may_put_back: false,
            looks: 0,
        }
    }

    /// The ranges that have messages, in order.
    pub(crate) fn ranges(&self) -> impl DoubleEndedIterator<Item = (u64, &Range)> {
        self.ranges.iter().filter(|(_, range)| range.messages > 0)
    }

    fn of(&self, version: u64) -> Option<&Range> {
        self.ranges.get(rank_of(version))
    }

    fn of_mut(&mut self, version: u64) -> Option<&mut Range> {
        self.ranges.get_mut(rank_of(version))
    }

    /// The first version of all ranges, `u64::MAX` if they have nothing: behind it nothing is given to who takes the first.
    pub(crate) fn barrier(&self) -> u64 {
        self.ranges().next().map_or(u64::MAX, |(_, range)| range.first)
    }

    /// No version above it is in any range.
    pub(crate) fn last(&self) -> u64 {
        self.ranges.iter().next_back().map_or(0, |(_, range)| range.last)
    }

    pub(crate) fn messages(&self) -> u64 {
        self.ranges.iter().map(|(_, range)| range.messages).sum()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.iter().map(|(_, range)| range.bytes).sum()
    }

    /// Whether nothing is in the ranges, and nobody waits for any of it.
    pub(crate) fn is_over(&self) -> bool {
        let wants = self.wants.is_empty() && self.browsers.is_empty();
        self.loading.is_none() && wants && self.looks == 0 && self.messages() == 0
    }

    /// The first version from one on that is in a range.
    pub(crate) fn first_inside(&self, from: u64) -> Option<u64> {
        self.ranges().find_map(|(_, range)| range.first_inside(from))
    }

    /// The first stretch of versions from one on, with numbers up to that, that may be in a range: it lies in one. The
    /// first version to look at is given by rank.
    pub(crate) fn stretch(&self, from: impl Fn(u64) -> u64, to: u64) -> Option<(u64, u64)> {
        let stretches = self
            .ranges()
            .map(|(rank, range)| (range.first.max(from(rank)), range.last.min(last_of(rank, to))));
        stretches.into_iter().find(|(first, last)| first <= last)
    }

    /// The versions between two, both included, that are in a range.
    pub(crate) fn within(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        self.ranges().flat_map(|(_, range)| range.within(first, last)).collect()
    }

    /// Whether any version between two of one rank, both included, is in the hands of the queue while the store still gives
    /// it. Those that the store has not confirmed yet are as soon as it has.
    pub(crate) fn has_outside(&self, first: u64, last: u64) -> bool {
        let range = self.of(last);
        range.is_none_or(|range| last > range.last || range.outside.has_any(first, last))
    }

    /// Whether a new message with that version lies behind others that are here. If some of its rank may be put back, it
    /// does, too: what the store has of a range is in the range, or outside of it.
    pub(crate) fn is_behind(&self, version: u64) -> bool {
        version > self.barrier() || self.of(version).is_some_and(|it| it.outside.count() > 0)
    }

    /// The store had messages between two versions at the start of the server, with so many bytes.
    pub(crate) fn restore(&mut self, (first, last): (u64, u64), bytes: u64) {
        let Some(range) = self.ranges.entry(rank_of(first), || Range::before(first)) else {
            return;
        };
        range.last = last;
        range.messages += last - first + 1;
        range.bytes += bytes;
    }

    /// The store has messages of the versions `first..=last` from now on, behind all in their range. Those of `left` are left
    /// to it.
    pub(crate) fn extend(&mut self, (first, last): (u64, u64), left: &[Segment]) {
        if self.messages() == 0 {
            (self.expires_ms, self.search) = (None, (0, None));
            if let Some(segment) = left.first() {
                self.since = segment.run.published();
            }
        }
        let Some(range) = self.ranges.entry(rank_of(first), || Range::before(first)) else {
            return;
        };
        let mut from = first.max(range.last.saturating_add(1));
        if range.messages == 0 {
            from = from.max(left.first().map_or(first, Segment::first_version));
            range.first = from;
            range.outside.clear();
        }
        range.last = range.last.max(last);
        range.outside.add(from, last);
        for segment in left {
            range.outside.remove(segment.first_version(), segment.last_version());
            range.messages += u64::from(segment.len());
            range.bytes += segment.bytes() as u64;
        }
        for segment in left {
            self.expect_of(segment);
        }
    }

    /// Some may expire then.
    pub(crate) fn expect(&mut self, expires_ms: Option<u64>) {
        let known = self.expires_ms.into_iter().chain(expires_ms).min();
        self.expires_ms = known;
    }

    /// The same of messages of a range, which a search under way may have passed.
    fn expect_of(&mut self, segment: &Segment) {
        let expires = expires_ms(segment);
        if self.search.0 > 0 || matches!(self.loading, Some(Want::Expired)) {
            self.search.1 = self.search.1.into_iter().chain(expires).min();
        }
        self.expect(expires);
    }

    /// A search for expired messages has come to the end of all ranges.
    pub(crate) fn end_search(&mut self) {
        let (_, passed) = std::mem::take(&mut self.search);
        self.expect(passed);
    }

    /// Whether messages of these versions left their range from its midst.
    pub(crate) fn is_outside(&self, segment: &Segment) -> bool {
        let (first, last) = (segment.first_version(), segment.last_version());
        self.of(first).is_some_and(|range| {
            first >= range.first && last <= range.last && range.outside.gaps(first, last).is_empty()
        })
    }

    /// Messages that were outside are in their range again.
    pub(crate) fn put_back(&mut self, segment: &Segment) {
        let (first, last) = (segment.first_version(), segment.last_version());
        let Some(range) = self.of_mut(first) else { return };
        range.outside.remove(first, last);
        range.messages += u64::from(segment.len());
        range.bytes += segment.bytes() as u64;
        self.expect_of(segment);
    }

    /// So many messages of the range of a version are elsewhere, or nowhere any more; their versions are passed, or
    /// [`Swapped::set_outside`].
    pub(crate) fn forget(&mut self, version: u64, messages: u64, bytes: u64) {
        if let Some(range) = self.of_mut(version) {
            range.forget(messages, bytes);
        }
    }

    /// The store may give these, which are of one rank, and they are not in the range.
    pub(crate) fn set_outside(&mut self, first: u64, last: u64) {
        if let Some(range) = self.of_mut(first) {
            range.outside.add(first.max(range.first), last.min(range.last));
        }
    }

    /// The range of that version begins behind it; how many messages are missing if it is over.
    pub(crate) fn pass(&mut self, version: u64) -> u64 {
        self.of_mut(version).map_or(0, |range| range.pass(version))
    }

    /// Everything in the ranges is gone: which versions that were.
    pub(crate) fn clear(&mut self) -> Vec<(u64, u64)> {
        let gone = self.within(0, u64::MAX);
        for range in self.ranges.values_mut() {
            range.pass(range.last);
        }
        self.expires_ms = None;
        gone
    }

    /// Takes the first message of the last rank out of its range, unread: its version, if that can be told.
    pub(crate) fn take_least(&mut self) -> Option<u64> {
        let range = self.ranges.values_mut().rev().find(|range| range.messages > 0)?;
        let version = range.outside.first_gap(range.first);
        if version > range.last || !range.has_all() {
            return None;
        }
        range.forget(1, range.bytes / range.messages);
        range.pass(version);
        Some(version)
    }

    /// The store has said that these, which are of one rank, are gone.
    pub(crate) fn settled(&mut self, first: u64, last: u64) {
        if self.loading.is_some() {
            self.gone_meanwhile.push((first, last));
        } else if let Some(range) = self.of_mut(first) {
            range.outside.remove(first, last);
        }
    }

    /// An operation has what it looked for.
    pub(crate) fn begin_look(&mut self) {
        self.looks += 1;
    }

    /// It has done with it.
    pub(crate) fn end_look(&mut self) {
        self.looks = self.looks.saturating_sub(1);
    }

    /// Messages from that version on came into memory.
    #[inline]
    pub(crate) fn note_ready(&mut self, version: u64) {
        let range = self.of(version);
        self.may_put_back |= range.is_some_and(|it| (it.first..=it.last).contains(&version));
    }

    /// Whether some that left the range from its midst may be put back: nobody reads the store, or has looked for some of
    /// them.
    pub(crate) fn may_put_back(&self) -> bool {
        self.may_put_back && self.loading.is_none() && self.looks == 0
    }

    /// All that can be put back are about to be.
    pub(crate) fn begin_put_back(&mut self) {
        self.may_put_back = false;
    }

    /// Somebody wants messages of the range.
    pub(crate) fn want(&mut self, want: Want) {
        match &want {
            Want::Browser(_) => self.browsers.push_back(want),
            _ if self.wanting.add(&want) => self.wants.push_back(want),
            _ => {}
        }
    }

    /// Whose turn it is, if nothing is under way.
    pub(crate) fn next_want(&mut self) -> Option<Want> {
        if self.loading.is_some() || self.is_stalled {
            return None;
        }
        let browser = if self.was_browser { None } else { self.browsers.pop_front() };
        let want = browser.or_else(|| self.wants.pop_front());
        let want = want.or_else(|| self.browsers.pop_front())?;
        self.was_browser = matches!(want, Want::Browser(_));
        self.wanting.remove(&want);
        Some(want)
    }

    /// The store is asked for somebody, for messages from a version on and that many bytes.
    pub(crate) fn begin_load(&mut self, want: Want, from: u64, bytes: usize) {
        self.wanting.add(&want);
        (self.loading, self.asked_from, self.asked_bytes) = (Some(want), from, bytes);
    }

    /// Bytes for which the store is asked.
    pub(crate) fn asked_bytes(&self) -> usize {
        if self.loading.is_some() { self.asked_bytes } else { 0 }
    }

    /// The store has answered up to a version: whether it could read nothing just now. Then it is asked again after
    /// [`Swapped::resume`].
    pub(crate) fn stall(&mut self, through: u64) -> bool {
        if through >= self.asked_from {
            return false;
        }
        self.is_stalled = true;
        match self.loading.take() {
            Some(want @ Want::Browser(_)) => self.browsers.push_front(want),
            Some(want) => self.wants.push_front(want),
            None => {}
        }
        true
    }

    /// Whether it cannot read just now.
    pub(crate) fn is_stalled(&self) -> bool {
        self.is_stalled
    }

    /// The store is asked again.
    pub(crate) fn resume(&mut self) {
        self.is_stalled = false;
    }

    /// The store has answered; who had asked.
    pub(crate) fn end_load(&mut self) -> Option<Want> {
        let want = self.loading.take()?;
        self.wanting.remove(&want);
        Some(want)
    }

    /// What the store has said meanwhile is true of its next answer.
    pub(crate) fn catch_up(&mut self) {
        for (first, last) in std::mem::take(&mut self.gone_meanwhile) {
            if let Some(range) = self.of_mut(first) {
                range.outside.remove(first, last);
            }
        }
    }

    /// All that is wanted, when the queue ends.
    pub(crate) fn into_wants(self) -> impl Iterator<Item = Want> {
        self.loading.into_iter().chain(self.wants)
    }

    /// Bytes of one message, on average.
    pub(crate) fn bytes_each(&self) -> u64 {
        self.bytes().checked_div(self.messages()).unwrap_or(0)
    }
}

/// When the first of a segment's messages expires.
pub(crate) fn expires_ms(segment: &Segment) -> Option<u64> {
    if !segment.run.any(Flags::EXPIRES) {
        return None;
    }
    let messages = (segment.from..segment.to).filter_map(|at| segment.run.message(at as usize));
    messages.filter_map(|message| message.expires_ms).min()
}

/// Messages of a run for themselves, as often delivered as they were: if they are few, copied, so that they do not keep the
/// others in memory.
pub(crate) fn alone(segment: Segment) -> Vec<Segment> {
    if segment.run.len() == 1 || segment.bytes() * 2 >= segment.run.bytes() {
        return vec![segment];
    }
    let copy = |index: u32| {
        let copy = segment.run.copy_of(&segment.run.message(index as usize)?);
        let Segment { redeliveries, failures, .. } = segment;
        Some(Segment { redeliveries, failures, ..Segment::whole(copy.into()) })
    };
    (segment.from..segment.to).filter_map(copy).collect()
}
