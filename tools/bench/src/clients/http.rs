//! HTTP/1.1 as a client that polls needs it: heads of answers with a length.

use std::io;

use crate::clients::counters::broken;

/// The head of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// Bytes of the head.
    pub bytes: usize,
    /// Bytes of the body.
    pub body: usize,
}

/// The head at the beginning of these bytes, if it is whole.
///
/// # Errors
/// When it is none, or its body has no length.
pub fn head(bytes: &[u8]) -> io::Result<Option<Head>> {
    let Some(end) = memchr::memmem::find(bytes, b"\r\n\r\n") else {
        return match bytes.len() {
            0..=16_384 => Ok(None),
            _ => Err(broken("the head of an answer has no end")),
        };
    };
    let text = bytes.get(..end).unwrap_or_default();
    let mut lines = text.split(|byte| *byte == b'\n');
    let status = lines.next().and_then(|line| {
        std::str::from_utf8(line.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()
    });
    let status = status.ok_or_else(|| broken("the answer is not HTTP/1.1"))?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_at_checked(CONTENT_LENGTH.len())?;
        if !name.eq_ignore_ascii_case(CONTENT_LENGTH) {
            return None;
        }
        std::str::from_utf8(value).ok()?.trim().parse().ok()
    });
    let body = match length {
        Some(length) => length,
        None if status == 101 => 0,
        None => return Err(broken("the answer does not say how long it is")),
    };
    Ok(Some(Head { status, bytes: end + 4, body }))
}

const CONTENT_LENGTH: &[u8] = b"content-length:";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn heads() {
        let wire = b"HTTP/1.1 200 OK\r\nDate: x\r\nContent-Length: 12\r\n\r\nabc";
        assert_eq!(head(wire).unwrap(), Some(Head { status: 200, bytes: 48, body: 12 }));
        assert_eq!(head(&wire[..40]).unwrap(), None);
        assert!(head(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
        assert!(head(b"nonsense\r\n\r\n").is_err());
    }
}
