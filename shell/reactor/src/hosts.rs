//! Under which names requests are answered, where nobody has to log in.
//!
//! A page that the developer opens can have its own name lead to 127.0.0.1 (DNS rebinding). To the
//! browser it then talks to its own origin, and no rule about origins holds it back; only the `Host`
//! field tells, which says that name. Addresses and `localhost` are not looked up where the page's owner
//! decides. Every way to speak HTTP passes here: versions 1.1 and 2, WebSocket handshakes, polling,
//! streams and pages.

use std::net::{Ipv4Addr, Ipv6Addr};

use tiderace_base::{Close, CloseCode};
use tiderace_wire::Request;

/// The names in `Host` that are answered besides `localhost` and IP addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// These names; case does not matter, and `*.` at the beginning stands for any names before the rest.
    pub fn new(names: impl IntoIterator<Item = String>) -> Hosts {
        Hosts(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Whether a request may be answered. `addressed` is the host that it addresses, empty if it names none: that of
    /// its target, which goes before the field (RFC 9112 section 3.2.2). One without a host, which no browser sends, may.
    ///
    /// # Errors
    /// Says the host and the option.
    pub(crate) fn check(&self, addressed: &str, request: &Request<'_>) -> Result<(), Close> {
        let fields = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let mut hosts = (!addressed.is_empty())
            .then_some(addressed.as_bytes())
            .into_iter()
            .chain(fields.map(|(_, host)| *host));
        match hosts.find(|host| !self.is_known(host)) {
            None => Ok(()),
            Some(host) => {
                let shown: String = String::from_utf8_lossy(host).chars().take(SHOWN_MAX).collect();
                let reason = format!(
                    "the host `{shown}` is none of this server's names: without users it answers to `localhost`, to IP addresses and to the names in the option `server.hosts`"
                );
                Err(Close::new(CloseCode::HostDenied, reason))
            }
        }
    }

    fn is_known(&self, host: &[u8]) -> bool {
        let Ok(host) = std::str::from_utf8(host) else { return false };
        let host = host.trim().to_ascii_lowercase();
        if let Some(rest) = host.strip_prefix('[') {
            let Some((address, port)) = rest.split_once(']') else { return false };
            return address.parse::<Ipv6Addr>().is_ok() && is_port(port);
        }
        let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
        let name = name.strip_suffix('.').unwrap_or(name);
        is_port(port)
            && (name == "localhost"
                || name.parse::<Ipv4Addr>().is_ok()
                || self.0.iter().any(|known| match known.strip_prefix('*') {
                    None => known == name,
                    Some(end) => name.len() > end.len() && name.ends_with(end),
                }))
    }
}

/// Nothing, or a colon and digits.
fn is_port(text: &str) -> bool {
    text.strip_prefix(':')
        .map_or(text.is_empty(), |digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Characters of a host that are shown in an answer.
const SHOWN_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_localhost_and_names_of_the_server_are_answered() {
        let hosts = Hosts::new(["Board.Example".to_owned(), "*.shop.example".to_owned()]);
        for (host, known) in [
            ("a.Shop.example:7800", true),
            ("shop.example", false),
            ("xshop.example", false),
            (".shop.example", false),
            ("localhost", true),
            ("LOCALHOST:7800", true),
            ("localhost.:7800", true),
            ("127.0.0.1:7800", true),
            ("192.0.2.7", true),
            ("[::1]:7800", true),
            ("[2001:db8::1]", true),
            ("board.example:7800", true),
            ("BOARD.EXAMPLE.", true),
            ("evil.example:7800", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example", false),
            ("evil.localhost", false),
            ("board.example.evil.example", false),
            ("127.1", false),
            ("0x7f000001", false),
            ("2130706433", false),
            ("127.0.0.1:80@evil.example", false),
            ("localhost:evil", false),
            ("[::1].evil.example", false),
            ("[evil.example]", false),
            ("[::1", false),
            ("::1", false),
            ("", false),
        ] {
            assert_eq!(hosts.is_known(host.as_bytes()), known, "{host}");
        }
        assert!(!hosts.is_known(b"\xff"));
    }

    #[test]
    fn every_host_of_a_request_counts_and_none_is_no_browsers() {
        let hosts = Hosts::default();
        let addressing = |addressed: &str, fields: &[(&str, &[u8])]| {
            let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 9));
            let request =
                Request { method: "GET", path: "/", query: None, fields, body: b"", peer };
            hosts.check(addressed, &request).map_err(|close| close.code)
        };
        let check = |fields: &[(&str, &[u8])]| addressing("", fields);
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("Host", b"localhost")]), Ok(()));
        let two: [(&str, &[u8]); 2] = [("host", b"localhost"), ("HOST", b"evil.example")];
        assert_eq!(check(&two), Err(CloseCode::HostDenied));
        // `GET http://evil.example/ HTTP/1.1` beside a harmless field.
        let local: [(&str, &[u8]); 1] = [("Host", b"localhost")];
        assert_eq!(addressing("evil.example", &local), Err(CloseCode::HostDenied));
        assert_eq!(addressing("localhost:7800", &local), Ok(()));
    }
}
