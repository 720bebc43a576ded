//! The numbers of a home at which rules have changed.
//!
//! Shards hear of other rules one after the other and look at their sessions some at a time, so a change is under way for a
//! while, and every position of that time counts as one from before it. Each change takes two numbers that no message
//! has: so a client that subscribes behind it has a position above all of those, also where no messages come. Who was there
//! all the time, and has heard of no message since, counts as from before. Invariant: who is said to have come further
//! has left when sessions had been given what the change shows them, if all shards look at theirs within ten seconds.

use std::collections::VecDeque;

use tiderace_base::{Span, Time};

use super::numbers::Numbers;

/// How long a change is under way at least, after the sessions of this shard have been looked at: others may be later.
const UNDER_WAY: Span = Span::from_secs(10);
/// Changes that are remembered.
const CHANGES_MAX: usize = 16;

/// When rules have changed.
#[derive(Debug, Default)]
pub(crate) struct RuleChanges {
    changes: VecDeque<Change>,
}

#[derive(Debug)]
struct Change {
    /// The version of the rules that came with it.
    version: u32,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Sessions have yet to be looked at, as far as is known.
    Begun,
    /// It is over at that time.
    UnderWay(Time),
    /// Positions from this number on are from after it.
    Over(u64),
}

impl RuleChanges {
    /// Other rules hold.
    pub(crate) fn note(&mut self, version: u32, numbers: &mut Numbers) {
        numbers.leave_out();
        if self.changes.len() == CHANGES_MAX {
            self.changes.pop_front();
        }
        self.changes.push_back(Change { version, state: State::Begun });
    }

    /// Changes go on, or are over; `is_reviewing` says whether sessions of this shard have yet to be looked at.
    pub(crate) fn go_on(&mut self, now: Time, is_reviewing: bool, numbers: &mut Numbers) {
        for change in &mut self.changes {
            change.state = match change.state {
                State::Begun if !is_reviewing => State::UnderWay(now + UNDER_WAY),
                State::UnderWay(over) if over <= now => State::Over(numbers.leave_out()),
                _ => continue,
            };
        }
    }

    /// Whether who has everything up to a number has left behind the change to that version of the rules; of one that is
    /// forgotten, behind the next.
    pub(crate) fn is_behind(&self, version: u32, number: u64) -> bool {
        let change = self.changes.iter().find(|change| change.version >= version);
        let is_over = |change: &Change| matches!(change.state, State::Over(at) if number >= at);
        version == 0 || change.is_some_and(is_over)
    }
}

#[cfg(test)]
mod tests {
    use tiderace_base::ShardId;

    use super::*;

    #[test]
    fn a_change_is_behind_who_has_left_when_it_was_over() {
        let (mut numbers, mut changes) = (Numbers::new(ShardId(0)), RuleChanges::default());
        numbers.begin_at(10);
        assert!(changes.is_behind(0, 0));
        assert!(!changes.is_behind(1, u64::MAX), "other shards have heard of it first");
        changes.note(1, &mut numbers);
        let second = |seconds| Time::ZERO + Span::from_secs(seconds);
        changes.go_on(second(1), true, &mut numbers);
        changes.go_on(second(2), false, &mut numbers);
        changes.go_on(second(11), false, &mut numbers);
        assert!(!changes.is_behind(1, u64::MAX));
        changes.go_on(second(12), false, &mut numbers);
        assert_eq!(numbers.last(), 11);
        assert!(!changes.is_behind(1, 10) && changes.is_behind(1, 11));
        assert!(!changes.is_behind(2, 11));
    }
}
