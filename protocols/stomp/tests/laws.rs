//! What holds for any bytes in any pieces.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::support::{MESSAGES, Rig};
use proptest::prelude::*;
use tiderace_stomp::StompOptions;
use tiderace_wire::Framing;

const VERSIONS: [&str; 3] = ["1.0", "1.1", "1.2"];

/// Frames of every kind, right and wrong, and pieces of frames.
fn piece() -> impl Strategy<Value = String> {
    let header = prop_oneof![
        Just("destination:/topic/a\n".to_owned()),
        Just("destination:/queue/b.c\r\n".to_owned()),
        Just("destination:/queue/b,/topic/a\n".to_owned()),
        Just("destination:/temp-queue/t\n".to_owned()),
        Just("reply-to:/temp-queue/t\n".to_owned()),
        Just("id:1\n".to_owned()),
        Just("receipt:r\n".to_owned()),
        Just("receipt:s\\\\\n".to_owned()),
        Just("transaction:t\n".to_owned()),
        Just("ack:client\n".to_owned()),
        Just("ttl:1000\n".to_owned()),
        Just("retain:set\n".to_owned()),
        Just("persistent:true\n".to_owned()),
        Just("selector:a = 1\n".to_owned()),
        Just("content-length:3\n".to_owned()),
        Just("content-length:x\n".to_owned()),
        Just("no colon\n".to_owned()),
        "[a-z]{1,4}:[a-z:\\\\ \u{e9}]{0,6}\n",
    ];
    let command = prop_oneof![
        4 => Just("SEND"),
        2 => Just("SUBSCRIBE"),
        1 => Just("UNSUBSCRIBE"),
        1 => Just("ACK"),
        1 => Just("NACK"),
        2 => Just("BEGIN"),
        1 => Just("COMMIT"),
        1 => Just("ABORT"),
        1 => Just("DISCONNECT"),
        1 => Just("CONNECT"),
        1 => Just("NONSENSE"),
    ];
    let body = prop_oneof![Just(""), Just("abc"), Just("longer than announced")];
    let frame = (command, proptest::collection::vec(header, 0..5), body).prop_map(
        |(command, headers, body)| {
            let body = if command == "SEND" { body } else { "" };
            format!("{command}\n{}\n{body}\0", headers.concat())
        },
    );
    prop_oneof![
        12 => frame,
        2 => Just("SEND\ndestination:/topic/a\n\nabc\0\n".to_owned()),
        1 => Just("\n\r\n".to_owned()),
        1 => "[A-Z\n\r:\0a]{0,12}",
    ]
}

/// What the session did: its commands and its words, and whether it ended.
fn played(
    version: &str,
    tight: bool,
    bytes: &[u8],
    cuts: &[usize],
) -> (String, Vec<u8>, Option<String>) {
    let mut options = StompOptions::default();
    if tight {
        options.header_bytes_max = 60;
        options.headers_max = 3;
        options.message_bytes_max = 5;
        options.transaction_bytes_max = 200;
    }
    let mut rig = Rig::with(options, Framing::Stream);
    rig.connect(version);
    rig.broker.mute = true;
    let mut rest = bytes;
    let mut cuts = cuts.iter().copied().chain(std::iter::repeat(usize::MAX));
    while !rest.is_empty() {
        let (piece, tail) = rest.split_at(cuts.next().unwrap().min(rest.len()));
        rig.send(piece);
        rest = tail;
    }
    let end = rig.end.as_ref().map(|close| close.to_string());
    (rig.commands.join("\n"), rig.received_bytes(), end)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn pieces_make_no_difference(
        version in 0usize..3,
        tight: bool,
        pieces in proptest::collection::vec(piece(), 1..10),
        cuts in proptest::collection::vec(1usize..24, 0..80),
    ) {
        let bytes = pieces.concat().into_bytes();
        let whole = played(VERSIONS[version], tight, &bytes, &[]);
        prop_assert_eq!(&played(VERSIONS[version], tight, &bytes, &cuts), &whole);
        let single = vec![1; bytes.len()];
        prop_assert_eq!(&played(VERSIONS[version], tight, &bytes, &single), &whole);
    }

    #[test]
    fn no_bytes_do_harm(
        connected: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        pieces in proptest::collection::vec(piece(), 0..4),
    ) {
        let mut rig = if connected { Rig::connected("1.2") } else { Rig::new() };
        rig.send(pieces.concat().as_bytes());
        rig.send(&bytes);
        rig.send(b"\0");
    }

    /// A body and its headers arrive as they were sent, whatever the versions of the two sides.
    #[test]
    fn what_is_sent_is_received(
        version in 1usize..3,
        // No name that means something to the server begins so.
        name in "x[a-z]{1,7}",
        value in "[a-zA-Z:\\\\\n \u{e9}]{0,12}",
        body in proptest::collection::vec(any::<u8>(), 0..40),
        messages: bool,
    ) {
        let framing = if messages { Framing::Messages(&MESSAGES) } else { Framing::Stream };
        let mut rig = Rig::with(StompOptions::default(), framing);
        rig.connect(VERSIONS[version]);
        rig.say("SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0");
        let escaped = value.replace('\\', "\\\\").replace('\n', "\\n").replace(':', "\\c");
        let head = format!("SEND\ndestination:/topic/a\n{name}:{escaped}\ncontent-length:{}\n\n", body.len());
        rig.send(&[head.as_bytes(), &body, b"\0"].concat());
        let received = rig.received_bytes();
        let head = format!(
            "MESSAGE\nsubscription:1\ndestination:/topic/a\nmessage-id:0-1\n{name}:{escaped}\ncontent-length:{}\n\n",
            body.len()
        );
        let frame = [head.as_bytes(), &body, b"\0"].concat();
        let kind = if std::str::from_utf8(&frame).is_ok() { "text" } else { "binary" };
        let header = if messages { format!("<{kind} {}>", frame.len()) } else { String::new() };
        prop_assert_eq!(received, [header.as_bytes(), &frame].concat());
    }
}
