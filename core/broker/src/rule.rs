//! A rule, and those that a role stands for.

use std::sync::Arc;

use tiderace_manage::Role;
use tiderace_topics::Pattern;
use tiderace_wire::Kind;

use crate::action::{Action, Actions};
use crate::principal::Principal;

/// Whom a rule speaks of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
    pub(crate) fn includes(&self, principal: &Principal) -> bool {
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
    /// Where; empty means everywhere. A level may be a [`Placeholder`](tiderace_topics::Placeholder); one in braces that is none
    /// names itself.
    pub paths: Vec<Pattern>,
    /// On what; `None` means on all.
    pub kind: Option<Kind>,
}

impl Rule {
    /// The rules that a role stands for, for those who have it.
    pub fn of_role(role: Role, who: &[Who]) -> Vec<Rule> {
        role.rules().iter().map(|rule| Rule::from_table(rule, who)).collect()
    }

    fn from_table(rule: &tiderace_manage::Rule, who: &[Who]) -> Rule {
        let is_named = |name: &str| rule.allow.contains(&name);
        let actions = Action::ALL.into_iter().filter(|(name, _)| is_named(name));
        Rule {
            allow: true,
            actions: actions.map(|(_, action)| action).collect(),
            who: who.to_vec(),
            paths: rule.paths.iter().filter_map(|path| Pattern::parse(path).ok()).collect(),
            kind: match rule.kind {
                tiderace_manage::Kind::Any => None,
                tiderace_manage::Kind::Queue => Some(Kind::Queue),
                tiderace_manage::Kind::Service => Some(Kind::Service),
                tiderace_manage::Kind::Topic => Some(Kind::Topic),
            },
        }
    }

    pub(crate) fn concerns(&self, principal: &Principal, action: Action) -> bool {
        self.actions.contains(action) && self.who.iter().any(|who| who.includes(principal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path that is none would leave a rule without paths, which holds everywhere.
    #[test]
    fn a_role_stands_for_as_many_actions_and_paths_as_it_names() {
        for role in Role::ALL {
            for (made, named) in Rule::of_role(role, &[Who::All]).iter().zip(role.rules()) {
                assert_eq!(made.paths.len(), named.paths.len(), "{named:?}");
                let has = |action: &Action| made.actions.contains(*action);
                let actions = Action::ALL.iter().filter(|(_, action)| has(action));
                assert_eq!(actions.count(), named.allow.len(), "{named:?}");
            }
        }
    }
}
