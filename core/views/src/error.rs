//! What is wrong with a view, and where.
//!
//! Relies on nothing. Invariant: an error's text has three lines at most, each of bounded length and
//! without control characters, and the caret stands below what is meant.

use std::fmt;

use tiderace_value::PatchProblem;

/// A view that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewError {
    /// Byte offset into the view's text, on a character boundary; the length of the text when it
    /// ended too early.
    pub at: usize,
    /// Line, counted from 1.
    pub line: usize,
    /// Character of the line, counted from 1.
    pub column: usize,
    /// What was found there.
    pub problem: Problem,
    /// The line, or the part of it around the place.
    pub excerpt: String,
    /// How many characters of the excerpt stand before the place.
    pub caret: usize,
}

/// The kinds of error that a view can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else must stand here.
    #[error("expected {expected}, found {found}")]
    Unexpected {
        /// The text there, shortened and escaped.
        found: String,
        /// What could have stood there.
        expected: &'static str,
    },
    /// The text ended too early.
    #[error("the view ends here: expected {expected}")]
    Ends {
        /// What could have followed.
        expected: &'static str,
    },
    /// A text without its closing quote.
    #[error("this text has no closing `\"`")]
    Unterminated,
    /// A text or a patch that is not JSON.
    #[error("not valid JSON: {0}")]
    Json(String),
    /// A number that cannot be held.
    #[error("this is not a number that can be calculated with")]
    Number,
    /// A source that is not a selector.
    #[error("not a selector: {0}")]
    Selector(String),
    /// A template whose text cannot be part of a path.
    #[error("not a path: {0}")]
    Path(String),
    /// A regular expression that is wrong or too large.
    #[error("not a regular expression that can be used: {0}")]
    Regex(String),
    /// A patch that is not RFC 6902.
    #[error("operation {operation} of the patch: {problem}")]
    Patch {
        /// Which, counted from 1.
        operation: usize,
        /// What is wrong with it.
        problem: PatchProblem,
    },
    /// A function with the wrong number of arguments.
    #[error("`{function}` takes {expected}")]
    Arguments {
        /// Its name.
        function: &'static str,
        /// What it takes.
        expected: &'static str,
    },
    /// An option, property or field that was already given; as [`Problem::Unexpected`] shows it.
    #[error("{0} is given twice")]
    Twice(String),
    /// Two options that exclude each other.
    #[error("`{0}` and `{1}` do not go together: a merged value is a JSON object")]
    Apart(&'static str, &'static str),
    /// A span or count out of its range.
    #[error("{what} must be between {min} and {max}")]
    Range {
        /// Of what.
        what: &'static str,
        /// The least.
        min: &'static str,
        /// The most.
        max: &'static str,
    },
    /// More than a limit allows.
    #[error("too many {what}: at most {max} are allowed")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many are allowed.
        max: usize,
    },
    /// Nested too deeply.
    #[error("brackets, `not` and signs are nested more than {max} deep", max = crate::limits::DEPTH_MAX)]
    TooDeep,
}

impl Problem {
    /// A stable identifier of the kind of error, for logs, metrics and clients.
    pub fn code(&self) -> &'static str {
        match self {
            Problem::Unexpected { .. } => "view-unexpected",
            Problem::Ends { .. } => "view-ends-early",
            Problem::Unterminated => "view-unterminated-text",
            Problem::Json(_) => "view-bad-json",
            Problem::Number => "view-bad-number",
            Problem::Selector(_) => "view-bad-selector",
            Problem::Path(_) => "view-bad-path",
            Problem::Regex(_) => "view-bad-regex",
            Problem::Patch { .. } => "view-bad-patch",
            Problem::Arguments { .. } => "view-bad-arguments",
            Problem::Twice(_) => "view-given-twice",
            Problem::Apart(..) => "view-not-together",
            Problem::Range { .. } => "view-out-of-range",
            Problem::TooMany { .. } => "view-too-many",
            Problem::TooDeep => "view-too-deep",
        }
    }

    /// The error of this kind at a place of a text.
    pub(crate) fn at(self, text: &str, at: usize) -> ViewError {
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
        let line = before.matches('\n').count() + 1;
        let before = before.rsplit('\n').next().unwrap_or_default();
        let after = after.split('\n').next().unwrap_or_default();
        let column = before.chars().count() + 1;
        let skipped = (column - 1).saturating_sub(EXCERPT_BEFORE_MAX);
        let mut excerpt = String::new();
        if skipped > 0 {
            excerpt.push('…');
        }
        excerpt.extend(before.chars().skip(skipped).map(plain));
        let caret = excerpt.chars().count();
        let mut rest = after.chars();
        excerpt.extend(rest.by_ref().take(EXCERPT_AFTER_MAX).map(plain));
        if rest.next().is_some() {
            excerpt.push('…');
        }
        ViewError { at, line, column, problem: self, excerpt, caret }
    }
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "line {}, column {}: {}", self.line, self.column, self.problem)?;
        writeln!(f, "  {}", self.excerpt.trim_end())?;
        write!(f, "  {:caret$}^", "", caret = self.caret)
    }
}

impl std::error::Error for ViewError {}

/// Characters of the line before the caret, and after it.
const EXCERPT_BEFORE_MAX: usize = 60;
const EXCERPT_AFTER_MAX: usize = 40;

fn plain(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

/// The beginning of a text as an error shows it.
pub(crate) fn shown(text: &str) -> String {
    let word = |c: &char| c.is_alphanumeric() || *c == '_';
    let long = text.chars().take_while(word).count();
    shortened(text, if long == 0 { 1 } else { long })
}

/// A name as an error shows it.
pub(crate) fn shown_name(name: &str) -> String {
    shortened(name, name.chars().count())
}

fn shortened(text: &str, count: usize) -> String {
    let mut shown = String::from("`");
    shown.extend(text.chars().take(count.min(SHOWN_CHARS_MAX)).flat_map(char::escape_debug));
    shown.push_str(if count > SHOWN_CHARS_MAX { "…`" } else { "`" });
    shown
}

/// Enough to recognise a word by.
const SHOWN_CHARS_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_below_the_place() {
        let error = Problem::Number.at("map a\n  to bé 5x", 14);
        assert_eq!((error.line, error.column), (2, 8));
        assert_eq!(
            error.to_string(),
            "line 2, column 8: this is not a number that can be calculated with\n    to bé 5x\n         ^"
        );
    }

    #[test]
    fn long_lines_are_shortened_around_the_place() {
        let text = "x".repeat(500);
        let error = Problem::Number.at(&text, 250);
        assert_eq!(error.excerpt.chars().count(), 60 + 40 + 2);
        assert_eq!(error.caret, 61);
        assert_eq!(error.column, 251);
    }
}
