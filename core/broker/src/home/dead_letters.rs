//! Rejected messages that are on their way to dead-letter queues, and the receipts that wait until they are stored there.
//!
//! ```text
//!   rejected, receipt asked for ─▶ dead letter to its queue's home ─▶ Put ─▶ stored ─▶ Settle ─▶ stored ─▶ receipt
//! ```
//! A receipt says that what it stands for survives. What is rejected too often is settled where it lay only when the
//! dead letter is stored where it goes, and the other queue may have its home elsewhere. Receipts wait for their own records
//! first, so that nothing they stand for is refused unnoticed, and then here. Relies on nothing. Invariants: a receipt
//! waits for all dead letters that its session has caused before it, and for none after; one of them that is not stored
//! refuses the first receipt that stands for it.

use std::collections::{BTreeSet, VecDeque};

use tiderace_base::{Key, SessionId};
use tiderace_wire::Confirm;

use crate::collections::Map;

/// Dead letters on their way: some 60 bytes each.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    /// Which session has caused it, and as which of all, by the queue it lay in and its version there.
    moving: Map<(Key, u64), (SessionId, u64)>,
    sessions: Map<SessionId, OfSession>,
    last: u64,
}

/// Those of a session.
#[derive(Debug, Default)]
struct OfSession {
    moving: BTreeSet<u64>,
    /// They are not stored, which no receipt has said yet.
    failed: BTreeSet<u64>,
    /// Receipts that wait for their own records.
    announced: usize,
    /// Each with the last dead letter it waits for.
    waiting: VecDeque<(u64, Confirm)>,
}

/// A receipt that waits no more, and whether all that it stands for is stored where it goes.
pub(crate) type Receipt = (Confirm, bool);

impl DeadLetters {
    /// A session has caused a dead letter.
    pub(crate) fn begin(&mut self, session: SessionId, moved: (Key, u64)) {
        self.last += 1;
        self.moving.insert(moved, (session, self.last));
        self.sessions.entry(session).or_default().moving.insert(self.last);
    }

    /// A session wants a receipt: which dead letters it stands for, which is to be told to [`DeadLetters::hold`] or
    /// [`DeadLetters::renounce`]. `None` if there are none.
    #[inline]
    pub(crate) fn announce(&mut self, session: SessionId) -> Option<u64> {
        if self.sessions.is_empty() {
            return None;
        }
        let of = self.sessions.get_mut(&session)?;
        of.announced += 1;
        Some(self.last)
    }

    /// The records of a receipt are stored: what it has to say now, if it need not wait.
    pub(crate) fn hold(
        &mut self,
        session: SessionId,
        (last, confirm): (u64, Confirm),
    ) -> Option<Receipt> {
        let Some(of) = self.sessions.get_mut(&session) else { return Some((confirm, true)) };
        of.announced = of.announced.saturating_sub(1);
        of.waiting.push_back((last, confirm));
        // Before it none waits for less, and it waits only behind others.
        let mut ready = self.take_ready(session);
        ready.pop()
    }

    /// The records of a receipt are not stored, so it was refused.
    pub(crate) fn renounce(&mut self, session: SessionId, last: u64) {
        if let Some(of) = self.sessions.get_mut(&session) {
            of.announced = of.announced.saturating_sub(1);
            of.failed = of.failed.split_off(&(last + 1));
        }
        self.take_ready(session);
    }

    /// A dead letter is stored where it goes and nowhere else, or that will not come to pass: which session had caused it, and
    /// the receipts that wait no more.
    pub(crate) fn end(
        &mut self,
        moved: (Key, u64),
        is_stored: bool,
    ) -> Option<(SessionId, Vec<Receipt>)> {
        let (session, number) = self.moving.remove(&moved)?;
        let of = self.sessions.get_mut(&session)?;
        of.moving.remove(&number);
        if !is_stored && (of.announced != 0 || !of.waiting.is_empty()) {
            of.failed.insert(number);
        }
        Some((session, self.take_ready(session)))
    }

    /// Those on their way.
    pub(crate) fn moving(&self) -> Vec<(Key, u64)> {
        self.moving.keys().copied().collect()
    }

    fn take_ready(&mut self, session: SessionId) -> Vec<Receipt> {
        let mut ready = Vec::new();
        let Some(of) = self.sessions.get_mut(&session) else { return ready };
        let oldest = of.moving.first().copied().unwrap_or(u64::MAX);
        while let Some((last, confirm)) = of.waiting.pop_front() {
            if last >= oldest {
                of.waiting.push_front((last, confirm));
                break;
            }
            let later = of.failed.split_off(&(last + 1));
            ready.push((confirm, std::mem::replace(&mut of.failed, later).is_empty()));
        }
        if of.moving.is_empty() && of.announced == 0 && of.waiting.is_empty() {
            self.sessions.remove(&session);
        }
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::ShardId;

    const QUEUE: Key = Key { slot: 1, generation: 0 };

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    /// What becomes of receipts whose records are stored at once.
    fn ask(letters: &mut DeadLetters, slot: u32, token: u32) -> Option<Receipt> {
        match letters.announce(session(slot)) {
            Some(last) => letters.hold(session(slot), (last, Confirm::one(token))),
            None => Some((Confirm::one(token), true)),
        }
    }

    fn end(letters: &mut DeadLetters, version: u64, is_stored: bool) -> Vec<(u32, bool)> {
        let receipts = letters.end((QUEUE, version), is_stored).unwrap_or((session(0), vec![])).1;
        receipts.iter().map(|(confirm, is_stored)| (confirm.from, *is_stored)).collect()
    }

    #[test]
    fn a_receipt_waits_for_all_dead_letters_of_its_session_before_it_and_for_no_others() {
        let mut letters = DeadLetters::default();
        assert_eq!(ask(&mut letters, 1, 0), Some((Confirm::one(0), true)));
        letters.begin(session(1), (QUEUE, 10));
        letters.begin(session(1), (QUEUE, 11));
        assert_eq!(ask(&mut letters, 1, 1), None);
        assert_eq!(ask(&mut letters, 2, 2), Some((Confirm::one(2), true)));
        letters.begin(session(1), (QUEUE, 12));
        assert_eq!(ask(&mut letters, 1, 3), None);
        assert_eq!(end(&mut letters, 12, true), []);
        assert_eq!(end(&mut letters, 11, false), []);
        assert_eq!(end(&mut letters, 11, true), [], "it has ended");
        // The receipt that stands for the one that is not stored says so, and no other.
        assert_eq!(end(&mut letters, 10, true), [(1, false), (3, true)]);
        assert_eq!(ask(&mut letters, 1, 4), Some((Confirm::one(4), true)));
        assert!(letters.sessions.is_empty() && letters.moving.is_empty());
    }

    #[test]
    fn what_fails_while_a_receipt_waits_for_its_records_is_said_by_it() {
        let mut letters = DeadLetters::default();
        letters.begin(session(1), (QUEUE, 10));
        let last = letters.announce(session(1)).unwrap();
        letters.begin(session(1), (QUEUE, 11));
        assert_eq!(end(&mut letters, 10, false), []);
        let receipt = letters.hold(session(1), (last, Confirm::one(1)));
        assert_eq!(receipt, Some((Confirm::one(1), false)), "it does not wait for the later one");
        let last = letters.announce(session(1)).unwrap();
        assert_eq!(end(&mut letters, 11, false), []);
        letters.renounce(session(1), last);
        assert!(letters.sessions.is_empty() && letters.moving.is_empty());
        // Nobody asks.
        letters.begin(session(1), (QUEUE, 12));
        assert_eq!(end(&mut letters, 12, false), []);
        assert!(letters.sessions.is_empty() && letters.moving.is_empty());
    }
}
