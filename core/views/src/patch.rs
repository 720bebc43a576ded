//! JSON Patch (RFC 6902): read once with the view, applied to values as a change of a topic's value is.
//!
//! Relies on [`tiderace_value::Patch`]. Invariant: a patch applies as a whole or not at all.

use tiderace_value::{Json, PatchError, PatchProblem};

use crate::budget::{Budget, Stop};
use crate::error::Problem;
use crate::limits::{PATCH_OPERATIONS_MAX, VALUE_DEPTH_MAX};
use crate::texts::Texts;
use crate::value::{Found, Value};

/// The operations of a patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    text: Box<str>,
    operations: tiderace_value::Patch<'static>,
}

impl Patch {
    /// Reads a patch.
    pub(crate) fn parse(json: Json<'_>) -> Result<Patch, Problem> {
        let too_many =
            || Problem::TooMany { what: "operations in a patch", max: PATCH_OPERATIONS_MAX };
        let operations = tiderace_value::Patch::of(json).map_err(|error| match error {
            PatchError { operation: Some(number), problem } => {
                Problem::Patch { operation: number + 1, problem }
            }
            // A view is too short for anything else to be wrong with all of them.
            PatchError { operation: None, .. } => too_many(),
        })?;
        if operations.len() > PATCH_OPERATIONS_MAX {
            return Err(too_many());
        }
        Ok(Patch { text: json.text().into(), operations: operations.into_owned() })
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The value that it makes of another; none if it does not apply.
    pub(crate) fn apply<'a>(
        &self,
        value: &Value<'a>,
        texts: &'a Texts,
        budget: &mut Budget,
    ) -> Found<'a> {
        let mut written = Vec::new();
        let json = match value {
            Value::Json(json) => *json,
            value => {
                value.write(&mut written, 0, budget)?;
                budget.bytes(written.len())?;
                Json::parse(&written, VALUE_DEPTH_MAX).map_err(|_| Stop::Depth)?
            }
        };
        let bytes_max = budget.limits.source_bytes_max.max(budget.limits.output_bytes_max);
        let limits = tiderace_value::Limits { bytes_max, depth_max: VALUE_DEPTH_MAX, steps_max: 0 };
        let made = budget.json_work(|steps| self.operations.apply_within(json, limits, steps))?;
        let made = match made.map_err(|error| error.problem) {
            Ok(made) => made,
            Err(PatchProblem::TooMuchWork) => return Err(Stop::Work(budget.limits.work_max)),
            Err(PatchProblem::TooLarge(bytes_max)) => return Err(Stop::OutputBytes(bytes_max)),
            Err(PatchProblem::TooDeep(_)) => return Err(Stop::Depth),
            Err(_) => return Ok(None),
        };
        budget.bytes(made.len())?;
        let Some(made) = texts.keep(made) else {
            return Err(Stop::Work(budget.limits.work_max));
        };
        Ok(Json::parse(made.as_bytes(), VALUE_DEPTH_MAX).ok().map(Value::Json))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Limits;

    fn patched(patch: &str, value: &str) -> Option<String> {
        let patch = Patch::parse(Json::parse(patch.as_bytes(), 16).unwrap()).unwrap();
        let value = Value::Json(Json::parse(value.as_bytes(), 16).unwrap());
        let (texts, mut budget) = (Texts::default(), Budget::new(Limits::default()));
        let made = patch.apply(&value, &texts, &mut budget).unwrap()?;
        let mut out = Vec::new();
        made.write(&mut out, 0, &mut budget).unwrap();
        Some(String::from_utf8(out).unwrap())
    }

    /// The appendix of RFC 6902, and what it leaves out.
    #[test]
    fn operations_are_those_of_the_standard() {
        for (patch, value, expected) in [
            (
                r#"[{"op":"add","path":"/baz","value":"q"}]"#,
                r#"{"foo":"bar"}"#,
                Some(r#"{"foo":"bar","baz":"q"}"#),
            ),
            (
                r#"[{"op":"add","path":"/foo/1","value":"q"}]"#,
                r#"{"foo":["a","b"]}"#,
                Some(r#"{"foo":["a","q","b"]}"#),
            ),
            (
                r#"[{"op":"add","path":"/foo/-","value":["x"]}]"#,
                r#"{"foo":["a"]}"#,
                Some(r#"{"foo":["a",["x"]]}"#),
            ),
            (r#"[{"op":"add","path":"/foo/3","value":1}]"#, r#"{"foo":["a"]}"#, None),
            (r#"[{"op":"add","path":"/a/b","value":1}]"#, r#"{"foo":1}"#, None),
            (r#"[{"op":"remove","path":"/baz"}]"#, r#"{"baz":1,"foo":2}"#, Some(r#"{"foo":2}"#)),
            (
                r#"[{"op":"remove","path":"/foo/1"}]"#,
                r#"{"foo":[1,2,3]}"#,
                Some(r#"{"foo":[1,3]}"#),
            ),
            (r#"[{"op":"remove","path":"/x"}]"#, r#"{"foo":1}"#, None),
            (
                r#"[{"op":"replace","path":"/foo","value":{"a":1}}]"#,
                r#"{"foo":1}"#,
                Some(r#"{"foo":{"a":1}}"#),
            ),
            (r#"[{"op":"replace","path":"/x","value":1}]"#, r#"{"foo":1}"#, None),
            (r#"[{"op":"replace","path":"","value":7}]"#, r#"{"foo":1}"#, Some("7")),
            (
                r#"[{"op":"move","from":"/foo/a","path":"/q/b"}]"#,
                r#"{"foo":{"a":1,"c":2},"q":{}}"#,
                Some(r#"{"foo":{"c":2},"q":{"b":1}}"#),
            ),
            (
                r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#,
                r#"{"foo":[0,1,2,3]}"#,
                Some(r#"{"foo":[0,2,3,1]}"#),
            ),
            (
                r#"[{"op":"copy","from":"/a","path":"/b"}]"#,
                r#"{"a":[1]}"#,
                Some(r#"{"a":[1],"b":[1]}"#),
            ),
            (
                r#"[{"op":"test","path":"/a","value":{"y":2,"x":1.0}}]"#,
                r#"{"a":{"x":1,"y":2}}"#,
                Some(r#"{"a":{"x":1,"y":2}}"#),
            ),
            (r#"[{"op":"test","path":"/a","value":"1"}]"#, r#"{"a":1}"#, None),
            // Section 4.6: numbers are equal if they are numerically equal, not if a double rounds so.
            (
                r#"[{"op":"test","path":"/a","value":0.30000000000000004}]"#,
                r#"{"a":0.300000000000000041}"#,
                None,
            ),
            (
                r#"[{"op":"test","path":"/a","value":9007199254740992.5}]"#,
                r#"{"a":9007199254740992.25}"#,
                None,
            ),
            // What no operation touches stays as it was written.
            (
                r#"[{"op":"add","path":"/b","value":1}]"#,
                r#"{ "a" : 1.50 }"#,
                Some(r#"{ "a" : 1.50,"b":1 }"#),
            ),
            (
                r#"[{"op":"test","path":"/a~1b~0","value":1}]"#,
                r#"{"a/b~":1}"#,
                Some(r#"{"a/b~":1}"#),
            ),
        ] {
            assert_eq!(patched(patch, value).as_deref(), expected, "{patch} to {value}");
        }
    }

    #[test]
    fn operations_that_make_no_sense_are_refused() {
        for patch in [
            "[1]",
            r#"[{"op":"add"}]"#,
            r#"[{"op":"jump","path":"/a"}]"#,
            r#"[{"op":"add","path":"a","value":1}]"#,
            r#"[{"op":"move","path":"/a/b","from":"/a"}]"#,
            r#"[{"op":"test","path":"/a"}]"#,
            r#"[{"op":"test","path":"/a~","value":1}]"#,
        ] {
            assert!(Patch::parse(Json::parse(patch.as_bytes(), 16).unwrap()).is_err(), "{patch}");
        }
    }
}
