//! Which messages are traced, and as which parts of which traces (W3C Trace Context, level 1).
//!
//! Parsing is bounded by the length of the one form there is. Relies on [`crate::properties`] for where a message says of
//! which trace it is. Invariants: an id is never all zeros; what is no `traceparent` as the specification has it is
//! as if it were not there.

use std::fmt;
use std::num::{NonZeroU64, NonZeroU128};

use tiderace_base::Time;

use crate::properties;

/// The property by which a message says of which trace it is.
pub const TRACEPARENT: &str = "traceparent";

/// Length of a `traceparent` of version 00.
const BYTES: usize = 55;

/// The id of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(pub NonZeroU128);

/// The id of one span of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(pub NonZeroU64);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a client says of the trace that its message is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace.
    pub trace: TraceId,
    /// The client's span.
    pub span: SpanId,
    /// Whether the client records its own spans of it.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the value of a `traceparent`. Of a later version than 00 it reads the parts that version 00 knows, as the
    /// specification wants.
    pub fn parse(text: &[u8]) -> Option<TraceParent> {
        let version = hexadecimal(text.get(..2)?)?;
        let is_whole = match version {
            0 => text.len() == BYTES,
            0xff => false,
            _ => text.len() == BYTES || text.get(BYTES) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| text.get(*at) == Some(&b'-'));
        if !is_whole || !dashes {
            return None;
        }
        let trace = NonZeroU128::new(hexadecimal(text.get(3..35)?)?)?;
        let span = NonZeroU64::new(u64::try_from(hexadecimal(text.get(36..52)?)?).ok()?)?;
        let flags = hexadecimal(text.get(53..BYTES)?)?;
        Some(TraceParent {
            trace: TraceId(trace),
            span: SpanId(span),
            is_sampled: flags & FLAG_SAMPLED != 0,
        })
    }

    /// What the properties of a message say, if they do.
    pub fn of(block: &[u8]) -> Option<TraceParent> {
        let (_, text) = properties::raw(block).find(|(name, _)| *name == TRACEPARENT.as_bytes())?;
        TraceParent::parse(text)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace, self.span, u8::from(self.is_sampled))
    }
}

/// The flag that says whether the client records.
const FLAG_SAMPLED: u128 = 1;

/// A number of digits in lower case, which alone are allowed.
fn hexadecimal(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number: u128, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

/// Where a span of the server stands in its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanContext {
    /// The trace.
    pub trace: TraceId,
    /// The span.
    pub span: SpanId,
    /// The span that it is a part of, if it begins no trace.
    pub parent: Option<SpanId>,
}

/// A message of a run that is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// Its place in the run.
    pub index: u32,
    /// Bytes of its body.
    pub bytes: u64,
    /// The span of its publication.
    pub context: SpanContext,
}

/// What is known of the traced messages of a run, or of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// When the publisher's bytes were read.
    pub published: Time,
    /// The protocol of the publisher.
    pub protocol: &'static str,
    /// The messages, in their order; at least one.
    pub messages: Box<[TracedMessage]>,
}

impl Traced {
    /// Bytes that it keeps in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Traced>() + size_of_val(&*self.messages)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn parse(text: &str) -> Option<TraceParent> {
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn the_example_of_the_specification_is_read() {
        let parent = parse(GOOD).unwrap();
        assert_eq!(parent.trace.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(parent.span.to_string(), "00f067aa0ba902b7");
        assert!(parent.is_sampled);
        assert_eq!(parent.to_string(), GOOD);
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let parent = parse(&format!("{}{flags}", &GOOD[..53])).unwrap();
            assert_eq!(parent.is_sampled, is_sampled, "{flags}");
        }
    }

    #[test]
    fn what_the_specification_calls_invalid_is_not_there() {
        let bad = [
            "",
            "00",
            // Version ff.
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            // Ids of zeros.
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            // Upper case.
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01",
            // Too short, and too long for version 00.
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ",
            // Other separators, signs and blanks.
            "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473--00f067aa0ba902b7-01",
            "+0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            // Digits behind a later version that do not begin with a separator.
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-010",
        ];
        for text in bad {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn later_versions_are_read_as_far_as_they_are_known() {
        let later = ["cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"];
        let longer = [
            "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-what-the-future-will-be-like",
        ];
        for text in later.iter().chain(&longer) {
            assert_eq!(parse(text), parse(GOOD), "{text}");
        }
    }

    #[test]
    fn a_message_says_it_in_a_property_of_that_name() {
        let block = format!("a:b\ntraceparent:{GOOD}\ntraceparent:00-1\n");
        assert_eq!(TraceParent::of(block.as_bytes()), parse(GOOD));
        assert_eq!(TraceParent::of(format!("Traceparent:{GOOD}\n").as_bytes()), None);
        assert_eq!(TraceParent::of(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(text in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = TraceParent::parse(&text);
            let _ = TraceParent::of(&text);
        }

        #[test]
        fn one_changed_byte_is_refused_or_read_as_written(at in 0..BYTES, byte: u8) {
            let mut text = GOOD.as_bytes().to_vec();
            text[at] = byte;
            if let Some(parent) = TraceParent::parse(&text) {
                let again = parent.to_string().into_bytes();
                prop_assert_eq!(&again[3..52], &text[3..52]);
            }
        }

        #[test]
        fn what_is_written_is_read(trace in 1u128.., span in 1u64.., is_sampled: bool) {
            let (trace, span) = (NonZeroU128::new(trace).unwrap(), NonZeroU64::new(span).unwrap());
            let parent = TraceParent { trace: TraceId(trace), span: SpanId(span), is_sampled };
            prop_assert_eq!(parse(&parent.to_string()), Some(parent));
        }
    }
}
