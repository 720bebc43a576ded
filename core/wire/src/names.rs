//! Names that clients write: paths and selectors, with `~/` for their own topics.
//!
//! Relies on `tiderace-topics` for the rules. Invariant: every protocol that spells names in their
//! canonical form reads them here, so that they mean the same. Whether a client may use one is the broker's to say.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::{Path, PathError, Selector, SelectorError};

/// Characters of a client's text that come back in an error: enough to find it by.
const SHOWN_CHARS_MAX: usize = 64;

/// The path of that name, which may begin with `~/`, short for the own topics of that principal.
///
/// # Errors
/// [`CloseCode::BadDestination`] with the name and what is wrong with it; [`CloseCode::LoginRequired`]
/// for `~/` without a principal.
pub fn parse_path(text: &str, principal: Option<&str>) -> Result<Path, Close> {
    Path::parse_own(text, principal).map_err(|error| bad_name(text, error))
}

/// The selector of that text, members of which may begin with `~/`.
///
/// # Errors
/// Those of [`parse_path`].
pub fn parse_selector(text: &str, principal: Option<&str>) -> Result<Selector, Close> {
    Selector::parse_own(text, principal).map_err(|error| bad_name(text, error))
}

/// The refusal of a name, which it shows.
pub fn bad_name(text: &str, error: impl Into<SelectorError>) -> Close {
    let error = error.into();
    let code = match error.path_error() {
        Some(PathError::OwnOfNobody) => CloseCode::LoginRequired,
        _ => CloseCode::BadDestination,
    };
    Close::new(code, format!("`{}`: {error}", shown(text)))
}

/// A client's text as an error shows it: at most its first 64 characters.
pub fn shown(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.chars().take(SHOWN_CHARS_MAX).chain(['…']).collect()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn refusals_name_the_text_and_the_reason() {
        let refused = parse_path("a//b", None).unwrap_err();
        assert_eq!(refused.code, CloseCode::BadDestination);
        assert!(refused.reason.starts_with("`a//b`: level 2 of the name is empty"), "{refused}");
        assert_eq!(parse_path("~/a", None).unwrap_err().code, CloseCode::LoginRequired);
        assert_eq!(parse_selector("[b, ~/a]", None).unwrap_err().code, CloseCode::LoginRequired);
        let refused = parse_selector("[b, ~/a]", Some("a/b")).unwrap_err();
        assert_eq!(refused.code, CloseCode::BadDestination);
        assert_eq!(parse_path("~/a", Some("ann")).unwrap().as_str(), "user/ann/a");
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shown(&"ä".repeat(64)), "ä".repeat(64));
        assert_eq!(shown(&"ä".repeat(65)), format!("{}…", "ä".repeat(64)));
    }
}
