//! The calls for services of an upstream that wait here, and those that have gone to it.
//!
//! Bookkeeping only. Invariants: calls go in the order in which they came; what is under way and what waits is bounded, for
//! one session and for all; a call is in one place, and leaves it once.

use std::collections::BTreeMap;

use tiderace_base::{Close, CloseCode, Key};

use crate::collections::Map;
use crate::home::services::{Address, Calling};
use crate::places::Place;

/// Exchanges under way, at most: fewer than the 10,000 calls that a session may have open at the upstream unless that is told
/// otherwise.
pub(super) const UNDER_WAY_MAX: usize = 8_192;
/// Calls that may wait.
const WAITING_MAX: usize = 8_192;
/// Bytes that may wait; one call alone may be larger. They count in memory where their callers are.
const WAITING_BYTES_MAX: usize = 64 << 20;
/// Calls of one session, under way or waiting: a quarter of the places, so that a caller that takes its answers slowly leaves
/// some for others.
pub(super) const OF_SESSION_MAX: usize = 2_048;

/// Those of one upstream.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Whether the upstream takes calls; absent while that is not known.
    taken: Option<bool>,
    /// By the order in which they came.
    waiting: BTreeMap<u64, Calling>,
    waiting_bytes: usize,
    places: Map<Address, u64>,
    last: u64,
    /// By caller: its session.
    under_way: Map<Address, Key>,
    /// How many each session has.
    sessions: Map<(Place, Key), usize>,
}

impl Calls {
    /// How many wait, or are under way.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.under_way.len()
    }

    /// Whether some have not gone yet.
    pub(super) fn some_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the upstream has said that it takes calls.
    pub(super) fn are_taken(&self) -> bool {
        self.taken == Some(true)
    }

    /// Whether the upstream has said that it takes no calls.
    pub(super) fn are_refused(&self) -> bool {
        self.taken == Some(false)
    }

    /// The upstream says whether it takes calls; absent: the connection is lost.
    pub(super) fn note_taken(&mut self, taken: Option<bool>) {
        self.taken = taken;
    }

    /// A call is to wait.
    ///
    /// # Errors
    /// When too many do, of all or of its session.
    pub(super) fn push(&mut self, call: Calling) -> Result<(), (Address, Close)> {
        let (bytes, of) = (call.run.bytes(), (call.caller.place, call.session));
        let count = self.sessions.get(&of).copied().unwrap_or(0);
        if count >= OF_SESSION_MAX {
            let reason = format!(
                "a session may have {OF_SESSION_MAX} calls open with responders at another server; wait for answers"
            );
            return Err((call.caller, Close::new(CloseCode::TooManyCalls, reason)));
        }
        let is_full = self.waiting.len() >= WAITING_MAX
            || !self.waiting.is_empty() && self.waiting_bytes + bytes > WAITING_BYTES_MAX;
        if is_full {
            return Err((call.caller, CloseCode::ServiceBusy.into()));
        }
        self.sessions.insert(of, count + 1);
        self.waiting_bytes += bytes;
        self.last += 1;
        self.places.insert(call.caller, self.last);
        self.waiting.insert(self.last, call);
        Ok(())
    }

    /// The next call that may go.
    pub(super) fn send_next(&mut self) -> Option<Calling> {
        if self.taken != Some(true) || self.under_way.len() >= UNDER_WAY_MAX {
            return None;
        }
        let (_, call) = self.waiting.pop_first()?;
        self.places.remove(&call.caller);
        self.waiting_bytes -= call.run.bytes();
        self.under_way.insert(call.caller, call.session);
        Some(call)
    }

    /// Takes out the call that has waited longest.
    pub(super) fn take_first(&mut self) -> Option<Calling> {
        let caller = self.waiting.first_key_value().map(|(_, call)| call.caller)?;
        self.take(caller)
    }

    /// Takes out a call that waits.
    pub(super) fn take(&mut self, caller: Address) -> Option<Calling> {
        let call = self.waiting.remove(&self.places.remove(&caller)?)?;
        self.waiting_bytes -= call.run.bytes();
        self.leave(caller.place, call.session);
        Some(call)
    }

    /// The callers of those that wait for a service like that.
    pub(super) fn waiting_for(&self, is_meant: impl Fn(&Calling) -> bool) -> Vec<Address> {
        self.waiting.values().filter(|call| is_meant(call)).map(|call| call.caller).collect()
    }

    /// An exchange that had gone is over; whether it had.
    pub(super) fn release(&mut self, caller: Address) -> bool {
        let Some(session) = self.under_way.remove(&caller) else { return false };
        self.leave(caller.place, session);
        true
    }

    fn leave(&mut self, place: Place, session: Key) {
        let Some(count) = self.sessions.get_mut(&(place, session)) else { return };
        *count -= 1;
        if *count == 0 {
            self.sessions.remove(&(place, session));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::Arc;
    use tiderace_base::{ShardId, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, Kind, Run};

    fn call(slot: u32, session: u32, bytes: usize) -> Calling {
        let destination = Destination { kind: Kind::Service, path: Path::parse("a").unwrap() };
        let run = Run::single(destination, Time::ZERO, b"", &vec![0; bytes], Default::default());
        let place = Place::here(ShardId(0));
        let caller = Address { place, key: Key { slot, generation: 0 } };
        let session = Key { slot: session, generation: 0 };
        Calling { caller, session, run: Arc::new(run), last: true, credit: None }
    }

    proptest! {
        #[test]
        fn calls_go_in_order_and_leave_once(
            ops in proptest::collection::vec((0u8..6, 0usize..40, 0u32..3), 1..400),
        ) {
            let mut calls = Calls::default();
            calls.note_taken(Some(true));
            let (mut next, mut waiting, mut under_way) = (0, VecDeque::new(), Vec::new());
            for (what, at, session) in ops {
                match what {
                    0..3 => {
                        calls.push(call(next, session, 100)).unwrap();
                        waiting.push_back(next);
                        next += 1;
                    }
                    3 => if let Some(call) = calls.send_next() {
                        prop_assert_eq!(Some(call.caller.key.slot), waiting.pop_front());
                        under_way.push(call.caller);
                    },
                    4 => {
                        let slot = waiting.get(at).copied();
                        let caller = call(slot.unwrap_or(u32::MAX), 0, 0).caller;
                        prop_assert_eq!(calls.take(caller).is_some(), slot.is_some());
                        prop_assert!(calls.take(caller).is_none());
                        waiting.retain(|known| Some(*known) != slot);
                    }
                    _ => if at < under_way.len() {
                        let caller = under_way.swap_remove(at);
                        prop_assert!(calls.release(caller) && !calls.release(caller));
                    },
                }
                prop_assert_eq!(calls.len(), waiting.len() + under_way.len());
                prop_assert_eq!(calls.places.len(), waiting.len());
                prop_assert_eq!(calls.sessions.values().sum::<usize>(), calls.len());
            }
            for slot in waiting {
                prop_assert_eq!(calls.take_first().map(|call| call.caller.key.slot), Some(slot));
            }
            under_way.into_iter().for_each(|caller| _ = calls.release(caller));
            prop_assert!(calls.sessions.is_empty() && calls.waiting_bytes == 0 && calls.len() == 0);
        }
    }

    #[test]
    fn one_session_leaves_places_for_others_and_all_are_bounded() {
        let mut calls = Calls::default();
        let codes = |result: Result<(), (Address, Close)>| result.map_err(|(_, close)| close.code);
        let count = OF_SESSION_MAX as u32;
        (0..count).for_each(|slot| calls.push(call(slot, 1, 10)).unwrap());
        assert_eq!(codes(calls.push(call(count, 1, 10))), Err(CloseCode::TooManyCalls));
        // Nothing goes before the upstream takes calls, and what is under way counts as well.
        assert!(calls.send_next().is_none());
        calls.note_taken(Some(true));
        assert!(calls.send_next().is_some());
        assert_eq!(codes(calls.push(call(count, 1, 10))), Err(CloseCode::TooManyCalls));
        for session in 2..8 {
            (0..count).for_each(|slot| drop(calls.push(call(session * count + slot, session, 10))));
        }
        assert_eq!(calls.waiting.len(), WAITING_MAX);
        assert_eq!(codes(calls.push(call(0, 9, 10))), Err(CloseCode::ServiceBusy));
        while calls.send_next().is_some() {}
        assert_eq!(calls.under_way.len(), UNDER_WAY_MAX);
        let mut calls = Calls::default();
        calls.push(call(1, 1, WAITING_BYTES_MAX + 1)).unwrap();
        assert_eq!(codes(calls.push(call(2, 2, 1))), Err(CloseCode::ServiceBusy));
    }
}
