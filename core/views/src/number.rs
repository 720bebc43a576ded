//! Numbers of JSON as views read, round and write them.
//!
//! Relies on [`Number`] for arithmetic and order, and on the exact numbers of JSON. Invariant: what is
//! written is a number of JSON.

use tiderace_base::Number;
use tiderace_value::{Json, equal, scalar};

/// Longest text that is read as a number.
const TEXT_BYTES_MAX: usize = 400;

/// Reads a number as JSON writes it; with a point or an exponent it may be an integer all the same.
pub(crate) fn read(text: &str) -> Option<Number> {
    if text.len() > TEXT_BYTES_MAX || text.starts_with('+') {
        return None;
    }
    if let Ok(integer) = text.parse() {
        return Some(Number::Integer(integer));
    }
    let number = Number::parse(text)?;
    // As a double an integer of 64 bits might have been rounded.
    Some(scalar::int64(text.as_bytes()).map_or(number, Number::Integer))
}

/// Whether a number is exactly the one that JSON says.
pub(crate) fn says(number: Number, json: Json<'_>) -> bool {
    let text = number.to_string();
    text == json.text() || Json::parse(text.as_bytes(), 0).is_ok_and(|written| equal(written, json))
}

/// The nearest number with so many digits behind the point.
pub(crate) fn rounded(number: Number, digits: usize) -> Option<Number> {
    match number {
        Number::Integer(_) => Some(number),
        Number::Double(_) => read(&fixed(number, digits)),
    }
}

/// As text with exactly so many digits behind the point.
pub(crate) fn fixed(number: Number, digits: usize) -> String {
    let digits = digits.min(DIGITS_MAX);
    match number {
        Number::Integer(integer) if digits == 0 => integer.to_string(),
        Number::Integer(integer) => format!("{integer}.{:0<digits$}", ""),
        Number::Double(double) => {
            let text = format!("{double:.digits$}");
            // What is rounded to zero has no sign.
            let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
            if zero { text.trim_start_matches('-').to_owned() } else { text }
        }
    }
}

/// Most digits behind the point.
pub(crate) const DIGITS_MAX: usize = 15;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_64_bits_are_exact_however_they_are_written() {
        for (text, integer) in [
            ("9007199254740993", 9_007_199_254_740_993),
            ("9007199254740993.0", 9_007_199_254_740_993),
            ("9.007199254740993e15", 9_007_199_254_740_993),
            ("-0.0", 0),
        ] {
            assert_eq!(read(text), Some(Number::Integer(integer)), "{text}");
        }
    }

    #[test]
    fn what_is_written_is_json() {
        for (text, written) in
            [("2.0", "2"), ("1e300", "1e300"), ("1e-7", "1e-7"), ("2.50", "2.5"), ("-0.0", "0")]
        {
            let written_now = read(text).unwrap().to_string();
            assert_eq!(written_now, written);
            assert!(Json::parse(written_now.as_bytes(), 1).is_ok());
        }
        for wrong in ["", "+1", "inf", "NaN", "0x1", "1e999", " 1", "1_0"] {
            assert!(read(wrong).is_none(), "{wrong}");
        }
        assert!(read(&"1".repeat(TEXT_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn rounding_takes_the_nearest() {
        let number = |text: &str| read(text).unwrap();
        assert_eq!(fixed(number("2.345"), 1), "2.3");
        assert_eq!(fixed(number("2"), 2), "2.00");
        assert_eq!(rounded(number("-2.75"), 1).unwrap(), number("-2.8"));
        assert_eq!(rounded(number("12.6"), 0).unwrap(), number("13"));
    }
}
