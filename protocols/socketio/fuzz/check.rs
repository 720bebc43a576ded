//! What must hold for any messages: no panic, small memory, and whatever is said is a packet of JSON
//! with the attachments it announces. Shared by the fuzz targets and by the test that replays the
//! corpus.
#![allow(dead_code)]

use std::sync::Arc;

use tiderace_socketio::{SocketOptions, inner};
use tiderace_testkit::Neighbours;
use tiderace_value::Json;
use tiderace_wire::{Framing, MessageFraming, Opening, Request};

static MARKED: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| mark(b't', len, out),
    binary: |len, out| mark(b'b', len, out),
    armour: None,
};

fn mark(kind: u8, len: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

/// The whole input is one text packet of a client in `/` and `/app`.
pub(crate) fn packet(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let mut clients = clients("EIO=4");
        for packet in ["0", "0/app", text] {
            say(&mut clients, true, packet.as_bytes());
        }
        check(&mut clients);
    }
}

/// The first byte chooses the protocol; lines are messages, those that begin with `#` binary ones.
pub(crate) fn session(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut clients = clients(if first % 2 == 0 { "EIO=4" } else { "EIO=3" });
    for line in rest.split(|byte| *byte == b'\n') {
        match line.strip_prefix(b"#") {
            Some(bytes) => say(&mut clients, false, bytes),
            None if std::str::from_utf8(line).is_ok() => say(&mut clients, true, line),
            None => {}
        }
    }
    check(&mut clients);
}

/// What the other client says: values and messages are there, it serves, listens and is in a room.
const HELPFUL: [&str; 8] = [
    "0",
    "2[\"publish\",\"a\",\"one\",{\"retain\":true}]",
    "2[\"publish\",\"fx/EUR\",{\"bid\":1.5},{\"retain\":true}]",
    "2[\"send\",\"q\",\"job\"]",
    "20[\"subscribe\",\"a\"]",
    "21[\"serve\",\"a\"]",
    "22[\"serve\",\"s\"]",
    "0/app",
];

/// A client of that revision, beside another of the same that is in order.
fn clients(query: &str) -> Neighbours {
    let options = SocketOptions {
        message_bytes_max: 2_000,
        subscriptions_max: 8,
        namespaces_max: 4,
        exchanges_max: 4,
        answers_max: 16,
        ..SocketOptions::default()
    };
    let inner = inner(Arc::new(options));
    let mut clients = Neighbours::open(Framing::Messages(&MARKED), |opening| {
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let request = Request {
            method: "GET",
            path: "/socket.io/",
            query: Some(query),
            fields: &[],
            body: b"",
            peer,
        };
        inner(&Opening { request: Some(&request), ..*opening })
    });
    clients.prepare(|other, world| {
        for packet in HELPFUL {
            other.message(world, true, packet.as_bytes());
        }
    });
    clients
}

fn say(clients: &mut Neighbours, text: bool, bytes: &[u8]) {
    clients.act(|client, world| client.message(world, text, bytes));
}

/// Reads all that was said.
fn check(clients: &mut Neighbours) {
    clients.take_outputs().iter().for_each(|said| check_packets(said));
}

/// Packets are JSON, each with as many attachments as it announces.
fn check_packets(said: &[u8]) {
    let mut rest = said;
    let mut due = 0usize;
    while let [kind, a, b, c, d, tail @ ..] = rest {
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (message, tail) = tail.split_at(length);
        rest = tail;
        if *kind == b'b' {
            due = due.checked_sub(1).expect("an attachment of nothing");
            continue;
        }
        assert_eq!(due, 0, "text where an attachment is due");
        let text = std::str::from_utf8(message).expect("text is UTF-8");
        let (kind, text) = text.split_at(1);
        let mut text = text;
        if matches!(kind, "5" | "6") {
            let (count, after) = text.split_once('-').expect("a count of attachments");
            due = count.parse().expect("a number");
            text = after;
        }
        if text.starts_with('/') {
            text = text.split_once(',').expect("a comma behind the namespace").1;
        }
        let json = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
        assert!(json.is_empty() || Json::parse(json.as_bytes(), 128).is_ok(), "{text}");
    }
    assert_eq!(due, 0, "attachments are missing");
}
