//! Runs on their way into the queues of very many subscriptions of one home, of which a slice is fed in each turn.
//!
//! Bookkeeping only. Invariants: runs are fed in the order in which they have come, so a subscription has each topic's
//! messages in theirs; an answer is given once, when the store has all that was put for its run; what waits behind the
//! first run is bounded.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, Key, Memory, MemoryUse};
use tiderace_topics::Path;
use tiderace_wire::Run;

use crate::collections::Map;
use crate::durables::{FeedSlice, ToldOfFeed};
use crate::feed_parts::FeedParts;
use crate::places::Place;

/// Subscriptions that get a run in one slice.
const SLICE_QUEUES: usize = 1_024;
/// Bytes that are kept for them, beside the messages, which are there once.
const SLICE_BESIDE_BYTES: usize = 1 << 20;
/// Bytes of messages that they get together, if they are several: some of them have consumers, who are written to.
const SLICE_BYTES: usize = 16 << 20;
/// Messages that subscriptions get in one slice, each counted for each of them: neighbours that differ in what a run has in common are put one
/// by one.
const SLICE_MESSAGES: usize = 16_384;
/// Messages that are held to selectors in one slice: some milliseconds, if those are long.
const SLICE_SELECTIONS: usize = 4_096;
/// Runs that may wait behind the first; and bytes of all that wait.
const RUNS_MAX: usize = 64;
const BYTES_MAX: usize = 4 << 20;

/// A run that is being fed.
#[derive(Debug)]
struct PendingFeed {
    number: u64,
    run: Arc<Run>,
    /// Who has yet to get it; absent: nobody has been looked for.
    left: Option<std::vec::IntoIter<Key>>,
    /// What was made of it for those who have it.
    parts: FeedParts,
}

/// An answer that waits for the store.
#[derive(Debug)]
struct FeedAnswer {
    told: (Place, u64),
    /// Slices that are not stored yet, and one while there may be more.
    left: u32,
    refused: Option<Close>,
}

/// The runs of one home.
#[derive(Debug, Default)]
pub(crate) struct FeedBacklog {
    waiting: VecDeque<PendingFeed>,
    bytes: usize,
    answers: Map<u64, FeedAnswer>,
    last_number: u64,
}

impl FeedBacklog {
    /// The number of a run, which rises with each.
    pub(crate) fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// The number that the next run gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.last_number + 1
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether so many subscriptions, of which some have selectors, can get a run at once.
    pub(crate) fn is_slice(run: &Run, queues: usize, select: bool) -> bool {
        queues <= slice_of(run, select)
    }

    /// A run waits behind all others.
    pub(crate) fn push(&mut self, run: &Arc<Run>, told: ToldOfFeed, memory: &Rc<Memory>) {
        let number = self.number();
        memory.charge(MemoryUse::BetweenShards, run.bytes());
        self.bytes += run.bytes();
        let (run, left, parts) = (run.clone(), None, FeedParts::default());
        self.waiting.push_back(PendingFeed { number, run, left, parts });
        if let Some(told) = told {
            self.answers.insert(number, FeedAnswer { told, left: 1, refused: None });
        }
    }

    /// Whether more waits than may, so that the first is to be done with before another one comes. One alone may be larger.
    pub(crate) fn is_over(&self) -> bool {
        self.waiting.len() > 1 && (self.waiting.len() > RUNS_MAX || self.bytes > BYTES_MAX)
    }

    /// The next slice; `find` looks for those that a topic feeds, of which some may have selectors.
    pub(crate) fn next(
        &mut self,
        select: bool,
        find: impl FnOnce(&Path) -> Vec<Key>,
        memory: &Rc<Memory>,
    ) -> Option<FeedSlice> {
        let first = self.waiting.front_mut()?;
        let run = first.run.clone();
        let left = first.left.get_or_insert_with(|| {
            let found = find(&run.destination().path);
            first.parts = FeedParts::for_queues(found.len());
            found.into_iter()
        });
        let keys: Vec<Key> = left.take(slice_of(&run, select)).collect();
        let parts = std::mem::take(&mut first.parts);
        let (number, is_last) = (first.number, left.len() == 0);
        if is_last {
            self.waiting.pop_front();
            self.bytes -= run.bytes();
            memory.refund(MemoryUse::BetweenShards, run.bytes());
        }
        Some(FeedSlice { number, run, keys, parts, is_last })
    }

    /// What was made of a run for a slice is for the next one as well, if there is one.
    pub(crate) fn give_back(&mut self, number: u64, parts: FeedParts) {
        if let Some(first) = self.waiting.front_mut().filter(|first| first.number == number) {
            first.parts = parts;
        }
    }

    /// Whether somebody is told of a run.
    pub(crate) fn is_awaited(&self, number: u64) -> bool {
        self.answers.contains_key(&number)
    }

    /// A slice of a run waits for the store.
    pub(crate) fn begin_part(&mut self, number: u64) {
        if let Some(answer) = self.answers.get_mut(&number) {
            answer.left += 1;
        }
    }

    /// The store has a slice, or not, or the last slice is done: the answer, if it was the last thing to wait for.
    pub(crate) fn end_part(
        &mut self,
        number: u64,
        refused: Option<Close>,
    ) -> Option<((Place, u64), Result<(), Close>)> {
        let answer = self.answers.get_mut(&number)?;
        answer.left -= 1;
        answer.refused = answer.refused.take().or(refused);
        if answer.left > 0 {
            return None;
        }
        let FeedAnswer { told, refused, .. } = self.answers.remove(&number)?;
        Some((told, refused.map_or(Ok(()), Err)))
    }
}

/// How many subscriptions get a run in one slice.
fn slice_of(run: &Run, select: bool) -> usize {
    let beside = SLICE_BESIDE_BYTES / run.bytes_beside().max(1);
    let messages = if select { SLICE_SELECTIONS } else { SLICE_MESSAGES } / run.len().max(1);
    (SLICE_BYTES / run.bytes().max(1)).min(beside).min(messages).clamp(1, SLICE_QUEUES)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{CloseCode, ShardId, Time};
    use tiderace_wire::{Destination, Kind, Meta};

    fn run(bytes: usize) -> Arc<Run> {
        let destination = Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
        Arc::new(Run::single(destination, Time::ZERO, b"", &vec![0; bytes], Meta::default()))
    }

    fn keys(count: u32) -> Vec<Key> {
        (0..count).map(|slot| Key { slot, generation: 0 }).collect()
    }

    #[test]
    fn runs_are_fed_in_their_order_in_slices_that_are_bounded() {
        let memory = Rc::new(Memory::new(1 << 30));
        let mut backlog = FeedBacklog::default();
        backlog.push(&run(10), None, &memory);
        backlog.push(&run(SLICE_BYTES / 4), None, &memory);
        assert!(memory.used_for(MemoryUse::BetweenShards) > SLICE_BYTES / 4);
        let mut fed = Vec::new();
        while let Some(slice) = backlog.next(false, |_| keys(3000), &memory) {
            let bytes = slice.keys.len() * slice.run.bytes();
            assert!(slice.keys.len() <= SLICE_QUEUES && bytes <= SLICE_BYTES, "{bytes}");
            fed.extend(slice.keys.into_iter().map(|key| (slice.number, key.slot)));
        }
        let all = (1..=2).flat_map(|number| (0..3000).map(move |slot| (number, slot)));
        assert_eq!(fed, all.collect::<Vec<_>>());
        assert_eq!((backlog.bytes, memory.used()), (0, 0));
    }

    #[test]
    fn what_waits_is_bounded() {
        let memory = Rc::new(Memory::new(1 << 30));
        let mut backlog = FeedBacklog::default();
        backlog.push(&run(2 * BYTES_MAX), None, &memory);
        assert!(!backlog.is_over(), "one alone may be larger");
        backlog.push(&run(10), None, &memory);
        assert!(backlog.is_over());
        while backlog.is_over() {
            backlog.next(false, |_| keys(1), &memory);
        }
        assert_eq!(backlog.waiting.len(), 1);
        for _ in 0..RUNS_MAX {
            assert!(!backlog.is_over());
            backlog.push(&run(10), None, &memory);
        }
        assert!(backlog.is_over());
    }

    #[test]
    fn an_answer_waits_for_every_slice_and_tells_of_each_that_was_refused() {
        let memory = Rc::new(Memory::new(1 << 30));
        let mut backlog = FeedBacklog::default();
        let told = (Place::here(ShardId(2)), 7);
        for refused in [None, Some(Close::from(CloseCode::StoreUnavailable))] {
            backlog.push(&run(10), Some(told), &memory);
            let number = backlog.next(false, |_| keys(1), &memory).unwrap().number;
            assert!(backlog.is_awaited(number));
            backlog.begin_part(number);
            backlog.begin_part(number);
            assert!(backlog.end_part(number, refused.clone()).is_none());
            assert!(backlog.end_part(number, None).is_none(), "there may be more");
            let (to, result) = backlog.end_part(number, None).unwrap();
            assert_eq!((to, result.is_err()), (told, refused.is_some()));
            assert!(!backlog.is_awaited(number) && backlog.end_part(number, None).is_none());
        }
    }
}
