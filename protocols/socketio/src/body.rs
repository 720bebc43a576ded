//! Values of events and bodies of messages: how each becomes the other.
//!
//! ```text
//!   any JSON value        ⇄  application/json, as it was written
//!   a Buffer              ⇄  application/octet-stream
//!   a value with Buffers  ⇄  application/vnd.tiderace.attachments
//!   a string              ⇐  text/*, or UTF-8 without a type
//! ```
//! The last type is the value's JSON with placeholders, then the attachments, each behind its length
//! as LEB128. Relies on `packet` for placeholders. Invariant: what is shown to clients is valid JSON
//! with placeholders that have their attachments, whatever was published by whatever protocol.

use tiderace_value::{Json, append_text};
use tiderace_wire::{properties, read_varint, write_varint};

use crate::packet::{Bounds, check_placeholders, has_placeholder, placeholder};

/// The type of JSON bodies.
pub(crate) const JSON: &str = "application/json";
/// The type of bodies that are Buffers.
pub(crate) const BINARY: &str = "application/octet-stream";
/// The type of values with Buffers inside.
pub(crate) const ATTACHED: &str = "application/vnd.tiderace.attachments";

/// A body as a client sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Shown<'a> {
    /// A JSON value.
    Json(Json<'a>),
    /// A string.
    Text(&'a str),
    /// A Buffer.
    Binary(&'a [u8]),
    /// A JSON value with Buffers inside.
    Attached(Json<'a>, Vec<&'a [u8]>),
}

impl<'a> Shown<'a> {
    /// What a message shows.
    pub(crate) fn of(block: &[u8], body: &'a [u8], bounds: Bounds) -> Shown<'a> {
        let kind = properties::find(block, "content-type");
        let kind = kind.as_deref().map(|kind| kind.split(';').next().unwrap_or_default().trim());
        let is = |name: &str| kind.is_some_and(|kind| kind.eq_ignore_ascii_case(name));
        let parsed = if is(JSON) {
            Json::parse(body, bounds.depth_max).ok().map(Shown::Json)
        } else if is(ATTACHED) {
            unpack(body, bounds)
        } else {
            None
        };
        if let Some(shown) = parsed {
            return shown;
        }
        let textual = !is(BINARY) && !is(ATTACHED);
        match simdutf8::basic::from_utf8(body) {
            Ok(text) if textual => Shown::Text(text),
            _ => Shown::Binary(body),
        }
    }

    /// The Buffers in it.
    pub(crate) fn attachments(&self) -> &[&'a [u8]] {
        match self {
            Shown::Json(_) | Shown::Text(_) => &[],
            Shown::Binary(bytes) => std::slice::from_ref(bytes),
            Shown::Attached(_, attachments) => attachments,
        }
    }

    /// Appends the value as JSON.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        match self {
            Shown::Json(json) | Shown::Attached(json, _) => {
                out.extend_from_slice(json.text().as_bytes());
            }
            Shown::Text(text) => append_text(out, text),
            Shown::Binary(_) => out.extend_from_slice(b"{\"_placeholder\":true,\"num\":0}"),
        }
    }

    /// The array it is, if it is one.
    pub(crate) fn array(&self) -> Option<Json<'a>> {
        match self {
            Shown::Json(json) | Shown::Attached(json, _) => {
                (json.kind() == tiderace_value::JsonKind::Array).then_some(*json)
            }
            Shown::Text(_) | Shown::Binary(_) => None,
        }
    }
}

/// A client's value as a body: its bytes and their type.
pub(crate) fn body_of<'a>(
    value: Json<'a>,
    attachments: &'a [Vec<u8>],
) -> (std::borrow::Cow<'a, [u8]>, &'static str) {
    if let Some(bytes) = placeholder(value).and_then(|number| attachments.get(number)) {
        return (bytes.as_slice().into(), BINARY);
    }
    if attachments.is_empty() || !has_placeholder(value) {
        return (value.text().as_bytes().into(), JSON);
    }
    let bytes: usize = attachments.iter().map(|bytes| bytes.len() + 10).sum();
    let mut body = Vec::with_capacity(value.text().len() + bytes + 10);
    write_varint(&mut body, value.text().len() as u64);
    body.extend_from_slice(value.text().as_bytes());
    for attachment in attachments {
        write_varint(&mut body, attachment.len() as u64);
        body.extend_from_slice(attachment);
    }
    (body.into(), ATTACHED)
}

/// A stored value with its attachments: no more than a packet may have, since clients end the
/// connection over one that has.
fn unpack(mut body: &[u8], bounds: Bounds) -> Option<Shown<'_>> {
    let json = Json::parse(part(&mut body)?, bounds.depth_max).ok()?;
    let mut attachments = Vec::new();
    while !body.is_empty() && attachments.len() < bounds.attachments_max {
        attachments.push(part(&mut body)?);
    }
    let fits = body.is_empty() && check_placeholders(json, attachments.len()).is_ok();
    fits.then_some(Shown::Attached(json, attachments))
}

fn part<'a>(body: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(read_varint(body)?).ok()?;
    let (part, rest) = body.split_at_checked(length)?;
    *body = rest;
    Some(part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn shown<'a>(kind: &str, body: &'a [u8]) -> Shown<'a> {
        let mut block = Vec::new();
        if !kind.is_empty() {
            properties::append(&mut block, "content-type", kind);
        }
        Shown::of(&block, body, Bounds { attachments_max: 3, depth_max: 16 })
    }

    #[test]
    fn bodies_are_shown_by_their_type() {
        let json = |text: &'static str| Shown::Json(Json::parse(text.as_bytes(), 9).unwrap());
        let rows: [(&str, &[u8], Shown<'_>); 12] = [
            ("application/json", b" {\"a\":1} ", json("{\"a\":1}")),
            ("Application/JSON; charset=utf-8", b"1", json("1")),
            ("application/json", b"{broken", Shown::Text("{broken")),
            ("application/json", b"\xff", Shown::Binary(b"\xff")),
            ("text/plain", b"1", Shown::Text("1")),
            ("", b"hello", Shown::Text("hello")),
            ("", b"\xff", Shown::Binary(b"\xff")),
            ("application/octet-stream", b"abc", Shown::Binary(b"abc")),
            (ATTACHED, b"nonsense", Shown::Binary(b"nonsense")),
            (
                ATTACHED,
                b"\x011\x01a\x01b\0",
                Shown::Attached(Json::parse(b"1", 9).unwrap(), vec![b"a", b"b", b""]),
            ),
            (ATTACHED, b"\x011\0\0\0\0", Shown::Binary(b"\x011\0\0\0\0")),
            (
                ATTACHED,
                b"\x1e{\"_placeholder\":true,\"num\":1}",
                Shown::Binary(b"\x1e{\"_placeholder\":true,\"num\":1}"),
            ),
        ];
        for (kind, body, expected) in rows {
            assert_eq!(shown(kind, body), expected, "{kind} {body:?}");
        }
    }

    proptest! {
        #[test]
        fn values_come_back(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..4),
            shape in 0u8..3,
        ) {
            let text = match shape {
                0 => "{\"_placeholder\":true,\"num\":0}",
                1 => "[{\"_placeholder\":true,\"num\":0},1]",
                _ => "{\"a\":\"b\"}",
            };
            let value = Json::parse(text.as_bytes(), 9).unwrap();
            prop_assume!(shape == 2 || !parts.is_empty());
            let (body, kind) = body_of(value, &parts);
            match shown(kind, &body) {
                Shown::Binary(bytes) => prop_assert_eq!((shape, bytes), (0, &parts[0][..])),
                Shown::Attached(json, back) => {
                    prop_assert_eq!((shape, json.text()), (1, text));
                    prop_assert_eq!(back, parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
                }
                other => prop_assert_eq!((shape, other), (2, Shown::Json(value))),
            }
        }

        #[test]
        fn any_stored_bytes_are_shown_somehow(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            for kind in ["", JSON, BINARY, ATTACHED, "text/plain"] {
                let shown = shown(kind, &body);
                let mut out = Vec::new();
                shown.append(&mut out);
                let json = Json::parse(&out, 16).unwrap();
                prop_assert!(check_placeholders(json, shown.attachments().len()).is_ok() || shown.attachments().is_empty());
            }
        }
    }
}
