//! The open calls, requests and conversations of a session, and what its client was asked.
//!
//! Relies on the broker for the numbers of exchanges that others begin. Invariant: an exchange is known here from its
//! first message until both sides said all, it ended otherwise, or its namespace was left.

use std::collections::BTreeMap;

use tiderace_base::{CloseCode, ShardId};
use tiderace_wire::{Command, Commands, ExchangeKey, Side, SubscriptionKey};

/// One open exchange.
#[derive(Debug)]
pub(super) struct ExchangeState {
    /// The number of its namespace.
    pub(super) namespace: u8,
    /// The ack id of a call; conversations and requests have none.
    pub(super) call: Option<u64>,
    /// By which ack id the client may answer a request.
    pub(super) asked: Option<u64>,
    pub(super) sent_last: bool,
    pub(super) received_last: bool,
}

/// What the client's answer to an event means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// What becomes of a queue's message.
    Job { key: SubscriptionKey, home: ShardId, sequence: u64 },
    /// The answer to a request.
    Request(ExchangeKey),
}

impl Asked {
    /// Whether it belongs to one of these subscriptions, whose keys rise.
    pub(super) fn is_of(&self, keys: &[SubscriptionKey]) -> bool {
        matches!(self, Asked::Job { key, .. } if keys.binary_search(key).is_ok())
    }
}

/// What is open.
#[derive(Debug, Default)]
pub(super) struct Exchanges {
    open: BTreeMap<ExchangeKey, ExchangeState>,
    /// Calls that have had their answer, and whose other side has more to say: given up as soon as the broker can
    /// be told.
    answered_calls: Vec<ExchangeKey>,
    /// Questions to the client, by ack id.
    asked: BTreeMap<u64, Asked>,
}

impl Exchanges {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty() && self.answered_calls.is_empty() && self.asked.is_empty()
    }

    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn has(&self, key: ExchangeKey) -> bool {
        self.open.contains_key(&key)
    }

    pub(super) fn get(&self, key: ExchangeKey) -> Option<&ExchangeState> {
        self.open.get(&key)
    }

    pub(super) fn get_mut(&mut self, key: ExchangeKey) -> Option<&mut ExchangeState> {
        self.open.get_mut(&key)
    }

    pub(super) fn insert(&mut self, key: ExchangeKey, state: ExchangeState) {
        self.open.insert(key, state);
    }

    /// Forgets one, and the question to the client that it is.
    pub(super) fn remove(&mut self, key: ExchangeKey) -> Option<ExchangeState> {
        let state = self.open.remove(&key)?;
        if let Some(asked) = state.asked {
            self.asked.remove(&asked);
        }
        Some(state)
    }

    /// Those of a namespace.
    pub(super) fn of(&self, namespace: u8) -> Vec<ExchangeKey> {
        let own = self.open.iter().filter(|(_, state)| state.namespace == namespace);
        own.map(|(key, _)| *key).collect()
    }

    /// Notes what the client's answer with that ack id will mean.
    pub(super) fn ask(&mut self, id: u64, asked: Asked) {
        self.asked.insert(id, asked);
    }

    /// What the client's answer means, once.
    pub(super) fn take_asked(&mut self, id: u64) -> Option<Asked> {
        self.asked.remove(&id)
    }

    /// Forgets questions about messages of these subscriptions, whose keys rise.
    pub(super) fn forget_asked(&mut self, keys: &[SubscriptionKey]) {
        self.asked.retain(|_, asked| !asked.is_of(keys));
    }

    /// A call has had its one answer, and its other side has more to say.
    pub(super) fn note_answered(&mut self, key: ExchangeKey) {
        self.answered_calls.push(key);
    }

    /// Whether calls are to be given up.
    pub(super) fn has_answered(&self) -> bool {
        !self.answered_calls.is_empty()
    }

    /// Calls want one answer: what more their other sides have to say is for nobody.
    pub(super) fn give_up_answered(&mut self, commands: &mut Commands) {
        for exchange in self.answered_calls.drain(..) {
            let close = CloseCode::CallCancelled.into();
            commands.push(Command::Cancel { exchange, close });
        }
    }
}

/// An exchange's id as clients see it: even for those it began, odd for those begun with it.
pub(super) fn spell(key: ExchangeKey) -> u64 {
    u64::from(key.number) << 1 | u64::from(key.side == Side::Responder)
}

/// The exchange that an id of a client names.
pub(super) fn parse(id: u64) -> Option<ExchangeKey> {
    let number = u32::try_from(id >> 1).ok()?;
    Some(if id & 1 == 1 { ExchangeKey::responder(number) } else { ExchangeKey::caller(number) })
}
