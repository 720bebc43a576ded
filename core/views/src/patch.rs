//! JSON Patch (RFC 6902): read once with the view, applied to values.
//!
//! Relies on `value`. Invariant: a patch applies as a whole or not at all.

use tiderace_value::{Json, Pointer, PointerError};

use crate::budget::{Budget, Stop};
use crate::error::Problem;
use crate::limits::{DEPTH_MAX, PATCH_OPERATIONS_MAX, POINTER_LEVELS_MAX};
use crate::value::Value;

/// The operations of a patch.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Patch {
    text: Box<str>,
    operations: Vec<Operation>,
}

type Levels = Vec<Box<str>>;

/// One operation; values as JSON text.
#[derive(Clone, Debug, PartialEq)]
enum Operation {
    Add(Levels, Box<str>),
    Remove(Levels),
    Replace(Levels, Box<str>),
    Move { from: Levels, to: Levels },
    Copy { from: Levels, to: Levels },
    Test(Levels, Box<str>),
}

impl Patch {
    /// Reads a patch.
    pub(crate) fn parse(json: Json<'_>) -> Result<Patch, Problem> {
        let mut operations = Vec::new();
        for (index, element) in json.elements().enumerate() {
            if index == PATCH_OPERATIONS_MAX {
                let what = "operations in a patch";
                return Err(Problem::TooMany { what, max: PATCH_OPERATIONS_MAX });
            }
            let operation = Operation::parse(element)
                .map_err(|problem| Problem::Patch { operation: index + 1, problem })?;
            operations.push(operation);
        }
        Ok(Patch { text: json.text().into(), operations })
    }

    /// Its text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Applies it; whether that was possible. If not, the value is no longer of use.
    pub(crate) fn apply<'a>(
        &'a self,
        value: &mut Value<'a>,
        budget: &mut Budget,
    ) -> Result<bool, Stop> {
        for operation in &self.operations {
            if !operation.apply(value, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Operation {
    fn parse(json: Json<'_>) -> Result<Operation, &'static str> {
        let text = |name| json.field(name).and_then(Json::as_text);
        let path = || levels(&text("path").ok_or("it has no `path`")?);
        let from = || levels(&text("from").ok_or("it has no `from`")?);
        let value = || {
            let value = json.field("value").ok_or("it has no `value`")?;
            Ok::<Box<str>, &'static str>(value.text().into())
        };
        let name = text("op").ok_or("it has no `op`")?;
        Ok(match &*name {
            "add" => Operation::Add(path()?, value()?),
            "remove" => Operation::Remove(path()?),
            "replace" => Operation::Replace(path()?, value()?),
            "move" => {
                let (from, to) = (from()?, path()?);
                if to.len() > from.len() && to.starts_with(&from) {
                    return Err("it moves a value into itself");
                }
                Operation::Move { from, to }
            }
            "copy" => Operation::Copy { from: from()?, to: path()? },
            "test" => Operation::Test(path()?, value()?),
            _ => return Err("`op` is none of add, remove, replace, move, copy and test"),
        })
    }

    fn apply<'a>(&'a self, value: &mut Value<'a>, budget: &mut Budget) -> Result<bool, Stop> {
        budget.step()?;
        match self {
            Operation::Add(at, new) => match known(new, budget)? {
                Some(new) => value.add(at, new, budget),
                None => Ok(false),
            },
            Operation::Remove(at) => Ok(value.remove(at, budget)?.is_some()),
            Operation::Replace(at, new) => {
                if value.at(at, budget)?.is_none() {
                    return Ok(false);
                }
                match known(new, budget)? {
                    Some(new) => value.set(at, new, budget),
                    None => Ok(false),
                }
            }
            Operation::Move { from, to } if from == to => Ok(value.at(from, budget)?.is_some()),
            Operation::Move { from, to } => match value.remove(from, budget)? {
                Some(moved) => value.add(to, moved, budget),
                None => Ok(false),
            },
            Operation::Copy { from, to } => match value.at(from, budget)? {
                Some(copied) => value.add(to, copied, budget),
                None => Ok(false),
            },
            Operation::Test(at, expected) => {
                let found = value.at(at, budget)?;
                match (found, known(expected, budget)?) {
                    (Some(found), Some(expected)) => found.equals(&expected, budget),
                    _ => Ok(false),
                }
            }
        }
    }
}

/// The value of a text that was checked when the patch was read.
fn known<'a>(text: &'a str, budget: &mut Budget) -> Result<Option<Value<'a>>, Stop> {
    budget.bytes(text.len())?;
    Ok(Json::parse(text.as_bytes(), DEPTH_MAX).ok().map(Value::Json))
}

/// Reads a pointer as RFC 6901 writes it.
fn levels(text: &str) -> Result<Levels, &'static str> {
    let pointer = Pointer::parse(text).map_err(|error| match error {
        PointerError::Start => "its pointer does not begin with `/`",
        PointerError::Tilde(_) => "in its pointer is a `~`: write `~0` for `~` and `~1` for `/`",
        PointerError::Bytes => "its pointer is too long",
        PointerError::Tokens => TOO_DEEP,
    })?;
    let levels: Levels = pointer.tokens().map(Into::into).collect();
    if levels.len() > POINTER_LEVELS_MAX {
        return Err(TOO_DEEP);
    }
    Ok(levels)
}

const TOO_DEEP: &str = "its pointer has more than 16 levels";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Limits;

    fn patched(patch: &str, value: &str) -> Option<String> {
        let patch = Patch::parse(Json::parse(patch.as_bytes(), 16).unwrap()).unwrap();
        let mut value = Value::Json(Json::parse(value.as_bytes(), 16).unwrap());
        let mut budget = Budget::new(Limits::default());
        if !patch.apply(&mut value, &mut budget).unwrap() {
            return None;
        }
        let mut out = Vec::new();
        value.write(&mut out, 0, &mut budget).unwrap();
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
        ] {
            assert!(Patch::parse(Json::parse(patch.as_bytes(), 16).unwrap()).is_err(), "{patch}");
        }
    }
}
