//! Counts failed logins per user name and address, so that guessing is slow.
//!
//! Relies on the caller for the time. Lives on the worker's thread. Invariant: never holds more than
//! [`ENTRIES_MAX`] entries.

use std::collections::HashMap;
use std::net::IpAddr;

use tiderace_base::{Span, Time};

/// Each entry costs an attacker one password hash, 20 ms of the single worker: more than this many cannot
/// fail within the usual window of a minute.
const ENTRIES_MAX: usize = 4_096;
/// A longer name is counted by its beginning.
const NAME_CHARS_MAX: usize = 128;

/// How many logins may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailurePolicy {
    /// Failures of one user name from one address within the window; 0 is no limit.
    pub failures_max: u32,
    /// The window, which begins with the first failure.
    pub window: Span,
}

impl Default for FailurePolicy {
    fn default() -> FailurePolicy {
        FailurePolicy { failures_max: 5, window: Span::from_secs(60) }
    }
}

/// The failures of the recent past.
#[derive(Debug)]
pub(crate) struct Failures {
    policy: FailurePolicy,
    entries: HashMap<Key, Entry>,
}

type Key = (Box<str>, IpAddr);

#[derive(Debug)]
struct Entry {
    count: u32,
    since: Time,
}

impl Failures {
    pub(crate) fn new(policy: FailurePolicy) -> Failures {
        Failures { policy, entries: HashMap::new() }
    }

    /// Further attempts are refused unheard.
    pub(crate) fn is_blocked(&self, login: &str, address: IpAddr, now: Time) -> bool {
        let limit = self.policy.failures_max;
        let entry = self.entries.get(&key(login, address));
        limit > 0 && entry.is_some_and(|entry| entry.count >= limit && !self.is_over(entry, now))
    }

    /// A login failed.
    pub(crate) fn record(&mut self, login: &str, address: IpAddr, now: Time) {
        if self.policy.failures_max == 0 {
            return;
        }
        let key = key(login, address);
        if self.entries.len() >= ENTRIES_MAX && !self.entries.contains_key(&key) {
            self.make_room(now);
        }
        let window = self.policy.window;
        let entry = self.entries.entry(key).or_insert(Entry { count: 0, since: now });
        if now.since(entry.since) >= window {
            *entry = Entry { count: 0, since: now };
        }
        entry.count = entry.count.saturating_add(1);
    }

    /// A login succeeded: the past is forgiven.
    pub(crate) fn forgive(&mut self, login: &str, address: IpAddr) {
        self.entries.remove(&key(login, address));
    }

    fn is_over(&self, entry: &Entry, now: Time) -> bool {
        now.since(entry.since) >= self.policy.window
    }

    /// Drops what is over, or else the older half.
    fn make_room(&mut self, now: Time) {
        let window = self.policy.window;
        self.entries.retain(|_, entry| now.since(entry.since) < window);
        if self.entries.len() >= ENTRIES_MAX {
            let mut ages: Vec<Time> = self.entries.values().map(|entry| entry.since).collect();
            ages.sort_unstable();
            let median = ages.get(ages.len() / 2).copied().unwrap_or(now);
            self.entries.retain(|_, entry| entry.since > median);
        }
    }
}

fn key(login: &str, address: IpAddr) -> Key {
    // Counted in characters, so that the cut lies between two.
    let end = login.char_indices().nth(NAME_CHARS_MAX).map_or(login.len(), |(end, _)| end);
    (login.get(..end).unwrap_or_default().into(), address.to_canonical())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    fn at(seconds: u64) -> Time {
        Time::ZERO + Span::from_secs(seconds)
    }

    #[test]
    fn five_failures_block_one_name_from_one_address_for_a_window() {
        let mut failures = Failures::new(FailurePolicy::default());
        for second in 0..5 {
            assert!(!failures.is_blocked("bob", HERE, at(second)));
            failures.record("bob", HERE, at(second));
        }
        assert!(failures.is_blocked("bob", HERE, at(5)));
        assert!(!failures.is_blocked("bob", THERE, at(5)));
        assert!(!failures.is_blocked("eve", HERE, at(5)));
        assert!(failures.is_blocked("bob", HERE, at(59)));
        assert!(!failures.is_blocked("bob", HERE, at(60)));
        failures.record("bob", HERE, at(61));
        assert!(!failures.is_blocked("bob", HERE, at(61)), "a new window has begun");
    }

    #[test]
    fn success_forgives() {
        let mut failures =
            Failures::new(FailurePolicy { failures_max: 1, window: Span::from_secs(60) });
        failures.record("bob", HERE, at(0));
        assert!(failures.is_blocked("bob", HERE, at(1)));
        failures.forgive("bob", HERE);
        assert!(!failures.is_blocked("bob", HERE, at(1)));
    }

    #[test]
    fn zero_is_no_limit() {
        let mut failures =
            Failures::new(FailurePolicy { failures_max: 0, window: Span::from_secs(60) });
        failures.record("bob", HERE, at(0));
        assert!(!failures.is_blocked("bob", HERE, at(0)));
        assert!(failures.entries.is_empty());
    }

    #[test]
    fn the_table_stays_bounded_and_keeps_the_newest() {
        let mut failures =
            Failures::new(FailurePolicy { failures_max: 1, window: Span::from_secs(1_000_000) });
        for number in 0..20_000 {
            failures.record(&format!("user{number}"), HERE, at(number));
            assert!(failures.entries.len() <= ENTRIES_MAX);
        }
        assert!(failures.is_blocked("user19999", HERE, at(20_000)));
        failures.record(&"ä".repeat(1_000), HERE, at(20_000));
        assert!(failures.entries.keys().all(|(name, _)| name.chars().count() <= NAME_CHARS_MAX));
    }
}
