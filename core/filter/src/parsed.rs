//! What the parser has read so far: a condition or an operand, and what may be made of it.
//!
//! Relies on `compiled`. Invariant: a value is never taken for a condition, nor the reverse; the
//! error points to where the wrong one begins.

use tiderace_base::Arithmetic;

use crate::compiled::{Condition, Literal, Operand};
use crate::error::{Problem, SelectorError};

/// A piece of the selector that has been read.
pub(crate) struct Parsed {
    /// Byte offset of its first token.
    pub(crate) at: usize,
    pub(crate) shape: Shape,
}

pub(crate) enum Shape {
    Condition(Condition),
    Operand(Operand),
}

impl Parsed {
    /// As something true or false.
    pub(crate) fn condition(self) -> Result<Condition, SelectorError> {
        match self.shape {
            Shape::Condition(condition) => Ok(condition),
            Shape::Operand(
                operand @ (Operand::Property(_)
                | Operand::Null
                | Operand::Literal(Literal::Boolean(_))),
            ) => Ok(Condition::Truth(operand)),
            Shape::Operand(_) => Err(Problem::NotACondition.at(self.at)),
        }
    }

    /// As a value that is no condition.
    pub(crate) fn operand(self) -> Result<Operand, SelectorError> {
        match self.shape {
            Shape::Operand(operand) => Ok(operand),
            Shape::Condition(_) => Err(Problem::NotAValue.at(self.at)),
        }
    }

    /// As a value to calculate with or to order: no condition and no boolean. Text is allowed,
    /// because it may spell a number.
    pub(crate) fn scalar(self) -> Result<Operand, SelectorError> {
        match self.shape {
            Shape::Operand(Operand::Literal(Literal::Boolean(_))) => {
                Err(Problem::NotAValue.at(self.at))
            }
            _ => self.operand(),
        }
    }

    /// As one side of `=` or `<>`, where a condition is a boolean.
    pub(crate) fn equatable(self) -> Operand {
        match self.shape {
            Shape::Operand(operand) => operand,
            Shape::Condition(condition) => Operand::Condition(Box::new(condition)),
        }
    }
}

/// `left AND right`, growing the chain that `left` is.
pub(crate) fn all(left: Condition, right: Condition) -> Condition {
    match left {
        Condition::All(mut conditions) => {
            conditions.push(right);
            Condition::All(conditions)
        }
        left => Condition::All(vec![left, right]),
    }
}

/// `left OR right`, growing the chain that `left` is.
pub(crate) fn any(left: Condition, right: Condition) -> Condition {
    match left {
        Condition::Any(mut conditions) => {
            conditions.push(right);
            Condition::Any(conditions)
        }
        left => Condition::Any(vec![left, right]),
    }
}

/// A chain is evaluated from left to right, so any operator can be appended to a finished left
/// side, whatever the precedence of the operators within.
pub(crate) fn chain(left: Operand, operator: Arithmetic, right: Operand) -> Operand {
    match left {
        Operand::Arithmetic { first, mut rest } => {
            rest.push((operator, right));
            Operand::Arithmetic { first, rest }
        }
        left => Operand::Arithmetic { first: Box::new(left), rest: vec![(operator, right)] },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Operand {
        Operand::Property(name.into())
    }

    #[test]
    fn chains_grow_to_the_right_and_do_not_nest() {
        let mut chained = name("a");
        for _ in 0..100 {
            chained = chain(chained, Arithmetic::Add, name("b"));
        }
        assert!(matches!(chained, Operand::Arithmetic { rest, .. } if rest.len() == 100));
        let mut condition = Condition::Truth(name("a"));
        for _ in 0..100 {
            condition = all(condition, Condition::Truth(name("b")));
        }
        assert!(matches!(condition, Condition::All(conditions) if conditions.len() == 101));
    }

    #[test]
    fn a_name_may_be_either_but_text_is_no_condition() {
        let parsed = |operand| Parsed { at: 7, shape: Shape::Operand(operand) };
        assert!(parsed(name("a")).condition().is_ok());
        assert!(parsed(name("a")).scalar().is_ok());
        let text = Operand::Literal(Literal::String("a".into()));
        assert_eq!(parsed(text).condition().err(), Some(Problem::NotACondition.at(7)));
    }
}
