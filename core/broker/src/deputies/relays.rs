//! The requests for an upstream that wait here, and those that it has been asked and has not answered.
//!
//! Bookkeeping only. Invariants: requests are sent in the order in which they came; what is sent and not answered is
//! bounded by [`SENT_MAX`] and [`SENT_BYTES_MAX`], what waits by [`WAITING_BYTES_MAX`]; a session of which much waits is
//! paused until half of it is sent.

use std::collections::{BTreeMap, VecDeque};

use tiderace_base::SessionId;
use tiderace_wire::{Confirm, SubscriptionKey};

use crate::collections::Map;
use crate::relay::{Relay, Wanted};
use crate::requester::Requester;

/// Requests that are sent and not answered, at most.
pub(super) const SENT_MAX: usize = 4096;
/// Bytes of them at which no more are sent: as much as a fast connection takes in some ten milliseconds.
pub(super) const SENT_BYTES_MAX: usize = 4 << 20;
/// Bytes that may wait; one request alone may be larger.
pub(super) const WAITING_BYTES_MAX: usize = 64 << 20;
/// Requests of one session that wait, and their bytes, at which it is not read.
const PAUSE_AT: usize = 64;
const PAUSE_AT_BYTES: usize = 256 << 10;

/// Who waits for the answer to a request that was sent.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) session: SessionId,
    pub(super) answers: Answers,
    bytes: usize,
}

/// How a request is answered.
#[derive(Debug)]
pub(super) enum Answers {
    /// By receipts, if there are any.
    Receipts(Option<Confirm>),
    /// With what came of an operation.
    Operation(Box<Requester>),
}

impl Answers {
    pub(super) fn of(wanted: &Wanted) -> Answers {
        match wanted {
            Wanted::Publish { confirm, .. } => Answers::Receipts(*confirm),
            Wanted::Operate { requester, .. } => Answers::Operation(requester.clone()),
            Wanted::Say { confirm, .. } => Answers::Receipts(*confirm),
        }
    }
}

/// A request that does not wait any more.
#[derive(Debug)]
pub(super) struct Put {
    pub(super) relay: Relay,
    /// Whether its session is to be read again.
    pub(super) resumes: bool,
}

/// What waits of one session.
#[derive(Debug, Default)]
struct OfSession {
    requests: usize,
    bytes: usize,
    paused: bool,
}

/// Those of one upstream.
#[derive(Debug, Default)]
pub(super) struct Relays {
    /// Whether the upstream takes requests; absent while that is not known.
    taken: Option<bool>,
    last: u32,
    sent: BTreeMap<u32, Sent>,
    sent_bytes: usize,
    waiting: VecDeque<Relay>,
    waiting_bytes: usize,
    sessions: Map<SessionId, OfSession>,
}

impl Relays {
    /// How many wait, or are sent and not answered.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.sent.len()
    }

    /// Whether some are not sent yet.
    pub(super) fn some_wait(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether the upstream has said that it takes no requests.
    pub(super) fn are_refused(&self) -> bool {
        self.taken == Some(false)
    }

    /// The upstream says whether it takes requests.
    pub(super) fn note_taken(&mut self, taken: bool) {
        self.taken = Some(taken);
    }

    /// Whether so many bytes more may wait.
    pub(super) fn have_room(&self, bytes: usize) -> bool {
        self.waiting.is_empty() || self.waiting_bytes + bytes <= WAITING_BYTES_MAX
    }

    /// A request waits; whether its session is to be paused now.
    pub(super) fn push(&mut self, relay: Relay) -> bool {
        let bytes = relay.bytes();
        let known = self.sessions.entry(relay.session).or_default();
        known.requests += 1;
        known.bytes += bytes;
        let is_much = known.requests >= PAUSE_AT || known.bytes >= PAUSE_AT_BYTES;
        let begins = is_much && !known.paused;
        known.paused |= is_much;
        self.waiting_bytes += bytes;
        self.waiting.push_back(relay);
        begins
    }

    /// The next request that may be sent, by its number, and whether its session is to be read again.
    pub(super) fn send_next(&mut self) -> Option<(u32, Relay, bool)> {
        let is_full = self.sent.len() >= SENT_MAX || self.sent_bytes >= SENT_BYTES_MAX;
        if self.taken != Some(true) || is_full {
            return None;
        }
        let (relay, resumes) = self.take_first()?;
        let (session, bytes) = (relay.session, relay.bytes());
        let sent = Sent { session, answers: Answers::of(&relay.wanted), bytes };
        self.last = self.free_number();
        self.sent.insert(self.last, sent);
        self.sent_bytes += bytes;
        Some((self.last, relay, resumes))
    }

    /// What is said of a consumer is sent without having waited, and is to be answered; its number.
    pub(super) fn begin(&mut self, session: SessionId, confirm: Confirm, bytes: usize) -> u32 {
        self.last = self.free_number();
        let answers = Answers::Receipts(Some(confirm));
        self.sent.insert(self.last, Sent { session, answers, bytes });
        self.sent_bytes += bytes;
        self.last
    }

    /// Whether requests of a session wait.
    pub(super) fn some_wait_of(&self, session: SessionId) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Takes out what is to be said of consumers: of all, or of the one that has a key there.
    pub(super) fn take_said(&mut self, of: Option<SubscriptionKey>) -> Vec<Put> {
        let is_meant = |relay: &Relay| match (relay.wanted.consumer(), of) {
            (Some(key), Some(of)) => key == of,
            (said, _) => said.is_some(),
        };
        let mut put = Vec::new();
        for relay in std::mem::take(&mut self.waiting) {
            if is_meant(&relay) {
                let resumes = self.note_taken_out(&relay);
                put.push(Put { relay, resumes });
            } else {
                self.waiting.push_back(relay);
            }
        }
        put
    }

    /// Takes out the request that has waited longest; whether its session is to be read again.
    pub(super) fn take_first(&mut self) -> Option<(Relay, bool)> {
        let relay = self.waiting.pop_front()?;
        let resumes = self.note_taken_out(&relay);
        Some((relay, resumes))
    }

    /// A request waits no more; whether its session is to be read again.
    fn note_taken_out(&mut self, relay: &Relay) -> bool {
        let bytes = relay.bytes();
        self.waiting_bytes -= bytes;
        let Some(known) = self.sessions.get_mut(&relay.session) else { return false };
        known.requests -= 1;
        known.bytes -= bytes;
        let is_little = known.requests <= PAUSE_AT / 2 && known.bytes <= PAUSE_AT_BYTES / 2;
        let resumes = is_little && known.paused;
        known.paused &= !is_little;
        if known.requests == 0 {
            self.sessions.remove(&relay.session);
        }
        resumes
    }

    /// A request is answered.
    pub(super) fn answered(&mut self, number: u32) -> Option<Sent> {
        let sent = self.sent.remove(&number)?;
        self.sent_bytes -= sent.bytes;
        Some(sent)
    }

    /// The connection is lost: what was sent on it is not answered any more.
    pub(super) fn unlink(&mut self) -> Vec<Sent> {
        (self.taken, self.sent_bytes) = (None, 0);
        std::mem::take(&mut self.sent).into_values().collect()
    }

    fn free_number(&self) -> u32 {
        let mut number = self.last.wrapping_add(1);
        while self.sent.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        number
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::{ShardId, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Destination, EndPrincipal, Kind, Run, ToUpstream};

    fn relay(slot: u32, bytes: usize) -> Relay {
        let session = SessionId { shard: ShardId(0), slot, generation: 0 };
        let path = Path::parse("a").unwrap();
        let destination = Destination { kind: Kind::Topic, path };
        let run = Run::single(destination, Time::ZERO, b"", &vec![0; bytes], Default::default());
        let principal = EndPrincipal::new("ann".into(), [].into(), [].into(), false).unwrap();
        let wanted = Wanted::Publish { run: Box::new(run), confirm: None };
        Relay { session, principal: principal.into(), wanted }
    }

    proptest! {
        #[test]
        fn order_bounds_and_pauses_are_kept(
            ops in proptest::collection::vec((0u8..6, 0u32..3, 0usize..200_000), 1..300),
        ) {
            let mut relays = Relays::default();
            relays.note_taken(true);
            let (mut came, mut went, mut paused) = (Vec::new(), Vec::new(), [false; 3]);
            let mut sent = VecDeque::new();
            for (what, slot, bytes) in ops {
                match what {
                    0..3 => {
                        came.push((slot, bytes));
                        if relays.push(relay(slot, bytes)) {
                            prop_assert!(!std::mem::replace(&mut paused[slot as usize], true));
                        }
                    }
                    3 | 4 => while let Some((number, relay, resumes)) = relays.send_next() {
                        let Wanted::Publish { run, .. } = &relay.wanted else { panic!() };
                        let slot = relay.session.slot;
                        went.push((slot, run.message(0).unwrap().body.len()));
                        sent.push_back(number);
                        if resumes {
                            prop_assert!(std::mem::replace(&mut paused[slot as usize], false));
                        }
                    },
                    _ => if let Some(number) = sent.pop_front() {
                        prop_assert!(relays.answered(number).is_some());
                        prop_assert!(relays.answered(number).is_none());
                    },
                }
                prop_assert!(relays.sent_bytes < SENT_BYTES_MAX + 201_000 && sent.len() <= SENT_MAX);
            }
            while !relays.waiting.is_empty() {
                relays.unlink();
                relays.note_taken(true);
                while let Some((_, relay, resumes)) = relays.send_next() {
                    let Wanted::Publish { run, .. } = &relay.wanted else { panic!() };
                    went.push((relay.session.slot, run.message(0).unwrap().body.len()));
                    paused[relay.session.slot as usize] ^= resumes;
                }
            }
            prop_assert_eq!(came, went);
            prop_assert_eq!(paused, [false; 3]);
            prop_assert!(relays.sessions.is_empty() && relays.waiting_bytes == 0);
        }
    }

    #[test]
    fn what_is_said_of_one_consumer_is_taken_out_alone() {
        let mut relays = Relays::default();
        for key in [4, 5, 4] {
            let asked = ToUpstream::Credit { key: SubscriptionKey(key), messages: 1 };
            let wanted = Wanted::Say { asked: Box::new(asked), confirm: None };
            relays.push(Relay { wanted, ..relay(1, 0) });
            relays.push(relay(1, 10));
        }
        let taken = |relays: &mut Relays, of| {
            let put = relays.take_said(of).into_iter();
            put.map(|put| put.relay.wanted.consumer()).collect::<Vec<_>>()
        };
        let four = Some(SubscriptionKey(4));
        assert_eq!(taken(&mut relays, four), [four, four]);
        assert_eq!(taken(&mut relays, None), [Some(SubscriptionKey(5))]);
        assert_eq!((taken(&mut relays, None), relays.len()), (vec![], 3));
    }

    #[test]
    fn nothing_is_sent_before_the_upstream_takes_requests() {
        let mut relays = Relays::default();
        assert!(!relays.push(relay(1, 10)));
        assert!(relays.send_next().is_none() && !relays.are_refused());
        relays.note_taken(false);
        assert!(relays.send_next().is_none() && relays.are_refused());
        relays.note_taken(true);
        assert_eq!(relays.send_next().map(|(number, ..)| number), Some(1));
        assert_eq!(relays.unlink().len(), 1);
        assert_eq!((relays.len(), relays.sent_bytes), (0, 0));
    }
}
