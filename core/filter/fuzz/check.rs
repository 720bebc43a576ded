//! What must hold for any bytes: the first line is a selector, the other lines are `name:value`
//! headers. Shared by the fuzz target and by the test that replays the corpus.

use std::borrow::Cow;

use tiderace_filter::{Properties, Selector, Value};

struct Headers<'h>(Vec<(&'h str, &'h str)>);

impl Properties for Headers<'_> {
    fn property(&self, name: &str) -> Option<Value<'_>> {
        let (_, value) = self.0.iter().find(|(header, _)| *header == name)?;
        Some(Value::String(Cow::Borrowed(value)))
    }
}

/// Panics when a promise of the crate is broken.
pub(crate) fn selector(data: &[u8]) {
    let Ok(data) = std::str::from_utf8(data) else {
        return;
    };
    let (text, headers) = data.split_once('\n').unwrap_or((data, ""));
    let headers = Headers(headers.lines().filter_map(|line| line.split_once(':')).collect());
    let selector = match Selector::parse(text) {
        Ok(selector) => selector,
        Err(error) => {
            assert!(text.is_char_boundary(error.at), "{error}");
            assert!(error.code().starts_with("selector-"));
            assert!(!error.to_string().contains(char::is_control), "{error}");
            return;
        }
    };
    assert_eq!(selector.text(), text);

    // Wrapping may pass a limit, which is the one reason to refuse it.
    let matches = |text: String| match Selector::parse(&text) {
        Ok(selector) => Some(selector.matches(&headers)),
        Err(error) => {
            let limits = ["selector-too-long", "selector-too-deep", "selector-too-many-nodes"];
            assert!(limits.contains(&error.code()), "{text}: {error}");
            None
        }
    };
    let selected = selector.matches(&headers);
    let opposite = matches(format!("NOT ({text})"));
    assert!(!(selected && opposite == Some(true)), "{text} is both true and false");
    for same in [
        format!("NOT NOT ({text})"),
        format!("({text}) AND TRUE"),
        format!("FALSE OR ({text})"),
        format!("({text}) = TRUE"),
    ] {
        assert!(matches(same.clone()).is_none_or(|same| same == selected), "{same}");
    }
}
