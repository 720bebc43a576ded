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
//! topic does not see who does. So is what a trace tells below `$sys/trace/` of a private path.
//!
//! Of a principal of another node, which passes on what it asks for, that node has to have the right `relay` there besides:
//! every function here asks for both.
//!
//! Who has come by the admin socket and need not log in may what the role of admins may, whatever the rules say, and what these allow
//! him besides. Where a session has come by a way that is for clients alone, nobody has the rights by which the node is looked after.
//!
//! A rule that allows something on `**` says nothing of paths that begin with `$`, as wildcards do not
//! name them; one that denies it does.

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_manage::Role;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Entrance, Kind, is_temporary};

use crate::action::Action;
use crate::implied::{Implied, implying};
use crate::managed_elsewhere::managed_elsewhere;
use crate::placeholders::RulePath;
use crate::principal::{PRESENCE, Principal, subject_of};
use crate::rule::{Rule, Who};

/// Who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caller<'a> {
    /// The session.
    pub(crate) session: SessionId,
    /// Who it is logged in as.
    pub(crate) principal: &'a Principal,
}

/// A rule and its paths, ready to be compared.
#[derive(Clone, Debug)]
struct Ready {
    /// The place, in the configuration, of the rule that it stands for. Nobody is told that of an admin of the socket.
    number: usize,
    rule: Rule,
    places: Box<[RulePath]>,
}

impl Ready {
    fn new((number, rule): (usize, Rule)) -> Ready {
        Ready { number, places: rule.paths.iter().map(RulePath::new).collect(), rule }
    }

    fn covers(&self, principal: &Principal, kind: Kind, path: &Path) -> bool {
        let Ready { rule, places, .. } = self;
        rule.kind.is_none_or(|own| own == kind)
            && (places.is_empty()
                || places.iter().any(|place| place.covers(rule.allow, principal, path)))
    }
}

/// Why somebody may do something, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// There are no rules: everything is allowed.
    NoRules,
    /// The server itself may do everything.
    Server,
    /// It has come by the admin socket, and may what the role of admins may.
    Local,
    /// It has come by a way where nobody looks after the node.
    Elsewhere,
    /// Nobody but the server publishes below `$sys`.
    Reserved,
    /// A temporary destination belongs to the session that made it, whatever the rules say.
    Temporary,
    /// It is below `user/NAME` or `group/NAME` and kept from everybody else.
    Private,
    /// It is below `user/NAME` or `group/NAME`, and the client's own.
    Own,
    /// A rule decides, given by its number from 0: one that denies, or else the first that allows.
    Rule {
        /// Which.
        number: usize,
        /// Whether it allows.
        allows: bool,
    },
    /// A rule allows it; but who subscribes to a topic is shown to those alone who may subscribe to it themselves.
    Subject(Path),
    /// No rule allows it.
    Nothing,
}

impl Decision {
    /// Whether it may.
    pub fn is_allowed(&self) -> bool {
        matches!(
            self,
            Decision::NoRules
                | Decision::Server
                | Decision::Local
                | Decision::Own
                | Decision::Rule { allows: true, .. }
        )
    }
}

/// All rules; without any, everything is allowed (`tiderace serve` refuses to do that in public).
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Those of the configuration, in its order.
    given: Option<Vec<Ready>>,
    /// Those that make the role of admins, for those who have come by the admin socket.
    admins: Vec<Ready>,
}

impl Rules {
    /// Everything is allowed: for dev mode and tests.
    pub fn allow_all() -> Rules {
        Rules::default()
    }

    /// Whether there are none.
    pub(crate) fn allow_everything(&self) -> bool {
        self.given.is_none()
    }

    /// Only what these rules allow.
    pub fn new(rules: Vec<Rule>) -> Rules {
        Rules::numbered(rules.into_iter().enumerate())
    }

    /// The same, each with the place that a [`Decision`] gives as its number: what stands for one rule of the
    /// configuration has the same.
    pub fn numbered(rules: impl IntoIterator<Item = (usize, Rule)>) -> Rules {
        let admins = Rule::of_role(Role::Admin, &[Who::All]).into_iter().enumerate();
        Rules {
            given: Some(rules.into_iter().map(Ready::new).collect()),
            admins: admins.map(Ready::new).collect(),
        }
    }

    /// The lists by each of which the principal may be allowed something; none if there are no rules.
    fn lists(&self, principal: &Principal) -> Option<impl Iterator<Item = &[Ready]>> {
        let given = self.given.as_deref()?;
        let own = principal.is_local().then_some(&*self.admins);
        Some(own.into_iter().chain([given]))
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
        self.decide(principal, action, kind, path).is_allowed()
            && self.lets_relay(principal, kind, path)
    }

    /// Whether the principal may subscribe to the same topics by these rules and by others, as far as is seen without looking
    /// at topics.
    pub(crate) fn show_the_same(&self, others: &Rules, principal: &Principal) -> bool {
        let of = |rules: &Rules| rules.given.is_some();
        of(self) == of(others) && self.shown_to(principal).eq(others.shown_to(principal))
    }

    fn shown_to<'a>(
        &'a self,
        principal: &'a Principal,
    ) -> impl Iterator<Item = (bool, &'a [Pattern])> {
        // What admins may besides is the same by all rules.
        let rules = self.given.iter().flatten().map(|ready| &ready.rule);
        let concerning = rules.filter(|rule| {
            rule.concerns(principal, Action::Subscribe)
                && rule.kind.is_none_or(|kind| kind == Kind::Topic)
        });
        concerning.map(|rule| (rule.allow, &*rule.paths))
    }

    /// Whether somebody may do at a path of the node, such as `$sys/drain`, what an action stands for there.
    pub fn may_at_node(&self, principal: &Principal, action: Action, about: &str) -> bool {
        Path::parse(about).is_ok_and(|path| {
            let may = |action| self.authorise(principal, action, Kind::Topic, &path);
            may(action) || implying(action, about).iter().copied().any(may)
        })
    }

    /// Whether the node that passes on what the principal asks for may do that there; who asks for itself may.
    #[inline]
    pub(crate) fn lets_relay(&self, principal: &Principal, kind: Kind, path: &Path) -> bool {
        match &principal.relayed_by {
            None => true,
            Some(edge) => self.authorise(edge, Action::Relay, kind, path),
        }
    }

    /// The sentence for an action that is refused, by what refuses it.
    pub(crate) fn refusal(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        path: &Path,
    ) -> Close {
        match &principal.relayed_by {
            Some(edge) if !self.lets_relay(principal, kind, path) => {
                denied(&edge.name, Action::Relay, kind, path.as_str())
            }
            _ if is_elsewhere(principal, action) => managed_elsewhere(),
            _ => denied(&principal.name, action, kind, path.as_str()),
        }
    }

    /// The same, for those who ask why, with what the server keeps for itself.
    pub fn explain(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        path: &Path,
    ) -> Decision {
        match action.writes() && is_reserved(path) && !principal.is_server() {
            true => Decision::Reserved,
            false => self.decide(principal, action, kind, path),
        }
    }

    /// Inlined up to the rules, so that [`Rules::authorise`] makes no record of why when there are none.
    #[inline]
    fn decide(&self, principal: &Principal, action: Action, kind: Kind, path: &Path) -> Decision {
        if is_elsewhere(principal, action) {
            return Decision::Elsewhere;
        }
        let own = if action.listens() { principal.owns_path(path) } else { None };
        if own == Some(false) {
            return Decision::Private;
        }
        if is_temporary(path) && !principal.is_server() {
            return Decision::Temporary;
        }
        match &self.given {
            None => Decision::NoRules,
            Some(_) if principal.is_server() => Decision::Server,
            Some(_) if principal.is_local() => {
                self.decide_locally(own.is_some(), (principal, action, kind, path))
            }
            Some(rules) => self.decide_by(rules, own.is_some(), (principal, action, kind, path)),
        }
    }

    #[cold]
    fn decide_locally(&self, is_own: bool, asked: (&Principal, Action, Kind, &Path)) -> Decision {
        if self.decide_by(&self.admins, is_own, asked).is_allowed() {
            return Decision::Local;
        }
        self.decide_by(self.given.as_deref().unwrap_or_default(), is_own, asked)
    }

    #[inline(never)]
    fn decide_by(
        &self,
        rules: &[Ready],
        is_own: bool,
        (principal, action, kind, path): (&Principal, Action, Kind, &Path),
    ) -> Decision {
        let mut decision = if is_own { Decision::Own } else { Decision::Nothing };
        for ready in rules {
            let allows = ready.rule.allow;
            if (!allows || !decision.is_allowed())
                && ready.rule.concerns(principal, action)
                && ready.covers(principal, kind, path)
            {
                decision = Decision::Rule { number: ready.number, allows };
                if !allows {
                    return decision;
                }
            }
        }
        if decision == Decision::Nothing
            && let Some(implied) = Implied::of(action, kind, path.as_str())
        {
            return self.decide_implied(rules, &implied, (principal, kind, path));
        }
        if !decision.is_allowed() {
            return decision;
        }
        match self.hidden_subject(principal, action, kind, path) {
            Some(subject) => Decision::Subject(subject),
            None => decision,
        }
    }

    /// Whether one of the rights that let somebody listen there as well is given.
    #[cold]
    fn decide_implied(
        &self,
        rules: &[Ready],
        implied: &Implied,
        (principal, kind, path): (&Principal, Kind, &Path),
    ) -> Decision {
        let at = implied.at.as_ref().unwrap_or(path);
        let mut decision = Decision::Nothing;
        for &action in implied.by {
            if is_elsewhere(principal, action) {
                return Decision::Elsewhere;
            }
            decision = self.decide_by(rules, false, (principal, action, kind, at));
            if decision.is_allowed() {
                break;
            }
        }
        decision
    }

    /// The topic whose subscribers are shown there, if they are, unless the principal may listen to it.
    fn hidden_subject(
        &self,
        principal: &Principal,
        action: Action,
        kind: Kind,
        path: &Path,
    ) -> Option<Path> {
        if !action.listens() || kind != Kind::Topic || !path.as_str().starts_with(PRESENCE) {
            return None;
        }
        match Path::parse(subject_of(path.as_str())) {
            Ok(subject) if subject == *path => None,
            Ok(subject) if self.authorise(principal, action, kind, &subject) => None,
            Ok(subject) => Some(subject),
            Err(_) => Some(path.clone()),
        }
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
        if own == Some(false) || is_elsewhere(principal, action) {
            return false;
        }
        if let Some(edge) = &principal.relayed_by
            && !self.authorise_all(edge, Action::Relay, kind, pattern)
        {
            return false;
        }
        let Some(mut lists) = self.lists(principal) else { return true };
        let asked = (principal, action, kind, pattern);
        let is_given = || {
            own == Some(true)
                || Implied::of_all(action, kind, pattern).is_some_and(|implied| {
                    let by = |&action: &Action| match &implied.at {
                        Some(at) => self.authorise(principal, action, kind, at),
                        None => self.authorise_all(principal, action, kind, pattern),
                    };
                    implied.by.iter().any(by)
                })
        };
        lists.any(|rules| allow_all(rules, asked, is_given))
    }

    /// Whether some rule lets the principal do that on any path of that kind.
    pub fn authorise_anywhere(&self, principal: &Principal, action: Action, kind: Kind) -> bool {
        if let Some(edge) = &principal.relayed_by
            && !self.authorise_anywhere(edge, Action::Relay, kind)
        {
            return false;
        }
        if is_elsewhere(principal, action) {
            return false;
        }
        let Some(lists) = self.lists(principal) else { return true };
        principal.is_server()
            || lists.flatten().any(|Ready { rule, .. }| {
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
        if let Some(edge) = &principal.relayed_by
            && !self.authorise_somewhere(edge, Action::Relay, pattern)
        {
            return false;
        }
        let own = if action.listens() { principal.owns_pattern(pattern) } else { None };
        own.unwrap_or_else(|| {
            if self.given.is_none() {
                return !is_elsewhere(principal, action);
            }
            // Of what it names each is asked for by itself.
            let concerned = |action| {
                let rules = self.lists(principal).into_iter().flatten().flatten();
                let allows =
                    |ready: &Ready| ready.rule.allow && ready.rule.concerns(principal, action);
                !is_elsewhere(principal, action) && rules.into_iter().any(allows)
            };
            let implied = Implied::of_all(action, Kind::Topic, pattern);
            concerned(action)
                || implied.is_some_and(|implied| implied.by.iter().any(|&by| concerned(by)))
        })
    }
}

/// Whether these rules allow the action on all that the pattern names, or do not deny it and something else gives it.
fn allow_all(
    rules: &[Ready],
    (principal, action, kind, pattern): (&Principal, Action, Kind, &Pattern),
    is_given: impl Fn() -> bool,
) -> bool {
    let concerned = |ready: &&Ready| {
        let rule = &ready.rule;
        rule.concerns(principal, action) && rule.kind.is_none_or(|own| own == kind)
    };
    let concerned = rules.iter().filter(concerned);
    let meets = |places: &[RulePath]| {
        places.is_empty() || places.iter().any(|denied| denied.overlaps(principal, pattern))
    };
    let allows = |Ready { places, .. }: &Ready| {
        places.is_empty() || places.iter().any(|allowed| allowed.contains(principal, pattern))
    };
    concerned.clone().all(|ready| ready.rule.allow || !meets(&ready.places))
        && (concerned.filter(|ready| ready.rule.allow).any(allows) || is_given())
}

/// Whether it is how the node is looked after, and the principal has come by a way where nobody does.
#[inline]
pub(crate) fn is_elsewhere(principal: &Principal, action: Action) -> bool {
    action.manages() && principal.entrance == Entrance::Clients
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

#[cfg(test)]
mod tests;
