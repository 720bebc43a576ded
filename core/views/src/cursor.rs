//! A place in the text of a view: blanks and comments, words, symbols, texts.
//!
//! Relies on nothing. Invariant: the place is always on a character boundary and only moves forward,
//! so every loop that takes something ends.

use std::borrow::Cow;

use tiderace_value::Json;

use crate::error::{Problem, ViewError, shown};
use crate::limits::{DEPTH_MAX, NODES_MAX, REGEXES_MAX};

/// Reads a text from left to right.
#[derive(Debug)]
pub(crate) struct Cursor<'t> {
    text: &'t str,
    at: usize,
    nodes: usize,
    regexes: usize,
    depth: usize,
}

impl<'t> Cursor<'t> {
    pub(crate) fn new(text: &'t str) -> Cursor<'t> {
        Cursor { text, at: 0, nodes: 0, regexes: 0, depth: 0 }
    }

    /// What has not been read, from this very place on.
    pub(crate) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The text between two places.
    pub(crate) fn between(&self, from: usize, to: usize) -> &'t str {
        self.text.get(from..to).unwrap_or_default()
    }

    /// This very place.
    pub(crate) fn here(&self) -> usize {
        self.at
    }

    /// Passes over bytes that were seen in [`Cursor::rest`].
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.at = self.text.len().min(self.at + bytes);
    }

    /// The next place that is neither blank nor comment.
    pub(crate) fn next(&mut self) -> usize {
        loop {
            let rest = self.rest().trim_start();
            self.at = self.text.len() - rest.len();
            if !rest.starts_with("--") {
                return self.at;
            }
            self.pass(rest.find('\n').unwrap_or(rest.len()));
        }
    }

    /// The next character behind blanks.
    pub(crate) fn peek(&mut self) -> Option<char> {
        self.next();
        self.rest().chars().next()
    }

    /// Whether a blank or the end comes at this very place.
    pub(crate) fn is_blank(&self) -> bool {
        self.rest().chars().next().is_none_or(char::is_whitespace)
    }

    /// The word behind blanks, if one is there; it is not taken.
    pub(crate) fn word(&mut self) -> &'t str {
        self.next();
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            return "";
        }
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        rest.get(..end.unwrap_or(rest.len())).unwrap_or_default()
    }

    /// Takes that word if it comes next.
    pub(crate) fn take_word(&mut self, word: &str) -> bool {
        let found = self.word() == word;
        if found {
            self.pass(word.len());
        }
        found
    }

    /// Takes that symbol if it comes next.
    pub(crate) fn take(&mut self, symbol: &str) -> bool {
        self.next();
        let found = self.rest().starts_with(symbol);
        if found {
            self.pass(symbol.len());
        }
        found
    }

    /// Takes that symbol, which must come next.
    pub(crate) fn need(&mut self, symbol: &str, expected: &'static str) -> Result<(), ViewError> {
        if self.take(symbol) { Ok(()) } else { Err(self.unexpected(expected)) }
    }

    /// Takes a JSON string that begins at this very place.
    pub(crate) fn quoted(&mut self) -> Result<Cow<'t, str>, ViewError> {
        let start = self.at;
        let mut escaped = false;
        let closing = self.rest().bytes().skip(1).position(|byte| {
            let closes = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            closes
        });
        let Some(closing) = closing else {
            return Err(self.wrong(start, Problem::Unterminated));
        };
        self.pass(closing + 2);
        let raw = self.between(start, self.at);
        let json = Json::parse(raw.as_bytes(), 1).map_err(|error| {
            self.wrong(start + error.at, Problem::Json(error.problem.to_string()))
        })?;
        json.as_text().ok_or_else(|| self.wrong(start, Problem::Unterminated))
    }

    /// Takes a JSON array or object that comes next, as it is written.
    pub(crate) fn json(&mut self) -> Result<Json<'t>, ViewError> {
        let start = self.next();
        let (mut depth, mut inside, mut escaped) = (0usize, false, false);
        let end = self.rest().bytes().position(|byte| {
            match byte {
                _ if inside => {
                    inside = byte != b'"' || escaped;
                    escaped = byte == b'\\' && !escaped;
                }
                b'"' => inside = true,
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && !inside && matches!(byte, b']' | b'}')
        });
        self.pass(end.map_or(self.rest().len(), |end| end + 1));
        let raw = self.between(start, self.at);
        Json::parse(raw.as_bytes(), DEPTH_MAX)
            .map_err(|error| self.wrong(start + error.at, Problem::Json(error.problem.to_string())))
    }

    /// Takes a whole number without sign.
    pub(crate) fn count(&mut self, expected: &'static str) -> Result<u64, ViewError> {
        let start = self.next();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.unexpected(expected));
        }
        self.pass(end);
        let digits = self.between(start, self.at);
        // Nothing may be so much, so that the caller says what it may be.
        Ok(digits.parse().unwrap_or(u64::MAX))
    }

    /// Counts an operand or operator.
    pub(crate) fn node(&mut self) -> Result<(), ViewError> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            let what = "operands and operators";
            return Err(self.wrong(self.at, Problem::TooMany { what, max: NODES_MAX }));
        }
        Ok(())
    }

    /// Counts a regular expression.
    pub(crate) fn regex(&mut self) -> Result<(), ViewError> {
        self.regexes += 1;
        if self.regexes > REGEXES_MAX {
            let problem = Problem::TooMany { what: "regular expressions", max: REGEXES_MAX };
            return Err(self.wrong(self.at, problem));
        }
        Ok(())
    }

    /// Goes a level deeper while `inside` reads.
    pub(crate) fn nested<T>(
        &mut self,
        inside: impl FnOnce(&mut Self) -> Result<T, ViewError>,
    ) -> Result<T, ViewError> {
        if self.depth == DEPTH_MAX {
            return Err(self.wrong(self.at, Problem::TooDeep));
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// That what comes next is something else.
    pub(crate) fn unexpected(&mut self, expected: &'static str) -> ViewError {
        let at = self.next();
        let rest = self.rest();
        if rest.is_empty() {
            return self.wrong(at, Problem::Ends { expected });
        }
        self.wrong(at, Problem::Unexpected { found: shown(rest), expected })
    }

    /// An error at a place.
    pub(crate) fn wrong(&self, at: usize, problem: Problem) -> ViewError {
        problem.at(self.text, at)
    }
}
