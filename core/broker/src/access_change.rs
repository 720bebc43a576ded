//! Who may do what from now on, while sessions are there: rules, limits and the credentials that are accepted.
//!
//! Relies on nothing of a broker. Invariant: it is whole, so that nobody has new rights by old credentials.

use std::collections::HashMap;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode};

use crate::authorise::Rules;
use crate::credential_id::CredentialId;
use crate::limits::LimitRule;
use crate::principal::Principal;

/// Who comes with credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bearer {
    /// Whom the credentials themselves have named.
    Named,
    /// Somebody whom the configuration describes.
    Described {
        /// The groups.
        groups: Arc<[Arc<str>]>,
        /// The virtual host to which it is bound, or `*` for the whole tree.
        host: Option<Arc<str>>,
    },
}

/// Who may do what from now on.
#[derive(Clone, Debug, Default)]
pub struct AccessChange {
    /// Whether logins are verified.
    pub verify_logins: bool,
    /// Who may do what; absent: as before.
    pub rules: Option<Rules>,
    /// What clients may have at a time, and how fast they may send and be sent to.
    pub limits: Vec<LimitRule>,
    /// The credentials that are accepted. Sessions that have logged in with others end.
    pub credentials: HashMap<CredentialId, Bearer>,
}

/// How it stands with a session whose credentials are looked at again.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It is who it was.
    Same,
    /// It is described otherwise.
    Changed(Principal),
    /// Its credentials are not accepted any more.
    Over(Close),
}

impl AccessChange {
    /// Who logs in, if what it has shown is accepted still: it may have been verified before the change.
    ///
    /// # Errors
    /// When it is not.
    pub(crate) fn admit(&self, principal: Principal) -> Result<Principal, Close> {
        if principal.credential == CredentialId::LASTING {
            return Ok(principal);
        }
        match self.credentials.get(&principal.credential) {
            None => Err(Close::new(
                CloseCode::LoginFailed,
                "what this client has shown is not accepted any more; log in with something else",
            )),
            Some(Bearer::Named) => Ok(principal),
            Some(Bearer::Described { groups, host }) => {
                Ok(Principal { groups: groups.clone(), host: host.clone(), ..principal })
            }
        }
    }

    pub(crate) fn standing_of(&self, principal: &Principal) -> Standing {
        if principal.is_server() || principal.credential == CredentialId::LASTING {
            return Standing::Same;
        }
        match self.credentials.get(&principal.credential) {
            None => Standing::Over(Close::new(
                CloseCode::LoginExpired,
                "what this client has logged in with is not accepted any more; log in again",
            )),
            Some(Bearer::Named) => Standing::Same,
            Some(Bearer::Described { groups, host }) => {
                let is_elsewhere = match host.as_deref() {
                    None => false,
                    Some("*") => principal.host.is_some(),
                    Some(_) => *host != principal.host,
                };
                if is_elsewhere {
                    let reason = "this client belongs to another virtual host now; connect again";
                    return Standing::Over(Close::new(CloseCode::LoginExpired, reason));
                }
                if *groups == principal.groups {
                    return Standing::Same;
                }
                Standing::Changed(Principal { groups: groups.clone(), ..principal.clone() })
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const ANN: CredentialId = CredentialId(CredentialId::VERIFIED_FROM);

    fn ann(groups: &[&str], host: Option<&str>) -> Principal {
        let groups = groups.iter().map(|group| Arc::from(*group)).collect();
        Principal { groups, host: host.map(Arc::from), credential: ANN, ..Principal::named("ann") }
    }

    fn known(groups: &[&str], host: Option<&str>) -> AccessChange {
        let groups = groups.iter().map(|group| Arc::from(*group)).collect();
        let bearer = Bearer::Described { groups, host: host.map(Arc::from) };
        AccessChange { credentials: [(ANN, bearer)].into(), ..AccessChange::default() }
    }

    #[test]
    fn who_is_still_known_goes_on() {
        let same = |change: &AccessChange, who: &Principal| {
            matches!(change.standing_of(who), Standing::Same)
        };
        assert!(same(&known(&["a"], None), &ann(&["a"], None)));
        assert!(same(&known(&["a"], None), &ann(&["a"], Some("shop"))), "bound to none");
        assert!(same(&known(&["a"], Some("shop")), &ann(&["a"], Some("shop"))));
        assert!(same(&known(&["a"], Some("*")), &ann(&["a"], None)));
        assert!(same(&AccessChange::default(), &Principal::server()));
        assert!(same(&AccessChange::default(), &Principal::named("signed elsewhere")));
    }

    #[test]
    fn a_login_that_was_verified_before_the_change_is_held_to_it() {
        let before = ann(&["a"], Some("shop"));
        let after = known(&["b"], Some("club")).admit(before.clone()).unwrap();
        assert_eq!(after, ann(&["b"], Some("club")));
        let refused = AccessChange::default().admit(before).unwrap_err();
        assert_eq!(refused.code, CloseCode::LoginFailed);
        let elsewhere = Principal::named("signed elsewhere");
        assert_eq!(AccessChange::default().admit(elsewhere.clone()), Ok(elsewhere));
    }

    #[test]
    fn who_is_described_otherwise_changes_or_ends() {
        let Standing::Changed(after) = known(&["b"], None).standing_of(&ann(&["a"], None)) else {
            panic!("its groups are others")
        };
        assert_eq!(after, ann(&["b"], None));
        for (change, who) in [
            (AccessChange::default(), ann(&["a"], None)),
            (known(&["a"], Some("shop")), ann(&["a"], None)),
            (known(&["a"], Some("*")), ann(&["a"], Some("shop"))),
            (known(&["a"], Some("club")), ann(&["a"], Some("shop"))),
        ] {
            let Standing::Over(close) = change.standing_of(&who) else { panic!("{who:?}") };
            assert_eq!(close.code, CloseCode::LoginExpired);
        }
    }
}
