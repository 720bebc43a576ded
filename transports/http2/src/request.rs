//! A request of HTTP/2 as the text of one of HTTP/1.1.
//!
//! Relies on `h2` for what RFC 9113 section 8.2 and 8.3 call malformed: pseudo-fields, upper case,
//! fields of the connection, a length that is not that of the body. Invariant: nothing in a request can
//! add a line to the text, or change where its body ends.

use http::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, HOST, HeaderName, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::{Method, Request};

/// What a request asks of its stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requested {
    /// How its body is marked in the text that follows the head.
    pub body: Body,
    /// Whether it is to become a WebSocket: 101 is said as 200 then.
    pub is_upgrade: bool,
}

/// How the body of a request is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, or it is as long as the head says, or the stream is one without a head.
    Plain,
    /// By chunks, since nobody said how long it is.
    Chunked,
}

/// Why a stream does not become a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is reset.
    Malformed,
    /// It asks for a protocol that is not spoken by extended CONNECT: answered by status 501.
    UnknownProtocol,
}

/// Appends the head of the request. `protocol` is that of an extended CONNECT, `ends` says that no body
/// follows.
///
/// # Errors
/// When there is nothing that HTTP/1.1 could say of it; then nothing is appended.
pub fn write_request(
    request: &Request<()>,
    protocol: Option<&str>,
    ends: bool,
    out: &mut Vec<u8>,
) -> Result<Requested, Refusal> {
    let is_upgrade = protocol.is_some();
    if protocol.is_some_and(|protocol| protocol != "websocket") {
        return Err(Refusal::UnknownProtocol);
    }
    let uri = request.uri();
    let authority = uri.authority().map(|authority| authority.as_str());
    let hosts = request.headers().get_all(HOST);
    if let Some(authority) = authority
        && hosts.iter().any(|host| !host.as_bytes().eq_ignore_ascii_case(authority.as_bytes()))
    {
        // RFC 9113 section 8.3.1: two hosts are one too many.
        return Err(Refusal::Malformed);
    }
    let method = if is_upgrade { &Method::GET } else { request.method() };
    let target = match uri.path_and_query() {
        Some(target) => target.as_str(),
        None => authority.ok_or(Refusal::Malformed)?,
    };
    for part in [method.as_str(), " ", target, " HTTP/1.1\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    if let Some(authority) = authority {
        push(out, "Host", authority.as_bytes());
    }
    write_fields(request, authority.is_some(), is_upgrade, out);
    let has_length = request.headers().contains_key(CONTENT_LENGTH);
    let body = if is_upgrade || ends || has_length { Body::Plain } else { Body::Chunked };
    if body == Body::Chunked {
        push(out, "Transfer-Encoding", b"chunked");
    }
    if is_upgrade {
        push(out, "Upgrade", b"websocket");
        push(out, "Connection", b"Upgrade");
        // RFC 8441 section 5: the key has no meaning here; HTTP/1.1 wants one.
        push(out, "Sec-WebSocket-Key", b"AAAAAAAAAAAAAAAAAAAAAA==");
    } else {
        // The stream ends with the answer.
        push(out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    Ok(Requested { body, is_upgrade })
}

fn write_fields(request: &Request<()>, has_authority: bool, is_upgrade: bool, out: &mut Vec<u8>) {
    let mut cookies = Vec::new();
    for (name, value) in request.headers() {
        if name == COOKIE {
            // RFC 9113 section 8.2.3: crumbs are put together again.
            if !cookies.is_empty() {
                cookies.extend_from_slice(b"; ");
            }
            cookies.extend_from_slice(value.as_bytes());
            continue;
        }
        let is_key = name == CONTENT_LENGTH || name == "sec-websocket-key";
        if !(name == HOST && has_authority || is_upgrade && is_key || is_of_connection(name)) {
            push(out, name.as_str(), value.as_bytes());
        }
    }
    if !cookies.is_empty() {
        push(out, "Cookie", &cookies);
    }
}

/// Fields that HTTP/2 does not have; `h2` refuses most of them itself.
fn is_of_connection(name: &HeaderName) -> bool {
    [CONNECTION, TRANSFER_ENCODING, UPGRADE, TE].contains(name)
        || matches!(name.as_str(), "keep-alive" | "proxy-connection" | "http2-settings")
}

fn push(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn text(request: http::request::Builder, protocol: Option<&str>, ends: bool) -> String {
        let mut out = Vec::new();
        write_request(&request.body(()).unwrap(), protocol, ends, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn plain_requests_close_with_their_answer() {
        let request = Request::get("http://h:1/a?b=c").header("accept", "*/*");
        let expected =
            "GET /a?b=c HTTP/1.1\r\nHost: h:1\r\naccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(text(request, None, true), expected);
    }

    #[test]
    fn bodies_are_as_long_as_said_or_chunked() {
        let known = Request::post("http://h/a").header("content-length", "3");
        let known = text(known, None, false);
        assert!(known.contains("content-length: 3\r\n") && !known.contains("chunked"));
        let unknown = text(Request::post("http://h/a"), None, false);
        assert!(unknown.contains("Transfer-Encoding: chunked\r\n"));
        let none = text(Request::post("http://h/a"), None, true);
        assert!(!none.contains("chunked"));
    }

    #[test]
    fn an_extended_connect_becomes_an_upgrade() {
        let request = Request::connect("https://h/stomp")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "mine")
            .header("sec-websocket-protocol", "v12.stomp");
        assert_eq!(
            text(request, Some("websocket"), false),
            "GET /stomp HTTP/1.1\r\nHost: h\r\nsec-websocket-version: 13\r\n\
             sec-websocket-protocol: v12.stomp\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        );
        let other = Request::connect("https://h/x").body(()).unwrap();
        let refused = write_request(&other, Some("connect-udp"), false, &mut Vec::new());
        assert_eq!(refused, Err(Refusal::UnknownProtocol));
    }

    #[test]
    fn the_authority_is_the_host() {
        let same = Request::get("http://h/a").header("host", "H");
        assert_eq!(text(same, None, true).matches("ost: ").count(), 1);
        let other = Request::get("http://h/a").header("host", "evil").body(()).unwrap();
        assert_eq!(write_request(&other, None, true, &mut Vec::new()), Err(Refusal::Malformed));
        let none = text(Request::get("/a").header("host", "h"), None, true);
        assert!(none.contains("host: h\r\n"));
    }

    #[test]
    fn crumbs_become_one_cookie() {
        let request = Request::get("http://h/").header("cookie", "a=1").header("cookie", "b=2");
        assert!(text(request, None, true).contains("Cookie: a=1; b=2\r\n"));
    }

    #[test]
    fn fields_of_the_connection_do_not_get_through() {
        let request = Request::get("http://h/")
            .header("transfer-encoding", "chunked")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("te", "trailers");
        let expected = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        assert_eq!(text(request, None, true), expected);
    }
}
