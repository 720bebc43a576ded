//! Bodies of requests that are for a protocol.
//!
//! ```text
//!   head ─▶ whose session? ─┬─ one that has logged in ──────────────▶ body, up to the protocol's limit
//!                           ├─ one that has not ────────────────────▶ body, up to the limit before the login
//!                           └─ a new one: logs in by the head ─┬─ in ▶ body, up to the protocol's limit
//!                                                              └─ no ▶ answered; the body is not read
//! ```
//! Relies on the HTTP crate for framing. Invariant: of a client that has not logged in no more is read than
//! the limit before the login, whatever the head announces.

use bytes::Bytes;
use tiderace_base::{CloseCode, Key};
use tiderace_http1::{Body, ChunkedDecoder, RequestHead};
use tiderace_http2::AnswerHead;
use tiderace_wire::{Request, Route};

use crate::connection::{Connection, Flags, Stage};
use crate::departure::Step;
use crate::driver::Driver;
use crate::http_stage::{
    Admission, Asked, BodyRest, Collected, HttpStage, KeptRequest, Work, take_body,
};
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Reads the body of a protocol's request, unless it is there already.
    pub(crate) fn receive_body(
        &mut self,
        key: Key,
        protocol: u16,
        route: Route,
        request: &Request<'_>,
        head: &RequestHead<'_>,
        bytes: &[u8],
    ) -> Step {
        let Some(face) = self.shared.services.protocols.get(usize::from(protocol)) else {
            return Step::Wait(bytes.len());
        };
        let Some(face) = &face.http else { return Step::Wait(bytes.len()) };
        let (mut most, too_large) = (face.body_bytes_max, face.too_large.clone());
        if self.shared.services.spool.is_some() {
            most = most.max(face.large_body_bytes_max);
        }
        let early = self.shared.options.ahead_bytes_max;
        let mut granted = Admission::Granted;
        if let Route::Session(ticket) = &route
            && head.body() != Body::None
        {
            let Some(session) = self.holder(key, protocol, ticket) else {
                let response = self.unknown(protocol, request);
                return self.respond(key, head, response, bytes.len());
            };
            if !self.is_established(session) {
                most = most.min(early);
                granted = Admission::Early;
            }
        }
        let persists = head.keep_alive() && self.stopping.is_none();
        // A stream of HTTP/2 ends with its answer, and needs no chunks to tell.
        let is_stream = |it: &Connection<D::Stream>| it.flags.is_h2_stream();
        let chunks = head.minor_version() > 0 && !self.connections.get(key).is_some_and(is_stream);
        let rest = match head.body() {
            Body::None => None,
            Body::Length(length) if length > most as u64 => {
                let response = too_large(request);
                return self.respond(key, head, response, bytes.len());
            }
            Body::Length(length) => Some(BodyRest::Length(length)),
            Body::Chunked => Some(BodyRest::Chunked(ChunkedDecoder::default())),
        };
        let behind = bytes.get(head.consumed()..).unwrap_or_default();
        let length = match rest {
            None => 0,
            Some(BodyRest::Length(length)) => usize::try_from(length).unwrap_or(usize::MAX),
            Some(BodyRest::Chunked(_)) => usize::MAX,
        };
        if let Some(body) = behind.get(..length) {
            let request = Request { body, ..*request };
            let is_head = head.method() == "HEAD";
            let asked = Asked { session: key, is_head, persists, chunks };
            if !self.ask(key, protocol, &route, &request, asked, None) {
                return Step::Wait(0);
            }
            return Step::Next(head.consumed() + length);
        }
        let deadlines = self.shared.options.deadlines;
        let by = self.now.time + deadlines.message;
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(bytes.len());
        };
        connection.deadline = by.min(self.now.time + deadlines.frame);
        let opens = matches!(route, Route::Open);
        let expects = head.expects_continue();
        let admission = Admission::Awaited { expects };
        if let Stage::Http(stage) = &mut connection.stage {
            let request = KeptRequest::of(request);
            stage.work = Work::Collect(Box::new(Collected {
                protocol,
                route,
                request,
                rest,
                persists,
                chunks,
                by,
                most,
                session: None,
                admission,
            }));
        }
        if opens {
            self.judge_head(key, protocol, request);
        } else {
            self.admit_body(key, granted);
        }
        Step::Next(head.consumed())
    }

    /// Opens the session of a request whose body has yet to come, and lets it log in by the head.
    fn judge_head(&mut self, key: Key, protocol: u16, request: &Request<'_>) {
        let session = match self.open_for_request(key, protocol, request) {
            Ok(session) => session,
            Err(response) => return self.answer(key, &response),
        };
        if let Some(collected) = self.collected(key) {
            collected.session = Some(session);
        }
        let mut judges = false;
        let called = self.call(session, |session, now, context| {
            judges = session.head(now, request, context)?;
            Ok(())
        });
        self.settle(session, called);
        self.drain_effects();
        if !judges {
            self.admit_body(key, Admission::Early);
        }
    }

    /// A session's login has been decided: the connection whose request waits for that goes on.
    pub(crate) fn wake_request(&mut self, session: Key) {
        let Some(key) = self.asking(session) else { return };
        if let Some(connection) = self.connections.get_mut(key)
            && matches!(&connection.stage, Stage::Http(HttpStage { work: Work::Collect(_), .. }))
        {
            self.lists.again(key, &mut connection.flags);
        }
    }

    fn collected(&mut self, key: Key) -> Option<&mut Collected> {
        match &mut self.connections.get_mut(key)?.stage {
            Stage::Http(HttpStage { work: Work::Collect(collected), .. }) => Some(collected),
            _ => None,
        }
    }

    /// The body may be read.
    fn admit_body(&mut self, key: Key, admission: Admission) {
        let early = self.shared.options.ahead_bytes_max;
        let Some(collected) = self.collected(key) else { return };
        let Admission::Awaited { expects } = collected.admission else { return };
        collected.admission = admission;
        if admission == Admission::Early {
            collected.most = collected.most.min(early);
        }
        let Some(connection) = self.connections.get_mut(key) else { return };
        if expects && connection.flags.is_h2_stream() {
            self.respond_by_h2_stream(key, AnswerHead::proceed(), None);
        } else if expects {
            let out = self.pool.queue(&mut connection.outgoing).tail();
            out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.lists.write(key, &mut connection.flags);
        }
        if admission == Admission::Granted {
            self.trust_h2(key);
        }
    }

    /// Adds to a body, and gives the request to its session when it is whole.
    pub(crate) fn collect(&mut self, key: Key, bytes: &[u8]) -> Step {
        let frame = self.shared.options.deadlines.frame;
        let awaited = self.collected(key).filter(|it| it.is_awaiting()).map(|it| it.session);
        match awaited {
            Some(Some(session)) if !self.is_established(session) => return Step::Wait(0),
            Some(_) => self.admit_body(key, Admission::Granted),
            None => {}
        }
        if self.connections.get(key).is_some_and(|it| it.flags.has(Flags::STORING)) {
            let Some(body) = self.large_body(key) else { return Step::Wait(0) };
            return self.ask_with_file(key, body);
        }
        self.begin_file_of_body(key);
        let Some(connection) = self.connections.get_mut(key) else {
            return Step::Wait(bytes.len());
        };
        let in_file = connection.flags.has(Flags::IN_FILE);
        let Stage::Http(stage) = &mut connection.stage else {
            return Step::Next(0);
        };
        let Work::Collect(collected) = &mut stage.work else {
            return Step::Next(0);
        };
        if in_file {
            return self.collect_in_file(key, bytes);
        }
        let face = self.shared.services.protocols.get(usize::from(collected.protocol));
        let Some(face) = face.and_then(|protocol| protocol.http.as_ref()) else {
            return Step::Wait(bytes.len());
        };
        let mut consumed = 0;
        if let Some(rest) = &mut collected.rest {
            let body = &mut collected.request.body;
            let taken = take_body(rest, &self.shared.options.http, bytes, |part| {
                body.extend_from_slice(part);
            });
            let taken = match taken {
                Ok(taken) => taken,
                Err(error) => return self.refuse_request(key, error, bytes.len()),
            };
            if body.len() > collected.most {
                let response = collected.request.with(|request| (face.too_large)(request));
                self.write_answer(key, &response, false, false);
                self.end(key, &CloseCode::FrameTooLarge.into(), Farewell::Silent);
                return Step::Wait(bytes.len());
            }
            consumed = taken.consumed;
            if !taken.over {
                connection.deadline = collected.by.min(self.now.time + frame);
                return if consumed == 0 { Step::Wait(0) } else { Step::Next(consumed) };
            }
            collected.rest = None;
        }
        let Work::Collect(collected) = std::mem::take(&mut stage.work) else {
            return Step::Next(consumed);
        };
        let is_head = collected.request.method == "HEAD";
        let Collected { persists, chunks, session, .. } = *collected;
        let asked = Asked { session: key, is_head, persists, chunks };
        let (protocol, route) = (collected.protocol, &collected.route);
        let done = collected
            .request
            .with(|request| self.ask(key, protocol, route, request, asked, session));
        if done {
            return Step::Next(consumed);
        }
        // Its session does not take it now: it is offered again when this connection's turn comes.
        if let Some(connection) = self.connections.get_mut(key)
            && let Stage::Http(stage) = &mut connection.stage
        {
            stage.work = Work::Collect(collected);
        }
        Step::Wait(consumed)
    }

    /// A body that grows large goes into a file from now on.
    fn begin_file_of_body(&mut self, key: Key) {
        let bytes_min = self.shared.options.large_bytes_min;
        let in_file = |it: &Connection<D::Stream>| it.flags.has(Flags::IN_FILE);
        if self.shared.services.spool.is_none() || self.connections.get(key).is_some_and(in_file) {
            return;
        }
        let Some(collected) = self.collected(key) else { return };
        let is_large = match &collected.rest {
            Some(BodyRest::Length(left)) => {
                *left as usize + collected.request.body.len() >= bytes_min
            }
            Some(BodyRest::Chunked(_)) => collected.request.body.len() >= bytes_min,
            None => false,
        };
        let (protocol, is_known) = (collected.protocol, collected.is_known());
        let Some(session) = collected.session.filter(|_| is_large && is_known) else { return };
        let face = self.shared.services.protocols.get(usize::from(protocol));
        let face = face.and_then(|protocol| protocol.http.as_ref());
        if face.is_none_or(|face| face.large_body_bytes_max == 0) {
            return;
        }
        let Some(collected) = self.collected(key) else { return };
        let body = std::mem::take(&mut collected.request.body);
        if !self.begin_large_body(key, session, &body)
            && let Some(collected) = self.collected(key)
        {
            collected.request.body = body;
        }
    }

    /// Adds to a body that goes into a file.
    fn collect_in_file(&mut self, key: Key, bytes: &[u8]) -> Step {
        let frame = self.shared.options.deadlines.frame;
        let Some(connection) = self.connections.get_mut(key) else { return Step::Wait(0) };
        let Stage::Http(HttpStage { work: Work::Collect(collected), .. }) = &mut connection.stage
        else {
            return Step::Next(0);
        };
        let Collected { rest: Some(rest), most, .. } = &mut **collected else {
            return Step::Wait(0);
        };
        let (most, mut outcome) = (*most as u64, Ok(()));
        let Some(upload) = self.large_input.arriving(key) else { return Step::Wait(0) };
        let taken = take_body(rest, &self.shared.options.http, bytes, |part| {
            outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| upload.append(part));
        });
        let (is_too_large, is_behind) = (upload.len() > most, upload.is_behind());
        let taken = match (taken, outcome) {
            (Err(error), _) => return self.refuse_request(key, error, bytes.len()),
            (Ok(_), Err(error)) => {
                self.fail_large(key, &error);
                return Step::Wait(bytes.len());
            }
            (Ok(_), Ok(())) if is_too_large => return self.refuse_large_body(key, bytes.len()),
            (Ok(taken), Ok(())) => taken,
        };
        connection.deadline = self.now.time + frame;
        if taken.over || is_behind {
            connection.flags.set(Flags::STORING);
        }
        // What is behind it waits until it has been answered.
        if taken.over {
            upload.finish();
            return Step::Wait(taken.consumed);
        }
        if taken.consumed == 0 { Step::Wait(0) } else { Step::Next(taken.consumed) }
    }

    fn refuse_large_body(&mut self, key: Key, taken: usize) -> Step {
        let shared = self.shared.clone();
        if let Some(collected) = self.collected(key)
            && let Some(face) = shared.services.protocols.get(usize::from(collected.protocol))
            && let Some(face) = &face.http
        {
            let response = collected.request.with(|request| (face.too_large)(request));
            self.write_answer(key, &response, false, false);
        }
        self.end(key, &CloseCode::FrameTooLarge.into(), Farewell::Silent);
        Step::Wait(taken)
    }

    /// Gives a request to its session whose body lies in a file.
    fn ask_with_file(&mut self, key: Key, body: Bytes) -> Step {
        let Some(connection) = self.connections.get_mut(key) else { return Step::Wait(0) };
        let Stage::Http(stage) = &mut connection.stage else { return Step::Next(0) };
        let Work::Collect(collected) = std::mem::take(&mut stage.work) else {
            return Step::Next(0);
        };
        let is_head = collected.request.method == "HEAD";
        let Collected { persists, chunks, session, .. } = *collected;
        let asked = Asked { session: key, is_head, persists, chunks };
        let (protocol, route) = (collected.protocol, &collected.route);
        self.commands.set_input_file(Some(body.clone()));
        let done = collected.request.with(|request| {
            let request = Request { body: &body, ..*request };
            self.ask(key, protocol, route, &request, asked, session)
        });
        self.commands.set_input_file(None);
        if done {
            self.forget_large(key);
            return Step::Next(0);
        }
        // Its session does not take it now: it is offered again when this connection's turn comes.
        if let Some(connection) = self.connections.get_mut(key)
            && let Stage::Http(stage) = &mut connection.stage
        {
            stage.work = Work::Collect(collected);
        }
        Step::Wait(0)
    }
}
