//! Rejected messages that are on their way to dead-letter queues, and the receipts that wait until they are stored there.
//!
//! ```text
//!   rejected, receipt asked for ─▶ dead letter to its queue's home ─▶ Put ─▶ stored ─▶ Settle ─▶ stored ─▶ receipt
//! ```
//! A receipt says that what it stands for survives. What is rejected too often is settled where it lay only when the
//! dead letter is stored where it goes, and the other queue may have its home elsewhere. Receipts wait for their own records
//! first, so that nothing they stand for is refused unnoticed, and then here. Relies on nothing. Invariants: a receipt
//! waits for all dead letters that its session has caused before it was asked for, and for none after; one of them that is not
//! stored refuses the first receipt that was asked for after it, also if it has failed before; if that is so of thousands of
//! sessions that have not asked, the first of any of them stands for all.

use std::collections::{BTreeMap, BTreeSet};

use tiderace_base::{Close, CloseCode, Key, SessionId};
use tiderace_wire::Confirm;

use crate::collections::Map;
use crate::places::Place;

/// Dead letters on their way: some 80 bytes each.
#[derive(Debug, Default)]
pub(crate) struct DeadLetters {
    /// By the queue it lay in and its version there.
    moving: Map<(Key, u64), Moving>,
    sessions: Map<SessionId, OfSession>,
    /// Sessions of which nothing is under way, and of which a dead letter has failed without a receipt so far. Most of those
    /// that never ask have ended.
    unsaid: Map<SessionId, Close>,
    /// The same of thousands, which are not noted one by one any more.
    others_failed: bool,
    last: u64,
}

/// A dead letter on its way.
#[derive(Debug)]
struct Moving {
    /// Which session has caused it, and as which of all.
    session: SessionId,
    number: u64,
    /// Where it goes; none once it is stored there.
    to: Option<Place>,
}

/// Those of a session.
#[derive(Debug, Default)]
struct OfSession {
    moving: BTreeSet<u64>,
    /// By their number: in the order in which they were asked for.
    receipts: BTreeMap<u64, Receipt>,
    /// A dead letter was not stored, which no receipt stands for yet.
    failed: Option<Close>,
}

#[derive(Debug)]
struct Receipt {
    /// The last dead letter that it waits for.
    last: u64,
    /// What is to be confirmed; none while it waits for its own records.
    confirm: Option<Confirm>,
    /// One that it stands for is not stored.
    failed: Option<Close>,
}

/// A receipt that waits no more: all that it stands for is stored where it goes, or why not.
pub(crate) type Given = (Confirm, Result<(), Close>);

impl DeadLetters {
    /// A session has caused a dead letter, which goes to a place.
    pub(crate) fn begin(&mut self, session: SessionId, moved: (Key, u64), to: Place) {
        self.last += 1;
        let number = self.last;
        self.moving.insert(moved, Moving { session, number, to: Some(to) });
        let unsaid = self.unsaid.remove(&session);
        let of = self.sessions.entry(session).or_default();
        of.moving.insert(number);
        of.failed = of.failed.take().or(unsaid);
    }

    /// A session wants a receipt: its number, to be told to [`DeadLetters::hold`] or [`DeadLetters::renounce`]. `None` if it
    /// stands for no dead letter.
    #[inline]
    pub(crate) fn announce(&mut self, session: SessionId) -> Option<u64> {
        if self.sessions.is_empty() && self.unsaid.is_empty() && !self.others_failed {
            return None;
        }
        self.announce_after_some(session)
    }

    #[cold]
    fn announce_after_some(&mut self, session: SessionId) -> Option<u64> {
        let known = self.sessions.get_mut(&session);
        let is_moving = known.as_ref().is_some_and(|of| !of.moving.is_empty());
        let failed = match known {
            Some(of) => of.failed.take(),
            None => self.unsaid.remove(&session),
        };
        let failed = match self.others_failed {
            // Once, to the session that asks first: it may have been its own.
            true => {
                self.others_failed = false;
                failed.or_else(|| Some(CloseCode::StoreUnavailable.into()))
            }
            false => failed,
        };
        if !is_moving && failed.is_none() {
            return None;
        }
        self.last += 1;
        let receipt = Receipt { last: self.last, confirm: None, failed };
        self.sessions.entry(session).or_default().receipts.insert(self.last, receipt);
        Some(self.last)
    }

    /// The records of a receipt are stored: what it has to say now, if it need not wait.
    pub(crate) fn hold(
        &mut self,
        session: SessionId,
        (number, confirm): (u64, Confirm),
    ) -> Option<Given> {
        let Some(of) = self.sessions.get_mut(&session) else { return Some((confirm, Ok(()))) };
        let Some(receipt) = of.receipts.get_mut(&number) else { return Some((confirm, Ok(()))) };
        receipt.confirm = Some(confirm);
        // Every other that could be given has been.
        self.take_ready(session).pop()
    }

    /// The records of a receipt are not stored, so it was refused.
    pub(crate) fn renounce(&mut self, session: SessionId, number: u64) {
        if let Some(of) = self.sessions.get_mut(&session) {
            of.receipts.remove(&number);
        }
        self.take_ready(session);
    }

    /// A dead letter is stored where it goes, and its record where it lay is about to be. Who has caused it, if no receipt
    /// waits for it.
    pub(crate) fn arrive(&mut self, moved: (Key, u64)) -> Arrived {
        let Some(moving) = self.moving.get_mut(&moved) else { return Arrived::Nobodys };
        moving.to = None;
        let of = self.sessions.get(&moving.session);
        match of.is_some_and(|of| !of.receipts.is_empty()) {
            true => Arrived::Awaited,
            false => Arrived::Unasked(moving.session),
        }
    }

    /// A dead letter is stored where it goes and nowhere else, or why that will not come to pass: which session had caused
    /// it, and the receipts that wait no more.
    pub(crate) fn end(
        &mut self,
        moved: (Key, u64),
        result: Result<(), Close>,
    ) -> Option<(SessionId, Vec<Given>)> {
        let Moving { session, number, .. } = self.moving.remove(&moved)?;
        let of = self.sessions.get_mut(&session)?;
        of.moving.remove(&number);
        if let Err(close) = result {
            let first = of.receipts.values_mut().find(|receipt| receipt.last > number);
            let said = first.map_or(&mut of.failed, |receipt| &mut receipt.failed);
            said.get_or_insert(close);
        }
        Some((session, self.take_ready(session)))
    }

    /// Those on their way to a place.
    pub(crate) fn moving_to(&self, place: Place) -> Vec<(Key, u64)> {
        let to = self.moving.iter().filter(|(_, moving)| moving.to == Some(place));
        to.map(|(moved, _)| *moved).collect()
    }

    fn take_ready(&mut self, session: SessionId) -> Vec<Given> {
        let Some(of) = self.sessions.get_mut(&session) else { return Vec::new() };
        let oldest = of.moving.first().copied().unwrap_or(u64::MAX);
        let mut ready = Vec::new();
        of.receipts.retain(|_, receipt| {
            let given = receipt.confirm.take_if(|_| receipt.last < oldest);
            let Some(confirm) = given else { return true };
            ready.push((confirm, receipt.failed.take().map_or(Ok(()), Err)));
            false
        });
        if of.moving.is_empty() && of.receipts.is_empty() {
            let failed = self.sessions.remove(&session).and_then(|of| of.failed);
            if let Some(close) = failed {
                self.note_unsaid(session, close);
            }
        }
        ready
    }

    fn note_unsaid(&mut self, session: SessionId, close: Close) {
        if self.unsaid.len() >= UNSAID_MAX {
            self.unsaid.clear();
            self.others_failed = true;
        }
        self.unsaid.insert(session, close);
    }
}

/// What waits for a dead letter that is stored where it goes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// No session has caused it.
    Nobodys,
    /// This one has, and has not asked for a receipt since.
    Unasked(SessionId),
    /// A receipt.
    Awaited,
}

/// Sessions that are noted one by one, some 50 bytes each.
const UNSAID_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::ShardId;

    const QUEUE: Key = Key { slot: 1, generation: 0 };
    const THERE: Place = Place::here(ShardId(1));

    fn session(slot: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot, generation: 0 }
    }

    fn begin(letters: &mut DeadLetters, slot: u32, version: u64) {
        letters.begin(session(slot), (QUEUE, version), THERE);
    }

    fn said((confirm, result): Given) -> (u32, Option<CloseCode>) {
        (confirm.from, result.err().map(|close| close.code))
    }

    /// What becomes of a receipt whose records are stored at once.
    fn ask(letters: &mut DeadLetters, slot: u32, token: u32) -> Option<(u32, Option<CloseCode>)> {
        match letters.announce(session(slot)) {
            Some(number) => hold(letters, slot, (number, token)),
            None => Some((token, None)),
        }
    }

    fn hold(
        letters: &mut DeadLetters,
        slot: u32,
        (number, token): (u64, u32),
    ) -> Option<(u32, Option<CloseCode>)> {
        letters.hold(session(slot), (number, Confirm::one(token))).map(said)
    }

    fn end(
        letters: &mut DeadLetters,
        version: u64,
        failed: Option<CloseCode>,
    ) -> Vec<(u32, Option<CloseCode>)> {
        let result = failed.map_or(Ok(()), |code| Err(code.into()));
        let given = letters.end((QUEUE, version), result).map_or(Vec::new(), |(_, given)| given);
        given.into_iter().map(said).collect()
    }

    fn is_empty(letters: &DeadLetters) -> bool {
        letters.sessions.is_empty() && letters.moving.is_empty() && letters.unsaid.is_empty()
    }

    const FULL: Option<CloseCode> = Some(CloseCode::StoreUnavailable);
    const LOST: Option<CloseCode> = Some(CloseCode::PeerLost);

    #[test]
    fn a_receipt_waits_for_all_dead_letters_of_its_session_before_it_and_for_no_others() {
        let mut letters = DeadLetters::default();
        assert_eq!(ask(&mut letters, 1, 0), Some((0, None)));
        begin(&mut letters, 1, 10);
        begin(&mut letters, 1, 11);
        assert_eq!(ask(&mut letters, 1, 1), None);
        assert_eq!(ask(&mut letters, 2, 2), Some((2, None)));
        begin(&mut letters, 1, 12);
        assert_eq!(ask(&mut letters, 1, 3), None);
        assert_eq!(end(&mut letters, 12, None), []);
        assert_eq!(end(&mut letters, 11, LOST), []);
        assert_eq!(end(&mut letters, 11, None), [], "it has ended");
        // The receipt that stands for the one that is not stored says so, and no other.
        assert_eq!(end(&mut letters, 10, None), [(1, LOST), (3, None)]);
        assert_eq!(ask(&mut letters, 1, 4), Some((4, None)));
        assert!(is_empty(&letters));
    }

    #[test]
    fn what_fails_is_said_by_the_receipt_that_was_asked_for_first_in_whatever_order_records_are_stored()
     {
        let mut letters = DeadLetters::default();
        begin(&mut letters, 1, 10);
        let first = letters.announce(session(1)).unwrap_or_default();
        let second = letters.announce(session(1)).unwrap_or_default();
        assert_eq!(hold(&mut letters, 1, (second, 2)), None);
        assert_eq!(end(&mut letters, 10, FULL), [(2, None)]);
        assert_eq!(hold(&mut letters, 1, (first, 1)), Some((1, FULL)));
        assert!(is_empty(&letters));
        begin(&mut letters, 1, 11);
        let third = letters.announce(session(1)).unwrap_or_default();
        begin(&mut letters, 1, 12);
        assert_eq!(end(&mut letters, 11, FULL), []);
        let given = hold(&mut letters, 1, (third, 3));
        assert_eq!(given, Some((3, FULL)), "it does not wait for the later one");
        let fourth = letters.announce(session(1)).unwrap_or_default();
        assert_eq!(end(&mut letters, 12, FULL), []);
        // Its records are not stored, so it was refused all the same.
        letters.renounce(session(1), fourth);
        assert!(is_empty(&letters));
    }

    #[test]
    fn what_has_failed_before_anybody_asked_is_said_by_the_next_receipt_alone() {
        let mut letters = DeadLetters::default();
        begin(&mut letters, 1, 10);
        assert_eq!(end(&mut letters, 10, FULL), []);
        begin(&mut letters, 2, 11);
        begin(&mut letters, 2, 12);
        assert_eq!(end(&mut letters, 11, LOST), []);
        assert_eq!(ask(&mut letters, 3, 0), Some((0, None)));
        assert_eq!(ask(&mut letters, 1, 1), Some((1, FULL)));
        assert_eq!(ask(&mut letters, 1, 2), Some((2, None)));
        assert_eq!(ask(&mut letters, 2, 3), None);
        assert_eq!(end(&mut letters, 12, None), [(3, LOST)]);
        begin(&mut letters, 1, 13);
        assert_eq!(end(&mut letters, 13, FULL), []);
        begin(&mut letters, 1, 14);
        assert_eq!(end(&mut letters, 14, None), []);
        assert_eq!(
            ask(&mut letters, 1, 4),
            Some((4, FULL)),
            "a later one that is stored hides nothing"
        );
        assert!(is_empty(&letters));
    }

    #[test]
    fn sessions_that_never_ask_take_bounded_memory() {
        let mut letters = DeadLetters::default();
        for slot in 0..=UNSAID_MAX as u32 {
            begin(&mut letters, slot, 10);
            assert_eq!(end(&mut letters, 10, FULL), []);
        }
        assert_eq!(letters.unsaid.len(), 1);
        assert_eq!(ask(&mut letters, 3, 1), Some((1, FULL)), "it may be this one's");
        assert_eq!(ask(&mut letters, 4, 2), Some((2, None)));
    }

    #[test]
    fn only_what_is_on_its_way_to_a_place_is_lost_with_it() {
        let mut letters = DeadLetters::default();
        begin(&mut letters, 1, 10);
        begin(&mut letters, 1, 11);
        letters.begin(session(1), (QUEUE, 12), Place::here(ShardId(2)));
        assert_eq!(letters.arrive((QUEUE, 10)), Arrived::Unasked(session(1)));
        assert_eq!(letters.arrive((QUEUE, 13)), Arrived::Nobodys);
        assert_eq!(letters.moving_to(THERE), [(QUEUE, 11)]);
        assert_eq!(ask(&mut letters, 1, 1), None);
        assert_eq!(letters.arrive((QUEUE, 11)), Arrived::Awaited);
        assert_eq!(letters.moving_to(THERE), []);
    }
}
