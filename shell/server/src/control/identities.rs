//! Users, tokens and rules that are put and removed while the server runs.
//!
//! ```text
//!   put, remove ─▶ entry ─▶ configuration with it, checked ─▶ store ─▶ logins, rules, sessions
//! ```
//! Relies on `tiderace_config` to check an entry as one of the file, and on `reload` to hold to what comes out. Invariants: nothing is
//! held to that is not kept in the store; what stands in the file is not changed; a password is kept as its hash alone.

use std::time::{SystemTime, UNIX_EPOCH};

use tiderace_auth::hash_password;
use tiderace_base::{Close, CloseCode, Span};
use tiderace_config::{
    Action, AuthConfig, Loaded, Moment, PrincipalMatch, PutIdentities, RuleConfig, Table,
};
use tiderace_wire::{
    Applies, Hidden, IdentityChange, IdentityEntry, IdentityKind, IdentityMember,
    IdentityOperation, IdentityPage, NewIdentity, NodeReport,
};
use toml::{Table as Entry, Value};
use tracing::warn;

use super::reload::Reloader;
use crate::persistence::Persistence;
use crate::tls::CertificateWatch;

/// By this name the store keeps what was put.
const KEPT_AS: &str = "identities";
/// What may be put: each login that shows a token compares it with all of them.
const PUT_MAX: usize = 5_000;

/// The configuration with what was put in an earlier life of the server, and that alone.
///
/// # Errors
/// When what is kept cannot be used: who may come in is known as a whole or not at all.
pub(crate) fn with_kept(
    loaded: Loaded,
    persistence: Option<&Persistence>,
) -> anyhow::Result<(Loaded, PutIdentities)> {
    let kept = persistence.filter(|_| loaded.config.auth.managed);
    let Some(kept) = kept.and_then(|persistence| persistence.value(KEPT_AS)) else {
        return Ok((loaded, PutIdentities::default()));
    };
    let wrong = |reason: String| {
        anyhow::anyhow!(
            "the users, tokens and rules that were put while the server ran cannot be used: {reason}; \
             with `auth.managed = false` the server starts without them"
        )
    };
    let text = String::from_utf8(kept).map_err(|_| wrong("they are no text".to_owned()))?;
    let put = PutIdentities::parse(&text).map_err(wrong)?;
    let (loaded, hidden) = loaded.with_put(&put).map_err(|problems| wrong(problems.to_string()))?;
    tell_hidden(&hidden);
    Ok((loaded, put))
}

/// Says what of it does not count.
pub(super) fn tell_hidden(hidden: &[String]) {
    if !hidden.is_empty() {
        warn!(
            event = "identities-hidden",
            names = hidden.join(", "),
            "these were put while the server ran and stand in the configuration as well, which goes before"
        );
    }
}

impl Reloader {
    /// Tells or changes who may come in, and who may do what.
    ///
    /// # Errors
    /// Says what cannot be, or that it cannot be kept; nothing has changed then.
    pub(super) fn identities(
        &mut self,
        asked: &IdentityOperation,
        certificates: &mut Option<CertificateWatch>,
    ) -> Result<NodeReport, Close> {
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
                self.check_changes(*kind, name)?;
                let outcome = match put.remove(kind.name(), name) {
                    true => IdentityChange::Removed,
                    false => IdentityChange::Missing,
                };
                (*kind, name, outcome, *dry_run)
            }
        };
        if put.count() > PUT_MAX {
            return Err(bad(format!(
                "{PUT_MAX} users, tokens and rules were put already; remove some"
            )));
        }
        if outcome != IdentityChange::Missing {
            self.hold_to(put, dry_run, certificates)?;
        }
        Ok(NodeReport::Identity { kind, name: name.clone(), outcome, dry_run })
    }

    /// What was put before gives way to this, unless that is only tried.
    fn hold_to(
        &mut self,
        put: PutIdentities,
        dry_run: bool,
        certificates: &mut Option<CertificateWatch>,
    ) -> Result<(), Close> {
        let refused = |problems: String| bad(problems.replace('\n', "; "));
        let (next, _) =
            self.running.with_put(&put).map_err(|problems| refused(problems.to_string()))?;
        let made = self.make_of(next).map_err(|error| refused(format!("{error:#}")))?;
        if made.changes().iter().any(|change| change.applies != Applies::Now) {
            let reason = "that names a claim that the server is not told of when it asks about logins; put it into the configuration";
            return Err(bad(reason.to_owned()));
        }
        if dry_run {
            return Ok(());
        }
        let not_kept = |error: anyhow::Error| {
            Close::new(CloseCode::StoreUnavailable, format!("nothing has changed: {error:#}"))
        };
        let persistence = self.persistence.as_ref();
        let kept = persistence.ok_or_else(|| anyhow::anyhow!("there is no store"));
        kept.and_then(|store| store.keep(KEPT_AS, put.to_text().as_bytes())).map_err(not_kept)?;
        self.put = put;
        self.apply(made, certificates).map_err(|error| refused(format!("{error:#}")))?;
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
            let secret = secret.as_ref().map(Hidden::expose).or(kept("secret"));
            let secret = secret.ok_or_else(|| {
                bad("a new token needs `secret`: `sha256:` and its hash, as `tiderace password --token` prints it".to_owned())
            })?;
            text("secret", Some(secret.to_owned()));
            text("principal", owned(principal));
            text("host", owned(host));
            text("until", lasts.map(|lasts| until(lasts).to_string()));
            list(&mut entry, "groups", groups);
        }
        NewIdentity::Rule { allow, deny, principals, paths, kind } => {
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

/// The moment so long after now; a second that has begun counts as whole.
fn until(lasts: Span) -> Moment {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_unix(
        now.as_secs()
            .saturating_add(u64::try_from(lasts.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)),
    )
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
    let entries: Vec<IdentityEntry> = tables
        .map(|(index, table)| IdentityEntry {
            number: index as u64 + 1,
            name: table.name().map(Into::into),
            from: table.origin.to_string().into(),
            members: members(auth, kind, index),
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
    let RuleConfig { allow, actions, principals, paths, kind, .. } = rule;
    let actions = actions.iter().map(|action: &Action| action.as_str().into()).collect();
    let who = |who: &PrincipalMatch| match who {
        PrincipalMatch::Anonymous => "anonymous".into(),
        PrincipalMatch::Everybody => "*".into(),
        PrincipalMatch::Group(name) => format!("group:{name}").into(),
        PrincipalMatch::User(name) => format!("user:{name}").into(),
    };
    let paths = paths.iter().map(|path| path.as_str().into()).collect();
    vec![
        (if *allow { "allow" } else { "deny" }, Some(IdentityMember::Texts(actions))),
        ("principals", Some(IdentityMember::Texts(principals.iter().map(who).collect()))),
        ("paths", Some(IdentityMember::Texts(paths))),
        ("kind", Some(IdentityMember::Text(kind.as_str().into()))),
    ]
}
