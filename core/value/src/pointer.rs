//! JSON Pointers (RFC 6901): places in a value.
//!
//! Relies on looking into values. Invariant: a [`Pointer`] is valid, short and shallow, so following it
//! takes bounded time in proportion to the value.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::limits::{POINTER_BYTES_MAX, POINTER_TOKENS_MAX};
use crate::{Json, JsonKind};

/// A place in a value, such as `/quotes/0/bid`; the empty pointer is the value itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pointer {
    text: Box<str>,
}

/// Why a text is no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointerError {
    /// It does not begin with a slash.
    #[error("a JSON pointer is empty or begins with `/`")]
    Start,
    /// A tilde that is not an escape.
    #[error("`~` at byte {0} of the JSON pointer: write `~0` for `~` and `~1` for `/`")]
    Tilde(usize),
    /// More than [`POINTER_BYTES_MAX`] bytes.
    #[error("a JSON pointer has at most {POINTER_BYTES_MAX} bytes")]
    Bytes,
    /// More than [`POINTER_TOKENS_MAX`] tokens.
    #[error("a JSON pointer has at most {POINTER_TOKENS_MAX} tokens")]
    Tokens,
}

impl Pointer {
    /// The value itself.
    pub fn root() -> Pointer {
        Pointer { text: "".into() }
    }

    /// Takes a pointer as RFC 6901 writes it in strings: `/a/0/b~1c`.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn parse(text: &str) -> Result<Pointer, PointerError> {
        if text.len() > POINTER_BYTES_MAX {
            return Err(PointerError::Bytes);
        }
        if !text.is_empty() && !text.starts_with('/') {
            return Err(PointerError::Start);
        }
        if text.bytes().filter(|byte| *byte == b'/').count() > POINTER_TOKENS_MAX {
            return Err(PointerError::Tokens);
        }
        match bad_tilde(text) {
            Some(at) => Err(PointerError::Tilde(at)),
            None => Ok(Pointer { text: text.into() }),
        }
    }

    /// The pointer as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is the value itself.
    pub fn is_root(&self) -> bool {
        self.text.is_empty()
    }

    /// Its tokens, escapes resolved.
    pub fn tokens(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.text.split('/').skip(1).map(unescape)
    }

    /// Whether the other place lies in this one, or is it.
    pub fn contains(&self, other: &Pointer) -> bool {
        other
            .text
            .strip_prefix(&*self.text)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The value at this place, if there is one.
    pub fn resolve<'a>(&self, json: Json<'a>) -> Option<Json<'a>> {
        self.tokens().try_fold(json, |json, token| part(json, &token))
    }

    /// The text of its first tokens.
    pub(crate) fn prefix(&self, tokens: usize) -> &str {
        let end = self.text.match_indices('/').nth(tokens).map_or(self.text.len(), |(at, _)| at);
        self.text.get(..end).unwrap_or_default()
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl FromStr for Pointer {
    type Err = PointerError;

    fn from_str(text: &str) -> Result<Pointer, PointerError> {
        Pointer::parse(text)
    }
}

/// The part of a value that a token names: a field, or an element.
pub fn part<'a>(json: Json<'a>, token: &str) -> Option<Json<'a>> {
    match json.kind() {
        JsonKind::Object => json.field(token),
        JsonKind::Array => json.elements().nth(element_index(token)?),
        _ => None,
    }
}

/// The number of an element: digits without leading zeros.
pub fn element_index(token: &str) -> Option<usize> {
    let digits = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (token == "0" || !token.starts_with('0'));
    plain.then(|| token.parse().ok()).flatten()
}

/// Appends a token to the text of a pointer.
pub(crate) fn append_token(text: &mut String, token: &str) {
    text.push('/');
    for letter in token.chars() {
        match letter {
            '~' => text.push_str("~0"),
            '/' => text.push_str("~1"),
            other => text.push(other),
        }
    }
}

/// A token as it is meant, escapes resolved.
///
/// # Errors
/// If it has a tilde that is no escape.
pub fn unescaped(token: &str) -> Result<Cow<'_, str>, PointerError> {
    match bad_tilde(token) {
        Some(at) => Err(PointerError::Tilde(at)),
        None => Ok(unescape(token)),
    }
}

/// Where a tilde stands that is no escape.
fn bad_tilde(text: &str) -> Option<usize> {
    let is_bad = |at: &usize| !matches!(text.as_bytes().get(at + 1), Some(b'0' | b'1'));
    text.match_indices('~').map(|(at, _)| at).find(is_bad)
}

fn unescape(token: &str) -> Cow<'_, str> {
    if token.contains('~') {
        Cow::Owned(token.replace("~1", "/").replace("~0", "~"))
    } else {
        Cow::Borrowed(token)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The document and the table of RFC 6901, section 5.
    #[test]
    fn the_examples_of_the_specification_hold() {
        let text = r#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}"#;
        let json = Json::parse(text.as_bytes(), 4).unwrap();
        for (pointer, value) in [
            ("", text),
            ("/foo", r#"["bar","baz"]"#),
            ("/foo/0", "\"bar\""),
            ("/", "0"),
            ("/a~1b", "1"),
            ("/c%d", "2"),
            ("/e^f", "3"),
            ("/g|h", "4"),
            ("/i\\j", "5"),
            ("/k\"l", "6"),
            ("/ ", "7"),
            ("/m~0n", "8"),
        ] {
            let pointer = Pointer::parse(pointer).unwrap();
            assert_eq!(pointer.resolve(json).unwrap().text(), value, "{pointer}");
        }
        for pointer in ["/foo/2", "/foo/-", "/foo/01", "/foo/+1", "/foo/", "/foo/0/0", "/x", "//"] {
            assert_eq!(Pointer::parse(pointer).unwrap().resolve(json), None, "{pointer}");
        }
    }

    #[test]
    fn what_is_no_pointer_is_refused() {
        assert_eq!(Pointer::parse("a"), Err(PointerError::Start));
        assert_eq!(Pointer::parse("#/a"), Err(PointerError::Start));
        assert_eq!(Pointer::parse("/a~"), Err(PointerError::Tilde(2)));
        assert_eq!(Pointer::parse("/~2"), Err(PointerError::Tilde(1)));
        assert_eq!(Pointer::parse(&"/a".repeat(33)), Err(PointerError::Tokens));
        assert!(Pointer::parse(&"/a".repeat(32)).is_ok());
        assert_eq!(Pointer::parse(&format!("/{}", "a".repeat(1024))), Err(PointerError::Bytes));
    }

    #[test]
    fn escapes_are_resolved_in_the_right_order_and_written_again() {
        let pointer = Pointer::parse("/~01/~1~0/x").unwrap();
        let tokens: Vec<_> = pointer.tokens().collect();
        assert_eq!(tokens, ["~1", "/~", "x"]);
        let mut text = String::new();
        tokens.iter().for_each(|token| append_token(&mut text, token));
        assert_eq!(text, pointer.as_str());
        assert_eq!(pointer.prefix(0), "");
        assert_eq!(pointer.prefix(2), "/~01/~1~0");
        assert_eq!(pointer.prefix(9), pointer.as_str());
    }

    #[test]
    fn a_place_contains_what_lies_below_it() {
        let place = |text: &str| Pointer::parse(text).unwrap();
        assert!(place("/a").contains(&place("/a")) && place("/a").contains(&place("/a/b")));
        assert!(place("").contains(&place("/a")) && !place("/a").contains(&place("/ab")));
        assert!(!place("/a/b").contains(&place("/a")));
    }
}
