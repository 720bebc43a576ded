//! Large runs that a home gave up while somebody still had them.
//!
//! A retained value counts once, at its topic's home, however many backlogs refer to it; so does what a series or a
//! history keeps. When the home gives one up, those backlogs keep it in memory; so it counts here until the last of
//! them lets go. Who has it is looked at when the call is over that gave it up, as most let go within that call, and
//! then some of what is counted is looked at in each call and all of it in each tick: an honest client that changes
//! a large value quickly must not be refused for values that are gone. Invariant: what the home still keeps in
//! another of its places is not counted here. What waits in a backlog as a message, or is on its way to another
//! shard, counts there, too.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use tiderace_base::{Memory, MemoryUse};
use tiderace_wire::Run;

/// What was given up and is still there.
#[derive(Debug, Default)]
pub(crate) struct Displaced {
    /// In this call.
    fresh: Vec<Weak<Run>>,
    /// Before, with its bytes.
    counted: VecDeque<(Weak<Run>, usize)>,
}

impl Displaced {
    /// The home no longer has that run in one of its places.
    #[inline]
    pub(crate) fn note(&mut self, run: Arc<Run>) {
        if run.bytes() >= LARGE_BYTES {
            self.note_large(&run);
        }
    }

    #[cold]
    fn note_large(&mut self, run: &Arc<Run>) {
        if Arc::strong_count(run) > 1 {
            self.fresh.push(Arc::downgrade(run));
        }
    }

    /// Whether nothing is given up and nothing is counted.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.fresh.is_empty() && self.counted.is_empty()
    }

    /// A call is over: what it gave up and somebody still has counts from now on, unless `keeps` says that the
    /// home has it in another of its places.
    pub(crate) fn end_call(&mut self, memory: &Memory, keeps: impl Fn(&Arc<Run>) -> bool) {
        let swept = SWEPT_BY_CALL.max(2 * self.fresh.len());
        for _ in 0..self.counted.len().min(swept) {
            let Some((run, bytes)) = self.counted.pop_front() else { break };
            match run.strong_count() {
                0 => memory.refund(MemoryUse::Values, bytes),
                _ => self.counted.push_back((run, bytes)),
            }
        }
        // A call may take a run from several places.
        self.fresh.sort_unstable_by_key(Weak::as_ptr);
        self.fresh.dedup_by(|one, other| one.ptr_eq(other));
        for run in self.fresh.drain(..) {
            if let Some(run) = run.upgrade()
                && Arc::strong_count(&run) > 1
                && !keeps(&run)
            {
                memory.charge(MemoryUse::Values, run.bytes());
                self.counted.push_back((Arc::downgrade(&run), run.bytes()));
            }
        }
    }

    /// Forgets what nobody has any more.
    pub(crate) fn sweep(&mut self, memory: &Memory) {
        self.counted.retain(|(run, bytes)| {
            let stays = run.strong_count() > 0;
            if !stays {
                memory.refund(MemoryUse::Values, *bytes);
            }
            stays
        });
    }
}

/// What a call looks at least at of what is counted: more than it usually gives up.
const SWEPT_BY_CALL: usize = 4;
/// Smaller values are not worth the look: a session has few of them waiting beyond its watermark.
const LARGE_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::Time;
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Meta};

    #[test]
    fn what_somebody_still_has_counts_until_it_is_let_go() {
        let memory = Memory::new(10 << 20);
        let path = Path::parse("a").unwrap();
        let value = |bytes: usize| {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            Arc::new(Run::single(destination, Time::ZERO, b"", &vec![0; bytes], Meta::default()))
        };
        let mut displaced = Displaced::default();
        displaced.note(value(LARGE_BYTES));
        assert!(displaced.is_empty(), "nobody has it");
        let (large, small, kept) = (value(LARGE_BYTES), value(10), value(LARGE_BYTES));
        for run in [&large, &small, &kept] {
            displaced.note(run.clone());
        }
        let passing = value(LARGE_BYTES);
        displaced.note(passing.clone());
        drop(passing);
        assert_eq!(memory.used(), 0, "the call is not over");
        displaced.end_call(&memory, |run| Arc::ptr_eq(run, &kept));
        displaced.sweep(&memory);
        assert_eq!(memory.used(), large.bytes());
        drop(large);
        displaced.end_call(&memory, |_| false);
        assert_eq!(memory.used(), 0);
        let more = value(LARGE_BYTES);
        displaced.note(more.clone());
        displaced.end_call(&memory, |_| false);
        drop(more);
        displaced.sweep(&memory);
        assert!(memory.used() == 0 && displaced.is_empty());
    }
}
