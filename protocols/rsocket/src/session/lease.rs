//! Leases: how many requests each side may begin, where SETUP asked for that.
//!
//! Relies on time passed in. Invariants: a client that asked for leases has one as soon as it is logged
//! in, and the next when half of the time of the last one has passed; what it began by the last one while the next
//! was on its way counts by the last one. What the server gave is replaced and does not run out: a request may have
//! lain in the socket while the server had no time for it. So an honest client is never refused.

use tiderace_base::{Span, Time};

use crate::frame::{Lease as LeaseFrame, NUMBER_MAX};
use crate::options::Lease;

/// The leases of both sides.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// How many requests the client may begin.
    given: u32,
    /// What was left of the lease before when that was given: requests by it may be on their way.
    before: u32,
    /// When the next one is due.
    renew: Time,
    /// What the server may begin.
    got: Grant,
}

/// How many requests, until when.
#[derive(Clone, Copy, Debug, Default)]
struct Grant {
    left: u32,
    until: Time,
}

impl Grant {
    fn take(&mut self, now: Time) -> bool {
        if self.left == 0 || self.until <= now {
            return false;
        }
        self.left -= 1;
        true
    }
}

impl Leases {
    /// Whether the client may begin a request; counts it.
    pub(super) fn take(&mut self) -> bool {
        let left = if self.before > 0 { &mut self.before } else { &mut self.given };
        let is_allowed = *left > 0;
        *left = left.saturating_sub(1);
        is_allowed
    }

    /// The next lease.
    fn give(&mut self, now: Time, requests: u32, ttl: Span) {
        self.before = self.given;
        self.given = requests;
        self.renew = now + ttl / 2;
    }

    /// The next lease, of that size: what to tell the client.
    pub(super) fn offer(&mut self, now: Time, offer: Lease) -> LeaseFrame<'static> {
        self.give(now, offer.requests, offer.ttl);
        let ttl_ms = u32::try_from(offer.ttl.as_millis()).unwrap_or(NUMBER_MAX).min(NUMBER_MAX);
        LeaseFrame { ttl_ms, requests: offer.requests, metadata: None }
    }

    /// The client gives the server a lease.
    pub(super) fn accept(&mut self, now: Time, lease: &LeaseFrame<'_>) {
        let ttl = Span::from_millis(u64::from(lease.ttl_ms));
        self.got = Grant { left: lease.requests, until: now + ttl };
    }

    /// Whether the server may; counts it.
    pub(super) fn spend(&mut self, now: Time) -> bool {
        self.got.take(now)
    }

    /// When the next one is due.
    pub(super) fn renew_at(&self) -> Time {
        self.renew
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_its_way_counts_by_the_lease_before() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let taken = |leases: &mut Leases| (0..100).filter(|_| leases.take()).count();
        let mut leases = Leases::default();
        assert_eq!(taken(&mut leases), 0);
        leases.give(at(0), 20, Span::from_millis(1000));
        assert!(leases.take());
        leases.give(at(500), 20, Span::from_millis(1000));
        assert_eq!(taken(&mut leases), 39, "of both");
        assert_eq!(taken(&mut leases), 0);
        for begun in [1000, 1500, 2000] {
            leases.give(at(begun), 20, Span::from_millis(1000));
        }
        assert_eq!(leases.renew_at(), at(2500));
        assert_eq!(taken(&mut leases), 40, "those before the last two are over");
    }
}
