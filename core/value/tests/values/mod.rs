//! Values for property tests.
#![allow(dead_code, clippy::unwrap_used)]

use proptest::prelude::*;
use serde_json::Value;

/// Names of which few exist, so that two values share some.
pub(crate) fn small_name() -> impl Strategy<Value = String> + Clone {
    prop_oneof![6 => "[a-c]", 1 => Just("~".to_owned()), 1 => Just("/\"".to_owned()), 1 => "[0-2]"]
}

/// Values of objects with such names.
pub(crate) fn value(
    name: impl Strategy<Value = String> + Clone + 'static,
) -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..10).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0 + 0.25)),
        "[a-c\\\\\"é😀\n]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..4)
                .prop_map(|rows| Value::Object(rows.into_iter().collect())),
        ]
    })
}

/// The text of a value, with white space or without.
pub(crate) fn written(value: &Value, pretty: bool) -> String {
    if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
}
