//! The head of an answer, as HEADERS say it.
//!
//! Relies on the caller for which fields an answer may have. Invariant: a head that exists can be sent.

use http::header::{CONNECTION, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    pub(crate) status: StatusCode,
    pub(crate) fields: HeaderMap,
}

impl AnswerHead {
    /// A head with these fields, names in any case; nothing if one of them is no field, or the status none.
    /// Fields that are about a connection of HTTP/1.1 are left out (RFC 9113 section 8.2.2).
    pub fn new<'a>(
        status: u16,
        fields: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<AnswerHead> {
        let mut map = HeaderMap::with_capacity(fields.size_hint().0);
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
            if OF_CONNECTIONS.contains(&name) {
                continue;
            }
            map.append(name, HeaderValue::from_str(value).ok()?);
        }
        Some(AnswerHead { status: StatusCode::from_u16(status).ok()?, fields: map })
    }

    /// The head of an answer that is a stream of bytes.
    pub fn stream() -> AnswerHead {
        AnswerHead::bare(StatusCode::OK)
    }

    /// The client may send the body of its request (RFC 9110 section 15.2.1); the answer is still due.
    pub fn proceed() -> AnswerHead {
        AnswerHead::bare(StatusCode::CONTINUE)
    }

    /// The answer to an extended CONNECT for a protocol that is not spoken (RFC 9220 section 3).
    pub fn not_implemented() -> AnswerHead {
        AnswerHead::bare(StatusCode::NOT_IMPLEMENTED)
    }

    fn bare(status: StatusCode) -> AnswerHead {
        AnswerHead { status, fields: HeaderMap::new() }
    }
}

/// What no stream may say; a stream that does is reset.
const OF_CONNECTIONS: [HeaderName; 5] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_head_has_its_fields_in_order_and_lower_case() {
        let given = [("Content-Type", "a/b"), ("Vary", "x"), ("Vary", "y")];
        let head = AnswerHead::new(201, given.into_iter()).unwrap();
        let fields: Vec<_> = head.fields.iter().map(|(name, it)| (name.as_str(), it)).collect();
        assert_eq!(head.status, 201);
        assert_eq!(fields.len(), 3);
        assert_eq!(fields.first().unwrap(), &("content-type", &HeaderValue::from_static("a/b")));
    }

    #[test]
    fn fields_of_a_connection_are_left_out() {
        let given = [("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")];
        let head = AnswerHead::new(426, given.into_iter()).unwrap();
        let names: Vec<_> = head.fields.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["sec-websocket-version"]);
    }

    #[test]
    fn what_is_no_field_makes_no_head() {
        for (status, name, value) in [(99, "a", "b"), (200, "a b", "c"), (200, "a", "b\r\nc: d")] {
            assert_eq!(AnswerHead::new(status, [(name, value)].into_iter()), None, "{name}");
        }
    }
}
