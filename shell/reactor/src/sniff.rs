//! Which protocol a connection speaks, told from its first bytes.
//!
//! A pure function of bytes and registry. Every byte sequence ends in a decision or in the wait for
//! more, and the wait is bounded by [`SNIFF_BYTES_MAX`] and the first-byte deadline.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Detect, Protocol};

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Everything.
    Any,
    /// HTTP and WebSocket.
    Http,
    /// One protocol, by its place among the protocols.
    Protocol(u16),
}

impl Pin {
    /// The pin of that name.
    pub(crate) fn named(name: Option<&str>, protocols: &[Protocol]) -> Option<Pin> {
        match name {
            None => Some(Pin::Any),
            Some("http") => Some(Pin::Http),
            Some(name) => {
                let index = protocols.iter().position(|protocol| protocol.name == name)?;
                Some(Pin::Protocol(index as u16))
            }
        }
    }
}

/// What first bytes mean.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sniffed {
    /// Too few to tell.
    More,
    /// HTTP/1.
    Http,
    /// HTTP/2.
    Http2,
    /// A protocol, by its place.
    Protocol(u16),
    /// Nothing that is served here; the bytes are to be sent before closing.
    Refused(Close, Vec<u8>),
}

/// Decides what first bytes mean.
///
/// The preface of HTTP/2 is answered as soon as it is recognised, if that is spoken.
pub(crate) fn sniff(bytes: &[u8], pin: Pin, http2: bool, protocols: &[Protocol]) -> Sniffed {
    if bytes.is_empty() {
        return Sniffed::More;
    }
    let mut more = false;
    let mut consider = |detect: Detect| {
        more |= detect == Detect::More;
        detect == Detect::Yes
    };
    if consider(prefix(bytes, TLS_HANDSHAKE)) {
        return Sniffed::Refused(CloseCode::TlsNotSupported.into(), TLS_ALERT.to_vec());
    }
    if consider(prefix(bytes, HTTP2_PREFACE)) {
        if http2 && !matches!(pin, Pin::Protocol(_)) {
            return Sniffed::Http2;
        }
        let text = format!("HTTP/2 is not spoken here; spoken here: {}\n", spoken(pin, protocols));
        return Sniffed::Refused(refusal(CloseCode::UnknownProtocol), text.into_bytes());
    }
    let may_be = |mark| prefix(bytes, mark) == Detect::More;
    if pin == Pin::Http && !may_be(TLS_HANDSHAKE) && !may_be(HTTP2_PREFACE) {
        // Nothing else can be meant, so that whatever is wrong with it gets an answer of HTTP.
        return Sniffed::Http;
    }
    let http = !may_be(HTTP2_PREFACE) && consider(request(bytes));
    if http && !matches!(pin, Pin::Protocol(_)) {
        return Sniffed::Http;
    }
    let protocol = protocols
        .iter()
        .position(|protocol| consider((protocol.detect)(bytes)))
        .map(|index| index as u16);
    match (pin, protocol) {
        (Pin::Any, Some(protocol)) => return Sniffed::Protocol(protocol),
        (Pin::Protocol(pinned), Some(protocol)) if pinned == protocol => {
            return Sniffed::Protocol(protocol);
        }
        _ => {}
    }
    if more && !http && protocol.is_none() && bytes.len() < SNIFF_BYTES_MAX {
        return Sniffed::More;
    }
    let text = format!("unknown protocol; spoken here: {}\n", spoken(pin, protocols));
    let code = match pin {
        Pin::Any => CloseCode::UnknownProtocol,
        _ if http || protocol.is_some() => CloseCode::ProtocolNotAllowed,
        _ => CloseCode::UnknownProtocol,
    };
    Sniffed::Refused(refusal(code), text.into_bytes())
}

fn refusal(code: CloseCode) -> Close {
    code.into()
}

/// What a listener speaks, for people.
fn spoken(pin: Pin, protocols: &[Protocol]) -> String {
    let mut names: Vec<String> = Vec::new();
    for (protocol, index) in protocols.iter().zip(0u16..) {
        if pin == Pin::Any || pin == Pin::Protocol(index) {
            names.push(protocol.name.to_string());
        }
    }
    if !matches!(pin, Pin::Protocol(_)) {
        names.push("HTTP".to_string());
        for protocol in protocols.iter().filter(|p| !p.subprotocols.is_empty()) {
            names.push(format!("{} over WebSocket", protocol.name));
        }
    }
    names.join(", ")
}

/// Whether the bytes begin with the mark, as far as can be told.
fn prefix(bytes: &[u8], mark: &[u8]) -> Detect {
    if bytes.starts_with(mark) {
        Detect::Yes
    } else if mark.starts_with(bytes) {
        Detect::More
    } else {
        Detect::No
    }
}

/// Whether the bytes begin as a request of HTTP/1 does: a method, a space and what targets begin with, behind
/// the empty lines that a server ignores (RFC 9112 section 2.2). A method that nobody knows is a matter of
/// HTTP, too (RFC 9110 section 15.6.2).
fn request(bytes: &[u8]) -> Detect {
    let mut rest = bytes;
    for _ in 0..EMPTY_LINES_MAX {
        rest = rest.strip_prefix(b"\r\n").unwrap_or(rest);
    }
    if HTTP_METHODS.iter().any(|method| rest.starts_with(method)) {
        return Detect::Yes;
    }
    if rest.is_empty() || rest == b"\r" {
        return Detect::More;
    }
    let is_method = |byte: &u8| byte.is_ascii_uppercase() || *byte == b'-';
    let method = rest.iter().take_while(|byte| is_method(byte)).count();
    match rest.get(method..).unwrap_or_default() {
        _ if method == 0 || method > METHOD_BYTES_MAX => Detect::No,
        [] | [b' '] => Detect::More,
        [b' ', b'/' | b'*', ..] => Detect::Yes,
        [b' ', target @ ..] => prefix(target, b"http"),
        _ => Detect::No,
    }
}

/// A TLS record of type handshake and any version 3 (RFC 8446 section 5.1).
const TLS_HANDSHAKE: &[u8] = &[0x16, 0x03];
/// A record holding the fatal alert `protocol_version` (RFC 8446 section 6.2): clients show it as
/// an error of TLS instead of "connection reset".
const TLS_ALERT: &[u8] = &[0x15, 0x03, 0x01, 0x00, 0x02, 2, 70];
/// RFC 9113 section 3.4.
const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0";
const HTTP_METHODS: &[&[u8]] = &[
    b"CONNECT ",
    b"DELETE ",
    b"GET ",
    b"HEAD ",
    b"OPTIONS ",
    b"PATCH ",
    b"POST ",
    b"PUT ",
    b"TRACE ",
];
/// Empty lines before a request that are ignored.
const EMPTY_LINES_MAX: usize = 2;
/// The longest method that anybody has registered has 17 bytes.
const METHOD_BYTES_MAX: usize = 32;
/// No protocol needs more to be told apart.
const SNIFF_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{echo_protocol, line_protocol};

    fn kind(bytes: &[u8], pin: Pin) -> String {
        match sniff(bytes, pin, true, &[echo_protocol(), line_protocol()]) {
            Sniffed::Refused(close, text) => {
                assert!(!text.is_empty());
                close.code.slug().to_string()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn first_bytes_decide() {
        for (bytes, expected) in [
            (&b""[..], "More"),
            (b"G", "More"),
            (b"GET", "More"),
            (b"GET ", "Http"),
            (b"OPTIONS * HTTP/1.1", "Http"),
            (b"CONNECT a:443 HTTP/1.1", "Http"),
            (b"PROPFIND", "More"),
            (b"PROPFIND ", "More"),
            (b"PROPFIND /", "Http"),
            (b"M-SEARCH * HTTP/1.1", "Http"),
            (b"BREW http://a/pot", "Http"),
            (b"HELO example.org", "unknown-protocol"),
            (b"\r\n", "More"),
            (b"\r\n\r\nGET /", "Http"),
            (b"\r\n\r\n\r\nGET /", "unknown-protocol"),
            (b"\r\nPROPFIND /", "Http"),
            (b"P", "More"),
            (b"PRI * HTTP/2.", "More"),
            (b"PRI * HTTP/2.0\r\n", "Http2"),
            (b"EC", "More"),
            (b"ECHO\nabc", "Protocol(0)"),
            (b"ECHO", "More"),
            (b"LINE\n", "Protocol(1)"),
            (b"\x16", "More"),
            (b"\x16\x03\x01\x02\x00", "tls-not-supported"),
            (b"SSH-2.0-x", "unknown-protocol"),
            (b"\x00", "unknown-protocol"),
        ] {
            assert_eq!(kind(bytes, Pin::Any), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_pinned_listener_speaks_nothing_else() {
        for (bytes, pin, expected) in [
            (&b"GET / HTTP/1.1"[..], Pin::Protocol(0), "protocol-not-allowed"),
            (b"LINE\n", Pin::Protocol(0), "protocol-not-allowed"),
            (b"ECHO\n", Pin::Protocol(0), "Protocol(0)"),
            (b"ECHO\n", Pin::Http, "Http"),
            (b"GET ", Pin::Http, "Http"),
            (b"\r\n", Pin::Http, "Http"),
            (b"P", Pin::Http, "More"),
            (b"PROPFIND", Pin::Http, "Http"),
            (b"\x16\x03\x01", Pin::Protocol(0), "tls-not-supported"),
            (b"nonsense", Pin::Http, "Http"),
            (b"\r\nGET /", Pin::Protocol(0), "protocol-not-allowed"),
            (b"PRI * HTTP/2.0", Pin::Http, "Http2"),
            (b"PRI * HTTP/2.0", Pin::Protocol(0), "unknown-protocol"),
        ] {
            assert_eq!(kind(bytes, pin), expected, "{bytes:?}");
        }
    }

    #[test]
    fn the_refusal_says_what_is_spoken() {
        let protocols = [echo_protocol(), line_protocol()];
        let Sniffed::Refused(_, text) = sniff(b"?", Pin::Any, true, &protocols) else {
            panic!("refused");
        };
        let text = String::from_utf8(text).unwrap();
        let expected = "unknown protocol; spoken here: echo, line, HTTP, echo over WebSocket\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn pins_are_found_by_name() {
        let protocols = [echo_protocol()];
        assert_eq!(Pin::named(None, &protocols), Some(Pin::Any));
        assert_eq!(Pin::named(Some("http"), &protocols), Some(Pin::Http));
        assert_eq!(Pin::named(Some("echo"), &protocols), Some(Pin::Protocol(0)));
        assert_eq!(Pin::named(Some("nonsense"), &protocols), None);
    }
}
