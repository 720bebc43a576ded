//! Pointers into a value (RFC 6901): how they are written in a view.
//!
//! Relies on `cursor`. Invariant: what is displayed is read back as the same pointer.

use std::fmt;

use tiderace_value::unescaped;

use crate::cursor::Cursor;
use crate::error::{Problem, ViewError};
use crate::limits::POINTER_LEVELS_MAX;
use crate::quote::Quoted;

/// Names of fields and numbers of elements, from the outermost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pointer(pub(crate) Vec<Box<str>>);

/// Which value a pointer looks into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Root {
    /// The value at this point of the view.
    Value,
    /// The value that the source has.
    Source,
}

/// A root with a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) root: Root,
    pub(crate) pointer: Pointer,
}

impl Pointer {
    /// Whether a pointer begins at this very place; a division has a blank behind its slash.
    pub(crate) fn begins(cursor: &Cursor<'_>) -> bool {
        let mut letters = cursor.rest().chars();
        letters.next() == Some('/') && letters.next().is_some_and(|c| c == '"' || is_bare(c))
    }

    /// Reads the pointer behind blanks.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Pointer, ViewError> {
        cursor.next();
        if !Pointer::begins(cursor) {
            return Err(cursor.unexpected("a pointer such as `/price`"));
        }
        Pointer::here(cursor)
    }

    /// Reads the levels that begin at this very place, or none.
    fn here(cursor: &mut Cursor<'_>) -> Result<Pointer, ViewError> {
        let mut levels: Vec<Box<str>> = Vec::new();
        while Pointer::begins(cursor) {
            if levels.len() == POINTER_LEVELS_MAX {
                let what = "levels in a pointer";
                let problem = Problem::TooMany { what, max: POINTER_LEVELS_MAX };
                return Err(cursor.wrong(cursor.here(), problem));
            }
            cursor.pass(1);
            if cursor.rest().starts_with('"') {
                levels.push(cursor.quoted()?.into());
                continue;
            }
            let rest = cursor.rest();
            let end = rest.find(|c| !is_bare(c)).unwrap_or(rest.len());
            let level = rest.get(..end).unwrap_or_default();
            match unescaped(level) {
                Ok(level) => levels.push(level.into()),
                Err(_) => return Err(cursor.unexpected(ESCAPES)),
            }
            cursor.pass(end);
        }
        if cursor.rest().starts_with('/') && !levels.is_empty() {
            let expected = "a name behind this slash; an empty name is written `/\"\"`";
            return Err(cursor.unexpected(expected));
        }
        Ok(Pointer(levels))
    }
}

impl Place {
    /// Reads a pointer, `value` or `source` with or without a pointer, if one comes next.
    pub(crate) fn parse(cursor: &mut Cursor<'_>) -> Result<Option<Place>, ViewError> {
        cursor.next();
        if Pointer::begins(cursor) {
            return Ok(Some(Place { root: Root::Value, pointer: Pointer::parse(cursor)? }));
        }
        if cursor.take_word("value") {
            return Ok(Some(Place { root: Root::Value, pointer: Pointer::default() }));
        }
        if cursor.take_word("source") {
            return Ok(Some(Place { root: Root::Source, pointer: Pointer::here(cursor)? }));
        }
        Ok(None)
    }
}

const ESCAPES: &str =
    "a name in which `~0` stands for `~` and `~1` for `/`, or one between quotation marks";

/// What needs no quotes in a pointer.
fn is_bare(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '~' | '$' | '@' | ':')
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for level in &self.0 {
            let bare = !level.is_empty() && level.chars().all(|c| is_bare(c) && c != '~');
            if bare { write!(f, "/{level}")? } else { write!(f, "/{}", Quoted(level))? }
        }
        Ok(())
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.root {
            Root::Value if self.pointer.0.is_empty() => f.write_str("value"),
            Root::Value => self.pointer.fmt(f),
            Root::Source => write!(f, "source{}", self.pointer),
        }
    }
}
