//! Which pages may speak to the protocols, by the `Origin` that browsers send.
//!
//! Every way to speak HTTP passes here: versions 1.1 and 2, WebSocket handshakes, polling, streams and requests, so
//! one option rules them all. Relies on browsers to send an honest `Origin`; programs send none and are let
//! through, because the check protects the users of browsers, not the server. Invariant: a page whose origin is not
//! allowed gets 403 for every method, before a session exists; without that any page could publish to a server on its
//! visitor's own machine. What is no protocol's (metrics, health,
//! pages) is not asked here: it says itself who may read it.

use tiderace_base::{Close, CloseCode};
use tiderace_websocket::handshake::OriginPolicy;
use tiderace_wire::{Request, Response};

use crate::http_answer::refusal;

/// Whether the page that sent a request may.
///
/// # Errors
/// Says which origin it is and the option that would allow it.
pub(crate) fn check(policy: &OriginPolicy, request: &Request<'_>) -> Result<(), Close> {
    let mut origins = fields(request);
    let Some(origin) = origins.next() else { return Ok(()) };
    // Two of them could tell us one thing and a proxy another: neither is believed.
    let is_one = origins.next().is_none();
    if is_one && policy.allows(Some(origin), request.field("host").unwrap_or_default()) {
        return Ok(());
    }
    let shown: String = String::from_utf8_lossy(origin).chars().take(SHOWN_MAX).collect();
    let reason = match origin {
        _ if !is_one => "the request names two origins; a page has one".to_owned(),
        b"null" => "a page without an origin, such as a file that was opened in a browser, may not connect: serve \
                    the page, for example by `tiderace --www DIRECTORY`"
            .to_owned(),
        _ => format!(
            "pages of `{shown}` may not connect: the option `server.origins` does not name this origin"
        ),
    };
    Err(Close::new(CloseCode::OriginDenied, reason))
}

/// The answer to a page that may not connect. The page may read it, so that who writes it sees why.
pub(crate) fn denied(close: &Close, request: &Request<'_>) -> Response {
    let response = refusal(close);
    let plain = |origin: &&str| origin.bytes().all(|byte| byte.is_ascii_graphic());
    match request.text_field("origin").filter(plain) {
        Some(origin) => response.with("Access-Control-Allow-Origin", origin).with("Vary", "Origin"),
        None => response,
    }
}

fn fields<'a>(request: &Request<'a>) -> impl Iterator<Item = &'a [u8]> {
    let named = request.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case("origin"));
    named.map(|(_, origin)| *origin)
}

/// Characters of an origin that are shown in an answer.
const SHOWN_MAX: usize = 100;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::SocketAddr;

    use super::*;

    fn request<'a>(fields: &'a [(&'a str, &'a [u8])]) -> Request<'a> {
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        Request { method: "GET", path: "/", query: None, fields, body: b"", peer }
    }

    #[test]
    fn a_page_is_told_which_origin_and_which_option() {
        let policy = OriginPolicy::SameHost;
        let host: (&str, &[u8]) = ("Host", b"here:7800");
        assert!(check(&policy, &request(&[host])).is_ok());
        assert!(check(&policy, &request(&[host, ("Origin", b"http://here:7800")])).is_ok());
        for (origins, says) in [
            (
                vec![&b"http://there:5173"[..]],
                "`http://there:5173` may not connect: the option `server.origins`",
            ),
            (vec![b"null"], "`tiderace --www DIRECTORY`"),
            (vec![b"http://here:7800", b"http://here:7800"], "two origins"),
            (vec![b"\xff\r\nX: y"], "server.origins"),
        ] {
            let fields: Vec<(&str, &[u8])> =
                [host].into_iter().chain(origins.iter().map(|it| ("oRIGIN", *it))).collect();
            let close = check(&policy, &request(&fields)).unwrap_err();
            assert_eq!(close.code, CloseCode::OriginDenied);
            assert!(close.reason.contains(says), "{}", close.reason);
        }
    }

    #[test]
    fn the_page_may_read_why_it_is_refused_and_nothing_else_is_written_into_the_answer() {
        let close = Close::new(CloseCode::OriginDenied, "why");
        let allowed = |origin: &'static [u8]| {
            let response = denied(&close, &request(&[("Origin", origin)]));
            assert_eq!(response.status, 403);
            let found =
                response.headers.into_iter().find(|it| it.0 == "Access-Control-Allow-Origin");
            found.map(|(_, value)| value)
        };
        assert_eq!(allowed(b"http://there:5173").as_deref(), Some("http://there:5173"));
        assert_eq!(allowed(b"null").as_deref(), Some("null"));
        assert_eq!(allowed(b"a\r\nX: y"), None);
        assert_eq!(allowed(b"\xff"), None);
    }
}
