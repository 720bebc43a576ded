//! From where a secret is to the secret; and whether what comes from an address, or goes there, is safe on its way.
//!
//! Relies on the sources for files and the environment. Invariant: an empty secret is a problem, not a secret.

use std::path::Path;

use crate::problem::{Origin, Problems};
use crate::secret::{Secret, SecretSource};
use crate::sources::Sources;

/// Reads the secret a reference points to.
pub(crate) fn resolve(
    source: &SecretSource,
    key: &str,
    origin: Origin,
    sources: &Sources<'_>,
    problems: &mut Problems,
) -> Option<Secret> {
    let text = match source {
        SecretSource::Environment(name) => {
            let value = sources.environment.iter().find(|(variable, _)| variable == name);
            value
                .map(|(_, value)| value.clone())
                .ok_or_else(|| "the variable is not set".to_owned())
        }
        SecretSource::File(path) => {
            (sources.read_secret)(Path::new(path)).map_err(|error| error.to_string())
        }
        SecretSource::Hash(text) => Ok(text.clone()),
    };
    match text {
        // Editors end a file with a line break that is not part of the secret.
        Ok(text) if !text.trim_end_matches(['\r', '\n']).is_empty() => {
            Some(Secret::new(text.trim_end_matches(['\r', '\n'])))
        }
        Ok(_) => {
            problems.add(origin, format!("{key}: {source} is empty; put the secret there"));
            None
        }
        Err(reason) => {
            problems.add(origin, format!("{key}: {source} cannot be read: {reason}"));
            None
        }
    }
}

/// Whether a place is an address, and not a file.
pub(crate) fn is_address(place: &str) -> bool {
    place.starts_with("https://") || place.starts_with("http://")
}

/// Whether an address names a host, and a port that can be one, if any.
pub(crate) fn has_host(address: &str) -> bool {
    let authority = authority_of(address.split_once("://").map_or(address, |(_, rest)| rest));
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let (host, behind) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((host, behind)) if host.parse::<std::net::Ipv6Addr>().is_ok() => (host, behind),
            _ => return false,
        },
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    let is_strange = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control();
    !host.is_empty()
        && !host.bytes().any(is_strange)
        && (behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port))
}

fn authority_of(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// A file, an address with TLS, or one of this machine.
pub(crate) fn is_safe(place: &str) -> bool {
    let Some(rest) = place.strip_prefix("http://") else { return true };
    let host = authority_of(rest);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let is_near = name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    name == "localhost" || is_near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_a_host() {
        for good in
            ["https://a", "https://a:1/x", "http://[::1]:80?x", "https://me@a.example.org#x"]
        {
            assert!(has_host(good), "{good}");
        }
        for bad in [
            "https://",
            "https:///x",
            "http://?x",
            "https://:443",
            "https://a:",
            "https://a:0",
            "https://a:70000",
            "https://[a]",
            "https://[::1",
            "https://a b",
        ] {
            assert!(!has_host(bad), "{bad}");
        }
    }

    #[test]
    fn keys_come_in_the_clear_from_this_machine_alone() {
        for safe in [
            "keys.json",
            "https://id.example.org/keys",
            "http://localhost:8080/keys",
            "http://127.0.0.1/keys",
            "http://[::1]:80/keys",
        ] {
            assert!(is_safe(safe), "{safe}");
        }
        for unsafe_place in [
            "http://id.example.org/keys",
            "http://127.0.0.1.example.org/keys",
            "http://localhost@example.org/keys",
            "http://[::2]/keys",
        ] {
            assert!(!is_safe(unsafe_place), "{unsafe_place}");
        }
    }
}
