//! Finds frames in a stream of bytes, in place (STOMP 1.2, "STOMP Frames" and "Augmented BNF").
//!
//! Relies on `memchr`. Invariants: nothing is allocated; however a stream is cut into pieces, the
//! same frames and faults come out; bytes of an incomplete frame are looked at a bounded number of
//! times ([`Pending`]).

use memchr::{memchr, memchr_iter, memchr2};
use tiderace_base::{Close, CloseCode};

use crate::error::{fault, shown};
use crate::header::strip_carriage_return;
use crate::limits::COMMAND_BYTES_MAX;

/// Sizes a frame must keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header_bytes_max: usize,
    pub(crate) headers_max: usize,
    pub(crate) body_bytes_max: usize,
    /// Of bodies whose length is announced, if it is more.
    pub(crate) large_body_bytes_max: usize,
}

/// What is known about the incomplete frame at the start of the input, so that it is not read from
/// its start with every piece that arrives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pending {
    /// Nothing.
    #[default]
    Unknown,
    /// No blank line ends before `from`; the head is too large if none ends before `until`.
    Head { from: u32, until: u32 },
    /// The frame has this length.
    Body { len: u32 },
    /// No NUL comes before `from`; the body is too large if none comes before `until`.
    Text { from: u32, until: u32 },
}

/// A frame's head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head<'a> {
    /// The header lines, each with its EOL.
    pub(crate) headers: &'a [u8],
    /// How many there are.
    pub(crate) count: usize,
    /// Where the body begins.
    pub(crate) end: usize,
}

/// Where a frame's body ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    pub(crate) bytes: &'a [u8],
    /// The frame's length, its NUL included.
    pub(crate) end: usize,
}

impl Pending {
    /// Whether the input may hold a complete frame, or enough of it to be refused; if not, how
    /// many bytes are needed, as far as that is known.
    pub(crate) fn ready(&mut self, input: &[u8]) -> Result<(), usize> {
        match *self {
            Pending::Unknown => Ok(()),
            Pending::Body { len } if input.len() < len as usize => Err(len as usize),
            Pending::Body { .. } => Ok(()),
            Pending::Text { from, until } => {
                let fresh = input.get(from as usize..).unwrap_or_default();
                if memchr(0, fresh).is_some() || input.len() > until as usize {
                    return Ok(());
                }
                *self = Pending::Text { from: input.len() as u32, until };
                Err(0)
            }
            Pending::Head { until, .. } if input.len() >= until as usize => Ok(()),
            Pending::Head { from, until } => {
                let fresh = input.get(from as usize..).unwrap_or_default();
                for at in memchr_iter(b'\n', fresh) {
                    match fresh.get(at + 1..) {
                        Some([b'\n', ..] | [b'\r', b'\n', ..]) => return Ok(()),
                        Some([] | [b'\r']) => {
                            *self = Pending::Head { from: from + at as u32, until };
                            return Err(0);
                        }
                        _ => {}
                    }
                }
                *self = Pending::Head { from: input.len() as u32, until };
                Err(0)
            }
        }
    }
}

/// The bytes of EOLs before the next frame: heart-beats, or the optional EOLs behind a frame.
pub(crate) fn eols(input: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match input.get(at..) {
            Some([b'\n', ..]) => 1,
            Some([b'\r', b'\n', ..]) => 2,
            _ => return at,
        };
    }
}

/// The command line: the command and where the headers begin.
pub(crate) fn command(input: &[u8]) -> Result<Option<(&[u8], usize)>, Close> {
    let window = input.get(..COMMAND_BYTES_MAX).unwrap_or(input);
    let end = memchr2(b'\n', 0, window);
    if end.is_some_and(|at| window.get(at) == Some(&0)) {
        let text = "a NUL stands in the first line. A line break must end it, and a blank line the headers.";
        return Err(fault(CloseCode::BadFrame, "frame", text));
    }
    if let Some(at) = end {
        let line = strip_carriage_return(window.get(..at).unwrap_or_default());
        return Ok(Some((line, at + 1)));
    }
    if window.len() == COMMAND_BYTES_MAX {
        return Err(fault(
            CloseCode::UnexpectedFrame,
            "frame",
            format_args!("`{}` is no STOMP command. Frames begin with one.", shown(window)),
        ));
    }
    Ok(None)
}

/// Reads the header lines that begin at `from`, showing each to `visit` without its EOL, and with
/// some of what follows it in memory: scans are fastest on long slices. `None` if the blank line has
/// not come yet.
#[inline]
pub(crate) fn head<'a>(
    input: &'a [u8],
    from: usize,
    limits: &Limits,
    mut visit: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<Option<Head<'a>>, Close> {
    let window = input.get(..limits.header_bytes_max).unwrap_or(input);
    let mut rest = window.get(from..).unwrap_or_default();
    let mut at = from;
    let mut count = 0;
    while let Some(len) = memchr(b'\n', rest) {
        let (line, tail) = rest.split_at_checked(len).unwrap_or_default();
        let line = strip_carriage_return(line);
        if line.is_empty() {
            let headers = window.get(from..at).unwrap_or_default();
            check_headers(headers, count, limits)?;
            return Ok(Some(Head { headers, count, end: at + len + 1 }));
        }
        count += 1;
        visit(line, rest);
        at += len + 1;
        rest = tail.get(1..).unwrap_or_default();
    }
    if window.len() == limits.header_bytes_max {
        let text = format_args!(
            "the headers have more than {} bytes. Send fewer or shorter ones; \
             a blank line ends them.",
            limits.header_bytes_max
        );
        return Err(fault(CloseCode::FrameTooLarge, "frame", text));
    }
    Ok(None)
}

/// Finds the body behind a head. On `Err(Ok(pending))` more bytes are needed.
pub(crate) fn body<'a>(
    input: &'a [u8],
    head: &Head<'_>,
    declared: Option<u64>,
    limits: &Limits,
) -> Result<Body<'a>, Result<Pending, Close>> {
    let max = match declared {
        Some(_) => limits.body_bytes_max.max(limits.large_body_bytes_max),
        None => limits.body_bytes_max,
    };
    let too_large = |size: &dyn std::fmt::Display| {
        let text = format_args!("the body has {size} bytes; at most {max} are allowed.");
        Err(fault(CloseCode::FrameTooLarge, "frame", text))
    };
    let Some(declared) = declared else {
        let rest = input.get(head.end..).unwrap_or_default();
        let window = rest.get(..max.saturating_add(1)).unwrap_or(rest);
        return match memchr(0, window) {
            Some(len) => {
                Ok(Body { bytes: window.get(..len).unwrap_or_default(), end: head.end + len + 1 })
            }
            None if window.len() > max => Err(too_large(&format_args!("more than {max}"))),
            None => Err(Ok(Pending::Text {
                from: input.len() as u32,
                until: head.end.saturating_add(max) as u32,
            })),
        };
    };
    if declared > max as u64 {
        return Err(too_large(&declared));
    }
    let nul = head.end + declared as usize;
    match input.get(nul) {
        Some(0) => Ok(Body { bytes: input.get(head.end..nul).unwrap_or_default(), end: nul + 1 }),
        Some(_) => Err(Err(fault(
            CloseCode::BadFrame,
            "frame",
            format_args!(
                "no NUL follows the {declared} bytes of body that `content-length` announces. \
                 Count the body's bytes, not its characters."
            ),
        ))),
        None => Err(Ok(Pending::Body { len: nul as u32 + 1 })),
    }
}

/// What holds for header blocks of all versions: few enough, UTF-8, and no NUL. Checked when the
/// head is complete, so that the fault does not depend on how the bytes arrived.
fn check_headers(headers: &[u8], count: usize, limits: &Limits) -> Result<(), Close> {
    if count > limits.headers_max {
        let text = format_args!("more than {} headers. Send fewer.", limits.headers_max);
        return Err(fault(CloseCode::FrameTooLarge, "frame", text));
    }
    if memchr(0, headers).is_some() {
        return Err(fault(
            CloseCode::BadFrame,
            "frame",
            "a header holds a NUL. A blank line must end the headers, even without a body.",
        ));
    }
    if !headers.is_ascii() && simdutf8::basic::from_utf8(headers).is_err() {
        return Err(fault(CloseCode::BadText, "frame", "the headers are not valid UTF-8."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        header_bytes_max: 64,
        headers_max: 4,
        body_bytes_max: 16,
        large_body_bytes_max: 0,
    };

    fn read(input: &[u8]) -> Result<Option<(Vec<u8>, usize)>, CloseCode> {
        let Some((_, from)) = command(input).map_err(|close| close.code)? else {
            return Ok(None);
        };
        let mut declared = None;
        let head = head(input, from, &LIMITS, |line, _| {
            if let Some(value) = line.strip_prefix(b"content-length:") {
                declared = std::str::from_utf8(value).unwrap().parse().ok();
            }
        });
        let Some(head) = head.map_err(|close| close.code)? else { return Ok(None) };
        match body(input, &head, declared, &LIMITS) {
            Ok(body) => Ok(Some((body.bytes.to_vec(), body.end))),
            Err(Ok(_)) => Ok(None),
            Err(Err(close)) => Err(close.code),
        }
    }

    #[test]
    fn reads_frames_with_both_kinds_of_eol() {
        assert_eq!(read(b"SEND\na:b\n\nhi\0"), Ok(Some((b"hi".to_vec(), 13))));
        assert_eq!(read(b"SEND\r\na:b\r\n\r\nhi\0x"), Ok(Some((b"hi".to_vec(), 16))));
        assert_eq!(read(b"A\ncontent-length:3\n\na\0b\0"), Ok(Some((b"a\0b".to_vec(), 24))));
        assert_eq!(read(b"A\n\n\0"), Ok(Some((vec![], 4))));
    }

    #[test]
    fn refuses_what_breaks_a_limit_or_a_rule() {
        for (input, code) in [
            (&b"A\ncontent-length:1\n\nab\0"[..], CloseCode::BadFrame),
            (b"A\ncontent-length:17\n\n", CloseCode::FrameTooLarge),
            (b"A\n\n12345678901234567", CloseCode::FrameTooLarge),
            (b"A\na:b\na:b\na:b\na:b\na:b\n\n", CloseCode::FrameTooLarge),
            (b"A\na:\0\n\n", CloseCode::BadFrame),
            (b"A\na:\xff\n\n", CloseCode::BadText),
            (&[b'x'; 64], CloseCode::UnexpectedFrame),
            (&[b"A\n", &[b'x'; 64][..]].concat(), CloseCode::FrameTooLarge),
        ] {
            assert_eq!(read(input), Err(code), "{}", input.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn waiting_never_hides_a_complete_head(text in "[a\n\r]{0,30}", steps in proptest::collection::vec(1usize..5, 1..30)) {
            let input = [b"A\n", text.as_bytes()].concat();
            let mut pending = Pending::Head { from: 0, until: 1000 };
            let mut end = 0;
            for step in steps {
                end = (end + step).min(input.len());
                let part = &input[..end];
                let complete = part.windows(2).any(|w| w == b"\n\n")
                    || part.windows(3).any(|w| w == b"\n\r\n");
                prop_assert_eq!(pending.ready(part).is_ok(), complete);
                if complete { break }
            }
        }
    }
}
