//! What holds for any text, with another implementation of JSON as the oracle.
#![allow(clippy::unwrap_used)]

use crate::check;

use proptest::prelude::*;
use serde_json::Value;
use tiderace_value::{DEPTH_MAX, Json, JsonError, JsonProblem, append_text, append_text_lossy};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        ".{0,8}".prop_map(Value::from),
        "[\\\\\"\\]\\[{}:, \n\u{0}é😀]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 30, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-c\"\\\\_]{0,3}", inner, 0..5)
                .prop_map(|rows| Value::Object(rows.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn valid_values_are_taken_and_come_apart_rightly(value in value(), pretty: bool) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        let json = Json::parse(text.as_bytes(), 16).unwrap();
        prop_assert_eq!(json.text(), &*text);
        let mut rebuilt = Vec::new();
        check::rebuild(json, &mut rebuilt);
        prop_assert_eq!(&serde_json::from_slice::<Value>(&rebuilt).unwrap(), &value);
        if let Value::Object(fields) = &value {
            for (name, field) in fields {
                prop_assert_eq!(json.field(name).unwrap().as_bool(), field.as_bool());
                let text = json.field(name).unwrap().as_text();
                prop_assert_eq!(text.as_deref(), field.as_str());
                prop_assert_eq!(json.field(name).unwrap().as_unsigned(), field.as_u64());
            }
        }
    }

    #[test]
    fn any_text_is_judged_as_by_others(text in prop_oneof![
        "[\\[\\]{}\",:0-9eE+.\\-truefalsn \\\\]{0,14}",
        "[\\[\\]{},:\"1 ]{0,10}",
        "\"(\\\\[\"\\\\/bfnrtu]|[0-9a-f]|\u{1}|é){0,8}\"",
        "-?0?[0-9]{0,3}\\.?[0-9]{0,2}[eE]?[+-]?[0-9]{0,2}",
    ]) {
        let theirs = serde_json::from_str::<Box<serde_json::value::RawValue>>(&text);
        let ours = Json::parse(text.as_bytes(), DEPTH_MAX);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{} {:?}", text, ours);
        check::json(text.as_bytes());
    }

    #[test]
    fn texts_come_back(
        text in ".{0,30}",
        control in "[\u{0}-\u{1f}\"\\\\/é😀]{0,9}",
        plain in "[a-zé]{0,99}",
    ) {
        let long = format!("{plain}{control}{plain}{text}");
        for text in [&text, &control, &long] {
            let mut out = Vec::new();
            append_text(&mut out, text);
            let json = Json::parse(&out, 0).unwrap();
            let back = json.as_text();
            prop_assert_eq!(back.as_deref(), Some(&**text));
            let theirs = serde_json::from_slice::<String>(&out).unwrap();
            prop_assert_eq!(&theirs, text);
        }
    }

    #[test]
    fn any_bytes_are_taken_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        check::json(&bytes);
        let mut out = Vec::new();
        append_text_lossy(&mut out, &bytes);
        prop_assert!(Json::parse(&out, 0).is_ok());
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(Json::parse(nested(3).as_bytes(), 3).is_ok());
    let four = nested(4);
    let refused = Json::parse(four.as_bytes(), 3);
    assert_eq!(refused, Err(JsonError { at: 3, problem: JsonProblem::TooDeep }));
    assert!(Json::parse(nested(DEPTH_MAX).as_bytes(), usize::MAX).is_ok());
    assert!(Json::parse(nested(DEPTH_MAX + 1).as_bytes(), usize::MAX).is_err());
    assert!(Json::parse("[".repeat(1 << 20).as_bytes(), usize::MAX).is_err());
}

#[test]
fn of_equal_names_the_last_counts_and_names_mean_nothing() {
    let json =
        Json::parse(br#"{"a":1,"\u0061":2,"__proto__":{"a":3},"constructor":4}"#, 4).unwrap();
    assert_eq!(json.field("a").unwrap().as_unsigned(), Some(2));
    assert_eq!(json.field("constructor").unwrap().as_unsigned(), Some(4));
    assert_eq!(json.field("toString"), None);
    assert_eq!(json.fields().count(), 4);
    assert_eq!(json.elements().count(), 0);
    assert_eq!(Json::NULL.field("a"), None);
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let rows: [(&[u8], usize, JsonProblem); 7] = [
        (b"", 0, JsonProblem::Ends),
        (b"[1,", 3, JsonProblem::Ends),
        (b"{\"a\":1,}", 7, JsonProblem::Unexpected),
        (b"\"a\nb\"", 2, JsonProblem::Control),
        (b"\"\\x\"", 2, JsonProblem::Escape),
        (b"\"\xff\"", 1, JsonProblem::Text),
        (b"1 2", 2, JsonProblem::Trailing),
    ];
    for (bytes, at, problem) in rows {
        assert_eq!(Json::parse(bytes, 8), Err(JsonError { at, problem }));
    }
}

#[test]
fn the_rest_of_an_array_is_told_as_it_was_written() {
    let json = Json::parse(br#"["name", 1, {"a" : 2}]"#, 4).unwrap();
    let mut elements = json.elements();
    elements.next();
    assert_eq!(elements.rest().trim(), r#"1, {"a" : 2}]"#);
}

#[test]
fn objects_are_asked_at_any_depth_and_not_in_texts() {
    let json = Json::parse(
        br#"{"a":[{"b":"{}"},{"\u0062" : [{"a":1,"a":2}]}], "{\"a\":3":1, "b":-0.5e1}"#,
        8,
    );
    let mut asked = Vec::new();
    let all = json.unwrap().all_objects(["a", "b"], |found| {
        asked.push(found.map(|value| value.map_or("", Json::text)));
        true
    });
    assert!(all);
    let list = r#"[{"b":"{}"},{"\u0062" : [{"a":1,"a":2}]}]"#;
    let inner = r#"[{"a":1,"a":2}]"#;
    assert_eq!(asked, [["", r#""{}""#], ["2", ""], ["", inner], [list, "-0.5e1"]]);
}

#[test]
fn the_first_no_ends_the_asking() {
    let json = Json::parse(br#"[{"a":1},{"a":2},{"a":3}]"#, 8).unwrap();
    let mut asked = 0;
    let all = json.all_objects(["a"], |[value]| {
        asked += 1;
        value.and_then(Json::as_unsigned) != Some(2)
    });
    assert_eq!((all, asked), (false, 2));
    assert!(Json::parse(b"\"{\"", 8).unwrap().all_objects(["a"], |_| false));
}
