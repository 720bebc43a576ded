//! What clients may have at a time, and how fast they may send and be sent to: shared by all to whom a limit applies
//! together, on all shards.
//!
//! Relies on the caller for the time. A rate is one word, the time until which what was sent is paid for: it is charged
//! by what has come, so nothing is refused for it, and who has sent more than its rate waits until that time. Invariants:
//! what is counted is given back by the same number; no call takes a lock, allocates or looks at more than a few words.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::{Span, Time};

/// What one client, or several together, may have. Zero is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ClientLimits {
    /// Sessions that are logged in and have a connection.
    pub connections: u32,
    /// Subscriptions of all their sessions.
    pub subscriptions: u32,
    /// Messages, calls and operations that they send per second.
    pub messages_per_second: u64,
    /// Bytes of properties and bodies of what they send per second.
    pub received_bytes_per_second: u64,
    /// Bytes that are written to them per second.
    pub sent_bytes_per_second: u64,
    /// Bytes that may wait for one session of theirs.
    pub backlog_bytes: usize,
}

/// Which of the limits was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientLimit {
    /// [`ClientLimits::connections`].
    Connections,
    /// [`ClientLimits::subscriptions`].
    Subscriptions,
    /// [`ClientLimits::messages_per_second`].
    Messages,
    /// [`ClientLimits::received_bytes_per_second`].
    ReceivedBytes,
    /// [`ClientLimits::sent_bytes_per_second`].
    SentBytes,
}

impl ClientLimit {
    /// All of them.
    pub const ALL: [ClientLimit; 5] = [
        ClientLimit::Connections,
        ClientLimit::Subscriptions,
        ClientLimit::Messages,
        ClientLimit::ReceivedBytes,
        ClientLimit::SentBytes,
    ];

    /// The option that sets it, in a table `limit`.
    pub fn option(self) -> &'static str {
        match self {
            ClientLimit::Connections => "connections_max",
            ClientLimit::Subscriptions => "subscriptions_max",
            ClientLimit::Messages => "messages_per_second",
            ClientLimit::ReceivedBytes => "received_bytes_per_second",
            ClientLimit::SentBytes => "sent_bytes_per_second",
        }
    }
}

/// How fast something may go on: so many units a second, of which those of one second may come at once.
#[derive(Debug, Default)]
struct Pace(AtomicU64);

impl Pace {
    /// Charges for so many units; until when they are paid for. What is owed already is at most [`DEBT_MAX`] before that:
    /// what cannot be held back, such as values that are asked for by HTTP, keeps nobody from going on for long.
    fn charge(&self, now: Time, units: u64, per_second: u64) -> Time {
        if per_second == 0 || units == 0 {
            return Time::ZERO;
        }
        let cost = u128::from(units) * NANOS_PER_SECOND / u128::from(per_second);
        let cost = u64::try_from(cost).unwrap_or(u64::MAX);
        let (least, most) = ((now - BURST).as_nanos(), (now + DEBT_MAX).as_nanos());
        let paid = |until: u64| until.clamp(least, most).saturating_add(cost);
        let charge = |until| Some(paid(until));
        let before = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, charge);
        Time::from_nanos(paid(before.unwrap_or_else(|until| until)))
    }

    /// Until when all that was charged is paid for.
    fn until(&self) -> Time {
        Time::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// What a limit leaves to all to whom it applies together.
#[derive(Debug)]
pub struct Allowance {
    limits: ClientLimits,
    who: Box<str>,
    connections: AtomicU32,
    subscriptions: AtomicU32,
    subscriptions_refused: AtomicU32,
    messages: Pace,
    received_bytes: Pace,
    sent_bytes: Pace,
    /// When the log may say again that a limit was reached.
    told_until: AtomicU64,
}

impl Allowance {
    /// Nothing is used yet; `who` is for people.
    pub fn new(limits: ClientLimits, who: impl Into<Box<str>>) -> Allowance {
        Allowance {
            limits,
            who: who.into(),
            connections: AtomicU32::new(0),
            subscriptions: AtomicU32::new(0),
            subscriptions_refused: AtomicU32::new(0),
            messages: Pace::default(),
            received_bytes: Pace::default(),
            sent_bytes: Pace::default(),
            told_until: AtomicU64::new(0),
        }
    }

    /// Whose it is, for people.
    pub fn who(&self) -> &str {
        &self.who
    }

    /// How much there is of it.
    pub fn limits(&self) -> &ClientLimits {
        &self.limits
    }

    /// Whether nothing of it is in use, so that a new one would be the same.
    pub fn is_idle(&self, now: Time) -> bool {
        let paces = [&self.messages, &self.received_bytes, &self.sent_bytes];
        let is_used = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        !is_used(&self.connections)
            && !is_used(&self.subscriptions)
            && paces.iter().all(|pace| pace.until() <= now)
    }

    /// Whether the log is to say that a limit was reached: once in a while.
    pub fn is_news(&self, now: Time) -> bool {
        let until = self.told_until.load(Ordering::Relaxed);
        let next = (now + TOLD_INTERVAL).as_nanos();
        let is_due = until == 0 || Time::from_nanos(until) <= now;
        let exchange =
            || self.told_until.compare_exchange(until, next, Ordering::Relaxed, Ordering::Relaxed);
        is_due && exchange().is_ok()
    }

    fn admit_connection(&self) -> bool {
        let most = self.limits.connections;
        let more = |count: u32| (most == 0 || count < most).then_some(count + 1);
        self.connections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// The allowances that apply to one session: the same ones may apply to others.
#[derive(Clone, Debug)]
pub struct Allowances(Arc<[Arc<Allowance>]>);

impl PartialEq for Allowances {
    fn eq(&self, other: &Allowances) -> bool {
        let same = |(one, two): (&Arc<Allowance>, &Arc<Allowance>)| Arc::ptr_eq(one, two);
        self.0.len() == other.0.len() && self.0.iter().zip(other.0.iter()).all(same)
    }
}

impl FromIterator<Arc<Allowance>> for Allowances {
    fn from_iter<I: IntoIterator<Item = Arc<Allowance>>>(all: I) -> Allowances {
        Allowances(all.into_iter().collect())
    }
}

/// When a client may go on, and for which limit it waits.
pub type Wait = (Time, ClientLimit);

impl Allowances {
    /// Whether nothing limits the session.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts another connection, which may have a place in some of them already, to be given up when it has these: there is
    /// room for it.
    ///
    /// # Errors
    /// The allowance that has no room for it; then it is counted nowhere.
    pub fn admit_connection(&self, held: Option<&Allowances>) -> Result<(), &Allowance> {
        let is_held = |allowance: &Arc<Allowance>| {
            held.is_some_and(|held| held.0.iter().any(|it| Arc::ptr_eq(it, allowance)))
        };
        for (index, allowance) in self.0.iter().enumerate() {
            if is_held(allowance) {
                allowance.connections.fetch_add(1, Ordering::Relaxed);
            } else if !allowance.admit_connection() {
                for before in self.0.iter().take(index) {
                    before.connections.fetch_sub(1, Ordering::Relaxed);
                }
                return Err(allowance);
            }
        }
        Ok(())
    }

    /// Counts another connection, whether there is room for it or not: a client that was let in before comes back.
    pub fn add_connection(&self) {
        for allowance in self.0.iter() {
            allowance.connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A connection is gone.
    pub fn dismiss_connection(&self) {
        for allowance in self.0.iter() {
            allowance.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether there is room for another subscription.
    ///
    /// # Errors
    /// The allowance that has none; it notes that.
    pub fn check_subscription(&self) -> Result<(), &Allowance> {
        let is_full = |allowance: &&Arc<Allowance>| {
            let most = allowance.limits.subscriptions;
            most > 0 && allowance.subscriptions.load(Ordering::Relaxed) >= most
        };
        let Some(full) = self.0.iter().find(is_full) else { return Ok(()) };
        full.subscriptions_refused.fetch_add(1, Ordering::Relaxed);
        Err(full)
    }

    /// Counts so many subscriptions more.
    pub fn add_subscriptions(&self, count: u32) {
        for allowance in self.0.iter() {
            allowance.subscriptions.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// So many subscriptions are gone.
    pub fn remove_subscriptions(&self, count: u32) {
        for allowance in self.0.iter() {
            allowance.subscriptions.fetch_sub(count, Ordering::Relaxed);
        }
    }

    /// How many subscriptions were refused since the last call, and by which allowance.
    pub fn take_refused_subscriptions(&self) -> Option<(&Allowance, u32)> {
        self.0.iter().find_map(|allowance| {
            let refused = allowance.subscriptions_refused.swap(0, Ordering::Relaxed);
            (refused > 0).then_some((&**allowance, refused))
        })
    }

    /// Charges for what a client has sent; when it may send more, if that is not now.
    pub fn charge_received(
        &self,
        now: Time,
        messages: u64,
        bytes: u64,
    ) -> Option<(&Allowance, Wait)> {
        let each = self.0.iter().flat_map(|it| {
            let limits = &it.limits;
            let messages = it.messages.charge(now, messages, limits.messages_per_second);
            let bytes = it.received_bytes.charge(now, bytes, limits.received_bytes_per_second);
            [(&**it, (messages, ClientLimit::Messages)), (it, (bytes, ClientLimit::ReceivedBytes))]
        });
        last(now, each)
    }

    /// When a client may send more, if that is not now.
    pub fn receives_from(&self, now: Time) -> Option<(&Allowance, Wait)> {
        let each = self.0.iter().flat_map(|it| {
            let (messages, bytes) = (it.messages.until(), it.received_bytes.until());
            [(&**it, (messages, ClientLimit::Messages)), (it, (bytes, ClientLimit::ReceivedBytes))]
        });
        last(now, each)
    }

    /// Charges for what was written to a client; when more may be, if that is not now.
    pub fn charge_sent(&self, now: Time, bytes: u64) -> Option<(&Allowance, Wait)> {
        let each = self.0.iter().map(|it| {
            let until = it.sent_bytes.charge(now, bytes, it.limits.sent_bytes_per_second);
            (&**it, (until, ClientLimit::SentBytes))
        });
        last(now, each)
    }

    /// When more may be written to a client, if that is not now.
    pub fn sends_from(&self, now: Time) -> Option<(&Allowance, Wait)> {
        let each = self.0.iter();
        last(now, each.map(|it| (&**it, (it.sent_bytes.until(), ClientLimit::SentBytes))))
    }

    /// How much is written at once, so that others who share the allowance are not kept waiting for long; `most` if
    /// nothing limits it.
    pub fn block_bytes(&self, most: usize) -> usize {
        let rates = self.0.iter().map(|it| it.limits.sent_bytes_per_second);
        let share = |rate: u64| usize::try_from(rate / BLOCKS_PER_SECOND).unwrap_or(usize::MAX);
        let least = rates.filter(|rate| *rate > 0).map(share).min();
        least.map_or(most, |least| most.min(least.max(BLOCK_BYTES_MIN)))
    }

    /// Bytes that may wait for the session; `most` if nothing limits that.
    pub fn backlog_bytes(&self, most: usize) -> usize {
        let backlogs = self.0.iter().map(|it| it.limits.backlog_bytes).filter(|bytes| *bytes > 0);
        backlogs.min().map_or(most, |least| least.min(most))
    }
}

/// The longest of some waits that are not over.
fn last<'a>(
    now: Time,
    each: impl Iterator<Item = (&'a Allowance, Wait)>,
) -> Option<(&'a Allowance, Wait)> {
    each.filter(|(_, (until, _))| *until > now).max_by_key(|(_, (until, _))| *until)
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// What may come at once is as much as may come in this time.
const BURST: Span = Span::from_secs(1);
/// How much may be owed when something is charged for that did not wait until it was paid for.
const DEBT_MAX: Span = Span::from_secs(5);
/// How often the log says that those who share an allowance reach its limits.
const TOLD_INTERVAL: Span = Span::from_secs(60);
/// A second's worth of what is written is divided into so many blocks.
const BLOCKS_PER_SECOND: u64 = 8;
/// Blocks are not smaller: each is a system call.
const BLOCK_BYTES_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn at(ms: u64) -> Time {
        Time::from_nanos(ms * 1_000_000)
    }

    fn allowance(limits: ClientLimits) -> Arc<Allowance> {
        Arc::new(Allowance::new(limits, "ann"))
    }

    #[test]
    fn a_second_may_come_at_once_and_then_the_rate_holds() {
        let limits = ClientLimits { messages_per_second: 10, ..ClientLimits::default() };
        let all: Allowances = [allowance(limits)].into_iter().collect();
        assert!(all.charge_received(at(5000), 10, 0).is_none());
        let (_, (until, which)) = all.charge_received(at(5000), 5, 0).unwrap();
        assert_eq!((until, which), (at(5500), ClientLimit::Messages));
        assert!(all.receives_from(at(5499)).is_some());
        assert!(all.receives_from(at(5500)).is_none());
        assert!(all.charge_received(at(9000), 0, 1 << 40).is_none(), "bytes have no limit");
    }

    #[test]
    fn what_is_not_held_back_does_not_run_up_debts() {
        let limits = ClientLimits { messages_per_second: 10, ..ClientLimits::default() };
        let all: Allowances = [allowance(limits)].into_iter().collect();
        for _ in 0..10_000 {
            all.charge_received(at(9000), 1, 0);
        }
        let (_, (until, _)) = all.receives_from(at(9000)).unwrap();
        assert_eq!(until, at(14_100));
        // What comes at once is paid for as a whole.
        let (_, (until, _)) = all.charge_received(at(20_000), 1010, 0).unwrap();
        assert_eq!(until, at(120_000));
    }

    #[test]
    fn a_connection_that_finds_no_room_is_counted_nowhere() {
        let of = |connections| allowance(ClientLimits { connections, ..ClientLimits::default() });
        let (wide, narrow) = (of(3), of(1));
        let both: Allowances = [wide.clone(), narrow.clone()].into_iter().collect();
        both.admit_connection(None).unwrap();
        assert!(std::ptr::eq(both.admit_connection(None).unwrap_err(), &*narrow));
        let alone: Allowances = [wide.clone()].into_iter().collect();
        // It logs in as somebody else on its connection, which has a place here.
        let other = of(1);
        let anew: Allowances = [narrow.clone(), other.clone()].into_iter().collect();
        anew.admit_connection(Some(&both)).unwrap();
        assert!(std::ptr::eq(anew.admit_connection(Some(&both)).unwrap_err(), &*other));
        anew.dismiss_connection();
        alone.admit_connection(None).unwrap();
        alone.admit_connection(None).unwrap();
        assert!(alone.admit_connection(None).is_err());
        for _ in 0..2 {
            alone.dismiss_connection();
        }
        both.dismiss_connection();
        assert!(wide.is_idle(at(1)) && narrow.is_idle(at(1)));
    }

    #[test]
    fn the_least_of_several_limits_holds() {
        let of = |sent, backlog_bytes| {
            allowance(ClientLimits {
                sent_bytes_per_second: sent,
                backlog_bytes,
                ..ClientLimits::default()
            })
        };
        let all: Allowances =
            [of(0, 0), of(80_000, 9_000), of(1 << 30, 70_000)].into_iter().collect();
        assert_eq!((all.block_bytes(65_536), all.backlog_bytes(1 << 20)), (10_000, 9_000));
        let none: Allowances = [of(0, 0)].into_iter().collect();
        assert_eq!((none.block_bytes(65_536), none.backlog_bytes(1 << 20)), (65_536, 1 << 20));
    }

    #[test]
    fn the_log_says_it_once_a_minute() {
        let one = Allowance::new(ClientLimits::default(), "ann");
        let said = (1..300).filter(|second| one.is_news(at(second * 1000))).count();
        assert_eq!(said, 5);
    }

    proptest! {
        #[test]
        fn nobody_sends_more_than_a_second_ahead_of_the_rate(
            rate in 1u64..1000,
            steps in proptest::collection::vec((0u64..2000, 1u64..50), 1..60),
        ) {
            let limits = ClientLimits { received_bytes_per_second: rate, ..ClientLimits::default() };
            let all: Allowances = [allowance(limits)].into_iter().collect();
            let (start, mut now, mut sent, mut last) = (10_000u64, 10_000u64, 0u64, 0u64);
            for (pause, bytes) in steps {
                now += pause;
                if let Some((_, (until, _))) = all.receives_from(at(now)) {
                    now = now.max(until.as_nanos().div_ceil(1_000_000));
                }
                // What went before, without the last that may overshoot, keeps to the rate.
                let most = u128::from(rate) * u128::from(now - start + 1000) / 1000 + 1;
                prop_assert!(u128::from(sent) <= most + u128::from(last));
                all.charge_received(at(now), 0, bytes);
                sent += bytes;
                last = bytes;
            }
        }
    }
}
