//! HTTP requests: upgrades become WebSockets, all others are answered by the composition root.
//!
//! Relies on the HTTP crate for framing. Requests are answered in order; bodies are discarded, for
//! nothing served here has a use for them yet. Invariant: after a request whose framing is in doubt
//! nothing more is read from the connection.

use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode, Key};
use tiderace_http1::{
    Body, ChunkEvent, ChunkedDecoder, Connection as Persistence, HttpError, RequestHead, Response,
    ResponseBody, write_error,
};

use crate::close::Farewell;
use crate::connection::{BodyRest, Flags, Stage};
use crate::date::http_date;
use crate::driver::Driver;
use crate::read::Step;
use crate::shard::Shard;
use crate::upgrade::{Rejected, Upgrade, upgrade};

/// Answers a request. Runs on a shard: it must not wait for anything.
pub type HttpHandler = dyn Fn(&HttpRequest<'_>) -> HttpResponse + Send + Sync;

/// A request that does not ask for a WebSocket.
#[derive(Clone, Copy, Debug)]
pub struct HttpRequest<'a> {
    /// The method, as sent.
    pub method: &'a str,
    /// The path, not decoded.
    pub path: &'a str,
    /// What follows the first `?`, not decoded.
    pub query: Option<&'a str>,
    /// Who asks.
    pub peer: SocketAddr,
    head: &'a RequestHead<'a>,
}

impl<'a> HttpRequest<'a> {
    /// The value of the first field of that name, whatever the case.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.head.header(name)
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpResponse {
    /// The status, 200 to 599.
    pub status: u16,
    /// Fields, Content-Type among them; not Content-Length, Transfer-Encoding, Connection and Date.
    pub headers: Vec<(&'static str, String)>,
    /// The body; not sent in answer to HEAD.
    pub body: Vec<u8>,
}

impl<D: Driver> Shard<D> {
    /// The connection's first bytes are an HTTP request.
    pub(crate) fn begin_http(&mut self, key: Key) {
        self.set_stage(key, Stage::Http(Box::default()));
        let head = self.shared.options.deadlines.head;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::HEAD_BEGUN);
            connection.deadline = self.now.time + head;
        }
    }

    /// Handles the body or the request that the bytes begin with.
    pub(crate) fn http(&mut self, key: Key, bytes: &[u8]) -> Step {
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(bytes.len());
        };
        if connection.is_clogged() {
            return Step::Wait(0);
        }
        let Stage::Http(stage) = &mut connection.stage else {
            return Step::Next(0);
        };
        let limits = &self.shared.options.http;
        if let Some(step) = skip_body(&mut stage.body, limits, bytes) {
            return step.unwrap_or_else(|error| self.refuse_request(key, error, bytes.len()));
        }
        if connection.flags.raise(Flags::HEAD_BEGUN) {
            connection.deadline = self.now.time + self.shared.options.deadlines.head;
        }
        match RequestHead::parse(limits, &mut stage.scanner, bytes) {
            Ok(None) => Step::Wait(0),
            Ok(Some(head)) => self.request(key, &head, bytes.len()),
            Err(error) => self.refuse_request(key, error, bytes.len()),
        }
    }

    fn request(&mut self, key: Key, head: &RequestHead<'_>, available: usize) -> Step {
        self.metrics.http_requests.add(1);
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(available);
        };
        let out = self.pool.queue(&mut connection.outgoing).tail();
        match upgrade(&self.shared, self.now, head, out) {
            Upgrade::None => self.respond(key, head, available),
            Upgrade::Accepted { protocol, subprotocol } => {
                connection.flags.clear(Flags::HEAD_BEGUN);
                self.lists.write(key, &mut connection.flags);
                self.begin_session(key, protocol, true, subprotocol);
                Step::Next(head.consumed())
            }
            Upgrade::Refused(reason) => {
                let code = match reason {
                    Rejected::Origin => CloseCode::OriginDenied,
                    Rejected::Request => CloseCode::BadRequest,
                };
                self.end(key, &code.into(), Farewell::Silent);
                Step::Wait(available)
            }
        }
    }

    fn respond(&mut self, key: Key, head: &RequestHead<'_>, available: usize) -> Step {
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(available);
        };
        let request = HttpRequest {
            method: head.method(),
            path: head.path(),
            query: head.query(),
            peer: connection.peer.socket(),
            head,
        };
        let response = (self.shared.services.http)(&request);
        // A client that waits for "100 Continue" may or may not send the body after this answer.
        let persists = head.keep_alive() && !head.expects_continue() && self.stopping.is_none();
        let date = http_date(self.now.wall_ms);
        let out = self.pool.queue(&mut connection.outgoing).tail();
        if !write_response(out, &response, &date, persists, head.method() == "HEAD") {
            tracing::error!(
                event = "http-response-invalid",
                path = head.path(),
                "the answer cannot be written"
            );
            self.end(key, &crate::session::internal_error(), Farewell::Silent);
            return Step::Wait(available);
        }
        self.lists.write(key, &mut connection.flags);
        if !persists {
            self.end(key, &CloseCode::Done.into(), Farewell::Silent);
            return Step::Wait(available);
        }
        if let Stage::Http(stage) = &mut connection.stage {
            stage.body = match head.body() {
                Body::None => BodyRest::None,
                Body::Length(length) => BodyRest::Length(length),
                Body::Chunked => BodyRest::Chunked(ChunkedDecoder::default()),
            };
            // While a body is due the head's deadline goes on.
            if matches!(stage.body, BodyRest::None) {
                connection.flags.clear(Flags::HEAD_BEGUN);
                connection.deadline = self.now.time + self.shared.options.deadlines.keep_alive;
            }
        }
        Step::Next(head.consumed())
    }

    fn refuse_request(&mut self, key: Key, error: HttpError, available: usize) -> Step {
        if let Some(connection) = self.connections.get_mut(key) {
            let date = http_date(self.now.wall_ms);
            write_error(self.pool.queue(&mut connection.outgoing).tail(), error, Some(&date));
        }
        self.end(key, &Close::new(CloseCode::BadRequest, error.to_string()), Farewell::Silent);
        Step::Wait(available)
    }
}

/// Discards what there is of a body; `None` if no body is due.
fn skip_body(
    body: &mut BodyRest,
    limits: &tiderace_http1::Limits,
    bytes: &[u8],
) -> Option<Result<Step, HttpError>> {
    match body {
        BodyRest::None => None,
        BodyRest::Length(left) => {
            let skipped = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
            *left -= skipped as u64;
            if *left == 0 {
                *body = BodyRest::None;
            }
            Some(Ok(Step::Next(skipped)))
        }
        BodyRest::Chunked(decoder) => Some(decoder.decode(limits, bytes).map(|decoded| {
            match decoded.event {
                ChunkEvent::Incomplete => return Step::Wait(decoded.consumed),
                ChunkEvent::Data(_) => {}
                ChunkEvent::End => *body = BodyRest::None,
            }
            Step::Next(decoded.consumed)
        })),
    }
}

/// Appends an answer; false if it breaks the rules of HTTP.
fn write_response(
    out: &mut Vec<u8>,
    response: &HttpResponse,
    date: &str,
    persists: bool,
    is_head: bool,
) -> bool {
    let headers: Vec<(&str, &str)> =
        response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let head = Response {
        status: response.status,
        headers: &headers,
        date: Some(date),
        connection: if persists { Persistence::KeepAlive } else { Persistence::Close },
    };
    if is_head {
        head.write_head(out, ResponseBody::Length(response.body.len() as u64)).is_ok()
    } else {
        head.write(out, &response.body).is_ok()
    }
}
