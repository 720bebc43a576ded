//! The one place that decides who may do what, for every protocol.
//!
//! Rules are looked at in no particular order: an action is allowed if some rule allows it and none
//! denies it. Wildcard subscriptions are accepted when the identity may subscribe to anything at
//! all; what they then receive is decided destination by destination, so a wildcard never shows
//! more than its parts would.
//!
//! Paths below `user/<name>` and `group/<name>` are private: whatever the rules allow, only that
//! principal or a member of that group listens there. They need no rule for it, but one may deny it.
//! Publishing, sending and calling go by the rules there as everywhere. What the server says below
//! `$sys/presence/` and `$sys/missing/` of a private path is as private, and who may not subscribe to a
//! topic does not see who does.
//!
//! A rule that allows something on `**` says nothing of paths that begin with `$`, as wildcards do not
//! name them; one that denies it does.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::{Level, Path, Pattern};
use tiderace_wire::{Kind, host_of, is_temporary, within_host};

/// Something an identity may be allowed to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Action {
    /// Administer the server.
    Admin,
    /// List sessions, queues and services, and how they fare.
    Browse,
    /// Call a service.
    Call,
    /// Create and remove destinations explicitly.
    Create,
    /// Purge a queue, move its messages to others, pause it.
    Manage,
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
    pub const ALL: [(&'static str, Action); 11] = [
        ("admin", Action::Admin),
        ("browse", Action::Browse),
        ("call", Action::Call),
        ("create", Action::Create),
        ("manage", Action::Manage),
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

impl Action {
    /// Whether it shows, or takes away, what others have sent there.
    fn listens(self) -> bool {
        matches!(
            self,
            Action::Browse | Action::Manage | Action::Receive | Action::Serve | Action::Subscribe
        )
    }
}

/// Who a client is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The identity's name; never holds wildcards.
    pub name: Arc<str>,
    /// The groups it belongs to.
    pub groups: Arc<[Arc<str>]>,
    /// Whether the name is not authenticated.
    pub anonymous: bool,
    /// Before the login: the virtual host to which it is bound, or `*` for the whole tree whatever its client names.
    /// From then on: the host that it is in.
    pub host: Option<Arc<str>>,
}

impl Principal {
    /// A client that did not say who it is.
    pub fn anonymous() -> Principal {
        Principal { name: "anonymous".into(), groups: [].into(), anonymous: true, host: None }
    }

    /// Whether what begins with these levels is its own; `None` if it is nobody's.
    fn owns(&self, kind: Option<&str>, name: Option<&str>) -> Option<bool> {
        match (kind, name) {
            (Some("user"), Some(name)) => Some(!self.anonymous && *self.name == *name),
            (Some("group"), Some(name)) => {
                Some(!self.anonymous && self.groups.iter().any(|group| **group == *name))
            }
            _ => None,
        }
    }

    /// Whether the path is private to others.
    pub(crate) fn is_kept_from(&self, path: &Path) -> bool {
        self.owns_path(path) == Some(false)
    }

    fn owns_path(&self, path: &Path) -> Option<bool> {
        let mut levels = within_host(subject_of(path.as_str())).split('/');
        self.owns(levels.next(), levels.next())
    }

    /// Of a pattern whose first two levels are no wildcards; any other reaches nothing private.
    fn owns_pattern(&self, pattern: &Pattern) -> Option<bool> {
        let mut levels = pattern.levels().iter().map(|level| match level {
            Level::Literal(text) => Some(&**text),
            _ => None,
        });
        let mut about = levels.clone();
        if about.next() == Some(Some("$sys"))
            && matches!(about.next(), Some(Some("presence" | "missing")))
        {
            levels = about;
        }
        let mut of_host = levels.clone();
        if of_host.next().flatten().is_some_and(|level| level.starts_with('@')) {
            levels = of_host;
        }
        self.owns(levels.next().flatten(), levels.next().flatten())
    }

    /// The server itself, which no rule holds back. Nobody else can have the name: names hold no
    /// wildcards.
    pub fn server() -> Principal {
        Principal { name: "*".into(), groups: [].into(), anonymous: false, host: None }
    }

    /// Whether it may be the owner of what is at a path: owners are those of that name in the virtual host of the path.
    pub(crate) fn may_own_at(&self, path: &Path) -> bool {
        !self.anonymous && self.host.as_deref() == host_of(path)
    }

    /// Its name where those of one name in several virtual hosts are counted apart.
    pub(crate) fn whole_name(&self) -> Arc<str> {
        match &self.host {
            None => self.name.clone(),
            Some(host) => ["@", host, "/", &self.name].concat().into(),
        }
    }

    pub(crate) fn is_server(&self) -> bool {
        &*self.name == "*"
    }
}

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The session.
    pub(crate) session: SessionId,
    /// Who it is logged in as.
    pub(crate) principal: &'a Principal,
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
        let named = |pattern: &Pattern| match self.allow {
            true => pattern.matches(path),
            false => pattern.fits(path),
        };
        self.kind.is_none_or(|own| own == kind)
            && (self.paths.is_empty() || self.paths.iter().any(named))
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

    /// Whether the principal may do that there. Of temporary destinations, which belong to sessions,
    /// the rules allow nothing.
    pub fn authorise(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        path: &Path,
    ) -> bool {
        let own = if action.listens() { principal.owns_path(path) } else { None };
        if own == Some(false) {
            return false;
        }
        if is_temporary(path) && !principal.is_server() {
            return false;
        }
        let Some(rules) = &self.0 else { return true };
        if principal.is_server() {
            return true;
        }
        let mut allowed = own == Some(true);
        for rule in rules {
            if rule.concerns(principal, action) && rule.covers(kind, path) {
                if !rule.allow {
                    return false;
                }
                allowed = true;
            }
        }
        allowed && self.sees_subject(principal, action, kind, path)
    }

    /// Whether the principal may listen to the topic whose subscribers are shown there, if they are.
    fn sees_subject(&self, principal: &Principal, action: Action, kind: Kind, path: &Path) -> bool {
        if !action.listens() || kind != Kind::Topic || !path.as_str().starts_with(PRESENCE) {
            return true;
        }
        let subject = Path::parse(subject_of(path.as_str()));
        subject.is_ok_and(|subject| {
            subject == *path || self.authorise(principal, action, kind, &subject)
        })
    }

    /// Whether the principal may do that on everything the pattern names. Told conservatively: a
    /// rule must allow the pattern as a whole, and no rule that denies the action may concern anything of it.
    pub fn authorise_all(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        pattern: &Pattern,
    ) -> bool {
        let own = if action.listens() { principal.owns_pattern(pattern) } else { None };
        if own == Some(false) {
            return false;
        }
        let Some(rules) = &self.0 else { return true };
        let concerned = |rule: &&Rule| {
            rule.concerns(principal, action) && rule.kind.is_none_or(|own| own == kind)
        };
        let concerned = rules.iter().filter(concerned);
        let meets = |rule: &Rule| {
            rule.paths.is_empty() || rule.paths.iter().any(|denied| denied.overlaps(pattern))
        };
        concerned.clone().all(|rule| rule.allow || !meets(rule))
            && (own == Some(true)
                || concerned.filter(|rule| rule.allow).any(|rule| {
                    rule.paths.is_empty()
                        || rule.paths.iter().any(|allowed| allowed.contains(pattern))
                }))
    }

    /// Whether some rule lets the principal do that on any path of that kind.
    pub fn authorise_anywhere(&self, principal: &Principal, action: Action, kind: Kind) -> bool {
        let Some(rules) = &self.0 else { return true };
        principal.is_server()
            || rules.iter().any(|rule| {
                let of_kind = rule.kind.is_none_or(|own| own == kind);
                rule.allow && of_kind && rule.concerns(principal, action)
            })
    }

    /// Whether the principal may do that on anything at all that the pattern names, as far as can be
    /// told without looking destination by destination.
    pub fn authorise_somewhere(
        &self,
        principal: &Principal,
        action: Action,
        pattern: &Pattern,
    ) -> bool {
        let own = if action.listens() { principal.owns_pattern(pattern) } else { None };
        own.unwrap_or_else(|| {
            let Some(rules) = &self.0 else { return true };
            rules.iter().any(|rule| rule.allow && rule.concerns(principal, action))
        })
    }
}

/// The sentence for a refused action.
pub(crate) fn denied(name: &str, action: Action, kind: Kind, path: &str) -> Close {
    let (action, kind) = (action.name(), kind.name());
    Close::new(
        CloseCode::NotAuthorised,
        format!(
            "{name} may not {action} on {kind} {path}; ask an administrator for a rule that allows it"
        ),
    )
}

/// Whether the path is below `$sys`, where the server alone publishes.
pub(crate) fn is_reserved(path: &Path) -> bool {
    path.as_str().strip_prefix("$sys").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Below this the server says who subscribes to a topic, and below that of whom nobody knows it.
pub(crate) const PRESENCE: &str = "$sys/presence/";
pub(crate) const MISSING: &str = "$sys/missing/";

/// The path that a path speaks of: mostly itself.
fn subject_of(path: &str) -> &str {
    let present = path.strip_prefix(PRESENCE).and_then(|rest| rest.rsplit_once('/'));
    present.map(|(subject, _)| subject).or(path.strip_prefix(MISSING)).unwrap_or(path)
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
        let trader = Principal {
            name: "ann".into(),
            groups: ["traders".into()].into(),
            anonymous: false,
            host: None,
        };
        let rows = [
            (&trader, Action::Publish, "fx/EUR", true),
            (&trader, Action::Publish, "fx/secret/x", false),
            (&trader, Action::Subscribe, "fx/secret/x", true),
            (&trader, Action::Subscribe, "public/x", false),
            (&trader, Action::Send, "fx/EUR", false),
            (&Principal::anonymous(), Action::Subscribe, "public/x", true),
            (&Principal::anonymous(), Action::Subscribe, "public/x/y", false),
            (&Principal::anonymous(), Action::Publish, "temp/s1/reply", false),
        ];
        for (who, action, path, expected) in rows {
            let allowed = rules.authorise(who, action, Kind::Topic, &Path::parse(path).unwrap());
            assert_eq!(allowed, expected, "{} {} {path}", who.name, action.name());
        }
        let all = Pattern::parse("**").unwrap();
        assert!(rules.authorise_somewhere(&Principal::anonymous(), Action::Subscribe, &all));
        assert!(!rules.authorise_somewhere(&Principal::anonymous(), Action::Publish, &all));
    }

    #[test]
    fn a_login_called_anonymous_is_not_anonymous() {
        let rules = Rules::new(vec![rule(true, &[Action::Publish], Who::Anonymous, "**")]);
        let impostor =
            Principal { name: "anonymous".into(), groups: [].into(), anonymous: false, host: None };
        assert!(!rules.authorise(
            &impostor,
            Action::Publish,
            Kind::Topic,
            &Path::parse("a").unwrap()
        ));
    }
    #[test]
    fn private_paths_are_for_their_owners_only() {
        use Action::{Browse, Call, Manage, Publish, Receive, Send, Serve, Subscribe};
        let listening = [Browse, Manage, Receive, Serve, Subscribe];
        let speaking = [Call, Publish, Send];
        let every: Vec<Action> = listening.into_iter().chain(speaking).collect();
        let principal = |name: &str, groups: &[&str], anonymous| Principal {
            name: name.into(),
            groups: groups.iter().map(|group| Arc::from(*group)).collect(),
            anonymous,
            host: None,
        };
        let ann = principal("ann", &["ops"], false);
        let bob = principal("bob", &["sales"], false);
        let nobody = principal("ann", &["ops"], true);
        let open = Rules::allow_all();
        let generous = Rules::new(vec![rule(true, &every, Who::All, "**")]);
        let silent = Rules::new(Vec::new());
        let strict = Rules::new(vec![
            rule(true, &every, Who::All, "**"),
            rule(false, &every, Who::User("ann".into()), "user/ann/locked/**"),
        ]);
        let watchful = Rules::new(vec![
            rule(true, &listening, Who::All, "$sys/**"),
            rule(true, &listening, Who::All, "fx/**"),
            rule(false, &listening, Who::User("bob".into()), "*/sessions/**"),
        ]);
        // Rules, who, path, may listen, may speak.
        let rows = [
            (&open, &ann, "user/ann/inbox", true, true),
            (&open, &ann, "user/ann", true, true),
            (&open, &ann, "user", true, true),
            (&open, &bob, "user/ann/inbox", false, true),
            (&open, &nobody, "user/ann/inbox", false, true),
            (&open, &ann, "group/ops/chat", true, true),
            (&open, &bob, "group/ops/chat", false, true),
            (&open, &nobody, "group/ops/chat", false, true),
            (&generous, &ann, "user/ann/inbox", true, true),
            (&generous, &bob, "user/ann/inbox", false, true),
            (&generous, &bob, "group/sales", true, true),
            (&generous, &ann, "group/sales", false, true),
            (&silent, &ann, "user/ann/inbox", true, false),
            (&silent, &ann, "group/ops/chat", true, false),
            (&silent, &ann, "user", false, false),
            (&silent, &bob, "user/ann/inbox", false, false),
            (&strict, &ann, "user/ann/inbox", true, true),
            (&strict, &ann, "user/ann/locked/a", false, false),
            (&strict, &bob, "user/ann/locked/a", false, true),
            (&open, &ann, "$sys/presence/user/ann/inbox/s0-1-1", true, true),
            (&open, &bob, "$sys/presence/user/ann/inbox/s0-1-1", false, true),
            (&open, &bob, "$sys/presence/user/ann/s0-1-1", false, true),
            (&open, &bob, "$sys/presence/user/s0-1-1", true, true),
            (&open, &nobody, "$sys/missing/user/ann/inbox", false, true),
            (&open, &bob, "$sys/missing/fx", true, true),
            (&generous, &ann, "$sys/sessions/s0-1-1", false, false),
            (&watchful, &ann, "$sys/sessions/s0-1-1", true, false),
            (&watchful, &ann, "$sys/presence/fx/s0-1-1", true, false),
            (&watchful, &ann, "$sys/presence/gold/s0-1-1", false, false),
            (&watchful, &bob, "$sys/presence/user/ann/s0-1-1", false, false),
            (&watchful, &ann, "$sys/presence/user/ann/s0-1-1", true, false),
            (&watchful, &bob, "$sys/sessions/s0-1-1", false, false),
        ];
        for (rules, who, path, listens, speaks) in rows {
            let path = Path::parse(path).unwrap();
            let may = |action| rules.authorise(who, action, Kind::Topic, &path);
            for (actions, expected) in [(&listening[..], listens), (&speaking[..], speaks)] {
                for action in actions {
                    assert_eq!(may(*action), expected, "{who:?} {} {path}", action.name());
                }
            }
        }
        // Rules, who, pattern, may take all of it, may see some of it.
        let rows = [
            (&open, &ann, "user/ann/**", true, true),
            (&open, &bob, "user/ann/**", false, false),
            (&open, &nobody, "user/ann/**", false, false),
            (&open, &bob, "user/*/x", true, true),
            (&silent, &ann, "user/ann/**", true, true),
            (&silent, &ann, "group/ops/*", true, true),
            (&silent, &ann, "user/**", false, false),
            (&generous, &bob, "user/ann/*", false, false),
            (&generous, &bob, "**", true, true),
            (&strict, &ann, "user/ann/**", false, true),
            (&strict, &ann, "fx/**", true, true),
            (&strict, &ann, "**", false, true),
            (&open, &bob, "$sys/presence/user/ann/**", false, false),
            (&open, &ann, "$sys/presence/user/ann/**", true, true),
            (&open, &bob, "$sys/missing/user/ann/*", false, false),
            (&open, &bob, "$sys/**", true, true),
            (&generous, &bob, "$sys/**", false, true),
        ];
        for (rules, who, pattern, all, some) in rows {
            let pattern = Pattern::parse(pattern).unwrap();
            let takes = rules.authorise_all(who, Action::Serve, Kind::Service, &pattern);
            let sees = rules.authorise_somewhere(who, Action::Subscribe, &pattern);
            assert_eq!((takes, sees), (all, some), "{who:?} {pattern:?}");
        }
    }
}
