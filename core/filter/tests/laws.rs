//! Laws that hold for every selector, found by generated ones.
//!
//! Relies on the public interface alone.
#![allow(clippy::unwrap_used)]

use std::borrow::Cow;

use proptest::prelude::*;
use proptest::sample::select;
use tiderace_filter::{Properties, Selector, Value};

#[derive(Debug)]
struct Message([Option<Value<'static>>; 3]);

impl Properties for Message {
    fn property(&self, name: &str) -> Option<Value<'_>> {
        let index = ["a", "b", "x-c"].iter().position(|known| *known == name)?;
        self.0.get(index)?.clone()
    }
}

/// Few enough values that comparisons come out both ways.
fn value() -> impl Strategy<Value = Option<Value<'static>>> {
    prop_oneof![
        Just(None),
        select(&["", "0", "1", "2.0", "-1", "red", "true", "false", "1e9", "a%b", "nan", "☃"][..])
            .prop_map(|text| Some(Value::String(Cow::Borrowed(text)))),
        ".{0,12}".prop_map(|text| Some(Value::String(Cow::Owned(text)))),
        (-3_i64..3).prop_map(|integer| Some(Value::Integer(integer))),
        any::<i64>().prop_map(|integer| Some(Value::Integer(integer))),
        any::<f64>().prop_map(|float| Some(Value::Number(float))),
        any::<bool>().prop_map(|truth| Some(Value::Boolean(truth))),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    [value(), value(), value()].prop_map(Message)
}

fn operand() -> impl Strategy<Value = String> {
    let leaf =
        select(&["a", "b", "x-c", "missing", "0", "1", "-1", "2.5", "'1'", "'red'", "NULL"][..])
            .prop_map(str::to_owned);
    leaf.prop_recursive(3, 8, 2, |inner| {
        prop_oneof![
            (inner.clone(), select(&["+", "-", "*", "/", "%"][..]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left} {operator} {right})")),
            inner.prop_map(|inner| format!("- {inner}")),
        ]
    })
}

fn condition() -> impl Strategy<Value = String> {
    let relation = select(&["=", "<>", "!=", "<", "<=", ">", ">="][..]);
    let leaf = prop_oneof![
        select(&["TRUE", "FALSE", "NULL", "a", "b"][..]).prop_map(str::to_owned),
        (operand(), relation, operand())
            .prop_map(|(left, relation, right)| format!("{left} {relation} {right}")),
        (operand(), operand(), operand())
            .prop_map(|(value, low, high)| format!("{value} NOT BETWEEN {low} AND {high}")),
        operand().prop_map(|value| format!("{value} IN ('red', 1, '2.0', TRUE)")),
        operand().prop_map(|value| format!("{value} LIKE '%e_%' ESCAPE '!'")),
        operand().prop_map(|value| format!("{value} IS NOT NULL")),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        prop_oneof![
            (inner.clone(), select(&["AND", "OR", "=", "<>"][..]), inner.clone())
                .prop_map(|(left, operator, right)| format!("({left}) {operator} ({right})")),
            inner.prop_map(|inner| format!("NOT ({inner})")),
        ]
    })
}

fn token() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => select(&[
            "a", "x-c", "\"q\"", "'t'", "'%_'", "1", "-", "+", "*", "/", "%", "=", "<>", "<", ">=",
            "(", ")", ",", "AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL",
            "TRUE", "FALSE", "0x1F", "1.5e3", "9223372036854775808", "'", "\"", "ü", " ",
        ][..]).prop_map(str::to_owned),
        1 => ".{0,3}",
    ]
}

/// True, false or unknown, told apart from outside.
fn truth(text: &str, message: &Message) -> Option<bool> {
    let matches = |text: &str| {
        let selector = Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        selector.matches(message)
    };
    match (matches(text), matches(&format!("NOT ({text})"))) {
        (true, false) => Some(true),
        (false, true) => Some(false),
        (false, false) => None,
        (true, true) => panic!("{text} is both true and false"),
    }
}

proptest! {
    #[test]
    fn any_text_parses_or_is_refused(text in any::<String>(), message in message()) {
        match Selector::parse(&text) {
            Ok(selector) => { selector.matches(&message); }
            Err(error) => prop_assert!(text.is_char_boundary(error.at)),
        }
    }

    #[test]
    fn any_tokens_parse_or_are_refused(
        tokens in prop::collection::vec(token(), 0..24),
        separator in select(&["", " "][..]),
        message in message(),
    ) {
        let text = tokens.join(separator);
        match Selector::parse(&text) {
            Ok(selector) => { selector.matches(&message); }
            Err(error) => prop_assert!(text.is_char_boundary(error.at)),
        }
    }

    #[test]
    fn double_negation(condition in condition(), message in message()) {
        let twice = format!("NOT NOT ({condition})");
        prop_assert_eq!(truth(&condition, &message), truth(&twice, &message));
    }

    #[test]
    fn between_is_a_pair_of_comparisons(
        value in operand(), low in operand(), high in operand(), message in message(),
    ) {
        prop_assert_eq!(
            truth(&format!("{value} BETWEEN {low} AND {high}"), &message),
            truth(&format!("{low} <= {value} AND {value} <= {high}"), &message)
        );
        prop_assert_eq!(
            truth(&format!("{value} NOT BETWEEN {low} AND {high}"), &message),
            truth(&format!("{value} < {low} OR {value} > {high}"), &message)
        );
    }

    #[test]
    fn in_is_a_chain_of_equalities(value in operand(), message in message()) {
        prop_assert_eq!(
            truth(&format!("{value} IN ('red', 1, '2.0', TRUE)"), &message),
            truth(
                &format!("{value} = 'red' OR {value} = 1 OR {value} = '2.0' OR {value} = TRUE"),
                &message
            )
        );
    }

    #[test]
    fn de_morgan(left in condition(), right in condition(), message in message()) {
        prop_assert_eq!(
            truth(&format!("NOT (({left}) AND ({right}))"), &message),
            truth(&format!("NOT ({left}) OR NOT ({right})"), &message)
        );
    }

    #[test]
    fn relations_come_in_opposites(left in operand(), right in operand(), message in message()) {
        prop_assert_eq!(
            truth(&format!("{left} <> {right}"), &message),
            truth(&format!("NOT ({left} = {right})"), &message)
        );
        prop_assert_eq!(
            truth(&format!("{left} < {right}"), &message),
            truth(&format!("{right} > {left}"), &message)
        );
    }
}
