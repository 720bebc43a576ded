//! What values mean to a view where JSON leaves it open: names that come twice.
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
