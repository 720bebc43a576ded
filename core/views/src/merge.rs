//! Merges what several sources give to one output.
//!
//! Relies on `value`. Invariant: the result depends on the values and their order alone.

use std::borrow::Cow;

use tiderace_value::{DEPTH_MAX, Json};

use crate::budget::{Budget, Stop};
use crate::limits::{Limits, VALUE_DEPTH_MAX};
use crate::value::Value;

/// Merges values in their order: objects field by field, at every depth; of anything else the later
/// counts. A value that is not JSON counts as nothing.
///
/// # Errors
/// The limit that was in the way.
pub fn merge<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
    limits: Limits,
) -> Result<Option<Vec<u8>>, Stop> {
    let mut budget = Budget::new(limits);
    let mut merged: Option<Value<'a>> = None;
    for bytes in values {
        budget.bytes(bytes.len())?;
        let Ok(json) = Json::parse(bytes, DEPTH_MAX) else {
            continue;
        };
        let over = Value::Json(json);
        merged = Some(match merged {
            Some(base) => onto(base, over, 0, &mut budget)?,
            None => over,
        });
    }
    let Some(merged) = merged else {
        return Ok(None);
    };
    let mut out = Vec::new();
    merged.write(&mut out, 0, &mut budget)?;
    Ok(Some(out))
}

/// Merges two values of one evaluation.
pub(crate) fn merge_two(base: &[u8], over: &[u8], budget: &mut Budget) -> Result<Vec<u8>, Stop> {
    budget.bytes(base.len() + over.len())?;
    let parse = |bytes| Json::parse(bytes, DEPTH_MAX).map_or(Value::Null, Value::Json);
    let merged = onto(parse(base), parse(over), 0, budget)?;
    let mut out = Vec::new();
    merged.write(&mut out, 0, budget)?;
    Ok(out)
}

fn onto<'a>(
    mut base: Value<'a>,
    mut over: Value<'a>,
    depth: usize,
    budget: &mut Budget,
) -> Result<Value<'a>, Stop> {
    if depth > VALUE_DEPTH_MAX {
        return Err(Stop::Depth);
    }
    base.open(budget)?;
    over.open(budget)?;
    let (Value::Object(fields), Value::Object(others)) = (&mut base, &mut over) else {
        return Ok(over);
    };
    for (name, value) in others.drain(..) {
        budget.bytes(fields.len() * 4)?;
        let known = fields.iter_mut().rfind(|(known, _): &&mut (Cow<'_, str>, _)| *known == name);
        match known {
            Some((_, known)) => {
                let below = std::mem::replace(known, Value::Null);
                *known = onto(below, value, depth + 1, budget)?;
            }
            None => fields.push((name, value)),
        }
    }
    Ok(base)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn objects_merge_and_the_later_counts() {
        let merged = |values: &[&str]| {
            let values = values.iter().map(|value| value.as_bytes());
            merge(values, Limits::default()).unwrap().map(|out| String::from_utf8(out).unwrap())
        };
        assert_eq!(merged(&[]), None);
        assert_eq!(merged(&["{bad"]), None);
        assert_eq!(merged(&[r#"{"a":1}"#, r#"{"b":2,"a":3}"#]).unwrap(), r#"{"a":3,"b":2}"#);
        let deep = merged(&[r#"{"a":{"x":1},"l":[1]}"#, r#"{"a":{"y":2},"l":[2]}"#]);
        assert_eq!(deep.unwrap(), r#"{"a":{"x":1,"y":2},"l":[2]}"#);
        assert_eq!(merged(&[r#"{"a":1}"#, "5"]).unwrap(), "5");
        assert_eq!(merged(&["5", r#"{"a":null}"#]).unwrap(), r#"{"a":null}"#);
    }
}
