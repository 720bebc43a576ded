//! Walks the frames a server sends, doing as little per frame as can be verified.
//!
//! A server repeats one shape of MESSAGE for one subscription. The walker learns the shapes it
//! meets and then only checks that a frame begins with `MESSAGE`, that the blank line stands where
//! the body must begin and that NUL stands where it must end. Since the generator's own bodies
//! hold neither NUL nor LF, those three checks are exact; anything else takes the full parse.
//! Invariant: the events do not depend on how the input was cut into pieces.

use std::ops::Range;

use memchr::memchr;

use crate::body::HEAD_BYTES;

/// Receives what the walker finds.
pub trait Sink {
    /// A MESSAGE whose body starts with `head`; `ack` is the id to acknowledge it with, or empty.
    fn message(&mut self, head: &[u8; HEAD_BYTES], ack: &[u8]);
    /// A MESSAGE whose body is too short to be one of ours.
    fn foreign(&mut self);
    /// A RECEIPT and its receipt-id.
    fn receipt(&mut self, id: &[u8]);
    /// CONNECTED.
    fn connected(&mut self) {}
    /// An ERROR frame, whole but for its NUL.
    fn error(&mut self, frame: &[u8]);
}

/// Why input is not a sequence of STOMP frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The command is none a server sends.
    #[error("the server sent something that is not a STOMP frame: {0:?}")]
    Command(String),
    /// The header section is unreasonably long.
    #[error("the server sent a frame header of more than {HEADER_BYTES_MAX} bytes")]
    HeaderTooLong,
    /// content-length and the terminating NUL disagree.
    #[error("the server sent a frame whose content-length does not lead to its NUL")]
    MissingNul,
}

/// Walks one connection's input.
#[derive(Debug, Clone, Default)]
pub struct Walker {
    /// Shapes met lately, newest first.
    shapes: [Shape; SHAPES],
    /// A large message whose rest is being skipped.
    skip: Option<Skip>,
}

impl Walker {
    /// Reports every whole frame of `input` and returns how many bytes are done with. The rest
    /// must be shown again, followed by more.
    ///
    /// # Errors
    /// [`FrameError`] when the input cannot be STOMP.
    #[inline]
    pub fn walk<S: Sink>(&mut self, input: &[u8], sink: &mut S) -> Result<usize, FrameError> {
        let mut at = self.skip_rest(input, sink)?;
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            if let Some(length) = self.known_shape(rest, sink) {
                at += length;
                continue;
            }
            // Some servers end each frame with a line feed; it must not cost a parse.
            if rest.first() == Some(&b'\n') {
                at += 1;
                continue;
            }
            match self.parse(rest, sink)? {
                0 => break,
                length => at += length,
            }
        }
        Ok(at)
    }

    /// The fast path: the length of a message of a known shape, which has been reported.
    #[inline]
    fn known_shape<S: Sink>(&mut self, rest: &[u8], sink: &mut S) -> Option<usize> {
        for index in 0..SHAPES {
            let shape = &self.shapes[index];
            let Some((head, ack)) = shape.matches(rest) else {
                continue;
            };
            sink.message(head, ack);
            let length = shape.length;
            if index > 0 {
                self.shapes.swap(0, index);
            }
            return Some(length);
        }
        None
    }

    /// The full parse of one frame; 0 when it is not whole yet.
    #[cold]
    fn parse<S: Sink>(&mut self, rest: &[u8], sink: &mut S) -> Result<usize, FrameError> {
        let blank = rest.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        if blank > 0 {
            return Ok(blank);
        }
        let Some(header) = Header::parse(rest)? else {
            return Ok(0);
        };
        let Some(length) = header.frame_length(rest) else {
            return Ok(self.start_skip(&header, rest));
        };
        if rest.get(length - 1) != Some(&0) {
            return Err(FrameError::MissingNul);
        }
        self.report(&header, rest.get(..length).unwrap_or_default(), sink)?;
        Ok(length)
    }

    fn report<S: Sink>(
        &mut self,
        header: &Header,
        frame: &[u8],
        sink: &mut S,
    ) -> Result<(), FrameError> {
        let id = frame.get(header.id.clone()).unwrap_or_default();
        match frame.get(header.command.clone()).unwrap_or_default() {
            b"MESSAGE" => match head_at(frame, header.body_at) {
                Some(head) if header.body_at + HEAD_BYTES < frame.len() => {
                    sink.message(head, id);
                    self.learn(header, frame.len());
                }
                _ => sink.foreign(),
            },
            b"RECEIPT" => sink.receipt(id),
            b"CONNECTED" => sink.connected(),
            b"ERROR" => sink.error(frame.get(..frame.len() - 1).unwrap_or_default()),
            other => return Err(FrameError::Command(printable(other))),
        }
        Ok(())
    }

    fn learn(&mut self, header: &Header, length: usize) {
        if header.carriage_returns {
            return;
        }
        self.shapes.rotate_right(1);
        self.shapes[0] = Shape { length, body_at: header.body_at, ack: header.id.clone() };
    }

    /// Lets a large message pass without holding it: 0 when it is too small for that.
    fn start_skip(&mut self, header: &Header, rest: &[u8]) -> usize {
        let Some(content_length) = header.content_length.filter(|length| *length >= SKIP_BYTES_MIN)
        else {
            return 0;
        };
        let is_message = rest.get(header.command.clone()) == Some(b"MESSAGE");
        let Some(head) = head_at(rest, header.body_at).filter(|_| is_message) else {
            return 0;
        };
        self.skip = Some(Skip {
            remaining: header.body_at + content_length + 1 - rest.len(),
            head: *head,
            ack: rest.get(header.id.clone()).unwrap_or_default().to_vec(),
        });
        rest.len()
    }

    fn skip_rest<S: Sink>(&mut self, input: &[u8], sink: &mut S) -> Result<usize, FrameError> {
        let Some(skip) = &mut self.skip else {
            return Ok(0);
        };
        let Some(last) = input.get(skip.remaining - 1) else {
            skip.remaining -= input.len();
            return Ok(input.len());
        };
        if *last != 0 {
            return Err(FrameError::MissingNul);
        }
        let done = skip.remaining;
        sink.message(&skip.head, &skip.ack);
        self.skip = None;
        Ok(done)
    }
}

/// The fixed layout of a message met before.
#[derive(Debug, Clone, Default)]
struct Shape {
    /// Whole frame with its NUL; 0 for no shape.
    length: usize,
    body_at: usize,
    ack: Range<usize>,
}

impl Shape {
    #[inline]
    fn matches<'a>(&self, rest: &'a [u8]) -> Option<(&'a [u8; HEAD_BYTES], &'a [u8])> {
        let frame = rest.get(..self.length)?;
        let (command, _) = frame.split_first_chunk::<8>()?;
        let (blank, body) = frame.get(self.body_at - 2..)?.split_first_chunk::<2>()?;
        if command != b"MESSAGE\n" || blank != b"\n\n" || body.last() != Some(&0) {
            return None;
        }
        let ack = frame.get(self.ack.clone())?;
        let whole = ack.is_empty()
            || (frame.get(self.ack.start - 1) == Some(&b':')
                && frame.get(self.ack.end) == Some(&b'\n'));
        if !whole {
            return None;
        }
        Some((body.first_chunk()?, ack))
    }
}

#[derive(Debug, Clone)]
struct Skip {
    remaining: usize,
    head: [u8; HEAD_BYTES],
    ack: Vec<u8>,
}

/// Where things stand in a frame whose header section is complete.
#[derive(Debug, Default)]
struct Header {
    command: Range<usize>,
    /// Value of `ack` (or `message-id`) in a MESSAGE, of `receipt-id` in a RECEIPT.
    id: Range<usize>,
    content_length: Option<usize>,
    body_at: usize,
    carriage_returns: bool,
}

impl Header {
    fn parse(rest: &[u8]) -> Result<Option<Self>, FrameError> {
        let mut header = Self::default();
        let mut at = 0;
        let mut ack_found = false;
        loop {
            let Some(line) = rest.get(at..).and_then(|tail| memchr(b'\n', tail)) else {
                let command_fits = rest.len() <= COMMAND_BYTES_MAX || header.command.end > 0;
                return match (rest.len() <= HEADER_BYTES_MAX, command_fits) {
                    (true, true) => Ok(None),
                    (true, false) => Err(FrameError::Command(printable(rest))),
                    (false, _) => Err(FrameError::HeaderTooLong),
                };
            };
            let mut end = at + line;
            let next = end + 1;
            if end > at && rest.get(end - 1) == Some(&b'\r') {
                header.carriage_returns = true;
                end -= 1;
            }
            let text = rest.get(at..end).unwrap_or_default();
            if at == 0 {
                header.command = 0..end;
            } else if text.is_empty() {
                header.body_at = next;
                return Ok(Some(header));
            } else if let Some(colon) = memchr(b':', text) {
                let (name, value) = (text.get(..colon), at + colon + 1..end);
                match name.unwrap_or_default() {
                    b"content-length" if header.content_length.is_none() => {
                        header.content_length = number(rest.get(value).unwrap_or_default());
                    }
                    b"ack" => (header.id, ack_found) = (value, true),
                    b"message-id" | b"receipt-id" if !ack_found => header.id = value,
                    _ => {}
                }
            }
            at = next;
        }
    }

    /// Bytes of the frame with its NUL, when they are all there.
    fn frame_length(&self, rest: &[u8]) -> Option<usize> {
        let length = match self.content_length {
            Some(content_length) => self.body_at + content_length + 1,
            None => self.body_at + memchr(0, rest.get(self.body_at..)?)? + 1,
        };
        (rest.len() >= length).then_some(length)
    }
}

fn head_at(frame: &[u8], body_at: usize) -> Option<&[u8; HEAD_BYTES]> {
    frame.get(body_at..)?.first_chunk()
}

fn number(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.trim().parse().ok().filter(|value| *value <= CONTENT_BYTES_MAX)
}

/// At most forty characters of something unexpected, fit for a sentence.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.get(..bytes.len().min(40)).unwrap_or_default()).into_owned()
}

const SHAPES: usize = 4;
/// Bodies from this size on are skipped while they arrive instead of being gathered first.
const SKIP_BYTES_MIN: usize = 16 * 1024;
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// No server command is longer; more without a line end is another protocol.
const COMMAND_BYTES_MAX: usize = 64;
/// 1 GiB: no benchmark sends more, and sums with it cannot overflow.
const CONTENT_BYTES_MAX: usize = 1 << 30;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[derive(Debug, Default, PartialEq, Clone)]
    struct Seen(Vec<String>);

    impl Sink for Seen {
        fn message(&mut self, head: &[u8; HEAD_BYTES], ack: &[u8]) {
            self.0.push(format!("message {} {}", printable(head), printable(ack)));
        }
        fn foreign(&mut self) {
            self.0.push("foreign".into());
        }
        fn receipt(&mut self, id: &[u8]) {
            self.0.push(format!("receipt {}", printable(id)));
        }
        fn error(&mut self, frame: &[u8]) {
            self.0.push(format!("error {}", printable(frame)));
        }
    }

    fn message(id: &str, body: &str) -> String {
        format!(
            "MESSAGE\nsubscription:0\nmessage-id:{id}\ndestination:/topic/a\ncontent-length:{}\n\n{body}\0",
            body.len()
        )
    }

    fn conversation() -> (Vec<u8>, Vec<String>) {
        let mut text = String::from("\n\r\n");
        let mut expected = Vec::new();
        for index in 0..12 {
            let body = format!("{index:020}");
            text += &message(&index.to_string(), &body);
            text += if index % 3 == 0 { "\n" } else { "" };
            expected.push(format!("message {body} {index}"));
        }
        text += "RECEIPT\nreceipt-id:77\n\n\0\n";
        expected.push("receipt 77".into());
        text += &message("9", "short");
        expected.push("foreign".into());
        text += "MESSAGE\r\nmessage-id:1\r\nack:x7\r\n\r\nabcdefghijklmnopqrst\0";
        expected.push("message abcdefghijklmnopqrst x7".into());
        let large = "y".repeat(SKIP_BYTES_MIN + 3);
        text += &message("8", &large);
        expected.push(format!("message {} 8", "y".repeat(20)));
        text += &message("5", "zzzzzzzzzzzzzzzzzzzz");
        expected.push("message zzzzzzzzzzzzzzzzzzzz 5".into());
        text += "ERROR\nmessage:no\n\nbad\0";
        expected.push("error ERROR\nmessage:no\n\nbad".into());
        (text.into_bytes(), expected)
    }

    fn feed(pieces: &[&[u8]]) -> Result<Vec<String>, FrameError> {
        let (mut walker, mut seen, mut held) = (Walker::default(), Seen::default(), Vec::new());
        for piece in pieces {
            held.extend_from_slice(piece);
            let done = walker.walk(&held, &mut seen)?;
            held.drain(..done);
        }
        assert!(held.is_empty(), "left over: {}", printable(&held));
        Ok(seen.0)
    }

    #[test]
    fn split_at_every_byte() {
        let (bytes, expected) = conversation();
        for at in 0..=bytes.len() {
            let (left, right) = bytes.split_at(at);
            assert_eq!(feed(&[left, right]).unwrap(), expected, "split at {at}");
        }
    }

    #[test]
    fn one_byte_at_a_time() {
        let (bytes, expected) = conversation();
        let pieces: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(feed(&pieces).unwrap(), expected);
    }

    #[test]
    fn a_known_shape_of_another_length_is_parsed_again() {
        let (one, two) = (message("9", &"a".repeat(20)), message("10", &"b".repeat(20)));
        let text = format!("{one}{two}{one}{two}{one}");
        assert_eq!(feed(&[text.as_bytes()]).unwrap().len(), 5);
    }

    #[test]
    fn another_protocol_is_an_error() {
        assert!(matches!(feed(&[b"HTTP/1.1 400 Bad\r\n\r\n\0"]), Err(FrameError::Command(_))));
        assert!(matches!(feed(&[&[1_u8; 100]]), Err(FrameError::Command(_))));
    }

    #[test]
    fn content_length_that_misses_the_nul_is_an_error() {
        let wrong = b"MESSAGE\ncontent-length:3\n\nabcdef\0";
        assert_eq!(feed(&[wrong]), Err(FrameError::MissingNul));
    }
}
