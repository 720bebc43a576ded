//! Opening handshakes: one test for each requirement of RFC 6455 section 4, both sides.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tiderace_websocket::handshake::{
    Acceptance, ClientError, OriginPolicy, Policy, RESPONSE_BYTES_MAX, Rejection, RequestError,
    UpgradeRequest, accept, check_response, client_request,
};

const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
const NONCE: [u8; 16] = *b"the sample nonce";
const ORIGINS: OriginPolicy = OriginPolicy::SameHost;
const POLICY: Policy<'static> =
    Policy { origins: &ORIGINS, subprotocols: &["v12.stomp", "v11.stomp", "mqtt"] };

/// A good request with one field replaced; an empty value removes it.
fn request_with(name: &str, value: &str) -> Result<Acceptance<'static>, Rejection> {
    let mut headers = vec![
        ("Host", "example.com"),
        ("Upgrade", "websocket"),
        ("Connection", "keep-alive, Upgrade"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Version", "13"),
    ];
    headers.retain(|(existing, _)| !existing.eq_ignore_ascii_case(name));
    if !value.is_empty() {
        headers.push((name, value));
    }
    judge("GET", 1, &headers)
}

fn judge(
    method: &str,
    minor_version: u8,
    headers: &[(&str, &str)],
) -> Result<Acceptance<'static>, Rejection> {
    let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    accept(&UpgradeRequest::new(method, minor_version, headers), &POLICY)
}

/// 1.3 and 4.2.2: the answer of the specification's example.
#[test]
fn a_good_request_is_answered_with_101() {
    let acceptance = request_with("Sec-WebSocket-Protocol", "mqtt, v12.stomp").unwrap();
    let mut out = Vec::new();
    acceptance.write_response(&mut out);
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\
         Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
    );
}

/// 4.2.1, items 1 to 6.
#[test]
fn each_requirement_has_its_rejection() {
    for (name, value, rejection) in [
        ("Host", "", Rejection::HostMissing),
        ("Upgrade", "", Rejection::UpgradeNotWebSocket),
        ("Upgrade", "h2c", Rejection::UpgradeNotWebSocket),
        ("Upgrade", "websockets", Rejection::UpgradeNotWebSocket),
        ("Connection", "", Rejection::ConnectionNotUpgrade),
        ("Connection", "keep-alive", Rejection::ConnectionNotUpgrade),
        ("Sec-WebSocket-Key", "", Rejection::KeyInvalid),
        ("Sec-WebSocket-Key", "c2hvcnQ=", Rejection::KeyInvalid),
        ("Sec-WebSocket-Key", "not base64, 24 letters!!", Rejection::KeyInvalid),
        ("Sec-WebSocket-Version", "", Rejection::VersionUnsupported),
        ("Sec-WebSocket-Version", "8", Rejection::VersionUnsupported),
        ("Sec-WebSocket-Version", "13, 8", Rejection::VersionUnsupported),
        ("Origin", "https://evil.example", Rejection::OriginForbidden),
        ("Origin", "null", Rejection::OriginForbidden),
        ("Sec-WebSocket-Protocol", "a b", Rejection::SubprotocolsInvalid),
        ("Sec-WebSocket-Protocol", "a;q=1", Rejection::SubprotocolsInvalid),
    ] {
        assert_eq!(request_with(name, value), Err(rejection), "{name}: {value}");
    }
}

/// 4.2.1, item 1: "a GET request" of "HTTP/1.1 or higher".
#[test]
fn method_and_version_are_checked() {
    assert_eq!(judge("POST", 1, &[]), Err(Rejection::MethodNotGet));
    assert_eq!(judge("get", 1, &[]), Err(Rejection::MethodNotGet));
    assert_eq!(judge("GET", 0, &[]), Err(Rejection::MethodNotGet));
}

/// 11.3: fields that "MUST NOT appear more than once".
#[test]
fn single_fields_are_single() {
    let good = [
        ("Host", "example.com"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Version", "13"),
        ("Origin", "http://example.com"),
    ];
    assert!(judge("GET", 1, &good).is_ok());
    for (name, value, rejection) in [
        ("host", "example.com", Rejection::HostMissing),
        ("sec-websocket-key", KEY, Rejection::KeyInvalid),
        ("sec-websocket-version", "13", Rejection::VersionUnsupported),
        ("origin", "http://example.com", Rejection::OriginForbidden),
    ] {
        let doubled: Vec<_> = good.into_iter().chain([(name, value)]).collect();
        assert_eq!(judge("GET", 1, &doubled), Err(rejection), "{name}");
    }
}

/// 4.2.1, items 3 and 4: values are compared "as an ASCII case-insensitive value".
#[test]
fn tokens_ignore_case_and_may_stand_in_lists() {
    assert!(request_with("upgrade", "h2c, WebSocket").is_ok());
    assert!(request_with("CONNECTION", "  TE,uPgRaDe ").is_ok());
}

/// 4.2.2, item 5.5: the server's preference decides; none is chosen that was not offered.
#[test]
fn subprotocols_are_chosen_by_the_server() {
    for (offered, chosen) in [
        ("v11.stomp, v12.stomp", Some("v12.stomp")),
        ("mqtt,v11.stomp", Some("v11.stomp")),
        ("V12.STOMP", None),
        ("unknown", None),
        (" , ,mqtt, ", Some("mqtt")),
    ] {
        let acceptance = request_with("Sec-WebSocket-Protocol", offered).unwrap();
        assert_eq!(acceptance.subprotocol, chosen, "{offered}");
        assert!(acceptance.subprotocols_offered);
    }
    assert!(!request_with("Origin", "").unwrap().subprotocols_offered);
}

#[test]
fn long_lists_of_subprotocols_are_refused() {
    let offer = |count: usize| request_with("Sec-WebSocket-Protocol", &vec!["a"; count].join(","));
    assert!(offer(32).is_ok());
    assert_eq!(offer(33), Err(Rejection::SubprotocolsInvalid));
    let long = "a".repeat(1025);
    let result = request_with("Sec-WebSocket-Protocol", &long);
    assert_eq!(result, Err(Rejection::SubprotocolsInvalid));
    let many = [("Sec-WebSocket-Protocol", "mqtt"); 5];
    let good = [
        ("Host", "a"),
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Key", KEY),
        ("Sec-WebSocket-Version", "13"),
    ];
    let headers: Vec<_> = good.into_iter().chain(many).collect();
    assert_eq!(judge("GET", 1, &headers), Err(Rejection::SubprotocolsInvalid));
}

/// 4.4: an unsupported version is answered with those supported; 4.2.2: 403 for a bad origin.
#[test]
fn rejections_know_their_answer() {
    assert_eq!(Rejection::VersionUnsupported.status(), 426);
    assert!(Rejection::VersionUnsupported.headers().contains(&("Sec-WebSocket-Version", "13")));
    assert_eq!(Rejection::OriginForbidden.status(), 403);
    assert_eq!(Rejection::KeyInvalid.status(), 400);
    let codes: std::collections::BTreeSet<_> = Rejection::ALL.iter().map(|r| r.code()).collect();
    assert_eq!(codes.len(), Rejection::ALL.len());
}

#[test]
fn client_and_server_agree() {
    let bytes =
        client_request("example.com:7800", "/ws?x=1", NONCE, &["mqtt", "v12.stomp"]).unwrap();
    let mut headers = [httparse::EMPTY_HEADER; 16];
    let mut head = httparse::Request::new(&mut headers);
    assert!(head.parse(&bytes).unwrap().is_complete());
    assert_eq!(head.path, Some("/ws?x=1"));
    let fields = head.headers.iter().map(|header| (header.name, header.value));
    let request = UpgradeRequest::new(head.method.unwrap(), head.version.unwrap(), fields);
    assert!(request.wants_websocket());
    let mut answer = Vec::new();
    accept(&request, &POLICY).unwrap().write_response(&mut answer);
    for cut in 0..answer.len() {
        let partial = check_response(&answer[..cut], NONCE, &["mqtt", "v12.stomp"]);
        assert_eq!(partial, Ok(None), "{cut}");
    }
    let whole = [&answer[..], b"\x81\x00"].concat();
    let established = check_response(&whole, NONCE, &["mqtt", "v12.stomp"]).unwrap().unwrap();
    assert_eq!(established.subprotocol, Some("v12.stomp"));
    assert_eq!(established.consumed, answer.len());
}

#[test]
fn requests_cannot_be_injected() {
    for (host, path, subprotocols) in [
        ("a\r\nX: y", "/", &[][..]),
        ("a", "/ HTTP/1.1\r\nX: y", &[]),
        ("a", "", &[]),
        ("a", "x", &[]),
        ("", "/", &[]),
        ("a", "/", &["b, c"]),
        ("a", "/", &[""]),
    ] {
        assert_eq!(
            client_request(host, path, NONCE, subprotocols),
            Err(RequestError),
            "{host} {path}"
        );
    }
}

/// 4.1: what makes a client fail the connection.
#[test]
fn bad_answers_are_refused() {
    let upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n";
    let proof = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    let ok = "HTTP/1.1 101 x\r\n";
    for (answer, error) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n".to_owned(), ClientError::Status(400)),
        ("HTTP/1.0 101 x\r\n\r\n".to_owned(), ClientError::ResponseMalformed),
        ("STOMP\r\n\r\n".to_owned(), ClientError::ResponseMalformed),
        ("HTTP/1.1 99999 x\r\n\r\n".to_owned(), ClientError::ResponseMalformed),
        (format!("{ok}{upgrade}\r\n"), ClientError::AcceptMismatch),
        (format!("{ok}{proof}\r\n"), ClientError::NotUpgraded),
        (format!("{ok}{proof}Upgrade: websocket\r\n\r\n"), ClientError::NotUpgraded),
        (format!("{ok}{upgrade}Sec-WebSocket-Accept: AAAA\r\n\r\n"), ClientError::AcceptMismatch),
        (
            format!("{ok}{upgrade}{proof}Sec-WebSocket-Protocol: other\r\n\r\n"),
            ClientError::SubprotocolUnexpected,
        ),
        (
            format!("{ok}{upgrade}{proof}Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"),
            ClientError::ExtensionUnexpected,
        ),
        (format!("{ok}no colon\r\n\r\n"), ClientError::ResponseMalformed),
        ("x".repeat(RESPONSE_BYTES_MAX), ClientError::ResponseTooLong),
    ] {
        assert_eq!(check_response(answer.as_bytes(), NONCE, &["mqtt"]), Err(error), "{answer}");
    }
    assert!(check_response(format!("{ok}{upgrade}{proof}\r\n").as_bytes(), NONCE, &[]).is_ok());
}

proptest! {
    #[test]
    fn arbitrary_headers_and_answers_never_panic(
        headers in prop::collection::vec(("[A-Za-z-]{0,24}", prop::collection::vec(any::<u8>(), 0..60)), 0..20),
        origin in prop::collection::vec(any::<u8>(), 0..40),
        answer in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let fields = headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
        let request = UpgradeRequest::new("GET", 1, fields);
        prop_assert!(accept(&request, &POLICY).is_err(), "no key can arise by chance");
        let _ = OriginPolicy::SameHost.allows(Some(&origin), &origin);
        let prefixed = [&b"HTTP/1.1 101 \r\n"[..], &answer, b"\r\n\r\n"].concat();
        prop_assert!(check_response(&prefixed, NONCE, &[]).is_err(), "nor a proof");
    }
}
