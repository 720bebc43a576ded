//! What a property of a message can be, and how two of them compare.
//!
//! Relies on the numbers that views calculate with, too. Invariant: a comparison never fails; values of unlike types are unequal
//! and unordered.

use std::borrow::Cow;
use std::cmp::Ordering;

use tiderace_base::Number;

use crate::limits::NUMBER_TEXT_BYTES_MAX;
use crate::relation::Relation;

/// The message a selector is evaluated against.
pub trait Properties {
    /// The value of the property (for STOMP: the first header) called `name`, exactly as
    /// written in the selector; `None` when the message has none, which makes conditions on it
    /// unknown.
    fn property(&self, name: &str) -> Option<Value<'_>>;

    /// What looking one up costs at most, in steps of about three nanoseconds.
    fn lookup_price(&self) -> u32 {
        8
    }
}

/// A property's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text; every STOMP header is text. Owned only when it had to be decoded first.
    String(Cow<'a, str>),
    /// An approximate number. One that is not finite counts as unknown.
    Number(f64),
    /// An exact number.
    Integer(i64),
    /// True or false.
    Boolean(bool),
}

impl Value<'_> {
    /// This value as a number: text is converted, a boolean is none.
    pub(crate) fn number(&self) -> Option<Number> {
        match self {
            Value::String(text) if text.len() > NUMBER_TEXT_BYTES_MAX => None,
            Value::String(text) => Number::parse(text),
            Value::Number(float) => Number::finite(*float),
            Value::Integer(integer) => Some(Number::Integer(*integer)),
            Value::Boolean(_) => None,
        }
    }

    /// This value as a truth: the texts `true` and `false` in any case are converted.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Value::Boolean(truth) => Some(*truth),
            Value::String(text) if text.eq_ignore_ascii_case("true") => Some(true),
            Value::String(text) if text.eq_ignore_ascii_case("false") => Some(false),
            Value::String(_) | Value::Number(_) | Value::Integer(_) => None,
        }
    }

    /// Whether the relation holds between this value and `other`.
    pub(crate) fn holds(&self, relation: Relation, other: &Value<'_>) -> bool {
        match relation {
            Relation::Equal => self.equals(other),
            Relation::NotEqual => !self.equals(other),
            Relation::Less => self.order(other).is_some_and(Ordering::is_lt),
            Relation::LessOrEqual => self.order(other).is_some_and(Ordering::is_le),
            Relation::Greater => self.order(other).is_some_and(Ordering::is_gt),
            Relation::GreaterOrEqual => self.order(other).is_some_and(Ordering::is_ge),
        }
    }

    /// Whether both are equal after conversion to the more specific type of the two.
    pub(crate) fn equals(&self, other: &Value<'_>) -> bool {
        match (self, other) {
            (Value::String(left), Value::String(right)) => left == right,
            (Value::Boolean(_), _) | (_, Value::Boolean(_)) => {
                self.truth().is_some_and(|truth| other.truth() == Some(truth))
            }
            _ => self.order(other) == Some(Ordering::Equal),
        }
    }

    fn order(&self, other: &Value<'_>) -> Option<Ordering> {
        match (self, other) {
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            _ => Some(self.number()?.order(other.number()?)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value<'_> {
        Value::String(Cow::Borrowed(text))
    }

    #[test]
    fn text_converts_to_the_other_side() {
        assert!(text("5.0").equals(&Value::Integer(5)));
        assert!(text("TRUE").equals(&Value::Boolean(true)));
        assert!(!text("5.0").equals(&text("5")), "two texts compare as texts");
    }

    #[test]
    fn long_texts_are_no_numbers() {
        assert!(text(&"1".repeat(NUMBER_TEXT_BYTES_MAX)).number().is_some());
        assert!(text(&"1".repeat(NUMBER_TEXT_BYTES_MAX + 1)).number().is_none());
    }

    #[test]
    fn unlike_types_are_unequal_and_unordered() {
        for relation in [Relation::Equal, Relation::Less, Relation::GreaterOrEqual] {
            assert!(!text("red").holds(relation, &Value::Integer(5)));
            assert!(!Value::Boolean(true).holds(relation, &Value::Integer(1)));
        }
        assert!(text("red").holds(Relation::NotEqual, &Value::Integer(5)));
    }
}
