//! The server that is asked about logins, with the checks that concern several of its options.
//!
//! Relies on `load` having checked each value alone. Invariants: no credentials go over a network in the clear; a server
//! that does not answer lets somebody in only as a user that the file names.

use crate::problem::Problems;
use crate::resolve::{has_host, is_address, is_safe, resolve};
use crate::sections::auth_http::{
    AuthHttpConfig, AuthHttpHeaderSection, AuthHttpSection, Unanswered, UnansweredLogins,
};
use crate::sources::Sources;
use crate::table::{Table, origin_of, single};

/// The server, if there is one and it has no problem.
pub(crate) fn build(
    tables: &[Table],
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<AuthHttpConfig> {
    let section = single(tables, "auth_http", AuthHttpSection::from_values)?;
    let mut headers = Vec::new();
    for table in tables.iter().filter(|table| table.section.name == "auth_http_header") {
        let Some(header) = table.fill(AuthHttpHeaderSection::from_values) else { continue };
        let (name, origin) = (header.name, table.origin_of("value"));
        if !is_field_name(&name) || is_own(&name) {
            let message =
                format!("auth_http_header.name: {name:?} is no name of a field that can be set");
            problems.add(table.origin_of("name"), message);
        }
        let value =
            resolve(&header.value, "auth_http_header.value", origin.clone(), sources, problems);
        if value.as_ref().is_some_and(|value| !is_field_value(value.expose())) {
            let message = format!(
                "auth_http_header.value: {} has a line break or another character that no field may have; it must be one line",
                header.value
            );
            problems.add(origin, message);
        }
        headers.extend(value.map(|value| (name, value)));
        if section.login_url.is_none() {
            let message = "auth_http_header: nobody is asked, so no request has the field; set auth_http.login_url";
            problems.add(table.origin.clone(), message);
        }
    }
    let at = |key: &str| origin_of(tables, key);
    let unanswered = match (section.unanswered, section.unanswered_user) {
        (UnansweredLogins::Allow, Some(user)) => Unanswered::Allow(user, section.unanswered_groups),
        (UnansweredLogins::Allow, None) => {
            let message = "auth_http.unanswered = \"allow\" needs auth_http.unanswered_user, the user that clients are then";
            problems.add(at("auth_http.unanswered"), message);
            return None;
        }
        (UnansweredLogins::Cached, _) => Unanswered::Cached(section.unanswered_time),
        (UnansweredLogins::Deny, _) => Unanswered::Deny,
    };
    let login_url = section.login_url?;
    if !is_address(&login_url) || !is_safe(&login_url) {
        let message = format!(
            "auth_http.login_url: {login_url:?} would have passwords go over the network in the clear, or is no address; use https://, or http:// on this machine"
        );
        problems.add(at("auth_http.login_url"), message);
        return None;
    }
    if !has_host(&login_url) {
        let message = format!(
            "auth_http.login_url: {login_url:?} names no host, or no port from 1 to 65535; write one such as \"https://app.example.org/login\""
        );
        problems.add(at("auth_http.login_url"), message);
        return None;
    }
    if has_credentials(&login_url) {
        let message = "auth_http.login_url: an address with a user or password in it would get into logs; set them by [[auth_http_header]], as \"Authorization\"";
        problems.add(at("auth_http.login_url"), message);
        return None;
    }
    Some(AuthHttpConfig {
        login_url,
        authorities: section.authorities,
        timeout: section.timeout,
        headers,
        in_flight_max: section.in_flight_max,
        waiting_max: section.waiting_max,
        accepted_time: section.accepted_time,
        refused_time: section.refused_time,
        cache_entries_max: section.cache_entries_max,
        unanswered,
        groups: section.groups,
        host: section.host,
    })
}

/// A token of RFC 9110 section 5.6.2.
pub(crate) fn is_field_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// A value of RFC 9110 section 5.5, which could not begin another field.
pub(crate) fn is_field_value(value: &str) -> bool {
    value.bytes().all(|byte| byte == b'\t' || !byte.is_ascii_control())
}

/// Whether somebody is named before the host.
pub(crate) fn has_credentials(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
}

/// Fields that say how the request itself is made.
pub(crate) fn is_own(name: &str) -> bool {
    let own = ["host", "content-length", "content-type", "transfer-encoding", "connection"];
    own.iter().any(|own| own.eq_ignore_ascii_case(name))
}
