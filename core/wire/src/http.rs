//! HTTP as protocols see it: requests whole, answers as values, and what a request means for a session.
//!
//! ```text
//!   head ─▶ HttpFace::route ─┬─ Respond ─▶ written at once
//!                            ├─ Open ────▶ a session begins ─▶ Session::request
//!                            └─ Session ─▶ found by its ticket ─▶ Session::request
//!                                                                  └─▶ Answer: Respond, Hold, Later, Stream
//! ```
//! The event loop reads bodies within the face's limit, moves the connection to the session's shard
//! and writes what was answered; protocols see neither connections nor framing.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use tiderace_value::append_text;

use crate::Ticket;

/// A request. While it is routed the body has not been read and is empty.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path, not decoded.
    pub path: &'a str,
    /// What follows the first `?`, not decoded.
    pub query: Option<&'a str>,
    /// The fields in order.
    pub fields: &'a [(&'a str, &'a [u8])],
    /// The body, whole.
    pub body: &'a [u8],
    /// Who asks.
    pub peer: SocketAddr,
}

impl<'a> Request<'a> {
    /// The value of the first field of that name, whatever the case.
    pub fn field(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.fields.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value)
    }

    /// The value of the first field of that name if it is UTF-8.
    pub fn text_field(&self, name: &str) -> Option<&'a str> {
        std::str::from_utf8(self.field(name)?).ok()
    }

    /// The first value of that name in the query, not decoded.
    pub fn query_value(&self, name: &str) -> Option<&'a str> {
        self.query?.split('&').find_map(|pair| {
            let (known, value) = pair.split_once('=').unwrap_or((pair, ""));
            (known == name).then_some(value)
        })
    }
}

/// An answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status, 200 to 599.
    pub status: u16,
    /// Fields, Content-Type among them; not Content-Length, Transfer-Encoding, Connection and Date.
    pub headers: Vec<(&'static str, String)>,
    /// The body; not sent in answer to HEAD. Large ones are sent by reference, so that many requests for
    /// one value hold it once.
    pub body: Bytes,
}

impl Response {
    /// An answer with a body of that content type.
    pub fn new(status: u16, content_type: &str, body: impl Into<Bytes>) -> Response {
        let headers = vec![("Content-Type", content_type.to_owned())];
        Response { status, headers, body: body.into() }
    }

    /// A refusal: `{"code":…,"message":…}` as JSON. The code is for programs and stays; the message is a
    /// sentence for people.
    pub fn refusal(status: u16, code: &str, message: &str) -> Response {
        let mut body = Vec::with_capacity(message.len() + 64);
        append_refusal(&mut body, code, message);
        body.push(b'\n');
        Response::new(status, "application/json", body)
    }

    /// Adds a field.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Response {
        self.headers.push((name, value.into()));
        self
    }
}

/// Appends the JSON object that says why something was refused.
pub fn append_refusal(out: &mut Vec<u8>, code: &str, message: &str) {
    out.extend_from_slice(b"{\"code\":");
    append_text(out, code);
    out.extend_from_slice(b",\"message\":");
    append_text(out, message);
    out.push(b'}');
}

/// Whose a request is.
#[derive(Clone, Debug)]
pub enum Route {
    /// It is answered without a session. An upgrade to WebSocket is refused with this.
    Respond(Response),
    /// A session of its own begins with it.
    Open,
    /// It is for the session of that ticket. A WebSocket that is to take a session over begins
    /// with a session of its own, on the same shard; see [`crate::Session::takeover`].
    Session(Ticket),
}

/// What a session makes of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This is the answer; a session that was opened for it ends if it says so.
    Respond(Response),
    /// The answer's body is what the session sends next: as much as is there when the turn ends, but
    /// at least something. Until then deliveries wait.
    Hold(Held),
    /// The answer comes with a later call, in [`crate::Context::respond`].
    Later,
    /// The head is written at once and what the session sends follows it until the session ends. The
    /// body of the response comes first. The connection is the session's from now on, and its framing
    /// that of the answer: every piece is to be written by [`crate::Framing::write`].
    Stream(Response),
}

/// How a held request is answered. Kept with every request that is held, so what all clients have in
/// common is not kept for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Fields with the same values for many clients, Content-Type among them.
    pub common: &'static [Field],
    /// A field with a value of this client's own.
    pub own: Option<Box<(&'static str, String)>>,
    /// Whether the first byte of what was sent is left out, such as a separator before the first packet.
    pub skips_first: bool,
}

impl Held {
    /// All fields.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let own = self.own.iter().map(|own| (own.0, own.1.as_str()));
        self.common.iter().copied().chain(own)
    }
}

/// A field of an answer whose value is known before any request.
pub type Field = (&'static str, &'static str);

/// Says whose a request is; `None` if the path is not the protocol's. Runs on a shard: it must not
/// wait for anything.
pub type RouteFn = dyn Fn(&Request<'_>) -> Option<Route> + Send + Sync;

/// How a protocol is reached by HTTP.
#[derive(Clone)]
pub struct HttpFace {
    /// Sorts requests, and upgrades to WebSocket on the protocol's paths.
    pub route: Arc<RouteFn>,
    /// The answer when no session has the ticket.
    pub unknown: Arc<dyn Fn(&Request<'_>) -> Response + Send + Sync>,
    /// The answer to a body above the limit.
    pub too_large: Arc<dyn Fn(&Request<'_>) -> Response + Send + Sync>,
    /// Bytes of a request body.
    pub body_bytes_max: usize,
    /// Of one that arrives in a file, if larger ones may.
    pub large_body_bytes_max: usize,
}

impl std::fmt::Debug for HttpFace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpFace")
            .field("body_bytes_max", &self.body_bytes_max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_request_is_answered_with_the_common_fields_and_its_own() {
        let common: &[Field] = &[("Content-Type", "text/plain"), ("Vary", "Origin")];
        let own = Some(Box::new(("Access-Control-Allow-Origin", "http://x".to_owned())));
        let held = Held { common, own, skips_first: false };
        let fields: Vec<_> = held.fields().collect();
        let all = [common, &[("Access-Control-Allow-Origin", "http://x")]].concat();
        assert_eq!(fields, all);
        assert_eq!(Held::default().fields().count(), 0);
    }

    #[test]
    fn fields_and_query_values_are_found() {
        let request = Request {
            method: "GET",
            path: "/engine.io/",
            query: Some("EIO=4&transport=polling&b64&sid=a=b"),
            fields: &[("Host", b"here"), ("ORIGIN", b"http://x"), ("bad", b"\xff")],
            body: b"",
            peer: SocketAddr::from(([127, 0, 0, 1], 1)),
        };
        assert_eq!(request.text_field("origin"), Some("http://x"));
        assert_eq!(request.text_field("bad"), None);
        assert_eq!(request.query_value("transport"), Some("polling"));
        assert_eq!(request.query_value("b64"), Some(""));
        assert_eq!(request.query_value("sid"), Some("a=b"));
        assert_eq!(request.query_value("missing"), None);
    }
}
