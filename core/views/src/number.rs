//! Exact and approximate numbers: from text, to text, order, arithmetic.
//!
//! Relies on the exact numbers of JSON. Invariant: a [`Number`] is never NaN nor infinite, so numbers are totally
//! ordered; arithmetic without a finite result has no result. What is written is a number of JSON.

use std::cmp::Ordering;
use std::fmt;

use tiderace_value::{Json, equal, scalar};

/// A finite number: whole as long as it fits 64 bits, else a double.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Whole(i64),
    Double(f64),
}

/// What is done with two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// Longest text that is read as a number.
const TEXT_BYTES_MAX: usize = 400;

impl Number {
    /// Reads a number as JSON writes it; with a point or an exponent it may be whole all the same.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        if text.len() > TEXT_BYTES_MAX || text.starts_with('+') {
            return None;
        }
        if let Ok(whole) = text.parse() {
            return Some(Number::Whole(whole));
        }
        let numeric = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if !text.bytes().all(numeric) {
            return None;
        }
        if let Ok(whole) = scalar::int64(text.as_bytes()) {
            return Some(Number::Whole(whole));
        }
        Number::finite(text.parse().ok()?)
    }

    /// Whether it is exactly the number that JSON says.
    pub(crate) fn says(self, json: Json<'_>) -> bool {
        let text = self.to_string();
        text == json.text()
            || Json::parse(text.as_bytes(), 0).is_ok_and(|written| equal(written, json))
    }

    /// The whole number of 64 bits that it is, however large.
    pub(crate) fn whole(self) -> Option<i64> {
        match self {
            Number::Whole(whole) => Some(whole),
            Number::Double(double) => {
                let fits = double.trunc() == double && (-TWO_TO_63..TWO_TO_63).contains(&double);
                fits.then_some(double as i64)
            }
        }
    }

    /// The number, if the double is one. Whole doubles that a double holds exactly become whole.
    pub(crate) fn finite(double: f64) -> Option<Number> {
        if double.trunc() == double && double.abs() <= EXACT_MAX {
            return Some(Number::Whole(double as i64));
        }
        double.is_finite().then_some(Number::Double(double))
    }

    /// The nearest double.
    pub(crate) fn double(self) -> f64 {
        match self {
            Number::Whole(whole) => whole as f64,
            Number::Double(double) => double,
        }
    }

    /// Compares by exact mathematical value, also a whole number with a double.
    pub(crate) fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Whole(left), Number::Whole(right)) => left.cmp(&right),
            (Number::Double(left), Number::Double(right)) => {
                left.partial_cmp(&right).unwrap_or(Ordering::Equal)
            }
            (Number::Whole(left), Number::Double(right)) => mixed(left, right),
            (Number::Double(left), Number::Whole(right)) => mixed(right, left).reverse(),
        }
    }

    /// The result, or nothing when it is undefined or not finite.
    pub(crate) fn apply(self, arithmetic: Arithmetic, other: Number) -> Option<Number> {
        if let (Number::Whole(left), Number::Whole(right)) = (self, other) {
            let exact = match arithmetic {
                Arithmetic::Add => left.checked_add(right),
                Arithmetic::Subtract => left.checked_sub(right),
                Arithmetic::Multiply => left.checked_mul(right),
                Arithmetic::Remainder => left.checked_rem(right),
                Arithmetic::Divide => {
                    (left.checked_rem(right) == Some(0)).then(|| left.checked_div(right)).flatten()
                }
            };
            if let Some(whole) = exact {
                return Some(Number::Whole(whole));
            }
        }
        let (left, right) = (self.double(), other.double());
        Number::finite(match arithmetic {
            Arithmetic::Add => left + right,
            Arithmetic::Subtract => left - right,
            Arithmetic::Multiply => left * right,
            Arithmetic::Divide => left / right,
            Arithmetic::Remainder => left % right,
        })
    }

    /// The nearest number with so many digits behind the point.
    pub(crate) fn rounded(self, digits: usize) -> Option<Number> {
        match self {
            Number::Whole(_) => Some(self),
            Number::Double(_) => Number::parse(&self.fixed(digits)),
        }
    }

    /// As text with exactly so many digits behind the point.
    pub(crate) fn fixed(self, digits: usize) -> String {
        let digits = digits.min(DIGITS_MAX);
        match self {
            Number::Whole(whole) if digits == 0 => whole.to_string(),
            Number::Whole(whole) => format!("{whole}.{:0<digits$}", ""),
            Number::Double(double) => {
                let text = format!("{double:.digits$}");
                // What is rounded to zero has no sign.
                let zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
                if zero { text.trim_start_matches('-').to_owned() } else { text }
            }
        }
    }
}

/// Most digits behind the point.
pub(crate) const DIGITS_MAX: usize = 15;

/// The largest double below which all whole numbers are doubles, too: 2^53.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

/// Compares without rounding the whole number.
fn mixed(whole: i64, double: f64) -> Ordering {
    if double >= TWO_TO_63 {
        return Ordering::Less;
    }
    if double < -TWO_TO_63 {
        return Ordering::Greater;
    }
    let trunc = double.trunc();
    whole.cmp(&(trunc as i64)).then_with(|| trunc.partial_cmp(&double).unwrap_or(Ordering::Equal))
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.order(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Whole(whole) => write!(f, "{whole}"),
            // The shortest text that is read as the same double, with an exponent where it is long.
            Number::Double(double) => write!(f, "{double:?}"),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_stay_exact_and_overflow_goes_to_doubles() {
        let number = |text: &str| Number::parse(text).unwrap();
        for (left, arithmetic, right, result) in [
            ("6", Arithmetic::Divide, "3", "2"),
            ("7", Arithmetic::Divide, "2", "3.5"),
            ("9007199254740993", Arithmetic::Add, "0", "9007199254740993"),
            ("9223372036854775807", Arithmetic::Add, "1", "9223372036854775808"),
            ("0.1", Arithmetic::Add, "0.2", "0.30000000000000004"),
            ("1.5", Arithmetic::Multiply, "2", "3"),
            ("-7", Arithmetic::Remainder, "3", "-1"),
            ("-9223372036854775808", Arithmetic::Divide, "-1", "9.223372036854775808e18"),
        ] {
            let found = number(left).apply(arithmetic, number(right)).unwrap();
            assert_eq!(found, number(result), "{left} {arithmetic:?} {right} is {found}");
        }
        assert!(number("1").apply(Arithmetic::Divide, number("0")).is_none());
        assert!(number("1").apply(Arithmetic::Remainder, number("0")).is_none());
        assert!(number("1e308").apply(Arithmetic::Multiply, number("10")).is_none());
    }

    #[test]
    fn what_is_written_is_json() {
        for (text, written) in
            [("2.0", "2"), ("1e300", "1e300"), ("1e-7", "1e-7"), ("2.50", "2.5"), ("-0.0", "0")]
        {
            let written_now = Number::parse(text).unwrap().to_string();
            assert_eq!(written_now, written);
            assert!(tiderace_value::Json::parse(written_now.as_bytes(), 1).is_ok());
        }
        for wrong in ["", "+1", "inf", "NaN", "0x1", "1e999", " 1", "1_0"] {
            assert!(Number::parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn rounding_takes_the_nearest() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(number("2.345").fixed(1), "2.3");
        assert_eq!(number("2").fixed(2), "2.00");
        assert_eq!(number("-2.75").rounded(1).unwrap(), number("-2.8"));
        assert_eq!(number("12.6").rounded(0).unwrap(), number("13"));
    }

    #[test]
    fn order_is_exact_where_doubles_round() {
        let number = |text: &str| Number::parse(text).unwrap();
        assert_eq!(
            number("9007199254740993").order(number("9007199254740992.5")),
            Ordering::Greater
        );
        assert_eq!(number("9223372036854775807").order(number("9.3e18")), Ordering::Less);
        assert_eq!(number("-1e300").order(number("-5")), Ordering::Less);
    }
}
