//! An answer of HTTP/1.1, read from the bytes we were about to send, as the head and the body of one of
//! HTTP/2.
//!
//! Relies on the bytes being ours: an answer that cannot be read is a defect of the server. Invariant:
//! the reader keeps no bytes of a body; it says which of those shown to it are body.

use http::header::{CONNECTION, DATE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, without those that are about the connection.
    pub fields: HeaderMap,
}

impl AnswerHead {
    /// The head of an answer that is a stream of bytes.
    pub fn stream() -> AnswerHead {
        AnswerHead { status: StatusCode::OK, fields: HeaderMap::new() }
    }

    /// The answer to an extended CONNECT for a protocol that is not spoken (RFC 9220 section 3).
    pub fn not_implemented() -> AnswerHead {
        AnswerHead { status: StatusCode::NOT_IMPLEMENTED, fields: HeaderMap::new() }
    }
}

/// Why an answer cannot be read: a defect of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadAnswer;

/// What the bytes shown begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerStep {
    /// So many bytes are of no interest any more.
    Skip(usize),
    /// The head, which takes so many bytes and is the whole answer if `ends`.
    Head {
        /// Bytes of the head.
        consumed: usize,
        /// What it says.
        head: AnswerHead,
        /// Whether nothing follows.
        ends: bool,
    },
    /// So many bytes of the body. They come again unless [`AnswerReader::took`] is told.
    Data(usize),
    /// The answer ended before these bytes.
    End,
}

/// Reads one answer.
#[derive(Debug)]
pub struct AnswerReader {
    state: State,
    is_head: bool,
    is_upgrade: bool,
}

#[derive(Debug)]
enum State {
    /// The head as far as it has come.
    Head(Vec<u8>),
    /// So much is left of a body whose length is known.
    Length(u64),
    /// The size line of a chunk, as far as it has come.
    ChunkSize(u64),
    /// So much is left of a chunk.
    Chunk(u64),
    /// The end of the line behind a chunk.
    ChunkEnd,
    /// Behind the last chunk.
    LastChunk,
    /// Everything that comes.
    Raw,
    Ended,
}

impl AnswerReader {
    /// A reader of the answer to a request to `HEAD` or not, for an upgrade or not.
    pub fn new(is_head: bool, is_upgrade: bool) -> AnswerReader {
        AnswerReader { state: State::Head(Vec::new()), is_head, is_upgrade }
    }

    /// A reader of a stream of bytes whose head has been sent.
    pub fn raw() -> AnswerReader {
        AnswerReader { state: State::Raw, is_head: false, is_upgrade: false }
    }

    /// Whether what comes next is body, as far as is known.
    pub fn is_in_body(&self) -> bool {
        matches!(self.state, State::Length(_) | State::Chunk(_) | State::Raw)
    }

    /// Looks at the bytes that follow those already done with; there is at least one.
    ///
    /// # Errors
    /// When they are no answer.
    pub fn step(&mut self, bytes: &[u8]) -> Result<AnswerStep, BadAnswer> {
        let limit = |left: u64| usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        match &mut self.state {
            State::Head(kept) => {
                let before = kept.len();
                // The end of the head may lie across the border of two pieces.
                kept.extend_from_slice(bytes);
                let from = before.saturating_sub(3);
                let end = kept.get(from..).and_then(|new| new.windows(4).position(|w| w == END));
                let Some(end) = end.map(|end| from + end + END.len()) else {
                    return if kept.len() > HEAD_BYTES_MAX {
                        Err(BadAnswer)
                    } else {
                        Ok(AnswerStep::Skip(bytes.len()))
                    };
                };
                let head = std::mem::take(kept);
                let (head, next) = self.read_head(head.get(..end).unwrap_or_default())?;
                self.state = next;
                let ends = matches!(self.state, State::Ended);
                Ok(AnswerStep::Head { consumed: end - before, head, ends })
            }
            State::Length(left) => Ok(AnswerStep::Data(limit(*left))),
            State::Chunk(left) => Ok(AnswerStep::Data(limit(*left))),
            State::Raw => Ok(AnswerStep::Data(bytes.len())),
            State::ChunkSize(size) => {
                for (at, byte) in bytes.iter().enumerate() {
                    match byte {
                        b'\r' => {}
                        b'\n' => {
                            let size = *size;
                            self.state =
                                if size == 0 { State::LastChunk } else { State::Chunk(size) };
                            return Ok(AnswerStep::Skip(at + 1));
                        }
                        byte => {
                            let digit = char::from(*byte).to_digit(16).ok_or(BadAnswer)?;
                            let more = size.checked_mul(16).ok_or(BadAnswer)?;
                            *size = more + u64::from(digit);
                        }
                    }
                }
                Ok(AnswerStep::Skip(bytes.len()))
            }
            State::ChunkEnd => {
                let line = bytes.iter().position(|byte| *byte == b'\n');
                if line.is_some() {
                    self.state = State::ChunkSize(0);
                }
                Ok(AnswerStep::Skip(line.map_or(bytes.len(), |at| at + 1)))
            }
            State::LastChunk => {
                let line = bytes.iter().position(|byte| *byte == b'\n');
                if line.is_some() {
                    self.state = State::Ended;
                }
                Ok(AnswerStep::Skip(line.map_or(bytes.len(), |at| at + 1)))
            }
            State::Ended => Ok(AnswerStep::End),
        }
    }

    /// So many bytes of the body have been taken; true if it ends there.
    pub fn took(&mut self, count: usize) -> bool {
        match &mut self.state {
            State::Length(left) => {
                *left = left.saturating_sub(count as u64);
                if *left == 0 {
                    self.state = State::Ended;
                }
            }
            State::Chunk(left) => {
                *left = left.saturating_sub(count as u64);
                if *left == 0 {
                    self.state = State::ChunkEnd;
                }
            }
            _ => {}
        }
        matches!(self.state, State::Ended)
    }

    /// The head, and what follows it.
    fn read_head(&self, bytes: &[u8]) -> Result<(AnswerHead, State), BadAnswer> {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = httparse::Response::new(&mut lines);
        if !response.parse(bytes).is_ok_and(|status| status.is_complete()) {
            return Err(BadAnswer);
        }
        let code = response.code.ok_or(BadAnswer)?;
        let (mut length, mut is_chunked) = (None, false);
        let mut fields = HeaderMap::with_capacity(response.headers.len());
        for line in response.headers.iter() {
            let name = HeaderName::from_bytes(line.name.as_bytes()).map_err(|_| BadAnswer)?;
            if name == http::header::CONTENT_LENGTH {
                let text = std::str::from_utf8(line.value).map_err(|_| BadAnswer)?;
                length = Some(text.parse().map_err(|_| BadAnswer)?);
            }
            is_chunked |= name == TRANSFER_ENCODING;
            let upgrades = code == 101 && (name == DATE || name == "sec-websocket-accept");
            if !upgrades && ![CONNECTION, TRANSFER_ENCODING, UPGRADE].contains(&name) {
                let value = HeaderValue::from_bytes(line.value).map_err(|_| BadAnswer)?;
                fields.append(name, value);
            }
        }
        let next = match (code, length) {
            (101, _) if self.is_upgrade => State::Raw,
            (100..=199, _) => State::Head(Vec::new()),
            (204 | 304, _) => State::Ended,
            _ if self.is_head => State::Ended,
            (_, Some(0)) => State::Ended,
            (_, Some(length)) => State::Length(length),
            (_, None) if is_chunked => State::ChunkSize(0),
            (_, None) => State::Raw,
        };
        let code = if matches!(next, State::Raw) && code == 101 { 200 } else { code };
        let status = StatusCode::from_u16(code).map_err(|_| BadAnswer)?;
        Ok((AnswerHead { status, fields }, next))
    }
}

const END: &[u8] = b"\r\n\r\n";
/// Far more than any answer of ours has.
const FIELDS_MAX: usize = 64;
/// Likewise.
const HEAD_BYTES_MAX: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    /// Status, fields as text, body, and whether the end was seen.
    fn read(mut reader: AnswerReader, bytes: &[u8], piece: usize) -> (u16, String, Vec<u8>, bool) {
        let (mut status, mut fields, mut body, mut over) = (0, String::new(), Vec::new(), false);
        for piece in bytes.chunks(piece) {
            let mut at = 0;
            while at < piece.len() {
                match reader.step(&piece[at..]).unwrap() {
                    AnswerStep::Skip(count) => at += count,
                    AnswerStep::Head { consumed, head, ends } => {
                        at += consumed;
                        status = head.status.as_u16();
                        over = ends;
                        for (name, value) in &head.fields {
                            fields += &format!("{name}={};", value.to_str().unwrap());
                        }
                    }
                    AnswerStep::Data(count) => {
                        body.extend_from_slice(&piece[at..at + count]);
                        at += count;
                        over |= reader.took(count);
                    }
                    AnswerStep::End => break,
                }
            }
        }
        (status, fields, body, over || matches!(reader.state, State::Ended))
    }

    #[test]
    fn bodies_are_found_however_they_are_marked() {
        for (is_head, text, body, over) in [
            (
                false,
                "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
                "hello",
                true,
            ),
            (true, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 5\r\n\r\n", "", true),
            (false, "HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 0\r\n\r\n", "", true),
            (
                false,
                "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n",
                "helloabcdefghijklmnopqrstuvwxyz",
                true,
            ),
            (
                false,
                "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
                "hello",
                false,
            ),
            (false, "HTTP/1.1 200 OK\r\nA: b\r\nConnection: close\r\n\r\nhello", "hello", false),
        ] {
            for piece in 1..text.len() + 1 {
                let reader = AnswerReader::new(is_head, false);
                let (status, fields, found, ended) = read(reader, text.as_bytes(), piece);
                assert_eq!(
                    (status, &*found, ended),
                    (200, body.as_bytes(), over),
                    "{text} {piece}"
                );
                assert!(fields.starts_with("a=b;"), "{fields}");
                assert!(!fields.contains("connection") && !fields.contains("encoding"));
            }
        }
    }

    #[test]
    fn an_upgrade_is_a_success_without_its_marks() {
        let text =
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
            Sec-WebSocket-Accept: x\r\nSec-WebSocket-Protocol: p\r\n\r\n\x81\x01a";
        let (status, fields, body, over) = read(AnswerReader::new(false, true), text, 7);
        assert_eq!(
            (status, &*fields, &*body, over),
            (200, "sec-websocket-protocol=p;", &b"\x81\x01a"[..], false)
        );
    }

    #[test]
    fn an_interim_answer_precedes_the_answer() {
        let text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_eq!(
            read(AnswerReader::new(false, false), text, 10),
            (204, String::new(), vec![], true)
        );
    }

    proptest! {
        #[test]
        fn no_bytes_break_the_reader(bytes in any::<Vec<u8>>(), chunked in any::<bool>()) {
            let mut reader = AnswerReader::new(false, false);
            if chunked {
                reader.state = State::ChunkSize(0);
            }
            let mut at = 0;
            while at < bytes.len() {
                match reader.step(&bytes[at..]) {
                    Ok(AnswerStep::Skip(count)) => at += count,
                    Ok(AnswerStep::Head { consumed, .. }) => at += consumed,
                    Ok(AnswerStep::Data(count)) => {
                        prop_assert!(count > 0);
                        at += count;
                        reader.took(count);
                    }
                    Ok(AnswerStep::End) | Err(BadAnswer) => break,
                }
            }
        }
    }
}
