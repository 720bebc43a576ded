//! Engine.IO's payloads as a polling client reads and writes them: revision 3 in binary and text,
//! revision 4 as text with base64.
//!
//! Reading is incremental; a message packet of revision 3 is walked in place, one of revision 4 is
//! decoded as it comes. Invariant: what is kept between reads is less than a packet's head, or a group of
//! four digits and what the language lacked.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::clients::counters::{Counters, broken};
use crate::clients::language::Language;

/// Reads the body of one answer after the other.
#[derive(Debug, Default)]
pub struct PayloadReader {
    /// The packet being read, and how much of it is to come (revision 3).
    packet: Option<(Packet, usize)>,
    /// Decoded bytes that the language has not consumed (revision 4).
    decoded: Vec<u8>,
    /// Whether a base64 packet is being read (revision 4).
    in_base64: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packet {
    /// Bytes for the language.
    Message,
    /// A control packet, taken whole.
    Control,
}

/// What the packets of an answer ask of the client.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// The server has pinged.
    pub pong: bool,
}

impl PayloadReader {
    /// Walks part of a body; `is_end` says that it ends with these bytes.
    ///
    /// # Errors
    /// When the server speaks nonsense or closes.
    pub fn walk(
        &mut self,
        revision: u8,
        bytes: &[u8],
        is_end: bool,
        language: &mut Language,
        counters: &mut Counters,
        asked: &mut Asked,
    ) -> io::Result<usize> {
        if revision == 4 {
            self.walk_text(bytes, is_end, language, counters, asked)
        } else {
            self.walk_counted(bytes, language, counters, asked)
        }
    }

    /// Packets behind their lengths: `00|01 digits ff` in binary payloads, `digits :` in text ones.
    fn walk_counted(
        &mut self,
        bytes: &[u8],
        language: &mut Language,
        counters: &mut Counters,
        asked: &mut Asked,
    ) -> io::Result<usize> {
        let mut at = 0;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some((packet, left)) = self.packet else {
                let Some((packet, length, head)) = counted_head(rest)? else { return Ok(at) };
                self.packet = Some((packet, length));
                at += head;
                continue;
            };
            let part = rest.get(..left.min(rest.len())).unwrap_or_default();
            let is_end = part.len() == left;
            let taken = match packet {
                Packet::Message => language.walk(part, is_end, counters)?,
                Packet::Control if is_end => {
                    control(part, asked)?;
                    left
                }
                Packet::Control => 0,
            };
            at += taken;
            self.packet = (taken < left).then_some((packet, left - taken));
            if taken < left {
                if is_end {
                    return Err(broken("a packet ends within a message"));
                }
                return Ok(at);
            }
        }
    }

    /// Packets separated by record separators.
    fn walk_text(
        &mut self,
        bytes: &[u8],
        is_end: bool,
        language: &mut Language,
        counters: &mut Counters,
        asked: &mut Asked,
    ) -> io::Result<usize> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = bytes.get(at..).unwrap_or_default();
            if !self.in_base64 && rest.first() == Some(&b'b') {
                self.in_base64 = true;
                at += 1;
                continue;
            }
            let separator = memchr::memchr(SEPARATOR, rest);
            let (packet, ends) = match separator {
                Some(end) => (rest.get(..end).unwrap_or_default(), true),
                None => (rest, is_end),
            };
            if self.in_base64 {
                at += self.decode(packet, ends, language, counters)?;
            } else if ends {
                match packet.split_first() {
                    Some((b'4', message)) => {
                        language.walk(message, true, counters)?;
                    }
                    _ => control(packet, asked)?,
                }
                at += packet.len();
            }
            if !ends {
                return Ok(at);
            }
            self.in_base64 = false;
            at += usize::from(separator.is_some());
        }
        Ok(at)
    }

    /// Decodes what is there of a packet, in whole groups unless it ends.
    fn decode(
        &mut self,
        digits: &[u8],
        ends: bool,
        language: &mut Language,
        counters: &mut Counters,
    ) -> io::Result<usize> {
        let whole = if ends { digits.len() } else { digits.len() / 4 * 4 };
        let kept = self.decoded.len();
        self.decoded.resize(kept + whole / 4 * 3 + 3, 0);
        let room = self.decoded.get_mut(kept..).unwrap_or_default();
        let decoded = STANDARD
            .decode_slice(digits.get(..whole).unwrap_or_default(), room)
            .map_err(|error| broken(&format!("a packet is no base64: {error}")))?;
        self.decoded.truncate(kept + decoded);
        let taken = language.walk(&self.decoded, ends, counters)?;
        self.decoded.drain(..taken);
        if ends && !self.decoded.is_empty() {
            return Err(broken("a packet ends within a message"));
        }
        Ok(whole)
    }
}

fn counted_head(bytes: &[u8]) -> io::Result<Option<(Packet, usize, usize)>> {
    let Some(first) = bytes.first().copied() else { return Ok(None) };
    let (is_binary_payload, end) = match first {
        0 | 1 => (true, memchr::memchr(0xff, bytes)),
        _ => (false, memchr::memchr(b':', bytes)),
    };
    let Some(end) = end else {
        return if bytes.len() > 20 { Err(broken("a packet has no length")) } else { Ok(None) };
    };
    // The type's byte has to be there as well.
    let Some(kind) = bytes.get(end + 1).copied() else { return Ok(None) };
    let digits = bytes.get(usize::from(is_binary_payload)..end).unwrap_or_default();
    let length = digits.iter().try_fold(0usize, |length, digit| {
        let digit = if is_binary_payload { *digit } else { digit.wrapping_sub(b'0') };
        (digit < 10).then(|| length * 10 + usize::from(digit))
    });
    let length = length.ok_or_else(|| broken("a packet's length is no number"))?;
    Ok(Some(match kind {
        4 | b'4' => (Packet::Message, length.saturating_sub(1), end + 2),
        _ => (Packet::Control, length, end + 1),
    }))
}

fn control(packet: &[u8], asked: &mut Asked) -> io::Result<()> {
    match packet.first() {
        Some(b'1') => Err(broken("the server closed the session")),
        Some(b'2') => {
            asked.pong = true;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Appends a message as part of a POST's body.
pub fn message(out: &mut Vec<u8>, revision: u8, is_text: bool, message: &[u8]) {
    match (revision, is_text) {
        (4, true) => {
            separate(out);
            out.push(b'4');
            out.extend_from_slice(message);
        }
        (4, false) => {
            separate(out);
            out.push(b'b');
            out.extend_from_slice(STANDARD.encode(message).as_bytes());
        }
        (_, true) => {
            out.extend_from_slice(format!("{}:4", message.len() + 1).as_bytes());
            out.extend_from_slice(message);
        }
        (_, false) => {
            out.push(1);
            out.extend((message.len() + 1).to_string().bytes().map(|digit| digit - b'0'));
            out.extend_from_slice(&[0xff, 4]);
            out.extend_from_slice(message);
        }
    }
}

/// Appends the client's part of the heart-beat: a pong of revision 4, a ping of revision 3.
pub fn heart_beat(out: &mut Vec<u8>, revision: u8) {
    if revision == 4 {
        separate(out);
        out.push(b'3');
    } else if out.first() == Some(&1) {
        out.extend_from_slice(&[0, 1, 0xff, b'2']);
    } else {
        out.extend_from_slice(b"1:2");
    }
}

/// The session's id in the text of an open packet.
pub fn session_id(open: &[u8]) -> Option<String> {
    let start = memchr::memmem::find(open, b"\"sid\":\"")? + 7;
    let id = open.get(start..)?;
    let end = memchr::memchr(b'"', id)?;
    String::from_utf8(id.get(..end)?.to_vec()).ok()
}

fn separate(out: &mut Vec<u8>) {
    if !out.is_empty() {
        out.push(SEPARATOR);
    }
}

const SEPARATOR: u8 = 0x1e;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::clients::language::Speech;

    /// A body of updates in every form, and how it is read in pieces.
    fn read(revision: u8, is_text: bool, messages: &[Vec<u8>], step: usize) -> (u64, Asked) {
        let mut body = Vec::new();
        for one in messages {
            message(&mut body, revision, is_text, one);
        }
        if revision == 4 {
            body.extend_from_slice(b"\x1e2");
        }
        let speech = if is_text { Speech::SocketIo } else { Speech::Native };
        let mut language = Language::new(speech, 8);
        let (mut reader, mut counters) = (PayloadReader::default(), Counters::idle());
        let (mut kept, mut asked) = (Vec::new(), Asked::default());
        let mut sent = 0;
        for piece in body.chunks(step) {
            kept.extend_from_slice(piece);
            sent += piece.len();
            let is_end = sent == body.len();
            let taken = reader
                .walk(revision, &kept, is_end, &mut language, &mut counters, &mut asked)
                .unwrap();
            kept.drain(..taken);
        }
        assert!(kept.is_empty(), "{revision} {is_text} {step}");
        (counters.received, asked)
    }

    #[test]
    fn every_revision_and_cut_gives_the_same() {
        let mut update = vec![0x45, 24];
        update.extend_from_slice(&[3, 0, 1, 0, 8, 1, 2, 3, 4, 5, 6, 7, 8]);
        update.extend_from_slice(&[3, 0, 2, 0, 6, 1, 2, 3, 4, 5, 6]);
        let event = b"2[\"message\",\"18e9b6b7a0c0de00\"]".to_vec();
        for step in 1..60 {
            for revision in [3, 4] {
                let asked = Asked { pong: revision == 4 };
                let updates = [update.clone(), update.clone()];
                assert_eq!(read(revision, false, &updates, step), (4, asked), "{step}");
                let events = [event.clone(), event.clone(), event.clone()];
                assert_eq!(read(revision, true, &events, step), (3, asked), "{step}");
            }
        }
    }

    #[test]
    fn opening() {
        let open = b"97:0{\"sid\":\"abc-_1\",\"upgrades\":[]}";
        assert_eq!(session_id(open).as_deref(), Some("abc-_1"));
        assert_eq!(session_id(b"0{}"), None);
    }
}
