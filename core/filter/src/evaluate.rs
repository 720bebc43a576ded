//! Evaluates a compiled selector in three-valued logic.
//!
//! Relies on the depth limit that the parser has kept. Invariant: `None` is unknown, everywhere;
//! nothing here allocates, and all loops run over lists whose length the parser has bounded.

use tiderace_base::Number;

use crate::compiled::{Condition, Operand};
use crate::limits::LIKE_STEPS_MAX;
use crate::relation::Relation;
use crate::value::{Properties, Value};

/// Whether `condition` is true, false or unknown for a message with `properties`.
pub(crate) fn evaluate(condition: &Condition, properties: &dyn Properties) -> Option<bool> {
    priced(condition, properties).0
}

/// The same, and the price of finding that out.
pub(crate) fn priced(condition: &Condition, properties: &dyn Properties) -> (Option<bool>, u32) {
    let mut evaluation =
        Evaluation { properties, like_steps: LIKE_STEPS_MAX, nodes: 1, looked_up: 0 };
    let truth = evaluation.truth(condition);
    let lookups = evaluation.looked_up.saturating_mul(properties.lookup_price());
    let nodes = evaluation.nodes.saturating_mul(NODE_PRICE);
    let steps = LIKE_STEPS_MAX - evaluation.like_steps;
    (truth, nodes.saturating_add(lookups).saturating_add(steps))
}

/// What a condition or an operand costs, in steps of `LIKE`.
const NODE_PRICE: u32 = 8;

struct Evaluation<'a> {
    properties: &'a dyn Properties,
    /// What is left of the budget of all `LIKE` conditions together.
    like_steps: u32,
    /// Conditions that were looked at.
    nodes: u32,
    /// Properties that were looked up.
    looked_up: u32,
}

impl<'a> Evaluation<'a> {
    fn truth(&mut self, condition: &'a Condition) -> Option<bool> {
        self.nodes += 1;
        match condition {
            Condition::All(conditions) => self.fold(conditions, false),
            Condition::Any(conditions) => self.fold(conditions, true),
            Condition::Not(inner) => self.truth(inner).map(|truth| !truth),
            Condition::Compare { left, relation, right } => {
                let left = self.value(left)?;
                Some(left.holds(*relation, &self.value(right)?))
            }
            Condition::Between { value, low, high, negated } => {
                self.between(value, low, high, *negated)
            }
            Condition::In { value, choices, negated } => {
                Some(choices.contain(&self.value(value)?) != *negated)
            }
            Condition::Like { value, pattern, negated } => {
                let matched = match self.value(value)? {
                    Value::String(text) => pattern.matches(&text, &mut self.like_steps)?,
                    _ => false,
                };
                Some(matched != *negated)
            }
            Condition::IsNull { value, negated } => Some(self.value(value).is_none() != *negated),
            Condition::Truth(operand) => self.value(operand)?.truth(),
        }
    }

    /// `AND` (decided by one `false`) and `OR` (decided by one `true`): unknown when undecided
    /// and one condition is unknown.
    fn fold(&mut self, conditions: &'a [Condition], deciding: bool) -> Option<bool> {
        let mut folded = Some(!deciding);
        for condition in conditions {
            match self.truth(condition) {
                Some(truth) if truth == deciding => return Some(deciding),
                Some(_) => {}
                None => folded = None,
            }
        }
        folded
    }

    /// By definition `low <= value AND value <= high`, or `value < low OR value > high`.
    fn between(
        &mut self,
        value: &'a Operand,
        low: &'a Operand,
        high: &'a Operand,
        negated: bool,
    ) -> Option<bool> {
        let value = self.value(value)?;
        let (below, above) = if negated {
            (Relation::Less, Relation::Greater)
        } else {
            (Relation::GreaterOrEqual, Relation::LessOrEqual)
        };
        let low = self.value(low).map(|low| value.holds(below, &low));
        if low == Some(negated) {
            return low;
        }
        let high = self.value(high).map(|high| value.holds(above, &high));
        if high == Some(negated) {
            return high;
        }
        low.and(high)
    }

    fn value(&mut self, operand: &'a Operand) -> Option<Value<'a>> {
        match operand {
            Operand::Property(name) => {
                self.looked_up += 1;
                match self.properties.property(name)? {
                    Value::Number(float) if !float.is_finite() => None,
                    value => Some(value),
                }
            }
            Operand::Literal(literal) => Some(literal.value()),
            Operand::Null => None,
            Operand::Negated(inner) => Some(value(self.value(inner)?.number()?.negated())),
            Operand::Positive(inner) => Some(value(self.value(inner)?.number()?)),
            Operand::Arithmetic { first, rest } => {
                let mut result = self.value(first)?.number()?;
                self.nodes += rest.len() as u32;
                for (operator, operand) in rest {
                    result = result.apply(*operator, self.value(operand)?.number()?)?;
                }
                Some(value(result))
            }
            Operand::Condition(condition) => self.truth(condition).map(Value::Boolean),
        }
    }
}

fn value<'a>(number: Number) -> Value<'a> {
    match number {
        Number::Integer(integer) => Value::Integer(integer),
        Number::Double(double) => Value::Number(double),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::parser::parse;

    struct Nothing;

    impl Properties for Nothing {
        fn property(&self, _: &str) -> Option<Value<'_>> {
            None
        }
    }

    #[test]
    fn three_valued_tables() {
        for (text, expected) in [
            ("TRUE AND NULL", None),
            ("FALSE AND NULL", Some(false)),
            ("NULL AND FALSE", Some(false)),
            ("NULL AND NULL", None),
            ("TRUE OR NULL", Some(true)),
            ("NULL OR TRUE", Some(true)),
            ("FALSE OR NULL", None),
            ("NOT NULL", None),
            ("NULL = NULL", None),
            ("NULL <> 1", None),
            ("1 BETWEEN NULL AND 0", Some(false)),
            ("1 BETWEEN NULL AND 2", None),
            ("1 NOT BETWEEN 2 AND NULL", Some(true)),
            ("1 NOT BETWEEN 0 AND NULL", None),
            ("NULL IN (1)", None),
            ("NULL NOT LIKE 'a'", None),
            ("NULL IS NULL", Some(true)),
            ("1 / 0 IS NULL", Some(true)),
            ("(x = 1) = TRUE", None),
        ] {
            assert_eq!(evaluate(&parse(text).unwrap(), &Nothing), expected, "{text}");
        }
    }
}
