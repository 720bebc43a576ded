//! Who has what of which limit, on all shards: looked up when a client logs in, and never for a message.
//!
//! Relies on the broker for which limits apply to whom. Invariants: those who share a limit share one allowance, also
//! those who come back after all were gone, as long as what they have sent before is not paid for; of those that are
//! idle few more are kept than of those in use.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use tiderace_base::{Allowance, Allowances, ClientLimits, Time};
use tiderace_broker::{BrokerOptions, LimitPer, LimitRule, Principal, Who};

/// The allowances of all clients that have some.
#[derive(Debug, Default)]
pub(crate) struct LimitRegistry(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// By what the limit says, whatever its place among others is, and who shares it.
    allowances: HashMap<(u64, Holder), Arc<Allowance>>,
    /// Tells limits apart.
    marks: RandomState,
    /// How many there may be before those that are idle are forgotten.
    sweep_at: usize,
}

/// Those who share a limit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Holder {
    User(Box<str>),
    Address(IpAddr),
    All,
}

impl LimitRegistry {
    /// What limits a client of that address, if something does.
    pub(crate) fn of(
        &self,
        now: Time,
        options: &BrokerOptions,
        principal: &Principal,
        address: IpAddr,
    ) -> Option<Allowances> {
        let limits = options.limits_of(principal);
        let mut limits = limits.filter(|rule| rule.limits != ClientLimits::default()).peekable();
        limits.peek()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.sweep(now);
        let each = limits.map(|rule| {
            let holder = Holder::of(rule.per, principal, address);
            let who = holder.name(rule);
            let new = || Arc::new(Allowance::new(rule.limits, who));
            let mark = known.marks.hash_one(rule);
            known.allowances.entry((mark, holder)).or_insert_with(new).clone()
        });
        Some(each.collect())
    }
}

impl Known {
    fn sweep(&mut self, now: Time) {
        if self.allowances.len() < self.sweep_at.max(KEPT_MIN) {
            return;
        }
        self.allowances.retain(|_, it| Arc::strong_count(it) > 1 || !it.is_idle(now));
        self.sweep_at = 2 * self.allowances.len();
    }
}

impl Holder {
    fn of(per: LimitPer, principal: &Principal, address: IpAddr) -> Holder {
        match per {
            LimitPer::User if !principal.anonymous => Holder::User(match &principal.host {
                None => (*principal.name).into(),
                // Another one than the user of that name in another virtual host.
                Some(host) => ["@", host, "/", &principal.name].concat().into(),
            }),
            LimitPer::User | LimitPer::Address => Holder::Address(network_of(address)),
            LimitPer::All => Holder::All,
        }
    }

    /// For people.
    fn name(&self, rule: &LimitRule) -> String {
        match self {
            Holder::User(name) => name.to_string(),
            Holder::Address(address) => format!("clients at {address}"),
            Holder::All => {
                let names = rule.who.iter().map(|who| match who {
                    Who::All => "*".to_owned(),
                    Who::Anonymous => "anonymous".to_owned(),
                    Who::Group(name) => format!("group:{name}"),
                    Who::User(name) => format!("user:{name}"),
                });
                format!("all of {} together", names.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

/// What one client can have as many addresses of as it likes counts as one.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// So many are kept without a look at which of them are idle.
const KEPT_MIN: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn options(per: LimitPer) -> BrokerOptions {
        let limits = ClientLimits { messages_per_second: 10, ..ClientLimits::default() };
        let rule = LimitRule { who: vec![Who::All], per, limits };
        BrokerOptions { limits: vec![rule], ..BrokerOptions::default() }
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn those_who_share_a_limit_share_an_allowance() {
        let (ann, nobody) = (Principal::named("ann"), Principal::anonymous());
        let (near, far) = (address("192.0.2.1"), address("192.0.2.2"));
        let (net, same_net) = (address("2001:db8::1"), address("2001:db8::2"));
        for (per, first, second, shared) in [
            (LimitPer::User, (&ann, near), (&ann, far), true),
            (LimitPer::User, (&ann, near), (&nobody, near), false),
            (LimitPer::User, (&nobody, near), (&nobody, far), false),
            (LimitPer::User, (&nobody, net), (&nobody, same_net), true),
            (LimitPer::Address, (&ann, near), (&nobody, near), true),
            (LimitPer::Address, (&ann, near), (&ann, far), false),
            (LimitPer::All, (&ann, near), (&nobody, far), true),
        ] {
            let (registry, options) = (LimitRegistry::default(), options(per));
            let of = |(who, at): (&Principal, IpAddr)| {
                registry.of(Time::ZERO, &options, who, at).unwrap()
            };
            assert_eq!(of(first) == of(second), shared, "{per:?} {first:?} {second:?}");
        }
        let none = BrokerOptions::default();
        assert!(LimitRegistry::default().of(Time::ZERO, &none, &ann, near).is_none());
    }

    #[test]
    fn a_client_that_comes_back_finds_what_it_has_not_paid_for_and_idle_ones_are_forgotten() {
        let (registry, options) = (LimitRegistry::default(), options(LimitPer::User));
        let near = address("192.0.2.1");
        let now = |second: u64| Time::from_nanos(second * 1_000_000_000);
        let of = |second, name: &str| {
            registry.of(now(second), &options, &Principal::named(name), near).unwrap()
        };
        of(10, "eve").charge_received(now(10), 10_000, 0);
        for number in 0..3 * KEPT_MIN {
            of(20, &format!("user-{number}"));
        }
        let kept = registry.0.lock().unwrap().allowances.len();
        assert!(kept <= KEPT_MIN, "{kept}");
        assert!(of(20, "eve").receives_from(now(20)).is_some());
    }
}
