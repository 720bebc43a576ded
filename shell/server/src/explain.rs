//! Whether somebody may do something, and why: by a configuration file, and by what a running server holds to.
//!
//! Relies on the rules and the virtual hosts as the server has them: the same code decides. Invariant: nothing is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use tiderace_base::{Close, CloseCode};
use tiderace_broker::{Action, Decision, LOCAL, Principal, Rules, implying};
use tiderace_config::{AuthConfig, Loaded, Moment, Table};
use tiderace_topics::Path;
use tiderace_wire::{Explanation, Kind, NamedHost, Question, Root, TemporaryName};

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
    if principal.host.is_some() && looks_after(action) && is_of_node(&path) {
        // Clients of a virtual host look after nothing of the node, whatever rules say.
        let says = "who connects by a virtual host looks after nothing of the server".into();
        return Ok(Explanation { is_allowed: false, kind, path, why: "host", rule: None, says });
    }
    let (mut decision, mut implied) =
        (rules.explain(&principal, action, kind, &path), String::new());
    for &other in implying(action, path.as_str()) {
        let instead = rules.explain(&principal, other, Kind::Topic, &path);
        if kind == Kind::Topic && !decision.is_allowed() && instead.is_allowed() {
            implied = format!(", as to {}, which is enough", other.name());
            decision = instead;
        }
    }
    let rule = match &decision {
        Decision::Rule { number, .. } => Some(*number as u64 + 1),
        _ => None,
    };
    let knows_name = decision == Decision::Temporary && is_open(action, &path);
    let (is_allowed, why) = (decision.is_allowed() || knows_name, word(&decision));
    let mut says = reason(&decision, &loaded.tables);
    if knows_name {
        says = "who knows the name of a temporary destination may send there".to_owned();
    }
    says += &implied;
    let is_rules = matches!(decision, Decision::Nothing | Decision::Rule { .. });
    let may_own = !matches!(action, Action::Create | Action::Relay);
    if !is_allowed && is_rules && may_own && kind == Kind::Topic && !is_of_node(&path) {
        says += "; who owns the topic by its specification may nevertheless";
    }
    let says = says.into();
    Ok(Explanation { is_allowed, kind, path, why, rule, says })
}

/// Whether it is an action of those who look after the node.
fn looks_after(action: Action) -> bool {
    matches!(action, Action::Admin | Action::Monitor | Action::Operate)
}

/// Whether the path is one of what the server tells and is asked of itself.
fn is_of_node(path: &Path) -> bool {
    path.as_str() == "$sys" || path.as_str().starts_with("$sys/")
}

/// Whether who knows that name of a temporary destination may do that there.
fn is_open(action: Action, path: &Path) -> bool {
    matches!(action, Action::Call | Action::Publish | Action::Send)
        && TemporaryName::of(path).is_some()
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
    // Nobody comes by a token that is over.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let is_good = |until: Option<Moment>| until.is_none_or(|until| until.unix() > now);
    let tokens = auth.tokens.iter();
    let tokens = tokens.filter(|token| *token.principal == **name && is_good(token.until));
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

/// The virtual host that logins are bound to: of several the one that the question names, else none, else the whole tree.
fn bound<'a>(
    hosts: impl Iterator<Item = Option<&'a str>>,
    question: &'a Question,
) -> Result<Option<&'a str>, Close> {
    let hosts: BTreeSet<Option<&str>> = hosts.collect();
    let wanted = [question.who.host.as_deref(), None, Some("*")];
    let found = wanted.iter().find_map(|host| hosts.get(host));
    match (found, hosts.first()) {
        (Some(host), _) => Ok(*host),
        (None, None) => Ok(None),
        (None, Some(only)) if hosts.len() == 1 => Ok(*only),
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
        rule.holds(setting)
            && matches!(
                setting.spec.name(),
                "allow" | "deny" | "role" | "principals" | "paths" | "kind"
            )
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
