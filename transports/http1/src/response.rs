//! Responses written to a buffer (RFC 9112 sections 4, 6 and 7.1).
//!
//! Relies on the caller for the date. Invariant: a response either is written whole with one
//! unambiguous framing or is not written at all; no value can add a line.

use crate::fields::{is_token, is_value_byte};

/// A response head; the body follows by one of the `write` methods.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status, 100 to 599.
    pub status: u16,
    /// Fields besides Content-Length, Transfer-Encoding, Connection and Date, which are written
    /// from what the response is.
    pub headers: &'a [(&'a str, &'a str)],
    /// The value of Date, if the caller has a clock (RFC 9110 section 6.6.1).
    pub date: Option<&'a str>,
    /// Whether the connection persists.
    pub connection: Connection,
}

/// Whether the connection persists after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// The connection closes.
    Close,
    /// The connection persists; said aloud, for HTTP/1.0 clients need to hear it.
    KeepAlive,
}

/// How a response body is delimited (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// By [`write_chunk`] and [`write_last_chunk`]; not for clients of HTTP/1.0.
    Chunked,
    /// By its length in bytes; also what HEAD would have had.
    Length(u64),
    /// By the end of the connection, which is forced to close.
    UntilClose,
}

/// Why a response cannot be written; a mistake of the server, not of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// A field name is not a token.
    #[error("a header name is not a token")]
    HeaderNameInvalid,
    /// A field belongs to the writer.
    #[error("Content-Length, Transfer-Encoding, Connection and Date are written by the response")]
    HeaderReserved,
    /// A field value has a control character.
    #[error("a header value has a control character")]
    HeaderValueInvalid,
    /// The status is not between 100 and 599.
    #[error("the status is not between 100 and 599")]
    StatusInvalid,
}

impl Response<'_> {
    /// Appends the whole response.
    ///
    /// Statuses that have no body (1xx, 204, 304) are written without one.
    ///
    /// # Errors
    ///
    /// A [`ResponseError`]; nothing is written then.
    pub fn write(&self, out: &mut Vec<u8>, body: &[u8]) -> Result<(), ResponseError> {
        self.write_head(out, ResponseBody::Length(body.len() as u64))?;
        if !self.bodiless() {
            out.extend_from_slice(body);
        }
        Ok(())
    }

    /// Appends the head of a response whose body follows.
    ///
    /// # Errors
    ///
    /// A [`ResponseError`]; nothing is written then.
    pub fn write_head(&self, out: &mut Vec<u8>, body: ResponseBody) -> Result<(), ResponseError> {
        self.check()?;
        out.extend_from_slice(b"HTTP/1.1 ");
        push_decimal(out, self.status.into());
        out.push(b' ');
        out.extend_from_slice(reason(self.status).as_bytes());
        out.extend_from_slice(b"\r\n");
        if let Some(date) = self.date {
            push_field(out, "Date", date);
        }
        for (name, value) in self.headers {
            push_field(out, name, value);
        }
        match body {
            // RFC 9112 section 6.3, item 1: these end at the empty line.
            _ if self.bodiless() => {}
            ResponseBody::Chunked => push_field(out, "Transfer-Encoding", "chunked"),
            ResponseBody::Length(length) => {
                out.extend_from_slice(b"Content-Length: ");
                push_decimal(out, length);
                out.extend_from_slice(b"\r\n");
            }
            ResponseBody::UntilClose => {}
        }
        let closes = self.connection == Connection::Close
            || (body == ResponseBody::UntilClose && !self.bodiless());
        // An interim response says nothing about the connection.
        if self.status >= 200 {
            push_field(out, "Connection", if closes { "close" } else { "keep-alive" });
        }
        out.extend_from_slice(b"\r\n");
        Ok(())
    }

    fn bodiless(&self) -> bool {
        matches!(self.status, 100..=199 | 204 | 304)
    }

    /// Whether it keeps the rules of HTTP.
    ///
    /// # Errors
    ///
    /// A [`ResponseError`] if it does not.
    pub fn check(&self) -> Result<(), ResponseError> {
        if !(100..600).contains(&self.status) {
            return Err(ResponseError::StatusInvalid);
        }
        for (name, _) in self.headers {
            if !is_token(name.as_bytes()) {
                return Err(ResponseError::HeaderNameInvalid);
            }
            if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
                return Err(ResponseError::HeaderReserved);
            }
        }
        let mut values = self.headers.iter().map(|(_, value)| *value).chain(self.date);
        if values.all(|value| value.bytes().all(is_value_byte)) {
            Ok(())
        } else {
            Err(ResponseError::HeaderValueInvalid)
        }
    }
}

/// Appends one chunk of a chunked body; empty data is skipped, for it would end the body.
pub fn write_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    // Fifteen hexadecimal digits are enough for any length in memory; skip leading zeros.
    let digits = (usize::BITS - data.len().leading_zeros()).div_ceil(4);
    for index in (0..digits).rev() {
        let nibble = (data.len() >> (index * 4)) & 0xF;
        out.push(b"0123456789abcdef".get(nibble).copied().unwrap_or(b'0'));
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body.
pub fn write_last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n\r\n");
}

fn push_field(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

fn push_decimal(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// The customary phrase; clients ignore it (RFC 9112 section 4).
const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        422 => "Unprocessable Content",
        426 => "Upgrade Required",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}

const RESERVED: [&str; 4] = ["Content-Length", "Transfer-Encoding", "Connection", "Date"];

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::error::HttpError;

    fn response(status: u16) -> Response<'static> {
        Response { status, headers: &[], date: None, connection: Connection::KeepAlive }
    }

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_responses_state_length_and_connection() {
        let full = Response {
            headers: &[("Content-Type", "text/plain")],
            date: Some("Sat, 21 Nov 2026 08:00:00 GMT"),
            connection: Connection::Close,
            ..response(200)
        };
        assert_eq!(
            text(|out| full.write(out, b"hello").unwrap()),
            "HTTP/1.1 200 OK\r\nDate: Sat, 21 Nov 2026 08:00:00 GMT\r\nContent-Type: text/plain\r\n\
             Content-Length: 5\r\nConnection: close\r\n\r\nhello"
        );
    }

    /// RFC 9110 sections 8.6 and 15.3.5, RFC 9112 section 6.3.
    #[test]
    fn bodiless_statuses_have_neither_body_nor_length() {
        assert_eq!(
            text(|out| response(100).write(out, b"x").unwrap()),
            "HTTP/1.1 100 Continue\r\n\r\n"
        );
        for status in [204, 304] {
            let written = text(|out| response(status).write(out, b"x").unwrap());
            assert!(!written.contains("Content-Length") && written.ends_with("\r\n\r\n"));
        }
    }

    #[test]
    fn streams_are_chunked_or_end_with_the_connection() {
        let chunked = text(|out| {
            response(200).write_head(out, ResponseBody::Chunked).unwrap();
            write_chunk(out, b"");
            write_chunk(out, &[b'x'; 16]);
            write_last_chunk(out);
        });
        assert!(chunked.contains("Transfer-Encoding: chunked\r\n"));
        assert!(chunked.ends_with("\r\n\r\n10\r\nxxxxxxxxxxxxxxxx\r\n0\r\n\r\n"));
        let until_close =
            text(|out| response(200).write_head(out, ResponseBody::UntilClose).unwrap());
        assert_eq!(until_close, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    }

    #[test]
    fn nothing_is_written_when_a_field_could_break_the_head() {
        for (headers, error) in [
            (&[("X", "a\r\nSet-Cookie: b")][..], ResponseError::HeaderValueInvalid),
            (&[("X", "\0")], ResponseError::HeaderValueInvalid),
            (&[("X:", "a")], ResponseError::HeaderNameInvalid),
            (&[("", "a")], ResponseError::HeaderNameInvalid),
            (&[("content-length", "1")], ResponseError::HeaderReserved),
        ] {
            let mut out = Vec::new();
            let result = Response { headers, ..response(200) }.write(&mut out, b"");
            assert_eq!((result, out.len()), (Err(error), 0));
        }
        assert_eq!(response(99).write(&mut Vec::new(), b""), Err(ResponseError::StatusInvalid));
    }

    #[test]
    fn every_error_has_a_status_with_a_phrase() {
        for error in HttpError::ALL {
            assert!((400..600).contains(&error.status()), "{error:?}");
            assert!(!reason(error.status()).is_empty(), "{error:?}");
        }
    }
}
