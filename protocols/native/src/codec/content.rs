//! The content type as two bits, and the form of properties.

use tiderace_wire::properties;

use super::{CodecError, flag};
use crate::limits::PROPERTIES_BYTES_MAX;

/// What a message's flags say of its body; stands for the property `content-type`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing.
    #[default]
    Untold,
    /// JSON text.
    Json,
    /// Plain text.
    Text,
    /// Bytes.
    Binary,
}

impl Content {
    /// From a message's flags.
    pub fn of(flags: u8) -> Content {
        match flags & flag::CONTENT {
            0 => Content::Untold,
            1 => Content::Json,
            2 => Content::Text,
            _ => Content::Binary,
        }
    }

    /// For a message's flags.
    pub fn bits(self) -> u8 {
        self as u8
    }

    /// The line of properties that it stands for.
    pub fn line(self) -> &'static [u8] {
        match self {
            Content::Untold => b"",
            Content::Json => b"content-type:application/json\n",
            Content::Text => b"content-type:text/plain\n",
            Content::Binary => b"content-type:application/octet-stream\n",
        }
    }
}

/// Takes the content type off the front of a block of properties, where it stands if our clients
/// have sent it.
#[inline]
pub fn split_content(block: &[u8]) -> (Content, &[u8]) {
    if !block.starts_with(b"content-type:") {
        return (Content::Untold, block);
    }
    for content in [Content::Json, Content::Text, Content::Binary] {
        if let Some(rest) = block.strip_prefix(content.line()) {
            return (content, rest);
        }
    }
    (Content::Untold, block)
}

/// Checks that a stranger's block of properties has the neutral form; whether it has escapes.
///
/// # Errors
/// When it is too large or has not.
pub fn check_properties(block: &[u8]) -> Result<bool, CodecError> {
    if block.is_empty() {
        return Ok(false);
    }
    let whole = block.len() <= PROPERTIES_BYTES_MAX && block.ends_with(b"\n");
    if !whole || simdutf8::basic::from_utf8(block).is_err() || block.contains(&b'\r') {
        return Err(CodecError::BadProperties);
    }
    let lines = block.split_inclusive(|byte| *byte == b'\n');
    if lines.clone().count() != properties::raw(block).count()
        || lines.clone().any(|line| line.starts_with(b":"))
        || lines.clone().any(|line| line.iter().filter(|byte| **byte == b':').count() != 1)
    {
        return Err(CodecError::BadProperties);
    }
    let mut escapes = block.iter();
    let mut escaped = false;
    while let Some(byte) = escapes.next() {
        if *byte == b'\\' {
            escaped = true;
            if !matches!(escapes.next(), Some(b'\\' | b'n' | b'r' | b'c')) {
                return Err(CodecError::BadProperties);
            }
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_is_told_by_two_bits() {
        for content in [Content::Json, Content::Text, Content::Binary] {
            let block = [content.line(), b"k:v\n"].concat();
            assert_eq!(split_content(&block), (content, &b"k:v\n"[..]));
            assert_eq!(Content::of(content.bits() | 0xfc), content);
        }
        let other = b"content-type:application/json;charset=utf-8\n";
        assert_eq!(split_content(other), (Content::Untold, &other[..]));
        assert_eq!(split_content(b""), (Content::Untold, &b""[..]));
    }

    #[test]
    fn properties_have_their_form() {
        for (block, expected) in [
            (&b""[..], Ok(false)),
            (b"a:b\n", Ok(false)),
            (b"a:\nb:x y\n", Ok(false)),
            (b"a\\c:\\\\n\n", Ok(true)),
            (b"a:b", Err(CodecError::BadProperties)),
            (b"ab\n", Err(CodecError::BadProperties)),
            (b":b\n", Err(CodecError::BadProperties)),
            (b"\na:b\n", Err(CodecError::BadProperties)),
            (b"a:b:c\n", Err(CodecError::BadProperties)),
            (b"a:\\t\n", Err(CodecError::BadProperties)),
            (b"a:b\\\n", Err(CodecError::BadProperties)),
            (b"a:b\r\n", Err(CodecError::BadProperties)),
            (b"a:\xff\n", Err(CodecError::BadProperties)),
        ] {
            assert_eq!(check_properties(block), expected, "{:?}", block.escape_ascii());
        }
    }
}
