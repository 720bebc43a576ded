//! Users, tokens and rules that are put and removed while the server runs.
//!
//! ```text
//!   put, remove ─▶ entry ─▶ configuration with it, checked ─▶ store ─▶ logins, rules, sessions
//! ```
//! Relies on `tiderace_config` to check an entry as one of the file, and on `reload` to hold to what comes out. Invariants: nothing is
//! held to that is not kept in the store; what stands in the file is not changed; a password is kept as its hash alone.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tiderace_auth::hash_password;
use tiderace_base::{Close, CloseCode, Span};
use tiderace_config::{
    Action, AuthConfig, Loaded, Moment, PrincipalMatch, PutIdentities, RuleConfig, RuleEffect,
    Table,
};
use tiderace_wire::{
    Hidden, IdentityChange, IdentityEntry, IdentityKind, IdentityMember, IdentityOperation,
    IdentityPage, NewIdentity, NodeReport,
};
use toml::{Table as Entry, Value};

use super::kept_identities::KEPT_AS;
use super::reload::Reloader;
use crate::identities;

/// What may be put: each login that shows a token compares it with all of them.
const PUT_MAX: usize = 5_000;
/// Bytes of all of that as text: it is read and written as a whole.
const PUT_BYTES_MAX: usize = 8 << 20;
/// Bytes of a page, but for its first entry.
const PAGE_BYTES_MAX: usize = 1 << 20;

impl Reloader {
    /// Tells or changes who may come in, and who may do what.
    ///
    /// # Errors
    /// Says what cannot be, or that it cannot be kept; nothing has changed then.
    pub(super) fn identities(&mut self, asked: &IdentityOperation) -> Result<NodeReport, Close> {
        let mut put = self.put.clone();
        let (kind, name, outcome, dry_run) = match asked {
            IdentityOperation::List { kind, after, limit } => {
                let entries_max = IdentityOperation::entries_max(*limit);
                let page = page(&self.running, *kind, (*after, entries_max));
                return Ok(NodeReport::Identities(Box::new(page)));
            }
            IdentityOperation::Put { name, what, dry_run } => {
                self.check_changes(what.kind(), name)?;
                let section = what.kind().name();
                let entry = entry(what, put.get(section, name))?;
                let outcome = match put.put(section, name, entry) {
                    true => IdentityChange::Changed,
                    false => IdentityChange::Added,
                };
                (what.kind(), name, outcome, *dry_run)
            }
            IdentityOperation::Remove { kind, name, dry_run } => {
                // Also one that does not count, because the configuration has the name.
                if put.get(kind.name(), name).is_none() {
                    self.check_changes(*kind, name)?;
                }
                let outcome = match put.remove(kind.name(), name) {
                    true => IdentityChange::Removed,
                    false => IdentityChange::Missing,
                };
                (*kind, name, outcome, *dry_run)
            }
        };
        if outcome != IdentityChange::Missing {
            self.hold_to(put, (kind, name), dry_run)?;
        }
        Ok(NodeReport::Identity { kind, name: name.clone(), outcome, dry_run })
    }

    /// What was put before gives way to this, in which one was changed, unless that is only tried.
    fn hold_to(
        &mut self,
        put: PutIdentities,
        (kind, name): (IdentityKind, &str),
        dry_run: bool,
    ) -> Result<(), Close> {
        let text = put.to_text();
        let is_more = put.count() > self.put.count() || text.len() > self.put.to_text().len();
        if is_more && (put.count() > PUT_MAX || text.len() > PUT_BYTES_MAX) {
            let mib = PUT_BYTES_MAX >> 20;
            let reason = format!(
                "at most {PUT_MAX} users, tokens and rules are put, of {mib} MiB together; remove some"
            );
            return Err(bad(reason));
        }
        let refused = |problems: String| bad(problems.replace('\n', "; "));
        let with = self.running.with_put(&put).map_err(|it| refused(it.to_string()))?;
        // Others that cannot be used were so before.
        let own = format!("{} {name}: ", kind.name());
        if let Some(wrong) = with.left_out.iter().find(|wrong| wrong.starts_with(&own)) {
            return Err(bad(wrong.clone()));
        }
        let known = identities::claims_of_rules(&self.running.config.auth);
        let auth = &with.loaded.config.auth;
        if auth.http.is_some() && !identities::claims_of_rules(auth).is_subset(&known) {
            let reason = "that names a claim which the server that is asked about logins is not asked for; put the rule into the configuration, and start the server again";
            return Err(bad(reason.to_owned()));
        }
        let made = self.make_identities(with.loaded);
        let made = made.map_err(|error| refused(format!("{error:#}")))?;
        if dry_run {
            return Ok(());
        }
        let store = self.persistence.as_ref();
        let store = store.ok_or_else(|| anyhow::anyhow!("there is no store"));
        let kept = store.and_then(|store| store.keep(KEPT_AS, text.as_bytes()));
        kept.map_err(|error| Close::new(CloseCode::StoreUnavailable, format!("{error:#}")))?;
        self.put = put;
        // Others who come in do not change what anybody may see.
        self.apply_identities(made, kind == IdentityKind::Rule);
        Ok(())
    }

    /// Whether that may be changed at all.
    fn check_changes(&self, kind: IdentityKind, name: &str) -> Result<(), Close> {
        if !self.running.config.auth.managed {
            let reason = "users, tokens and rules of this server stand in its configuration alone; set `auth.managed = true` there, and start it again, to put some while it runs";
            return Err(bad(reason.to_owned()));
        }
        let own = tables_of(&self.running, kind).find(|table| table.name() == Some(name));
        match own.map(|table| &table.origin) {
            None | Some(tiderace_config::Origin::Put) => Ok(()),
            Some(place) => {
                let kind = kind.name();
                let reason = format!(
                    "the {kind} {name} stands in the configuration ({place}), where it is changed, and read again by `tiderace reload`"
                );
                Err(bad(reason))
            }
        }
    }
}

fn bad(reason: String) -> Close {
    Close::new(CloseCode::BadOperation, reason)
}

/// An entry as the configuration has it; what proves who somebody is stays as it was before if it is not given.
fn entry(what: &NewIdentity, before: Option<&Entry>) -> Result<Entry, Close> {
    let mut entry = Entry::new();
    let mut text = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            entry.insert(name.to_owned(), Value::String(value));
        }
    };
    let kept = |name: &str| before.and_then(|entry| entry.get(name)).and_then(Value::as_str);
    let owned = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
    match what {
        NewIdentity::User { password, password_hash, groups, host } => {
            text("password_hash", Some(hash(password, password_hash, kept("password_hash"))?));
            text("host", owned(host));
            list(&mut entry, "groups", groups);
        }
        NewIdentity::Token { secret, principal, groups, host, lasts } => {
            let is_new = secret.is_some();
            let secret = secret.as_ref().map(Hidden::expose).or(kept("secret"));
            let secret = secret.ok_or_else(|| {
                bad("a new token needs `secret`: `sha256:` and its hash, as `tiderace password --token` prints it".to_owned())
            })?;
            text("secret", Some(secret.to_owned()));
            text("principal", owned(principal));
            text("host", owned(host));
            // A token that stays ends when it did, unless another end is given.
            let end = if is_new { None } else { kept("until").map(str::to_owned) };
            text("until", lasts.map(|lasts| until(lasts).to_string()).or(end));
            list(&mut entry, "groups", groups);
        }
        NewIdentity::Rule { allow, deny, role, principals, paths, kind } => {
            text("role", owned(role));
            text("kind", owned(kind));
            for (name, texts) in
                [("allow", allow), ("deny", deny), ("principals", principals), ("paths", paths)]
            {
                list(&mut entry, name, texts);
            }
        }
    }
    Ok(entry)
}

fn list(entry: &mut Entry, name: &str, texts: &[Box<str>]) {
    if !texts.is_empty() {
        let texts = texts.iter().map(|text| Value::String(text.to_string())).collect();
        entry.insert(name.to_owned(), Value::Array(texts));
    }
}

fn hash(
    password: &Option<Hidden>,
    hash: &Option<Hidden>,
    before: Option<&str>,
) -> Result<String, Close> {
    match (password, hash) {
        (Some(_), Some(_)) => {
            Err(bad("one of `password` and `password_hash` is enough".to_owned()))
        }
        (Some(password), None) => {
            hash_password(password.expose()).map_err(|wrong| bad(wrong.to_string()))
        }
        (None, Some(hash)) => Ok(hash.expose().to_owned()),
        (None, None) => before.map(str::to_owned).ok_or_else(|| {
            bad("a new user needs `password`, or `password_hash` as `tiderace password` prints it".to_owned())
        }),
    }
}

/// The moment so long after now, which is a whole second and not before it.
fn until(lasts: Span) -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_unix(end_of(now, lasts))
}

fn end_of(now: Duration, lasts: Span) -> u64 {
    let end = now.as_millis().saturating_add(lasts.as_millis());
    u64::try_from(end.div_ceil(1_000)).unwrap_or(u64::MAX)
}

fn tables_of(loaded: &Loaded, kind: IdentityKind) -> impl Iterator<Item = &Table> {
    loaded.tables.iter().filter(move |table| table.section.name == kind.name())
}

/// Those behind a number, at most so many.
fn page(loaded: &Loaded, kind: IdentityKind, (after, entries_max): (u64, usize)) -> IdentityPage {
    let auth = &loaded.config.auth;
    let count = tables_of(loaded, kind).count();
    let skipped = usize::try_from(after).unwrap_or(usize::MAX);
    let tables = tables_of(loaded, kind).enumerate().skip(skipped).take(entries_max);
    let mut bytes = 0;
    let entries: Vec<IdentityEntry> = tables
        .map(|(index, table)| IdentityEntry {
            number: index as u64 + 1,
            name: table.name().map(Into::into),
            from: table.origin.to_string().into(),
            members: members(auth, kind, index),
        })
        .take_while(|entry| {
            let is_first = bytes == 0;
            bytes += entry.bytes();
            is_first || bytes <= PAGE_BYTES_MAX
        })
        .collect();
    let more = skipped.saturating_add(entries.len()) < count;
    IdentityPage { kind, entries, matched: count as u64, more }
}

/// What there is to say of the one at that place.
fn members(
    auth: &AuthConfig,
    kind: IdentityKind,
    index: usize,
) -> Vec<(&'static str, IdentityMember)> {
    let texts = |texts: &[String]| {
        let texts: Vec<Box<str>> = texts.iter().map(|text| text.as_str().into()).collect();
        (!texts.is_empty()).then_some(IdentityMember::Texts(texts))
    };
    let text = |text: &str| IdentityMember::Text(text.into());
    let members = match kind {
        IdentityKind::User => auth.users.get(index).map(|user| {
            vec![("groups", texts(&user.groups)), ("host", user.host.as_deref().map(text))]
        }),
        IdentityKind::Token => auth.tokens.get(index).map(|token| {
            let until = token.until.map(|until| IdentityMember::Time(until.unix() * 1000));
            vec![
                ("principal", Some(text(&token.principal))),
                ("groups", texts(&token.groups)),
                ("host", token.host.as_deref().map(text)),
                ("until", until),
            ]
        }),
        IdentityKind::Rule => auth.rules.get(index).map(|rule| of_rule(rule)),
    };
    let members = members.into_iter().flatten();
    members.filter_map(|(name, member)| Some((name, member?))).collect()
}

fn of_rule(rule: &RuleConfig) -> Vec<(&'static str, Option<IdentityMember>)> {
    let who = |who: &PrincipalMatch| match who {
        PrincipalMatch::Anonymous => "anonymous".into(),
        PrincipalMatch::Everybody => "*".into(),
        PrincipalMatch::Group(name) => format!("group:{name}").into(),
        PrincipalMatch::User(name) => format!("user:{name}").into(),
    };
    let principals = IdentityMember::Texts(rule.principals.iter().map(who).collect());
    let principals = ("principals", Some(principals));
    match &rule.effect {
        RuleEffect::Role(role) => {
            vec![("role", Some(IdentityMember::Text(role.as_str().into()))), principals]
        }
        RuleEffect::Actions { allow, actions, paths, kind } => {
            let actions = actions.iter().map(|action: &Action| action.as_str().into()).collect();
            let paths = paths.iter().map(|path| path.as_str().into()).collect();
            vec![
                (if *allow { "allow" } else { "deny" }, Some(IdentityMember::Texts(actions))),
                principals,
                ("paths", Some(IdentityMember::Texts(paths))),
                ("kind", Some(IdentityMember::Text(kind.as_str().into()))),
            ]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_at_least_as_long_as_it_says() {
        let of = |millis, lasts| end_of(Duration::from_millis(millis), Span::from_millis(lasts));
        assert_eq!(of(10_000, 1_000), 11);
        assert_eq!(of(10_990, 1_000), 12);
        assert_eq!(of(10_001, 500), 11);
        assert_eq!(of(10_000, 1), 11);
    }
}
