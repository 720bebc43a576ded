//! What views give to the outputs whose home a shard is, and what waits to be shown.
//!
//! `output.rs` says what is shown, and when. Invariant: an output is held back, or due, at most once.

use std::collections::{BTreeSet, VecDeque};

use tiderace_base::{Key, Span, Time};
use tiderace_topics::Path;

use super::buckets::{BUCKETS, bucket_of};
use crate::collections::Map;

/// What a delayed value counts for besides its bytes.
const DELAYED_BYTES: usize = 128;
/// The outputs whose home a shard is.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    pub(super) buckets: Vec<Map<Key, Output>>,
    pub(super) len: usize,
    /// By rank, in the order in which they came.
    pub(super) delayed: Map<u32, VecDeque<Delayed>>,
    pub(super) delayed_bytes: usize,
    /// Outputs held back, and until when: those alone that are there.
    pub(super) paced: BTreeSet<(Time, Key)>,
    /// How many views there were between a client and outputs whose end the home has yet to tell of.
    ended: Map<Key, u8>,
}

/// One output.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// Who gives to it; who did so last stands last.
    pub(super) given: Vec<Given>,
    /// How many views there are between a client and it.
    pub(super) hops: u8,
    /// Whether it is going to be shown anyway.
    pub(super) waiting: bool,
    /// Until when it is held back; then it waits.
    pub(super) paced: Option<Time>,
    /// For those with a throttle: the window and the values in it.
    pub(super) window: Option<(Time, u32)>,
}

/// What a view has made of a source for one output.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) rank: u32,
    pub(super) source: Path,
    /// Absent while it stands in the topic.
    pub(super) value: Option<Box<[u8]>>,
}

/// A value whose time has not come.
#[derive(Debug)]
pub(super) struct Delayed {
    pub(super) due: Time,
    pub(super) source: Path,
    pub(super) path: Path,
    pub(super) value: Option<Box<[u8]>>,
    pub(super) hops: u8,
}

impl Delayed {
    pub(super) fn bytes(&self) -> usize {
        DELAYED_BYTES
            + self.path.as_str().len()
            + self.value.as_ref().map_or(0, |value| value.len())
    }
}

impl Outputs {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many views there are between a client and a topic.
    pub(super) fn hops_of(&self, key: Key) -> u8 {
        let ended = || self.ended.get(&key).copied().unwrap_or(0);
        self.output(key).map_or_else(ended, |output| output.hops)
    }

    /// Whether a view gives to a topic.
    pub(super) fn is_of(&self, key: Key, rank: u32) -> bool {
        self.output(key).is_some_and(|output| output.given.iter().any(|given| given.rank == rank))
    }

    /// What views have made of sources that are meant, shown or delayed: view, source and output.
    pub(super) fn made_of(
        &self,
        is_meant: impl Fn(&Path) -> bool,
        path_of: impl Fn(Key) -> Option<Path>,
    ) -> Vec<(u32, Path, Path)> {
        let mut made = Vec::new();
        for (key, output) in self.buckets.iter().flatten() {
            for given in output.given.iter().filter(|given| is_meant(&given.source)) {
                made.extend(path_of(*key).map(|path| (given.rank, given.source.clone(), path)));
            }
        }
        for (rank, delayed) in &self.delayed {
            let meant = delayed.iter().filter(|delayed| is_meant(&delayed.source));
            made.extend(meant.map(|it| (*rank, it.source.clone(), it.path.clone())));
        }
        made.sort();
        made.dedup();
        made
    }

    /// A view is gone, and what it has delayed.
    pub(super) fn forget_delayed(&mut self, rank: u32) {
        let gone: usize = self.delayed.remove(&rank).iter().flatten().map(Delayed::bytes).sum();
        self.delayed_bytes -= gone;
    }

    /// A view's text has changed: what it has delayed waits no longer than what it makes from now on, and
    /// what it holds back is looked at again.
    pub(super) fn hasten(&mut self, rank: u32, now: Time, delay: Span) {
        for delayed in self.delayed.get_mut(&rank).into_iter().flatten() {
            delayed.due = delayed.due.min(now + delay);
        }
        let held = self.paced.iter().map(|(_, key)| *key).filter(|key| self.is_of(*key, rank));
        for key in held.collect::<Vec<Key>>() {
            self.release(key);
            self.hold_back(key, now);
        }
    }

    /// An output is shown no sooner than that.
    pub(super) fn hold_back(&mut self, key: Key, until: Time) {
        let Some(output) = self.output_mut(key) else { return };
        output.waiting = true;
        output.paced = Some(until);
        self.paced.insert((until, key));
    }

    /// An output is not held back any more.
    pub(super) fn release(&mut self, key: Key) {
        let Some(output) = self.output_mut(key) else { return };
        if let Some(until) = output.paced.take() {
            output.waiting = false;
            self.paced.remove(&(until, key));
        }
    }

    /// Whether a view has delayed anything.
    pub(super) fn has_delayed(&self, rank: u32) -> bool {
        self.delayed.get(&rank).is_some_and(|queue| !queue.is_empty())
    }

    pub(super) fn output(&self, key: Key) -> Option<&Output> {
        self.buckets.get(bucket_of(key))?.get(&key)
    }

    pub(super) fn output_mut(&mut self, key: Key) -> Option<&mut Output> {
        self.buckets.get_mut(bucket_of(key))?.get_mut(&key)
    }

    pub(super) fn ensure(&mut self, key: Key) -> Option<&mut Output> {
        self.buckets.resize_with(BUCKETS, Map::default);
        let bucket = self.buckets.get_mut(bucket_of(key))?;
        self.len += usize::from(!bucket.contains_key(&key));
        Some(bucket.entry(key).or_default())
    }

    /// An output is none any more. Those that follow its topic hear of that when the home hands it on: until then it
    /// is known how many views there were between a client and it, or a circle of views that take their outputs away
    /// would go on for ever.
    pub(super) fn end(&mut self, key: Key) {
        let hops = self.hops_of(key);
        self.remove(key);
        if hops != 0 {
            self.ended.insert(key, hops);
        }
    }

    /// The home has told of all ends.
    pub(super) fn forget_ended(&mut self) {
        self.ended.clear();
    }

    fn remove(&mut self, key: Key) {
        self.release(key);
        let gone = self.buckets.get_mut(bucket_of(key)).and_then(|bucket| bucket.remove(&key));
        self.len -= usize::from(gone.is_some());
    }
}

impl Output {
    /// Notes what a source gives now; what was held for it before and what is held now, in bytes.
    pub(super) fn give(
        &mut self,
        rank: u32,
        source: &Path,
        value: Option<Box<[u8]>>,
    ) -> (usize, usize) {
        let same = |given: &Given| given.rank == rank && given.source == *source;
        let before = self.given.iter().position(same).map(|at| self.given.remove(at));
        let held = |value: &Option<Box<[u8]>>| value.as_ref().map_or(0, |value| value.len());
        let bytes = (before.map_or(0, |given| held(&given.value)), held(&value));
        if let Some(value) = value {
            self.given.push(Given { rank, source: source.clone(), value: Some(value) });
        }
        bytes
    }
}
