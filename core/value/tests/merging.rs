//! JSON Merge Patch: the examples of the specification and what must hold for all values.
#![allow(clippy::unwrap_used)]

use crate::values;

use proptest::prelude::*;
use serde_json::{Map, Value};
use tiderace_value::merge::{self, MergeDepth, MergeError};
use tiderace_value::{DEPTH_MAX, Json, Limits};

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), DEPTH_MAX).unwrap()
}

fn apply(text: &str, patch: &str) -> String {
    merge::apply(json(text), json(patch), Limits::DEFAULT).unwrap()
}

fn compose(first: &str, second: &str) -> Option<String> {
    merge::compose(json(first), json(second), Limits::DEFAULT).unwrap()
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// The pseudo-code of RFC 7386, section 2.
fn model(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let Value::Object(mut target) = target else {
        return model(Map::new().into(), &patch.clone().into());
    };
    for (name, value) in patch {
        if value.is_null() {
            target.remove(name);
        } else {
            let old = target.remove(name).unwrap_or(Value::Null);
            target.insert(name.clone(), model(old, value));
        }
    }
    target.into()
}

/// Fields of both, at the top or all the way down.
fn model_fields(older: &Value, newer: &Value, depth: MergeDepth) -> Value {
    let (Value::Object(old), Value::Object(new)) = (older, newer) else { return newer.clone() };
    let mut result = old.clone();
    for (name, value) in new {
        let merged = match (old.get(name), depth) {
            (Some(old), MergeDepth::All) => model_fields(old, value, depth),
            _ => value.clone(),
        };
        result.insert(name.clone(), merged);
    }
    result.into()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn patches_do_what_the_specification_says(
        target in values::value(values::small_name()),
        patch in values::value(values::small_name()),
        pretty: bool,
    ) {
        let merged = apply(&values::written(&target, pretty), &values::written(&patch, !pretty));
        prop_assert_eq!(value(&merged), model(target, &patch));
    }

    #[test]
    fn two_patches_in_one_do_what_both_do(
        target in values::value(values::small_name()),
        first in values::value(values::small_name()),
        second in values::value(values::small_name()),
    ) {
        if let Some(both) = compose(&first.to_string(), &second.to_string()) {
            let apart = model(model(target.clone(), &first), &second);
            prop_assert_eq!(model(target, &value(&both)), apart, "{}", both);
        }
    }

    #[test]
    fn fields_are_those_of_both(
        older in values::value(values::small_name()),
        newer in values::value(values::small_name()),
        pretty: bool,
    ) {
        for depth in [MergeDepth::Top, MergeDepth::All] {
            let (old_text, new_text) =
                (values::written(&older, pretty), values::written(&newer, pretty));
            let merged =
                merge::fields(json(&old_text), json(&new_text), depth, Limits::DEFAULT).unwrap();
            prop_assert_eq!(value(&merged), model_fields(&older, &newer, depth));
        }
    }
}

/// Appendix A of RFC 7386.
#[test]
fn the_examples_of_the_specification_hold() {
    for (target, patch, result) in [
        (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"b":"c"}"#, r#"{"a":"b","b":"c"}"#),
        (r#"{"a":"b"}"#, r#"{"a":null}"#, "{}"),
        (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
        (r#"{"a":["b"]}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
        (r#"{"a":"c"}"#, r#"{"a":["b"]}"#, r#"{"a":["b"]}"#),
        (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
        (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
        (r#"["a","b"]"#, r#"["c","d"]"#, r#"["c","d"]"#),
        (r#"{"a":"b"}"#, r#"["c"]"#, r#"["c"]"#),
        (r#"{"a":"foo"}"#, "null", "null"),
        (r#"{"a":"foo"}"#, "\"bar\"", "\"bar\""),
        (r#"{"e":null}"#, r#"{"a":1}"#, r#"{"e":null,"a":1}"#),
        ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
        ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
    ] {
        assert_eq!(apply(target, patch), result, "{target} {patch}");
    }
}

#[test]
fn what_a_patch_does_not_name_keeps_its_bytes() {
    let text = "{ \"a\" : 1.0, \"b\" : { \"c\" :\t[ 2 ] , \"d\":3 }, \"e\":\"\\u00e9\" }";
    assert_eq!(
        apply(text, r#"{"b":{"d":4},"e":null,"f":{"g":null}}"#),
        "{ \"a\" : 1.0, \"b\" : { \"c\" :\t[ 2 ] , \"d\":4 },\"f\":{}}"
    );
}

#[test]
fn names_that_come_twice_count_once() {
    assert_eq!(apply(r#"{"a":1,"\u0061":2}"#, r#"{"a":null}"#), "{}");
    assert_eq!(apply("{}", r#"{"a":1,"b":2,"\u0061":3}"#), r#"{"a":3,"b":2}"#);
    assert_eq!(apply("{}", r#"{"a":1,"a":null}"#), "{}");
}

#[test]
fn what_no_single_patch_says_is_told() {
    assert_eq!(compose("1", r#"{"a":1}"#), None);
    assert_eq!(compose(r#"{"x":null}"#, r#"{"x":{"a":1}}"#), None);
    assert_eq!(compose(r#"{"x":[1]}"#, r#"{"x":{}}"#), None);
    assert_eq!(compose(r#"{"x":{"a":1}}"#, r#"{"x":null}"#).as_deref(), Some(r#"{"x":null}"#));
    assert_eq!(
        compose(r#"{"x":{"a":1,"b":null}}"#, r#"{"x":{"a":null,"c":3},"y":{"d":null}}"#).as_deref(),
        Some(r#"{"x":{"a":null,"b":null,"c":3},"y":{"d":null}}"#)
    );
    assert_eq!(compose(r#"{"a":1}"#, "7").as_deref(), Some("7"));
}

#[test]
fn merging_has_limits() {
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(600_000));
    let other = large.replace("\"a\"", "\"b\"");
    let merged = merge::apply(json(&large), json(&other), Limits::DEFAULT);
    assert_eq!(merged, Err(MergeError::TooLarge(1 << 20)));
    // Each of many equal names would take the value.
    let twice = format!("{{{}\"a\":0}}", "\"a\":0,".repeat(1000));
    let value = format!("{{\"a\":\"{}\"}}", "x".repeat(10_000));
    let merged = merge::apply(json(&twice), json(&value), Limits::DEFAULT);
    assert_eq!(merged, Err(MergeError::TooLarge(1 << 20)));
    let deep = |depth: usize, inner: &str| {
        format!("{}{inner}{}", "{\"a\":".repeat(depth), "}".repeat(depth))
    };
    let merged = merge::apply(json(&deep(64, "1")), json(&deep(64, "2")), Limits::DEFAULT);
    assert_eq!(merged.as_deref(), Ok(&*deep(64, "2")));
    let merged = merge::apply(json("{}"), json(&deep(65, "2")), Limits::DEFAULT);
    assert_eq!(merged, Err(MergeError::TooDeep(64)));
    let limits = Limits { depth_max: DEPTH_MAX, ..Limits::DEFAULT };
    let long = deep(100, &format!("\"{}\"", "x".repeat(1 << 19)));
    let (same, other) = (long.clone(), deep(100, "1"));
    assert!(merge::apply(json(&other), json(&same), limits).is_ok());
    let limits = Limits { steps_max: 100_000, ..limits };
    assert_eq!(merge::apply(json(&other), json(&long), limits), Err(MergeError::TooMuchWork));
}
