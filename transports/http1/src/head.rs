//! A whole request head, borrowed from the input.
//!
//! Relies on `httparse` to split it and on the scanner to have found its end. Invariant: a
//! [`RequestHead`] exists only if its request line, every field and its framing are valid and
//! unambiguous.

use httparse::{EMPTY_HEADER, Header, Request, Status};

use crate::error::HttpError;
use crate::fields::{header_tokens, is_value_byte};
use crate::framing::{Body, Fields};
use crate::limits::{HEADERS_CAPACITY, Limits};
use crate::scan::HeadScanner;
use crate::target::Target;

/// A request head whose every part has been checked.
#[derive(Debug)]
pub struct RequestHead<'a> {
    consumed: usize,
    method: &'a str,
    target_text: &'a str,
    target: Target<'a>,
    minor_version: u8,
    fields: Fields<'a>,
    body: Body,
    headers: [Header<'a>; HEADERS_CAPACITY],
    header_count: usize,
}

impl<'a> RequestHead<'a> {
    /// Parses the head at the beginning of `input`, which holds all bytes received since the
    /// request began.
    ///
    /// Returns `None` while the head is not whole. When it is, the scanner is ready for the next
    /// request, and the caller drops [`RequestHead::consumed`] bytes.
    ///
    /// # Errors
    ///
    /// An [`HttpError`], to be answered; then the connection closes.
    pub fn parse(
        limits: &Limits,
        scanner: &mut HeadScanner,
        input: &'a [u8],
    ) -> Result<Option<Self>, HttpError> {
        let Some(consumed) = scanner.scan(limits, input)? else {
            return Ok(None);
        };
        scanner.reset();
        let mut bytes = input.get(..consumed).unwrap_or_default();
        while let Some(rest) = bytes.strip_prefix(b"\r\n") {
            bytes = rest;
        }
        Self::parse_whole(limits, consumed, bytes).map(Some)
    }

    fn parse_whole(limits: &Limits, consumed: usize, bytes: &'a [u8]) -> Result<Self, HttpError> {
        let mut headers = [EMPTY_HEADER; HEADERS_CAPACITY];
        let room = headers.get_mut(..limits.headers_max.min(HEADERS_CAPACITY));
        let mut request = Request::new(room.unwrap_or_default());
        match request.parse(bytes) {
            // The parser must agree with the scanner about where the head ends.
            Ok(Status::Complete(len)) if len == bytes.len() => {}
            Ok(_) => return Err(HttpError::HeaderInvalid),
            Err(error) => return Err(explain(error, bytes)),
        }
        let method = request.method.ok_or(HttpError::RequestLineInvalid)?;
        let target_text = request.path.ok_or(HttpError::RequestLineInvalid)?;
        let minor_version = request.version.ok_or(HttpError::RequestLineInvalid)?;
        let header_count = request.headers.len();

        let target = Target::parse(method == "OPTIONS", target_text.as_bytes())?;
        let mut fields = Fields::new(minor_version);
        for header in headers.iter().take(header_count) {
            if !header.value.iter().copied().all(is_value_byte) {
                return Err(HttpError::HeaderInvalid);
            }
            fields.take(header.name, header.value)?;
        }
        let body = fields.body(limits)?;
        Ok(Self {
            consumed,
            method,
            target_text,
            target,
            minor_version,
            fields,
            body,
            headers,
            header_count,
        })
    }

    /// Bytes of input the head takes; the body begins there.
    #[must_use]
    pub const fn consumed(&self) -> usize {
        self.consumed
    }

    /// The method, case-sensitive as sent (RFC 9110 section 9.1).
    #[must_use]
    pub const fn method(&self) -> &'a str {
        self.method
    }

    /// The request target as sent.
    #[must_use]
    pub const fn target(&self) -> &'a str {
        self.target_text
    }

    /// The path, not percent-decoded; `*` for OPTIONS in asterisk-form.
    #[must_use]
    pub const fn path(&self) -> &'a str {
        self.target.path
    }

    /// What follows the first `?`, not percent-decoded.
    #[must_use]
    pub const fn query(&self) -> Option<&'a str> {
        self.target.query
    }

    /// The host addressed: the target's in absolute-form, else the `Host` header's
    /// (RFC 9112 section 3.2.2). Empty if neither names one.
    #[must_use]
    pub fn host(&self) -> &'a str {
        self.target.authority.or(self.fields.host).unwrap_or_default()
    }

    /// The minor version of HTTP/1: 0 or 1.
    #[must_use]
    pub const fn minor_version(&self) -> u8 {
        self.minor_version
    }

    /// How the body is delimited.
    #[must_use]
    pub const fn body(&self) -> Body {
        self.body
    }

    /// Whether the connection persists after this exchange (RFC 9112 section 9.3).
    #[must_use]
    pub fn keep_alive(&self) -> bool {
        self.fields.persists()
    }

    /// Whether the client waits for `100 Continue` before it sends the body.
    #[must_use]
    pub const fn expects_continue(&self) -> bool {
        self.fields.expects_continue
    }

    /// All fields in their order, values without surrounding blanks.
    pub fn headers(&self) -> impl Iterator<Item = (&'a str, &'a [u8])> {
        self.headers.iter().take(self.header_count).map(|header| (header.name, header.value))
    }

    /// The value of the first field of that name, whatever the case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.headers()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// The members of the lists in all fields of that name (RFC 9110 section 5.3).
    pub fn header_tokens(&self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.headers()
            .filter(move |(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .flat_map(|(_, value)| header_tokens(value))
    }
}

/// Finds the most telling name for what `httparse` refused.
fn explain(error: httparse::Error, bytes: &[u8]) -> HttpError {
    match error {
        httparse::Error::TooManyHeaders => HttpError::HeadersTooMany,
        httparse::Error::HeaderName | httparse::Error::HeaderValue | httparse::Error::NewLine => {
            explain_header(bytes)
        }
        httparse::Error::Version => HttpError::VersionUnsupported,
        _ => HttpError::RequestLineInvalid,
    }
}

fn explain_header(bytes: &[u8]) -> HttpError {
    for line in bytes.split(|byte| *byte == b'\n').skip(1) {
        let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
        if blank(line.first()) {
            return HttpError::ObsoleteFolding;
        }
        let colon = line.iter().position(|byte| *byte == b':');
        if blank(colon.and_then(|colon| line.get(..colon)).and_then(<[u8]>::last)) {
            return HttpError::SpaceBeforeColon;
        }
    }
    HttpError::HeaderInvalid
}
