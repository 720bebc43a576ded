//! Answers to requests: errors, payloads, and the fields that let pages of other origins read them.

use tiderace_wire::{Field, Held, Request, Response};

use crate::options::EngineOptions;
use crate::payload::Form;

/// Why a request is refused. The numbers are the specification's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    TransportUnknown = 0,
    SessionUnknown = 1,
    BadHandshakeMethod = 2,
    BadRequest = 3,
    UnsupportedVersion = 5,
}

impl Refusal {
    fn message(self) -> &'static str {
        match self {
            Refusal::TransportUnknown => "Transport unknown",
            Refusal::SessionUnknown => "Session ID unknown",
            Refusal::BadHandshakeMethod => "Bad handshake method",
            Refusal::BadRequest => "Bad request",
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
        let mut body = format!(r#"{{"code":{},"message":"{}""#, self as u8, self.message());
        if let Some(reason) = reason {
            let mut quoted = Vec::new();
            tiderace_value::append_text(&mut quoted, reason);
            body.push_str(",\"reason\":");
            body.push_str(&String::from_utf8_lossy(&quoted));
        }
        body.push('}');
        let mut response = Response::new(400, "application/json", body);
        cross_origin(request, options, &mut response.headers);
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

/// How a poll is answered.
pub(crate) fn held(
    form: Form,
    jsonp: bool,
    request: &Request<'_>,
    options: &EngineOptions,
) -> Held {
    let table = match form {
        _ if jsonp => &SCRIPT,
        Form::Text4 | Form::Text3 => &TEXT,
        Form::Binary3 => &BINARY,
    };
    let origin = readable_by(request);
    let count = match origin {
        None => 2,
        Some(_) if !options.credentials => 3,
        Some(_) => 4,
    };
    // Something was written with the separator before it.
    let skips_first = !jsonp && form.skip() > 0;
    let own = origin.map(|origin| Box::new((ALLOW_ORIGIN, origin.to_owned())));
    Held { common: table.get(..count).unwrap_or_default(), own, skips_first }
}

/// The fields of an answer that brings packets.
pub(crate) fn payload_fields(
    form: Form,
    jsonp: bool,
    request: &Request<'_>,
    options: &EngineOptions,
) -> Vec<(&'static str, String)> {
    let held = held(form, jsonp, request, options);
    held.fields().map(|(name, value)| (name, value.to_owned())).collect()
}

static TEXT: [Field; 4] = fields("text/plain; charset=UTF-8");
static SCRIPT: [Field; 4] = fields("text/javascript; charset=UTF-8");
static BINARY: [Field; 4] = fields("application/octet-stream");

/// The fields of all answers with that content: the first two for everybody, the third for pages of
/// other origins, the last for those that may send credentials.
const fn fields(content_type: &'static str) -> [Field; 4] {
    [
        ("Content-Type", content_type),
        ("Cache-Control", "no-store"),
        ("Vary", "Origin"),
        ("Access-Control-Allow-Credentials", "true"),
    ]
}

/// The answer to a browser that asks whether it may send a request of another origin.
pub(crate) fn preflight(request: &Request<'_>, options: &EngineOptions) -> Response {
    let mut response = Response { status: 204, ..Response::default() };
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

/// The page that may read the answer. Whether it may poll was decided before.
fn readable_by<'a>(request: &Request<'a>) -> Option<&'a str> {
    request.text_field("origin").filter(|origin| origin.bytes().all(is_plain))
}

const ALLOW_ORIGIN: &str = "Access-Control-Allow-Origin";

/// Lets the page read the answer.
fn cross_origin(
    request: &Request<'_>,
    options: &EngineOptions,
    headers: &mut Vec<(&'static str, String)>,
) {
    let Some(origin) = readable_by(request) else { return };
    headers.push((ALLOW_ORIGIN, origin.to_owned()));
    headers.push(("Vary", "Origin".to_owned()));
    if options.credentials {
        headers.push(("Access-Control-Allow-Credentials", "true".to_owned()));
    }
}

/// Whether a byte may stand in a field that is repeated in an answer.
pub(crate) fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x20..0x7f)
}
