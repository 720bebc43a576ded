//! Spans of time as people write them: `250ms`, `10s`, `5m`, `2h`, `7d`.
//!
//! Relies on nothing. Invariant: what [`write_span`] writes, [`parse_span`] reads back.

use crate::Span;

/// A unit in which spans are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanUnit {
    /// Its usual name.
    pub name: &'static str,
    /// A longer one, which means the same.
    pub long: &'static str,
    /// Milliseconds.
    pub ms: u64,
}

/// The units, from the smallest up.
pub const SPAN_UNITS: [SpanUnit; 5] = [
    SpanUnit { name: "ms", long: "ms", ms: 1 },
    SpanUnit { name: "s", long: "sec", ms: 1_000 },
    SpanUnit { name: "m", long: "min", ms: 60_000 },
    SpanUnit { name: "h", long: "h", ms: 3_600_000 },
    SpanUnit { name: "d", long: "d", ms: 86_400_000 },
];

impl SpanUnit {
    /// The unit of that name.
    pub fn named(name: &str) -> Option<SpanUnit> {
        SPAN_UNITS.into_iter().find(|unit| unit.name == name || unit.long == name)
    }

    /// The largest unit of which so many milliseconds are a whole number.
    pub fn of(ms: u64) -> SpanUnit {
        let [smallest, ..] = SPAN_UNITS;
        let mut fitting = SPAN_UNITS.into_iter().rev();
        fitting.find(|unit| ms > 0 && ms.is_multiple_of(unit.ms)).unwrap_or(smallest)
    }
}

/// Reads a whole number and a unit, with or without a blank between them.
pub fn parse_span(text: &str) -> Option<Span> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    Some(Span::from_millis(number.checked_mul(SpanUnit::named(unit.trim())?.ms)?))
}

/// Writes a span in the largest unit that divides it.
pub fn write_span(ms: u64) -> String {
    let unit = SpanUnit::of(ms);
    format!("{}{}", ms / unit.ms, unit.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_have_units() {
        let rows = [
            ("250ms", 250),
            ("2s", 2_000),
            ("2 s", 2_000),
            ("5m", 300_000),
            ("5 min", 300_000),
            ("1h", 3_600_000),
            ("7d", 604_800_000),
            ("0s", 0),
        ];
        for (text, ms) in rows {
            assert_eq!(parse_span(text), Some(Span::from_millis(ms)), "{text}");
        }
        let wrong = [
            "",
            "7",
            "s",
            "-1s",
            "1.5s",
            "1 week",
            "99999999999999999999s",
            "18446744073709551615h",
        ];
        for text in wrong {
            assert_eq!(parse_span(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_written_is_read_back_and_short() {
        for (ms, text) in
            [(0, "0ms"), (1, "1ms"), (1_500, "1500ms"), (90_000, "90s"), (7_200_000, "2h")]
        {
            assert_eq!(write_span(ms), text);
            assert_eq!(parse_span(text), Some(Span::from_millis(ms)));
        }
    }
}
