//! The parts of a client's STOMP frame the forwarder needs.
//!
//! Invariant: a frame is parsed only when all its bytes are there.

use memchr::memchr;

/// The parts of a client's frame the forwarder needs.
#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    pub(super) command: &'a [u8],
    pub(super) destination: &'a [u8],
    pub(super) id: &'a [u8],
    pub(super) receipt: &'a [u8],
    pub(super) body: &'a [u8],
    pub(super) length: usize,
}

impl<'a> Frame<'a> {
    pub(super) fn parse(input: &'a [u8]) -> Option<Self> {
        let start = input.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
        let (mut frame, mut at, mut content_length) = (Self::default(), start, None);
        loop {
            let rest = input.get(at..)?;
            let line = rest.get(..memchr(b'\n', rest)?)?;
            at += line.len() + 1;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if frame.command.is_empty() {
                frame.command = line;
                continue;
            }
            if line.is_empty() {
                break;
            }
            let colon = memchr(b':', line)?;
            let value = line.get(colon + 1..)?;
            match line.get(..colon)? {
                b"destination" => frame.destination = value,
                b"id" => frame.id = value,
                b"receipt" => frame.receipt = value,
                b"content-length" => content_length = std::str::from_utf8(value).ok()?.parse().ok(),
                _ => {}
            }
        }
        let rest = input.get(at..)?;
        let body_bytes: usize = match content_length {
            Some(length) => length,
            None => memchr(0, rest)?,
        };
        (rest.get(body_bytes)? == &0).then_some(())?;
        frame.body = rest.get(..body_bytes)?;
        frame.length = at + body_bytes + 1;
        Some(frame)
    }
}

/// A number as text.
pub(super) fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return digits.get(at..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn frame_needs_all_its_bytes() {
        let text = b"\nSEND\ndestination:/topic/a\nreceipt:7\ncontent-length:2\n\n\0x\0";
        for end in 0..text.len() {
            assert!(Frame::parse(text.get(..end).unwrap()).is_none(), "{end}");
        }
        let frame = Frame::parse(text).unwrap();
        assert_eq!(
            (frame.command, frame.body, frame.receipt),
            (&b"SEND"[..], &b"\0x"[..], &b"7"[..])
        );
        assert_eq!(frame.length, text.len());
    }

    #[test]
    fn decimals() {
        assert_eq!(decimal(0, &mut [0; 20]), b"0");
        assert_eq!(decimal(u64::MAX, &mut [0; 20]), u64::MAX.to_string().as_bytes());
    }
}
