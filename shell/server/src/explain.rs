//! Whether somebody may do something, and why: by a configuration file, and by what a running server holds to.
//!
//! Relies on the rules and the virtual hosts as the server has them: the same code decides. Invariant: nothing is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_broker::{Action, Decision, LOCAL, Principal, Rules};
use tiderace_config::{AuthConfig, Loaded, Table};
use tiderace_wire::{Explanation, Kind, NamedHost, Question, Root};

use crate::hosts;

/// Characters of a rule that are shown.
const RULE_CHARS_MAX: usize = 512;

/// The answer to a question.
///
/// # Errors
/// Says what of it makes no sense.
pub(crate) fn explain(
    question: &Question,
    rules: &Rules,
    loaded: &Loaded,
) -> Result<Explanation, Close> {
    let Question { who, action, path, .. } = question;
    let action = self::action(action).map_err(|wrong| bad(&wrong))?;
    let kind = question.kind.unwrap_or_else(|| kind_of(action));
    let mut principal = principal(question, &loaded.config.auth)?;
    let hosts = hosts::virtual_hosts(&loaded.config);
    let named = who.host.as_deref().map_or(NamedHost::None, |host| hosts.by_name(host));
    if let NamedHost::Unknown(name) = named {
        return Err(bad(&format!("there is no virtual host `{name}`")));
    }
    principal.host = match hosts.admit(&named, principal.host.as_ref()) {
        Ok(host) => host,
        Err(close) => {
            let (path, says) = (path.clone(), (*close.reason).into());
            let (is_allowed, why, rule) = (false, close.code.slug(), None);
            return Ok(Explanation { is_allowed, kind, path, why, rule, says });
        }
    };
    let path = match &principal.host {
        Some(host) => Root::of(host).path(kind, path)?,
        None => {
            hosts.check_whole(kind, path)?;
            path.clone()
        }
    };
    let decision = rules.explain(&principal, action, kind, &path);
    let rule = match &decision {
        Decision::Rule { number, .. } => Some(*number as u64 + 1),
        _ => None,
    };
    let (is_allowed, why) = (decision.is_allowed(), word(&decision));
    let says = reason(&decision, &loaded.tables).into();
    Ok(Explanation { is_allowed, kind, path, why, rule, says })
}

/// The sentence for people.
pub(crate) fn sentence(
    (who, action, path): (&str, &str, &str),
    (is_allowed, kind, says): (bool, &str, &str),
) -> String {
    let may = if is_allowed { "may" } else { "may not" };
    format!("{who} {may} {action} on {kind} {path}: {says}.")
}

/// The action of that name.
pub(crate) fn action(name: &str) -> Result<Action, String> {
    let known = Action::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, action)| *action).ok_or_else(|| {
        let names: Vec<&str> = Action::ALL.iter().map(|(name, _)| *name).collect();
        format!("{name:?} is no action; the actions are {}", names.join(", "))
    })
}

fn bad(reason: &str) -> Close {
    Close::new(CloseCode::BadOperation, reason.to_owned())
}

/// What an action is for.
fn kind_of(action: Action) -> Kind {
    match action {
        Action::Manage | Action::Receive | Action::Send => Kind::Queue,
        Action::Call | Action::Serve => Kind::Service,
        _ => Kind::Topic,
    }
}

/// Who it is, bound to the virtual host that the configuration binds those of that name to. Groups are those that it gives them, and
/// those of the question.
fn principal(question: &Question, auth: &AuthConfig) -> Result<Principal, Close> {
    let Some(name) = &question.who.name else { return Ok(Principal::anonymous()) };
    if let Some(user) = name.strip_prefix(LOCAL).and_then(|user| user.parse().ok()) {
        return Ok(Principal::local(user));
    }
    let users = auth.users.iter().filter(|user| *user.name == **name);
    let tokens = auth.tokens.iter().filter(|token| *token.principal == **name);
    let users = users.map(|user| (&user.host, &user.groups));
    let logins: Vec<_> = users.chain(tokens.map(|token| (&token.host, &token.groups))).collect();
    let bound = bound(logins.iter().map(|(host, _)| host.as_deref()), question)?;
    let ours = logins.iter().filter(|(host, _)| host.as_deref() == bound);
    let groups = ours.flat_map(|(_, groups)| groups.iter().map(String::as_str));
    let groups = groups.chain(question.groups.iter().map(|group| &**group)).map(Into::into);
    let groups = groups.collect();
    let claims = question.claims.iter().cloned();
    let claims = claims.map(|(name, value)| (name.into(), value.into())).collect();
    Ok(Principal { groups, claims, host: bound.map(Arc::from), ..Principal::named(&**name) })
}

/// The virtual host that logins are bound to: of several the one that the question names.
fn bound<'a>(
    hosts: impl Iterator<Item = Option<&'a str>>,
    question: &'a Question,
) -> Result<Option<&'a str>, Close> {
    let hosts: BTreeSet<Option<&str>> = hosts.collect();
    match (hosts.first(), hosts.get(&question.who.host.as_deref())) {
        (None, _) => Ok(None),
        (Some(only), _) if hosts.len() == 1 => Ok(*only),
        (_, Some(named)) if named.is_some() => Ok(*named),
        _ => Err(bad("logins of that name are bound to several virtual hosts; ask for @HOST/NAME")),
    }
}

/// What decides, in a word.
fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::NoRules => "no-rules",
        Decision::Server => "server",
        Decision::Local => "local",
        Decision::Elsewhere => "managed-elsewhere",
        Decision::Reserved => "reserved",
        Decision::Temporary => "temporary",
        Decision::Private => "private",
        Decision::Own => "own",
        Decision::Nothing => "nothing",
        Decision::Subject(_) => "subject",
        Decision::Rule { .. } => "rule",
    }
}

/// What decides, in a sentence that goes on behind a colon.
fn reason(decision: &Decision, tables: &[Table]) -> String {
    match decision {
        Decision::NoRules => {
            "the configuration has neither users nor rules, so everything is allowed".to_owned()
        }
        Decision::Server => "it is the server".to_owned(),
        Decision::Local => "who has come by the admin socket may what admins may".to_owned(),
        Decision::Elsewhere => {
            "the server is looked after at other listeners, or on its admin socket".to_owned()
        }
        Decision::Reserved => "nobody but the server changes what is below $sys".to_owned(),
        Decision::Temporary => {
            "a temporary destination belongs to the session that made it".to_owned()
        }
        Decision::Private => "the path is private to somebody else".to_owned(),
        Decision::Own => "the path is its own, and no rule denies it".to_owned(),
        Decision::Nothing => "no rule allows it".to_owned(),
        Decision::Subject(subject) => {
            format!("who subscribes to {subject} is shown to those who may subscribe to it")
        }
        Decision::Rule { number, allows } => {
            let rules = tables.iter().filter(|table| table.section.name == "rule");
            let rule = rules.into_iter().nth(*number);
            let verb = if *allows { "allows" } else { "denies" };
            rule.map_or_else(
                || format!("rule {} {verb} it", number + 1),
                |rule| format!("the [[rule]] at {} {verb} it ({})", rule.origin, shown(rule)),
            )
        }
    }
}

/// The rule in one line, as it stands in the file.
fn shown(rule: &Table) -> String {
    let settings = rule.settings.iter().filter(|setting| {
        matches!(setting.spec.name(), "allow" | "deny" | "principals" | "paths" | "kind")
    });
    let parts: Vec<String> =
        settings.map(|setting| format!("{} = {}", setting.spec.name(), setting.value)).collect();
    let text = parts.join(", ");
    match text.char_indices().nth(RULE_CHARS_MAX) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_actions_of_the_table_are_those_of_the_rules() {
        assert_eq!(tiderace_manage::ACTIONS, Action::ALL.map(|(name, _)| name));
    }
}
