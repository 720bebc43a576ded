//! Round trips under every split, and floods of arbitrary bytes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::common;

use common::*;
use proptest::collection::vec;
use proptest::prelude::*;
use tiderace_websocket::{
    CloseError, Decoder, Event, Limits, Masker, MessageKind, Opcode, Role, encode_close,
    encode_message, encode_ping, encode_pong, mask, write_frame_header,
};

/// What to send: a message with its fragment borders and the pings between, or a control frame.
#[derive(Clone, Debug)]
enum Send {
    Message(MessageKind, Vec<u8>, Vec<usize>, Vec<Vec<u8>>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
}

fn message() -> impl Strategy<Value = Send> {
    let text = "\\PC{0,200}".prop_map(|text| (MessageKind::Text, text.into_bytes()));
    let binary = prop_oneof![
        8 => vec(any::<u8>(), 0..300),
        1 => vec(any::<u8>(), 65_500..65_600),
    ]
    .prop_map(|bytes| (MessageKind::Binary, bytes));
    let borders = vec(any::<prop::sample::Index>(), 0..5);
    let pings = vec(vec(any::<u8>(), 0..=125), 0..3);
    (prop_oneof![text, binary], borders, pings).prop_map(|((kind, payload), borders, pings)| {
        let mut cuts: Vec<_> =
            borders.iter().map(|border| border.index(payload.len() + 1)).collect();
        cuts.sort_unstable();
        Send::Message(kind, payload, cuts, pings)
    })
}

fn sends() -> impl Strategy<Value = Vec<Send>> {
    let control = || vec(any::<u8>(), 0..=125);
    let one = prop_oneof![
        4 => message(),
        1 => control().prop_map(Send::Ping),
        1 => control().prop_map(Send::Pong),
    ];
    vec(one, 0..8)
}

/// Encodes with the crate's encoder; returns the bytes and what must be seen.
fn encode(sends: &[Send], key: Option<[u8; 4]>) -> (Vec<u8>, Vec<Seen>) {
    let (mut out, mut seen) = (Vec::new(), Vec::new());
    for send in sends {
        match send {
            Send::Ping(payload) => {
                encode_ping(&mut out, payload, key);
                seen.push(Seen::Ping(payload.clone()));
            }
            Send::Pong(payload) => {
                encode_pong(&mut out, payload, key);
                seen.push(Seen::Pong(payload.clone()));
            }
            Send::Message(kind, payload, cuts, _) if cuts.is_empty() => {
                encode_message(&mut out, *kind, payload, key);
                seen.push(Seen::Message(*kind, payload.clone()));
            }
            Send::Message(kind, payload, cuts, pings) => {
                encode_fragments(&mut out, *kind, payload, cuts, key, |out, index| {
                    if let Some(ping) = pings.get(index) {
                        encode_ping(out, ping, key);
                        seen.push(Seen::Ping(ping.clone()));
                    }
                });
                seen.push(Seen::Message(*kind, payload.clone()));
            }
        }
    }
    encode_close(&mut out, Some(1000), "done", key);
    seen.push(Seen::Close(Some(1000), "done".into()));
    (out, seen)
}

fn encode_fragments(
    out: &mut Vec<u8>,
    kind: MessageKind,
    payload: &[u8],
    cuts: &[usize],
    key: Option<[u8; 4]>,
    mut between: impl FnMut(&mut Vec<u8>, usize),
) {
    let mut start = 0;
    for (index, end) in cuts.iter().copied().chain([payload.len()]).enumerate() {
        let opcode = if index == 0 { kind.into() } else { Opcode::Continuation };
        write_frame_header(out, index == cuts.len(), opcode, end - start, key);
        let at = out.len();
        out.extend_from_slice(&payload[start..end]);
        if let Some(key) = key {
            mask(&mut out[at..], key);
        }
        if index < cuts.len() {
            between(out, index);
        }
        start = end;
    }
}

/// Cuts bytes into pieces of the given sizes, cycled.
fn pieces<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at((*size).min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_whatever_the_splits(
        sends in sends(),
        key in any::<[u8; 4]>(),
        from_client in any::<bool>(),
        sizes in vec(1usize..2000, 1..8),
    ) {
        let (key, role) = if from_client { (Some(key), Role::Server) } else { (None, Role::Client) };
        let (bytes, expected) = encode(&sends, key);
        let (seen, error) = drive(role, &Limits::default(), pieces(&bytes, &sizes));
        prop_assert_eq!(error, None);
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn what_is_passed_on_in_parts_is_the_same_stream(
        sends in sends(),
        key in any::<[u8; 4]>(),
        from_client in any::<bool>(),
        sizes in vec(1usize..40_000, 1..8),
    ) {
        let (key, role) = if from_client { (Some(key), Role::Server) } else { (None, Role::Client) };
        let (bytes, expected) = encode(&sends, key);
        let (mut payload, mut controls) = (Vec::new(), Vec::new());
        let mut decoder = Decoder::new(role);
        let mut pending = Vec::new();
        for piece in pieces(&bytes, &sizes) {
            pending.extend_from_slice(piece);
            loop {
                let decoded = decoder.decode_parts(&Limits::default(), 1 << 20, &mut pending).unwrap();
                let consumed = decoded.consumed;
                let more = match decoded.event {
                    Event::Incomplete { need } => {
                        prop_assert!(need > pending.len() - consumed && need <= 16 << 10);
                        false
                    }
                    Event::Part(part) => {
                        prop_assert!(!part.is_empty());
                        payload.extend_from_slice(part);
                        true
                    }
                    Event::Message { payload: whole, .. } => {
                        payload.extend_from_slice(whole);
                        true
                    }
                    Event::Reassembled { .. } => panic!("nothing is kept"),
                    Event::Ping(ping) => {
                        controls.push(Seen::Ping(ping.to_vec()));
                        true
                    }
                    Event::Pong(pong) => {
                        controls.push(Seen::Pong(pong.to_vec()));
                        true
                    }
                    Event::Close { code, reason } => {
                        controls.push(Seen::Close(code, reason.to_owned()));
                        true
                    }
                };
                pending.drain(..consumed);
                prop_assert_eq!(decoder.heap_bytes(), 0);
                if !more {
                    break;
                }
            }
        }
        let (mut wanted, mut others) = (Vec::new(), Vec::new());
        for seen in expected {
            match seen {
                Seen::Message(_, message) => wanted.extend_from_slice(&message),
                other => others.push(other),
            }
        }
        prop_assert!(payload == wanted);
        prop_assert_eq!(controls, others);
    }

    #[test]
    fn parts_are_judged_like_whole_messages(
        bytes in hostile(),
        sizes in vec(1usize..50, 1..8),
    ) {
        let limits = Limits { message_bytes_max: 500, ..Limits::default() };
        let (_, whole) = drive(Role::Server, &limits, [&bytes[..]]);
        let mut decoder = Decoder::new(Role::Server);
        let (mut pending, mut error) = (Vec::new(), None);
        'all: for piece in pieces(&bytes, &sizes) {
            pending.extend_from_slice(piece);
            loop {
                match decoder.decode_parts(&limits, 500, &mut pending) {
                    Ok(decoded) => {
                        let (consumed, more) = (decoded.consumed, !matches!(decoded.event, Event::Incomplete { .. }));
                        pending.drain(..consumed);
                        if !more { break }
                    }
                    Err(found) => {
                        error = Some(found);
                        break 'all;
                    }
                }
            }
        }
        // How many frames a message may have is a matter of what is kept; a run of control frames is judged by what
        // is at hand.
        if whole != Some(CloseError::FragmentsTooMany) && whole != Some(CloseError::ControlFlood) {
            prop_assert_eq!(error, whole);
        }
    }

    #[test]
    fn splits_do_not_change_the_verdict(
        bytes in hostile(),
        sizes in vec(1usize..50, 1..8),
    ) {
        let limits = Limits { message_bytes_max: 500, ..Limits::default() };
        for role in [Role::Client, Role::Server] {
            let whole = drive(role, &limits, [&bytes[..]]);
            let split = drive(role, &limits, pieces(&bytes, &sizes));
            prop_assert_eq!(&whole, &split);
        }
    }

    #[test]
    fn masking_twice_is_nothing(payload in vec(any::<u8>(), 0..300), key in any::<[u8; 4]>()) {
        let mut masked = payload.clone();
        mask(&mut masked, key);
        mask(&mut masked, key);
        prop_assert_eq!(masked, payload);
    }

    #[test]
    fn truncated_streams_are_incomplete_not_wrong(sends in sends(), cut in any::<prop::sample::Index>()) {
        let (bytes, expected) = encode(&sends, Some(KEY));
        let cut = cut.index(bytes.len());
        let (seen, error) = drive(Role::Server, &Limits::default(), [&bytes[..cut]]);
        prop_assert_eq!(error, None::<CloseError>);
        prop_assert!(expected.starts_with(&seen));
        prop_assert!(seen.len() < expected.len());
    }
}

/// Bytes that look like frames often enough to reach the state machine.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let frame = (any::<u8>(), vec(any::<u8>(), 0..140), any::<bool>()).prop_map(
        |(first, payload, mask)| {
            // Reserved bits mostly clear, or nothing else would ever be tested.
            let first = if first & 0x70 == 0x70 { first } else { first & 0x8F };
            common::frame(first, &payload, mask.then_some(KEY))
        },
    );
    prop_oneof![vec(any::<u8>(), 0..200), vec(frame, 0..6).prop_map(|frames| frames.concat()),]
}

proptest! {
    /// Section 5.3: whatever a client writes, and wherever it is cut on its way through the masker, a server reads it,
    /// and every frame has a key of its own.
    #[test]
    fn what_is_masked_on_the_way_out_is_what_a_server_reads(
        sends in sends(),
        cuts in vec(1usize..400, 1..20),
        seed in any::<u32>(),
    ) {
        let (frames, expected) = encode(&sends, None);
        let (mut masker, mut wire, mut keys) = (Masker::new(), Vec::new(), 0u32);
        let mut cuts = cuts.iter().cycle();
        let mut rest = &frames[..];
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
            masker.mask(piece, &mut wire, || {
                keys += 1;
                seed.wrapping_add(keys).to_le_bytes()
            });
            rest = behind;
        }
        prop_assert!(masker.is_between_frames());
        prop_assert_eq!(wire.len(), frames.len() + 4 * keys as usize);
        let (seen, error) = serve(&wire);
        prop_assert_eq!((seen, error), (expected, None));
        // The same bytes as if each frame had been written with its key.
        prop_assert_eq!(unmasked(&wire, keys, seed), frames);
    }
}

/// Takes the masks off by the definition of section 5.3, frame by frame, and checks each key.
fn unmasked(mut wire: &[u8], keys: u32, seed: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for number in 1..=keys {
        let header_len = match wire[1] & 0x7F {
            126 => 4,
            127 => 10,
            _ => 2,
        };
        let payload_len = match header_len {
            2 => usize::from(wire[1] & 0x7F),
            4 => usize::from(u16::from_be_bytes([wire[2], wire[3]])),
            _ => u64::from_be_bytes(wire[2..10].try_into().unwrap()) as usize,
        };
        let (header, behind) = wire.split_at(header_len);
        let (key, behind) = behind.split_at(4);
        let (payload, behind) = behind.split_at(payload_len);
        assert_eq!(header[1] & 0x80, 0x80);
        assert_eq!(key, seed.wrapping_add(number).to_le_bytes());
        out.extend_from_slice(&[header[0], header[1] & 0x7F]);
        out.extend_from_slice(&header[2..]);
        out.extend(payload.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key));
        wire = behind;
    }
    assert!(wire.is_empty());
    out
}
