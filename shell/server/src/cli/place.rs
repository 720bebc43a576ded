//! Where a server is, as people write it: `example.org`, `example.org:7800`, `https://example.org`, `unix:/run/tiderace/admin.sock`.
//!
//! Pure. Invariant: a scheme that is written gets what it means, in plain text or over TLS, or is refused.

use std::path::PathBuf;
use std::str::FromStr;

/// Where the packages have the admin socket.
const ADMIN_SOCKET: &str = "/run/tiderace/admin.sock";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A host.
    Host(HostPlace),
    /// A Unix socket.
    Socket(PathBuf),
}

/// Where a server is in a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostPlace {
    pub(super) host: String,
    /// The port, if one is written.
    pub(super) port: Option<u16>,
    /// The scheme, if there is one.
    pub(super) scheme: Option<Scheme>,
}

/// What stands before `://`. All protocols are on the same port, so it says only whether it is secured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheme {
    pub(super) name: &'static str,
    pub(super) is_secured: bool,
    /// The port where none is told.
    pub(super) port: Option<u16>,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        match text.strip_prefix("unix:") {
            Some(rest) => socket(rest).map(Place::Socket),
            None => text.parse().map(Place::Host),
        }
    }
}

/// A Unix socket by its path; nothing is the place where the packages have it.
fn socket(rest: &str) -> Result<PathBuf, String> {
    match rest.strip_prefix("//").unwrap_or(rest) {
        "" => Ok(PathBuf::from(ADMIN_SOCKET)),
        path if path.starts_with('/') => Ok(PathBuf::from(path)),
        _ => Err(format!("write the whole path of the socket, such as unix:{ADMIN_SOCKET}")),
    }
}

impl FromStr for HostPlace {
    type Err = String;

    fn from_str(text: &str) -> Result<HostPlace, String> {
        let (scheme, rest) = match text.split_once("://") {
            None => (None, text),
            Some((name, rest)) => {
                let found = SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name));
                let names = SCHEMES.map(|scheme| scheme.name).join("://, ");
                let scheme = found.ok_or(format!("write one of {names}://, or unix:/PATH"))?;
                (Some(*scheme), rest.strip_suffix('/').unwrap_or(rest))
            }
        };
        if rest.contains(['/', '?', '#', '@']) {
            return Err("write host and port only, such as https://example.org:7800".to_owned());
        }
        let (host, port) = split(rest)?;
        if host.is_empty() {
            return Err("write a host, such as example.org".to_owned());
        }
        Ok(HostPlace { host: host.to_owned(), port, scheme })
    }
}

/// Host and port; the address of a host may have colons of its own.
fn split(text: &str) -> Result<(&str, Option<u16>), String> {
    let (host, port) = match text.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, rest)) => match rest.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return Err("write a colon before the port, as in [::1]:7800".to_owned()),
            },
            None => return Err("a bracket is open; write it as [::1]:7800".to_owned()),
        },
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let number = port.map(str::parse).transpose();
    let number = number.map_err(|_| format!("{:?} is no port", port.unwrap_or_default()))?;
    Ok((host, number))
}

const fn scheme(name: &'static str, is_secured: bool, port: Option<u16>) -> Scheme {
    Scheme { name, is_secured, port }
}

const SCHEMES: [Scheme; 6] = [
    scheme("tls", true, None),
    scheme("https", true, Some(443)),
    scheme("wss", true, Some(443)),
    scheme("tcp", false, None),
    scheme("http", false, Some(80)),
    scheme("ws", false, Some(80)),
];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_in_many_ways() {
        for (text, host, port, secured) in [
            ("localhost", "localhost", None, None),
            ("localhost:7801", "localhost", Some(7801), None),
            ("::1", "::1", None, None),
            ("[::1]", "::1", None, None),
            ("[::1]:7801", "::1", Some(7801), None),
            ("tls://example.org", "example.org", None, Some(true)),
            ("https://example.org/", "example.org", None, Some(true)),
            ("HTTPS://example.org:7800", "example.org", Some(7800), Some(true)),
            ("wss://[::1]:7800", "::1", Some(7800), Some(true)),
            ("tcp://example.org:1", "example.org", Some(1), Some(false)),
            ("http://127.0.0.1:7800/", "127.0.0.1", Some(7800), Some(false)),
            ("ws://a", "a", None, Some(false)),
        ] {
            let place: HostPlace = text.parse().unwrap();
            assert_eq!(text.parse(), Ok(Place::Host(place.clone())));
            let found = place.scheme.map(|scheme| scheme.is_secured);
            assert_eq!((&*place.host, place.port, found), (host, port, secured), "{text}");
        }
        for (text, path) in [
            ("unix:", "/run/tiderace/admin.sock"),
            ("unix:/tmp/a.sock", "/tmp/a.sock"),
            ("unix:///tmp/a.sock", "/tmp/a.sock"),
        ] {
            assert_eq!(text.parse(), Ok(Place::Socket(path.into())), "{text}");
        }
    }

    #[test]
    fn what_is_no_place_says_how_to_write_one() {
        for (text, expected) in [
            ("", "write a host"),
            ("https://", "write a host"),
            (":7800", "write a host"),
            ("ftp://a", "write one of tls://, https://, wss://, tcp://, http://, ws://"),
            ("https://a/tiderace", "host and port only"),
            ("https://ann:pw@a", "host and port only"),
            ("a/b", "host and port only"),
            ("a:x", "\"x\" is no port"),
            ("a:70000", "\"70000\" is no port"),
            ("[::1", "a bracket is open"),
            ("[::1]7800", "write a colon"),
            ("unix:admin.sock", "write the whole path"),
            ("unix://host/admin.sock", "write the whole path"),
        ] {
            let error = text.parse::<Place>().unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
