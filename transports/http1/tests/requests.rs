//! Heads as they should be, and hostile ones with the answer each gets.

#![allow(clippy::unwrap_used)]

use tiderace_http1::{Body, HeadScanner, HttpError, Limits, RequestHead};

fn parse(input: &[u8]) -> Result<Option<RequestHead<'_>>, HttpError> {
    RequestHead::parse(&Limits::default(), &mut HeadScanner::default(), input)
}

fn error(input: &[u8]) -> HttpError {
    match parse(input) {
        Err(error) => error,
        Ok(head) => panic!("{} was accepted: {head:?}", input.escape_ascii()),
    }
}

/// Header lines after a good request line and Host.
fn with(lines: &str) -> Vec<u8> {
    format!("POST /x HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n").into_bytes()
}

#[test]
fn request_lines_that_are_refused() {
    for (input, expected) in [
        // Version: RFC 9112 section 2.3.
        ("GET /\r\n", HttpError::VersionUnsupported),
        ("GET / HTTP/2.0\r\n", HttpError::VersionUnsupported),
        ("GET / HTTP/1.2\r\n", HttpError::VersionUnsupported),
        ("GET / HTTP/0.9\r\n", HttpError::VersionUnsupported),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HttpError::Http2Preface),
        ("GET / http/1.1\r\n", HttpError::RequestLineInvalid),
        ("GET / HTTP/1.1.1\r\n", HttpError::RequestLineInvalid),
        ("GET / HTTP/11\r\n", HttpError::RequestLineInvalid),
        ("GET / HTTP/1.1 \r\n", HttpError::RequestLineInvalid),
        // White space: section 3 allows one space only.
        ("GET  / HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        ("GET /  HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        (" GET / HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        ("GET\t/\tHTTP/1.1\r\n", HttpError::RequestLineInvalid),
        ("GET /a b HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        // Methods are tokens; CONNECT is for proxies.
        ("G@T / HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        ("GE\0T / HTTP/1.1\r\n", HttpError::RequestLineInvalid),
        ("CONNECT a:80 HTTP/1.1\r\n", HttpError::MethodConnect),
        // Targets: section 3.2.
        ("GET x HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET * HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET a:80 HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET /#f HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET /\u{e9} HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET /\0 HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET /\rX HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET http://u:p@a/ HTTP/1.1\r\n", HttpError::TargetInvalid),
        ("GET file:///etc/passwd HTTP/1.1\r\n", HttpError::TargetInvalid),
        // Line ends: section 2.2.
        ("GET / HTTP/1.1\n", HttpError::BareLineFeed),
        ("\nGET / HTTP/1.1\r\n", HttpError::BareLineFeed),
        ("\r\n\r\n\r\n", HttpError::RequestLineInvalid),
        // Other protocols.
        ("CONNECT\r\naccept-version:1.2\r\n", HttpError::RequestLineInvalid),
        ("\x16\x03\x01\x02\0\x01\0\x01\r\n", HttpError::RequestLineInvalid),
    ] {
        assert_eq!(error(input.as_bytes()), expected, "{}", input.escape_debug());
    }
}

#[test]
fn header_lines_that_are_refused() {
    for (lines, expected) in [
        // Section 5.1: no white space between name and colon.
        ("Content-Length : 5", HttpError::SpaceBeforeColon),
        ("Transfer-Encoding\t: chunked", HttpError::SpaceBeforeColon),
        // Section 5.2: obs-fold.
        ("X: a\r\n b", HttpError::ObsoleteFolding),
        ("X: a\r\n\tb", HttpError::ObsoleteFolding),
        ("Transfer-Encoding:\r\n chunked", HttpError::ObsoleteFolding),
        // Section 5: field-name is a token, values have no controls.
        ("no colon", HttpError::HeaderInvalid),
        (": empty", HttpError::HeaderInvalid),
        ("X Y: a", HttpError::HeaderInvalid),
        ("X\u{e9}: a", HttpError::HeaderInvalid),
        ("X: a\0b", HttpError::HeaderInvalid),
        ("X: a\x07", HttpError::HeaderInvalid),
        ("X: a\x7f", HttpError::HeaderInvalid),
        ("X: a\rContent-Length: 5", HttpError::HeaderInvalid),
        ("X: a\nContent-Length: 5", HttpError::BareLineFeed),
        // RFC 9110 section 10.1.1.
        ("Expect: 200-ok", HttpError::ExpectationFailed),
    ] {
        assert_eq!(error(&with(lines)), expected, "{}", lines.escape_debug());
    }
}

#[test]
fn framings_that_could_smuggle_are_refused() {
    for (lines, expected) in [
        // Section 6.3: repeated, conflicting or faulty lengths.
        ("Content-Length: 5\r\nContent-Length: 6", HttpError::ContentLengthRepeated),
        ("Content-Length: 5\r\nContent-Length: 5", HttpError::ContentLengthRepeated),
        ("Content-Length: 5, 5", HttpError::ContentLengthInvalid),
        ("Content-Length: +5", HttpError::ContentLengthInvalid),
        ("Content-Length: -5", HttpError::ContentLengthInvalid),
        ("Content-Length: 0x5", HttpError::ContentLengthInvalid),
        ("Content-Length: 5 5", HttpError::ContentLengthInvalid),
        ("Content-Length: 5.0", HttpError::ContentLengthInvalid),
        ("Content-Length:", HttpError::ContentLengthInvalid),
        ("Content-Length: 18446744073709551616", HttpError::ContentLengthInvalid),
        ("Content-Length: 18446744073709551615", HttpError::BodyTooLarge),
        ("Content-Length: 1048577", HttpError::BodyTooLarge),
        // Section 6.1: both, in either order.
        ("Content-Length: 5\r\nTransfer-Encoding: chunked", HttpError::FramingConflict),
        ("Transfer-Encoding: chunked\r\nContent-Length: 5", HttpError::FramingConflict),
        ("Transfer-Encoding: gzip\r\nContent-Length: 5", HttpError::FramingConflict),
        // Section 6.1 and 6.3: chunked is last, once and alone.
        ("Transfer-Encoding: gzip, chunked", HttpError::TransferEncodingUnsupported),
        ("Transfer-Encoding: chunked, identity", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: x", HttpError::TransferEncodingInvalid),
        (
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            HttpError::TransferEncodingInvalid,
        ),
        ("Transfer-Encoding: xchunked", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding: \"chunked\"", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding: chunked;q=1", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding: identity", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding:", HttpError::TransferEncodingInvalid),
        ("Transfer-Encoding: \x0bchunked", HttpError::HeaderInvalid),
        // Section 3.2: one valid Host.
        ("Host: a", HttpError::HostRepeated),
        ("host: b", HttpError::HostRepeated),
    ] {
        assert_eq!(error(&with(lines)), expected, "{}", lines.escape_debug());
    }
    for (head, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", HttpError::HostMissing),
        ("GET http://a/ HTTP/1.1\r\n\r\n", HttpError::HostMissing),
        ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", HttpError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", HttpError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", HttpError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: a:b\r\n\r\n", HttpError::HostInvalid),
        ("GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", HttpError::HostInvalid),
        (
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
            HttpError::TransferEncodingInvalid,
        ),
    ] {
        assert_eq!(error(head.as_bytes()), expected, "{}", head.escape_debug());
    }
}

#[test]
fn sizes_are_limited() {
    let limits = Limits { headers_max: 3, ..Limits::default() };
    let parse = |input: &[u8]| {
        RequestHead::parse(&limits, &mut HeadScanner::default(), input).map(|head| head.is_some())
    };
    let headers = |count: usize| with(&vec!["X: y"; count].join("\r\n"));
    assert_eq!(parse(&headers(2)), Ok(true));
    assert_eq!(parse(&headers(3)), Err(HttpError::HeadersTooMany));
    assert_eq!(error(&headers(64)), HttpError::HeadersTooMany);

    let long = with(&format!("X: {}", "y".repeat(16 * 1024)));
    assert_eq!(error(&long), HttpError::HeadTooLarge);
    let target = format!("GET /{} HTTP/1.1\r\n", "y".repeat(8 * 1024));
    assert_eq!(error(target.as_bytes()), HttpError::TargetTooLong);
    assert_eq!(error(&[b'A'; 16 * 1024]), HttpError::TargetTooLong);
}

#[test]
fn statuses_tell_whose_fault_it_is() {
    for (error, status, code) in [
        (HttpError::HeadTooLarge, 431, "http-head-too-large"),
        (HttpError::TargetTooLong, 414, "http-target-too-long"),
        (HttpError::BodyTooLarge, 413, "http-body-too-large"),
        (HttpError::FramingConflict, 400, "http-framing-conflict"),
        (HttpError::TransferEncodingUnsupported, 501, "http-transfer-encoding-unsupported"),
        (HttpError::Http2Preface, 505, "http-http2-preface"),
    ] {
        assert_eq!((error.status(), error.code()), (status, code));
    }
}

#[test]
fn a_good_head_is_taken_apart() {
    let input = b"\r\nGET http://b.example:81/p/q?x=%20&y HTTP/1.1\r\nHost: a\r\nAccept: x, y\r\n\
                  ACCEPT:z\r\nX-Opaque: \xe9\t.\r\nConnection: Upgrade, close\r\nEmpty:\r\n\r\nBODY";
    let head = parse(input).unwrap().unwrap();
    assert_eq!(head.method(), "GET");
    assert_eq!(head.target(), "http://b.example:81/p/q?x=%20&y");
    assert_eq!((head.path(), head.query()), ("/p/q", Some("x=%20&y")));
    assert_eq!(head.host(), "b.example:81", "section 3.2.2: the target wins");
    assert_eq!(head.minor_version(), 1);
    assert_eq!(head.header("accept"), Some(&b"x, y"[..]));
    assert_eq!(head.header("x-opaque"), Some(&b"\xe9\t."[..]));
    assert_eq!(head.header("empty"), Some(&b""[..]));
    assert_eq!(head.header("absent"), None);
    let accepted: Vec<_> = head.header_tokens("Accept").collect();
    assert_eq!(accepted, [b"x", b"y", b"z"]);
    assert!(!head.keep_alive() && !head.expects_continue());
    assert_eq!(head.headers().count(), 6);
    assert_eq!(&input[head.consumed()..], b"BODY");
}

#[test]
fn versions_differ_in_persistence_and_expectation() {
    let head = parse(b"POST / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n").unwrap().unwrap();
    assert_eq!((head.host(), head.keep_alive(), head.expects_continue()), ("", false, false));
    let input = with("Expect: 100-Continue\r\nContent-Length: 4");
    let head = parse(&input).unwrap().unwrap();
    assert!(head.keep_alive() && head.expects_continue());
    assert_eq!(head.body(), Body::Length(4));
    let input = b"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n";
    assert_eq!(parse(input).unwrap().unwrap().path(), "*");
}

/// RFC 9112 section 9.3.2: requests follow one another without waiting for answers.
#[test]
fn pipelined_requests_are_parsed_one_by_one() {
    let input = b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3";
    let (mut scanner, limits) = (HeadScanner::default(), Limits::default());
    let (mut rest, mut paths) = (&input[..], Vec::new());
    while let Some(head) = RequestHead::parse(&limits, &mut scanner, rest).unwrap() {
        paths.push(head.path());
        rest = &rest[head.consumed()..];
    }
    assert_eq!(paths, ["/1", "/2"]);
    assert_eq!(rest, b"GET /3");
}
