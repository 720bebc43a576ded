//! After a pause of the server's own: what lies in the sockets is read before any client counts as silent.
//!
//! A process that was stopped, moved to another machine or busy for seconds finds deadlines that passed while
//! it could not read, and beside them, unread, the bytes that would have moved them. So a turn that comes late
//! judges nobody: deadlines wait until a poll has told of every socket and all of them have been read. The rule
//! is one for all deadlines, those of stages, of sessions and of the broker. Invariant: deadlines wait
//! [`LONGEST`] at most, so that a client that never stops sending does not put them off for ever.

use tiderace_base::{Span, Time};

use crate::driver::EVENTS_PER_POLL;

/// Whether deadlines may be judged in this turn.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// When deadlines were judged last.
    judged: Time,
    /// While sockets are read first: when the late turn came.
    late: Option<Time>,
    /// The last poll has told of every socket that is ready.
    all_told: bool,
    /// The pause that was noticed last: from the last judgement before it to the first after it.
    last: (Time, Time),
}

impl Pause {
    /// A server that starts.
    pub(crate) fn new(now: Time) -> Pause {
        Pause { judged: now, late: None, all_told: true, last: (Time::ZERO, Time::ZERO) }
    }

    /// A turn begins; its poll has brought so many events.
    pub(crate) fn begin_turn(&mut self, now: Time, events: usize) {
        if self.late.is_none() && now.since(self.judged) >= GAP {
            self.late = Some(now);
        }
        self.all_told = events < EVENTS_PER_POLL;
    }

    /// The turn has read: may deadlines be judged? `has_unread` says that some socket has had no turn yet, or
    /// some connection is not accepted yet.
    pub(crate) fn may_judge(&mut self, now: Time, has_unread: bool) -> bool {
        if let Some(late) = self.late {
            let waited = now.since(late);
            let is_caught_up = waited >= SETTLED && self.all_told && !has_unread;
            if !is_caught_up && waited < LONGEST {
                return false;
            }
            self.late = None;
            self.last = (self.judged, now);
        }
        self.judged = now;
        true
    }

    /// How long the shard may sleep while deadlines wait.
    pub(crate) fn timeout(&self) -> Option<Span> {
        self.late.map(|_| RECHECK)
    }

    /// Whether a deadline has passed in the pause that was noticed last.
    pub(crate) fn hid(&self, deadline: Time) -> bool {
        self.last.0 < deadline && deadline <= self.last.1
    }
}

/// A turn that comes so late has missed something: shards wake every 50 ms, and turns take less.
const GAP: Span = Span::from_millis(500);
/// Deadlines wait so long at least: a poll that was interrupted tells of nothing, and other shards, which
/// were paused as well, may have read what belongs to a session of this one: some ticks of theirs.
const SETTLED: Span = Span::from_millis(200);
/// Deadlines wait so long at most.
const LONGEST: Span = Span::from_secs(2);
/// How often sockets are asked again meanwhile.
const RECHECK: Span = Span::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn deadlines_wait_until_everything_was_read() {
        let mut pause = Pause::new(at(0));
        pause.begin_turn(at(499), 0);
        assert!(pause.may_judge(at(499), true), "not late");
        pause.begin_turn(at(6000), 0);
        assert!(!pause.may_judge(at(6000), false), "a poll may have been interrupted");
        pause.begin_turn(at(6210), EVENTS_PER_POLL);
        assert!(!pause.may_judge(at(6210), false), "more events wait");
        pause.begin_turn(at(6220), 3);
        assert!(!pause.may_judge(at(6220), true), "a socket had no turn");
        pause.begin_turn(at(6230), 3);
        assert!(pause.may_judge(at(6230), false));
        assert!(pause.hid(at(500)) && pause.hid(at(6230)));
        assert!(!pause.hid(at(499)) && !pause.hid(at(6231)));
    }

    #[test]
    fn a_flood_does_not_put_deadlines_off_for_ever() {
        let mut pause = Pause::new(at(0));
        let judged = (1000..10_000).step_by(100).find(|ms| {
            pause.begin_turn(at(*ms), EVENTS_PER_POLL);
            pause.may_judge(at(*ms), true)
        });
        assert_eq!(judged, Some(3000));
    }
}
