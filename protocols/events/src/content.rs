//! What the bytes of a body are: JSON, text or binary, by content type and by looking.
//!
//! Relies on the property `content-type`. Invariant: what is called JSON parses, what is called
//! text is UTF-8.

use std::borrow::Cow;

use tiderace_value::Json;
use tiderace_wire::{Message, properties};

use crate::limits::FIELD_BYTES_MAX;
use crate::limits::JSON_DEPTH_MAX;

/// A body, understood.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Content<'a> {
    /// One JSON value.
    Json(Json<'a>),
    /// UTF-8.
    Text(&'a str),
    /// Anything.
    Binary(&'a [u8]),
}

/// The name of the property.
pub(crate) const CONTENT_TYPE: &str = "content-type";
/// The types of patches, as `Accept-Patch` names them.
pub(crate) const PATCH_TYPES: &str = "application/json-patch+json, application/merge-patch+json";

/// The content type a message was published with.
pub(crate) fn content_type<'a>(message: &Message<'a>) -> Option<Cow<'a, str>> {
    properties::find(message.properties, CONTENT_TYPE)
}

/// Understands a body. JSON that does not parse is text, text that is not UTF-8 is binary.
pub(crate) fn content<'a>(content_type: Option<&str>, body: &'a [u8]) -> Content<'a> {
    let essence = content_type.map(essence);
    let is_text = match essence.as_deref() {
        None | Some("") => true,
        Some("application/json") => match Json::parse(body, JSON_DEPTH_MAX) {
            Ok(json) => return Content::Json(json),
            Err(_) => true,
        },
        Some("application/xml" | "application/javascript" | "application/x-ndjson") => true,
        Some(other) => {
            other.starts_with("text/") || other.ends_with("+json") || other.ends_with("+xml")
        }
    };
    match simdutf8::basic::from_utf8(body) {
        Ok(text) if is_text => Content::Text(text),
        _ => Content::Binary(body),
    }
}

/// The content type to send a body with; never one that could not stand in a field.
pub(crate) fn sent_type(content_type: Option<&str>, body: &[u8]) -> String {
    if let Some(known) = content_type
        && !known.is_empty()
        && is_field_value(known)
    {
        return known.to_owned();
    }
    match content(None, body) {
        Content::Text(_) | Content::Json(_) => "text/plain; charset=utf-8".to_owned(),
        Content::Binary(_) => "application/octet-stream".to_owned(),
    }
}

/// Whether a text may stand in a field of an answer.
pub(crate) fn is_field_value(text: &str) -> bool {
    text.len() <= FIELD_BYTES_MAX && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))
}

/// Type and subtype without parameters, in small letters.
pub(crate) fn essence(content_type: &str) -> String {
    content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_what_their_type_says_if_they_can_be() {
        assert!(matches!(
            content(Some("application/json; charset=utf-8"), b" [1] "),
            Content::Json(_)
        ));
        assert_eq!(content(Some("application/json"), b"[1"), Content::Text("[1"));
        assert_eq!(content(Some("Text/Plain"), b"hi"), Content::Text("hi"));
        assert_eq!(content(Some("text/plain"), b"\xff"), Content::Binary(b"\xff"));
        assert_eq!(content(Some("application/octet-stream"), b"hi"), Content::Binary(b"hi"));
        assert_eq!(content(Some("image/svg+xml"), b"<svg/>"), Content::Text("<svg/>"));
        assert_eq!(content(None, b"hi"), Content::Text("hi"));
        assert_eq!(content(None, b"\x80"), Content::Binary(b"\x80"));
    }

    #[test]
    fn a_content_type_that_would_break_the_head_is_not_sent() {
        assert_eq!(sent_type(Some("image/png"), b""), "image/png");
        for bad in ["", "a\r\nSet-Cookie: x", "ü", &"x".repeat(300)] {
            assert_eq!(sent_type(Some(bad), b"hi"), "text/plain; charset=utf-8");
        }
        assert_eq!(sent_type(None, b"\xff"), "application/octet-stream");
    }
}
