//! Where an upstream listens: `wss://HOST[:PORT][/PATH]` or the like, taken apart once.
//!
//! A server speaks all protocols on one port, so a scheme says whether the connection is secured, and which port is meant
//! where none is named. A pure function of the text, which comes from the configuration. Invariant: what is read goes unchanged into the head
//! of a request and cannot add a line to it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// The address of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    scheme: Scheme,
    /// As in the text, without the brackets of IPv6.
    host: String,
    port: u16,
    /// Empty if none is named.
    path: String,
    /// What the head of a request calls the host.
    authority: String,
}

/// Why a text is no address of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// It begins otherwise.
    #[error(
        "{0:?} begins with none of wss://, https:// and tls:// (secured) and ws://, http:// and tcp:// (plain text)"
    )]
    Scheme(String),
    /// It has no host, or one that cannot be.
    #[error(
        "{0:?} names no host: after the scheme comes a name, an IPv4 address, or an IPv6 address in brackets"
    )]
    Host(String),
    /// The port is none.
    #[error("{0:?} has no port between 1 and 65535 behind the colon")]
    Port(String),
    /// Behind the host stands what has no place there.
    #[error(
        "{0:?} has more than host, port and path: name a user and a token by options of their own, not in the address"
    )]
    More(String),
}

impl UpstreamUrl {
    /// Whether the connection is secured by TLS.
    pub fn is_secure(&self) -> bool {
        self.scheme.is_secure
    }

    /// The host, without the brackets of IPv6.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The address with its port, if the host is one and no name.
    pub fn address(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The path, if one is named.
    pub fn path(&self) -> Option<&str> {
        (!self.path.is_empty()).then_some(&self.path)
    }

    /// What the field `Host` of a request says.
    pub fn authority(&self) -> &str {
        &self.authority
    }
}

impl FromStr for UpstreamUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<UpstreamUrl, UrlError> {
        let whole = || text.to_owned();
        let found = text.split_once("://").and_then(|(name, rest)| {
            let scheme = SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))?;
            Some((*scheme, rest))
        });
        let (scheme, rest) = found.ok_or_else(|| UrlError::Scheme(whole()))?;
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
        if authority.contains(['@', '?', '#']) || path.contains(['?', '#']) || !is_plain(path) {
            return Err(UrlError::More(whole()));
        }
        let is_bracketed = authority.starts_with('[');
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(|| UrlError::Host(whole()))?,
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_host = if is_bracketed {
            matches!(host.parse(), Ok(IpAddr::V6(_)))
        } else {
            !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.bytes().all(is_of_host)
        };
        if !is_host {
            return Err(UrlError::Host(whole()));
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => scheme.port,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| UrlError::Port(whole()))?,
            _ => return Err(UrlError::Port(whole())),
        };
        Ok(UpstreamUrl {
            scheme,
            host: host.to_owned(),
            port,
            path: if path == "/" { String::new() } else { path.to_owned() },
            authority: authority.to_owned(),
        })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", self.scheme.name, self.authority, self.path)
    }
}

fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

/// What stands before `://`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scheme {
    name: &'static str,
    is_secure: bool,
    /// The port where none is named.
    port: u16,
}

const SCHEMES: [Scheme; 6] = [
    Scheme { name: "wss", is_secure: true, port: 443 },
    Scheme { name: "https", is_secure: true, port: 443 },
    Scheme { name: "tls", is_secure: true, port: UPSTREAM_PORT },
    Scheme { name: "ws", is_secure: false, port: 80 },
    Scheme { name: "http", is_secure: false, port: 80 },
    Scheme { name: "tcp", is_secure: false, port: UPSTREAM_PORT },
];

/// Where servers listen unless they are told otherwise.
const UPSTREAM_PORT: u16 = 7800;

/// The longest name of a host (RFC 1035 section 2.3.4).
const HOST_BYTES_MAX: usize = 253;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, secure, host, port, path) in [
            ("ws://source", false, "source", 80, None),
            ("wss://src-a.example:7800", true, "src-a.example", 7800, None),
            ("WSS://127.0.0.1/", true, "127.0.0.1", 443, None),
            ("https://source", true, "source", 443, None),
            ("tls://source", true, "source", 7800, None),
            ("http://source", false, "source", 80, None),
            ("TCP://source", false, "source", 7800, None),
            ("ws://[::1]:7800/shop/tiderace", false, "::1", 7800, Some("/shop/tiderace")),
        ] {
            let url: UpstreamUrl = text.parse().unwrap();
            assert_eq!(
                (url.is_secure(), url.host(), url.port(), url.path()),
                (secure, host, port, path)
            );
        }
        let url: UpstreamUrl = "ws://[::1]:7800".parse().unwrap();
        assert_eq!(url.address(), Some("[::1]:7800".parse().unwrap()));
        assert_eq!(
            (url.authority(), url.to_string()),
            ("[::1]:7800", "ws://[::1]:7800".to_owned())
        );
        assert_eq!("ws://a".parse::<UpstreamUrl>().unwrap().address(), None);
    }

    #[test]
    fn what_is_wrong_is_said() {
        let wrong = |text: &str| text.parse::<UpstreamUrl>().unwrap_err();
        for text in ["", "source:7800", "ftp://source", "stomp://a"] {
            assert_eq!(wrong(text), UrlError::Scheme(text.to_owned()));
        }
        for text in ["ws://", "ws://:80", "ws://[1.2.3.4]", "ws://[::1", "ws://a b", "wss://a\r\nb"]
        {
            assert_eq!(wrong(text), UrlError::Host(text.to_owned()));
        }
        for text in
            ["ws://a:", "ws://a:0", "ws://a:65536", "ws://a:+1", "ws://[::1]x", "ws://a:1:2"]
        {
            assert_eq!(wrong(text), UrlError::Port(text.to_owned()));
        }
        for text in ["ws://ann:pw@a", "ws://a?x=1", "ws://a/b#c", "ws://a/ b"] {
            assert_eq!(wrong(text), UrlError::More(text.to_owned()));
        }
    }

    proptest! {
        #[test]
        fn what_is_read_is_written_back_and_is_one_line(
            text in prop_oneof!["(wss?|tcp|https)://[a-z:/0-9.@\\[\\]?# \r\n]{0,40}", "\\PC{0,40}"],
        ) {
            if let Ok(url) = text.parse::<UpstreamUrl>() {
                prop_assert_eq!(&url.to_string().parse::<UpstreamUrl>().unwrap(), &url);
                let path = url.path().unwrap_or("/");
                let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
                prop_assert!(is_plain(url.authority()) && is_plain(path));
            }
        }
    }
}
