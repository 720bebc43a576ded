//! Exact and approximate numbers: conversion from text, order, arithmetic.
//!
//! Relies on nothing. Invariant: a `Number` is never NaN nor infinite, so numbers are totally
//! ordered; arithmetic without a finite result has no result.

use std::cmp::Ordering;

use crate::limits::NUMBER_TEXT_BYTES_MAX;

/// A finite number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Number {
    Integer(i64),
    Float(f64),
}

/// An arithmetic operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

impl Number {
    /// Reads a decimal integer or double; no spaces, no hexadecimal, no `inf` or `nan`.
    pub(crate) fn parse(text: &str) -> Option<Number> {
        if text.len() > NUMBER_TEXT_BYTES_MAX {
            return None;
        }
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

    /// The number, if `float` is one.
    pub(crate) fn finite(float: f64) -> Option<Number> {
        float.is_finite().then_some(Number::Float(float))
    }

    /// Compares by exact mathematical value, also an integer with a double.
    pub(crate) fn order(self, other: Number) -> Ordering {
        match (self, other) {
            (Number::Integer(left), Number::Integer(right)) => left.cmp(&right),
            // Not `total_cmp`: 0.0 and -0.0 are the same number.
            (Number::Float(left), Number::Float(right)) => {
                left.partial_cmp(&right).unwrap_or(Ordering::Equal)
            }
            (Number::Integer(left), Number::Float(right)) => order_mixed(left, right),
            (Number::Float(left), Number::Integer(right)) => order_mixed(right, left).reverse(),
        }
    }

    /// The result, or nothing when it is undefined or not finite. Integers stay exact as long as
    /// they fit; a division always gives a double.
    pub(crate) fn apply(self, operator: Operator, other: Number) -> Option<Number> {
        if let (Number::Integer(left), Number::Integer(right)) = (self, other) {
            let exact = match operator {
                Operator::Add => left.checked_add(right),
                Operator::Subtract => left.checked_sub(right),
                Operator::Multiply => left.checked_mul(right),
                Operator::Remainder => left.checked_rem(right),
                Operator::Divide => None,
            };
            if let Some(integer) = exact {
                return Some(Number::Integer(integer));
            }
        }
        let (left, right) = (self.float(), other.float());
        Number::finite(match operator {
            Operator::Add => left + right,
            Operator::Subtract => left - right,
            Operator::Multiply => left * right,
            Operator::Divide => left / right,
            Operator::Remainder => left % right,
        })
    }

    /// The number with the opposite sign.
    pub(crate) fn negated(self) -> Number {
        match self {
            Number::Integer(integer) => match integer.checked_neg() {
                Some(negated) => Number::Integer(negated),
                None => Number::Float(-(integer as f64)),
            },
            Number::Float(float) => Number::Float(-float),
        }
    }

    fn float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }
}

/// Compares without rounding the integer, since above 2^53 a double skips integers and equality
/// would no longer be transitive.
fn order_mixed(integer: i64, float: f64) -> Ordering {
    if float >= TWO_TO_63 {
        return Ordering::Less;
    }
    if float < -TWO_TO_63 {
        return Ordering::Greater;
    }
    let whole = float.trunc();
    integer.cmp(&(whole as i64)).then_with(|| whole.partial_cmp(&float).unwrap_or(Ordering::Equal))
}

const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_decimals_are_numbers() {
        for text in ["0", "-7", "+7", "1.5", ".5", "5.", "1e3", "-1.5E-3"] {
            assert!(Number::parse(text).is_some(), "{text}");
        }
        for text in ["", " 1", "1 ", "0x10", "inf", "NaN", "1e999", "-", ".", "1,5", "1_0", "٣"] {
            assert!(Number::parse(text).is_none(), "{text}");
        }
        assert!(Number::parse(&"1".repeat(NUMBER_TEXT_BYTES_MAX)).is_some());
        assert!(Number::parse(&"1".repeat(NUMBER_TEXT_BYTES_MAX + 1)).is_none());
    }

    #[test]
    fn order_is_exact_where_doubles_round() {
        let large = Number::Integer(9_007_199_254_740_993);
        assert_eq!(large.order(Number::Float(9_007_199_254_740_992.0)), Ordering::Greater);
        assert_eq!(Number::Float(-0.5).order(Number::Integer(0)), Ordering::Less);
        assert_eq!(Number::Integer(i64::MAX).order(Number::Float(TWO_TO_63)), Ordering::Less);
        assert_eq!(Number::Integer(i64::MIN).order(Number::Float(-TWO_TO_63)), Ordering::Equal);
        assert_eq!(Number::Float(-1e300).order(Number::Integer(i64::MIN)), Ordering::Less);
    }

    #[test]
    fn undefined_results_are_none_and_overflow_goes_to_doubles() {
        let zero = Number::Integer(0);
        assert!(Number::Integer(1).apply(Operator::Divide, zero).is_none());
        assert!(Number::Integer(1).apply(Operator::Remainder, zero).is_none());
        assert!(Number::Float(f64::MAX).apply(Operator::Multiply, Number::Float(2.0)).is_none());
        let sum = Number::Integer(i64::MAX).apply(Operator::Add, Number::Integer(1)).unwrap();
        assert_eq!(sum.order(Number::Float(TWO_TO_63)), Ordering::Equal);
        assert_eq!(
            Number::Integer(i64::MIN).negated().order(Number::Float(TWO_TO_63)),
            Ordering::Equal
        );
    }
}
