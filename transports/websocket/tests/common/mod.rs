//! Frames made by hand, including forbidden ones, and a way to feed them piece by piece.
//!
//! Relies on nothing of the encoder, so that encoder and decoder cannot be wrong together.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use tiderace_websocket::{CloseError, Decoder, Event, HEADER_BYTES_MAX, Limits, MessageKind, Role};

pub const KEY: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

pub const CONTINUATION: u8 = 0x0;
pub const TEXT: u8 = 0x1;
pub const BINARY: u8 = 0x2;
pub const CLOSE: u8 = 0x8;
pub const PING: u8 = 0x9;
pub const PONG: u8 = 0xA;

pub const FIN: u8 = 0x80;

/// An event that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    Message(MessageKind, Vec<u8>),
    Ping(Vec<u8>),
    Pong(Vec<u8>),
    Close(Option<u16>, String),
}

pub fn text(payload: impl AsRef<[u8]>) -> Seen {
    Seen::Message(MessageKind::Text, payload.as_ref().to_vec())
}

pub fn binary(payload: impl AsRef<[u8]>) -> Seen {
    Seen::Message(MessageKind::Binary, payload.as_ref().to_vec())
}

/// A masked frame whose first byte (FIN, RSV, opcode) is given.
pub fn masked(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(first, payload.as_ref(), Some(KEY))
}

/// An unmasked frame.
pub fn unmasked(first: u8, payload: impl AsRef<[u8]>) -> Vec<u8> {
    frame(first, payload.as_ref(), None)
}

pub fn frame(first: u8, payload: &[u8], key: Option<[u8; 4]>) -> Vec<u8> {
    let mask_bit = if key.is_some() { 0x80 } else { 0 };
    let mut out = vec![first];
    if payload.len() < 126 {
        out.push(mask_bit | payload.len() as u8);
    } else if payload.len() < 65_536 {
        out.push(mask_bit | 126);
        out.extend((payload.len() as u16).to_be_bytes());
    } else {
        out.push(mask_bit | 127);
        out.extend((payload.len() as u64).to_be_bytes());
    }
    let key_bytes = key.unwrap_or_default();
    out.extend(key.into_iter().flatten());
    out.extend(payload.iter().zip(key_bytes.iter().cycle()).map(|(byte, key)| byte ^ key));
    out
}

/// Feeds the pieces to a fresh decoder; what it saw and how it failed, if it did.
pub fn drive<'p>(
    role: Role,
    limits: &Limits,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> (Vec<Seen>, Option<CloseError>) {
    let mut decoder = Decoder::new(role);
    let (mut seen, mut pending) = (Vec::new(), Vec::new());
    for piece in pieces {
        pending.extend_from_slice(piece);
        if let Err(error) = drain(&mut decoder, limits, &mut pending, &mut seen) {
            return (seen, Some(error));
        }
    }
    (seen, None)
}

/// Decodes all that is whole, checking the promises about `need` and `consumed`.
pub fn drain(
    decoder: &mut Decoder,
    limits: &Limits,
    pending: &mut Vec<u8>,
    seen: &mut Vec<Seen>,
) -> Result<(), CloseError> {
    loop {
        let decoded = decoder.decode(limits, pending)?;
        let consumed = decoded.consumed;
        let event = match decoded.event {
            Event::Incomplete { need } => {
                let left = pending.len() - consumed;
                assert!(need > left, "need {need} must exceed the {left} bytes at hand");
                assert!(need <= HEADER_BYTES_MAX + limits.message_bytes_max.max(125));
                pending.drain(..consumed);
                assert!(decoder.heap_bytes() <= 2 * limits.message_bytes_max + 128);
                return Ok(());
            }
            Event::Message { kind, payload } => Seen::Message(kind, payload.to_vec()),
            Event::Reassembled { kind, payload } => Seen::Message(kind, payload),
            Event::Part(_) => unreachable!("only `decode_parts` gives parts"),
            Event::Ping(payload) => Seen::Ping(payload.to_vec()),
            Event::Pong(payload) => Seen::Pong(payload.to_vec()),
            Event::Close { code, reason } => Seen::Close(code, reason.to_owned()),
        };
        assert!(consumed > 0, "an event consumes its frame");
        seen.push(event);
        pending.drain(..consumed);
    }
}

/// What a server sees of these bytes in one piece.
pub fn serve(bytes: impl AsRef<[u8]>) -> (Vec<Seen>, Option<CloseError>) {
    drive(Role::Server, &Limits::default(), [bytes.as_ref()])
}
