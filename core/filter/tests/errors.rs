//! What is refused: selector, code, byte offset and the sentence for a person.
//!
//! Relies on the public interface alone.
#![allow(clippy::unwrap_used)]

use tiderace_filter::{CHOICES_MAX, DEPTH_MAX, NODES_MAX, Selector, TEXT_BYTES_MAX};

fn refused(text: &str) -> tiderace_filter::SelectorError {
    match Selector::parse(text) {
        Ok(selector) => panic!("{selector:?} was accepted"),
        Err(error) => error,
    }
}

#[test]
fn malformed_selectors() {
    for (text, code, at) in [
        ("", "selector-empty", 0),
        (" \t\n", "selector-empty", 0),
        ("a =", "selector-unexpected-end", 3),
        ("a = ", "selector-unexpected-end", 4),
        ("(a = 1", "selector-unexpected-end", 6),
        ("a = 1)", "selector-unexpected-token", 5),
        ("()", "selector-unexpected-token", 1),
        ("= 1", "selector-unexpected-token", 0),
        ("a b", "selector-unexpected-token", 2),
        ("a = 1 b", "selector-unexpected-token", 6),
        ("a == 1", "selector-unexpected-token", 3),
        ("a = b = c", "selector-unexpected-token", 6),
        ("a < b < c", "selector-unexpected-token", 6),
        ("x AND a = b = c", "selector-unexpected-token", 12),
        ("NOT a = b = c", "selector-unexpected-token", 10),
        ("a IS NULL IS NULL", "selector-unexpected-token", 10),
        ("a = NOT b", "selector-unexpected-token", 4),
        ("AND a", "selector-unexpected-token", 0),
        ("a AND", "selector-unexpected-end", 5),
        ("a OR OR b", "selector-unexpected-token", 5),
        ("a NOT = 1", "selector-unexpected-token", 6),
        ("a IS 1", "selector-unexpected-token", 5),
        ("a IS NOT", "selector-unexpected-end", 8),
        ("a BETWEEN 1", "selector-unexpected-end", 11),
        ("a BETWEEN 1 OR 2", "selector-unexpected-token", 12),
        ("a IN 1", "selector-unexpected-token", 5),
        ("a IN ()", "selector-unexpected-token", 6),
        ("a IN (1,)", "selector-unexpected-token", 8),
        ("a IN (1", "selector-unexpected-end", 7),
        ("a IN (b)", "selector-unexpected-token", 6),
        ("a IN (NULL)", "selector-unexpected-token", 6),
        ("a IN (-'b')", "selector-unexpected-token", 7),
        ("a LIKE b", "selector-unexpected-token", 7),
        ("a LIKE 5", "selector-unexpected-token", 7),
        ("a LIKE 'b' ESCAPE", "selector-unexpected-end", 17),
        ("a LIKE 'b' ESCAPE ''", "selector-bad-escape", 18),
        ("a LIKE 'b' ESCAPE '!!'", "selector-bad-escape", 18),
        ("a LIKE 'b!' ESCAPE '!'", "selector-bad-escape", 7),
        ("a = 'b", "selector-unterminated-string", 4),
        ("a = 'b''", "selector-unterminated-string", 4),
        ("\"a = 1", "selector-unterminated-name", 0),
        ("\"\" = 1", "selector-empty-name", 0),
        ("a = #", "selector-unexpected-character", 4),
        ("a ! b", "selector-unexpected-character", 2),
        ("a = ü?", "selector-unexpected-character", 6),
        ("a = 'ü' ;", "selector-unexpected-character", 9),
        ("a = .", "selector-unexpected-character", 4),
        ("a = 1.2.3", "selector-bad-number", 4),
        ("a = 12abc", "selector-bad-number", 4),
        ("a = 0x", "selector-bad-number", 4),
        ("a = 0xfg", "selector-bad-number", 4),
        ("a = 1e", "selector-bad-number", 4),
        ("a = 9223372036854775808", "selector-number-out-of-range", 4),
        ("a = -9223372036854775809", "selector-number-out-of-range", 4),
        ("a IN (-9223372036854775809)", "selector-number-out-of-range", 6),
        ("a = 99999999999999999999", "selector-number-out-of-range", 4),
        ("a = 1e999", "selector-number-out-of-range", 4),
        ("5", "selector-not-a-condition", 0),
        ("'a'", "selector-not-a-condition", 0),
        ("a + 1", "selector-not-a-condition", 0),
        ("a = 1 AND b + 1", "selector-not-a-condition", 10),
        ("NOT -a", "selector-not-a-condition", 4),
        ("(a = 1) + 1 = 2", "selector-not-a-value", 0),
        ("1 + TRUE = 2", "selector-not-a-value", 4),
        ("a < TRUE", "selector-not-a-value", 4),
        ("(a = 1) < 2", "selector-not-a-value", 0),
        ("(a = 1) IS NULL", "selector-not-a-value", 0),
        ("a BETWEEN FALSE AND 2", "selector-not-a-value", 10),
        ("-(a = 1) = 2", "selector-not-a-value", 1),
    ] {
        let error = refused(text);
        assert_eq!((error.code(), error.at), (code, at), "{text}: {error}");
    }
}

#[test]
fn sentences_say_what_where_and_what_was_expected() {
    for (text, sentence) in [
        (
            "a = ) b",
            "at byte 4 of the selector: unexpected `)`: expected a header name, a number, 'text', \
             TRUE, FALSE, NULL or `(`",
        ),
        (
            "a = 1 b",
            "at byte 6 of the selector: unexpected `b`: expected AND, OR or the end of the selector",
        ),
        ("(a = 1", "at byte 6 of the selector: unexpected end: expected AND, OR or `)`"),
        (
            "a ? b",
            "at byte 2 of the selector: unexpected character '?': expected a name, a number, \
             'text' or an operator",
        ),
        (
            "a LIKE 'b' ESCAPE 'cd'",
            "at byte 18 of the selector: bad LIKE escape: expected one character that does not \
             end the pattern",
        ),
        (
            "a = 'b",
            "at byte 4 of the selector: unterminated string: expected a closing single quote",
        ),
    ] {
        assert_eq!(refused(text).to_string(), sentence);
    }
}

#[test]
fn found_text_cannot_break_a_line() {
    let error = refused("a 'b\r\nreceipt-id:1\n\nthe rest is longer than what is shown'");
    assert_eq!(error.code(), "selector-unexpected-token");
    assert!(!error.to_string().contains(['\r', '\n']));
    assert!(error.to_string().len() < 200);
}

#[test]
fn text_length() {
    let padded = |bytes: usize| format!("{:bytes$}", "a");
    assert!(Selector::parse(&padded(TEXT_BYTES_MAX)).is_ok());
    let error = refused(&padded(TEXT_BYTES_MAX + 1));
    assert_eq!((error.code(), error.at), ("selector-too-long", TEXT_BYTES_MAX));
    // The limit falls into the middle of a character.
    let error = refused(&format!("a{}", "ü".repeat(TEXT_BYTES_MAX)));
    assert_eq!((error.code(), error.at), ("selector-too-long", TEXT_BYTES_MAX - 1));
}

#[test]
fn depth() {
    for (open, close) in [("(", ")"), ("NOT ", "")] {
        let nested = |levels: usize| open.repeat(levels) + "a = 1" + &close.repeat(levels);
        assert!(Selector::parse(&nested(DEPTH_MAX)).is_ok());
        let error = refused(&nested(DEPTH_MAX + 1));
        assert_eq!((error.code(), error.at), ("selector-too-deep", DEPTH_MAX * open.len()));
    }
    let signs = |levels: usize| "0 < ".to_owned() + &"- ".repeat(levels) + "5";
    assert!(Selector::parse(&signs(DEPTH_MAX)).is_ok());
    assert_eq!(refused(&signs(DEPTH_MAX + 1)).code(), "selector-too-deep");
    assert_eq!(refused(&"(".repeat(TEXT_BYTES_MAX)).code(), "selector-too-deep");
}

#[test]
fn nodes() {
    let chain = |operands: usize| vec!["a"; operands].join(" OR ");
    // `operands` names and one operator less between them.
    assert!(Selector::parse(&chain(NODES_MAX / 2)).is_ok());
    let error = refused(&chain(NODES_MAX / 2 + 1));
    assert_eq!(error.code(), "selector-too-many-nodes");
}

#[test]
fn choices() {
    let list = |choices: usize| format!("a IN ({})", vec!["1"; choices].join(","));
    assert!(Selector::parse(&list(CHOICES_MAX)).is_ok());
    let error = refused(&list(CHOICES_MAX + 1));
    assert_eq!(error.code(), "selector-too-many-choices");
    assert_eq!(error.at, "a IN (".len() + 2 * CHOICES_MAX);
}
