//! JSON Patch: the examples of the specification, a model written over another implementation of JSON,
//! and patches of an enemy.
#![allow(clippy::unwrap_used)]

use crate::values;

use proptest::prelude::*;
use serde_json::{Value, json};
use tiderace_value::{DEPTH_MAX, Json, Limits, Patch, PatchError, PatchProblem, Pointer, edit};

fn apply(text: &str, patch: &str, limits: Limits) -> Result<String, PatchError> {
    let json = Json::parse(text.as_bytes(), DEPTH_MAX).unwrap();
    Patch::parse(patch.as_bytes())?.apply(json, limits)
}

fn problem(text: &str, patch: &str) -> (Option<usize>, String) {
    let error = apply(text, patch, Limits::DEFAULT).unwrap_err();
    (error.operation, error.problem.to_string())
}

/// What RFC 6902 says, word by word, without care for time.
mod model {
    use super::*;

    pub(super) fn apply(mut value: Value, patch: &[Value]) -> Option<Value> {
        for operation in patch {
            let path = operation["path"].as_str()?;
            match operation["op"].as_str()? {
                "add" => add(&mut value, path, operation["value"].clone())?,
                "remove" => drop(remove(&mut value, path)?),
                "replace" => *value.pointer_mut(path)? = operation["value"].clone(),
                "copy" => {
                    let part = value.pointer(operation["from"].as_str()?)?.clone();
                    add(&mut value, path, part)?;
                }
                "move" => {
                    let from = operation["from"].as_str()?;
                    value.pointer(from)?;
                    if from != path {
                        if path.starts_with(&format!("{from}/")) {
                            return None;
                        }
                        let part = remove(&mut value, from)?;
                        add(&mut value, path, part)?;
                    }
                }
                "test" if *value.pointer(path)? == operation["value"] => {}
                _ => return None,
            }
        }
        Some(value)
    }

    fn add(value: &mut Value, path: &str, part: Value) -> Option<()> {
        let Some((parent, token)) = path.rsplit_once('/') else {
            *value = part;
            return Some(());
        };
        match value.pointer_mut(parent)? {
            Value::Object(fields) => drop(fields.insert(plain(token), part)),
            Value::Array(elements) if token == "-" => elements.push(part),
            Value::Array(elements) => {
                let index: usize = token.parse().ok()?;
                if index > elements.len() {
                    return None;
                }
                elements.insert(index, part);
            }
            _ => return None,
        }
        Some(())
    }

    fn remove(value: &mut Value, path: &str) -> Option<Value> {
        let (parent, token) = path.rsplit_once('/')?;
        match value.pointer_mut(parent)? {
            Value::Object(fields) => fields.remove(&plain(token)),
            Value::Array(elements) => {
                let index: usize = token.parse().ok()?;
                (index < elements.len()).then(|| elements.remove(index))
            }
            _ => None,
        }
    }

    fn plain(token: &str) -> String {
        token.replace("~1", "/").replace("~0", "~")
    }
}

fn place() -> impl Strategy<Value = String> {
    let token = prop_oneof![
        4 => "[a-c]",
        4 => "[0-3]",
        1 => Just("-".to_owned()),
        1 => Just("~0".to_owned()),
        1 => Just("~1\"".to_owned()),
    ];
    proptest::collection::vec(token, 0..4)
        .prop_map(|tokens| tokens.iter().map(|token| format!("/{token}")).collect())
}

fn operation() -> impl Strategy<Value = Value> {
    let value = values::value(values::small_name());
    prop_oneof![
        4 => (place(), value.clone()).prop_map(|(path, value)| json!({"op": "add", "path": path, "value": value})),
        2 => place().prop_map(|path| json!({"op": "remove", "path": path})),
        2 => (place(), value.clone()).prop_map(|(path, value)| json!({"op": "replace", "path": path, "value": value})),
        3 => (place(), place()).prop_map(|(from, path)| json!({"op": "copy", "from": from, "path": path})),
        3 => (place(), place()).prop_map(|(from, path)| json!({"op": "move", "from": from, "path": path})),
        1 => (place(), value).prop_map(|(path, value)| json!({"op": "test", "path": path, "value": value})),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn patches_do_what_the_model_does(
        value in values::value(values::small_name()),
        operations in proptest::collection::vec(operation(), 0..8),
        pretty: bool,
    ) {
        // The longest beginning of the patch that the model takes, and that with one more.
        let mut taken = 0;
        while taken < operations.len()
            && model::apply(value.clone(), &operations[..=taken]).is_some()
        {
            taken += 1;
        }
        let text = values::written(&value, pretty);
        for length in [taken, (taken + 1).min(operations.len())] {
            let patch = Value::from(operations[..length].to_vec()).to_string();
            let ours = apply(&text, &patch, Limits::DEFAULT);
            match model::apply(value.clone(), &operations[..length]) {
                Some(theirs) => {
                    let ours = serde_json::from_str::<Value>(&ours.unwrap()).unwrap();
                    prop_assert_eq!(ours, theirs, "{} {}", text, patch);
                }
                None => prop_assert_eq!(
                    ours.map_err(|error| error.operation),
                    Err(Some(length - 1)),
                    "{} {}", text, patch
                ),
            }
        }
    }

    #[test]
    fn a_patch_of_one_operation_and_an_edit_write_the_same_bytes(
        value in values::value(values::small_name()),
        part in values::value(values::small_name()),
        path in place(),
        pretty: bool,
    ) {
        let text = values::written(&value, pretty);
        let json = Json::parse(text.as_bytes(), DEPTH_MAX).unwrap();
        let part_text = part.to_string();
        let part_json = Json::parse(part_text.as_bytes(), DEPTH_MAX).unwrap();
        let pointer = Pointer::parse(&path).unwrap();
        let patched = |operation: Value| {
            apply(&text, &Value::from(vec![operation]).to_string(), Limits::DEFAULT).ok()
        };
        prop_assert_eq!(
            edit::insert(json, &pointer, part_json).ok(),
            patched(json!({"op": "add", "path": path, "value": part}))
        );
        prop_assert_eq!(
            edit::remove(json, &pointer).ok(),
            patched(json!({"op": "remove", "path": path}))
        );
        let replaced = patched(json!({"op": "replace", "path": path, "value": part}));
        let set = edit::set(json, &pointer, part_json).ok();
        if replaced.is_some() {
            prop_assert_eq!(set, replaced);
        }
        prop_assert_eq!(
            pointer.resolve(json).map(|json| serde_json::from_str(json.text()).unwrap()),
            value.pointer(&path).cloned()
        );
    }
}

/// Appendix A of RFC 6902.
#[test]
fn the_examples_of_the_specification_hold() {
    for (text, patch, result) in [
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/baz","value":"qux"}]"#,
            r#"{"foo":"bar","baz":"qux"}"#,
        ),
        (
            r#"{"foo":["bar","baz"]}"#,
            r#"[{"op":"add","path":"/foo/1","value":"qux"}]"#,
            r#"{"foo":["bar","qux","baz"]}"#,
        ),
        (r#"{"baz":"qux","foo":"bar"}"#, r#"[{"op":"remove","path":"/baz"}]"#, r#"{"foo":"bar"}"#),
        (
            r#"{"foo":["bar","qux","baz"]}"#,
            r#"[{"op":"remove","path":"/foo/1"}]"#,
            r#"{"foo":["bar","baz"]}"#,
        ),
        (
            r#"{"baz":"qux","foo":"bar"}"#,
            r#"[{"op":"replace","path":"/baz","value":"boo"}]"#,
            r#"{"baz":"boo","foo":"bar"}"#,
        ),
        (
            r#"{"foo":{"bar":"baz","waldo":"fred"},"qux":{"corge":"grault"}}"#,
            r#"[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]"#,
            r#"{"foo":{"bar":"baz"},"qux":{"corge":"grault","thud":"fred"}}"#,
        ),
        (
            r#"{"foo":["all","grass","cows","eat"]}"#,
            r#"[{"op":"move","from":"/foo/1","path":"/foo/3"}]"#,
            r#"{"foo":["all","cows","eat","grass"]}"#,
        ),
        (
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
            r#"[{"op":"test","path":"/baz","value":"qux"},{"op":"test","path":"/foo/1","value":2}]"#,
            r#"{"baz":"qux","foo":["a",2,"c"]}"#,
        ),
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/child","value":{"grandchild":{}}}]"#,
            r#"{"foo":"bar","child":{"grandchild":{}}}"#,
        ),
        (
            r#"{"foo":"bar"}"#,
            r#"[{"op":"add","path":"/baz","value":"qux","xyz":123}]"#,
            r#"{"foo":"bar","baz":"qux"}"#,
        ),
        (r#"{"/":9,"~1":10}"#, r#"[{"op":"test","path":"/~01","value":10}]"#, r#"{"/":9,"~1":10}"#),
        (
            r#"{"foo":["bar"]}"#,
            r#"[{"op":"add","path":"/foo/-","value":["abc","def"]}]"#,
            r#"{"foo":["bar",["abc","def"]]}"#,
        ),
    ] {
        assert_eq!(apply(text, patch, Limits::DEFAULT).as_deref(), Ok(result), "{patch}");
    }
    let failed = (Some(0), "the test failed: the value at \"/baz\" is another".to_owned());
    assert_eq!(
        problem(r#"{"baz":"qux"}"#, r#"[{"op":"test","path":"/baz","value":"bar"}]"#),
        failed
    );
    let missing = (Some(0), "there is nothing at \"/baz\"".to_owned());
    assert_eq!(
        problem(r#"{"foo":"bar"}"#, r#"[{"op":"add","path":"/baz/bat","value":"qux"}]"#),
        missing
    );
    let string = r#"[{"op":"test","path":"/~01","value":"10"}]"#;
    assert_eq!(problem(r#"{"/":9,"~1":10}"#, string).0, Some(0));
}

#[test]
fn what_no_operation_touches_keeps_its_bytes() {
    let text = "{ \"a\" : [ 1.00 , { \"x\":1e2 } ],\n\t\"\\u0062\" : \"\\u00e9\" }";
    let patch = r#"[{"op":"replace","path":"/a/0","value": 2},{"op":"add","path":"/c","value":{ "d" :[ ] }},
        {"op":"copy","from":"/a","path":"/e"},{"op":"test","path":"/e","value":[2,{"x":100}]},
        {"op":"remove","path":"/e/1/x"}]"#;
    assert_eq!(
        apply(text, patch, Limits::DEFAULT).unwrap(),
        "{ \"a\" : [ 2 , { \"x\":1e2 } ],\n\t\"\\u0062\" : \"\\u00e9\",\"c\":{ \"d\" :[ ] },\"e\":[ 2 , {} ] }"
    );
}

#[test]
fn tests_compare_by_meaning() {
    let patch = r#"[{"op":"test","path":"","value":{"b":[1.0,"\u0061"],"a":1e1}}]"#;
    assert!(apply(r#"{"a":10,"b":[1,"a"]}"#, patch, Limits::DEFAULT).is_ok());
    let patch = r#"[{"op":"test","path":"/a","value":9007199254740993}]"#;
    assert!(apply(r#"{"a":9007199254740992}"#, patch, Limits::DEFAULT).is_err());
}

#[test]
fn a_patch_that_fails_says_which_operation_and_why() {
    for (patch, operation, says) in [
        ("{}", None, "a patch is an array"),
        ("[1]", Some(0), "a patch is an array"),
        ("[", None, "the patch is not JSON: byte 1"),
        (r#"[{"op":"test","path":"","value":{}},{"path":""}]"#, Some(1), "needs \"op\""),
        (r#"[{"op":"add","value":1}]"#, Some(0), "needs \"path\""),
        (r#"[{"op":"add","path":1,"value":1}]"#, Some(0), "needs \"path\""),
        (r#"[{"op":"add","path":""}]"#, Some(0), "needs \"value\""),
        (r#"[{"op":"move","path":""}]"#, Some(0), "needs \"from\""),
        (r#"[{"op":"spam","path":""}]"#, Some(0), "must be add, remove"),
        (r#"[{"op":"remove","path":"a"}]"#, Some(0), "begins with `/`"),
        (r#"[{"op":"remove","path":""}]"#, Some(0), "cannot be removed"),
        (r#"[{"op":"replace","path":"/x","value":1}]"#, Some(0), "nothing at \"/x\""),
        (r#"[{"op":"add","path":"/a/01","value":1}]"#, Some(0), "no index of the array at \"/a\""),
        (r#"[{"op":"add","path":"/a/3","value":1}]"#, Some(0), "has 2 elements"),
        (r#"[{"op":"add","path":"/a/0/x","value":1}]"#, Some(0), "\"/a/0\" is neither"),
        (r#"[{"op":"move","from":"/a","path":"/a/0"}]"#, Some(0), "into itself"),
        (r#"[{"op":"copy","from":"/a/-","path":"/b"}]"#, Some(0), "nothing at \"/a/-\""),
    ] {
        let (number, problem) = problem(r#"{"a":[1,2]}"#, patch);
        assert_eq!(number, operation, "{patch}: {problem}");
        assert!(problem.contains(says), "{patch}: {problem}");
    }
    let error = apply("{}", r#"[{"op":"remove","path":"/x"}]"#, Limits::DEFAULT).unwrap_err();
    assert_eq!(error.to_string(), "operation 0: there is nothing at \"/x\"");
}

fn many(operation: &str, count: usize) -> String {
    format!("[{}]", vec![operation; count].join(","))
}

#[test]
fn doubling_ends_at_the_limit_of_bytes() {
    let double = r#"{"op":"copy","from":"","path":"/a"},{"op":"copy","from":"/a","path":"/b"}"#;
    let error = apply("{}", &many(double, 40), Limits::DEFAULT).unwrap_err();
    assert_eq!(error.problem, PatchProblem::TooLarge(1 << 20));
    assert!(error.operation.is_some_and(|number| number > 20), "{error}");
}

#[test]
fn nesting_ends_at_the_limit_of_depth() {
    let deeper = r#"{"op":"copy","from":"","path":"/a"}"#;
    let error = apply("{}", &many(deeper, 200), Limits::DEFAULT).unwrap_err();
    assert_eq!((error.operation, error.problem), (Some(64), PatchProblem::TooDeep(64)));
    // What is nested in a value counts too, though nothing has taken it apart.
    let deep = format!("{}{}", "[".repeat(60), "]".repeat(60));
    let patch = format!(r#"[{{"op":"add","path":"/a/a/a/-","value":{deep}}}]"#);
    assert!(apply(r#"{"a":{"a":{"a":[]}}}"#, &patch, Limits::DEFAULT).is_ok());
    let patch = format!(r#"[{{"op":"add","path":"/a/a/a/-","value":[{deep}]}}]"#);
    let error = apply(r#"{"a":{"a":{"a":[]}}}"#, &patch, Limits::DEFAULT).unwrap_err();
    assert_eq!((error.operation, error.problem), (None, PatchProblem::TooDeep(64)));
    // Moved up and down, nothing grows.
    let moves = r#"{"op":"move","from":"/a","path":"/b/a"},{"op":"move","from":"/b/a","path":"/a"},
        {"op":"move","from":"/b","path":"/a/b"},{"op":"move","from":"/a/b","path":"/b"}"#;
    assert!(apply(r#"{"a":{},"b":{}}"#, &many(moves, 500), Limits::DEFAULT).is_ok());
}

#[test]
fn work_ends_at_the_limit_of_steps() {
    let wide = format!("{{{}\"z\":0}}", "\"k\":1,".repeat(20_000));
    let patch = many(r#"{"op":"test","path":"/z","value":0}"#, 4096);
    assert_eq!(
        apply(&wide, &patch, Limits::DEFAULT).unwrap_err().problem,
        PatchProblem::TooMuchWork
    );
    let patch = many(r#"{"op":"replace","path":"/z","value":1}"#, 4096);
    let error = apply(&wide, &patch, Limits::DEFAULT).unwrap_err();
    assert_eq!(error.problem, PatchProblem::TooMuchWork);
    assert!(error.operation.is_some_and(|number| number > 100));
}

#[test]
fn patches_have_bounds_of_their_own() {
    let error = apply("{}", &many(r#"{"op":"test","path":"","value":{}}"#, 4097), Limits::DEFAULT);
    assert_eq!(error.unwrap_err().problem, PatchProblem::Operations);
    let long = format!("[{}]", " ".repeat(1 << 20));
    assert_eq!(apply("{}", &long, Limits::DEFAULT).unwrap_err().problem, PatchProblem::Bytes);
    let path = "/a".repeat(33);
    let (number, problem) = problem("{}", &format!(r#"[{{"op":"remove","path":"{path}"}}]"#));
    assert_eq!((number, problem.contains("at most 32 tokens")), (Some(0), true));
}

#[test]
fn a_patch_that_moves_a_value_into_itself_is_refused_before_it_is_applied() {
    let read = |from: &str, path: &str| {
        let patch = format!(r#"[{{"op":"move","from":"{from}","path":"{path}"}}]"#);
        Patch::parse(patch.as_bytes()).map(|_| ()).map_err(|error| error.problem)
    };
    assert_eq!(read("/a", "/a/b"), Err(PatchProblem::IntoItself("/a".to_owned())));
    assert_eq!(read("", "/a"), Err(PatchProblem::IntoItself(String::new())));
    assert_eq!((read("/a", "/a"), read("/a/b", "/a"), read("/a", "/ab")), (Ok(()), Ok(()), Ok(())));
}

#[test]
fn a_patch_may_outlive_its_text() {
    let text =
        r#"[{"op":"test","path":"/a","value":1},{"op":"add","path":"/b","value":[2]}]"#.to_owned();
    let patch = Patch::parse(text.as_bytes()).unwrap();
    let owned = patch.clone().into_owned();
    assert_eq!(owned, patch);
    drop(text);
    let json = Json::parse(br#"{"a":1}"#, DEPTH_MAX).unwrap();
    assert_eq!(owned.apply(json, Limits::DEFAULT).unwrap(), r#"{"a":1,"b":[2]}"#);
}
