//! Sessions that are carried by requests: long polling, and sessions that last for one request.
//!
//! Such a session is a record without a stream. It counts as writable while a request of its client
//! is held; what it then sends becomes the body of the answer, by reference. The connection that
//! brought the request waits meanwhile in `Stage::Http` with `Work::Waiting`. Invariants: a waiting
//! connection and the session that is to answer it name each other, until exactly one answer or the
//! end of either; a session has at most one request waiting.

use std::net::SocketAddr;

use tiderace_base::{Close, CloseCode, Key, Time};
use tiderace_http1::ResponseBody;
use tiderace_wire::{Answer, Held, Opening, Request, Response, Route, Ticket};

use crate::connection::{Flags, Live, Origin, Pending, Requests, Stage, Transport};
use crate::driver::Driver;
use crate::http_answer::{AnswerHead, refusal};
use crate::http_stage::{Asked, Work};
use crate::outcome::{Called, Ended, Farewell};
use crate::proxies;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Gives a whole request to its session; false if that does not take it now, and then the
    /// connection is offered again later.
    pub(crate) fn ask(
        &mut self,
        key: Key,
        protocol: u16,
        route: &Route,
        request: &Request<'_>,
        asked: Asked,
        begun: Option<Key>,
    ) -> bool {
        let session = match (begun, route) {
            (Some(session), _) => {
                // It waited for the body, and not for an answer.
                self.take_pending(session);
                Some(session)
            }
            (None, Route::Open) => match self.open_carried(key, protocol, request) {
                Ok(session) => Some(session),
                Err(response) => {
                    self.set_work(key, Work::Waiting(Asked { session: key, ..asked }));
                    self.answer(key, &response);
                    return true;
                }
            },
            (None, Route::Session(ticket)) => self.holder(key, protocol, ticket),
            (None, Route::Respond(_)) => None,
        };
        let Some(session) = session else {
            self.set_work(key, Work::Waiting(Asked { session: key, ..asked }));
            let response = self.unknown(protocol, request);
            self.answer(key, &response);
            return true;
        };
        if !request.body.is_empty() {
            match self.block(session, key) {
                Block::TakesIn => {}
                Block::Waits => return false,
                Block::Refused => {
                    self.set_work(key, Work::Waiting(Asked { session: key, ..asked }));
                    let reason = "the client sends more than a `[[limit]]` allows, in more requests than can wait";
                    self.answer(key, &refusal(&Close::new(CloseCode::RateLimited, reason)));
                    return true;
                }
            }
        }
        self.set_work(key, Work::Waiting(Asked { session, ..asked }));
        let mut answer = None;
        let Called { outcome, mut actions } = self.call(session, |session, now, context| {
            answer = Some(session.request(now, request, context)?);
            Ok(())
        });
        // Answers to the request before this one come first.
        let (finished, _) = self.perform(session, &mut actions);
        self.spare.give_actions(actions);
        match (answer, &outcome) {
            (Some(Answer::Respond(response)), _) => self.answer(key, &response),
            (Some(Answer::Hold(held)), _) => self.hold_request(session, key, Some(held)),
            (Some(Answer::Later), _) => self.hold_request(session, key, None),
            (Some(Answer::Stream(response)), _) => self.stream_answer(session, key, &response),
            (None, Err(Ended(close, _))) => {
                let response = refusal(close);
                self.answer(key, &response);
            }
            (None, Ok(())) => {
                let response = refusal(&CloseCode::InternalError.into());
                self.answer(key, &response);
            }
        }
        self.conclude(session, outcome.and(finished));
        if self.is_established(session) {
            self.trust_h2(key);
        }
        self.answer_known(session);
        self.end_lost(session);
        self.count_input(session);
        self.rearm(session);
        self.drain_effects();
        true
    }

    /// The connection whose request waits for a session.
    pub(crate) fn asking(&mut self, session: Key) -> Option<Key> {
        match &self.connections.get_mut(session)?.live()?.transport {
            Transport::Requests(requests) => Some(requests.pending.as_ref()?.connection),
            _ => None,
        }
    }

    /// Opens the session of a record.
    pub(crate) fn open_session(
        &mut self,
        key: Key,
        protocol: u16,
        transport: Transport,
        origin: Origin<'_>,
    ) {
        let secret = self.driver.random();
        let shared = self.shared.clone();
        let Some(registered) = shared.services.protocols.get(usize::from(protocol)) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let id = self.broker.open_as(self.now, key.slot, registered.name);
        if let Some(host) = origin.request.and_then(|request| request.text_field("host")) {
            self.broker.name_host(id, host);
        }
        let opening = Opening {
            subprotocol: origin.subprotocol,
            request: origin.request,
            unknown: origin.unknown,
            ticket: Ticket { shard: self.id, key, secret },
            epoch: shared.services.broker.epoch,
            shard: self.id,
            shards: shared.wakers.len(),
            temporary: self.broker.temporary_name(id),
            ..Opening::new(transport.framing(), connection.peer.socket(), self.now)
        };
        let session = (registered.open)(&opening);
        self.session_begins.set(key.slot, self.now.wall_s());
        connection.deadline = self.now.time + shared.options.deadlines.login;
        let live = Live { session, id, protocol, verifying: false, transport };
        self.set_stage(key, Stage::Live(live));
        if self.traces.are_on() {
            self.trace_begun(key, registered.name);
        }
        let called = self.call(key, |session, now, context| session.begin(now, context));
        self.settle(key, called);
        self.rearm(key);
        self.drain_effects();
        self.end_if_blocked(key);
    }

    /// The record of the session of that ticket, if it is here and knows the ticket's secret, and what asks for it has come by the
    /// same way as that session.
    pub(crate) fn holder(&mut self, by: Key, protocol: u16, ticket: &Ticket) -> Option<Key> {
        if ticket.shard != self.id || self.entrance_of(by) != self.entrance_of(ticket.key) {
            return None;
        }
        let live = self.connections.get_mut(ticket.key)?.live()?;
        let known = live.protocol == protocol && live.session.secret() == Some(ticket.secret);
        known.then_some(ticket.key)
    }

    pub(crate) fn unknown(&self, protocol: u16, request: &Request<'_>) -> Response {
        let registered = self.shared.services.protocols.get(usize::from(protocol));
        let face = registered.and_then(|registered| registered.http.as_ref());
        face.map_or_else(|| refusal(&CloseCode::BadRequest.into()), |face| (face.unknown)(request))
    }

    /// Whether the session takes nothing in now; then the connection waits for its turn.
    fn block(&mut self, session: Key, key: Key) -> Block {
        let Some(record) = self.connections.get_mut(session) else {
            return Block::TakesIn;
        };
        let flags = record.flags;
        if !flags.is_slowed() {
            return Block::TakesIn;
        }
        if let Some(Live { transport: Transport::Requests(requests), .. }) = record.live() {
            let mut blocked = requests.blocked.take().unwrap_or_default();
            // Some have been closed meanwhile.
            let waits =
                |key: &Key| self.connections.get(*key).is_some_and(|it| it.flags.has(Flags::HELD));
            blocked.retain(waits);
            let has_room = blocked.len() < BLOCKED_MAX;
            if has_room {
                blocked.push(key);
            }
            if let Some(Live { transport: Transport::Requests(requests), .. }) =
                self.connections.get_mut(session).and_then(|record| record.live())
            {
                requests.blocked = Some(blocked);
            }
            if !has_room {
                // A full destination keeps nobody else back for long; a rate has to hold.
                return match flags.has(Flags::THROTTLED) {
                    true => Block::Refused,
                    false => Block::TakesIn,
                };
            }
        }
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::HELD);
            connection.deadline = Time::NEVER;
        }
        Block::Waits
    }

    /// The session takes requests in again.
    pub(crate) fn unblock(&mut self, session: Key) {
        let blocked = match self.connections.get_mut(session).and_then(|record| record.live()) {
            Some(Live { transport: Transport::Requests(requests), .. }) => requests.blocked.take(),
            _ => return,
        };
        self.offer_again(blocked);
    }

    fn offer_again(&mut self, blocked: Option<Box<Vec<Key>>>) {
        for key in blocked.into_iter().flat_map(|blocked| *blocked) {
            if let Some(connection) = self.connections.get_mut(key) {
                self.lists.again(key, &mut connection.flags);
            }
        }
    }

    /// The session will answer the request by what it sends, or later.
    fn hold_request(&mut self, session: Key, key: Key, held: Option<Held>) {
        if let Some(connection) = self.connections.get_mut(key) {
            connection.deadline = Time::NEVER;
        }
        // An interim answer may have left it an empty one, and it may be idle for long now.
        self.reclaim(key);
        let Some(record) = self.connections.get_mut(session) else {
            return;
        };
        let holds = held.is_some();
        let Some(Live { transport: Transport::Requests(requests), .. }) = record.live() else {
            return self.answer(key, &refusal(&CloseCode::UnexpectedFrame.into()));
        };
        let before = requests.pending.replace(Pending { connection: key, held });
        if holds {
            record.flags.set(Flags::WRITABLE);
            let speaks = record.outgoing.as_ref().is_some_and(|out| !out.queue.is_empty());
            let waits = record.live().map(|live| (live.id, live.session.wants_write()));
            if speaks {
                self.lists.write(session, &mut record.flags);
            } else if waits
                .is_some_and(|(id, wants_write)| wants_write || self.broker.has_backlog(id))
            {
                // It may wait for more to go along with it, as it would if it came now.
                self.list_deliveries(session);
            }
        } else {
            record.flags.clear(Flags::WRITABLE);
        }
        if let Some(before) = before {
            self.answer(before.connection, &refusal(&CloseCode::UnexpectedFrame.into()));
        }
    }

    /// Answers the session's waiting request, if there is one.
    pub(crate) fn respond_pending(&mut self, session: Key, response: &Response) {
        if let Some(pending) = self.take_pending(session) {
            self.answer(pending.connection, response);
            self.end_lost(session);
        }
    }

    /// The same with an answer that goes on until the session ends.
    pub(crate) fn stream_pending(&mut self, session: Key, response: &Response) {
        if let Some(pending) = self.take_pending(session) {
            self.stream_answer(session, pending.connection, response);
        }
    }

    /// Answers the session's waiting request if the session knows the answer by now.
    pub(crate) fn answer_known(&mut self, session: Key) {
        let now = self.now;
        let Some(record) = self.connections.get_mut(session) else {
            return;
        };
        let Some(live) = record.live() else { return };
        let waits = match &live.transport {
            Transport::Requests(requests) => requests.pending.is_some(),
            _ => false,
        };
        if !waits || self.broker.has_backlog(live.id) {
            return;
        }
        if let Some(response) = live.session.answer(now)
            && let Some(pending) = self.take_pending(session)
        {
            self.answer(pending.connection, &response);
            self.end_lost(session);
        }
    }

    /// Ends a session that has answered its request and that nobody can come back to.
    fn end_lost(&mut self, session: Key) {
        let live = self.connections.get_mut(session).and_then(|record| record.live());
        let lost = live.is_some_and(|live| match &live.transport {
            Transport::Requests(requests) => {
                requests.pending.is_none() && live.session.secret().is_none()
            }
            _ => false,
        });
        if lost {
            self.end(session, &CloseCode::Done.into(), Farewell::Silent);
        }
    }

    fn take_pending(&mut self, session: Key) -> Option<Pending> {
        let record = self.connections.get_mut(session)?;
        if record.is_carried() {
            record.flags.clear(Flags::WRITABLE);
        }
        match record.live() {
            Some(Live { transport: Transport::Requests(requests), .. }) => requests.pending.take(),
            _ => None,
        }
    }

    /// Writes the answer to the request that a connection waits with.
    pub(crate) fn answer(&mut self, key: Key, response: &Response) {
        let Some(asked) = self.waiting(key) else {
            return;
        };
        let persists = asked.persists && !self.is_last_answer(key, response.status);
        if self.write_answer(key, response, asked.is_head, persists) {
            self.next_request(key, persists);
        }
    }

    fn waiting(&mut self, key: Key) -> Option<Asked> {
        let connection = self.connections.get_mut(key)?;
        let is_leaving = connection.flags.has(Flags::LEAVING);
        let asked = match &connection.stage {
            Stage::Http(stage) => match &stage.work {
                Work::Waiting(asked) => *asked,
                Work::Collect(collected) => collected.asked(collected.session().unwrap_or(key)),
                _ => return None,
            },
            _ => return None,
        };
        Some(Asked { persists: asked.persists && !is_leaving, ..asked })
    }

    /// What a session without a stream has sent goes out as the answer to its held request. Says
    /// how many bytes.
    pub(crate) fn write_carried(&mut self, session: Key) -> usize {
        let Some(record) = self.connections.get_mut(session) else {
            return 0;
        };
        let something = record.outgoing.as_ref().is_some_and(|out| !out.queue.is_empty());
        let requests = match record.live() {
            Some(Live { transport: Transport::Requests(requests), .. }) => requests,
            _ => {
                // An internal session speaks to nobody.
                if let Some(outgoing) = record.outgoing.take() {
                    self.pool.give_queue(outgoing);
                }
                return 0;
            }
        };
        let waits = requests.pending.as_ref().is_some_and(|pending| pending.held.is_some());
        if !something || !waits {
            return 0;
        }
        match self.take_pending(session) {
            Some(Pending { connection, held: Some(held) }) => {
                let written = self.answer_held(session, connection, &held);
                self.end_lost(session);
                written
            }
            _ => 0,
        }
    }

    fn answer_held(&mut self, session: Key, key: Key, held: &Held) -> usize {
        let Some(asked) = self.waiting(key) else {
            return 0;
        };
        let outgoing = self.connections.get_mut(session).and_then(|record| record.outgoing.take());
        let Some(mut body) = outgoing else { return 0 };
        self.uncount_backlog(Some(&body));
        body.counted = 0;
        body.queue.advance(usize::from(held.skips_first).min(body.queue.len()));
        let length = body.queue.len();
        let headers: Vec<(&str, &str)> = held.fields().collect();
        let head = AnswerHead {
            status: 200,
            headers: &headers,
            persists: asked.persists,
            body: ResponseBody::Length(length as u64),
            is_head: asked.is_head,
        };
        if asked.is_head {
            body.queue.clear(0);
        }
        if self.connections.get(key).is_some_and(|connection| connection.flags.is_h2_stream()) {
            if !self.begin_answer(key, &head) {
                return 0;
            }
        } else {
            let mut text = Vec::with_capacity(HEAD_BYTES);
            let date = self.dates.at(self.now.wall_ms);
            if !head.write_http1(&date, &mut text) {
                self.end_unwritable(key);
                return 0;
            }
            body.queue.prepend(text);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return 0;
        };
        match &mut connection.outgoing {
            None => connection.outgoing = Some(body),
            Some(before) => {
                before.queue.append(&mut body.queue);
                self.pool.give_queue(body);
            }
        }
        self.lists.write(key, &mut connection.flags);
        self.next_request(key, asked.persists);
        // Now, not in the next turn: the client has waited long enough.
        self.write(key);
        length
    }

    /// A request has been answered: the connection goes on to the next.
    fn next_request(&mut self, key: Key, persists: bool) {
        self.set_work(key, Work::Idle);
        if !persists {
            return self.end(key, &CloseCode::Done.into(), Farewell::Silent);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        connection.flags.clear(Flags::HEAD_BEGUN);
        connection.deadline = self.now.time + self.shared.options.deadlines.keep_alive;
        if connection.input.is_some()
            || connection.flags.has(Flags::HELD)
            || connection.flags.is_peer_ended()
        {
            self.lists.again(key, &mut connection.flags);
        }
        self.rearm(key);
    }

    fn set_work(&mut self, key: Key, work: Work) {
        if let Some(connection) = self.connections.get_mut(key)
            && let Stage::Http(stage) = &mut connection.stage
        {
            stage.work = work;
        }
    }

    /// The answer goes on until the session ends: it gets the connection.
    fn stream_answer(&mut self, session: Key, key: Key, response: &Response) {
        let Some(asked) = self.waiting(key) else {
            return;
        };
        let client = self.connections.get(session).map(|record| record.peer.socket());
        if let Some(client) = client.filter(|_| !asked.is_head)
            && !self.claim(key, client)
        {
            return self.refuse_stream(session, key, client);
        }
        let headers: Vec<(&str, &str)> =
            response.headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (transport, body) = if asked.chunks {
            (Transport::Chunked, ResponseBody::Chunked)
        } else {
            (Transport::Stream, ResponseBody::UntilClose)
        };
        // What HEAD gets has no length either (RFC 9110 section 8.6), and no body.
        let persists = asked.is_head && asked.persists && asked.chunks;
        let (status, is_head) = (response.status, asked.is_head);
        let head = AnswerHead { status, headers: &headers, persists, body, is_head };
        if !self.begin_answer(key, &head) {
            return;
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if is_head {
            self.lists.write(key, &mut connection.flags);
            return self.next_request(key, persists);
        }
        let out = self.pool.queue(&mut connection.outgoing).tail();
        transport.framing().write(&response.body, false, out);
        self.set_work(key, Work::Idle);
        self.adopt(key, session, transport);
    }

    /// The session would have got a connection of a proxy's, and its client has as many as it may.
    fn refuse_stream(&mut self, session: Key, key: Key, client: SocketAddr) {
        let close = proxies::too_many(client.ip());
        self.answer(key, &refusal(&close).with("Retry-After", "5"));
        self.end(session, &close, Farewell::Silent);
    }

    /// The client has hung up while its request waited.
    pub(crate) fn abandon(&mut self, session: Key, key: Key) {
        let Some(record) = self.connections.get_mut(session) else {
            return;
        };
        let Some(Live { transport: Transport::Requests(requests), .. }) = record.live() else {
            return;
        };
        if requests.pending.as_ref().is_none_or(|pending| pending.connection != key) {
            return;
        }
        requests.pending = None;
        record.flags.clear(Flags::WRITABLE);
        let called = self.call(session, |session, now, context| session.abandoned(now, context));
        self.settle(session, called);
        self.rearm(session);
    }

    /// The session has ended: the request that waits for it is answered.
    pub(crate) fn dismiss_requests(&mut self, session: Key, requests: Requests, close: &Close) {
        self.offer_again(requests.blocked);
        let Some(Pending { connection, held }) = requests.pending else {
            return;
        };
        let record = self.connections.get_mut(session);
        let said = record.and_then(|record| record.outgoing.as_ref());
        let said = said.is_some_and(|outgoing| !outgoing.queue.is_empty());
        match held {
            Some(held) if said => {
                self.answer_held(session, connection, &held);
            }
            _ => self.answer(connection, &refusal(close)),
        }
    }
}

/// What becomes of a request whose session may be slowed down.
enum Block {
    /// The session takes it in.
    TakesIn,
    /// It waits until the session does.
    Waits,
    /// Too many wait already.
    Refused,
}

/// Connections that may wait for a session that is held back.
const BLOCKED_MAX: usize = 8;
/// What the head of an answer takes as a rule.
const HEAD_BYTES: usize = 320;
