//! The rules that held before, as far as they are remembered.
//!
//! Who comes back has not been given what was hidden from it until rules changed, though its position may be behind that:
//! a home asks since which rules it may see what it may see now. Bookkeeping only. Invariant: changes that are forgotten
//! count for everybody.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::{BrokerOptions, Principal};

/// Changes that are remembered.
const CHANGES_MAX: usize = 8;

/// The rules before each of the last changes.
#[derive(Debug, Default)]
pub(crate) struct PastRules {
    /// What held, with the version of the rules that came after it.
    changes: VecDeque<(u32, Arc<BrokerOptions>)>,
    /// The newest version of which it is not known any more what held before.
    forgotten: u32,
}

impl PastRules {
    /// Other rules hold, which have this version.
    pub(crate) fn note(&mut self, version: u32, before: Arc<BrokerOptions>) {
        if self.changes.len() == CHANGES_MAX
            && let Some((oldest, _)) = self.changes.pop_front()
        {
            self.forgotten = oldest;
        }
        self.changes.push_back((version, before));
    }

    /// Since which version of the rules somebody may subscribe to what it may subscribe to now; zero: always.
    pub(crate) fn same_since(&self, principal: &Principal, now: &BrokerOptions) -> u32 {
        let differ = |(_, before): &&(u32, Arc<BrokerOptions>)| {
            !now.rules.show_the_same(&before.rules, principal)
        };
        let newest = self.changes.iter().rev().find(differ);
        newest.map_or(self.forgotten, |(version, _)| *version)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_topics::Pattern;

    use super::*;
    use crate::{Action, Rule, Rules, Who};

    fn options(rules: &[(&str, &str)]) -> Arc<BrokerOptions> {
        let rule = |(user, path): &(&str, &str)| Rule {
            allow: true,
            actions: [Action::Subscribe].into_iter().collect(),
            who: vec![Who::User(Arc::from(*user))],
            paths: vec![Pattern::parse(path).unwrap()],
            kind: None,
        };
        let rules = Rules::new(rules.iter().map(rule).collect());
        Arc::new(BrokerOptions { rules, ..BrokerOptions::default() })
    }

    #[test]
    fn a_change_concerns_those_alone_who_may_see_something_else() {
        let (ann, bob) = (Principal::named("ann"), Principal::named("bob"));
        let (first, second) = (options(&[("ann", "a")]), options(&[("ann", "a"), ("bob", "b")]));
        let third = options(&[("ann", "a/**"), ("bob", "b")]);
        let mut past = PastRules::default();
        assert_eq!(past.same_since(&ann, &first), 0);
        past.note(1, first);
        assert_eq!((past.same_since(&ann, &second), past.same_since(&bob, &second)), (0, 1));
        past.note(2, second);
        assert_eq!((past.same_since(&ann, &third), past.same_since(&bob, &third)), (2, 1));
    }

    #[test]
    fn what_is_forgotten_counts_for_everybody() {
        let (ann, same) = (Principal::named("ann"), options(&[("ann", "a")]));
        let mut past = PastRules::default();
        for version in 1..=CHANGES_MAX as u32 {
            past.note(version, same.clone());
        }
        assert_eq!(past.same_since(&ann, &same), 0);
        past.note(100, same.clone());
        assert_eq!(past.same_since(&ann, &same), 1);
    }
}
