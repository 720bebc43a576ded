//! The request line and its target (RFC 9112 section 3).
//!
//! Relies on the scanner for a line without its end. Invariant: a target that passes is printable
//! ASCII in one of the forms an origin server serves, and its parts are slices of it.

use crate::error::HttpError;
use crate::fields::is_token;
use crate::limits::Limits;

/// The parts of a request target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target<'a> {
    /// Present in absolute-form only.
    pub(crate) authority: Option<&'a str>,
    pub(crate) path: &'a str,
    pub(crate) query: Option<&'a str>,
}

/// Judges the first line as soon as it is whole.
///
/// # Errors
///
/// The most telling [`HttpError`]: another protocol's first line is recognised as such.
pub(crate) fn check_request_line(limits: &Limits, line: &[u8]) -> Result<(), HttpError> {
    if line == b"PRI * HTTP/2.0" {
        return Err(HttpError::Http2Preface);
    }
    let mut parts = line.split(|byte| *byte == b' ');
    let (method, target) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if !is_token(method) || target.is_empty() {
        return Err(HttpError::RequestLineInvalid);
    }
    match (parts.next(), parts.next()) {
        (Some(b"HTTP/1.1" | b"HTTP/1.0"), None) => {}
        // HTTP/0.9 has no version and no headers.
        (None, _) => return Err(HttpError::VersionUnsupported),
        (Some([b'H', b'T', b'T', b'P', b'/', major, b'.', minor]), None)
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            return Err(HttpError::VersionUnsupported);
        }
        _ => return Err(HttpError::RequestLineInvalid),
    }
    if target.len() > limits.target_bytes_max {
        return Err(HttpError::TargetTooLong);
    }
    if method == b"CONNECT" {
        return Err(HttpError::MethodConnect);
    }
    Target::parse(method == b"OPTIONS", target).map(|_| ())
}

impl<'a> Target<'a> {
    /// Splits a target in origin-form, absolute-form or, for OPTIONS, asterisk-form
    /// (RFC 9112 sections 3.2.1, 3.2.2 and 3.2.4).
    pub(crate) fn parse(is_options: bool, target: &'a [u8]) -> Result<Self, HttpError> {
        // A fragment is never sent (RFC 9110 section 7.1).
        if !target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#') {
            return Err(HttpError::TargetInvalid);
        }
        let target = std::str::from_utf8(target).map_err(|_| HttpError::TargetInvalid)?;
        if target == "*" {
            return if is_options {
                Ok(Self { authority: None, path: "*", query: None })
            } else {
                Err(HttpError::TargetInvalid)
            };
        }
        if target.starts_with('/') {
            let (path, query) = split_query(target);
            return Ok(Self { authority: None, path, query });
        }
        let (authority, rest) = split_absolute(target).ok_or(HttpError::TargetInvalid)?;
        if authority.is_empty() || !authority_valid(authority.as_bytes()) {
            return Err(HttpError::TargetInvalid);
        }
        let (path, query) = split_query(rest);
        let path = if path.is_empty() { "/" } else { path };
        Ok(Self { authority: Some(authority), path, query })
    }
}

/// Whether the bytes are `host[:port]` without user information (RFC 3986 section 3.2).
pub(crate) fn authority_valid(authority: &[u8]) -> bool {
    let host_len = if authority.first() == Some(&b'[') {
        match authority.iter().position(|byte| *byte == b']') {
            Some(close) => close + 1,
            None => return false,
        }
    } else {
        authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len())
    };
    let Some((host, port)) = authority.split_at_checked(host_len) else {
        return false;
    };
    let host_ok = match host {
        [b'[', address @ .., b']'] => {
            address.iter().all(|byte| byte.is_ascii_alphanumeric() || b":.".contains(byte))
                && !address.is_empty()
        }
        name => name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%".contains(byte)),
    };
    let port_ok = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host_ok && port_ok
}

fn split_query(target: &str) -> (&str, Option<&str>) {
    match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (target, None),
    }
}

/// The authority of an absolute-form target and what follows it.
fn split_absolute(target: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = target.split_once("://")?;
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    rest.split_at_checked(end)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_split_by_form() {
        for (target, authority, path, query) in [
            ("/", None, "/", None),
            ("/a/b?c=d?e", None, "/a/b", Some("c=d?e")),
            ("/?", None, "/", Some("")),
            ("//x", None, "//x", None),
            ("http://h/a?b", Some("h"), "/a", Some("b")),
            ("HTTPS://h:1", Some("h:1"), "/", None),
            ("http://[::1]:80?q", Some("[::1]:80"), "/", Some("q")),
        ] {
            let parsed = Target::parse(false, target.as_bytes()).unwrap();
            assert_eq!(parsed, Target { authority, path, query }, "{target}");
        }
        assert_eq!(Target::parse(true, b"*").unwrap().path, "*");
    }

    #[test]
    fn other_targets_are_refused() {
        for target in
            ["*", "a", "ftp://h/", "http://", "http:///a", "http://u@h/", "/a#b", "/\u{e9}", "h:80"]
        {
            let parsed = Target::parse(false, target.as_bytes());
            assert_eq!(parsed, Err(HttpError::TargetInvalid), "{target}");
        }
    }
}
