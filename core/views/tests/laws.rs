//! Laws of the language over views made up from its grammar.
#![allow(clippy::unwrap_used)]

use crate::check;

use proptest::prelude::*;
use tiderace_views::View;

fn pointer() -> impl Strategy<Value = String> {
    prop_oneof![
        "(/[a-c0-2]){1,3}",
        "/[a-z]-[a-z]",
        Just("/\"odd \\\"name\"/x".to_owned()),
        Just("/\"\"".to_owned()),
        Just("/a~1b/m~0n".to_owned()),
        Just("/items/-".to_owned()),
    ]
}

fn leaf() -> impl Strategy<Value = String> {
    prop_oneof![
        pointer(),
        Just("value".to_owned()),
        Just("source".to_owned()),
        pointer().prop_map(|pointer| format!("source{pointer}")),
        Just("key".to_owned()),
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>()
            .prop_filter("finite", |number| number.is_finite())
            .prop_map(|number| { format!("{number:?}") }),
        "\"[a-z\u{e9} ,]{0,5}\"",
        (-3i32..4, proptest::option::of(1u32..4)).prop_map(|(from, count)| match count {
            Some(count) => format!("path({from}, {count})"),
            None => format!("path({from})"),
        }),
        pointer().prop_map(|pointer| format!("exists {pointer}")),
    ]
}

fn expression() -> impl Strategy<Value = String> {
    leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (inner.clone(), proptest::sample::select(&OPERATORS[..]), inner.clone())
                .prop_map(|(left, operator, right)| format!("(({left}) {operator} ({right}))")),
            (inner.clone(), proptest::sample::select(&["or", "and", "+", "*"][..]), inner.clone())
                .prop_map(|(left, operator, right)| format!("{left} {operator} {right}")),
            inner.clone().prop_map(|inner| format!("(not ({inner}))")),
            inner.clone().prop_map(|inner| format!("-({inner})")),
            inner.clone().prop_map(|inner| format!("(({inner}) matches \"[a-c]+|x.*\")")),
            proptest::collection::vec(inner.clone(), 0..4)
                .prop_map(|inner| format!("[{}]", inner.join(", "))),
            // No literal above has a capital: a name in brackets that is the same as another is refused.
            (inner.clone(), inner.clone())
                .prop_map(|(name, inner)| format!("{{A: {inner}, \"B c\": 1, [{name}]: {inner}}}")),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(test, then, other)| format!("(if {test} then {then} else {other})")),
            (proptest::sample::select(&ONE[..]), inner.clone())
                .prop_map(|(function, inner)| format!("{function}({inner})")),
            (proptest::sample::select(&MANY[..]), inner.clone(), inner.clone())
                .prop_map(|(function, left, right)| format!("{function}({left}, {right})")),
            (inner.clone(), inner).prop_map(|(left, right)| {
                format!("first(replace({left}, \"a\", {right}), part({left}, {right}, 0))")
            }),
        ]
    })
}

const OPERATORS: [&str; 14] =
    ["or", "and", "=", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%"];
const SOURCES: [&str; 5] = ["t/*", "[t/a, ?x/[a-c]{1,,2}, \u{e9}/**]", "\"t t/*\"", "?t/.*", "**"];
const ONE: [&str; 13] = [
    "text", "number", "round", "floor", "ceiling", "abs", "min", "max", "sum", "length", "lower",
    "upper", "trim",
];
const MANY: [&str; 7] = ["min", "max", "sum", "first", "join", "round", "fixed"];

fn step() -> impl Strategy<Value = String> {
    prop_oneof![
        expression().prop_map(|condition| format!("where {condition}")),
        (pointer(), expression(), pointer(), expression())
            .prop_map(|(at, value, other, more)| format!("set {at} = {value}, {other} = {more}")),
        (pointer(), pointer()).prop_map(|(one, other)| format!("remove {one}, {other}")),
        expression().prop_map(|value| format!("as {value}")),
        (expression(), pointer(), pointer(), expression()).prop_map(|(path, from, at, other)| {
            format!("insert t/<scalar({path})> {from} at {at} or {other}")
        }),
        (pointer(), pointer()).prop_map(|(at, _)| format!("insert t/a at {at}")),
        Just("patch [{\"op\": \"copy\", \"from\": \"/a\", \"path\": \"/b\"}]".to_owned()),
    ]
}

fn steps() -> impl Strategy<Value = String> {
    proptest::collection::vec(step(), 0..4).prop_map(|steps| steps.join(" "))
}

fn template() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        "[a-c]{1,2}",
        Just("\"a b\"".to_owned()),
        Just("<path(-1)>".to_owned()),
        expression().prop_map(|value| format!("<scalar({value})>")),
        expression().prop_map(|value| format!("<scalar({value}, \"-\")>")),
        Just("<expand(value)>".to_owned()),
        Just("<expand(source/a)>".to_owned()),
        (pointer(), pointer()).prop_map(|(at, key)| format!("<expand({at}, {key})>")),
    ];
    proptest::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"))
}

fn options() -> impl Strategy<Value = String> {
    proptest::sample::select(
        &[
            "",
            "merge",
            "throttle 5 per 90s delay 1500ms",
            "type string preserve",
            "type int64",
            "type double with retain = true, owner = \"a b\"",
            "delay 1d merge",
        ][..],
    )
    .prop_map(str::to_owned)
}

const FROM: [&str; 4] = ["", "from london", "from edge-1.eu", "from \"a -- b\""];

fn view() -> impl Strategy<Value = String> {
    let sources = (proptest::sample::select(&SOURCES[..]), proptest::sample::select(&FROM[..]));
    (sources, steps(), template(), steps(), options()).prop_map(
        |((source, from), before, to, after, options)| {
            format!("map {source} {from} {before} to {to} {after} {options}")
        },
    )
}

/// Values with the names that the views above speak of.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        any::<bool>().prop_map(|truth| truth.to_string()),
        (-5i64..5).prop_map(|number| number.to_string()),
        any::<i64>().prop_map(|number| number.to_string()),
        Just("1.5".to_owned()),
        Just("1e400".to_owned()),
        "\"[a-c/]{0,3}\"",
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5)
                .prop_map(|inner| format!("[{}]", inner.join(", "))),
            proptest::collection::vec(("[a-c012]|items", inner), 0..5).prop_map(|fields| {
                let fields: Vec<String> = fields
                    .into_iter()
                    .map(|(name, value)| format!("\"{name}\": {value}"))
                    .collect();
                format!("{{{}}}", fields.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn views_of_the_grammar_are_read(text in view()) {
        if let Err(error) = View::parse(&text) {
            prop_assert!(["view-too-many", "view-too-deep"].contains(&error.problem.code()), "{error}");
        }
    }

    #[test]
    fn promises_hold_for_views_of_the_grammar(
        text in view(), source in value(), others in proptest::collection::vec(value(), 2),
    ) {
        let (one, other) = (&others[0], &others[1]);
        check::view(format!("{text}\n-- given\nt/a = {source}\nt/1 = {one}\nt/b = {other}").as_bytes());
    }

    #[test]
    fn promises_hold_for_any_text(text in "\\PC{0,80}", source in value()) {
        check::view(format!("map {text}\n-- given\nt/a = {source}").as_bytes());
        check::view(format!("map a to b {text}\n-- given\nt/a = {source}").as_bytes());
    }
}
