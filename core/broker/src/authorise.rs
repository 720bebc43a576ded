//! The one place that decides who may do what, for every protocol.
//!
//! Rules are looked at in no particular order: an action is allowed if some rule allows it and none
//! denies it. Wildcard subscriptions are accepted when the identity may subscribe to anything at
//! all; what they then receive is decided destination by destination, so a wildcard never shows
//! more than its parts would.

use std::sync::Arc;

use tiderace_topics::{Path, Pattern};
use tiderace_wire::Kind;

/// Something an identity may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Administer the server.
    Admin,
    /// Read a queue without consuming.
    Browse,
    /// Call a service.
    Call,
    /// Create and remove destinations explicitly.
    Create,
    /// Read metrics and health in detail.
    Monitor,
    /// Publish to a topic.
    Publish,
    /// Consume from a queue.
    Receive,
    /// Send to a queue.
    Send,
    /// Answer the calls of a service.
    Serve,
    /// Subscribe to a topic.
    Subscribe,
}

impl Action {
    /// All actions with their names in the configuration.
    pub const ALL: [(&'static str, Action); 10] = [
        ("admin", Action::Admin),
        ("browse", Action::Browse),
        ("call", Action::Call),
        ("create", Action::Create),
        ("monitor", Action::Monitor),
        ("publish", Action::Publish),
        ("receive", Action::Receive),
        ("send", Action::Send),
        ("serve", Action::Serve),
        ("subscribe", Action::Subscribe),
    ];

    /// Its name in the configuration and in errors.
    pub fn name(self) -> &'static str {
        Action::ALL.iter().find(|(_, action)| *action == self).map_or("", |(name, _)| name)
    }
}

/// A set of actions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Actions(u16);

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Actions {
        Actions(actions.into_iter().fold(0, |set, action| set | 1 << action as u8))
    }
}

impl Actions {
    /// Whether the action is in the set.
    pub fn contains(self, action: Action) -> bool {
        self.0 & 1 << action as u8 != 0
    }
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The identity's name; never holds wildcards.
    pub name: Arc<str>,
    /// The groups it belongs to.
    pub groups: Arc<[Arc<str>]>,
    /// Whether nobody has vouched for the name.
    pub anonymous: bool,
}

impl Principal {
    /// A client that did not say who it is.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into(), groups: [].into(), anonymous: true }
    }
}

/// Whom a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Who {
    /// Everybody, including anonymous clients.
    All,
    /// Clients that did not say who they are.
    Anonymous,
    /// Members of a group.
    Group(Arc<str>),
    /// One identity.
    User(Arc<str>),
}

impl Who {
    fn includes(&self, principal: &Principal) -> bool {
        match self {
            Who::All => true,
            Who::Anonymous => principal.anonymous,
            Who::Group(name) => principal.groups.contains(name),
            Who::User(name) => !principal.anonymous && *name == principal.name,
        }
    }
}

/// One line of the rules.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Whether it allows or denies.
    pub allow: bool,
    /// Which actions.
    pub actions: Actions,
    /// Whose.
    pub who: Vec<Who>,
    /// Where; empty means everywhere.
    pub paths: Vec<Pattern>,
    /// On what; `None` means both.
    pub kind: Option<Kind>,
}

impl Rule {
    fn concerns(&self, principal: &Principal, action: Action) -> bool {
        self.actions.contains(action) && self.who.iter().any(|who| who.includes(principal))
    }

    fn covers(&self, kind: Kind, path: &Path) -> bool {
        self.kind.is_none_or(|own| own == kind)
            && (self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.matches(path)))
    }
}

/// All rules; without any, everything is allowed (`tiderace serve` refuses to do that in public).
#[derive(Clone, Debug, Default)]
pub struct Rules(Option<Vec<Rule>>);

impl Rules {
    /// Everything is allowed: for dev mode and tests.
    pub fn allow_all() -> Rules {
        Rules(None)
    }

    /// Only what these rules allow.
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules(Some(rules))
    }

    /// Whether the principal may do that there. A temporary destination is open to everyone who
    /// knows its name; who may consume from it is the protocol's business.
    pub fn authorise(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        path: &Path,
    ) -> bool {
        let Some(rules) = &self.0 else { return true };
        if path.levels().next() == Some("temp") && path.levels().count() > 2 {
            return !matches!(action, Action::Admin | Action::Monitor);
        }
        let mut allowed = false;
        for rule in rules {
            if rule.concerns(principal, action) && rule.covers(kind, path) {
                if !rule.allow {
                    return false;
                }
                allowed = true;
            }
        }
        allowed
    }

    /// Whether the principal may do that on everything the pattern names. Told conservatively: a
    /// rule must allow the pattern as a whole and no rule may deny the action anywhere.
    pub fn authorise_all(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        pattern: &Pattern,
    ) -> bool {
        let Some(rules) = &self.0 else { return true };
        let concerned = |rule: &&Rule| {
            rule.concerns(principal, action) && rule.kind.is_none_or(|own| own == kind)
        };
        let mut concerned = rules.iter().filter(concerned).peekable();
        concerned.peek().is_some()
            && concerned.clone().all(|rule| rule.allow)
            && concerned.any(|rule| {
                rule.paths.is_empty() || rule.paths.iter().any(|allowed| allowed.contains(pattern))
            })
    }

    /// Whether the principal may do that anywhere at all.
    pub fn authorise_somewhere(&self, principal: &Principal, action: Action) -> bool {
        let Some(rules) = &self.0 else { return true };
        rules.iter().any(|rule| rule.allow && rule.concerns(principal, action))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rule(allow: bool, actions: &[Action], who: Who, path: &str) -> Rule {
        Rule {
            allow,
            actions: actions.iter().copied().collect(),
            who: vec![who],
            paths: vec![Pattern::parse(path).unwrap()],
            kind: None,
        }
    }

    #[test]
    fn deny_wins_and_nothing_is_allowed_by_default() {
        let rules = Rules::new(vec![
            rule(
                true,
                &[Action::Publish, Action::Subscribe],
                Who::Group("traders".into()),
                "fx/**",
            ),
            rule(false, &[Action::Publish], Who::All, "fx/secret/**"),
            rule(true, &[Action::Subscribe], Who::Anonymous, "public/*"),
        ]);
        let trader =
            Principal { name: "ann".into(), groups: ["traders".into()].into(), anonymous: false };
        let rows = [
            (&trader, Action::Publish, "fx/EUR", true),
            (&trader, Action::Publish, "fx/secret/x", false),
            (&trader, Action::Subscribe, "fx/secret/x", true),
            (&trader, Action::Subscribe, "public/x", false),
            (&trader, Action::Send, "fx/EUR", false),
            (&Principal::anonymous(), Action::Subscribe, "public/x", true),
            (&Principal::anonymous(), Action::Subscribe, "public/x/y", false),
            (&Principal::anonymous(), Action::Publish, "temp/s1/reply", true),
        ];
        for (who, action, path, expected) in rows {
            let allowed = rules.authorise(who, action, Kind::Topic, &Path::parse(path).unwrap());
            assert_eq!(allowed, expected, "{} {} {path}", who.name, action.name());
        }
        assert!(rules.authorise_somewhere(&Principal::anonymous(), Action::Subscribe));
        assert!(!rules.authorise_somewhere(&Principal::anonymous(), Action::Publish));
    }

    #[test]
    fn a_login_called_anonymous_is_not_anonymous() {
        let rules = Rules::new(vec![rule(true, &[Action::Publish], Who::Anonymous, "**")]);
        let impostor = Principal { name: "anonymous".into(), groups: [].into(), anonymous: false };
        assert!(!rules.authorise(
            &impostor,
            Action::Publish,
            Kind::Topic,
            &Path::parse("a").unwrap()
        ));
    }
}
