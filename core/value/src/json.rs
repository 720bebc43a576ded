//! One valid JSON value, borrowed.
//!
//! Relies on `scan` for the check. Invariant: a [`Json`] holds exactly one value without white space
//! around it, so whatever looks into it may trust it.

use std::borrow::Cow;

use crate::scan::{self, JsonError, JsonProblem};
use crate::write::decode;

/// A piece of text that is one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    Text,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl<'a> Json<'a> {
    /// `null`.
    pub const NULL: Json<'static> = Json("null");

    /// Takes bytes that are one value, with white space around it or not, nested at most so deeply.
    ///
    /// # Errors
    /// Says what is wrong and where.
    pub fn parse(bytes: &'a [u8], depth_max: usize) -> Result<Json<'a>, JsonError> {
        let text = simdutf8::compat::from_utf8(bytes)
            .map_err(|wrong| JsonError { at: wrong.valid_up_to(), problem: JsonProblem::Text })?;
        let start = scan::space(bytes, 0);
        let end = scan::value(bytes, start, depth_max)?;
        let at = scan::space(bytes, end);
        if at < bytes.len() {
            return Err(JsonError { at, problem: JsonProblem::Trailing });
        }
        Ok(Json(text.get(start..end).unwrap_or_default()))
    }

    /// Text that is known to be a value, such as a part of one.
    pub(crate) fn known(text: &'a str) -> Json<'a> {
        Json(text)
    }

    /// The value as it was written.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// What it is.
    pub fn kind(self) -> JsonKind {
        match self.0.as_bytes().first() {
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b'"') => JsonKind::Text,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') => JsonKind::Null,
            _ => JsonKind::Number,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(self) -> bool {
        self.kind() == JsonKind::Null
    }

    /// The truth value it is.
    pub fn as_bool(self) -> Option<bool> {
        match self.0 {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The number it is, if it is a whole one without sign, point and exponent that fits.
    pub fn as_unsigned(self) -> Option<u64> {
        (self.kind() == JsonKind::Number).then(|| self.0.parse().ok()).flatten()
    }

    /// The number it is.
    pub fn as_number(self) -> Option<f64> {
        (self.kind() == JsonKind::Number).then(|| self.0.parse().ok()).flatten()
    }

    /// The text it is, escapes resolved; halves of surrogate pairs without the other half are
    /// replaced.
    pub fn as_text(self) -> Option<Cow<'a, str>> {
        self.0.strip_prefix('"')?.strip_suffix('"').map(decode)
    }

    /// Whether it is a string that says that.
    pub(crate) fn is_text(self, text: &str) -> bool {
        let raw = self.0.strip_prefix('"').and_then(|raw| raw.strip_suffix('"'));
        raw.is_some_and(|raw| if raw.contains('\\') { decode(raw) == text } else { raw == text })
    }
}
