//! Heads of answers as values, which each transport writes in its form, and the answer to a request whose
//! session ended over it.
//!
//! ```text
//!   AnswerHead ─┬─ HTTP/1.1: text in the connection's queue, in front of the body
//!               └─ HTTP/2: HEADERS of the record's stream, on whichever shard that is
//! ```

use tiderace_base::{Close, Key};
use tiderace_http1::{Connection as Persistence, Response as Http1Head, ResponseBody};
use tiderace_http2::AnswerHead as Http2Head;
use tiderace_wire::Response;

use crate::driver::Driver;
use crate::outcome::{Farewell, internal_error};
use crate::shard::Shard;

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AnswerHead<'a> {
    pub(crate) status: u16,
    /// Fields besides those that say how the body is delimited and whether the connection persists.
    pub(crate) headers: &'a [(&'a str, &'a str)],
    /// Whether the connection goes on to another request. A stream of HTTP/2 never does.
    pub(crate) persists: bool,
    pub(crate) body: ResponseBody,
    /// Whether it answers HEAD: no body follows, whatever the head says of one.
    pub(crate) is_head: bool,
}

impl AnswerHead<'_> {
    /// Whether a body follows.
    pub(crate) fn has_body(&self) -> bool {
        !self.is_head && !matches!(self.status, 204 | 304)
    }

    /// Appends it in the form of HTTP/1.1; false if it breaks the rules of HTTP.
    pub(crate) fn write_http1(&self, date: &str, out: &mut Vec<u8>) -> bool {
        self.with_date(date).write_head(out, self.body).is_ok()
    }

    /// The same in the form of HTTP/2, and how long the body is if that is known.
    fn to_http2(self, date: &str) -> Option<(Http2Head, Option<u64>)> {
        self.with_date(date).check().ok()?;
        let length = match self.body {
            ResponseBody::Length(length) => Some(length),
            ResponseBody::Chunked | ResponseBody::UntilClose => None,
        };
        let length_text = length.filter(|_| !matches!(self.status, 204 | 304));
        let length_text = length_text.map(|length| length.to_string());
        let fields = std::iter::once(("date", date))
            .chain(self.headers.iter().copied())
            .chain(length_text.as_deref().map(|length| ("content-length", length)));
        let head = Http2Head::new(self.status, fields)?;
        Some((head, if self.has_body() { length } else { Some(0) }))
    }

    fn with_date<'a>(&'a self, date: &'a str) -> Http1Head<'a> {
        let connection = if self.persists { Persistence::KeepAlive } else { Persistence::Close };
        Http1Head { status: self.status, headers: self.headers, date: Some(date), connection }
    }
}

impl<D: Driver> Shard<D> {
    /// Begins an answer in the form of what carries the connection; false if it breaks the rules of HTTP,
    /// and then the connection has ended.
    pub(crate) fn begin_answer(&mut self, key: Key, head: &AnswerHead<'_>) -> bool {
        let date = self.dates.at(self.now.wall_ms);
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        let is_written = if !connection.flags.is_h2_stream() {
            head.write_http1(&date, self.pool.queue(&mut connection.outgoing).tail())
        } else if let Some((head, body_bytes)) = head.to_http2(&date) {
            self.respond_by_h2_stream(key, head, body_bytes);
            true
        } else {
            false
        };
        if !is_written {
            self.end_unwritable(key);
        }
        is_written
    }

    /// An answer breaks the rules of HTTP, which is a defect of ours: its connection ends.
    pub(crate) fn end_unwritable(&mut self, key: Key) {
        tracing::error!(event = "http-response-invalid", "an answer cannot be written");
        self.end(key, &internal_error(), Farewell::Silent);
    }
}

/// The answer to a request whose session ended over it.
pub(crate) fn refusal(close: &Close) -> Response {
    Response::refusal(close.code.http(), close.code.slug(), &close.reason)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::CloseCode;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn head<'a>(status: u16, body: ResponseBody, is_head: bool) -> AnswerHead<'a> {
        AnswerHead { status, headers: &[("Content-Type", "a/b")], persists: false, body, is_head }
    }

    #[test]
    fn a_refusal_is_json_whatever_the_reason() {
        let close = Close::new(CloseCode::NotAuthorised, "no \"x\"\n\\ here");
        let response = refusal(&close);
        assert_eq!(response.status, 403);
        let text = String::from_utf8(response.body.into()).unwrap();
        let expected = "{\"code\":\"not-authorised\",\"message\":\"no \\\"x\\\"\\n\\\\ here\"}\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn both_forms_say_the_same() {
        for (status, body, is_head, length, left) in [
            (200, ResponseBody::Length(5), false, Some("5"), Some(5)),
            (200, ResponseBody::Length(5), true, Some("5"), Some(0)),
            (200, ResponseBody::Length(0), false, Some("0"), Some(0)),
            (304, ResponseBody::Length(5), false, None, Some(0)),
            (200, ResponseBody::UntilClose, false, None, None),
            (200, ResponseBody::UntilClose, true, None, Some(0)),
        ] {
            let head = head(status, body, is_head);
            let mut fields = vec![("date", DATE), ("content-type", "a/b")];
            fields.extend(length.map(|length| ("content-length", length)));
            let expected = Http2Head::new(status, fields.into_iter()).unwrap();
            assert_eq!(head.to_http2(DATE), Some((expected, left)), "{status} {body:?}");
            let mut text = Vec::new();
            assert!(head.write_http1(DATE, &mut text));
            let text = String::from_utf8(text).unwrap();
            let found = text.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            assert_eq!(found, length, "{status} {body:?}");
        }
    }

    #[test]
    fn what_http1_cannot_say_is_not_said_by_http2() {
        for header in [("X", "a\r\nb: c"), ("Connection", "close"), ("a b", "c")] {
            let headers = &[header];
            let head = AnswerHead { headers, ..head(200, ResponseBody::Length(0), false) };
            assert!(!head.write_http1(DATE, &mut Vec::new()), "{header:?}");
            assert_eq!(head.to_http2(DATE), None, "{header:?}");
        }
    }
}
