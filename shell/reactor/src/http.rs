//! HTTP requests: upgrades become WebSockets, the protocols' paths go to their sessions, all others
//! are answered by the composition root.
//!
//! ```text
//!   head ─▶ whose is it? ─┬─ an upgrade ─▶ Starting
//!                         ├─ a session's, on another shard ─▶ moves there, unread
//!                         ├─ a session's ─▶ body, bounded ─▶ Waiting ─▶ answered ─▶ next head
//!                         └─ nobody's ─▶ answered at once, body discarded ─▶ next head
//! ```
//! Relies on the HTTP crate for framing. Requests are answered in order. Invariant: after a request
//! whose framing is in doubt nothing more is read from the connection.

use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode, Key};
use tiderace_http1::{
    Body, ChunkedDecoder, HEADERS_CAPACITY, HttpError, RequestHead, ResponseBody,
};
use tiderace_http2::AnswerHead as Http2Head;
use tiderace_websocket::handshake::Acceptance;
use tiderace_wire::{Request, Response, Route};

use crate::connection::{Flags, Stage};
use crate::departure::Step;
use crate::driver::Driver;
use crate::http_answer::{AnswerHead, refusal};
use crate::http_stage::{BodyRest, HttpStage, KeptRequest, Taken, Work, take_body};
use crate::origins;
use crate::outcome::Farewell;
use crate::proxies;
use crate::shard::Shard;
use crate::upgrade::{Upgrade, upgrade};

impl<D: Driver> Shard<D> {
    /// The connection's first bytes are an HTTP request.
    pub(crate) fn begin_http(&mut self, key: Key) {
        self.set_stage(key, Stage::Http(HttpStage::default()));
        let head = self.shared.options.deadlines.head;
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::HEAD_BEGUN);
            connection.deadline = self.now.time + head;
        }
    }

    /// Handles the body or the request that the bytes begin with.
    pub(crate) fn http(&mut self, key: Key, bytes: &[u8]) -> Step {
        let keep_alive = self.shared.options.deadlines.keep_alive;
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(bytes.len());
        };
        if connection.is_clogged() {
            return Step::Wait(0);
        }
        let Stage::Http(stage) = &mut connection.stage else {
            return Step::Next(0);
        };
        match &mut stage.work {
            Work::Waiting(_) => return Step::Wait(0),
            Work::Collect(_) => return self.collect(key, bytes),
            Work::Skip(rest) => {
                let skipped = take_body(rest, &self.shared.options.http, bytes, |_| {});
                return match skipped {
                    Ok(Taken { consumed, over }) => {
                        if over {
                            stage.work = Work::Idle;
                            connection.flags.clear(Flags::HEAD_BEGUN);
                            connection.deadline = self.now.time + keep_alive;
                        }
                        if consumed == 0 { Step::Wait(0) } else { Step::Next(consumed) }
                    }
                    Err(error) => self.refuse_request(key, error, bytes.len()),
                };
            }
            Work::Idle => {}
        }
        if connection.flags.raise(Flags::HEAD_BEGUN) {
            connection.deadline = self.now.time + self.shared.options.deadlines.head;
        }
        match RequestHead::parse(&self.shared.options.http, &mut stage.scanner, bytes) {
            Ok(None) => Step::Wait(0),
            Ok(Some(head)) => self.request(key, &head, bytes),
            Err(error) => self.refuse_request(key, error, bytes.len()),
        }
    }

    fn request(&mut self, key: Key, head: &RequestHead<'_>, bytes: &[u8]) -> Step {
        let available = bytes.len();
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(available);
        };
        let mut fields = [("", &b""[..]); HEADERS_CAPACITY];
        let mut count = 0;
        for (slot, field) in fields.iter_mut().zip(head.headers()) {
            *slot = field;
            count += 1;
        }
        let peer = connection.peer.socket();
        let client = match self.shared.client_of(self.now.time, peer, head.headers()) {
            Ok(client) => client,
            Err(close) => return self.deny(key, head, &close, &refusal(&close), available),
        };
        let request = request_of(head, fields.get(..count).unwrap_or_default(), client);
        let hosts = self.shared.options.hosts.as_ref();
        if let Some(Err(close)) = hosts.map(|hosts| hosts.check(head.host(), &request)) {
            self.metrics.http_requests.add(1);
            return self.respond(key, head, refusal(&close), available);
        }
        address(&mut fields, &mut count, head.host());
        let request = request_of(head, fields.get(..count).unwrap_or_default(), client);
        let page = origins::check(&self.shared.options.origins, &request);
        let is_page_allowed = page.is_ok();
        match upgrade(&self.shared, self.id, head, &request, is_page_allowed) {
            Upgrade::None => {}
            Upgrade::Elsewhere(shard) => return Self::leave_for(shard),
            Upgrade::Accepted { protocol, subprotocol, pinned, acceptance } => {
                if !self.begin_upgraded(key, client, &acceptance) {
                    let close = proxies::too_many(client.ip());
                    let response = refusal(&close).with("Retry-After", "5");
                    return self.deny(key, head, &close, &response, available);
                }
                let request = Box::new(KeptRequest::of(&request));
                self.begin_websocket(key, protocol, subprotocol, request, pinned);
                return Step::Next(head.consumed());
            }
            Upgrade::Denied => {
                if let Err(close) = &page {
                    return self.deny_page(key, head, close, &request, available);
                }
            }
            Upgrade::Refused(response) => {
                self.metrics.http_requests.add(1);
                self.write_answer(key, &response, head.method() == "HEAD", false);
                self.end(key, &CloseCode::BadRequest.into(), Farewell::Silent);
                return Step::Wait(available);
            }
        }
        let face = self
            .shared
            .services
            .protocols
            .iter()
            .zip(0u16..)
            .find_map(|(known, index)| Some((index, (known.http.as_ref()?.route)(&request)?)));
        if let (Some(_), Err(close)) = (&face, &page) {
            return self.deny_page(key, head, close, &request, available);
        }
        match face {
            Some((_, Route::Session(ticket)))
                if ticket.shard != self.id && ticket.shard.index() < self.shared.wakers.len() =>
            {
                Self::leave_for(ticket.shard)
            }
            Some((protocol, route @ (Route::Open | Route::Session(_)))) => {
                self.metrics.http_requests.add(1);
                self.receive_body(key, protocol, route, &request, head, bytes)
            }
            found => {
                self.metrics.http_requests.add(1);
                let response = match found {
                    Some((_, Route::Respond(response))) => response,
                    _ => (self.shared.services.http)(&request, self.entrance_of(key)),
                };
                self.respond(key, head, response, available)
            }
        }
    }

    /// Answers a page that may not speak to the protocols.
    fn deny_page(
        &mut self,
        key: Key,
        head: &RequestHead<'_>,
        close: &Close,
        request: &Request<'_>,
        available: usize,
    ) -> Step {
        let peer = self.connections.get(key).map_or(request.peer, |it| it.peer.socket());
        let end = proxies::over_client(close, peer, request.peer);
        self.deny(key, head, &end, &origins::denied(close, request), available)
    }

    /// Answers a request that is refused for where it comes from. The connection ends, so that the log says why.
    fn deny(
        &mut self,
        key: Key,
        head: &RequestHead<'_>,
        close: &Close,
        response: &Response,
        available: usize,
    ) -> Step {
        self.metrics.http_requests.add(1);
        if self.write_answer(key, response, head.method() == "HEAD", false) {
            self.end(key, close, Farewell::Silent);
        }
        Step::Wait(available)
    }

    /// Answers a request that is no session's; its body is discarded.
    pub(crate) fn respond(
        &mut self,
        key: Key,
        head: &RequestHead<'_>,
        response: Response,
        available: usize,
    ) -> Step {
        // A client that waits for "100 Continue" may or may not send the body after this answer.
        let persists = head.keep_alive()
            && !head.expects_continue()
            && self.stopping.is_none()
            && !self.is_last_answer(key, response.status);
        let is_head = head.method() == "HEAD";
        if !self.write_answer(key, &response, is_head, persists) {
            return Step::Wait(available);
        }
        if !persists {
            self.end(key, &CloseCode::Done.into(), Farewell::Silent);
            return Step::Wait(available);
        }
        if let Some(connection) = self.connections.get_mut(key)
            && let Stage::Http(stage) = &mut connection.stage
        {
            // While a body is due the head's deadline goes on.
            stage.work = match head.body() {
                Body::None => Work::Idle,
                Body::Length(length) => Work::Skip(Box::new(BodyRest::Length(length))),
                Body::Chunked => Work::Skip(Box::new(BodyRest::Chunked(ChunkedDecoder::default()))),
            };
            if matches!(stage.work, Work::Idle) {
                connection.flags.clear(Flags::HEAD_BEGUN);
                connection.deadline = self.now.time + self.shared.options.deadlines.keep_alive;
            }
        }
        Step::Next(head.consumed())
    }

    /// Appends an answer to what the connection sends; false if it cannot be written, and then the
    /// connection has ended.
    pub(crate) fn write_answer(
        &mut self,
        key: Key,
        response: &Response,
        is_head: bool,
        persists: bool,
    ) -> bool {
        let headers: Vec<(&str, &str)> =
            response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let body = ResponseBody::Length(response.body.len() as u64);
        let head =
            AnswerHead { status: response.status, headers: &headers, persists, body, is_head };
        if !self.begin_answer(key, &head) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return false;
        };
        if head.has_body() {
            self.pool.queue(&mut connection.outgoing).share(response.body.clone());
        }
        self.lists.write(key, &mut connection.flags);
        true
    }

    /// Tells a client that its connection is a WebSocket from now on; false if it has as many connections as it may.
    fn begin_upgraded(
        &mut self,
        key: Key,
        client: SocketAddr,
        acceptance: &Acceptance<'_>,
    ) -> bool {
        if !self.claim(key, client) {
            return false;
        }
        self.metrics.http_requests.add(1);
        let Some(connection) = self.connections.get_mut(key) else {
            return true;
        };
        connection.flags.clear(Flags::HEAD_BEGUN);
        self.lists.write(key, &mut connection.flags);
        if connection.flags.is_h2_stream() {
            // RFC 8441 section 5: success is 200 there, and the key is not answered.
            let subprotocol = acceptance.subprotocol.map(|name| ("sec-websocket-protocol", name));
            if let Some(head) = Http2Head::new(200, subprotocol.into_iter()) {
                self.respond_by_h2_stream(key, head, None);
            }
        } else {
            acceptance.write_response(self.pool.queue(&mut connection.outgoing).tail());
        }
        true
    }

    pub(crate) fn refuse_request(&mut self, key: Key, error: HttpError, available: usize) -> Step {
        let response = Response::refusal(error.status(), error.code(), &error.to_string());
        self.write_answer(key, &response, false, false);
        self.end(key, &Close::new(CloseCode::BadRequest, error.to_string()), Farewell::Silent);
        Step::Wait(available)
    }
}

/// A request without its body.
fn request_of<'a>(
    head: &'a RequestHead<'a>,
    fields: &'a [(&'a str, &'a [u8])],
    peer: SocketAddr,
) -> Request<'a> {
    let (method, path, query) = (head.method(), head.path(), head.query());
    Request { method, path, query, fields, body: b"", peer }
}

/// What a request's target says of the host counts in place of the field (RFC 9112 section 3.2.2).
fn address<'a>(fields: &mut [(&'a str, &'a [u8])], count: &mut usize, host: &'a str) {
    if host.is_empty() {
        return;
    }
    let known = fields.iter().take(*count).position(|(name, _)| name.eq_ignore_ascii_case("host"));
    if let Some(field) = fields.get_mut(known.unwrap_or(*count)) {
        *field = ("host", host.as_bytes());
        *count += usize::from(known.is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_the_target_counts_in_place_of_the_field() {
        let addressed = |field: &'static [(&str, &[u8])], host: &'static str| {
            let mut fields = [("", &b""[..]); 2];
            for (slot, field) in fields.iter_mut().zip(field) {
                *slot = *field;
            }
            let mut count = field.len();
            address(&mut fields, &mut count, host);
            fields.get(..count).map(<[_]>::to_vec)
        };
        let host = |host: &'static [u8]| ("host", host);
        let own: &[(&str, &[u8])] = &[("Host", b"a"), ("x", b"y")];
        assert_eq!(addressed(own, ""), Some(own.to_vec()));
        assert_eq!(addressed(own, "b:1"), Some(vec![host(b"b:1"), ("x", b"y")]));
        assert_eq!(addressed(&[("x", b"y")], "b"), Some(vec![("x", &b"y"[..]), host(b"b")]));
        assert_eq!(addressed(&[], ""), Some(Vec::new()));
    }
}
