//! Frames on a stream of bytes: 24 bits of length before each.
//!
//! Relies on slices. Invariants: a frame that is too long is refused before any of it has come;
//! nothing is kept between calls.

use tiderace_wire::Detect;

use super::{FrameError, HEADER_BYTES, kind};

/// Bytes of the length before each frame.
pub const PREFIX_BYTES: usize = 3;

/// What stands at the front of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split<'a> {
    /// A frame without its prefix; both together take [`PREFIX_BYTES`] more than it has.
    Frame(&'a [u8]),
    /// Part of one: so many bytes have to be there, the prefix included.
    Need(usize),
}

/// Looks at the front of a stream for a frame of at most `bytes_max` bytes.
///
/// # Errors
/// When it is said to be longer, or so short that it has no head.
#[inline]
pub fn split(input: &[u8], bytes_max: usize) -> Result<Split<'_>, FrameError> {
    let Some(([a, b, c], rest)) = input.split_first_chunk::<PREFIX_BYTES>() else {
        return Ok(Split::Need(PREFIX_BYTES + HEADER_BYTES));
    };
    let declared = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if declared > bytes_max {
        return Err(FrameError::TooLong { declared, max: bytes_max });
    }
    if declared < HEADER_BYTES {
        return Err(FrameError::NoHeader(declared));
    }
    Ok(match rest.get(..declared) {
        Some(frame) => Split::Frame(frame),
        None => Split::Need(PREFIX_BYTES + declared),
    })
}

/// Whether first bytes are those of a client that speaks RSocket on a stream: a frame of less than
/// 64 KiB and of a type that there is. The first byte, a zero, is no other protocol's. That it should
/// have been a SETUP or RESUME on stream 0 is said in the words of the protocol.
pub fn detect(first: &[u8]) -> Detect {
    for (place, byte) in first.iter().enumerate().take(PREFIX_BYTES + 5) {
        let fits = match place {
            0 => *byte == 0,
            3 => *byte < 0x80,
            1 | 2 | 4..=6 => true,
            _ => matches!(byte >> 2, kind::SETUP..=kind::RESUME_OK | kind::EXT),
        };
        if !fits {
            return Detect::No;
        }
    }
    if first.len() < PREFIX_BYTES + 5 { Detect::More } else { Detect::Yes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_when_they_are_whole() {
        let stream = b"\0\0\x08abcdefghrest";
        for cut in 0..3 {
            assert_eq!(split(&stream[..cut], 100), Ok(Split::Need(9)));
        }
        for cut in 3..11 {
            assert_eq!(split(&stream[..cut], 100), Ok(Split::Need(11)));
        }
        assert_eq!(split(stream, 100), Ok(Split::Frame(b"abcdefgh")));
        assert_eq!(split(stream, 8), Ok(Split::Frame(b"abcdefgh")));
    }

    #[test]
    fn lengths_are_judged_before_the_frame_has_come() {
        let error = FrameError::TooLong { declared: 0x01_0000, max: 0xffff };
        assert_eq!(split(b"\x01\0\0", 0xffff), Err(error));
        for len in 0..6 {
            assert_eq!(split(&[0, 0, len], 100), Err(FrameError::NoHeader(len.into())));
        }
    }

    #[test]
    fn first_bytes_are_told_apart() {
        let setup = [0, 0, 50, 0, 0, 0, 0, 0x04, 0];
        for cut in 0..8 {
            assert_eq!(detect(&setup[..cut]), Detect::More, "{cut}");
        }
        assert_eq!(detect(&setup), Detect::Yes);
        assert_eq!(detect(&[0, 1, 0, 0, 0, 0, 0, 0x34]), Detect::Yes, "RESUME");
        assert_eq!(detect(&[0, 0, 16, 0, 0, 0, 1, 0x10]), Detect::Yes, "to be refused by a frame");
        for other in [
            &b"GET / HTTP/1.1"[..],
            b"CONNECT\n",
            b"\n",
            b"\x16\x03\x01\0\0",
            b"\x01\0\0\0\0\0\0\x04",
            b"\0\0\x10\x80\0\0\x01\x04",
            b"\0\0\x10\0\0\0\0\x02",
            b"\0\0\x10\0\0\0\0\x40",
        ] {
            assert_eq!(detect(other), Detect::No, "{other:?}");
        }
    }
}
