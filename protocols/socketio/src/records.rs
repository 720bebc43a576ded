//! What is remembered of sessions that broke off, so that their clients can go on.
//!
//! Relies on `tiderace-base` for time. Invariant: the bytes remembered never exceed the limit and
//! nothing is given out after its age; the oldest record goes first.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_wire::Position;

use crate::session::Subscription;

/// What a session that broke off had in one namespace.
#[derive(Debug)]
pub struct Record {
    /// Known to the client alone.
    pub(crate) pid: u128,
    /// Whose session it was.
    pub(crate) principal: Arc<str>,
    /// The namespace.
    pub(crate) namespace: Box<str>,
    /// The socket id it had there.
    pub(crate) sid: u64,
    /// Its subscriptions there and their keys.
    pub(crate) subscriptions: Vec<(u32, Subscription)>,
    /// Where the connection began.
    pub(crate) beginning: Position,
}

impl Record {
    /// About what it takes in memory.
    fn bytes(&self) -> usize {
        let subscriptions = self.subscriptions.iter().map(|(_, known)| known.bytes() + 16);
        256 + self.beginning.seen().len() * 16
            + self.namespace.len()
            + self.principal.len()
            + subscriptions.sum::<usize>()
    }
}

/// Where sessions leave their records. Asked only when a client connects or breaks off; a caller that
/// implements it makes sure that it may be asked from all shards.
pub trait RecoveryTable: Send + Sync {
    /// Remembers a session that broke off now.
    fn keep(&self, record: Record);
    /// Gives a record out, once, if it is not too old and belongs to that principal.
    fn take(&self, pid: u128, principal: &str) -> Option<Record>;
}

/// A bounded table of records; told the time, guarded by others.
#[derive(Debug)]
pub struct Records {
    records: BTreeMap<u128, (Time, Record)>,
    /// In the order in which they came; those given out stay until their time.
    order: VecDeque<(Time, u128)>,
    bytes: usize,
    bytes_max: usize,
    age_max: Span,
}

impl Records {
    /// An empty table that holds so many bytes for so long.
    pub fn new(bytes_max: usize, age_max: Span) -> Records {
        Records { records: BTreeMap::new(), order: VecDeque::new(), bytes: 0, bytes_max, age_max }
    }

    /// Remembers a session that broke off at that time.
    pub fn keep(&mut self, now: Time, record: Record) {
        let bytes = record.bytes();
        self.forget(now, bytes);
        if bytes > self.bytes_max {
            return;
        }
        self.bytes += bytes;
        self.order.push_back((now, record.pid));
        if let Some((_, before)) = self.records.insert(record.pid, (now, record)) {
            self.bytes = self.bytes.saturating_sub(before.bytes());
        }
    }

    /// Gives a record out, once, if it is not too old and belongs to that principal. A stranger
    /// does not use it up.
    pub fn take(&mut self, now: Time, pid: u128, principal: &str) -> Option<Record> {
        self.forget(now, 0);
        let (_, known) = self.records.get(&pid)?;
        if *known.principal != *principal {
            return None;
        }
        let (_, record) = self.records.remove(&pid)?;
        self.bytes = self.bytes.saturating_sub(record.bytes());
        Some(record)
    }

    /// How many are remembered.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether none is remembered.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Forgets what is too old, and the oldest until so many bytes have room. Places of records
    /// that were given out count as well, so that the order cannot grow without limit.
    fn forget(&mut self, now: Time, bytes: usize) {
        while let Some((since, pid)) = self.order.front().copied() {
            let places = self.order.len() * ORDER_BYTES;
            let full = self.bytes + places + bytes > self.bytes_max;
            if now.since(since) < self.age_max && !full {
                return;
            }
            self.order.pop_front();
            let same = self.records.get(&pid).is_some_and(|(kept, _)| *kept == since);
            if same && let Some((_, record)) = self.records.remove(&pid) {
                self.bytes = self.bytes.saturating_sub(record.bytes());
            }
        }
    }
}

const ORDER_BYTES: usize = size_of::<(Time, u128)>();

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn record(pid: u128, principal: &str) -> Record {
        Record {
            pid,
            principal: principal.into(),
            namespace: "/".into(),
            sid: 1,
            subscriptions: Vec::new(),
            beginning: Position::new(1),
        }
    }

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn records_are_given_out_once_to_their_owners_in_time() {
        let mut records = Records::new(1 << 20, Span::from_secs(120));
        records.keep(at(0), record(1, "ann"));
        records.keep(at(0), record(2, "ann"));
        assert!(records.take(at(5), 1, "bob").is_none());
        assert!(records.take(at(5), 1, "ann").is_some());
        assert!(records.take(at(5), 1, "ann").is_none());
        assert!(records.take(at(120), 2, "ann").is_none());
        assert!(records.is_empty());
    }

    proptest! {
        #[test]
        fn bytes_stay_within_the_limit(steps in proptest::collection::vec((0u128..9, any::<bool>(), 0u64..40), 1..200)) {
            let mut records = Records::new(2_000, Span::from_secs(120));
            let mut now = 0;
            for (pid, keep, seconds) in steps {
                now += seconds;
                if keep {
                    records.keep(at(now), record(pid, "ann"));
                } else {
                    records.take(at(now), pid, "ann");
                }
                let bytes: usize = records.records.values().map(|(_, record)| record.bytes()).sum();
                prop_assert_eq!(bytes, records.bytes);
                prop_assert!(bytes <= 2_000 && records.order.len() <= 2_000 / ORDER_BYTES + 1);
                prop_assert!(records.records.values().all(|(since, _)| at(now).since(*since) <= Span::from_secs(120) || !keep));
            }
        }
    }
}
