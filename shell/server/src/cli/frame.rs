//! STOMP 1.2 frames for the command-line client: writing, and reading from a blocking stream.
//!
//! Code of its own, not the server's codec, so that a fault of the one does not hide in the other.
//! Invariant: reading allocates by what has arrived, and never more than the limits below.

use std::io::{self, BufRead, Read};

/// Everything of a frame before its body.
const HEAD_BYTES_MAX: u64 = 64 << 10;
/// The largest message any server of ours sends.
const BODY_BYTES_MAX: usize = 1 << 30;

/// One frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    /// `MESSAGE`, `SEND` and so on.
    pub(crate) command: String,
    /// Headers in their order, unescaped.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: Vec<u8>,
}

impl Frame {
    /// A frame without body.
    pub(crate) fn new(command: &str) -> Frame {
        Frame { command: command.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Frame {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The first header of that name: later ones do not count.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Appends the frame as sent.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // CONNECT predates escaping and is read without it.
        let is_connect = matches!(self.command.as_str(), "CONNECT" | "STOMP");
        let text = |text: &str| if is_connect { text.to_owned() } else { escape(text) };
        out.extend_from_slice(self.command.as_bytes());
        out.push(b'\n');
        for (name, value) in &self.headers {
            out.extend_from_slice(format!("{}:{}\n", text(name), text(value)).as_bytes());
        }
        if !self.body.is_empty() {
            out.extend_from_slice(format!("content-length:{}\n", self.body.len()).as_bytes());
        }
        out.push(b'\n');
        out.extend_from_slice(&self.body);
        out.push(0);
    }

    /// Reads the next frame, passing over heart-beats. `None` at the end of the stream.
    pub(crate) fn read(stream: &mut impl BufRead) -> io::Result<Option<Frame>> {
        let mut head = stream.by_ref().take(HEAD_BYTES_MAX);
        let command = loop {
            match read_line(&mut head)? {
                None if head.limit() == 0 => head.set_limit(HEAD_BYTES_MAX),
                None => return Ok(None),
                Some(line) if line.is_empty() => head.set_limit(HEAD_BYTES_MAX),
                Some(line) => break line,
            }
        };
        let is_connected = command == "CONNECTED";
        let mut frame = Frame::new(&command);
        loop {
            let line = read_line(&mut head)?
                .ok_or_else(|| invalid("the head of a frame is cut off or too long"))?;
            if line.is_empty() {
                break;
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| invalid("a header has no colon"))?;
            let text = |text: &str| if is_connected { Ok(text.to_owned()) } else { unescape(text) };
            frame.headers.push((text(name)?, text(value)?));
        }
        frame.body = read_body(stream, frame.header("content-length"))?;
        Ok(Some(frame))
    }
}

fn read_body(stream: &mut impl BufRead, length: Option<&str>) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    match length {
        Some(length) => {
            let length: usize =
                length.trim().parse().map_err(|_| invalid("content-length is no number"))?;
            if length > BODY_BYTES_MAX {
                return Err(invalid("a message is larger than 1 GiB"));
            }
            stream.by_ref().take(length as u64 + 1).read_to_end(&mut body)?;
            if body.len() != length + 1 || body.pop() != Some(0) {
                return Err(invalid("the body of a frame is cut off, or content-length is wrong"));
            }
        }
        None => {
            stream.by_ref().take(BODY_BYTES_MAX as u64).read_until(0, &mut body)?;
            if body.pop() != Some(0) {
                return Err(invalid("the body of a frame is cut off"));
            }
        }
    }
    Ok(body)
}

/// One line without its end; `None` at the end of the stream.
fn read_line(stream: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Ok(None);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map(Some).map_err(|_| invalid("a header is not UTF-8"))
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            ':' => out.push_str("\\c"),
            other => out.push(other),
        }
    }
    out
}

fn unescape(text: &str) -> io::Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match chars.next() {
            Some('\\') => '\\',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('c') => ':',
            _ => return Err(invalid("a header has an undefined escape")),
        });
    }
    Ok(out)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let mut frame =
            Frame::new("SEND").with("destination", "/topic/a:b").with("odd\\name", "line\nbreak\r");
        frame.body = b"a\0b".to_vec();
        let mut bytes = b"\n\r\n\n".to_vec();
        frame.write(&mut bytes);
        Frame::new("RECEIPT").with("receipt-id", "1").write(&mut bytes);
        let mut stream = bytes.as_slice();
        let first = Frame::read(&mut stream).unwrap().unwrap();
        assert_eq!(first.command, "SEND");
        assert_eq!(first.header("destination"), Some("/topic/a:b"));
        assert_eq!(first.header("odd\\name"), Some("line\nbreak\r"));
        assert_eq!(first.body, b"a\0b");
        let second = Frame::read(&mut stream).unwrap().unwrap();
        assert_eq!((second.header("receipt-id"), second.body.len()), (Some("1"), 0));
        assert_eq!(Frame::read(&mut stream).unwrap(), None);
    }

    #[test]
    fn connect_and_connected_are_not_escaped() {
        let mut bytes = Vec::new();
        Frame::new("CONNECT").with("passcode", "a:b\\c").write(&mut bytes);
        assert_eq!(bytes, b"CONNECT\npasscode:a:b\\c\n\n\0");
        let frame = Frame::read(&mut &b"CONNECTED\nserver:x\\y:z\n\n\0"[..]).unwrap().unwrap();
        assert_eq!(frame.header("server"), Some("x\\y:z"));
    }

    #[test]
    fn the_first_of_repeated_headers_counts() {
        let frame = Frame::read(&mut &b"MESSAGE\nfoo:1\nfoo:2\n\n\0"[..]).unwrap().unwrap();
        assert_eq!(frame.header("foo"), Some("1"));
    }

    #[test]
    fn malformed_frames_are_errors() {
        let long = format!("MESSAGE\nx:{}\n\n\0", "y".repeat(70_000));
        let cases: &[&[u8]] = &[
            b"MESSAGE\n",
            b"MESSAGE\nno colon\n\n\0",
            b"MESSAGE\na:\\t\n\n\0",
            b"MESSAGE\na:\\",
            b"MESSAGE\ncontent-length:x\n\n\0",
            b"MESSAGE\ncontent-length:-1\n\n\0",
            b"MESSAGE\ncontent-length:5\n\nab\0",
            b"MESSAGE\ncontent-length:2\n\nabc\0",
            b"MESSAGE\ncontent-length:99999999999\n\nabc\0",
            b"MESSAGE\n\nabc",
            b"MESSAGE\n\xff:1\n\n\0",
            long.as_bytes(),
        ];
        for case in cases {
            let error = Frame::read(&mut &case[..]).unwrap_err();
            assert_eq!(
                error.kind(),
                io::ErrorKind::InvalidData,
                "{}",
                String::from_utf8_lossy(case)
            );
        }
        assert_eq!(Frame::read(&mut &b""[..]).unwrap(), None);
        assert_eq!(Frame::read(&mut &b"MESS"[..]).unwrap(), None);
    }
}
