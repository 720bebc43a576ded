//! Conditions of updates, and what the values of a topic have to be.
//!
//! Looked at by the topic's home just before it writes. Relies on conditions being bounded where they
//! are read from the wire; here nesting is bounded once more.

use std::cmp::Ordering;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::Path;
use tiderace_value::{Json, Pointer, equal, is_binary_content, scalar_order};
use tiderace_wire::{Comparison, Condition, Flags, Run, TopicSpec, ValueType, properties};

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
    if matches!(spec.value, ValueType::Any | ValueType::Binary) && spec.schema.is_none() {
        return Ok(());
    }
    for message in run.messages().filter(|known| !known.flags.contains(Flags::RETAIN_REMOVE)) {
        let fits = fits_content(message.properties)
            .and_then(|()| {
                spec.value.check(message.body, JSON_DEPTH_MAX).map_err(|bad| bad.to_string())
            })
            .and_then(|()| fits_schema(spec, message.body));
        fits.map_err(|problem| {
            let path = &run.destination().path;
            let reason = format!("{path} takes values of type {}: {problem}", spec.value.name());
            Close::new(CloseCode::BadValue, reason)
        })?;
    }
    Ok(())
}

/// Whether what is said of a value lets it be text, which all types are that are checked. A number in
/// CBOR may look like one in JSON.
fn fits_content(block: &[u8]) -> Result<(), String> {
    match properties::find(block, "content-type") {
        Some(kind) if is_binary_content(&kind) => {
            Err(format!("its content type says {kind:?}, which is never text"))
        }
        _ => Ok(()),
    }
}

fn fits_schema(spec: &TopicSpec, body: &[u8]) -> Result<(), String> {
    let Some(schema) = &spec.schema else { return Ok(()) };
    let json = Json::parse(body, JSON_DEPTH_MAX).map_err(|bad| bad.to_string())?;
    schema.check(json).map_err(|bad| bad.to_string())
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
