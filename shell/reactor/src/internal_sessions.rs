//! Internal sessions: sessions that live on the server, such as feeds.
//!
//! An internal session is a record without a stream and without anybody to carry it: it speaks to the broker
//! alone, when its deadline comes, and hears answers and deliveries as every session does. There are
//! few and they are part of the server: their deadlines are looked at every turn, not by the wheel's
//! coarse ticks. One whose deadline is the beginning of time is called whenever everything has been
//! written, so that it fills connections as fast as they are emptied. While the broker holds it back, or
//! some shard is behind with its messages, its deadline does not come.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Key, Span, Time};
use tiderace_broker::Principal;
use tiderace_wire::{Framing, Open, Opening};

use crate::connection::{
    Connection, Flags, Live, NO_LISTENER, NO_PROTOCOL, Peer, Stage, Transport,
};
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Opens the internal sessions of the shard.
    pub(crate) fn open_internal_sessions(&mut self) {
        let shared = Arc::clone(&self.shared);
        for open in &shared.services.internal_sessions {
            self.open_internal_session(open.as_ref());
        }
    }

    fn open_internal_session(&mut self, open: &Open) {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let record = Connection::carried(Peer::from(nowhere), NO_LISTENER, Time::NEVER);
        let key = self.connections.insert(record);
        let opening = Opening {
            epoch: self.shared.services.broker.epoch,
            shard: self.id,
            shards: self.shared.wakers.len(),
            ..Opening::new(Framing::Stream, nowhere, self.now)
        };
        let session = open(&opening);
        let id = self.broker.open(self.now, key.slot);
        let transport = Transport::Internal;
        let live = Live { session, id, protocol: NO_PROTOCOL, verifying: false, transport };
        if let Some(record) = self.connections.get_mut(key) {
            // What is delivered to it is taken at once.
            record.flags.set(Flags::WRITABLE);
            record.stage = Stage::Live(live);
        }
        self.internal_sessions.push(key);
        self.broker.verified(self.now, id, Ok(Principal::server()), &mut self.effects);
        self.drain_effects();
    }

    /// Calls the internal sessions whose deadline has come.
    pub(crate) fn run_internal_sessions(&mut self) {
        if self.post.is_behind() {
            return;
        }
        for at in 0..self.internal_sessions.len() {
            let Some(key) = self.internal_sessions.get(at).copied() else { return };
            let deadline = self.internal_session_deadline(key);
            // Who wants every turn gets those in which what it published before has been written.
            if deadline == Time::ZERO && self.has_to_write() {
                continue;
            }
            if deadline <= self.now.time {
                let called = self.call(key, |session, now, context| session.expire(now, context));
                self.settle(key, called);
                self.drain_effects();
            }
        }
    }

    /// How long the internal sessions can wait.
    pub(crate) fn internal_sessions_timeout(&self) -> Span {
        if self.internal_sessions.is_empty() || self.post.is_behind() {
            return Span::MAX;
        }
        let waits = self.has_to_write();
        let deadlines =
            self.internal_sessions.iter().map(|key| self.internal_session_deadline(*key));
        // Those that want every turn have none until all is written.
        let next = deadlines.filter(|deadline| !waits || *deadline > Time::ZERO).min();
        next.map_or(Span::MAX, |next| next.since(self.clock.idle_since()))
    }

    fn has_to_write(&self) -> bool {
        self.lists.has_writes() || !self.lists.coalescing.is_empty()
    }

    fn internal_session_deadline(&self, key: Key) -> Time {
        match self.connections.get(key) {
            Some(Connection { stage: Stage::Live(live), flags, .. })
                if !flags.has(Flags::PAUSED) =>
            {
                live.session.deadline()
            }
            _ => Time::NEVER,
        }
    }
}
