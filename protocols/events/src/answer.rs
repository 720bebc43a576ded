//! Answers: errors as `{"code":…,"message":…}` with the right status, and what all answers carry.
//!
//! Relies on the table of close codes for names that stay. Invariant: text of a client's that comes
//! back in a field is visible ASCII.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Response, append_refusal};

use crate::content::PATCH_TYPES;

/// Why a request is not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: u16,
    pub(crate) code: &'static str,
    pub(crate) message: Cow<'static, str>,
}

impl Fault {
    /// One of the codes of the table, with a sentence of its own.
    pub(crate) fn new(code: CloseCode, message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::from(Close::new(code, message))
    }

    /// What only requests by HTTP can meet.
    pub(crate) fn of_http(fault: HttpFault, message: impl Into<Cow<'static, str>>) -> Fault {
        let (status, code) = fault.row();
        Fault { status, code, message: message.into() }
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(CloseCode::BadRequest, message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::of_http(HttpFault::NotFound, message)
    }

    pub(crate) fn response(&self) -> Response {
        let response = Response::refusal(self.status, self.code, &self.message)
            .with("Cache-Control", "no-store");
        match self.status {
            // Browsers would ask people for a password if Basic were offered here.
            401 => response.with("WWW-Authenticate", "Bearer realm=\"tiderace\""),
            429 | 503 => response.with("Retry-After", "5"),
            // RFC 5789 section 2.2. Nothing but patches is refused for its type.
            415 => response.with("Accept-Patch", PATCH_TYPES),
            _ => response,
        }
    }

    /// Appends it as a JSON object.
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        append_refusal(out, self.code, &self.message);
    }
}

/// Faults of requests that no other protocol knows, and which end nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HttpFault {
    /// Nothing is at that path.
    NotFound,
    /// The path does not take that method.
    MethodNotAllowed,
    /// None of the types that the client takes can be given.
    NotAcceptable,
    /// The body is of a type that is not taken here.
    UnsupportedMediaType,
    /// A request with that idempotency key is being worked on.
    InProgress,
    /// That idempotency key belongs to another request.
    KeyReused,
    /// As many lists are being made as may be.
    ListsBusy,
    /// The server did not answer in time; the request may be done yet.
    Timeout,
}

impl HttpFault {
    /// Its status, and its short name in answers.
    fn row(self) -> (u16, &'static str) {
        match self {
            HttpFault::NotFound => (404, "not-found"),
            HttpFault::MethodNotAllowed => (405, "method-not-allowed"),
            HttpFault::NotAcceptable => (406, "not-acceptable"),
            HttpFault::UnsupportedMediaType => (415, "unsupported-media-type"),
            HttpFault::InProgress => (409, "in-progress"),
            HttpFault::KeyReused => (422, "key-reused"),
            HttpFault::ListsBusy => (503, "lists-busy"),
            HttpFault::Timeout => (504, "timeout"),
        }
    }
}

impl From<Close> for Fault {
    /// The broker or the table of close codes says so.
    fn from(close: Close) -> Fault {
        Fault { status: close.code.http(), code: close.code.slug(), message: close.reason }
    }
}

/// An answer in JSON.
pub(crate) fn json(status: u16, body: Vec<u8>) -> Response {
    Response::new(status, "application/json", body).with("Cache-Control", "no-store")
}

/// Lets a page of that origin read the answer.
pub(crate) fn share(response: Response, origin: Option<&str>) -> Response {
    let response = response.with("X-Content-Type-Options", "nosniff");
    match origin {
        None => response,
        Some(origin) => response
            .with("Access-Control-Allow-Origin", origin)
            .with("Access-Control-Expose-Headers", "ETag, Tiderace-Version")
            .with("Vary", "Origin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_json_with_their_status() {
        let fault = Fault::from(Close::new(CloseCode::NotAuthorised, "no \"x\"\n here"));
        let response = fault.response();
        assert_eq!(response.status, 403);
        let text = String::from_utf8_lossy(&response.body);
        assert_eq!(text, "{\"code\":\"not-authorised\",\"message\":\"no \\\"x\\\"\\n here\"}\n");
    }

    #[test]
    fn statuses_tell_clients_what_to_do() {
        let status = |code: CloseCode| Fault::from(Close::from(code)).response().status;
        assert_eq!(status(CloseCode::LoginRequired), 401);
        assert_eq!(status(CloseCode::TooManyLogins), 429);
        assert_eq!(status(CloseCode::MemoryFull), 503);
        assert_eq!(status(CloseCode::BadDestination), 400);
        let response = Fault::from(Close::from(CloseCode::LoginFailed)).response();
        assert!(response.headers.iter().any(|(name, _)| *name == "WWW-Authenticate"));
    }
}
