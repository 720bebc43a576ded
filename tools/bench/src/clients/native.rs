//! The native protocol as a client that counts sees it: docs/protocol.md, without deltas.
//!
//! Not the client of `clients/rust`, which keeps the topics, their versions and their values: a load generator
//! has to read more than a server can send, so it looks at bytes and keeps no state of topics. Reading is
//! incremental and keeps three counters between reads; the body of an update is skipped
//! but for the time at its beginning. Invariant: every version of every topic is looked at, so nothing
//! is left out unnoticed.

use std::io;

use tiderace_base::{read_varint, write_varint};

use crate::clients::counters::{Counters, broken};

/// What a client has read so far.
#[derive(Debug)]
pub struct Reader {
    /// Bytes of the UPDATES message being read that are still to come.
    message_left: usize,
    /// Bytes of the body being skipped.
    body_left: usize,
    /// The last version of each subscription, with [`KNOWN`] set once there was one.
    versions: Box<[u32]>,
    /// What else the server has said.
    pub heard: Heard,
}

/// What a server has said besides messages of topics.
#[derive(Debug, Default)]
pub struct Heard {
    /// Whether WELCOME has come.
    pub welcome: bool,
    /// How many requests have been answered.
    pub answered: u64,
}

impl Heard {
    /// Takes a message in whole and says how long it is; zero if more bytes are needed.
    ///
    /// # Errors
    /// When the server refuses something or closes.
    pub(crate) fn message(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut cursor = Cursor { bytes, at: 0 };
        let Some((kind, length)) = cursor.header() else { return Ok(0) };
        let head = cursor.at;
        let Some(payload) = bytes.get(head..head + length) else { return Ok(0) };
        let mut fields = Cursor { bytes: payload, at: 0 };
        match kind {
            WELCOME => self.welcome = true,
            OK => {
                let follow = fields.varint().and_then(|_| fields.varint()).unwrap_or(0);
                self.answered += 1 + follow;
            }
            ERROR | CLOSE => {
                return Err(broken(&format!("the server says {}", payload.escape_ascii())));
            }
            _ => {}
        }
        Ok(head + length)
    }
}

impl Reader {
    /// A reader of so many subscriptions.
    pub fn new(subscriptions: usize) -> Reader {
        Reader {
            message_left: 0,
            body_left: 0,
            versions: vec![0; subscriptions].into(),
            heard: Heard::default(),
        }
    }

    /// Walks bytes; what is not consumed has to come again with more behind it.
    ///
    /// # Errors
    /// When the server speaks nonsense, refuses something or closes.
    pub fn walk(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut at = 0;
        loop {
            if self.body_left > 0 {
                let skipped = self.body_left.min(bytes.len() - at);
                at += skipped;
                self.body_left -= skipped;
                self.message_left -= skipped;
                if self.body_left > 0 {
                    return Ok(at);
                }
            }
            let rest = bytes.get(at..).unwrap_or_default();
            let taken = if self.message_left > 0 {
                self.entry(rest, counters)?
            } else {
                self.message(rest, counters)?
            };
            match taken {
                0 => return Ok(at),
                taken => at += taken,
            }
        }
    }

    /// One entry of UPDATES up to the time in its body; zero if more bytes are needed.
    fn entry(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut cursor = Cursor { bytes, at: 0 };
        let Some((flags, id, version, body)) = cursor.entry() else { return Ok(0) };
        let head = cursor.at;
        let stamp_bytes = body.min(STAMP_BYTES);
        let Some(stamp) = bytes.get(head..head + stamp_bytes) else { return Ok(0) };
        let taken = head + stamp_bytes;
        if flags & DELTA != 0 || head + body > self.message_left {
            return Err(broken("an update is not as it was asked for"));
        }
        if flags & ANNOUNCED == 0
            && let Some(last) = self.versions.get_mut(id)
        {
            if *last & KNOWN != 0 {
                let step = (version as u16).wrapping_sub(*last as u16);
                counters.skipped += u64::from(step.wrapping_sub(1));
            }
            *last = u32::from(version as u16) | KNOWN;
        }
        counters.message(stamp.try_into().map_or(0, u64::from_be_bytes), body);
        self.body_left = body - stamp_bytes;
        self.message_left -= taken;
        Ok(taken)
    }

    /// The header of UPDATES, or any other message whole; zero if more bytes are needed.
    fn message(&mut self, bytes: &[u8], counters: &mut Counters) -> io::Result<usize> {
        let mut cursor = Cursor { bytes, at: 0 };
        let Some((kind, length)) = cursor.header() else { return Ok(0) };
        let head = cursor.at;
        if kind == UPDATES {
            self.message_left = length;
            counters.batches += 1;
            return Ok(head);
        }
        self.heard.message(bytes)
    }
}

/// Fields, from the front.
pub(crate) struct Cursor<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl Cursor<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied()?;
        self.at += 1;
        Some(byte)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut rest = self.bytes.get(self.at..)?;
        let value = read_varint(&mut rest)?;
        self.at = self.bytes.len() - rest.len();
        Some(value)
    }

    fn size(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    /// Type and length of a message.
    pub(crate) fn header(&mut self) -> Option<(u8, usize)> {
        Some((self.byte()?, self.size()?))
    }

    /// Flags, id, version and length of the body of an entry.
    pub(crate) fn entry(&mut self) -> Option<(u8, usize, u64, usize)> {
        let flags = self.byte()?;
        let id = self.size()?;
        let version = if flags & FULL_VERSION != 0 {
            self.varint()?
        } else {
            u64::from(u16::from_le_bytes([self.byte()?, self.byte()?]))
        };
        if flags & PROPERTIES != 0 {
            let length = self.size()?;
            self.at += length;
        }
        Some((flags, id, version, self.size()?))
    }
}

/// Appends HELLO of somebody anonymous, or with name and password, who can decode these deltas.
pub fn hello(out: &mut Vec<u8>, credentials: Option<&(String, String)>, codecs: &[u8]) {
    message(out, 0x01, |out| {
        out.extend_from_slice(&[1, 0]);
        match credentials {
            None => out.push(0),
            Some((name, password)) => {
                out.push(1);
                bytes(out, name.as_bytes());
                bytes(out, password.as_bytes());
            }
        }
        bytes(out, codecs);
        bytes(out, b"tiderace-bench");
        out.push(0);
    });
}

/// Appends SUBSCRIBE to one topic.
pub fn subscribe(out: &mut Vec<u8>, request: u64, id: u64, flags: u8, path: &str) {
    message(out, 0x03, |out| {
        write_varint(out, request);
        write_varint(out, id);
        out.extend_from_slice(&[flags, 0]);
        bytes(out, path.as_bytes());
    });
}

/// Appends SUBSCRIBE to a pattern of topics.
pub fn subscribe_pattern(out: &mut Vec<u8>, request: u64, id: u64, flags: u8, pattern: &str) {
    message(out, 0x03, |out| {
        write_varint(out, request);
        write_varint(out, id);
        write_varint(out, u64::from(flags) | PATTERN);
        out.push(0);
        bytes(out, pattern.as_bytes());
    });
}

/// Appends PUBLISH to a topic; a request of zero asks for no answer.
pub fn publish(out: &mut Vec<u8>, request: u64, flags: u8, path: &str, body: &[u8]) {
    message(out, 0x06, |out| {
        write_varint(out, request);
        out.extend_from_slice(&[flags, 0, 0]);
        bytes(out, path.as_bytes());
        out.extend_from_slice(body);
    });
}

fn message(out: &mut Vec<u8>, kind: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    write(&mut payload);
    out.push(kind);
    bytes(out, &payload);
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

const WELCOME: u8 = 0x41;
const OK: u8 = 0x42;
const ERROR: u8 = 0x43;
/// The type of updates.
pub(crate) const UPDATES: u8 = 0x45;
const CLOSE: u8 = 0x4c;
const PROPERTIES: u8 = 0x04;
/// Of an update: the id is a topic's.
pub(crate) const ANNOUNCED: u8 = 0x08;
const FULL_VERSION: u8 = 0x10;
/// Of an update: the data is a delta.
pub(crate) const DELTA: u8 = 0x20;
/// Of a publication: the body is octets.
pub const OCTETS: u8 = 3;
/// Of a publication: the body is JSON and becomes the topic's value.
pub const JSON_VALUE: u8 = 1 | 0x08;
/// Of a subscription: it names several topics.
const PATTERN: u64 = 0x100;
/// Of a subscription: the current value comes first.
pub const SNAPSHOT: u8 = 0x01;
/// Of a subscription: updates may be deltas.
pub const DELTAS: u8 = 0x04;
/// The delta codec of docs/protocol.md.
pub const CODEC: u8 = 1;
const STAMP_BYTES: usize = 8;
const KNOWN: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// An update of subscription 3: version, stamp and filling.
    fn update(out: &mut Vec<u8>, version: u16, stamp: u64, filling: usize) {
        let mut entry = vec![3, 3];
        entry.extend_from_slice(&version.to_le_bytes());
        write_varint(&mut entry, (8 + filling) as u64);
        entry.extend_from_slice(&stamp.to_be_bytes());
        entry.resize(entry.len() + filling, b'.');
        out.extend_from_slice(&entry);
    }

    fn wire() -> Vec<u8> {
        let mut entries = Vec::new();
        for (version, stamp) in [(65_534, 7), (65_535, 7), (0, 8), (4, 9)] {
            update(&mut entries, version, stamp, 1000);
        }
        let mut wire = vec![WELCOME, 2, 1, 0, OK, 3, 1, 0x80, 1];
        message(&mut wire, UPDATES, |out| out.extend_from_slice(&entries));
        message(&mut wire, 0x7f, |out| out.extend_from_slice(b"unknown"));
        wire
    }

    #[test]
    fn every_cut_gives_the_same_counts() {
        let wire = wire();
        for step in [1, 2, 3, 7, 100, 1009, wire.len()] {
            let (mut reader, mut counters) = (Reader::new(4), Counters::idle());
            let (mut kept, mut stamps) = (Vec::new(), Vec::new());
            for piece in wire.chunks(step) {
                kept.extend_from_slice(piece);
                let taken = reader.walk(&kept, &mut counters).unwrap();
                kept.drain(..taken);
                stamps.push(counters.received);
            }
            assert!(kept.is_empty(), "{step}");
            assert!(reader.heard.welcome && reader.heard.answered == 129);
            assert_eq!(
                (counters.received, counters.skipped, counters.batches),
                (4, 3, 1),
                "{step}"
            );
            assert_eq!(counters.body_bytes, 4 * 1008);
        }
    }

    #[test]
    fn a_refusal_is_an_error() {
        let mut wire = Vec::new();
        message(&mut wire, ERROR, |out| out.extend_from_slice(b"\x01\x02no"));
        assert!(Reader::new(0).walk(&wire, &mut Counters::idle()).is_err());
    }

    #[test]
    fn requests_are_those_of_the_specification() {
        let mut out = Vec::new();
        subscribe(&mut out, 1, 0, 0, "fx/EUR-USD");
        assert_eq!(out, b"\x03\x0f\x01\x00\x00\x00\x0afx/EUR-USD");
        out.clear();
        subscribe_pattern(&mut out, 1, 0, SNAPSHOT, "**");
        assert_eq!(out, b"\x03\x08\x01\x00\x81\x02\x00\x02**");
        out.clear();
        publish(&mut out, 3, OCTETS, "fx", b"hi");
        assert_eq!(out, b"\x06\x09\x03\x03\x00\x00\x02fxhi");
    }
}
