//! Every kind of mistake: its code, its place and what the sentence says.
#![allow(clippy::unwrap_used)]

use tiderace_views::View;

/// Text, code, the text that the place is in front of, a part of the sentence.
const ROWS: &[(&str, &str, &str, &str)] = &[
    ("", "view-ends-early", "", "expected `map`"),
    ("-- only words", "view-ends-early", "", "expected `map`"),
    ("Map a to b", "view-unexpected", "Map a", "found `Map`"),
    ("map", "view-ends-early", "", "a selector"),
    ("map a", "view-ends-early", "", "`to` and a path"),
    ("map a/**/b to c", "view-bad-selector", "a/**/b", "`**`"),
    ("map [a, b to c", "view-bad-selector", "[a, b", "set"),
    ("map ?a/( to c", "view-bad-selector", "?a/(", "unclosed group"),
    ("map a from", "view-ends-early", "", "the name of an upstream"),
    ("map a from london", "view-ends-early", "", "`to` and a path"),
    ("map a into b", "view-unexpected", "into", "found `into`"),
    ("map a to", "view-ends-early", "", "a path"),
    ("map a to b//c", "view-bad-path", "b//c", "level 2"),
    ("map a to b/*", "view-bad-path", "b/*", "wildcard"),
    ("map a to <file(1)>", "view-unexpected", "file", "`path(…)`, `scalar(…)` or `expand(…)`"),
    ("map a to <path(1)", "view-ends-early", "", "`>`"),
    ("map a to <path(x)>", "view-unexpected", "x)", "number of a level"),
    ("map a to <path(99)>", "view-out-of-range", "99", "between"),
    ("map a to <path(1, 0)>", "view-out-of-range", "1, 0", "between"),
    ("map a to <scalar(/a>", "view-ends-early", "", "a value"),
    ("map a to <expand(1)>", "view-unexpected", "1)>", "pointer to what is expanded"),
    ("map a to b insert c/<expand(/x)> at /y", "view-unexpected", "expand", "only `to` can expand"),
    ("map a to b where", "view-ends-early", "", "a value"),
    ("map a to b where x", "view-unexpected", "x", "a value: a pointer"),
    ("map a to b where /x = = 1", "view-unexpected", "= 1", "a value"),
    ("map a to b where /x < 1 < 2", "view-unexpected", "< 2", "comparisons do not chain"),
    ("map a to b where /x == 1", "view-unexpected", "= 1", "a value"),
    ("map a to b where /x /y", "view-unexpected", "/y", "blanks around"),
    ("map a to b where /x matches /y", "view-unexpected", "/y", "double quotes"),
    ("map a to b where /x matches \"a{2\"", "view-bad-regex", "{2\"", "unclosed counted"),
    ("map a to b where exists 1", "view-unexpected", "1", "pointer"),
    ("map a to b where (/x", "view-ends-early", "", "`)`"),
    ("map a to b where lower(/x, /y)", "view-bad-arguments", "lower", "`lower` takes one text"),
    ("map a to b where lower /x", "view-unexpected", "/x", "`(`"),
    ("map a to b where if /x then 1", "view-ends-early", "", "`else`"),
    ("map a to b where 1e999 = 1", "view-bad-number", "1e999", "not a number"),
    ("map a to b where 012 = 1", "view-bad-number", "012", "not a number"),
    ("map a to b set /x", "view-ends-early", "", "`=`"),
    ("map a to b set x = 1", "view-unexpected", "x = 1", "a pointer"),
    ("map a to b set /x/ = 1", "view-unexpected", "/ = 1", "`/\"\"`"),
    ("map a to b set /x = \"abc", "view-unterminated-text", "\"abc", "closing"),
    ("map a to b set /x = \"a\\q\"", "view-bad-json", "q\"", "escape"),
    ("map a to b set /x = 'abc'", "view-unexpected", "'abc'", "double quotes"),
    ("map a to b set /x = {a: 1, a: 2}", "view-given-twice", "a: 2", "`a` is given twice"),
    ("map a to b set /x = [1 2]", "view-unexpected", "2]", "`,`"),
    ("map a to b remove", "view-ends-early", "", "a pointer"),
    ("map a to b insert c /x", "view-ends-early", "", "`at`"),
    ("map a to b set /a~2 = 1", "view-unexpected", "a~2", "`~0` stands for `~`"),
    ("map a to b patch {}", "view-unexpected", "{}", "JSON Patch"),
    ("map a to b patch [{]", "view-bad-json", "]", "not valid JSON"),
    ("map a to b patch [{\"op\": \"x\"}]", "view-bad-patch", "[{", "operation 1"),
    ("map a to b throttle 0 per 1s", "view-out-of-range", "0 per", "between 1 and"),
    ("map a to b throttle 5", "view-ends-early", "", "`per`"),
    ("map a to b throttle 5 per 1y", "view-unexpected", "y", "unit of time"),
    ("map a to b delay 5", "view-ends-early", "", "unit of time"),
    ("map a to b delay 500 ms", "view-unexpected", "ms", "right behind the number"),
    ("map a to b delay 99999999999999999999s", "view-out-of-range", "9999", "between 1ms and 7d"),
    ("map a to b throttle 99999999999999999999 per 1s", "view-out-of-range", "9999", "between 1"),
    ("map a to <path(99999999999999999999)>", "view-out-of-range", "9999", "between"),
    (
        "map a to b patch [{\"op\":\"remove\",\"path\":\"/a~2\"}]",
        "view-bad-patch",
        "[{",
        "`~1` for `/`",
    ),
    ("map a to b delay 9d", "view-out-of-range", "9d", "between 1ms and 7d"),
    ("map a to b type text", "view-unexpected", "text", "`string`"),
    ("map a to b merge merge", "view-given-twice", "merge", "`merge` is given twice"),
    ("map a to b merge type string", "view-not-together", "type string", "`merge` and `string`"),
    ("map a to b with", "view-ends-early", "", "name of a property"),
    ("map a to b with retain", "view-ends-early", "", "`=`"),
    ("map a to b with a = 1, a = 2", "view-given-twice", "a = 2", "`a` is given twice"),
    ("map a to b merge where /x", "view-unexpected", "where", "the next clause"),
    ("map a to b nonsense", "view-unexpected", "nonsense", "the next clause"),
];

#[test]
fn mistakes_are_pointed_at() {
    for (text, code, place, part) in ROWS {
        let error = View::parse(text).unwrap_err();
        let shown = error.to_string();
        assert_eq!(error.problem.code(), *code, "{shown}");
        assert!(text[error.at..].starts_with(place), "{shown}");
        assert!(place.is_empty() == text[error.at..].is_empty(), "{shown}");
        assert!(shown.contains(part), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines.len(), 3, "{shown}");
        let caret = lines[2].chars().position(|letter| letter == '^').unwrap();
        assert_eq!(caret, error.column + 1, "{shown}");
    }
}

#[test]
fn what_a_mistake_repeats_is_short_and_plain() {
    let long = "x".repeat(5000);
    for text in [
        format!("map a to b as {{{long}: 1, {long}: 2}}"),
        r#"map a to b as {"\n\u0007": 1, "\n\u0007": 2}"#.to_owned(),
        format!("map a to b with {long} = 1, {long} = 2"),
        format!("map a to b as {long}(1)"),
        format!("map ?{long}( to b"),
        format!("map [{long}/**/b,{long}] to b"),
        format!("map a to b where /x matches \"({long}\""),
        format!("map a to {long}"),
        format!("map a to b patch [{{\"op\":\"{long}\"}}]"),
        "map \"a\\u0007\\n\" to b".to_owned(),
        "map a to \"b\\u0007\\n\"".to_owned(),
        "map \"?a\\n(\" to b".to_owned(),
        "map a to b where /x matches \"a\\n(\"".to_owned(),
    ] {
        let shown = View::parse(&text).unwrap_err().to_string();
        assert_eq!(shown.lines().count(), 3, "{shown}");
        assert!(shown.len() < 1024, "{shown}");
        assert!(!shown.replace('\n', "").contains(char::is_control), "{shown:?}");
    }
}

#[test]
fn every_code_has_a_mistake() {
    let codes: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.1).collect();
    assert_eq!(codes.len(), 13, "{codes:?}; what is too long, many or deep is in hostile.rs");
}

#[test]
fn the_place_is_given_by_line_and_column() {
    let error = View::parse("map a\n  to ü/b -- ok\n  set /x = ?\n  merge").unwrap_err();
    assert_eq!((error.line, error.column), (3, 12));
    assert_eq!(
        error.to_string(),
        "line 3, column 12: expected a value: a pointer such as `/price`, a number, a text in double \
         quotes, …, found `?`\n    set /x = ?\n             ^"
    );
}

#[test]
fn the_page_shows_what_an_error_looks_like() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/views.md");
    let page = std::fs::read_to_string(page).unwrap();
    let error = View::parse("map a\n  to b\n    set /a = /b /c").unwrap_err().to_string();
    assert!(page.contains(&format!("```text\n{error}\n```")), "the page should show\n{error}");
}
