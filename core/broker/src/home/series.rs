//! What a topic keeps besides its value: its last messages, or the events of a time series.
//!
//! Kept at the topic's home, bounded by the number and age that its specification says, and counted
//! with the retained values. An event may be replaced; the replacement is an event of its own that
//! says which it replaces, so nothing is ever rewritten. Invariants: versions rise; what a topic
//! keeps is what its specification says, never less but for age.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_wire::{Event, Events, Flags, HistoryQuery, HistorySpec, Replay, Run};

use crate::home::displaced::Displaced;
use crate::price::{EVENT, EVENT_PASSED};
use crate::runs::{copy_of, last_of};

/// Events of one answer, if nobody says how many, and at most.
const ANSWER_DEFAULT: usize = 1_000;
const ANSWER_MAX: usize = 10_000;
/// Bytes of one answer; one event alone may be larger.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes of what a new subscription is given of one topic.
const REPLAY_BYTES_MAX: usize = 1 << 20;
/// What a message counts for in a replay besides its bytes, so that empty ones are bounded as well.
const REPLAYED_BYTES: usize = 16;

/// What one topic keeps.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// Oldest first.
    kept: VecDeque<Kept>,
    /// Messages in these.
    messages: usize,
    bytes: usize,
    /// The highest number of the topic's messages that is not here any more or never was; removals,
    /// which are never here, do not count.
    boundary: u64,
    /// By the version of an event that was replaced: that of the newest that is kept of those that
    /// replace it.
    replaced: BTreeMap<u64, u64>,
}

/// Messages that were kept together.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) run: Arc<Run>,
    /// The first of them that is still kept.
    pub(crate) from: usize,
    pub(crate) time_ms: u64,
    pub(crate) author: Option<Arc<str>>,
    pub(crate) amends: Option<u64>,
}

impl Kept {
    fn len(&self) -> usize {
        self.run.len() - self.from
    }

    /// The version of the first message that is still kept.
    pub(crate) fn first(&self) -> u64 {
        self.run.version() + self.from as u64
    }

    fn end(&self) -> u64 {
        self.run.version() + self.run.len() as u64
    }

    /// Whether the message of that version is one of them.
    pub(crate) fn has(&self, version: u64) -> bool {
        (self.first()..self.end()).contains(&version)
    }

    fn event(&self, place: usize) -> Event {
        Event {
            run: self.run.clone(),
            place,
            version: self.run.version() + place as u64,
            time_ms: self.time_ms,
            author: self.author.clone(),
            amends: self.amends,
        }
    }
}

impl Series {
    /// For a topic that keeps what it gets after the message of that number.
    pub(crate) fn after(boundary: u64) -> Series {
        Series { boundary, ..Series::default() }
    }

    /// The runs with messages above a number, if these are all that the topic got since; `last` is the
    /// number of its last message.
    pub(crate) fn since(&self, after: u64, last: u64) -> Option<impl Iterator<Item = &Arc<Run>>> {
        let newest = self.kept.back().map(|kept| last_of(&kept.run));
        if self.boundary > after || newest != Some(last) {
            return None;
        }
        let start = self.kept.partition_point(|kept| last_of(&kept.run) <= after);
        Some(self.kept.range(start..).map(|kept| &kept.run))
    }

    /// Whether that run is kept.
    pub(crate) fn has_run(&self, run: &Arc<Run>) -> bool {
        let place = self.kept.partition_point(|kept| last_of(&kept.run) < last_of(run));
        self.kept.get(place).is_some_and(|kept| Arc::ptr_eq(&kept.run, run))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The version of the first message.
    pub(crate) fn first(&self) -> Option<u64> {
        self.kept.front().map(Kept::first)
    }

    /// All that is kept, oldest first.
    pub(crate) fn runs(&self) -> impl Iterator<Item = &Kept> + Clone {
        self.kept.iter()
    }

    /// The same, when nothing is kept any more.
    pub(crate) fn into_runs(self) -> impl Iterator<Item = Arc<Run>> {
        self.kept.into_iter().map(|kept| kept.run)
    }

    /// Takes messages in; of a run with removals those that are none, each for itself.
    pub(crate) fn push_run(&mut self, kept: Kept) {
        if !kept.run.any(Flags::RETAIN_REMOVE) {
            return self.push(kept);
        }
        for message in kept.run.messages().skip(kept.from) {
            if !message.flags.contains(Flags::RETAIN_REMOVE) {
                let run = copy_of(&kept.run, &message);
                self.push(Kept { run, from: 0, author: kept.author.clone(), ..kept });
            }
        }
    }

    fn push(&mut self, kept: Kept) {
        self.messages += kept.len();
        self.bytes += kept.run.bytes();
        if let Some(original) = kept.amends {
            self.replaced.insert(original, kept.end().saturating_sub(1));
        }
        self.kept.push_back(kept);
    }

    /// Gives up what the specification no longer wants.
    pub(crate) fn trim(&mut self, spec: HistorySpec, wall_ms: u64, displaced: &mut Displaced) {
        let age = u64::try_from(spec.age.as_millis()).unwrap_or(u64::MAX);
        while let Some(front) = self.kept.front_mut() {
            let over = match spec.count as usize {
                0 => 0,
                count => self.messages.saturating_sub(count),
            };
            let old = age > 0 && front.time_ms.saturating_add(age) <= wall_ms;
            if old || over >= front.len() {
                self.boundary = last_of(&front.run);
                self.messages -= front.len();
                self.bytes -= front.run.bytes();
                let newest = Some(front.end().saturating_sub(1));
                if let Some(original) = front.amends
                    && self.replaced.get(&original).copied() == newest
                {
                    self.replaced.remove(&original);
                }
                if let Some(kept) = self.kept.pop_front() {
                    displaced.note(kept.run);
                }
            } else {
                front.from += over;
                if over > 0 {
                    self.boundary = (front.run.first() + front.from as u64).saturating_sub(1);
                }
                self.messages -= over;
                break;
            }
        }
    }

    /// The events from a beginning on, oldest first.
    fn from(&self, from: Replay) -> impl Iterator<Item = Event> {
        self.places(from).map(|(kept, place)| kept.event(place))
    }

    /// The same, each as the messages it was kept with and its place among them.
    fn places(&self, from: Replay) -> impl DoubleEndedIterator<Item = (&Kept, usize)> {
        let (start, skip) = match from {
            Replay::Last(count) => {
                let mut left = count as usize;
                let last = self.kept.iter().rev().take_while(|kept| {
                    let wanted = left > 0;
                    left = left.saturating_sub(kept.len());
                    wanted
                });
                let start = self.kept.len() - last.count();
                let here: usize = self.kept.range(start..).map(Kept::len).sum();
                (start, here.saturating_sub(count as usize))
            }
            Replay::Version(version) => {
                let start = self.kept.partition_point(|kept| kept.end() <= version);
                let first = self.kept.get(start).map_or(version, Kept::first);
                (start, version.saturating_sub(first) as usize)
            }
            Replay::Time(time_ms) => (self.kept.partition_point(|kept| kept.time_ms < time_ms), 0),
        };
        // What is skipped is all of the first: so a walk from the end need not visit the others.
        let first = start.min(self.kept.len());
        self.kept.range(first..).enumerate().flat_map(move |(at, kept)| {
            let from = kept.from + if at == 0 { skip } else { 0 };
            (from..kept.run.len()).map(move |place| (kept, place))
        })
    }

    /// The event of a version, if it is kept.
    pub(crate) fn event(&self, version: u64) -> Option<Event> {
        self.from(Replay::Version(version)).next().filter(|event| event.version == version)
    }

    /// The newest event that replaces one.
    fn replacement(&self, version: u64) -> Option<Event> {
        self.event(*self.replaced.get(&version)?)
    }

    /// What reading so many messages costs at most, in units of the work budget.
    pub(crate) fn price(&self, limit: u32) -> u64 {
        let given = self.messages.min(answer_size(limit));
        EVENT * given as u64 + EVENT_PASSED * self.kept.len() as u64
    }

    /// Reads what is kept; of a time series each event as the newest that replaces it.
    pub(crate) fn read(&self, query: &HistoryQuery, is_time_series: bool) -> Events {
        let mut events = Events::default();
        let limit = answer_size(query.limit);
        let mut bytes = 0;
        for (kept, place) in self.places(query.from) {
            // Passed over before anything is made of it: there may be very many.
            if !query.amended && kept.amends.is_some() {
                continue;
            }
            let mut event = kept.event(place);
            if query.to.is_some_and(|to| event.version > to) {
                break;
            }
            if !query.amended
                && let Some(newer) = self.replacement(event.version).filter(|_| is_time_series)
            {
                let version = event.version;
                event = Event { version, amends: None, ..newer };
            }
            if events.events.len() == limit || bytes >= ANSWER_BYTES_MAX {
                events.more = true;
                break;
            }
            let message = event.run.message(event.place);
            bytes += message.map_or(0, |message| message.body.len() + message.properties.len());
            events.events.push(event);
        }
        events
    }

    /// What a new subscription gets, as runs.
    pub(crate) fn replay(&self, from: Replay) -> Vec<Arc<Run>> {
        let mut bytes = 0;
        let mut runs: Vec<Arc<Run>> = Vec::new();
        for (kept, place) in self.places(from).rev() {
            let Some(message) = kept.run.message(place) else { continue };
            bytes += message.body.len() + message.properties.len() + REPLAYED_BYTES;
            if bytes > REPLAY_BYTES_MAX && !runs.is_empty() {
                break;
            }
            let alone = kept.run.len() == 1;
            runs.push(if alone { kept.run.clone() } else { copy_of(&kept.run, &message) });
        }
        runs.reverse();
        let mut before: Option<u64> = None;
        for run in &mut runs {
            // Removals are not kept, and nothing is missing for that.
            let last = before.replace(run.version());
            if let Some(last) = last.filter(|last| run.version() != last + 1)
                && run.follows() != Some(last)
            {
                Arc::make_mut(run).set_follows(last);
            }
        }
        runs
    }
}

/// How many messages an answer has at most of which so many are wanted; zero: as many as is usual.
fn answer_size(wanted: u32) -> usize {
    if wanted == 0 { ANSWER_DEFAULT } else { (wanted as usize).min(ANSWER_MAX) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::{Span, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta, RunBuilder};

    fn run(version: u64, count: usize) -> Arc<Run> {
        let path = Path::parse("a").unwrap();
        let mut builder = RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO);
        for _ in 0..count {
            builder.finish(b"x", Meta::default());
        }
        let mut run = builder.build();
        run.set_version(version);
        Arc::new(run)
    }

    proptest! {
        #[test]
        fn what_is_kept_is_what_was_asked_for(
            runs in proptest::collection::vec((1usize..6, 0u64..50), 1..40),
            count in 0u32..12,
            age in 0u64..100,
            start in 0u64..120,
        ) {
            let spec = HistorySpec { count, age: Span::from_millis(age) };
            let mut series = Series::default();
            let mut model: Vec<(u64, u64)> = Vec::new();
            let (mut version, mut time_ms) = (1, 1_000);
            for (size, later) in runs {
                time_ms += later;
                let run = run(version, size);
                let amends = (size == 1 && version > 1).then(|| 1 + time_ms % (version - 1));
                series.push(Kept { run, from: 0, time_ms, author: None, amends });
                series.trim(spec, time_ms, &mut Displaced::default());
                model.extend((version..version + size as u64).map(|version| (version, time_ms)));
                version += size as u64;
                if age > 0 {
                    model.retain(|(_, at)| at + age > time_ms);
                }
                if count > 0 {
                    model.drain(..model.len().saturating_sub(count as usize));
                }
            }
            let versions = |from| series.from(from).map(|event| event.version).collect::<Vec<_>>();
            let wanted = |test: &dyn Fn(&(u64, u64)) -> bool| {
                model.iter().filter(|row| test(row)).map(|row| row.0).collect::<Vec<_>>()
            };
            prop_assert_eq!(versions(Replay::Version(0)), wanted(&|_| true));
            prop_assert_eq!(versions(Replay::Version(start)), wanted(&|row| row.0 >= start));
            prop_assert_eq!(versions(Replay::Time(1_000 + start)), wanted(&|row| row.1 >= 1_000 + start));
            for (version, _) in &model {
                let newest = series.kept.iter().rev().find(|kept| kept.amends == Some(*version));
                let found = series.replacement(*version).map(|event| event.version);
                prop_assert_eq!(found, newest.map(|kept| kept.first()));
            }
            prop_assert!(series.replaced.len() <= series.kept.len());
            let last = &model[model.len().saturating_sub(start as usize)..];
            let last: Vec<u64> = last.iter().map(|row| row.0).collect();
            prop_assert_eq!(versions(Replay::Last(start as u32)), last);
            prop_assert_eq!(series.messages, model.len());
            let bytes: usize = series.kept.iter().map(|kept| kept.run.bytes()).sum();
            prop_assert_eq!(series.bytes, bytes);
        }
    }
}
