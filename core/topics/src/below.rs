//! A path or pattern with one level more: what a tree says when it has become a branch of another.
//!
//! Relies on [`Path`] and [`Pattern`]. Invariant: the pattern with the level names the paths with the level of which it
//! named the ones without, and no others.

use tiderace_expression::regex_syntax;

use crate::path::mark_of;
use crate::{Path, PathError, Pattern};

impl Path {
    /// The same with a level between the first so many and the rest.
    ///
    /// # Errors
    /// When that is too long or too deep, or the level is none.
    pub fn with_level(&self, behind: usize, level: &str) -> Result<Path, PathError> {
        Path::parse(&insert("", self.as_str(), behind, level))
    }
}

impl Pattern {
    /// The same with a level between the first so many and the rest: exactly that level, whatever characters it has.
    ///
    /// # Errors
    /// When that is too long or too deep, or the level is none.
    pub fn with_level(&self, behind: usize, level: &str) -> Result<Pattern, PathError> {
        let text = self.as_str();
        match mark_of(text).and_then(|mark| text.strip_prefix(mark)) {
            Some(rest) => Pattern::parse(&insert("?", rest, behind, &as_expression(level))),
            None => Pattern::parse(&insert("", text, behind, level)),
        }
    }
}

/// How a text is written among regular expressions, to stand for itself.
pub fn as_expression(text: &str) -> String {
    regex_syntax::escape(text)
}

fn insert(mark: &str, text: &str, behind: usize, level: &str) -> String {
    let at = behind.checked_sub(1).and_then(|last| text.match_indices('/').nth(last));
    let (front, rest) = text.split_at(at.map_or(0, |(at, _)| at + 1));
    [mark, front, level, "/", rest].concat()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::limits::{PATH_BYTES_MAX, PATH_DEPTH_MAX};

    #[test]
    fn a_level_goes_before_a_path_or_into_it() {
        for (text, behind, expected) in [
            ("a", 0, "@x/a"),
            ("a/b", 0, "@x/a/b"),
            ("a/b/c", 1, "a/@x/b/c"),
            ("a/b/c", 2, "a/b/@x/c"),
        ] {
            let path = Path::parse(text).unwrap();
            assert_eq!(path.with_level(behind, "@x").unwrap().as_str(), expected);
        }
        let deep = Path::parse(&vec!["x"; PATH_DEPTH_MAX].join("/")).unwrap();
        assert_eq!(deep.with_level(0, "@x"), Err(PathError::TooDeep));
        let long = Path::parse(&"x".repeat(PATH_BYTES_MAX)).unwrap();
        assert!(matches!(long.with_level(0, "@x"), Err(PathError::TooLong { .. })));
    }

    #[test]
    fn a_pattern_goes_on_naming_the_same_below_its_level() {
        for (text, behind, expected) in [
            ("**", 0, "@x.y/**"),
            ("*/b", 0, "@x.y/*/b"),
            ("a/**", 1, "a/@x.y/**"),
            ("?.*/b", 0, r"?@x\.y/.*/b"),
            ("?a/[bc]", 1, r"?a/@x\.y/[bc]"),
        ] {
            let pattern = Pattern::parse(text).unwrap().with_level(behind, "@x.y").unwrap();
            assert_eq!(pattern.as_str(), expected);
        }
        let pattern = Pattern::parse("?.*").unwrap().with_level(0, "@x.y").unwrap();
        for (path, named) in [("@x.y/a", true), ("@xzy/a", false), ("@x.y", false), ("a", false)] {
            assert_eq!(pattern.matches(&Path::parse(path).unwrap()), named, "{path}");
        }
    }
}
