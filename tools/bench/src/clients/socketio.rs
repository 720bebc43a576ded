//! Socket.IO as a client that counts sees it: text packets of the main namespace.
//!
//! Servers answer `subscribe` with an acknowledgement and then emit events whose text holds the time in
//! 16 hexadecimal digits at the beginning of a string, as the server's `timed-text` feed does.

use std::io;

use crate::clients::counters::{Counters, broken};

/// One client's conversation.
#[derive(Debug, Default)]
pub struct SocketIo {
    /// Whether the namespace has been connected.
    pub is_connected: bool,
    /// Acknowledgements.
    pub confirmed: u64,
    last: Stamp,
}

/// The time in the last event: the next one has it in the same place as a rule, and often the same one.
/// Looking for it in every message would cost this program more than a message costs the server.
#[derive(Debug, Default)]
struct Stamp {
    at: usize,
    digits: [u8; DIGITS],
    unix_ns: u64,
}

impl Stamp {
    fn of(&mut self, packet: &[u8]) -> u64 {
        match digits_at(packet, self.at) {
            Some(digits) if *digits == self.digits => self.unix_ns,
            Some(digits) if let Some(unix_ns) = number(digits) => {
                (self.digits, self.unix_ns) = (*digits, unix_ns);
                unix_ns
            }
            _ => {
                let (at, unix_ns) = find(packet).unwrap_or_default();
                let digits = digits_at(packet, at).copied().unwrap_or_default();
                *self = Stamp { at, digits, unix_ns };
                unix_ns
            }
        }
    }
}

impl SocketIo {
    /// Takes a packet in.
    ///
    /// # Errors
    /// When it refuses something or ends the conversation.
    pub fn take(&mut self, packet: &[u8], counters: &mut Counters) -> io::Result<()> {
        match packet.first() {
            Some(b'0') => self.is_connected = true,
            Some(b'2') => {
                counters.batches += 1;
                counters.message(self.last.of(packet), packet.len());
            }
            Some(b'3') if memchr::memmem::find(packet, b"\"ok\":false").is_none() => {
                self.confirmed += 1;
            }
            Some(b'1' | b'3' | b'4') => {
                return Err(broken(&format!("the server says {}", packet.escape_ascii())));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Appends a request to subscribe, to be acknowledged.
pub fn subscribe(out: &mut Vec<u8>, id: usize, path: &str) {
    out.extend_from_slice(format!("2{id}[\"subscribe\",\"{path}\"]").as_bytes());
}

/// Appends the event by which the peers in `tools/bench/peers` are told their rate.
pub fn control(out: &mut Vec<u8>, word: &[u8]) {
    let word = String::from_utf8_lossy(word);
    out.extend_from_slice(format!("2[\"control\",\"{word}\"]").as_bytes());
}

/// The first 16 hexadecimal digits that follow a quotation mark: where they are and what they say.
fn find(text: &[u8]) -> Option<(usize, u64)> {
    let head = text.get(..text.len().min(HEAD_BYTES)).unwrap_or_default();
    memchr::memchr_iter(b'"', head).find_map(|at| Some((at + 1, number(digits_at(text, at + 1)?)?)))
}

/// The bytes of that place, if a quotation mark precedes them.
fn digits_at(text: &[u8], at: usize) -> Option<&[u8; DIGITS]> {
    let (mark, rest) = text.get(at.checked_sub(1)?..)?.split_first()?;
    if *mark == b'"' { rest.first_chunk() } else { None }
}

fn number(digits: &[u8; DIGITS]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Hexadecimal digits of a time.
const DIGITS: usize = 16;

/// Within which the time is looked for.
const HEAD_BYTES: usize = 512;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_time_is_found_wherever_it_is() {
        let mut last = Stamp::default();
        for (text, time) in [
            (&b"2[\"message\",\"bench/1\",\"18e9b6b7a0c0de00.\"]"[..], 0x18e9_b6b7_a0c0_de00),
            (b"2[\"message\",\"bench/1\",\"18e9b6b7a0c0de00.\"]", 0x18e9_b6b7_a0c0_de00),
            (b"2[\"message\",\"bench/2\",\"18e9b6b7a0c0de01.\"]", 0x18e9_b6b7_a0c0_de01),
            (b"2[\"message\",\"bench/10\",\"18e9b6b7a0c0de02.\"]", 0x18e9_b6b7_a0c0_de02),
            (b"2[\"message\",\"there is no time in this one\"]", 0),
            (b"2[\"m\"]", 0),
            (b"2[\"m\",\"18e9b6b7a0c0de03\"]", 0x18e9_b6b7_a0c0_de03),
        ] {
            assert_eq!(last.of(text), time, "{}", text.escape_ascii());
            assert_eq!(find(text).map_or(0, |(_, found)| found), time);
        }
    }

    #[test]
    fn a_conversation() {
        let (mut socket, mut counters) = (SocketIo::default(), Counters::idle());
        socket.take(b"0{\"sid\":\"x\"}", &mut counters).unwrap();
        socket.take(b"30[{\"ok\":true}]", &mut counters).unwrap();
        socket.take(b"2[\"message\",\"bench/1\",\"18e9b6b7a0c0de00....\"]", &mut counters).unwrap();
        assert!(socket.is_connected);
        assert_eq!((socket.confirmed, counters.received), (1, 1));
        assert!(socket.take(b"31[{\"ok\":false}]", &mut counters).is_err());
    }
}
