//! The value of an expression.
//!
//! Relies on `value` and `budget`. Invariant: nothing fails but by a limit; what has no sensible
//! result has no value, and a condition is true or not.

use std::borrow::Cow;
use std::cmp::Ordering;

use tiderace_base::{Arithmetic, Number};
use tiderace_topics::Path;
use tiderace_value::Json;

use crate::budget::{Budget, Stop};
use crate::call::{self, Arguments};
use crate::expression::{Comparison, Expression, Operator};
use crate::pointer::{Place, Root};
use crate::value::{Found, Scalar, Value, number_of};

/// What an expression can see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scene<'s, 'a> {
    pub(crate) path: &'a Path,
    /// The value of the source.
    pub(crate) source: &'s Value<'a>,
    /// The value at this point of the view.
    pub(crate) value: &'s Value<'a>,
    /// The name or number of the element that was expanded last.
    pub(crate) key: Option<&'s str>,
}

/// The value of an expression, if it has one.
pub(crate) fn value<'a>(
    expression: &'a Expression,
    scene: Scene<'_, 'a>,
    budget: &mut Budget,
) -> Found<'a> {
    budget.step()?;
    Ok(match expression {
        Expression::Null => Some(Value::Null),
        Expression::Bool(truth) => Some(Value::Bool(*truth)),
        Expression::Number(number) => Some(Value::Number(*number)),
        Expression::Exact(text) => {
            budget.bytes(text.len())?;
            Json::parse(text.as_bytes(), 0).ok().map(Value::Json)
        }
        Expression::Text(text) => Some(Value::Text(Cow::Borrowed(text))),
        Expression::At(place) => return at(place, scene, budget),
        Expression::Key => scene.key.map(|key| Value::Text(Cow::Owned(key.to_owned()))),
        Expression::Path(levels) => {
            levels.of(scene.path).map(|text| Value::Text(Cow::Borrowed(text)))
        }
        Expression::Array(elements) => {
            let mut values = Vec::new();
            for element in elements {
                budget.piece()?;
                values.extend(value(element, scene, budget)?);
            }
            Some(Value::Array(values))
        }
        Expression::Object(fields) => Some(object(fields, scene, budget)?),
        Expression::Exists(place) => Some(Value::Bool(at(place, scene, budget)?.is_some())),
        Expression::Not(inner) => Some(Value::Bool(!holds(inner, scene, budget)?)),
        Expression::Negate(inner) => {
            let number = number(inner, scene, budget)?;
            number.map(|number| Value::Number(number.negated()))
        }
        Expression::Two(Operator::Calculate(arithmetic), left, right) => {
            let left = value(left, scene, budget)?;
            let right = value(right, scene, budget)?;
            return calculate(*arithmetic, left, right, budget);
        }
        Expression::Two(..) | Expression::Matches(..) => {
            Some(Value::Bool(holds(expression, scene, budget)?))
        }
        Expression::If(parts) => {
            let [test, then, otherwise] = &**parts;
            let branch = if holds(test, scene, budget)? { then } else { otherwise };
            return value(branch, scene, budget);
        }
        Expression::Call(function, arguments) => {
            let value = |argument, budget: &mut Budget| value(argument, scene, budget);
            return call::value(*function, &Arguments::new(arguments, &value), budget);
        }
    })
}

/// An object; of equal names the last counts.
fn object<'a>(
    fields: &'a [(Expression, Expression)],
    scene: Scene<'_, 'a>,
    budget: &mut Budget,
) -> Result<Value<'a>, Stop> {
    let mut values: Vec<(Cow<'a, str>, Value<'a>)> = Vec::new();
    for (name, field) in fields {
        budget.piece()?;
        let name: Cow<'a, str> = match name {
            Expression::Text(name) => Cow::Borrowed(name),
            name => match value(name, scene, budget)? {
                Some(name) => match name.text(budget)? {
                    Some(name) => Cow::Owned(name.into_owned()),
                    None => continue,
                },
                None => continue,
            },
        };
        budget.bytes(name.len())?;
        if let Some(value) = value(field, scene, budget)? {
            values.retain(|(known, _)| *known != name);
            values.push((name, value));
        }
    }
    Ok(Value::Object(values))
}

/// Whether a condition is true.
pub(crate) fn holds<'a>(
    condition: &'a Expression,
    scene: Scene<'_, 'a>,
    budget: &mut Budget,
) -> Result<bool, Stop> {
    match condition {
        Expression::Two(Operator::Or, left, right) => {
            budget.step()?;
            Ok(holds(left, scene, budget)? || holds(right, scene, budget)?)
        }
        Expression::Two(Operator::And, left, right) => {
            budget.step()?;
            Ok(holds(left, scene, budget)? && holds(right, scene, budget)?)
        }
        Expression::Two(Operator::Compare(comparison), left, right) => {
            let left = value(left, scene, budget)?;
            let right = value(right, scene, budget)?;
            compare(*comparison, left, right, budget)
        }
        Expression::Two(Operator::In, left, right) => {
            let left = value(left, scene, budget)?;
            let right = value(right, scene, budget)?;
            among(left, right, budget)
        }
        Expression::Matches(inner, regex) => {
            let found = value(inner, scene, budget)?;
            let Some(found) = found else {
                return Ok(false);
            };
            let Some(Scalar::Text(text)) = found.scalar(budget)? else {
                return Ok(false);
            };
            budget.bytes(text.len())?;
            Ok(regex.fits(&text))
        }
        other => {
            let found = value(other, scene, budget)?;
            Ok(match found {
                Some(found) => matches!(found.scalar(budget)?, Some(Scalar::Bool(true))),
                None => false,
            })
        }
    }
}

/// The number that an expression is.
fn number<'a>(
    expression: &'a Expression,
    scene: Scene<'_, 'a>,
    budget: &mut Budget,
) -> Result<Option<Number>, Stop> {
    number_of(value(expression, scene, budget)?, budget)
}

/// What a place holds.
pub(crate) fn at<'a>(place: &Place, scene: Scene<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let root = match place.root {
        Root::Value => scene.value,
        Root::Source => scene.source,
    };
    root.at(&place.pointer.0, budget)
}

fn calculate<'a>(
    arithmetic: Arithmetic,
    left: Option<Value<'a>>,
    right: Option<Value<'a>>,
    budget: &mut Budget,
) -> Found<'a> {
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(None);
    };
    Ok(match (left.scalar(budget)?, right.scalar(budget)?) {
        (Some(Scalar::Number(left)), Some(Scalar::Number(right))) => {
            left.apply(arithmetic, right).map(Value::Number)
        }
        (Some(Scalar::Text(_)), _) | (_, Some(Scalar::Text(_)))
            if arithmetic == Arithmetic::Add =>
        {
            let (Some(left), Some(right)) = (left.text(budget)?, right.text(budget)?) else {
                return Ok(None);
            };
            budget.bytes(left.len() + right.len())?;
            let text = left.into_owned() + &right;
            if text.len() > budget.limits.output_bytes_max {
                return Err(Stop::OutputBytes(budget.limits.output_bytes_max));
            }
            Some(Value::Text(Cow::Owned(text)))
        }
        _ => None,
    })
}

fn compare(
    comparison: Comparison,
    left: Option<Value<'_>>,
    right: Option<Value<'_>>,
    budget: &mut Budget,
) -> Result<bool, Stop> {
    let equal = comparison == Comparison::Equal;
    let (Some(left), Some(right)) = (left, right) else {
        return Ok(comparison == Comparison::Unequal);
    };
    if equal || comparison == Comparison::Unequal {
        return Ok(left.equals(&right, budget)? == equal);
    }
    let order = match (left.scalar(budget)?, right.scalar(budget)?) {
        (Some(left @ Scalar::Number(_)), Some(right)) => left.order(&right),
        (Some(Scalar::Text(left)), Some(Scalar::Text(right))) => {
            budget.bytes(left.len().min(right.len()))?;
            Some(left.cmp(&right))
        }
        _ => None,
    };
    Ok(match (order, comparison) {
        (None, _) => false,
        (Some(order), Comparison::Less) => order == Ordering::Less,
        (Some(order), Comparison::LessOrEqual) => order != Ordering::Greater,
        (Some(order), Comparison::Greater) => order == Ordering::Greater,
        (Some(order), _) => order != Ordering::Less,
    })
}

/// Whether a value is one of an array's elements, or the name of one of an object's fields.
fn among(
    left: Option<Value<'_>>,
    right: Option<Value<'_>>,
    budget: &mut Budget,
) -> Result<bool, Stop> {
    let (Some(mut left), Some(mut right)) = (left, right) else {
        return Ok(false);
    };
    left.read_text(budget)?;
    right.open(budget)?;
    match &right {
        Value::Array(elements) => {
            for element in elements {
                if left.equals(element, budget)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Value::Object(fields) => {
            let Some(Scalar::Text(name)) = left.scalar(budget)? else {
                return Ok(false);
            };
            budget.bytes(fields.len() * 16)?;
            Ok(fields.iter().any(|(known, _)| *known == *name))
        }
        _ => Ok(false),
    }
}
