//! The same valid streams through tungstenite: both must see the same messages.

#![allow(clippy::unwrap_used)]

use crate::common;

use std::io::{Cursor, Read, Write};

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tiderace_websocket::{Limits, Role};
use tungstenite::Message;
use tungstenite::protocol::{Role as PeerRole, WebSocket};

/// Reads what is there and swallows what is written.
struct OneWay(Cursor<Vec<u8>>);

impl Read for OneWay {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for OneWay {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn tungstenite_sees(bytes: Vec<u8>, role: PeerRole) -> Vec<Seen> {
    let mut peer = WebSocket::from_raw_socket(OneWay(Cursor::new(bytes)), role, None);
    let mut seen = Vec::new();
    while let Ok(message) = peer.read() {
        seen.push(match message {
            Message::Text(payload) => text(payload.as_str()),
            Message::Binary(payload) => binary(payload),
            Message::Ping(payload) => Seen::Ping(payload.to_vec()),
            Message::Pong(payload) => Seen::Pong(payload.to_vec()),
            Message::Close(frame) => match frame {
                Some(frame) => Seen::Close(Some(frame.code.into()), frame.reason.to_string()),
                None => Seen::Close(None, String::new()),
            },
            Message::Frame(_) => unreachable!("raw frames are not read"),
        });
    }
    seen
}

fn frames() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
    let words = "\\PC{0,300}".prop_map(|text| vec![(FIN | TEXT, text.into_bytes())]);
    let bytes = vec(any::<u8>(), 0..70_000).prop_map(|bytes| vec![(FIN | BINARY, bytes)]);
    let control = (prop_oneof![Just(PING), Just(PONG)], vec(any::<u8>(), 0..=125))
        .prop_map(|(opcode, payload)| vec![(FIN | opcode, payload)]);
    let fragments =
        (vec("\\PC{0,50}", 2..6), vec(any::<u8>(), 0..=125)).prop_map(|(parts, ping)| {
            let last = parts.len() - 1;
            let mut frames = Vec::new();
            for (index, part) in parts.into_iter().enumerate() {
                let opcode = if index == 0 { TEXT } else { CONTINUATION };
                let fin = if index == last { FIN } else { 0 };
                frames.push((fin | opcode, part.into_bytes()));
                if index == 0 {
                    frames.push((FIN | PING, ping.clone()));
                }
            }
            frames
        });
    let close = Just(vec![(FIN | CLOSE, b"\x03\xE8bye".to_vec())]);
    let stream = vec(prop_oneof![words, bytes, control, fragments], 0..6);
    (stream, close).prop_map(|(stream, close)| stream.into_iter().flatten().chain(close).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn servers_agree(frames in frames()) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| masked(*first, payload)).collect();
        let (seen, error) = drive(Role::Server, &Limits::default(), [&bytes[..]]);
        prop_assert_eq!(error, None);
        prop_assert_eq!(seen, tungstenite_sees(bytes, PeerRole::Server));
    }

    #[test]
    fn clients_agree(frames in frames()) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(first, payload)| unmasked(*first, payload)).collect();
        let (seen, error) = drive(Role::Client, &Limits::default(), [&bytes[..]]);
        prop_assert_eq!(error, None);
        prop_assert_eq!(seen, tungstenite_sees(bytes, PeerRole::Client));
    }
}

#[test]
fn accept_keys_agree() {
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let theirs = tungstenite::handshake::derive_accept_key(key.as_bytes());
    assert_eq!(tiderace_websocket::handshake::accept_key(key.as_bytes()), theirs.as_bytes());
}

#[test]
fn both_refuse_what_the_rfc_refuses() {
    for bytes in [
        masked(FIN | 0x40 | TEXT, "x"),
        masked(FIN | 0x3, "x"),
        masked(PING, "x"),
        masked(FIN | PING, [0; 126]),
        masked(FIN, "x"),
        masked(FIN | TEXT, [0xFF]),
        unmasked(FIN | TEXT, "x"),
    ] {
        assert!(serve(&bytes).1.is_some());
        assert_eq!(tungstenite_sees(bytes, PeerRole::Server), []);
    }
}
