//! What is wrong with a selector, and where.
//!
//! Relies on nothing. Invariant: an error's text is one line, of bounded length, with control
//! characters escaped, so that it can go into a protocol header or a log as it is.

use crate::limits::{CHOICES_MAX, DEPTH_MAX, NODES_MAX, TEXT_BYTES_MAX};

/// A selector that was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("at byte {at} of the selector: {problem}")]
pub struct SelectorError {
    /// Byte offset into the selector text, on a character boundary; the length of the text when
    /// it ended too early.
    pub at: usize,
    /// What was found there.
    pub problem: Problem,
}

impl SelectorError {
    /// A stable identifier of the kind of error, for logs, metrics and clients.
    pub fn code(&self) -> &'static str {
        self.problem.code()
    }
}

/// The kinds of error a selector can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// An `ESCAPE` that is not exactly one character, or a pattern that ends in it.
    #[error("bad LIKE escape: expected one character that does not end the pattern")]
    BadEscape,
    /// Digits that do not make a number, such as `1.2.3` or `12abc`.
    #[error(
        "bad number: expected a form like 42, 4.2, 4e2 or 0x2A; quote a name that has digits first with \"\""
    )]
    BadNumber,
    /// There is no selector at all.
    #[error("the selector is empty: expected a condition, such as colour = 'red'")]
    Empty,
    /// The quoted name `""`.
    #[error("empty name: expected a header name between the double quotes")]
    EmptyName,
    /// A value stands where only a condition makes sense.
    #[error("a value cannot be true or false: expected a condition, such as colour = 'red'")]
    NotACondition,
    /// A condition or boolean stands where only a number or text makes sense.
    #[error("a condition cannot be used here: expected a header name, a number or 'text'")]
    NotAValue,
    /// An integer outside the 64 signed bits, or a double too large to be finite.
    #[error("number out of range: expected a 64-bit signed integer or a finite double")]
    NumberOutOfRange,
    /// More than [`DEPTH_MAX`] levels.
    #[error("nested too deeply: expected at most {DEPTH_MAX} levels of parentheses, NOT and signs")]
    TooDeep,
    /// More than [`TEXT_BYTES_MAX`] bytes.
    #[error("the selector is too long: expected at most {TEXT_BYTES_MAX} bytes")]
    TooLong,
    /// More than [`CHOICES_MAX`] entries in an `IN` list.
    #[error("the IN list is too long: expected at most {CHOICES_MAX} entries")]
    TooManyChoices,
    /// More than [`NODES_MAX`] operands and operators.
    #[error("the selector is too complex: expected at most {NODES_MAX} operands and operators")]
    TooManyNodes,
    /// A character that begins no token.
    #[error("unexpected character {found:?}: expected a name, a number, 'text' or an operator")]
    UnexpectedCharacter {
        /// The character.
        found: char,
    },
    /// The text ended in the middle of an expression.
    #[error("unexpected end: expected {expected}")]
    UnexpectedEnd {
        /// What could have followed.
        expected: &'static str,
    },
    /// A token in a place where it makes no sense.
    #[error("unexpected {found}: expected {expected}")]
    UnexpectedToken {
        /// The token as it stands in the text, shortened and escaped.
        found: String,
        /// What could have stood there.
        expected: &'static str,
    },
    /// A quoted name without its closing `"`.
    #[error("unterminated name: expected a closing double quote")]
    UnterminatedName,
    /// A string without its closing `'`.
    #[error("unterminated string: expected a closing single quote")]
    UnterminatedString,
}

impl Problem {
    /// The error of this kind at `at`.
    pub(crate) fn at(self, at: usize) -> SelectorError {
        SelectorError { at, problem: self }
    }

    fn code(&self) -> &'static str {
        match self {
            Problem::BadEscape => "selector-bad-escape",
            Problem::BadNumber => "selector-bad-number",
            Problem::Empty => "selector-empty",
            Problem::EmptyName => "selector-empty-name",
            Problem::NotACondition => "selector-not-a-condition",
            Problem::NotAValue => "selector-not-a-value",
            Problem::NumberOutOfRange => "selector-number-out-of-range",
            Problem::TooDeep => "selector-too-deep",
            Problem::TooLong => "selector-too-long",
            Problem::TooManyChoices => "selector-too-many-choices",
            Problem::TooManyNodes => "selector-too-many-nodes",
            Problem::UnexpectedCharacter { .. } => "selector-unexpected-character",
            Problem::UnexpectedEnd { .. } => "selector-unexpected-end",
            Problem::UnexpectedToken { .. } => "selector-unexpected-token",
            Problem::UnterminatedName => "selector-unterminated-name",
            Problem::UnterminatedString => "selector-unterminated-string",
        }
    }
}

/// A token's source text as an error shows it: at most [`SHOWN_CHARS_MAX`] characters, escaped.
pub(crate) fn shown(source: &str) -> String {
    let mut characters = source.chars();
    let mut text = String::from("`");
    text.extend(characters.by_ref().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug));
    text.push_str(if characters.next().is_some() { "…`" } else { "`" });
    text
}

/// Enough to recognise a token by, short enough for a header.
const SHOWN_CHARS_MAX: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_tokens_are_short_and_on_one_line() {
        assert_eq!(shown("AND"), "`AND`");
        assert_eq!(shown("'a\nb'"), "`\\'a\\nb\\'`");
        assert_eq!(shown(&"x".repeat(100)), format!("`{}…`", "x".repeat(SHOWN_CHARS_MAX)));
    }
}
