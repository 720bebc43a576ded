//! The client of a request that proxies have handed on, from the field in which each of them adds whom it serves.
//!
//! Of all entries, in the order in which proxies have added them, the last counts that is not itself trusted: a trusted
//! proxy has written it, or a proxy that it trusts. What stands before is what others say. Invariant: an entry that a
//! client could have written never decides, and one that would decide and is no address is refused.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tiderace_base::Networks;

/// The field that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientField {
    /// `Forwarded` (RFC 7239).
    Forwarded,
    /// `X-Forwarded-For`.
    XForwardedFor,
}

/// The entry that would name the client is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} names no client: {entry:?} is no IP address")]
pub struct ForwardedError {
    field: &'static str,
    entry: String,
}

impl ClientField {
    /// Its name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            ClientField::Forwarded => "forwarded",
            ClientField::XForwardedFor => "x-forwarded-for",
        }
    }
}

/// The client of a request that came from a trusted `peer`, by the fields of that request in their order; the peer itself
/// if no field of that name is there, or all are empty. Without a port in the entry the port is 0.
///
/// # Errors
/// If the entry that decides is no address.
pub fn client_of<'a>(
    field: ClientField,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    trusted: &Networks,
    peer: SocketAddr,
) -> Result<SocketAddr, ForwardedError> {
    let mut found = Found::Nothing;
    for (_, value) in fields.filter(|(name, _)| name.eq_ignore_ascii_case(field.name())) {
        match field {
            ClientField::XForwardedFor => {
                let entries = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                for entry in entries.filter(|entry| !entry.is_empty()) {
                    found.add(entry, address(entry, true), trusted);
                }
            }
            ClientField::Forwarded => {
                for element in Elements(value) {
                    found.add(element, forwarded_for(element), trusted);
                }
            }
        }
    }
    match found {
        Found::Nothing => Ok(peer),
        Found::Client(client) | Found::Trusted(client) => Ok(client),
        Found::Malformed(entry) => {
            let shown = String::from_utf8_lossy(entry).chars().take(SHOWN_MAX).collect();
            Err(ForwardedError { field: field.name(), entry: shown })
        }
    }
}

/// What the entries so far amount to.
enum Found<'a> {
    Nothing,
    /// The last one that is not trusted.
    Client(SocketAddr),
    /// All are trusted; the first.
    Trusted(SocketAddr),
    /// The last one that is not trusted, and is no address.
    Malformed(&'a [u8]),
}

impl<'a> Found<'a> {
    fn add(&mut self, entry: &'a [u8], address: Option<SocketAddr>, trusted: &Networks) {
        *self = match (address, &self) {
            (None, _) => Found::Malformed(entry),
            (Some(address), _) if !trusted.contains(address.ip()) => Found::Client(address),
            (Some(address), Found::Nothing) => Found::Trusted(address),
            (Some(_), _) => return,
        };
    }
}

/// The elements of a `Forwarded` field: what commas separate that are not within quotes.
struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            if self.0.is_empty() {
                return None;
            }
            let (element, rest) = cut(self.0, b',');
            self.0 = rest;
            let element = element.trim_ascii();
            if !element.is_empty() {
                return Some(element);
            }
        }
    }
}

/// What stands before the first such byte outside of quotes, and what stands behind it.
fn cut(bytes: &[u8], at: u8) -> (&[u8], &[u8]) {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (index, byte) in bytes.iter().enumerate() {
        match *byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            byte if byte == at && !is_quoted => {
                let rest = bytes.get(index + 1..).unwrap_or_default();
                return (bytes.get(..index).unwrap_or_default(), rest);
            }
            _ => {}
        }
    }
    (bytes, &[])
}

/// Whether a quote that has begun does not end.
fn ends_within_quotes(bytes: &[u8]) -> bool {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for byte in bytes {
        match *byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            _ => {}
        }
    }
    is_quoted
}

/// The address of an element's `for`, if it has one such, and that is an address.
fn forwarded_for(element: &[u8]) -> Option<SocketAddr> {
    if ends_within_quotes(element) {
        // Whatever a proxy has added behind the quote would be a part of what its client wrote.
        return None;
    }
    let (mut rest, mut found) = (element, None);
    while !rest.is_empty() {
        let (pair, behind) = cut(rest, b';');
        rest = behind;
        let pair = pair.trim_ascii();
        if pair.is_empty() {
            continue;
        }
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (pair.get(..equals)?, pair.get(equals + 1..)?);
        if !name.eq_ignore_ascii_case(b"for") {
            continue;
        }
        if found.is_some() {
            return None;
        }
        found = Some(match value.strip_prefix(b"\"") {
            Some(quoted) => quoted.strip_suffix(b"\"")?,
            None => value,
        });
    }
    // What stands within quotes needs no escapes if it is an address.
    address(found?, false)
}

/// An address with or without a port. One of IPv6 stands in brackets, but where `is_bare` it need not.
fn address(entry: &[u8], is_bare: bool) -> Option<SocketAddr> {
    let text = std::str::from_utf8(entry).ok()?;
    let (ip, port) = if let Some(rest) = text.strip_prefix('[') {
        let (ip, behind) = rest.split_once(']')?;
        let port = if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) };
        (IpAddr::V6(ip.parse::<Ipv6Addr>().ok()?), port)
    } else if is_bare && let Ok(ip) = text.parse::<Ipv6Addr>() {
        (IpAddr::V6(ip), None)
    } else {
        let (ip, port) = match text.split_once(':') {
            Some((ip, port)) => (ip, Some(port)),
            None => (text, None),
        };
        (IpAddr::V4(ip.parse().ok()?), port)
    };
    let port = match port {
        None => 0,
        // RFC 7239 section 6.3: a proxy may keep it to itself.
        Some(hidden) if hidden.starts_with('_') => 0,
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => port.parse().ok()?,
        Some(_) => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Characters of an entry that are shown.
const SHOWN_MAX: usize = 60;
