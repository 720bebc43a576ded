//! JSON Schema: each keyword, a model over another implementation of JSON, and schemas of an enemy.
#![allow(clippy::unwrap_used)]

use crate::values;

use proptest::prelude::*;
use serde_json::{Value, json};
use tiderace_value::schema::{Schema, SchemaProblem, Unfit};
use tiderace_value::{DEPTH_MAX, Json, Limits};

fn check(schema: &str, value: &str) -> Result<(), Unfit> {
    let schema =
        Schema::parse(schema.as_bytes()).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let json = Json::parse(value.as_bytes(), DEPTH_MAX).unwrap();
    schema.check(json, Limits::DEFAULT.steps_max)
}

fn fits(schema: &str, value: &str) -> bool {
    match check(schema, value) {
        Ok(()) => true,
        Err(Unfit::Violation(_)) => false,
        Err(other) => panic!("{schema} {value}: {other}"),
    }
}

fn refused(schema: &str) -> (String, SchemaProblem) {
    let error = Schema::parse(schema.as_bytes()).unwrap_err();
    (error.at, error.problem)
}

#[test]
fn every_keyword_takes_what_fits_and_refuses_what_does_not() {
    for (schema, good, bad) in [
        ("true", &["1", "null", "{}"][..], &[][..]),
        ("false", &[], &["1", "null", "{}"]),
        ("{}", &["1", "[]"], &[]),
        (r#"{"type":"integer"}"#, &["1", "1.0", "-2e3", "0"], &["1.5", "1e-1", "\"1\"", "null"]),
        (r#"{"type":"number"}"#, &["1", "1.5"], &["true", "\"\""]),
        (r#"{"type":["string","null"]}"#, &["\"\"", "null"], &["0", "false", "[]"]),
        (r#"{"type":"object"}"#, &["{}"], &["[]"]),
        (r#"{"type":"array"}"#, &["[]"], &["{}"]),
        (r#"{"type":"boolean"}"#, &["true", "false"], &["0", "null"]),
        (
            r#"{"const":{"a":[1,"x"],"b":null}}"#,
            &[r#"{"b":null,"a":[1.0,"\u0078"]}"#],
            &["{}", "1"],
        ),
        (
            r#"{"enum":["buy","sell",7]}"#,
            &["\"buy\"", "\"se\\u006cl\"", "7.0"],
            &["\"hold\"", "null"],
        ),
        (r#"{"minimum":1.1}"#, &["1.1", "2", "\"0\""], &["1.0999999999999999999999", "-5"]),
        (r#"{"maximum":9007199254740993}"#, &["9007199254740993"], &["9007199254740994"]),
        (r#"{"exclusiveMinimum":0}"#, &["1e-400"], &["0", "-0.0"]),
        (r#"{"exclusiveMaximum":3}"#, &["2.99"], &["3", "3.0"]),
        (r#"{"multipleOf":0.01}"#, &["19.99", "0", "4", "\"x\""], &["0.001", "19.995"]),
        (r#"{"minLength":2,"maxLength":3}"#, &["\"é😀\"", "\"abc\"", "5"], &["\"é\"", "\"abcd\""]),
        (r#"{"pattern":"^[A-Z]{3}$"}"#, &["\"EUR\"", "1"], &["\"EURO\"", "\"eur\""]),
        (r#"{"items":{"type":"integer"}}"#, &["[]", "[1,2]", "{}"], &["[1,\"2\"]"]),
        (
            r#"{"prefixItems":[{"type":"string"}],"items":false}"#,
            &["[]", "[\"a\"]"],
            &["[1]", "[\"a\",1]"],
        ),
        (r#"{"prefixItems":[{"type":"string"},true]}"#, &["[\"a\",1,2]"], &["[1]"]),
        (r#"{"minItems":1,"maxItems":2}"#, &["[1]", "[1,2]", "\"\""], &["[]", "[1,2,3]"]),
        (
            r#"{"uniqueItems":true}"#,
            &["[1,\"1\",[1],{\"a\":1}]", "[]", "[{\"a\":1,\"b\":2},{\"a\":2,\"b\":1}]"],
            &["[1,2,1.0]", "[{\"a\":1,\"b\":2},{\"b\":2,\"a\":1}]"],
        ),
        (r#"{"uniqueItems":false}"#, &["[1,1]"], &[]),
        (r#"{"contains":{"type":"null"}}"#, &["[1,null]", "{}"], &["[]", "[1]"]),
        (
            r#"{"contains":{"type":"null"},"minContains":2,"maxContains":3}"#,
            &["[null,null]", "[null,1,null,null]"],
            &["[null]", "[null,null,null,null]"],
        ),
        (r#"{"contains":true,"minContains":0}"#, &["[]"], &[]),
        (
            r#"{"properties":{"a":{"type":"string"}}}"#,
            &["{}", "{\"a\":\"\"}", "{\"b\":1}", "[]"],
            &["{\"a\":1}"],
        ),
        (
            r#"{"properties":{"a":{"type":"string"}}}"#,
            &["{\"a\":1,\"a\":\"\"}"],
            &["{\"\\u0061\":1}"],
        ),
        (r#"{"required":["a","b"]}"#, &["{\"a\":1,\"b\":null}", "[]"], &["{\"a\":1}", "{}"]),
        (
            r#"{"properties":{"a":true},"additionalProperties":false}"#,
            &["{\"a\":1}", "{}"],
            &["{\"b\":1}"],
        ),
        (
            r#"{"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":{"type":"integer"}}"#,
            &["{\"x-a\":\"\",\"b\":1}"],
            &["{\"x-a\":1}", "{\"b\":\"\"}"],
        ),
        (r#"{"propertyNames":{"maxLength":2}}"#, &["{\"ab\":1}"], &["{\"abc\":1}"]),
        (
            r#"{"minProperties":1,"maxProperties":1}"#,
            &["{\"a\":1}", "{\"a\":1,\"a\":2}"],
            &["{}", "{\"a\":1,\"b\":2}"],
        ),
        (
            r#"{"dependentRequired":{"a":["b"]}}"#,
            &["{}", "{\"b\":1}", "{\"a\":1,\"b\":2}"],
            &["{\"a\":1}"],
        ),
        (
            r#"{"dependentSchemas":{"a":{"minProperties":2}}}"#,
            &["{}", "{\"a\":1,\"b\":2}"],
            &["{\"a\":1}"],
        ),
        (r#"{"allOf":[{"minimum":1},{"maximum":3}]}"#, &["2"], &["0", "4"]),
        (r#"{"anyOf":[{"type":"string"},{"minimum":3}]}"#, &["\"\"", "3"], &["2"]),
        (r#"{"oneOf":[{"multipleOf":2},{"multipleOf":3}]}"#, &["2", "9"], &["1", "6"]),
        (r#"{"not":{"type":"null"}}"#, &["1"], &["null"]),
        (
            r#"{"if":{"minimum":10},"then":{"multipleOf":10},"else":{"type":"integer"}}"#,
            &["20", "3"],
            &["15", "2.5"],
        ),
        (r#"{"then":false,"else":false}"#, &["1"], &[]),
        (
            r##"{"$ref":"#/$defs/a~1b%25","minimum":5,"$defs":{"a/b%":{"maximum":9}}}"##,
            &["7"],
            &["4", "10"],
        ),
        (
            r##"{"properties":{"next":{"$ref":"#"},"v":{"type":"integer"}},"required":["v"]}"##,
            &[r#"{"v":1,"next":{"v":2,"next":{"v":3}}}"#],
            &[r#"{"v":1,"next":{"v":2,"next":{}}}"#],
        ),
        (
            r#"{"title":"t","format":"date","x-note":1,"default":[],"$id":"https://example.com/s"}"#,
            &["1"],
            &[],
        ),
    ] {
        for value in good {
            assert!(fits(schema, value), "{schema} {value}: {:?}", check(schema, value));
        }
        for value in bad {
            assert!(!fits(schema, value), "{schema} {value}");
        }
    }
}

#[test]
fn a_violation_names_the_part_the_keyword_and_what_it_must_be() {
    let schema = r##"{"properties":{"legs":{"items":{"$ref":"#/$defs/leg"}}},"additionalProperties":false,
        "anyOf":[{"required":["legs"]},{"required":["a/b"]}],
        "$defs":{"leg":{"type":"object","required":["px"],"properties":{"px":{"minimum":0.5}}}}}"##;
    for (value, says) in [
        (
            r#"{"legs":[{"px":1},{"px":0}]}"#,
            r#"the value at "/legs/1/px" must be at least 0.5 (schema: "/$defs/leg/properties/px/minimum")"#,
        ),
        (
            r#"{"legs":[{}]}"#,
            r#"the value at "/legs/0" must have the field "px" (schema: "/$defs/leg/required")"#,
        ),
        (
            r#"{"legs":[[]]}"#,
            r#"the value at "/legs/0" must be of type object (schema: "/$defs/leg/type")"#,
        ),
        (
            r#"{"legs":[],"a/b":1}"#,
            r#"the value at "/a~1b" must not be there (schema: "/additionalProperties")"#,
        ),
        ("{}", r#"the value at "" must fit at least one of the schemas (schema: "/anyOf")"#),
    ] {
        assert_eq!(check(schema, value).unwrap_err().to_string(), says);
    }
    for (schema, value, says) in [
        (r#"{"const":"on"}"#, "1", "must be \"on\""),
        (r#"{"enum":[1,2]}"#, "3", "must be one of 2 values"),
        (r#"{"type":["integer","null"]}"#, "\"\"", "must be of type null or integer"),
        (r#"{"oneOf":[true,true]}"#, "1", "must fit exactly one of the schemas, and fits 2"),
        (r#"{"contains":{"type":"null"},"maxContains":1}"#, "[null,null]", "has 2"),
        (r#"{"dependentRequired":{"a":["b"]}}"#, "{\"a\":1}", "must have the field \"b\" too"),
        (
            r#"{"propertyNames":{"maxLength":1}}"#,
            "{\"ab\":1}",
            "must not have a field named \"ab\"",
        ),
        (r#"{"pattern":"^a"}"#, "\"b\"", "must match \"^a\""),
        (r#"{"uniqueItems":true}"#, "[1,1]", "must not have equal elements"),
    ] {
        let error = check(schema, value).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn what_cannot_be_checked_is_refused_when_compiled() {
    let unsupported = |name: &str| SchemaProblem::Unsupported(name.to_owned());
    assert_eq!(
        refused(r#"{"properties":{"a":{"requird":[]}}}"#),
        ("/properties/a".to_owned(), unsupported("requird"))
    );
    for name in
        ["unevaluatedProperties", "$dynamicRef", "$anchor", "dependencies", "additionalItems"]
    {
        assert_eq!(refused(&format!("{{\"{name}\":true}}")), (String::new(), unsupported(name)));
    }
    assert_eq!(refused(r#"{"not":{"$id":"x"}}"#), ("/not".to_owned(), unsupported("$id")));
    for (schema, at, says) in [
        ("{", "", "it is not JSON: byte 1"),
        ("1", "", "a schema is an object, true or false"),
        (r#"{"$defs":{"unused":{"items":1}}}"#, "/$defs/unused/items", "a schema is an object"),
        (r#"{"items":[{}]}"#, "", "prefixItems"),
        (r#"{"type":"float"}"#, "", "`type` must be null, boolean"),
        (r#"{"type":[]}"#, "", "`type` must be"),
        (r#"{"enum":[]}"#, "", "`enum` must be an array that is not empty"),
        (r#"{"allOf":{}}"#, "", "`allOf` must be an array that is not empty"),
        (r#"{"minimum":"1"}"#, "", "`minimum` must be a number"),
        (r#"{"exclusiveMinimum":true}"#, "", "`exclusiveMinimum` must be a number"),
        (r#"{"minLength":-1}"#, "", "`minLength` must be a whole number"),
        (r#"{"maxItems":1.5}"#, "", "`maxItems` must be a whole number"),
        (r#"{"multipleOf":0}"#, "", "`multipleOf` must be a number greater than 0"),
        (r#"{"multipleOf":-1}"#, "", "`multipleOf` must be a number greater than 0"),
        (r#"{"required":"a"}"#, "", "`required` must be an array of names"),
        (r#"{"required":[1]}"#, "", "`required` must be an array of names"),
        (r#"{"properties":[]}"#, "", "`properties` must be an object of schemas"),
        (r#"{"uniqueItems":1}"#, "", "`uniqueItems` must be true or false"),
        (
            r#"{"pattern":"(?=a)"}"#,
            "",
            "the regular expression \"(?=a)\" cannot be used: look-around",
        ),
        (r#"{"patternProperties":{"(":true}}"#, "", "the regular expression \"(\" cannot be used"),
        (r##"{"$ref":"#/$defs/x"}"##, "", "there is nothing at \"#/$defs/x\""),
        (r##"{"$ref":"#/title","title":"t"}"##, "", "there is nothing at \"#/title\""),
        (r##"{"$ref":"#name"}"##, "", "`$ref` must be `#`"),
        (r#"{"$ref":"https://example.com/s"}"#, "", "`$ref` must be `#`"),
        (r##"{"$ref":"#/%zz"}"##, "", "`$ref` must be `#`"),
        (r##"{"$ref":"#"}"##, "", "refers to itself"),
        (
            r##"{"items":{"anyOf":[true,{"not":{"$ref":"#/items"}}]}}"##,
            "/items",
            "refers to itself",
        ),
    ] {
        let (place, problem) = refused(schema);
        assert_eq!(place, at, "{schema}: {problem}");
        assert!(problem.to_string().contains(says), "{schema}: {problem}");
    }
}

#[test]
fn exponential_schemas_end_at_the_limit_of_steps() {
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let last = if keyword == "allOf" { "true" } else { "false" };
        let mut definitions = vec![format!("\"d40\":{last}")];
        for number in 0..40 {
            let next = number + 1;
            let pair = format!(r##"{{"$ref":"#/$defs/d{next}"}},{{"$ref":"#/$defs/d{next}"}}"##);
            definitions.push(format!(r#""d{number}":{{"{keyword}":[{pair}]}}"#));
        }
        let schema = format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{}}}}}"##, definitions.join(","));
        assert_eq!(check(&schema, "1"), Err(Unfit::TooMuchWork), "{keyword}");
    }
}

#[test]
fn deep_schemas_and_values_cost_no_stack() {
    let chain: Vec<String> = (0..2000)
        .map(|number| format!(r##""d{number}":{{"$ref":"#/$defs/d{}"}}"##, number + 1))
        .collect();
    let schema =
        format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{},"d2000":true}}}}"##, chain.join(","));
    assert_eq!(check(&schema, "1"), Err(Unfit::TooDeep));
    let schema = r##"{"anyOf":[{"type":"null"},{"items":{"$ref":"#"}}]}"##;
    let value = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
    assert_eq!(check(schema, &value), Err(Unfit::TooDeep));
    assert!(fits(r##"{"items":{"$ref":"#"}}"##, &value));
    let deep = format!("{}true{}", "{\"not\":".repeat(127), "}".repeat(127));
    assert!(!fits(&deep, "1"));
    let deeper = format!("{}true{}", "{\"not\":".repeat(129), "}".repeat(129));
    assert!(matches!(refused(&deeper).1, SchemaProblem::Json(_)));
}

#[test]
fn schemas_have_bounds_of_their_own() {
    let too_many = |schema: &str| match refused(schema).1 {
        SchemaProblem::TooMany { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(too_many(&format!("{{{}}}", " ".repeat(256 * 1024))), "bytes");
    assert_eq!(too_many(&format!("{{\"allOf\":[true{}]}}", ",true".repeat(4096))), "schemas");
    let patterns: Vec<String> = (0..65).map(|number| format!("\"a{number}\":true")).collect();
    let schema = format!("{{\"patternProperties\":{{{}}}}}", patterns.join(","));
    assert_eq!(too_many(&schema), "regular expressions");
    let patterns: Vec<String> =
        (0..64).map(|number| format!("\"[ab]*a[ab]{{8}}c{number}\":true")).collect();
    let (_, problem) = refused(&format!("{{\"patternProperties\":{{{}}}}}", patterns.join(",")));
    assert!(problem.to_string().contains("all together more than 163840"), "{problem}");
    // Each of many references has to look for its place in a long text.
    let references: Vec<String> =
        (0..2000).map(|number| format!(r##"{{"$ref":"#/enum/{number}"}}"##)).collect();
    let values = vec![format!("{{{}}}", " ".repeat(40)); 2000].join(",");
    let schema = format!(r#"{{"allOf":[{}],"enum":[{values}]}}"#, references.join(","));
    assert_eq!(refused(&schema).1, SchemaProblem::TooMuchWork);
}

#[test]
fn large_values_are_checked_without_squares() {
    let numbers: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let array = format!("[{}]", numbers.join(","));
    assert!(fits(r#"{"uniqueItems":true,"items":{"type":"integer"}}"#, &array));
    let fields: Vec<String> = (0..50_000).map(|number| format!("\"n{number}\":1")).collect();
    let object = format!("{{{}}}", fields.join(","));
    let schema = r#"{"additionalProperties":{"type":"integer"},"required":["n0","n49999"]}"#;
    assert!(fits(schema, &object));
    // A long number that a schema wants to see very often.
    let number = format!("{}.5", "1".repeat(500_000));
    let many = vec![r#"{"type":"integer"}"#; 1000].join(",");
    let schema = format!("{{\"anyOf\":[{many}]}}");
    assert_eq!(check(&schema, &number), Err(Unfit::TooMuchWork));
}

/// What the specification says, without care for time.
fn model(schema: &Value, value: &Value) -> bool {
    let Value::Object(rules) = schema else { return *schema == json!(true) };
    rules.iter().all(|(keyword, rule)| match (keyword.as_str(), value) {
        ("type", _) => rule.as_str().is_some_and(|name| is_type(name, value)),
        ("const", _) => same(rule, value),
        ("enum", _) => rule.as_array().unwrap().iter().any(|one| same(one, value)),
        ("minimum", Value::Number(number)) => number.as_f64() >= rule.as_f64(),
        ("exclusiveMaximum", Value::Number(number)) => number.as_f64() < rule.as_f64(),
        ("maxLength", Value::String(text)) => text.chars().count() as u64 <= rule.as_u64().unwrap(),
        ("items", Value::Array(elements)) => {
            let first = rules.get("prefixItems").map_or(0, |first| first.as_array().unwrap().len());
            elements.iter().skip(first).all(|element| model(rule, element))
        }
        ("prefixItems", Value::Array(elements)) => {
            rule.as_array().unwrap().iter().zip(elements).all(|(rule, value)| model(rule, value))
        }
        ("uniqueItems", Value::Array(elements)) => elements
            .iter()
            .enumerate()
            .all(|(index, one)| elements.iter().skip(index + 1).all(|other| !same(one, other))),
        ("contains", Value::Array(elements)) => elements.iter().any(|one| model(rule, one)),
        ("properties", Value::Object(fields)) => {
            fields.iter().all(|(name, field)| rule.get(name).is_none_or(|rule| model(rule, field)))
        }
        ("additionalProperties", Value::Object(fields)) => fields.iter().all(|(name, field)| {
            let known = rules.get("properties").is_some_and(|known| known.get(name).is_some());
            known || model(rule, field)
        }),
        ("required", Value::Object(fields)) => {
            rule.as_array().unwrap().iter().all(|name| fields.contains_key(name.as_str().unwrap()))
        }
        ("maxProperties", Value::Object(fields)) => fields.len() as u64 <= rule.as_u64().unwrap(),
        ("propertyNames", Value::Object(fields)) => {
            fields.keys().all(|name| model(rule, &Value::from(name.as_str())))
        }
        ("allOf", _) => rule.as_array().unwrap().iter().all(|rule| model(rule, value)),
        ("anyOf", _) => rule.as_array().unwrap().iter().any(|rule| model(rule, value)),
        ("oneOf", _) => {
            rule.as_array().unwrap().iter().filter(|rule| model(rule, value)).count() == 1
        }
        ("not", _) => !model(rule, value),
        ("if", _) => {
            let branch = if model(rule, value) { "then" } else { "else" };
            rules.get(branch).is_none_or(|rule| model(rule, value))
        }
        _ => true,
    })
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        _ => value.as_f64().is_some_and(|number| number.fract() == 0.0),
    }
}

/// Equality with numbers by value.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => {
            one == other || (one.is_f64() != other.is_f64() && one.as_f64() == other.as_f64())
        }
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, one)| other.get(name).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

/// Values with small numbers, on which floating point is exact.
fn value() -> impl Strategy<Value = Value> + Clone {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..6).prop_map(Value::from),
        (-8i32..16).prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        "[a-cé]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]", inner, 0..3)
                .prop_map(|rows| Value::Object(rows.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => any::<bool>().prop_map(Value::from),
        3 => prop_oneof![
            Just("null"), Just("boolean"), Just("string"), Just("array"),
            Just("object"), Just("number"), Just("integer")
        ].prop_map(|name| json!({"type": name})),
        1 => value().prop_map(|value| json!({"const": value})),
        1 => proptest::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
        1 => (-2i64..4).prop_map(|limit| json!({"minimum": limit})),
        1 => (-2i64..4).prop_map(|limit| json!({"exclusiveMaximum": limit})),
        1 => (0u64..3).prop_map(|limit| json!({"maxLength": limit})),
        1 => (0u64..3).prop_map(|limit| json!({"maxProperties": limit})),
        1 => Just(json!({"uniqueItems": true})),
        1 => proptest::collection::vec("[a-c]", 0..3).prop_map(|names| json!({"required": names})),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..4);
        let named = proptest::collection::btree_map("[a-c]", inner.clone(), 0..3);
        prop_oneof![
            inner.clone().prop_map(|one| json!({"items": one})),
            (list.clone(), inner.clone())
                .prop_map(|(first, one)| json!({"prefixItems": first, "items": one})),
            inner.clone().prop_map(|one| json!({"contains": one})),
            (named.clone(), inner.clone())
                .prop_map(|(named, one)| json!({"properties": named, "additionalProperties": one})),
            named.prop_map(|named| json!({"properties": named})),
            inner.clone().prop_map(|one| json!({"propertyNames": one})),
            list.clone().prop_map(|list| json!({"allOf": list})),
            list.clone().prop_map(|list| json!({"anyOf": list})),
            list.prop_map(|list| json!({"oneOf": list})),
            inner.clone().prop_map(|one| json!({"not": one})),
            (inner.clone(), inner.clone(), inner)
                .prop_map(|(one, two, three)| json!({"if": one, "then": two, "else": three})),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn schemas_judge_as_the_model_does(
        schema in schema(),
        values in proptest::collection::vec(value(), 6),
        pretty: bool,
    ) {
        for value in values {
            let text = values::written(&value, pretty);
            prop_assert_eq!(fits(&schema.to_string(), &text), model(&schema, &value), "{} {}", schema, text);
        }
    }

    #[test]
    fn equality_is_that_of_the_model(one in value(), other in value()) {
        let (one_text, other_text) = (one.to_string(), other.to_string());
        let json = |text| Json::parse(text, DEPTH_MAX).unwrap();
        let ours = tiderace_value::equal(json(one_text.as_bytes()), json(other_text.as_bytes()));
        prop_assert_eq!(ours, same(&one, &other));
        let pretty = values::written(&one, true);
        prop_assert!(tiderace_value::equal(json(one_text.as_bytes()), json(pretty.as_bytes())));
    }
}
