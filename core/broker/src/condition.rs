//! Conditions of updates, and what the values of a topic have to be.
//!
//! Looked at by the topic's home just before it writes. Relies on conditions being bounded where they
//! are read from the wire; here nesting is bounded once more.

use std::cmp::Ordering;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::Path;
use tiderace_wire::{Comparison, Condition, Flags, Run, TopicSpec, ValueType};

use tiderace_value::{Json, Pointer, equal, scalar_order};

use crate::broker::Broker;
use crate::operate::Operator;

const NESTING_MAX: usize = 16;
/// How deeply values may be nested that a topic's type or a condition wants looked into.
pub(crate) const JSON_DEPTH_MAX: usize = 256;

impl Broker {
    /// Whether what an update depends on holds.
    pub(crate) fn check_condition(
        &self,
        operator: &Operator,
        path: &Path,
        value: Option<&Run>,
        condition: &Condition,
    ) -> Result<(), Close> {
        if self.holds(operator, path, value, condition, 0)? {
            return Ok(());
        }
        let state = value.map_or_else(
            || "has no value".to_owned(),
            |run| format!("is in version {}", run.version()),
        );
        let reason = format!("the condition does not hold: {path} {state}; nothing was changed");
        Err(Close::new(CloseCode::ConditionFailed, reason))
    }

    fn holds(
        &self,
        operator: &Operator,
        path: &Path,
        value: Option<&Run>,
        condition: &Condition,
        depth: usize,
    ) -> Result<bool, Close> {
        if depth > NESTING_MAX {
            return Err(CloseCode::TooMuchWork.into());
        }
        let body = value.and_then(|run| run.message(0)).map(|message| message.body);
        Ok(match condition {
            Condition::Absent => value.is_none(),
            Condition::Present => value.is_some(),
            Condition::Version(version) => value.is_some_and(|run| run.version() == *version),
            Condition::Value(wanted) => body == Some(wanted),
            Condition::Place { pointer, comparison, value } => {
                compares(body, pointer, *comparison, value)?
            }
            Condition::Locked(name) => self.fence_holds(path, name, operator.fence),
            Condition::All(all) => {
                for condition in all {
                    if !self.holds(operator, path, value, condition, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            Condition::Any(any) => {
                for condition in any {
                    if self.holds(operator, path, value, condition, depth + 1)? {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }
}

/// Whether all messages of a run may be values of a topic.
pub(crate) fn check_value(spec: &TopicSpec, run: &Run) -> Result<(), Close> {
    if spec.value == ValueType::Any || spec.value == ValueType::Binary {
        return Ok(());
    }
    let written = run.messages().filter(|message| !message.flags.contains(Flags::RETAIN_REMOVE));
    for message in written {
        fits(spec.value, message.body).map_err(|problem| {
            let path = &run.destination().path;
            let kind = spec.value.name();
            let reason = format!("{path} holds values of type {kind}; {problem}");
            Close::new(CloseCode::BadValue, reason)
        })?;
    }
    Ok(())
}

/// Whether a body is of that type.
fn fits(kind: ValueType, body: &[u8]) -> Result<(), String> {
    let text = || std::str::from_utf8(body).map_err(|wrong| wrong.to_string());
    match kind {
        ValueType::Any | ValueType::Binary => Ok(()),
        ValueType::Text => text().map(|_| ()),
        ValueType::Json => {
            Json::parse(body, JSON_DEPTH_MAX).map(|_| ()).map_err(|wrong| wrong.to_string())
        }
        ValueType::Int64 => match text()?.trim().parse::<i64>() {
            Ok(_) => Ok(()),
            Err(_) => Err("this is no whole number of 64 bits".to_owned()),
        },
        ValueType::Double => {
            let json = Json::parse(body, 1).map_err(|wrong| wrong.to_string())?;
            let finite = json.as_number().is_some_and(f64::is_finite);
            if finite { Ok(()) } else { Err("this is no finite number".to_owned()) }
        }
    }
}

/// Whether a place of a value compares so. What is not there, and a value that is not JSON, equals
/// nothing.
fn compares(
    body: Option<&[u8]>,
    pointer: &str,
    comparison: Comparison,
    value: &[u8],
) -> Result<bool, Close> {
    let bad = |wrong: String| Close::new(CloseCode::BadOperation, wrong);
    let pointer = Pointer::parse(pointer).map_err(|wrong| bad(wrong.to_string()))?;
    let json = body.and_then(|body| Json::parse(body, JSON_DEPTH_MAX).ok());
    let found = json.and_then(|json| pointer.resolve(json));
    let wanted = match comparison {
        Comparison::Exists => return Ok(found.is_some()),
        Comparison::Missing => return Ok(found.is_none()),
        _ => Json::parse(value, JSON_DEPTH_MAX).map_err(|wrong| bad(wrong.to_string()))?,
    };
    let Some(found) = found else { return Ok(comparison == Comparison::NotEqual) };
    let order = || scalar_order(found, wanted);
    Ok(match comparison {
        Comparison::Equal => equal(found, wanted),
        Comparison::NotEqual => !equal(found, wanted),
        Comparison::Less => order().is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order().is_some_and(Ordering::is_le),
        Comparison::Greater => order().is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order().is_some_and(Ordering::is_ge),
        Comparison::Exists | Comparison::Missing => false,
    })
}
