//! The compiled form of a selector: conditions, which are true, false or unknown, over operands,
//! which are values or nothing.
//!
//! Relies on `like` and `value` for the leaves. Invariant: the types keep conditions
//! and values apart, and left-associative chains are lists, so that the nesting of this tree, and
//! with it the recursion of whatever walks it, follows the parser's depth limit alone.

use std::borrow::Cow;

use tiderace_base::Arithmetic;

use crate::like::LikePattern;
use crate::relation::Relation;
use crate::value::Value;

/// What is true, false or unknown.
#[derive(Debug)]
pub(crate) enum Condition {
    /// A chain of `AND`.
    All(Vec<Condition>),
    /// A chain of `OR`.
    Any(Vec<Condition>),
    Not(Box<Condition>),
    Compare {
        left: Operand,
        relation: Relation,
        right: Operand,
    },
    Between {
        value: Operand,
        low: Operand,
        high: Operand,
        negated: bool,
    },
    In {
        value: Operand,
        choices: Choices,
        negated: bool,
    },
    Like {
        value: Operand,
        pattern: LikePattern,
        negated: bool,
    },
    IsNull {
        value: Operand,
        negated: bool,
    },
    /// A property, `TRUE`, `FALSE` or `NULL` used as a condition.
    Truth(Operand),
}

/// What has a value or is unknown.
#[derive(Debug)]
pub(crate) enum Operand {
    Property(Box<str>),
    Literal(Literal),
    Null,
    Negated(Box<Operand>),
    /// A unary plus, which makes a number of a text.
    Positive(Box<Operand>),
    /// Operators applied from left to right; the parser has dealt with precedence.
    Arithmetic {
        first: Box<Operand>,
        rest: Vec<(Arithmetic, Operand)>,
    },
    /// A parenthesised condition beside `=` or `<>`.
    Condition(Box<Condition>),
}

/// A value written in the selector.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    String(Box<str>),
    Integer(i64),
    Float(f64),
    Boolean(bool),
}

/// The entries of an `IN` list. Texts are sorted, since a text is compared with many of them for
/// each message.
#[derive(Debug)]
pub(crate) struct Choices {
    texts: Box<[Box<str>]>,
    others: Box<[Literal]>,
}

impl Choices {
    pub(crate) fn new(literals: Vec<Literal>) -> Choices {
        let mut texts = Vec::new();
        let mut others = Vec::new();
        for literal in literals {
            match literal {
                Literal::String(text) => texts.push(text),
                other => others.push(other),
            }
        }
        texts.sort_unstable();
        Choices { texts: texts.into_boxed_slice(), others: others.into_boxed_slice() }
    }

    /// Whether `value` equals one of the entries.
    pub(crate) fn contain(&self, value: &Value<'_>) -> bool {
        let among_texts = match value {
            Value::String(text) => {
                self.texts.binary_search_by(|choice| (**choice).cmp(text)).is_ok()
            }
            _ => self.texts.iter().any(|text| value.equals(&Value::String(Cow::Borrowed(text)))),
        };
        among_texts || self.others.iter().any(|other| value.equals(&other.value()))
    }
}

impl Literal {
    pub(crate) fn value(&self) -> Value<'_> {
        match self {
            Literal::String(text) => Value::String(Cow::Borrowed(text)),
            Literal::Integer(integer) => Value::Integer(*integer),
            Literal::Float(float) => Value::Number(*float),
            Literal::Boolean(truth) => Value::Boolean(*truth),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_of_mixed_types_convert_like_equality() {
        let text = |text: &str| Literal::String(text.into());
        let choices = Choices::new(vec![text("red"), Literal::Integer(5), text("7"), text("blue")]);
        let contain = |value: Value<'_>| choices.contain(&value);
        assert!(contain(Value::String("red".into())));
        assert!(contain(Value::String("blue".into())));
        assert!(contain(Value::String("5.0".into())));
        assert!(contain(Value::Integer(7)));
        assert!(!contain(Value::String("7.0".into())));
        assert!(!contain(Value::Boolean(true)));
    }
}
