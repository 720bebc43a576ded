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
    pub(crate) fn new(
        status: u16,
        code: &'static str,
        message: impl Into<Cow<'static, str>>,
    ) -> Fault {
        Fault { status, code, message: message.into() }
    }

    /// The request makes no sense.
    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(400, CloseCode::BadRequest.slug(), message)
    }

    /// There is no such thing.
    pub(crate) fn not_found(message: impl Into<Cow<'static, str>>) -> Fault {
        Fault::new(404, "not-found", message)
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

impl From<Close> for Fault {
    /// The broker or the table of close codes says so.
    fn from(close: Close) -> Fault {
        Fault { status: status(close.code), code: close.code.slug(), message: close.reason }
    }
}

/// An answer in JSON.
pub(crate) fn json(status: u16, body: Vec<u8>) -> Response {
    Response::new(status, "application/json", body).with("Cache-Control", "no-store")
}

/// The status that says what the close code says.
fn status(code: CloseCode) -> u16 {
    match code {
        CloseCode::LoginFailed | CloseCode::LoginRequired => 401,
        CloseCode::NotAuthorised
        | CloseCode::OriginDenied
        | CloseCode::NotOwner
        | CloseCode::TopicReadOnly => 403,
        CloseCode::TopicUnknown | CloseCode::ViewUnknown => 404,
        CloseCode::TopicExists | CloseCode::TopicClaimed | CloseCode::LockHeld => 409,
        CloseCode::ConditionFailed => 412,
        CloseCode::BadValue | CloseCode::BadPatch => 422,
        CloseCode::FrameTooLarge | CloseCode::TransactionTooLarge => 413,
        CloseCode::TooManyLogins
        | CloseCode::TooManyConnections
        | CloseCode::TooManySubscriptions
        | CloseCode::TooManyReceipts
        | CloseCode::TooManyCalls => 429,
        CloseCode::InternalError | CloseCode::TransportError => 500,
        CloseCode::ResponderGone | CloseCode::CallCancelled => 502,
        CloseCode::ShuttingDown
        | CloseCode::MemoryFull
        | CloseCode::StoreUnavailable
        | CloseCode::TooManyTopics
        | CloseCode::SlowConsumer
        | CloseCode::NoResponder
        | CloseCode::ServiceBusy => 503,
        CloseCode::CallTimeout => 504,
        _ => 400,
    }
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
