//! Which web pages may connect (RFC 6455 sections 4.2.2 and 10.2).
//!
//! Relies on browsers to send an honest `Origin`; other clients send none and are let through,
//! because the check protects users of browsers, not the server from programs. Invariant: an
//! origin that does not parse is never allowed, except by `Any`.

use std::net::{Ipv4Addr, Ipv6Addr};

/// Which origins a listener accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum OriginPolicy {
    /// The origin's host and port are those of the `Host` header.
    #[default]
    SameHost,
    /// Every origin. Only for services that do not rely on ambient credentials.
    Any,
    /// Only these origins.
    List {
        /// The origins; any one of them suffices.
        patterns: Vec<OriginPattern>,
        /// Whether what [`Self::SameHost`] accepts is accepted as well.
        same_host: bool,
        /// Whether pages of this machine are, whatever their port: of `localhost`, 127.0.0.0/8 and `[::1]`.
        loopback: bool,
    },
}

/// An origin, `https://app.example.com`, or all subdomains of one, `https://*.example.com`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginPattern {
    scheme: String,
    /// With wildcard: the suffix including its leading dot.
    host: String,
    port: Option<u16>,
    wildcard: bool,
}

/// Why a pattern in the configuration is not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is scheme://host, scheme://host:port or scheme://*.host, with nothing after it")]
pub struct OriginPatternError;

impl OriginPolicy {
    /// Whether a request with this `Origin`, addressed to this `Host`, may go on.
    #[must_use]
    pub fn allows(&self, origin: Option<&[u8]>, host: &[u8]) -> bool {
        let Some(origin) = origin else {
            return true;
        };
        if matches!(self, Self::Any) {
            return true;
        }
        let Some(origin) = Origin::parse(origin) else {
            return false;
        };
        match self {
            Self::Any => true,
            Self::List { patterns, same_host, loopback } => {
                patterns.iter().any(|pattern| pattern.matches(&origin))
                    || (*same_host && origin.is_of(host))
                    || (*loopback && origin.is_loopback())
            }
            Self::SameHost => origin.is_of(host),
        }
    }
}

impl OriginPattern {
    /// Reads one pattern.
    ///
    /// # Errors
    ///
    /// When it is not an origin, or the `*` is not the whole first label.
    pub fn parse(pattern: &str) -> Result<Self, OriginPatternError> {
        let origin = Origin::parse(pattern.as_bytes()).ok_or(OriginPatternError)?;
        let (host, wildcard) = match origin.host.strip_prefix(b"*") {
            Some(suffix) if suffix.len() > 1 && suffix.starts_with(b".") => (suffix, true),
            Some(_) => return Err(OriginPatternError),
            None => (origin.host, false),
        };
        if host.contains(&b'*') {
            return Err(OriginPatternError);
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).to_ascii_lowercase();
        Ok(Self { scheme: text(origin.scheme), host: text(host), port: origin.port, wildcard })
    }

    fn matches(&self, origin: &Origin<'_>) -> bool {
        let default = default_port(origin.scheme);
        if !self.scheme.as_bytes().eq_ignore_ascii_case(origin.scheme)
            || self.port.or(default) != origin.port.or(default)
        {
            return false;
        }
        let suffix = self.host.as_bytes();
        if !self.wildcard {
            return suffix.eq_ignore_ascii_case(origin.host);
        }
        // Something must stand before the dot: the bare domain is not its own subdomain.
        let start = origin.host.len().saturating_sub(suffix.len());
        start > 0 && origin.host.get(start..).is_some_and(|tail| tail.eq_ignore_ascii_case(suffix))
    }
}

impl std::str::FromStr for OriginPattern {
    type Err = OriginPatternError;

    fn from_str(pattern: &str) -> Result<Self, Self::Err> {
        Self::parse(pattern)
    }
}

/// A parsed origin (RFC 6454 section 6.2): nothing may follow the port.
struct Origin<'a> {
    scheme: &'a [u8],
    host: &'a [u8],
    port: Option<u16>,
}

impl<'a> Origin<'a> {
    fn parse(origin: &'a [u8]) -> Option<Self> {
        let colon = origin.iter().position(|byte| *byte == b':')?;
        let (scheme, rest) = origin.split_at_checked(colon)?;
        let scheme_ok = scheme.first().is_some_and(u8::is_ascii_alphabetic)
            && scheme
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'));
        let (host, port) = split_port(rest.strip_prefix(b"://")?)?;
        scheme_ok.then_some(Self { scheme, host, port })
    }

    /// Whether a program of this machine serves the page.
    fn is_loopback(&self) -> bool {
        let is_web = [&b"http"[..], b"https"].iter().any(|it| self.scheme.eq_ignore_ascii_case(it));
        let host = std::str::from_utf8(self.host).unwrap_or_default();
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_here = match bare {
            Some(address) => address.parse::<Ipv6Addr>().is_ok_and(|it| it.is_loopback()),
            None => {
                host.eq_ignore_ascii_case("localhost")
                    || host.parse::<Ipv4Addr>().is_ok_and(|it| it.is_loopback())
            }
        };
        is_web && is_here
    }

    /// Whether a `Host` header names this origin's host and port.
    fn is_of(&self, host: &[u8]) -> bool {
        split_port(host).is_some_and(|(host, port)| {
            let default = default_port(self.scheme);
            host.eq_ignore_ascii_case(self.host) && port.or(default) == self.port.or(default)
        })
    }
}

/// Splits `host[:port]`; `None` when either part is malformed.
fn split_port(authority: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let host_len = if authority.starts_with(b"[") {
        authority.iter().position(|byte| *byte == b']')? + 1
    } else {
        authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at_checked(host_len)?;
    let host_ok = !host.is_empty()
        && host.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-._~*[:]%".contains(byte));
    let port = match rest {
        [] => None,
        [b':', digits @ ..] => Some(parse_port(digits)?),
        _ => return None,
    };
    host_ok.then_some((host, port))
}

fn parse_port(digits: &[u8]) -> Option<u16> {
    if digits.is_empty() || digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn default_port(scheme: &[u8]) -> Option<u16> {
    if scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"ws") {
        Some(80)
    } else if scheme.eq_ignore_ascii_case(b"https") || scheme.eq_ignore_ascii_case(b"wss") {
        Some(443)
    } else {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn list(patterns: &[&str]) -> OriginPolicy {
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        OriginPolicy::List { patterns, same_host: false, loopback: false }
    }

    #[test]
    fn programs_without_origin_pass_every_policy() {
        for policy in [OriginPolicy::SameHost, OriginPolicy::Any, list(&[])] {
            assert!(policy.allows(None, b"example.com"));
        }
    }

    #[test]
    fn same_host_compares_host_and_effective_port() {
        let policy = OriginPolicy::default();
        for (origin, host) in [
            ("http://example.com", "example.com"),
            ("https://example.com", "example.com:443"),
            ("https://EXAMPLE.com:443", "example.com"),
            ("http://localhost:7800", "localhost:7800"),
            ("http://[::1]:7800", "[::1]:7800"),
        ] {
            assert!(policy.allows(Some(origin.as_bytes()), host.as_bytes()), "{origin} {host}");
        }
        for (origin, host) in [
            ("http://evil.example", "example.com"),
            ("http://example.com.evil.example", "example.com"),
            ("http://example.com:8080", "example.com"),
            ("http://localhost:3000", "localhost:7800"),
            ("null", "null"),
            ("", ""),
            ("http://", ""),
            ("http://example.com/", "example.com/"),
            ("http://user@example.com", "example.com"),
            ("http://example.com:", "example.com"),
            ("http://example.com:99999", "example.com:99999"),
            ("http://[::1", "[::1"),
            ("http://[::1]x", "[::1]"),
            ("://example.com", "example.com"),
        ] {
            assert!(!policy.allows(Some(origin.as_bytes()), host.as_bytes()), "{origin} {host}");
        }
    }

    #[test]
    fn pages_of_this_machine_are_told_by_their_host_alone() {
        let policy = OriginPolicy::List { patterns: vec![], same_host: false, loopback: true };
        let allows = |origin: &str| policy.allows(Some(origin.as_bytes()), b"127.0.0.1:7800");
        for origin in [
            "http://localhost:5173",
            "https://LOCALHOST",
            "http://127.0.0.1:8000",
            "http://127.9.9.9",
            "http://[::1]:3000",
            "http://[0:0:0:0:0:0:0:1]",
        ] {
            assert!(allows(origin), "{origin}");
        }
        for origin in [
            "http://localhost.evil.example",
            "http://evil.localhost",
            "http://127.0.0.1.evil.example",
            "http://evil.example",
            "http://192.168.0.1",
            "http://[::2]",
            "http://[::1].evil.example",
            "http://127.1",
            "file://localhost",
            "null",
            "",
        ] {
            assert!(!allows(origin), "{origin}");
        }
        assert!(!list(&[]).allows(Some(b"http://localhost:5173"), b"x"));
    }

    #[test]
    fn lists_match_exactly_or_by_subdomain() {
        let policy = list(&["https://app.example.org", "https://*.example.com", "http://a:81"]);
        for origin in [
            "https://app.example.org",
            "https://app.example.org:443",
            "https://a.example.com",
            "https://a.b.EXAMPLE.com",
            "http://a:81",
        ] {
            assert!(policy.allows(Some(origin.as_bytes()), b"x"), "{origin}");
        }
        for origin in [
            "http://app.example.org",
            "https://example.com",
            "https://.example.com",
            "https://evilexample.com",
            "https://a.example.com.evil.example",
            "https://a.example.com:8443",
            "http://a",
            "null",
        ] {
            assert!(!policy.allows(Some(origin.as_bytes()), b"x"), "{origin}");
        }
    }

    #[test]
    fn lists_take_the_same_host_only_if_told() {
        let patterns = vec!["https://app.example.org".parse().unwrap()];
        for same_host in [true, false] {
            let policy =
                OriginPolicy::List { patterns: patterns.clone(), same_host, loopback: false };
            let allows = |origin: &str| policy.allows(Some(origin.as_bytes()), b"example.com:7800");
            assert!(allows("https://app.example.org"));
            assert_eq!(allows("http://example.com:7800"), same_host);
            assert!(!allows("http://example.com"), "another port is another origin");
            assert!(!allows("https://evil.example"));
            assert!(!allows("null"));
        }
    }

    #[test]
    fn patterns_that_would_surprise_are_refused() {
        for pattern in
            ["example.com", "https://*", "https://*.", "https://a.*.com", "https://*a.com", "*", ""]
        {
            assert_eq!(OriginPattern::parse(pattern), Err(OriginPatternError), "{pattern}");
        }
    }
}
