//! Users, tokens and rules from their sections, with the checks that concern several of them.
//!
//! Relies on `load` having checked each value alone. Invariant: an entry that cannot be understood makes
//! the configuration fail; it never becomes an entry that lets more people in.

use std::collections::HashSet;

use tiderace_topics::{Pattern, Placeholder};

use crate::problem::{Origin, Problems};
use crate::resolve::resolve;
use crate::secret::SecretSource;
use crate::sections::auth::{
    Action, AuthConfig, AuthSection, PrincipalMatch, RuleConfig, RuleEffect, RuleSection,
    TokenConfig, TokenSecret, TokenSection, UserConfig, UserPassword, UserSection,
};
use crate::sections::tls::TlsConfig;
use crate::sources::Sources;
use crate::suggest;
use crate::table::{Table, origin_of, single};
use crate::{build_auth_http, build_jwt};

/// The section `auth` with its users, tokens and rules.
pub(crate) fn build(
    tables: &[Table],
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<AuthConfig> {
    let section = single(tables, "auth", AuthSection::from_values)?;
    let mut config = AuthConfig {
        allow_anonymous: section.allow_anonymous,
        login_failures_max: section.login_failures_max,
        login_failure_window: section.login_failure_window,
        managed: section.managed,
        users: Vec::new(),
        tokens: Vec::new(),
        jwt: Vec::new(),
        http: build_auth_http::build(tables, sources, problems),
        has_client_names: !single(tables, "tls", TlsConfig::from_values)?.client_names.is_empty(),
        rules: Vec::new(),
    };
    let mut names = HashSet::new();
    for table in tables {
        match table.section.name {
            "jwt" => config.jwt.extend(build_jwt::issuer(table, sources, problems)),
            "user" | "token" | "rule" => identity(&mut config, table, sources, problems),
            _ => continue,
        }
        let name = table.settings.iter().find(|setting| setting.spec.name() == "name");
        if let Some(name) =
            name.filter(|name| !names.insert((name.spec.key, name.value.to_string())))
        {
            let message = format!(
                "there is already a {} {}; names are unique",
                table.section.name, name.value
            );
            problems.add(name.origin.clone(), message);
        }
    }
    check_principals(&config, tables, problems);
    check_some_permission(&config, tables, problems);
    Some(config)
}

/// Adds a user, a token or a rule.
pub(crate) fn identity(
    config: &mut AuthConfig,
    table: &Table,
    sources: &Sources<'_>,
    problems: &mut Problems,
) {
    match table.section.name {
        "user" => config.users.extend(user(table, sources, problems)),
        "token" => config.tokens.extend(token(table, sources, problems)),
        _ => config.rules.extend(rule(table, problems)),
    }
}

fn user(table: &Table, sources: &Sources<'_>, problems: &mut Problems) -> Option<UserConfig> {
    let section = table.fill(UserSection::from_values)?;
    let password = match (section.password_hash, section.password) {
        (Some(SecretSource::Hash(hash)), None) => UserPassword::Hash(hash),
        (Some(source), None) => {
            let origin = table.origin_of("password_hash");
            let hash = resolve(&source, "user.password_hash", origin.clone(), sources, problems)?;
            if !hash.expose().starts_with("$argon2id$") {
                problems.add(
                    origin,
                    format!("user.password_hash: {source} does not hold an argon2id hash"),
                );
                return None;
            }
            UserPassword::Hash(hash.expose().to_owned())
        }
        (None, Some(source)) => {
            let origin = table.origin_of("password");
            UserPassword::Plain(resolve(&source, "user.password", origin, sources, problems)?)
        }
        _ => {
            if !table.refuses(&["password", "password_hash"]) {
                let message = format!(
                    "user {:?} needs exactly one of `password_hash` (from `tiderace password`) and `password`",
                    section.name
                );
                problems.add(table.origin.clone(), message);
            }
            return None;
        }
    };
    let UserSection { name, groups, host, .. } = section;
    let is_put = table.origin == Origin::Put;
    Some(UserConfig { name, password, groups, host, is_put })
}

fn token(table: &Table, sources: &Sources<'_>, problems: &mut Problems) -> Option<TokenConfig> {
    let section = table.fill(TokenSection::from_values)?;
    let origin = table.origin_of("secret");
    let secret = match &section.secret {
        SecretSource::Hash(text) => parse_digest(text).map(TokenSecret::Digest),
        source => {
            let plain = resolve(source, "token.secret", origin.clone(), sources, problems)?;
            match plain.expose().starts_with("sha256:") {
                true => parse_digest(plain.expose()).map(TokenSecret::Digest),
                false => Some(TokenSecret::Plain(plain)),
            }
        }
    };
    let Some(secret) = secret else {
        let message = "token.secret: expected \"sha256:\" and 64 hexadecimal digits, as `tiderace password \
                       --token` prints them";
        problems.add(origin, message);
        return None;
    };
    let principal = section.principal.unwrap_or_else(|| section.name.clone());
    let TokenSection { name, groups, host, until, .. } = section;
    let is_put = table.origin == Origin::Put;
    Some(TokenConfig { name, secret, principal, groups, host, until, is_put })
}

fn rule(table: &Table, problems: &mut Problems) -> Option<RuleConfig> {
    let section = table.fill(RuleSection::from_values)?;
    let principals = principals(table, &section, problems);
    let effect = match (section.allow, section.deny, section.role) {
        (None, None, Some(role)) => {
            check_role(table, problems);
            RuleEffect::Role(role)
        }
        (Some(actions), None, None) => {
            let (paths, kind) = (section.paths, section.kind);
            check_actions(table, ("allow", &actions, &paths), problems);
            RuleEffect::Actions { allow: true, actions, paths, kind }
        }
        (None, Some(actions), None) => {
            let (paths, kind) = (section.paths, section.kind);
            check_actions(table, ("deny", &actions, &paths), problems);
            RuleEffect::Actions { allow: false, actions, paths, kind }
        }
        _ => {
            if !table.refuses(&["allow", "deny", "role"]) {
                let message = "a [[rule]] needs exactly one of `allow`, `deny` and `role`; write a rule for each";
                problems.add(table.origin.clone(), message);
            }
            return None;
        }
    };
    let (name, is_put) = (section.name, table.origin == Origin::Put);
    Some(RuleConfig { name, is_put, principals, effect })
}

/// Whom a rule concerns.
fn principals(
    table: &Table,
    section: &RuleSection,
    problems: &mut Problems,
) -> Vec<PrincipalMatch> {
    let mut principals = Vec::new();
    for text in &section.principals {
        match PrincipalMatch::parse(text) {
            Some(principal) => principals.push(principal),
            None => {
                let message = format!(
                    "rule.principals: {text:?} names nobody; write \"user:NAME\", \"group:NAME\", \
                     \"anonymous\" or \"*\""
                );
                problems.add(table.origin_of("principals"), message);
            }
        }
    }
    check_filled(table, ("principals", section.principals.is_empty()), problems);
    principals
}

/// A role has paths of its own.
fn check_role(table: &Table, problems: &mut Problems) {
    for name in ["paths", "kind"] {
        let origin = table.origin_of(name);
        if origin != Origin::Default {
            let message = format!(
                "rule.{name}: a rule that gives a role has no `{name}`, since the role says where; \
                 write a rule with `allow` for a part of it"
            );
            problems.add(origin, message);
        }
    }
}

/// What is allowed or denied is something, and somewhere.
fn check_actions(
    table: &Table,
    (verb, actions, paths): (&'static str, &[Action], &[Pattern]),
    problems: &mut Problems,
) {
    check_filled(table, (verb, actions.is_empty()), problems);
    check_filled(table, ("paths", paths.is_empty()), problems);
    for path in paths {
        if let Err(unknown) = Placeholder::all_of(path) {
            problems.add(table.origin_of("paths"), format!("rule.paths: {unknown}"));
        }
    }
}

fn check_filled(table: &Table, (name, is_empty): (&'static str, bool), problems: &mut Problems) {
    if is_empty {
        let message = format!(
            "rule.{name}: the list is empty, so the rule would never apply; fill it or remove the rule"
        );
        problems.add(table.origin_of(name), message);
    }
}

/// `sha256:` and 64 hexadecimal digits.
fn parse_digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.strip_prefix("sha256:")?.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let text = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'))?;
        *byte = u8::from_str_radix(text, 16).ok()?;
    }
    Some(digest)
}

/// A rule for a user or group that nobody is in is a slip of the finger.
fn check_principals(config: &AuthConfig, tables: &[Table], problems: &mut Problems) {
    if config.managed || !config.jwt.is_empty() || config.http.is_some() || config.has_client_names
    {
        // Who may log in stands elsewhere.
        return;
    }
    let users = config.users.iter().map(|user| user.name.as_str());
    let users: Vec<&str> =
        users.chain(config.tokens.iter().map(|token| token.principal.as_str())).collect();
    let of_users = config.users.iter().flat_map(|user| &user.groups);
    let groups: Vec<&str> = of_users
        .chain(config.tokens.iter().flat_map(|token| &token.groups))
        .map(String::as_str)
        .collect();
    for table in tables.iter().filter(|table| table.section.name == "rule") {
        let Some(section) = table.fill(RuleSection::from_values) else {
            continue;
        };
        for text in &section.principals {
            let (what, name, known) = match PrincipalMatch::parse(text) {
                Some(PrincipalMatch::User(name)) => ("no user or token is called", name, &users),
                Some(PrincipalMatch::Group(name)) => {
                    ("no user or token belongs to the group", name, &groups)
                }
                _ => continue,
            };
            if !known.contains(&name.as_str()) {
                let near = suggest::did_you_mean(&name, known.iter().copied());
                problems.add(
                    table.origin_of("principals"),
                    format!("rule.principals: {what} `{name}`{near}"),
                );
            }
        }
    }
}

/// With users but without a permission, everybody could log in and nobody could do anything.
fn check_some_permission(config: &AuthConfig, tables: &[Table], problems: &mut Problems) {
    let is_nothing_allowed =
        config.is_enforced() && !config.managed && !config.rules.iter().any(RuleConfig::allows);
    let origin =
        tables.iter().find(|table| matches!(table.section.name, "user" | "token" | "jwt" | "rule"));
    let elsewhere = match config.http {
        Some(_) => origin_of(tables, "auth_http.login_url"),
        None => origin_of(tables, "tls.client_names"),
    };
    if is_nothing_allowed && problems.0.is_empty() {
        let message = "no [[rule]] allows anything, so everything would be refused; add one such as \
                       [[rule]] allow = [\"publish\", \"subscribe\"], principals = [\"*\"], paths = [\"**\"]";
        problems.add(origin.map_or(elsewhere, |table| table.origin.clone()), message);
    }
}
