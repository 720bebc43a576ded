//! Exchanges: the ends that a shard's sessions hold, and when their timeout is over.
//!
//! What is done with them stands in methods of [`ExchangeSide`](crate::exchange_side::ExchangeSide): what sessions do in
//! them in `conversation.rs`, how many messages callers want in `credit.rs`, how they end in `cancel.rs`, and what ends
//! with a subscription or a session in `ending.rs`. No other file sees what an end knows.
//!
//! Invariants: an end has its deadline in the order exactly while it is a caller's that is open: that of its timeout
//! while it wants messages or has heard the last and not said its own, and otherwise that of its pause; a
//! session's list names exactly its open ends; each end counts in the memory budget, beside what was said.

mod cancel;
mod conversation;
mod credit;
mod ending;
mod messages;
mod peer_lost;
mod withdrawn;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, Key, Memory, MemoryUse, Now, ShardId, Slab, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Destination, ExchangeKey, Flags, Kind, Meta, Run, Side, SubscriptionKey, Traced,
};

use crate::collections::Map;
use crate::home::services::Address;
use crate::places::Place;

/// One side of an exchange.
#[derive(Debug)]
struct End {
    session: Key,
    key: ExchangeKey,
    service: Path,
    other: Other,
    /// Whether its session has said its last message.
    said_last: bool,
    /// Whether the other side has.
    heard_last: bool,
    /// How many messages its session has said.
    said: u64,
    /// Of callers.
    timeout: Span,
    /// When that is over; may have been moved later than the order knows.
    due: Time,
    /// Where it stands in the order of deadlines.
    armed: Option<Time>,
    credit: EndCredit,
    /// Of a caller's end: what is known of the call if it is traced, until it is told how it ended.
    traced: Option<Arc<Traced>>,
}

impl End {
    /// Whether it is a caller's that wants nothing at present, though more may come.
    fn pauses(&self) -> bool {
        self.key.side == Side::Caller && self.credit.left == Some(0) && !self.heard_last
    }
}

/// What an end knows of its exchange's credit.
#[derive(Clone, Copy, Debug, Default)]
struct EndCredit {
    /// Of a caller's end: how many messages are wanted and have not come. Of a responder's: how many its session
    /// was not told of. Absent: no bound.
    left: Option<u64>,
    /// Of a caller's end: what was asked for before it was known who answers.
    unsent: u64,
    /// Of a responder's end: whether its session has taken the call.
    begun: bool,
}

impl EndCredit {
    /// At the beginning of an exchange.
    fn of(credit: Option<u64>) -> EndCredit {
        EndCredit { left: credit, ..EndCredit::default() }
    }

    /// What the responder has yet to be told of, now that it is known.
    fn take_unsent(&mut self) -> u64 {
        std::mem::take(&mut self.unsent)
    }
}

/// A message of an exchange on its way to the other side.
#[derive(Debug)]
pub struct Said {
    /// One message.
    pub run: Arc<Run>,
    /// Whether it is this side's last.
    pub last: bool,
    /// Whether it is no message, but says only that there are no more.
    pub bare: bool,
}

/// What an end knows of the other side.
#[derive(Debug)]
enum Other {
    /// Of a caller's end: nobody has answered yet. What its session says meanwhile is kept, and how it
    /// ended the exchange if it has: the responder hears all of that.
    Unknown { kept: Vec<Said>, bytes: usize, ended: Option<Close> },
    /// The exchange is over, and its session hears why behind what waits for it.
    Over(Close),
    /// Of a caller's end: over before anybody answered; a responder that does hears what was said, and
    /// why it is over.
    Forgone { kept: Vec<Said>, close: Close },
    /// Of a caller's end: it is known who answers.
    Responder(Address),
    /// Of a responder's end.
    Caller {
        at: Address,
        /// The subscription that serves.
        subscription: SubscriptionKey,
        /// Who is to be told when it is over.
        home: Place,
        /// Its place there.
        responder: Key,
    },
}

/// What an end takes on its shard: its record, its place in the session's list and in the order of deadlines, and
/// what its session's protocol keeps for it.
const END_BYTES: usize = size_of::<End>() + 256;

/// All ends on a shard.
#[derive(Debug)]
pub(crate) struct Exchanges {
    ends: Slab<End>,
    deadlines: BTreeSet<(Time, Key)>,
    /// How many ends are callers'.
    callers: usize,
    next_number: u32,
    /// Responders' ends of calls that are no longer wanted, and may not have been begun.
    withdrawn: Vec<Key>,
    memory: Rc<Memory>,
}

/// The open ends of one session.
#[derive(Debug, Default)]
pub(crate) struct Open {
    ends: Map<ExchangeKey, Key>,
    /// Of those that it has ended, the ones in which somebody has yet to hear what it said.
    left: Map<Key, ()>,
    /// How many of all these it has called.
    calls: usize,
    /// Bytes it has said that nobody has taken yet.
    untaken_bytes: usize,
}

impl Exchanges {
    /// None yet.
    pub(crate) fn new(memory: Rc<Memory>) -> Exchanges {
        let (ends, deadlines) = (Slab::new(), BTreeSet::new());
        Exchanges { ends, deadlines, callers: 0, next_number: 0, withdrawn: Vec::new(), memory }
    }

    fn insert(&mut self, end: End) -> Key {
        self.memory.charge(MemoryUse::Calls, END_BYTES);
        self.callers += usize::from(end.key.side == Side::Caller);
        self.ends.insert(end)
    }

    fn get(&self, key: Key) -> Option<&End> {
        self.ends.get(key)
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut End> {
        self.ends.get_mut(key)
    }

    fn remove(&mut self, key: Key) -> Option<End> {
        self.disarm(key);
        let end = self.ends.remove(key)?;
        self.memory.refund(MemoryUse::Calls, END_BYTES);
        self.callers -= usize::from(end.key.side == Side::Caller);
        Some(end)
    }

    /// A caller's timeout begins anew.
    fn renew(&mut self, key: Key, now: Time) {
        let Some(end) = self.ends.get(key) else { return };
        self.wait_until(key, now + end.timeout);
    }

    /// A caller is waited for until then.
    fn wait_until(&mut self, key: Key, due: Time) {
        let Some(end) = self.ends.get_mut(key) else { return };
        end.due = due;
        if end.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        if let Some(armed) = end.armed.replace(due) {
            self.deadlines.remove(&(armed, key));
        }
        self.deadlines.insert((due, key));
    }

    /// A caller is no longer waited for.
    fn disarm(&mut self, key: Key) {
        let armed = self.ends.get_mut(key).and_then(|end| end.armed.take());
        if let Some(armed) = armed {
            self.deadlines.remove(&(armed, key));
        }
    }

    /// An end whose timeout is over; each once.
    fn overdue(&mut self, now: Time) -> Option<Key> {
        while let Some((armed, key)) = self.deadlines.first().copied().filter(|row| row.0 <= now) {
            self.deadlines.remove(&(armed, key));
            let Some(end) = self.ends.get_mut(key) else { continue };
            if end.due <= now {
                end.armed = None;
                return Some(key);
            }
            end.armed = Some(end.due);
            self.deadlines.insert((end.due, key));
        }
        None
    }

    /// A call is no longer wanted: it is looked for with others of the turn.
    fn withdraw(&mut self, key: Key) {
        self.withdrawn.push(key);
    }

    pub(crate) fn has_withdrawn(&self) -> bool {
        !self.withdrawn.is_empty()
    }

    fn take_withdrawn(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.withdrawn)
    }

    /// A responder's session takes a call: how many messages the caller wants by now.
    fn begin(&mut self, key: Key) -> Option<u64> {
        let credit = &mut self.get_mut(key)?.credit;
        credit.begun = true;
        credit.left
    }

    /// A number for a responder's end that no other on this shard is likely to have had lately.
    fn number(&mut self) -> u32 {
        self.next_number = self.next_number.wrapping_add(1);
        self.next_number
    }

    /// Of a session's ends, those of calls to subscriptions of a kind.
    fn served_by(
        &self,
        open: &Open,
        is_meant: impl Fn(SubscriptionKey) -> bool,
    ) -> Vec<ExchangeKey> {
        let ends = open.ends.values().chain(open.left.keys()).filter_map(|key| self.get(*key));
        let served = ends.filter(|end| match end.other {
            Other::Caller { subscription, .. } => is_meant(subscription),
            _ => false,
        });
        served.map(|end| end.key).collect()
    }

    /// Callers' ends.
    pub(crate) fn callers(&self) -> usize {
        self.callers
    }

    /// Responders' ends.
    pub(crate) fn responders(&self) -> usize {
        self.ends.len() - self.callers
    }
}

impl Open {
    fn get(&self, key: ExchangeKey) -> Option<Key> {
        self.ends.get(&key).copied()
    }

    fn insert(&mut self, key: ExchangeKey, end: Key) {
        self.calls += usize::from(key.side == Side::Caller);
        self.ends.insert(key, end);
    }

    fn remove(&mut self, key: ExchangeKey, end: Key) {
        let is_open = self.ends.get(&key) == Some(&end);
        if is_open {
            self.ends.remove(&key);
        }
        if is_open || self.left.remove(&end).is_some() {
            self.calls -= usize::from(key.side == Side::Caller);
        }
    }

    /// The session has ended it and may use its number again; it counts until it is removed.
    fn leave(&mut self, key: ExchangeKey) {
        let end = self.ends.remove(&key);
        self.left.extend(end.map(|end| (end, ())));
    }

    fn is_empty(&self) -> bool {
        self.ends.is_empty() && self.left.is_empty()
    }

    fn keys(&self) -> Vec<Key> {
        self.ends.values().chain(self.left.keys()).copied().collect()
    }
}

/// Who is told that an exchange is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tell {
    /// The session and the other side.
    Both,
    /// The session; the other side knows.
    Own,
    /// The other side; the session knows, or is gone.
    Other,
}

/// A message of an exchange: numbered by its side, from zero.
fn message(
    service: &Path,
    now: Now,
    shard: ShardId,
    number: u64,
    properties: &[u8],
    body: &[u8],
) -> Arc<Run> {
    let destination = Destination { kind: Kind::Service, path: service.clone() };
    let flags = if properties.contains(&b'\\') { Flags::ESCAPED } else { Flags::NONE };
    let meta = Meta { flags, expires_ms: None };
    let mut run = Run::single(destination, now.time, properties, body, meta);
    run.number(shard, number);
    Arc::new(run)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    fn end(number: u32, timeout: u64) -> End {
        End {
            session: Key::default(),
            key: ExchangeKey::caller(number),
            service: Path::parse("s").unwrap(),
            other: Other::Unknown { kept: Vec::new(), bytes: 0, ended: None },
            said_last: false,
            heard_last: false,
            said: 0,
            timeout: Span::from_nanos(timeout),
            due: Time::ZERO,
            armed: None,
            credit: EndCredit::default(),
            traced: None,
        }
    }

    proptest! {
        #[test]
        fn a_timeout_ends_once_and_when_it_was_last_renewed(
            ops in proptest::collection::vec((0u8..5, 0usize..8, 1u64..50), 1..200),
        ) {
            let memory = Rc::new(Memory::new(usize::MAX));
            let mut exchanges = Exchanges::new(memory.clone());
            let mut model: Vec<(Key, Option<u64>, u64)> = Vec::new();
            let mut now = 0;
            for (op, at, span) in ops {
                match op {
                    0 => {
                        let key = exchanges.insert(end(model.len() as u32, span));
                        exchanges.renew(key, Time::from_nanos(now));
                        model.push((key, Some(now + span), span));
                    }
                    1 if at < model.len() => {
                        let (key, due, timeout) = &mut model[at];
                        if due.is_some() {
                            exchanges.renew(*key, Time::from_nanos(now));
                            *due = Some(now + *timeout);
                        }
                    }
                    2 if at < model.len() => {
                        let (key, due, _) = &mut model[at];
                        if due.is_some() {
                            exchanges.wait_until(*key, Time::from_nanos(now + span));
                            *due = Some(now + span);
                        }
                    }
                    3 if at < model.len() => {
                        exchanges.remove(model[at].0);
                        model[at].1 = None;
                    }
                    _ => {
                        now += span;
                        let mut over = Vec::new();
                        while let Some(key) = exchanges.overdue(Time::from_nanos(now)) {
                            over.push(key);
                        }
                        over.sort_unstable();
                        let mut expected = Vec::new();
                        for (key, due, _) in &mut model {
                            if due.is_some_and(|due| due <= now) {
                                expected.push(*key);
                                *due = None;
                                exchanges.remove(*key);
                            }
                        }
                        expected.sort_unstable();
                        prop_assert_eq!(over, expected);
                    }
                }
                let open = model.iter().filter(|row| row.1.is_some()).count();
                prop_assert_eq!((exchanges.callers(), exchanges.deadlines.len()), (open, open));
                prop_assert_eq!(exchanges.responders(), 0);
                let ends = exchanges.ends.len();
                prop_assert_eq!(memory.used_for(MemoryUse::Calls), END_BYTES * ends);
            }
        }
    }
}
