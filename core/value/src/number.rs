//! Numbers of JSON as what they say: decimal numbers of any length, compared digit by digit.
//!
//! Relies on the text being a valid number. Invariant: nothing goes through floating point, so
//! `0.1` is a tenth and integers beyond 2^53 differ from their neighbours. Exponents beyond 10^18
//! count as 10^18.

use std::cmp::Ordering;

/// The greatest size of an exponent that is told apart from greater ones.
const EXPONENT_MAX: i64 = 1_000_000_000_000_000_000;

/// A number: `0.DIGITS × 10^exponent`, where the digits neither begin nor end with a zero.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decimal<'a> {
    negative: bool,
    /// Digits before the point, or all of them.
    whole: &'a [u8],
    /// Digits behind the point; empty if all of them stand before it.
    part: &'a [u8],
    exponent: i64,
}

impl<'a> Decimal<'a> {
    /// Reads a valid number.
    pub(crate) fn of(text: &'a str) -> Decimal<'a> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (digits, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0');
        let part = part.trim_end_matches('0');
        // The point moves to before the first digit that is not zero.
        let shift = if whole.is_empty() {
            let zeros = part.len() - part.trim_start_matches('0').len();
            -(zeros as i64)
        } else {
            whole.len() as i64
        };
        let whole_kept = if part.is_empty() { whole.trim_end_matches('0') } else { whole };
        let part = if whole.is_empty() { part.trim_start_matches('0') } else { part };
        let zero = whole_kept.is_empty() && part.is_empty();
        Decimal {
            negative: negative && !zero,
            whole: whole_kept.as_bytes(),
            part: part.as_bytes(),
            exponent: if zero { 0 } else { power(exponent).saturating_add(shift) },
        }
    }

    fn is_zero(self) -> bool {
        self.whole.is_empty() && self.part.is_empty()
    }

    fn digits(self) -> impl Iterator<Item = u8> {
        self.whole.iter().chain(self.part).copied()
    }

    fn digit_count(self) -> i64 {
        (self.whole.len() + self.part.len()) as i64
    }

    /// Whether it has no fraction.
    pub(crate) fn is_whole(self) -> bool {
        self.digit_count() <= self.exponent || self.is_zero()
    }

    /// The whole number it is, if it is one that fits.
    pub(crate) fn as_integer(self) -> Option<i64> {
        if !self.is_whole() || self.exponent > 19 {
            return None;
        }
        let places = usize::try_from(self.exponent).ok()?;
        let padded = self.digits().chain(std::iter::repeat(b'0')).take(places);
        let size = padded.fold(0i128, |sum, digit| sum * 10 + i128::from(digit - b'0'));
        i64::try_from(if self.negative { -size } else { size }).ok()
    }

    pub(crate) fn order(self, other: Decimal<'_>) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.size_order(other),
            (true, true) => other.size_order(self),
        }
    }

    fn size_order(self, other: Decimal<'_>) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            // Digits of fractions compare like texts: what ends first is smaller.
            (false, false) => {
                self.exponent.cmp(&other.exponent).then_with(|| self.digits().cmp(other.digits()))
            }
        }
    }

    /// Appends the one text that all equal numbers have.
    pub(crate) fn append_canonical(self, out: &mut Vec<u8>) {
        if self.is_zero() {
            out.push(b'0');
            return;
        }
        if self.negative {
            out.push(b'-');
        }
        out.extend(self.digits());
        let last = self.exponent.saturating_sub(self.digit_count());
        if last != 0 {
            out.extend_from_slice(format!("e{last}").as_bytes());
        }
    }

    /// The digits as a whole number and the power of ten of the last one, if 18 digits suffice.
    pub(crate) fn parts(self) -> Option<(u64, i64)> {
        if self.digit_count() > 18 {
            return None;
        }
        let digits = self.digits().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        Some((digits, self.exponent.saturating_sub(self.digit_count())))
    }

    /// Whether it is a whole number of times `divisor × 10^power`, which is not zero and of which
    /// `divisor` does not end with a zero.
    pub(crate) fn is_multiple(self, divisor: u64, power: i64) -> bool {
        if self.is_zero() {
            return true;
        }
        let last = self.exponent.saturating_sub(self.digit_count());
        // Its last digit is not zero, so what ends in zeros cannot divide it.
        let Ok(zeros) = u64::try_from(last.saturating_sub(power)) else { return false };
        let modulus = u128::from(divisor.max(1));
        let digits =
            self.digits().fold(0, |rest, digit| (rest * 10 + u128::from(digit - b'0')) % modulus);
        (digits * power_of_ten(zeros, modulus)).is_multiple_of(modulus)
    }
}

/// The rest of `10^power` after division.
fn power_of_ten(mut power: u64, modulus: u128) -> u128 {
    let (mut result, mut base) = (1 % modulus, 10 % modulus);
    while power > 0 {
        if power & 1 == 1 {
            result = result * base % modulus;
        }
        base = base * base % modulus;
        power >>= 1;
    }
    result
}

/// The exponent that digits with a sign say.
fn power(text: &str) -> i64 {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = digits.trim_start_matches('0');
    let size = if digits.is_empty() {
        0
    } else {
        digits.parse().unwrap_or(EXPONENT_MAX).min(EXPONENT_MAX)
    };
    if negative { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_numbers_have_one_text() {
        for (text, canonical) in [
            ("0", "0"),
            ("-0.00e7", "0"),
            ("1", "1"),
            ("1.0", "1"),
            ("100", "1e2"),
            ("1E+2", "1e2"),
            ("0.001", "1e-3"),
            ("10.010", "1001e-2"),
            ("-1.5e3", "-15e2"),
            ("9007199254740993", "9007199254740993"),
            ("1e99999999999999999999999", "1e1000000000000000000"),
        ] {
            let mut out = Vec::new();
            Decimal::of(text).append_canonical(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), canonical, "{text}");
        }
    }

    #[test]
    fn order_is_by_value() {
        let rising =
            ["-1e400", "-10", "-9.5", "-0.1", "0", "1e-400", "0.09", "0.1", "0.11", "1", "9", "10"];
        for (place, one) in rising.iter().enumerate() {
            for (other_place, other) in rising.iter().enumerate() {
                let order = Decimal::of(one).order(Decimal::of(other));
                assert_eq!(order, place.cmp(&other_place), "{one} {other}");
            }
        }
        let near = ("9007199254740992", "9007199254740993");
        assert_eq!(Decimal::of(near.0).order(Decimal::of(near.1)), Ordering::Less);
    }

    #[test]
    fn integers_and_multiples_are_exact() {
        for (text, integer) in [
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("1.5", None),
            ("150e-1", Some(15)),
            ("1e18", Some(1_000_000_000_000_000_000)),
            ("1e400", None),
            ("-0", Some(0)),
            ("1e-2", None),
        ] {
            assert_eq!(Decimal::of(text).as_integer(), integer, "{text}");
        }
        for (text, divisor, holds) in [
            ("0.3", "0.1", true),
            ("0.35", "0.1", false),
            ("1e300", "7", false),
            ("7e300", "7", true),
            ("4.5", "1.5", true),
            ("-6", "3", true),
            ("100", "40", false),
            ("120", "40", true),
            ("1", "1e-999999999999999999999", true),
            ("0", "0.01", true),
        ] {
            let (digits, power) = Decimal::of(divisor).parts().unwrap();
            assert_eq!(Decimal::of(text).is_multiple(digits, power), holds, "{text} {divisor}");
        }
    }
}
