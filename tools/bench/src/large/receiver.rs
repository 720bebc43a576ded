//! What a receiver of large messages reads: frames of STOMP, plain or in WebSocket messages, and answers of HTTP.
//!
//! It keeps heads and never bodies. Invariant: however what comes is cut, it says the same.

use anyhow::{bail, ensure};

use crate::stomp::websocket::server_header;

use super::pattern::Pattern;

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Language {
    Stomp,
    Http,
}

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Receiver {
    language: Language,
    websocket: Option<WebSocket>,
    head: Vec<u8>,
    /// Of a body that is coming: what is still to come, and its length.
    body: Option<(u64, u64)>,
    /// Whether every byte of bodies is compared, or the ends of what comes at a time.
    pub(super) is_thorough: bool,
    /// Frames or answers without a large body that have come.
    pub(super) short: u64,
    /// Large messages that have come, each whole and right.
    pub(super) messages: u64,
}

#[derive(Debug, Default)]
struct WebSocket {
    held: Vec<u8>,
    payload_remaining: usize,
    is_control: bool,
}

impl Receiver {
    pub(super) fn new(language: Language, is_websocket: bool) -> Receiver {
        Receiver {
            language,
            websocket: is_websocket.then(WebSocket::default),
            head: Vec::new(),
            body: None,
            is_thorough: true,
            short: 0,
            messages: 0,
        }
    }

    /// Takes what has come.
    ///
    /// # Errors
    /// A sentence when it is a refusal, or no large message as it was sent.
    pub(super) fn take(&mut self, bytes: &[u8], pattern: &Pattern) -> anyhow::Result<()> {
        let Some(mut websocket) = self.websocket.take() else { return self.stream(bytes, pattern) };
        let done = websocket.payload(bytes, |payload| self.stream(payload, pattern));
        self.websocket = Some(websocket);
        done
    }

    fn stream(&mut self, mut bytes: &[u8], pattern: &Pattern) -> anyhow::Result<()> {
        while !bytes.is_empty() {
            let Some((remaining, length)) = self.body else {
                bytes = self.head(bytes)?;
                continue;
            };
            let is_large = length >= LARGE_BYTES_MIN;
            let here = usize::try_from(remaining).unwrap_or(usize::MAX).min(bytes.len());
            let (piece, rest) = bytes.split_at(here);
            if is_large {
                self.check(length - remaining, piece, pattern)?;
            }
            let remaining = remaining - piece.len() as u64;
            self.body = (remaining > 0).then_some((remaining, length));
            self.messages += u64::from(remaining == 0 && is_large);
            bytes = rest;
        }
        Ok(())
    }

    fn check(&self, at: u64, piece: &[u8], pattern: &Pattern) -> anyhow::Result<()> {
        let (first, last) = (piece.len().min(ENDS_BYTES), piece.len().saturating_sub(ENDS_BYTES));
        let is_right = if self.is_thorough {
            pattern.is_at(at, piece)
        } else {
            pattern.is_at(at, piece.get(..first).unwrap_or_default())
                && pattern.is_at(at + last as u64, piece.get(last..).unwrap_or_default())
        };
        ensure!(is_right, "what came from byte {at} on is not what was sent");
        Ok(())
    }

    /// Reads on in a head, and gives what is behind it.
    fn head<'a>(&mut self, bytes: &'a [u8]) -> anyhow::Result<&'a [u8]> {
        let end: &[u8] = match self.language {
            Language::Stomp => b"\n\n",
            Language::Http => b"\r\n\r\n",
        };
        for (at, byte) in bytes.iter().enumerate() {
            // Between frames are heart-beats, and the NUL of the frame before.
            if self.head.is_empty() && matches!(byte, 0 | b'\n') {
                continue;
            }
            self.head.push(*byte);
            ensure!(
                self.head.len() <= HEAD_BYTES_MAX,
                "a head has more than {HEAD_BYTES_MAX} bytes"
            );
            if self.head.ends_with(end) {
                self.begin()?;
                return Ok(bytes.get(at + 1..).unwrap_or_default());
            }
        }
        Ok(&[])
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        let head = String::from_utf8_lossy(&self.head).into_owned();
        self.head.clear();
        let first = head.lines().next().unwrap_or_default();
        let is_refusal = match self.language {
            Language::Stomp => first == "ERROR",
            Language::Http => !first.starts_with("HTTP/1.1 2"),
        };
        if is_refusal {
            bail!("the server refused: {}", head.trim().replace('\n', ", "));
        }
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
        });
        let length = length.filter(|length| *length > 0);
        self.body = length.map(|length| (length, length));
        self.short += u64::from(length.is_none_or(|length| length < LARGE_BYTES_MIN));
        Ok(())
    }
}

impl WebSocket {
    /// Hands on the payload of data frames.
    fn payload(
        &mut self,
        bytes: &[u8],
        mut take: impl FnMut(&[u8]) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut bytes = bytes;
        loop {
            let here = self.payload_remaining.min(bytes.len());
            let (piece, rest) = bytes.split_at(here);
            self.payload_remaining -= here;
            if !self.is_control {
                take(piece)?;
            }
            bytes = rest;
            let Some((byte, rest)) = bytes.split_first() else { return Ok(()) };
            self.held.push(*byte);
            bytes = rest;
            if let Some((opcode, payload_bytes, _)) = server_header(&self.held)? {
                ensure!(opcode != 8, "the server closed the WebSocket");
                self.is_control = opcode & 8 != 0;
                self.held.clear();
                self.payload_remaining = payload_bytes;
            }
        }
    }
}

const ENDS_BYTES: usize = 64;
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// What is shorter says that something was taken.
const LARGE_BYTES_MIN: u64 = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    /// A body of 3,000 bytes of the pattern.
    fn body() -> Vec<u8> {
        let mut body = Vec::new();
        Pattern::new().fill(0, 3_000, &mut body);
        body
    }

    fn in_pieces(receiver: &mut Receiver, bytes: &[u8], size: usize) -> anyhow::Result<()> {
        let pattern = Pattern::new();
        bytes.chunks(size).try_for_each(|piece| receiver.take(piece, &pattern))
    }

    #[test]
    fn frames_and_answers_are_told_apart_however_they_are_cut() {
        let head: &[u8] = b"MESSAGE\nmessage-id:1\ncontent-length:3000\n\n";
        let connected: &[u8] = b"CONNECTED\nversion:1.2\n\n\0\n\n";
        let stomp = [connected, head, &body(), b"\0\n", head, &body(), b"\0"].concat();
        let ok: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 14\r\n\r\n{\"accepted\":1}";
        let http = [ok, b"HTTP/1.1 200 OK\r\nContent-Length: 3000\r\n\r\n", &body(), ok].concat();
        let mut frames = vec![0x82, 126, 0, 40];
        frames.extend_from_slice(&stomp[..40]);
        frames.extend_from_slice(b"\x89\x02hi\x82\x7f");
        frames.extend_from_slice(&(stomp.len() as u64 - 40).to_be_bytes());
        frames.extend_from_slice(&stomp[40..]);
        for size in [1, 2, 3, 7, 64, 1_000, 100_000] {
            let cases = [
                (Language::Stomp, false, &stomp, 1, 2),
                (Language::Http, false, &http, 2, 1),
                (Language::Stomp, true, &frames, 1, 2),
            ];
            for (language, is_websocket, bytes, short, messages) in cases {
                for is_thorough in [true, false] {
                    let mut receiver = Receiver::new(language, is_websocket);
                    receiver.is_thorough = is_thorough;
                    in_pieces(&mut receiver, bytes, size).unwrap();
                    assert_eq!(
                        (receiver.short, receiver.messages),
                        (short, messages),
                        "{language:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let mut wrong = body();
        wrong[1_234] ^= 1;
        let message = [b"MESSAGE\ncontent-length:3000\n\n", &wrong[..]].concat();
        let said = |receiver: &mut Receiver, bytes: &[u8]| {
            in_pieces(receiver, bytes, 500).unwrap_err().to_string()
        };
        let mut receiver = Receiver::new(Language::Stomp, false);
        assert!(said(&mut receiver, &message).contains("not what was sent"));
        let mut receiver = Receiver::new(Language::Stomp, false);
        assert!(said(&mut receiver, b"ERROR\nmessage:no room\n\n\0").contains("message:no room"));
        let mut receiver = Receiver::new(Language::Http, false);
        assert!(said(&mut receiver, b"HTTP/1.1 503 Full\r\n\r\n").contains("503"));
    }
}
