//! What values mean to a view where JSON leaves it open, and what counts as a problem: numbers of any
//! size, names that come twice, paths that are none.
#![allow(clippy::unwrap_used)]

use tiderace_topics::Path;
use tiderace_views::{Form, Limits, Source, View};

/// The outputs of a view for one source, as `path = value`.
fn outputs(view: &str, value: &str) -> Vec<String> {
    let view = View::parse(view).unwrap();
    let path = Path::parse("a").unwrap();
    let source = Source { path: &path, value: Some(value.as_bytes()), form: Form::Any };
    let made = view.outputs(source, &|_| None, Limits::default());
    assert_eq!(made.stopped, None);
    let shown = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    made.outputs.iter().map(|(path, value)| format!("{path} = {}", shown(value))).collect()
}

#[test]
fn numbers_in_paths_and_texts_are_not_rounded() {
    for (number, text) in [
        ("18446744073709551615", "18446744073709551615"),
        ("-18446744073709551614", "-18446744073709551614"),
        ("9007199254740993.0", "9007199254740993"),
        ("0.12345678901234567890123", "0.12345678901234567890123"),
        ("1e400", "1e400"),
        ("5.0", "5"),
        ("1e3", "1000"),
        ("-0", "0"),
        ("1.50", "1.5"),
    ] {
        let value = format!("{{\"n\":{number}}}");
        let made = outputs("map a to b/<scalar(/n)> as \"#\" + /n", &value);
        assert_eq!(made, [format!("b/{text} = \"#{text}\"")], "{number}");
        let made = outputs("map a to b as [text(/n), join([/n], \"\"), {[/n]: 1}]", &value);
        assert_eq!(made, [format!("b = [\"{text}\",\"{text}\",{{\"{text}\":1}}]")], "{number}");
        let expanded = outputs("map a to b/<expand(value, /n)> as 1", &format!("[{value}]"));
        assert_eq!(expanded, [format!("b/{text} = 1")], "{number}");
    }
}

#[test]
fn whole_numbers_are_exact_however_they_are_written() {
    for (number, whole) in [
        ("9007199254740993.0", Some("9007199254740993")),
        ("9223372036854775807.00", Some("9223372036854775807")),
        ("1e18", Some("1000000000000000000")),
        ("-9.223372036854775808e18", Some("-9223372036854775808")),
        ("9223372036854775808", None),
        ("41.5", None),
    ] {
        let made = outputs("map a to b type int64", number);
        let expected: Vec<String> = whole.iter().map(|whole| format!("b = {whole}")).collect();
        assert_eq!(made, expected, "{number}");
    }
    assert_eq!(outputs("map a to b as value + 1", "9007199254740993.0"), ["b = 9007199254740994"]);
    assert_eq!(outputs("map a to b as value * 1.5 type int64", "2e16"), ["b = 30000000000000000"]);
    assert_eq!(outputs("map a to b as value * 1.5 type int64", "9e18"), [""; 0]);
}

#[test]
fn literals_that_are_not_calculated_with_stay_as_they_were_written() {
    for number in ["18446744073709551615", "-0.12345678901234567890123"] {
        assert_eq!(outputs(&format!("map a to b as {number}"), "1"), [format!("b = {number}")]);
        let view = View::parse(&format!("map a to b as {number}")).unwrap();
        assert_eq!(view.to_string(), format!("map a to b as {number}"));
    }
    assert_eq!(
        outputs("map a to b where value = 18446744073709551615", "18446744073709551615").len(),
        1
    );
}

#[test]
fn zero_has_no_sign_in_texts() {
    assert_eq!(
        outputs("map a to b as [fixed(-0.001, 2), fixed(-0.4, 0), fixed(-0.5, 1)]", "1"),
        ["b = [\"0.00\",\"0\",\"-0.5\"]"]
    );
}

#[test]
fn of_equal_names_the_last_counts_everywhere() {
    let value = r#"{"o":{"x":{"n":"first","p":1},"\u0078":{"n":"last","q":2}}}"#;
    assert_eq!(outputs("map a to b/<expand(/o, /n)> as 1", value), ["b/last = 1"]);
    assert_eq!(outputs("map a to b/<expand(/o)> remove /n merge", value), [r#"b/x = {"q":2}"#]);
    assert_eq!(outputs("map a to b as [length(/o), length({k: /o, l: /o})]", value), ["b = [1,2]"]);
    assert_eq!(outputs("map a to b set /o/y = 1 remove /o/x", value), [r#"b = {"o":{"y":1}}"#]);
    let merge = |values: [&str; 2]| {
        let values = values.iter().map(|value| value.as_bytes());
        String::from_utf8(tiderace_views::merge(values, Limits::default()).unwrap().unwrap())
            .unwrap()
    };
    assert_eq!(merge(["{}", r#"{"x":{"p":1},"x":{"q":2}}"#]), r#"{"x":{"q":2}}"#);
}

#[test]
fn an_insert_without_a_valid_path_leaves_no_output_out() {
    let view = View::parse("map a to b insert c/<scalar(/x)> at /y or 1").unwrap();
    let path = Path::parse("a").unwrap();
    let source = Source { path: &path, value: Some(br#"{"x":""}"#), form: Form::Any };
    let made = view.outputs(source, &|_| None, Limits::default());
    assert_eq!((made.outputs.len(), made.invalid_paths), (1, 0));
}
