//! The values of functions.
//!
//! Relies on its caller to evaluate arguments. Invariant: a function has no value where its arguments
//! make no sense; what it builds is bounded by the bytes of an output.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use tiderace_base::{Arithmetic, Number};
use tiderace_value::JsonKind;

use crate::budget::{Budget, Stop};
use crate::expression::Expression;
use crate::function::Function;
use crate::number::{self, DIGITS_MAX};
use crate::value::{Found, Scalar, Value, number_of};

/// The arguments of a call. Each is evaluated when a function asks for it.
pub(crate) struct Arguments<'c, 'a> {
    expressions: &'a [Expression],
    evaluate: &'c dyn Fn(&'a Expression, &mut Budget) -> Found<'a>,
}

impl<'c, 'a> Arguments<'c, 'a> {
    /// Arguments, and what evaluates one of them.
    pub(crate) fn new(
        expressions: &'a [Expression],
        evaluate: &'c dyn Fn(&'a Expression, &mut Budget) -> Found<'a>,
    ) -> Arguments<'c, 'a> {
        Arguments { expressions, evaluate }
    }

    fn value(&self, at: usize, budget: &mut Budget) -> Found<'a> {
        match self.expressions.get(at) {
            Some(argument) => (self.evaluate)(argument, budget),
            None => Ok(None),
        }
    }

    fn number(&self, at: usize, budget: &mut Budget) -> Result<Option<Number>, Stop> {
        number_of(self.value(at, budget)?, budget)
    }

    fn len(&self) -> usize {
        self.expressions.len()
    }
}

/// The value of a call.
pub(crate) fn value<'a>(
    function: Function,
    arguments: &Arguments<'_, 'a>,
    budget: &mut Budget,
) -> Found<'a> {
    match function {
        Function::First => {
            for at in 0..arguments.len() {
                let found = arguments.value(at, budget)?;
                if found.is_some() {
                    return Ok(found);
                }
            }
            Ok(None)
        }
        Function::Min | Function::Max | Function::Sum => fold(function, arguments, budget),
        Function::Round | Function::Fixed | Function::Floor | Function::Ceiling | Function::Abs => {
            of_number(function, arguments, budget)
        }
        Function::Length => length(arguments, budget),
        Function::Join => join(arguments, budget),
        Function::Text | Function::Number => convert(function, arguments, budget),
        Function::Lower | Function::Upper | Function::Trim => of_text(function, arguments, budget),
        Function::Replace => replace(arguments, budget),
        Function::Part => part(arguments, budget),
    }
}

fn of_number<'a>(
    function: Function,
    arguments: &Arguments<'_, 'a>,
    budget: &mut Budget,
) -> Found<'a> {
    let Some(first) = arguments.number(0, budget)? else {
        return Ok(None);
    };
    let digits = match arguments.len() {
        0 | 1 => 0,
        _ => match arguments.number(1, budget)? {
            Some(Number::Integer(digits)) if (0..=MOST_DIGITS).contains(&digits) => digits as usize,
            _ => return Ok(None),
        },
    };
    let double = first.double();
    give(match function {
        Function::Fixed => return Ok(Some(Value::Text(Cow::Owned(number::fixed(first, digits))))),
        Function::Round => number::rounded(first, digits),
        Function::Floor if matches!(first, Number::Double(_)) => Number::finite(double.floor()),
        Function::Ceiling if matches!(first, Number::Double(_)) => Number::finite(double.ceil()),
        Function::Abs if first.order(Number::Integer(0)) == Ordering::Less => Some(first.negated()),
        _ => Some(first),
    })
}

/// Most digits behind the point.
const MOST_DIGITS: i64 = DIGITS_MAX as i64;

/// The least, greatest or sum of numbers; without any there is none.
fn fold<'a>(function: Function, arguments: &Arguments<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let mut values = Vec::new();
    for at in 0..arguments.len() {
        budget.piece()?;
        values.extend(arguments.value(at, budget)?);
    }
    if let [Value::Json(_) | Value::Array(_)] = values.as_mut_slice()
        && let Some(mut only) = values.pop()
    {
        only.open(budget)?;
        values = match only {
            Value::Array(elements) => elements,
            other => vec![other],
        };
    }
    if values.is_empty() && function == Function::Sum {
        return give(Some(Number::Integer(0)));
    }
    let mut result: Option<Number> = None;
    for value in &values {
        budget.step()?;
        let Some(Scalar::Number(next)) = value.scalar(budget)? else {
            return Ok(None);
        };
        let so_far = result.unwrap_or(next);
        let is_first = result.is_none();
        result = match function {
            _ if is_first => Some(next),
            Function::Min if next.order(so_far) == Ordering::Less => Some(next),
            Function::Max if next.order(so_far) == Ordering::Greater => Some(next),
            Function::Sum => so_far.apply(Arithmetic::Add, next),
            _ => Some(so_far),
        };
        if result.is_none() {
            return Ok(None);
        }
    }
    give(result)
}

fn length<'a>(arguments: &Arguments<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let Some(found) = arguments.value(0, budget)? else {
        return Ok(None);
    };
    let length = match &found {
        Value::Array(elements) => elements.len(),
        Value::Object(fields) => fields.len(),
        Value::Json(json) if matches!(json.kind(), JsonKind::Array | JsonKind::Object) => {
            budget.bytes(json.text().len())?;
            if json.kind() == JsonKind::Array {
                json.elements().count()
            } else {
                let mut names = BTreeSet::new();
                for (name, _) in json.fields() {
                    budget.step()?;
                    names.insert(name.as_text());
                }
                names.len()
            }
        }
        other => match other.scalar(budget)? {
            Some(Scalar::Text(text)) => {
                budget.bytes(text.len())?;
                text.chars().count()
            }
            _ => return Ok(None),
        },
    };
    give(i64::try_from(length).ok().map(Number::Integer))
}

fn join<'a>(arguments: &Arguments<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let list = arguments.value(0, budget)?;
    let separator = text(arguments, 1, budget)?;
    let (Some(mut list), Some(separator)) = (list, separator) else {
        return Ok(None);
    };
    list.open(budget)?;
    let Value::Array(elements) = list else {
        return Ok(None);
    };
    let mut joined = String::new();
    for (number, element) in elements.iter().enumerate() {
        let Some(piece) = element.text(budget)? else {
            return Ok(None);
        };
        if number > 0 {
            joined.push_str(&separator);
        }
        budget.bytes(piece.len() + separator.len())?;
        joined.push_str(&piece);
        bounded(joined.len(), budget)?;
    }
    Ok(Some(Value::Text(Cow::Owned(joined))))
}

fn convert<'a>(
    function: Function,
    arguments: &Arguments<'_, 'a>,
    budget: &mut Budget,
) -> Found<'a> {
    let Some(found) = arguments.value(0, budget)? else {
        return Ok(None);
    };
    if function == Function::Number {
        return give(match found.scalar(budget)? {
            Some(Scalar::Number(number)) => Some(number),
            Some(Scalar::Text(text)) => number::read(text.trim()),
            Some(Scalar::Bool(truth)) => Some(Number::Integer(i64::from(truth))),
            _ => None,
        });
    }
    let text = match found.text(budget)? {
        Some(text) => text.into_owned(),
        None => {
            let mut out = Vec::new();
            found.write(&mut out, 0, budget)?;
            String::from_utf8(out).unwrap_or_default()
        }
    };
    budget.bytes(text.len())?;
    Ok(Some(Value::Text(Cow::Owned(text))))
}

fn of_text<'a>(
    function: Function,
    arguments: &Arguments<'_, 'a>,
    budget: &mut Budget,
) -> Found<'a> {
    let Some(text) = text(arguments, 0, budget)? else {
        return Ok(None);
    };
    let text = match function {
        Function::Lower => text.to_lowercase(),
        Function::Upper => text.to_uppercase(),
        _ => text.trim().to_owned(),
    };
    bounded(text.len(), budget)?;
    Ok(Some(Value::Text(Cow::Owned(text))))
}

fn replace<'a>(arguments: &Arguments<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let whole = text(arguments, 0, budget)?;
    let from = text(arguments, 1, budget)?;
    let to = text(arguments, 2, budget)?;
    let (Some(whole), Some(from), Some(to)) = (whole, from, to) else {
        return Ok(None);
    };
    if from.is_empty() {
        return Ok(Some(Value::Text(Cow::Owned(whole))));
    }
    let mut replaced = String::new();
    for (number, piece) in whole.split(&*from).enumerate() {
        if number > 0 {
            replaced.push_str(&to);
        }
        replaced.push_str(piece);
        budget.bytes(piece.len() + to.len())?;
        bounded(replaced.len(), budget)?;
    }
    Ok(Some(Value::Text(Cow::Owned(replaced))))
}

fn part<'a>(arguments: &Arguments<'_, 'a>, budget: &mut Budget) -> Found<'a> {
    let whole = text(arguments, 0, budget)?;
    let separator = text(arguments, 1, budget)?;
    let at = arguments.number(2, budget)?;
    let (Some(whole), Some(separator), Some(Number::Integer(at))) = (whole, separator, at) else {
        return Ok(None);
    };
    if separator.is_empty() {
        return Ok(None);
    }
    let part = usize::try_from(at).ok().and_then(|at| whole.split(&*separator).nth(at));
    Ok(part.map(|part| Value::Text(Cow::Owned(part.to_owned()))))
}

/// The text that an argument is.
fn text<'a>(
    arguments: &Arguments<'_, 'a>,
    at: usize,
    budget: &mut Budget,
) -> Result<Option<String>, Stop> {
    let Some(found) = arguments.value(at, budget)? else {
        return Ok(None);
    };
    let Some(Scalar::Text(text)) = found.scalar(budget)? else {
        return Ok(None);
    };
    budget.bytes(text.len())?;
    Ok(Some(text.into_owned()))
}

fn give<'a>(number: Option<Number>) -> Found<'a> {
    Ok(number.map(Value::Number))
}

fn bounded(bytes: usize, budget: &Budget) -> Result<(), Stop> {
    let most = budget.limits.output_bytes_max;
    if bytes > most { Err(Stop::OutputBytes(most)) } else { Ok(()) }
}
