//! Finite numbers as expressions calculate with them: SQL selectors and topic views by the same rules.
//!
//! Relies on nothing. Invariant: a [`Number`] is never NaN nor infinite, so numbers are totally ordered;
//! arithmetic without a finite result has no result.

use std::cmp::Ordering;
use std::fmt;

/// A finite number: an integer as long as it fits 64 bits, else a double.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An exact number.
    Integer(i64),
    /// An approximate number, finite.
    Double(f64),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Remainder,
}

impl Number {
    /// Reads a decimal integer or double; no spaces, no hexadecimal, no `inf` or `nan`. Takes time in
    /// proportion to the text, whose length the caller limits.
    pub fn parse(text: &str) -> Option<Number> {
        if let Ok(integer) = text.parse() {
            return Some(Number::Integer(integer));
        }
        // The standard parser also takes words such as `infinity`.
        let numeric = |byte: u8| byte.is_ascii_digit() || b"+-.eE".contains(&byte);
        if !text.bytes().all(numeric) {
            return None;
        }
        Number::finite(text.parse().ok()?)
    }

    /// The number, if the double is one. Whole doubles below which all integers are doubles, too, become
    /// integers.
    pub fn finite(double: f64) -> Option<Number> {
        if double.trunc() == double && double.abs() <= TWO_TO_53 {
            return Some(Number::Integer(double as i64));
        }
        double.is_finite().then_some(Number::Double(double))
    }

    /// The integer of 64 bits that it is, however it is held.
    pub fn integer(self) -> Option<i64> {
        match self {
            Number::Integer(integer) => Some(integer),
            Number::Double(double) => {
                let fits = double.trunc() == double && (-TWO_TO_63..TWO_TO_63).contains(&double);
                fits.then_some(double as i64)
            }
        }
    }

    /// The nearest double.
    pub fn double(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Double(double) => double,
        }
    }

    /// The number with the opposite sign.
    #[must_use]
    pub fn negated(self) -> Number {
        match self {
            Number::Integer(integer) => match integer.checked_neg() {
                Some(negated) => Number::Integer(negated),
                None => Number::Double(-(integer as f64)),
            },
            Number::Double(double) => Number::Double(-double),
        }
    }

    /// Compares by exact mathematical value, also an integer with a double.
    pub fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => left.cmp(&right),
            // Not `total_cmp`: 0.0 and -0.0 are the same number.
            (Number::Double(left), Number::Double(right)) => {
                left.partial_cmp(&right).unwrap_or(Ordering::Equal)
            }
            (Number::Integer(left), Number::Double(right)) => order_mixed(left, right),
            (Number::Double(left), Number::Integer(right)) => order_mixed(right, left).reverse(),
        }
    }

    /// The result, or nothing when it is undefined or not finite. Integers stay exact as long as the
    /// result is one that fits, which goes for a division without remainder, too.
    pub fn apply(self, arithmetic: Arithmetic, other: Number) -> Option<Number> {
        if let (Number::Integer(left), Number::Integer(right)) = (self, other) {
            let exact = match arithmetic {
                Arithmetic::Add => left.checked_add(right),
                Arithmetic::Subtract => left.checked_sub(right),
                Arithmetic::Multiply => left.checked_mul(right),
                Arithmetic::Remainder => left.checked_rem(right),
                Arithmetic::Divide => {
                    (left.checked_rem(right) == Some(0)).then(|| left.checked_div(right)).flatten()
                }
            };
            if let Some(integer) = exact {
                return Some(Number::Integer(integer));
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
}

/// Compares without rounding the integer, since above 2^53 a double skips integers and equality
/// would no longer be transitive.
fn order_mixed(integer: i64, double: f64) -> Ordering {
    if double >= TWO_TO_63 {
        return Ordering::Less;
    }
    if double < -TWO_TO_63 {
        return Ordering::Greater;
    }
    let whole = double.trunc();
    integer.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&double).unwrap_or(Ordering::Equal))
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.order(*other) == Ordering::Equal
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Integer(integer) => write!(f, "{integer}"),
            // The shortest text that is read as the same double, with an exponent where it is long.
            Number::Double(double) => write!(f, "{double:?}"),
        }
    }
}

/// The largest double below which all integers are doubles, too.
const TWO_TO_53: f64 = 9_007_199_254_740_992.0;
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text).unwrap()
    }

    #[test]
    fn only_plain_decimals_are_numbers() {
        for text in ["0", "-7", "+7", "1.5", ".5", "5.", "1e3", "-1.5E-3"] {
            assert!(Number::parse(text).is_some(), "{text}");
        }
        for text in ["", " 1", "1 ", "0x10", "inf", "NaN", "1e999", "-", ".", "1,5", "1_0", "٣"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
        assert!(Number::finite(f64::NAN).is_none() && Number::finite(f64::INFINITY).is_none());
    }

    #[test]
    fn order_is_exact_where_doubles_round() {
        let large = Number::Integer(9_007_199_254_740_993);
        assert_eq!(large.order(Number::Double(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_eq!(large.order(number("9007199254740992.5")), Ordering::Greater);
        assert_eq!(Number::Double(-0.5).order(Number::Integer(0)), Ordering::Less);
        assert_eq!(Number::Integer(i64::MAX).order(Number::Double(TWO_TO_63)), Ordering::Less);
        assert_eq!(Number::Integer(i64::MAX).order(number("9.3e18")), Ordering::Less);
        assert_eq!(Number::Integer(i64::MIN).order(Number::Double(-TWO_TO_63)), Ordering::Equal);
        assert_eq!(Number::Double(-1e300).order(Number::Integer(i64::MIN)), Ordering::Less);
        assert_eq!(number("-0.0"), number("0"));
    }

    #[test]
    fn integers_stay_exact_and_overflow_goes_to_doubles() {
        use Arithmetic::{Add, Divide, Multiply, Remainder, Subtract};
        for (left, arithmetic, right, result) in [
            ("6", Divide, "3", "2"),
            ("7", Divide, "2", "3.5"),
            ("9007199254740993", Divide, "1", "9007199254740993"),
            ("9007199254740993", Add, "0", "9007199254740993"),
            ("9223372036854775807", Add, "1", "9223372036854775808"),
            ("-9223372036854775808", Subtract, "1", "-9223372036854775809"),
            ("0.1", Add, "0.2", "0.30000000000000004"),
            ("1.5", Multiply, "2", "3"),
            ("-7", Remainder, "3", "-1"),
            ("-9223372036854775808", Divide, "-1", "9.223372036854775808e18"),
        ] {
            let found = number(left).apply(arithmetic, number(right)).unwrap();
            assert_eq!(found, number(result), "{left} {arithmetic:?} {right} is {found}");
        }
        assert_eq!(Number::Integer(i64::MIN).negated(), Number::Double(TWO_TO_63));
        assert_eq!(number("2.5").negated(), number("-2.5"));
    }

    #[test]
    fn undefined_results_are_none() {
        let zero = Number::Integer(0);
        for arithmetic in [Arithmetic::Divide, Arithmetic::Remainder] {
            assert!(Number::Integer(1).apply(arithmetic, zero).is_none());
            assert!(number("0.5").apply(arithmetic, zero).is_none());
        }
        assert!(Number::Double(f64::MAX).apply(Arithmetic::Multiply, number("2")).is_none());
        assert!(number("1e308").apply(Arithmetic::Multiply, number("10")).is_none());
    }

    #[test]
    fn integers_are_found_in_doubles_and_written_as_such() {
        for (text, integer, written) in [
            ("2.0", Some(2), "2"),
            ("-0.0", Some(0), "0"),
            ("1e18", Some(1_000_000_000_000_000_000), "1e18"),
            ("1e300", None, "1e300"),
            ("2.50", None, "2.5"),
            ("1e-7", None, "1e-7"),
        ] {
            assert_eq!(number(text).integer(), integer, "{text}");
            assert_eq!(number(text).to_string(), written, "{text}");
        }
    }
}
