//! How a request's body is delimited, and other meanings of its fields (RFC 9112 sections 6
//! and 9, RFC 9110 sections 7.2 and 10.1.1).
//!
//! Relies on well-formed names and values. Invariant: a framing is returned only if no other
//! reading of the same fields is possible.

use crate::error::HttpError;
use crate::fields::{contains_token, header_tokens, is_token};
use crate::limits::Limits;
use crate::target::authority_valid;

/// How the body after the head is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body, or one of length zero.
    None,
    /// That many bytes.
    Length(u64),
    /// Chunks; decode with [`ChunkedDecoder`](crate::ChunkedDecoder).
    Chunked,
}

/// The fields of a head that govern the connection, gathered in one pass.
#[derive(Debug, Default)]
pub(crate) struct Fields<'a> {
    minor_version: u8,
    pub(crate) host: Option<&'a str>,
    content_length: Option<u64>,
    transfer_encoding: bool,
    /// Whether the last coding seen is chunked, and whether any other preceded it.
    chunked_last: bool,
    other_coding: bool,
    close: bool,
    keep_alive: bool,
    pub(crate) expects_continue: bool,
}

impl<'a> Fields<'a> {
    pub(crate) fn new(minor_version: u8) -> Self {
        Self { minor_version, ..Self::default() }
    }

    /// Takes one field; others than the governing ones are ignored.
    pub(crate) fn take(&mut self, name: &str, value: &'a [u8]) -> Result<(), HttpError> {
        if name.eq_ignore_ascii_case("host") {
            self.take_host(value)
        } else if name.eq_ignore_ascii_case("content-length") {
            self.take_content_length(value)
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            self.take_transfer_encoding(value)
        } else if name.eq_ignore_ascii_case("connection") {
            self.close |= contains_token(value, "close");
            self.keep_alive |= contains_token(value, "keep-alive");
            Ok(())
        } else if name.eq_ignore_ascii_case("expect") {
            if !value.eq_ignore_ascii_case(b"100-continue") {
                return Err(HttpError::ExpectationFailed);
            }
            // A client of HTTP/1.0 cannot mean it (RFC 9110 section 10.1.1).
            self.expects_continue = self.minor_version >= 1;
            Ok(())
        } else {
            Ok(())
        }
    }

    /// The framing, once every field has been taken (RFC 9112 section 6.3).
    pub(crate) fn body(&self, limits: &Limits) -> Result<Body, HttpError> {
        if self.host.is_none() && self.minor_version >= 1 {
            return Err(HttpError::HostMissing);
        }
        if self.transfer_encoding {
            if self.content_length.is_some() {
                return Err(HttpError::FramingConflict);
            }
            if self.minor_version == 0 || !self.chunked_last {
                return Err(HttpError::TransferEncodingInvalid);
            }
            if self.other_coding {
                return Err(HttpError::TransferEncodingUnsupported);
            }
            return Ok(Body::Chunked);
        }
        match self.content_length {
            None | Some(0) => Ok(Body::None),
            Some(length) if length > limits.body_bytes_max => Err(HttpError::BodyTooLarge),
            Some(length) => Ok(Body::Length(length)),
        }
    }

    /// Whether the connection persists after this exchange (RFC 9112 section 9.3).
    pub(crate) fn persists(&self) -> bool {
        !self.close && (self.minor_version >= 1 || self.keep_alive)
    }

    fn take_host(&mut self, value: &'a [u8]) -> Result<(), HttpError> {
        if self.host.is_some() {
            return Err(HttpError::HostRepeated);
        }
        if !authority_valid(value) {
            return Err(HttpError::HostInvalid);
        }
        self.host = Some(std::str::from_utf8(value).map_err(|_| HttpError::HostInvalid)?);
        Ok(())
    }

    fn take_content_length(&mut self, value: &[u8]) -> Result<(), HttpError> {
        if self.content_length.is_some() {
            return Err(HttpError::ContentLengthRepeated);
        }
        // Digits only: the standard parser would also take a plus sign.
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(HttpError::ContentLengthInvalid);
        }
        let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        self.content_length = Some(length.ok_or(HttpError::ContentLengthInvalid)?);
        Ok(())
    }

    fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), HttpError> {
        self.transfer_encoding = true;
        for coding in header_tokens(value) {
            // Nothing may follow chunked, itself included (RFC 9112 section 6.1).
            if !is_token(coding) || self.chunked_last {
                return Err(HttpError::TransferEncodingInvalid);
            }
            self.chunked_last = coding.eq_ignore_ascii_case(b"chunked");
            self.other_coding |= !self.chunked_last;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(minor_version: u8, fields: &[(&str, &str)]) -> Result<Body, HttpError> {
        let mut gathered = Fields::new(minor_version);
        for (name, value) in fields {
            gathered.take(name, value.as_bytes())?;
        }
        gathered.body(&Limits::default())
    }

    /// RFC 9112 section 6.3: the message body length is determined by one field or the other.
    #[test]
    fn framing_is_one_of_three() {
        let host = ("Host", "a");
        assert_eq!(body(1, &[host]), Ok(Body::None));
        assert_eq!(body(1, &[host, ("Content-Length", "0")]), Ok(Body::None));
        assert_eq!(body(1, &[host, ("content-LENGTH", "007")]), Ok(Body::Length(7)));
        assert_eq!(body(1, &[host, ("Transfer-Encoding", "CHUNKED")]), Ok(Body::Chunked));
        assert_eq!(body(1, &[host, ("Transfer-Encoding", ", chunked ,")]), Ok(Body::Chunked));
    }

    /// RFC 9112 section 6.3, item 4.3: chunked must be the final coding.
    #[test]
    fn chunked_must_be_last_and_alone() {
        let with = |value| body(1, &[("Host", "a"), ("Transfer-Encoding", value)]);
        assert_eq!(with("gzip, chunked"), Err(HttpError::TransferEncodingUnsupported));
        for value in ["", "gzip", "xchunked", "chunked, gzip", "chunked, chunked", "chunked;a=b"] {
            assert_eq!(with(value), Err(HttpError::TransferEncodingInvalid), "{value}");
        }
    }

    /// RFC 9112 section 9.3.
    #[test]
    fn persistence_follows_version_and_connection() {
        let persists = |minor_version, connection: &str| {
            let mut fields = Fields::new(minor_version);
            assert_eq!(fields.take("Connection", connection.as_bytes()), Ok(()));
            fields.persists()
        };
        assert!(persists(1, "") && persists(1, "upgrade") && persists(0, "Keep-Alive"));
        assert!(!persists(1, "TE, close") && !persists(0, "") && !persists(0, "keep-alive, close"));
    }
}
