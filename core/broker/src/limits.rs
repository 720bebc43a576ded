//! Which limits apply to whom, and what they mean to a session: subscriptions, and bytes that wait.
//!
//! How fast a client sends and is written to, and how many connections it has, is the event loop's business; both are
//! told by the same [`Allowances`]. Invariant: of the limits that count in the same way the first applies that names the
//! client, so an exception stands before what holds for all.

use tiderace_base::{Allowance, Allowances, ClientLimits, Close, CloseCode};

use crate::principal::Principal;
use crate::rule::Who;

/// Who shares what a limit allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitPer {
    /// All sessions of one identity; of clients without a name, those from one address.
    User,
    /// All sessions from one address; of IPv6, from one network of 64 bits.
    Address,
    /// All to whom it applies.
    All,
}

impl LimitPer {
    const ALL: [LimitPer; 3] = [LimitPer::User, LimitPer::Address, LimitPer::All];
}

/// What some clients may have.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LimitRule {
    /// Which clients.
    pub who: Vec<Who>,
    /// Which of them share it.
    pub per: LimitPer,
    /// How much.
    pub limits: ClientLimits,
}

/// The limits that apply to a client; the first of each kind.
pub(crate) fn limits_of<'a>(
    limits: &'a [LimitRule],
    principal: &'a Principal,
) -> impl Iterator<Item = &'a LimitRule> {
    LimitPer::ALL.into_iter().filter_map(move |per| {
        let mut rules = limits.iter().filter(move |it| it.per == per);
        rules.find(|rule| rule.who.iter().any(|who| who.includes(principal)))
    })
}

/// Bytes that any session may have waiting, whatever limits it; `most` is what one without limits may.
pub(crate) fn least_mark(limits: &[LimitRule], most: usize) -> usize {
    let own = limits.iter().map(|rule| rule.limits.backlog_bytes).filter(|it| *it > 0);
    own.min().map_or(most, |least| least.min(most))
}

/// Whether what limits a session leaves room for another subscription.
pub(crate) fn check_allowances(allowances: Option<&Allowances>) -> Result<(), Close> {
    let Some(Err(full)) = allowances.map(Allowances::check_subscription) else { return Ok(()) };
    Err(too_many_subscriptions(full))
}

#[cold]
fn too_many_subscriptions(full: &Allowance) -> Close {
    let reason = format!(
        "{} may have {} subscriptions in all sessions together (`limit.subscriptions_max`); use wildcards or end some first",
        full.who(),
        full.limits().subscriptions
    );
    Close::new(CloseCode::TooManySubscriptions, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_names_a_client_applies_of_each_kind() {
        let rule =
            |who: Who, per| LimitRule { who: vec![who], per, limits: ClientLimits::default() };
        let group = || Who::Group("free".into());
        let limits = vec![
            rule(Who::User("eve".into()), LimitPer::User),
            rule(group(), LimitPer::User),
            rule(Who::All, LimitPer::User),
            rule(group(), LimitPer::All),
            rule(Who::Anonymous, LimitPer::Address),
        ];
        let of = |principal: &Principal| -> Vec<usize> {
            let place = |rule: &LimitRule| limits.iter().position(|known| known == rule).unwrap();
            limits_of(&limits, principal).map(place).collect()
        };
        let free =
            |name: &str| Principal { groups: ["free".into()].into(), ..Principal::named(name) };
        assert_eq!(of(&free("eve")), [0, 3]);
        assert_eq!(of(&free("ann")), [1, 3]);
        assert_eq!(of(&Principal::named("bob")), [2]);
        assert_eq!(of(&Principal::anonymous()), [2, 4]);
    }
}
