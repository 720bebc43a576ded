//! Answers to requests: errors, payloads, and the fields that let pages of other origins read them.

use tiderace_wire::{Request, Response};

use crate::EngineOptions;
use crate::payload::Form;

/// Why a request is refused. The numbers are the specification's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    TransportUnknown = 0,
    SessionUnknown = 1,
    BadHandshakeMethod = 2,
    BadRequest = 3,
    Forbidden = 4,
    UnsupportedVersion = 5,
}

impl Refusal {
    fn message(self) -> &'static str {
        match self {
            Refusal::TransportUnknown => "Transport unknown",
            Refusal::SessionUnknown => "Session ID unknown",
            Refusal::BadHandshakeMethod => "Bad handshake method",
            Refusal::BadRequest => "Bad request",
            Refusal::Forbidden => "Forbidden",
            Refusal::UnsupportedVersion => "Unsupported protocol version",
        }
    }

    /// The answer; a reason is added for people who look for their mistake.
    pub(crate) fn answer(
        self,
        reason: Option<&str>,
        request: &Request<'_>,
        options: &EngineOptions,
    ) -> Response {
        let status = if self == Refusal::Forbidden { 403 } else { 400 };
        let mut body = format!(r#"{{"code":{},"message":"{}""#, self as u8, self.message());
        if let Some(reason) = reason {
            let mut quoted = Vec::new();
            tiderace_value::append_text(&mut quoted, reason);
            body.push_str(",\"reason\":");
            body.push_str(&String::from_utf8_lossy(&quoted));
        }
        body.push('}');
        let mut response = Response::new(status, "application/json", body);
        if self != Refusal::Forbidden {
            cross_origin(request, options, &mut response.headers);
        }
        response
    }
}

/// The answer to a request that brought packets.
pub(crate) fn taken(request: &Request<'_>, options: &EngineOptions) -> Response {
    // Some browsers would offer to save text/plain that is posted by a form.
    let mut response = Response::new(200, "text/html", "ok").with("Cache-Control", "no-store");
    cross_origin(request, options, &mut response.headers);
    response
}

/// The fields of an answer that brings packets.
pub(crate) fn payload_fields(
    form: Form,
    jsonp: bool,
    request: &Request<'_>,
    options: &EngineOptions,
) -> Vec<(&'static str, String)> {
    let kind = match form {
        _ if jsonp => "text/javascript; charset=UTF-8",
        Form::Text4 | Form::Text3 => "text/plain; charset=UTF-8",
        Form::Binary3 => "application/octet-stream",
    };
    let mut headers =
        vec![("Content-Type", kind.to_owned()), ("Cache-Control", "no-store".to_owned())];
    cross_origin(request, options, &mut headers);
    headers
}

/// The answer to a browser that asks whether it may send a request of another origin.
pub(crate) fn preflight(request: &Request<'_>, options: &EngineOptions) -> Response {
    let mut response = Response { status: 204, headers: Vec::new(), body: Vec::new() };
    cross_origin(request, options, &mut response.headers);
    if request.field("origin").is_none() {
        return response;
    }
    let asked = request.text_field("access-control-request-headers");
    let allowed = asked.filter(|names| names.bytes().all(is_plain)).unwrap_or("Content-Type");
    response
        .with("Access-Control-Allow-Methods", "GET, POST")
        .with("Access-Control-Allow-Headers", allowed)
        .with("Access-Control-Max-Age", "600")
}

/// Lets the page read the answer. The origin has been checked when the request was routed.
fn cross_origin(
    request: &Request<'_>,
    options: &EngineOptions,
    headers: &mut Vec<(&'static str, String)>,
) {
    let origin = request.text_field("origin");
    let Some(origin) = origin.filter(|origin| origin.bytes().all(is_plain)) else { return };
    headers.push(("Access-Control-Allow-Origin", origin.to_owned()));
    headers.push(("Vary", "Origin".to_owned()));
    if options.credentials {
        headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
    }
}

/// Whether a byte may stand in a field that is repeated in an answer.
pub(crate) fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x7f)
}
