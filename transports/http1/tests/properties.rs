//! Round trips, splits and arbitrary bytes, with the checks the fuzz targets use.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::checks;

use proptest::collection::vec;
use proptest::prelude::*;
use tiderace_http1::{
    ChunkEvent, ChunkedDecoder, Connection, HeadScanner, Limits, RequestHead, Response,
    write_chunk, write_last_chunk,
};

fn header() -> impl Strategy<Value = (String, String)> {
    ("X-[A-Za-z0-9!#$%&'*+.^_`|~-]{1,20}", "([!-~]([ -~\t]{0,40}[!-~])?)?")
}

/// Pieces of which hostile heads are made.
fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let known = prop_oneof![
        Just("GET / HTTP/1.1\r\n"),
        Just("POST /a?b HTTP/1.0\r\n"),
        Just("Host: a\r\n"),
        Just("Content-Length: 3\r\n"),
        Just("Content-Length: "),
        Just("Transfer-Encoding: chunked\r\n"),
        Just("Transfer-Encoding: "),
        Just("chunked, "),
        Just("X: y\r\n"),
        Just(" "),
        Just("\r\n"),
        Just("\n"),
        Just("\r"),
        Just(":"),
        Just("\r\n\r\n"),
    ];
    prop_oneof![
        12 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #[test]
    fn heads_come_back_as_they_were_sent(
        method in "[A-Z]{1,8}",
        path in "/[a-zA-Z0-9/._~%-]{0,40}",
        query in proptest::option::of("[a-z0-9=&?/%]{0,20}"),
        headers in vec(header(), 0..20),
        body in vec(any::<u8>(), 0..20),
    ) {
        prop_assume!(method != "CONNECT");
        let target = query.as_ref().map_or(path.clone(), |query| format!("{path}?{query}"));
        let mut input = format!("{method} {target} HTTP/1.1\r\nHost: h.example:80\r\n").into_bytes();
        for (name, value) in &headers {
            input.extend(format!("{name}: {value}\r\n").bytes());
        }
        input.extend(b"\r\n");
        let head_len = input.len();
        input.extend(&body);
        let head = RequestHead::parse(&Limits::default(), &mut HeadScanner::default(), &input);
        let head = head.unwrap().unwrap();
        prop_assert_eq!(head.consumed(), head_len);
        prop_assert_eq!((head.method(), head.path()), (method.as_str(), path.as_str()));
        prop_assert_eq!(head.query(), query.as_deref());
        let seen: Vec<_> = head.headers().skip(1).collect();
        let sent: Vec<_> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        prop_assert_eq!(seen, sent);
        checks::head(&input);
    }

    #[test]
    fn hostile_heads_keep_the_promises(parts in vec(fragment(), 0..14)) {
        checks::head(&parts.concat());
        let after_good = [b"GET / HTTP/1.1\r\nHost: a\r\n", parts.concat().as_slice()].concat();
        checks::head(&after_good);
    }

    #[test]
    fn arbitrary_bytes_keep_the_promises(bytes in vec(any::<u8>(), 0..300)) {
        checks::head(&bytes);
        checks::chunked(&bytes);
    }

    #[test]
    fn hostile_chunks_keep_the_promises(
        choice in any::<u8>(),
        parts in vec(
            prop::sample::select(vec![
                "3\r\nabc\r\n", "0\r\n", "\r\n", "a: b\r\n", "1;x=y\r\nz\r\n", "00", "f", ";", " ", "\n",
            ]),
            0..12,
        ),
    ) {
        checks::chunked(&[&[choice][..], parts.concat().as_bytes()].concat());
    }

    #[test]
    fn chunks_come_back_whatever_the_splits(
        pieces in vec(vec(any::<u8>(), 0..300), 0..8),
        cut in 1usize..50,
    ) {
        let mut bytes = Vec::new();
        for piece in &pieces {
            write_chunk(&mut bytes, piece);
        }
        write_last_chunk(&mut bytes);
        let (mut decoder, mut body, mut ended) = (ChunkedDecoder::default(), Vec::new(), false);
        for mut input in bytes.chunks(cut) {
            while !input.is_empty() {
                let decoded = decoder.decode(&Limits::default(), input).unwrap();
                input = &input[decoded.consumed..];
                if let ChunkEvent::Data(data) = decoded.event {
                    body.extend_from_slice(data);
                } else {
                    ended = decoded.event == ChunkEvent::End;
                    break;
                }
            }
        }
        prop_assert_eq!(body, pieces.concat());
        prop_assert!(ended);
    }

    /// What is written parses as one response with the fields given, or is not written.
    #[test]
    fn responses_cannot_be_split(
        status in 0u16..700,
        name in "[ -~\r\n]{0,10}",
        value in "[ -~\r\n\t]{0,20}",
        body in vec(any::<u8>(), 0..50),
    ) {
        let headers = [(name.as_str(), value.as_str())];
        let response =
            Response { status, headers: &headers, date: None, connection: Connection::KeepAlive };
        let mut out = Vec::new();
        if response.write(&mut out, &body).is_err() {
            prop_assert!(out.is_empty());
            return Ok(());
        }
        let mut parsed_headers = [httparse::EMPTY_HEADER; 8];
        let mut parsed = httparse::Response::new(&mut parsed_headers);
        let httparse::Status::Complete(head_len) = parsed.parse(&out).unwrap() else {
            panic!("the head is whole");
        };
        prop_assert_eq!(parsed.code, Some(status));
        prop_assert_eq!(parsed.headers[0].name, name);
        prop_assert!(parsed.headers.len() <= 3);
        let bodiless = matches!(status, 100..200 | 204 | 304);
        prop_assert_eq!(&out[head_len..], if bodiless { &[][..] } else { &body[..] });
    }
}
