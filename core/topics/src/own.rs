//! A client's own topics: `~/inbox` is short for `user/<name of the principal>/inbox`.
//!
//! Relies on [`Path`]. Invariant: what `~` stands for is a path of exactly two levels, so that no name
//! of a principal reaches what is not its own.

use std::borrow::Cow;

use crate::{Path, PathError};

/// How the short form begins.
const SHORT: &str = "~/";
/// Characters of a principal's name that an error shows.
const NAME_CHARS_MAX: usize = 64;

impl Path {
    /// Parses a path that may begin with `~/`, short for the own topics of that principal; `None` for a
    /// client that is not logged in or has no name of its own.
    ///
    /// # Errors
    /// Says which rule the text breaks and where, or why that client has no topics of its own.
    pub fn parse_own(text: &str, principal: Option<&str>) -> Result<Path, PathError> {
        match text.strip_prefix(SHORT) {
            None => Path::parse(text),
            Some(rest) => Path::parse(&format!("{}/{rest}", own(principal)?)),
        }
    }
}

/// A member of a selector with `~/` written out.
pub(crate) fn written_out<'a>(
    text: &'a str,
    principal: Option<&str>,
) -> Result<Cow<'a, str>, PathError> {
    if let Some(rest) = text.strip_prefix(SHORT) {
        return Ok(Cow::Owned(format!("{}/{rest}", own(principal)?)));
    }
    let Some(rest) = text.strip_prefix('?').and_then(|rest| rest.strip_prefix(SHORT)) else {
        return Ok(Cow::Borrowed(text));
    };
    let own = tiderace_expression::regex_syntax::escape(own(principal)?.as_str());
    Ok(Cow::Owned(format!("?{own}/{rest}")))
}

/// What `~` stands for.
fn own(principal: Option<&str>) -> Result<Path, PathError> {
    let name = principal.ok_or(PathError::OwnOfNobody)?;
    let own = Path::parse(&format!("user/{name}"));
    own.ok().filter(|path| path.levels().count() == 2).ok_or_else(|| {
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        PathError::OwnName { name: name.into() }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Selector;

    #[test]
    fn the_tilde_stands_for_the_principal() {
        for (text, principal, path) in [
            ("~/a/b", "ann", "user/ann/a/b"),
            ("~/x", "a.n", "user/a.n/x"),
            ("~/x", "?ann", "user/?ann/x"),
            ("~/x", "[ann]", "user/[ann]/x"),
            ("~b", "ann", "~b"),
            ("a/~/b", "ann", "a/~/b"),
        ] {
            assert_eq!(Path::parse_own(text, Some(principal)).unwrap().as_str(), path);
            let selector = Selector::parse_own(text, Some(principal)).unwrap();
            assert_eq!(selector.to_string(), path);
        }
        let regex = Selector::parse_own("?~/[xy]", Some("a.n")).unwrap();
        assert_eq!(regex.to_string(), r"?user/a\.n/[xy]");
    }

    #[test]
    fn names_that_would_reach_others_have_no_topics_of_their_own() {
        let long = "x".repeat(2000);
        for name in ["", "a/b", "/", "*", "a*", "+", "#", "a\nb", &long] {
            let refused = Path::parse_own("~/x", Some(name)).unwrap_err();
            assert!(matches!(refused, PathError::OwnName { .. }), "{name:?}: {refused}");
            assert!(refused.to_string().len() < 200);
            for text in ["~/x", "?~/x", "[a, ~/x]", "[?~/x]"] {
                let refused = Selector::parse_own(text, Some(name)).unwrap_err();
                assert!(matches!(refused.path_error(), Some(PathError::OwnName { .. })));
            }
        }
        assert_eq!(Path::parse_own("~/x", None), Err(PathError::OwnOfNobody));
        assert_eq!(Path::parse_own("x", None).unwrap().as_str(), "x");
    }
}
