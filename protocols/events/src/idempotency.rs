//! `Idempotency-Key`: a request that comes again gets the answer of the first, and is not done again.
//!
//! Sessions see the trait; the table behind it belongs to the shell, which shares one among all
//! shards. It is touched twice for a request that brings a key and never for others. Invariant: the
//! table holds at most `bytes_max` and forgets after `age_max`.

use std::collections::{BTreeMap, VecDeque};

use crate::limits::ANSWER_BYTES_MAX;
use bytes::Bytes;
use tiderace_base::{Span, Time};
use tiderace_wire::Response;

/// What is known about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nothing: it is the caller's now, who has to settle it.
    Fresh,
    /// Another request with it is being done.
    Pending,
    /// This was the answer.
    Answered(Response),
    /// It was used for another request.
    Taken,
}

/// The node's memory of answers. Keys are unique for a principal; `request` tells requests apart.
pub trait Idempotency: Send + Sync {
    /// Looks a key up, and takes it if nobody has.
    fn claim(&self, now: Time, key: &str, request: u64) -> Claim;

    /// Keeps the answer to a claimed key, or frees the key if there is none worth keeping.
    fn settle(&self, now: Time, key: &str, answer: Option<&Response>);
}

/// The table, to be put behind a lock.
#[derive(Debug)]
pub struct IdempotencyTable {
    entries: BTreeMap<Box<str>, Entry>,
    /// Claims in the order of their times, with what each is charged.
    order: VecDeque<(Time, Box<str>, usize)>,
    bytes: usize,
    bytes_max: usize,
    age_max: Span,
}

#[derive(Debug)]
struct Entry {
    request: u64,
    since: Time,
    answer: Option<Response>,
}

impl IdempotencyTable {
    /// An empty table.
    pub fn new(bytes_max: usize, age_max: Span) -> IdempotencyTable {
        IdempotencyTable {
            entries: BTreeMap::new(),
            order: VecDeque::new(),
            bytes: 0,
            bytes_max,
            age_max,
        }
    }

    /// See [`Idempotency::claim`].
    pub fn claim(&mut self, now: Time, key: &str, request: u64) -> Claim {
        self.forget(now);
        if let Some(known) = self.entries.get(key) {
            return match &known.answer {
                _ if known.request != request => Claim::Taken,
                Some(answer) => Claim::Answered(answer.clone()),
                None => Claim::Pending,
            };
        }
        self.entries.insert(key.into(), Entry { request, since: now, answer: None });
        let charge = key.len() * 2 + ENTRY_BYTES;
        self.order.push_back((now, key.into(), charge));
        self.bytes += charge;
        self.forget(now);
        Claim::Fresh
    }

    /// See [`Idempotency::settle`].
    pub fn settle(&mut self, now: Time, key: &str, answer: Option<&Response>) {
        let answer = answer.filter(|answer| bytes_of(answer) <= ANSWER_BYTES_MAX);
        match (self.entries.get_mut(key), answer) {
            (Some(entry), Some(answer)) if entry.answer.is_none() => {
                // A part of something larger would keep all of that in memory, uncounted.
                let body = Bytes::copy_from_slice(&answer.body);
                entry.answer = Some(Response { body, ..answer.clone() });
                self.bytes += bytes_of(answer);
            }
            (Some(entry), None) if entry.answer.is_none() => {
                self.entries.remove(key);
            }
            _ => {}
        }
        self.forget(now);
    }

    /// Bytes it holds, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what is too old, and the oldest while there is too much.
    fn forget(&mut self, now: Time) {
        while let Some((since, _, _)) = self.order.front() {
            if now.since(*since) < self.age_max && self.bytes <= self.bytes_max {
                return;
            }
            let Some((since, key, charge)) = self.order.pop_front() else { return };
            self.bytes = self.bytes.saturating_sub(charge);
            if self.entries.get(&key).is_some_and(|entry| entry.since == since)
                && let Some(entry) = self.entries.remove(&key)
            {
                let held = entry.answer.as_ref().map_or(0, bytes_of);
                self.bytes = self.bytes.saturating_sub(held);
            }
        }
    }
}

fn bytes_of(answer: &Response) -> usize {
    let fields: usize = answer.headers.iter().map(|(_, value)| value.len() + 48).sum();
    answer.body.len() + fields
}

/// What an entry costs besides its texts: places in the map and in the order.
const ENTRY_BYTES: usize = 192;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    fn table(bytes_max: usize) -> IdempotencyTable {
        IdempotencyTable::new(bytes_max, Span::from_secs(10))
    }

    #[test]
    fn the_second_gets_the_answer_of_the_first() {
        let mut table = table(1 << 20);
        let answer = Response::new(200, "text/plain", "done");
        assert_eq!(table.claim(at(0), "k", 1), Claim::Fresh);
        assert_eq!(table.claim(at(1), "k", 1), Claim::Pending);
        assert_eq!(table.claim(at(1), "k", 2), Claim::Taken);
        table.settle(at(2), "k", Some(&answer));
        assert_eq!(table.claim(at(3), "k", 1), Claim::Answered(answer.clone()));
        assert_eq!(table.claim(at(3), "other", 1), Claim::Fresh);
        assert_eq!(table.claim(at(10), "k", 1), Claim::Fresh, "its time is over");
    }

    #[test]
    fn a_request_without_an_answer_frees_its_key() {
        let mut table = table(1 << 20);
        assert_eq!(table.claim(at(0), "k", 1), Claim::Fresh);
        table.settle(at(0), "k", None);
        assert_eq!(table.claim(at(1), "k", 2), Claim::Fresh);
        table.settle(at(1), "k", Some(&Response::new(200, "text/plain", "x".repeat(1 << 20))));
        assert_eq!(table.claim(at(2), "k", 2), Claim::Fresh, "too large to be kept");
        table.settle(at(9), "k", Some(&Response::default()));
        assert_eq!(table.claim(at(11), "k", 2), Claim::Answered(Response::default()));
    }

    #[test]
    fn what_is_kept_holds_nothing_else_in_memory() {
        let mut table = table(1 << 20);
        let large = Bytes::from(vec![7; 1 << 20]);
        let answer = Response::new(200, "text/plain", large.slice(..4096));
        table.claim(at(0), "k", 1);
        table.settle(at(0), "k", Some(&answer));
        let Claim::Answered(kept) = table.claim(at(1), "k", 1) else { panic!("it was answered") };
        assert_eq!(kept, answer);
        assert_ne!(kept.body.as_ptr(), answer.body.as_ptr());
    }

    proptest! {
        #[test]
        fn it_stays_within_its_bytes(
            steps in proptest::collection::vec((0u8..20, 0usize..3000, any::<bool>(), 0u64..3), 1..200),
        ) {
            let mut table = table(8000);
            let mut time = 0;
            for (key, size, settles, seconds) in steps {
                time += seconds;
                let key = key.to_string();
                table.claim(at(time), &key, 1);
                if settles {
                    let answer = Response::new(200, "text/plain", vec![0; size]);
                    table.settle(at(time), &key, (size % 2 == 0).then_some(&answer));
                }
                prop_assert!(table.bytes() <= 8000);
                prop_assert!(table.entries.len() <= table.order.len());
            }
            table.claim(at(time + 100), "last", 1);
            prop_assert_eq!(table.order.len(), 1);
            prop_assert_eq!(table.bytes(), 8 + ENTRY_BYTES);
        }
    }
}
