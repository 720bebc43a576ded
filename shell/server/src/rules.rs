//! The rules of the configuration as the broker decides by them.
//!
//! Pure. Invariant: whatever a rule of the configuration stands for has that rule's place as its number.

use tiderace_broker::{Action, Rule, Rules, Who};
use tiderace_config::{
    Action as ActionWord, AuthConfig, PrincipalMatch, Role as RoleWord, RuleConfig, RuleEffect,
    RuleKind,
};
use tiderace_manage::Role;
use tiderace_wire::Kind;

/// The rules of the configuration; none if it has nobody who may come in.
pub(crate) fn rules(auth: &AuthConfig) -> Rules {
    if !auth.is_enforced() {
        return Rules::allow_all();
    }
    let numbered = auth.rules.iter().enumerate();
    Rules::numbered(
        numbered.flat_map(|(number, rule)| {
            stands_for(rule).into_iter().map(move |rule| (number, rule))
        }),
    )
}

/// What a rule of the configuration stands for.
fn stands_for(rule: &RuleConfig) -> Vec<Rule> {
    let who: Vec<Who> = rule.principals.iter().map(who).collect();
    match &rule.effect {
        RuleEffect::Role(name) => Rule::of_role(role(*name), &who),
        RuleEffect::Actions { allow, actions, paths, kind } => vec![Rule {
            allow: *allow,
            actions: actions.iter().map(action).collect(),
            who,
            paths: paths.clone(),
            kind: match kind {
                RuleKind::Any => None,
                RuleKind::Queue => Some(Kind::Queue),
                RuleKind::Service => Some(Kind::Service),
                RuleKind::Topic => Some(Kind::Topic),
            },
        }],
    }
}

fn role(name: RoleWord) -> Role {
    match name {
        RoleWord::Viewer => Role::Viewer,
        RoleWord::Operator => Role::Operator,
        RoleWord::Admin => Role::Admin,
    }
}

/// Whom a rule or a limit concerns.
pub(crate) fn who(who: &PrincipalMatch) -> Who {
    match who {
        PrincipalMatch::Anonymous => Who::Anonymous,
        PrincipalMatch::Everybody => Who::All,
        PrincipalMatch::Group(name) => Who::Group(name.as_str().into()),
        PrincipalMatch::User(name) => Who::User(name.as_str().into()),
    }
}

fn action(word: &ActionWord) -> Action {
    match word {
        ActionWord::Admin => Action::Admin,
        ActionWord::Browse => Action::Browse,
        ActionWord::Call => Action::Call,
        ActionWord::Create => Action::Create,
        ActionWord::Manage => Action::Manage,
        ActionWord::Monitor => Action::Monitor,
        ActionWord::Operate => Action::Operate,
        ActionWord::Publish => Action::Publish,
        ActionWord::Receive => Action::Receive,
        ActionWord::Relay => Action::Relay,
        ActionWord::Send => Action::Send,
        ActionWord::Serve => Action::Serve,
        ActionWord::Subscribe => Action::Subscribe,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use tiderace_config::{FileSource, Sources, load};

    use super::*;

    #[test]
    fn a_role_of_the_configuration_is_the_one_of_that_name() {
        let words = [RoleWord::Viewer, RoleWord::Operator, RoleWord::Admin];
        assert_eq!(words.map(role), Role::ALL);
        assert_eq!(words.map(RoleWord::as_str), Role::ALL.map(Role::name));
        assert_eq!(RoleWord::WORDS.len(), Role::ALL.len());
        assert_eq!(Role::NAMES, words.map(RoleWord::as_str));
    }

    /// What the documents print as the rules that a role stands for is what it stands for.
    #[test]
    fn a_role_is_the_rules_that_are_printed_for_it() {
        let rules_of = |text: String| {
            let file = FileSource { name: "t.toml".to_owned(), text };
            let sources = Sources {
                file: Some(file),
                environment: Vec::new(),
                flags: Vec::new(),
                tables: Vec::new(),
                development: false,
                read_secret: &|_: &Path| Ok("secret".to_owned()),
            };
            let user = load(&sources).unwrap().config.auth;
            let rules: Vec<Rule> = user.rules.iter().flat_map(stands_for).collect();
            format!("{rules:?}")
        };
        let user = "[[user]]\nname = \"ann\"\npassword = \"file:/ann\"\ngroups = [\"a\"]\n";
        for role in Role::ALL {
            let given = format!("[[rule]]\nrole = {:?}\nprincipals = [\"group:a\"]\n", role.name());
            let printed = role.rules().iter().map(|rule| rule.to_toml(&["group:a"]));
            let printed = printed.collect::<String>();
            assert_eq!(rules_of(format!("{user}{given}")), rules_of(format!("{user}{printed}")));
        }
    }
}
