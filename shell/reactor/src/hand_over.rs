//! A new connection comes to carry a session that had another one: `tiderace_wire::hand_over` tells
//! protocols what happens, this is how.
//!
//! ```text
//!   Live (asks) ─▶ Seeking ──ticket──▶ the session's shard ─┬─▶ that session's record
//!                   │    ▲                                  └─▶ Live, `unknown`
//!                   └────┘ a client session id: its home knows the ticket
//! ```
//! Relies on messages between shards to carry connections. Invariants: the socket is always in exactly one
//! record, and what was read and not taken in, of the transport and of the protocol, goes with it; a
//! session that is not found, or does not admit the bytes, is not touched; the session gets the bytes
//! before anything is written to the connection.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Time};
use tiderace_wire::{HandOver, Takeover, Ticket};

use crate::carrier::Moved;
use crate::client_session_ids::ClientSessionId;
use crate::connection::{Connection, Flags, Live, Origin, Seeking, Stage, Transport};
use crate::driver::Driver;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Sends a connection to the session that it is for, once its handling is over. While its login is
    /// being verified it stays, and its session is given the bytes again when that is known.
    pub(crate) fn finish_hand_over(&mut self, key: Key, whom: HandOver, may_seek: bool) {
        let verifying = match self.connections.get_mut(key).and_then(|record| record.live()) {
            Some(live) => live.verifying,
            None => return,
        };
        if verifying {
            return;
        }
        if !may_seek {
            let close = Close::new(CloseCode::InternalError, "a session was sought twice");
            return self.end(key, &close, Farewell::Transport);
        }
        let Some((protocol, principal)) = self.begin_seeking(key) else {
            return;
        };
        match whom {
            HandOver::Ticket(ticket) => self.found(key, Some(ticket)),
            HandOver::ClientSessionId(bytes) => {
                if let Some(connection) = self.connections.get_mut(key) {
                    connection.flags.set(Flags::HELD);
                }
                self.find_by_client_session_id(key, ClientSessionId { protocol, bytes }, principal);
            }
        }
    }

    /// The session that has asked ends; its protocol, and who its client has shown to be.
    fn begin_seeking(&mut self, key: Key) -> Option<(u16, Option<Arc<str>>)> {
        let login = self.shared.options.deadlines.login;
        let live = self.connections.get_mut(key)?.live()?;
        if !matches!(live.transport, Transport::Stream | Transport::WebSocket { .. }) {
            self.end(key, &CloseCode::UnexpectedFrame.into(), Farewell::Transport);
            return None;
        }
        let Some(Stage::Live(live)) = self.set_stage(key, Stage::closing()) else {
            return None;
        };
        let Live { id, protocol, transport, .. } = live;
        self.release_client_session_id(key);
        let login_until = self.login_ends.remove(key);
        let principal = self.broker.principal_name(id);
        self.close_session(id);
        self.end_limits(key);
        let connection = self.connections.get_mut(key)?;
        if connection.flags.has(Flags::PAUSED) {
            self.metrics.paused.sub(1);
        }
        for gone in [Flags::PAUSED, Flags::HELD, Flags::YIELDED, Flags::BACKLOG, Flags::ESTABLISHED]
        {
            connection.flags.clear(gone);
        }
        connection.need = 0;
        connection.deadline = self.now.time + login;
        let (ticket, principal) = (Ticket::default(), principal);
        let shown = principal.clone();
        let seeking = Seeking { protocol, ticket, principal: shown, login_until, transport };
        connection.stage = Stage::Seeking(Box::new(seeking));
        Some((protocol, principal))
    }

    /// It is known where the session is that a connection looks for, or that there is none.
    pub(crate) fn found(&mut self, key: Key, ticket: Option<Ticket>) {
        let Some(Connection { stage: Stage::Seeking(seeking), listener, .. }) =
            self.connections.get_mut(key)
        else {
            return;
        };
        let listener = *listener;
        let Some(ticket) = ticket else {
            return self.begin_unknown(key);
        };
        seeking.ticket = ticket;
        if ticket.shard == self.id || ticket.shard.index() >= self.shared.wakers.len() {
            return self.seek(key);
        }
        if self.is_rooted(key) {
            // It has moved once already; the client may open another stream.
            return self.begin_unknown(key);
        }
        self.shared.lose(self.id, listener);
        self.shared.gain(ticket.shard, listener);
        self.depart(key, ticket.shard);
    }

    /// Gives the connection to the session it looks for, or begins one that says there is none.
    pub(crate) fn seek(&mut self, key: Key) {
        match self.sought(key) {
            Some(session) => self.carry(key, session),
            None => self.begin_unknown(key),
        }
    }

    /// The record of the session that a connection looks for, if it may carry it.
    fn sought(&mut self, key: Key) -> Option<Key> {
        let Some(Connection { stage: Stage::Seeking(seeking), input, .. }) =
            self.connections.get(key)
        else {
            return None;
        };
        let (protocol, ticket) = (seeking.protocol, seeking.ticket);
        let principal = seeking.principal.clone();
        let first: Box<[u8]> = match &seeking.transport {
            Transport::WebSocket { rest, .. } => rest.as_ref().map(|rest| rest.bytes.as_slice()),
            _ => input.as_ref().map(|input| input.as_slice()),
        }
        .unwrap_or_default()
        .into();
        let found = self.holder(key, protocol, &ticket)?;
        let live = self.connections.get_mut(found)?.live()?;
        let its = self.broker.principal_name(live.id)?;
        let now = self.now;
        let may = live.may_be_carried() && principal.is_none_or(|name| name == its);
        let session = &live.session;
        let admits = || catch_unwind(AssertUnwindSafe(|| session.admits(now, &first)));
        (may && admits().unwrap_or(false)).then_some(found)
    }

    /// Moves a connection into the record of the session that it is for, and gives that its bytes.
    fn carry(&mut self, from: Key, to: Key) {
        let superseded =
            Close::new(CloseCode::PeerGone, "the client goes on by another connection");
        // What its former connection has begun to send is not gone on with by this one.
        self.forget_large(to);
        self.part(to, &superseded, Farewell::Transport, false);
        self.detached.remove(to);
        let Some(Connection { peer, stage: Stage::Live(live), .. }) = self.connections.get(to)
        else {
            return;
        };
        let detached_of = live.is_detached().then(|| peer.address());
        let Some(Moved { stage: Stage::Seeking(seeking), outgoing, is_usable }) =
            self.move_carrier(from, to)
        else {
            return;
        };
        self.metrics.resumed.add(1);
        if let Some(address) = detached_of {
            self.shared.dismiss_carried(address);
            self.limited.attach(to);
        }
        let ping = self.shared.options.deadlines.ping;
        let Some(record) = self.connections.get_mut(to) else { return };
        record.need = 0;
        for gone in [Flags::HELD, Flags::YIELDED] {
            record.flags.clear(gone);
        }
        let is_websocket = matches!(seeking.transport, Transport::WebSocket { .. });
        record.deadline = if is_websocket { self.now.time + ping } else { Time::NEVER };
        let unsent = std::mem::replace(&mut record.outgoing, outgoing);
        self.uncount_backlog(unsent.as_deref());
        if let Some(unsent) = unsent {
            self.pool.give_queue(unsent);
        }
        self.set_transport(to, seeking.transport);
        if !is_usable {
            return self.discard(to, CloseCode::TransportError);
        }
        // Who has shown nothing again goes on with the login of before, and as long as that one.
        if seeking.principal.is_some() {
            self.set_login_end(to, seeking.login_until);
        }
        let called =
            self.call(to, |session, now, context| session.takeover(now, Takeover::Done, context));
        self.settle(to, called);
        self.again(to, true);
    }

    /// Nobody is there for the connection: a session begins on it that says so.
    fn begin_unknown(&mut self, key: Key) {
        let Some(Stage::Seeking(seeking)) = self.set_stage(key, Stage::Sniff) else { return };
        let Seeking { protocol, transport, .. } = *seeking;
        self.metrics.resumes_refused.add(1);
        let origin = Origin { subprotocol: None, request: None, unknown: true };
        self.open_session(key, protocol, transport, origin);
        self.again(key, false);
    }
}
