//! Detached sessions: their connection is gone, and they wait for their clients to come back.
//!
//! The record stays what it was but for its stream; its backlog goes on under the policies for slow
//! subscribers, and what its session writes is thrown away. Relies on the session to know what it has to
//! repeat. Invariants: detached sessions hold only so many bytes; none waits longer than its own deadline
//! and the node's.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tiderace_base::{Close, CloseCode, Key, Severity, Span};
use tiderace_websocket::encode_close;

use crate::connection::{Connection, Flags, Stage, Transport};
use crate::driver::Driver;
use crate::metrics::Gauge;
use crate::outcome::Farewell;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// The connection of a session ends. If that is nobody's wish and the session lives on without one,
    /// ends the connection alone, and says so; `broken` if nothing can be written to it any more.
    pub(crate) fn detach(
        &mut self,
        key: Key,
        close: &Close,
        farewell: Farewell,
        broken: bool,
    ) -> bool {
        // The close of a WebSocket says nothing about the session.
        let is_closed = close.code == CloseCode::Done && farewell == Farewell::Silent;
        let lost = is_closed || close.code.severity() == Severity::Connection;
        if !lost || self.stopping.is_some() {
            return false;
        }
        let Some(connection) = self.connections.get_mut(key) else { return false };
        let peer = connection.peer;
        let Some(live) = connection.live().filter(|live| live.may_detach()) else { return false };
        let Some(principal) = self.broker.principal_name(live.id) else { return false };
        let limits = &self.shared.options.detached;
        if !self.detached.admits(&principal, limits, self.shared.wakers.len())
            || !self.shared.admit_carried(peer.address())
        {
            self.metrics.detach_refused.add(1);
            return false;
        }
        let now = self.now;
        let session = &mut live.session;
        let lives_on = catch_unwind(AssertUnwindSafe(|| session.detach(now))).unwrap_or(false);
        if !lives_on {
            self.shared.dismiss_carried(peer.address());
            return false;
        }
        let id = live.id;
        let deadline = now.time + limits.time_max;
        // What had begun to come is gone with the connection.
        self.forget_large(key);
        self.part(key, close, farewell, broken);
        self.set_transport(key, Transport::Detached);
        if let Some(connection) = self.connections.get_mut(key) {
            if let Some(input) = connection.input.take() {
                self.pool.give_input(input);
            }
            connection.need = 0;
            connection.flags = connection.flags.without_carrier();
            if self.broker.has_backlog(id) {
                connection.flags.set(Flags::BACKLOG);
            }
            connection.deadline = deadline;
        }
        self.count_input(key);
        self.detached.add(key, principal);
        self.limited.detach(key);
        self.metrics.detached.add(1);
        self.rearm(key);
        true
    }

    /// Gives a record's connection a record of its own, in which it ends.
    pub(crate) fn part(&mut self, key: Key, close: &Close, farewell: Farewell, broken: bool) {
        let flush = self.shared.options.deadlines.flush;
        let Some(record) = self.connections.get_mut(key).filter(|record| !record.is_carried())
        else {
            return;
        };
        let is_websocket = record.live().is_some_and(|live| live.is_websocket());
        let listener = record.listener;
        let mut old = Connection::carried(record.peer, listener, self.now.time + flush);
        old.stage = Stage::closing();
        old.outgoing = record.outgoing.take();
        if is_websocket && farewell != Farewell::Silent && !broken {
            let queue = self.pool.queue(&mut old.outgoing);
            encode_close(queue.tail(), Some(close.code.websocket()), &close.reason, None);
        }
        let Some(carrier) = self.take_carrier(key) else { return };
        let old = self.connections.insert(old);
        self.change_gauge(None, Some(Gauge::UNKNOWN));
        self.shared.gain(self.id, listener);
        if !self.give_carrier(old, carrier) || broken {
            return self.forget(old);
        }
        if let Some(record) = self.connections.get_mut(old) {
            self.lists.write(old, &mut record.flags);
        }
        self.rearm(old);
    }

    /// A session is carried in another way from now on; says how it was carried before.
    pub(crate) fn set_transport(&mut self, key: Key, transport: Transport) -> Option<Transport> {
        let record = self.connections.get_mut(key)?;
        let before = record.stage.gauge();
        let live = record.live()?;
        let former = std::mem::replace(&mut live.transport, transport);
        let after = record.stage.gauge();
        self.change_gauge(Some(before), Some(after));
        Some(former)
    }

    /// Ends detached sessions, those that hold most first, until they hold no more than they may.
    pub(crate) fn sweep_detached(&mut self) {
        if !self.detached.is_sweep_due(self.now.time, SWEEP) {
            return;
        }
        let shards = self.shared.wakers.len().max(1);
        let most = self.shared.options.detached.bytes_max.div_ceil(shards);
        let mut held = Vec::new();
        for key in self.detached.keys() {
            if let Some(Connection { stage: Stage::Live(live), .. }) = self.connections.get(key) {
                let kept = catch_unwind(AssertUnwindSafe(|| live.session.kept_bytes()));
                held.push((kept.unwrap_or(0) + self.broker.backlog_bytes(live.id), key));
            }
        }
        let mut bytes: usize = held.iter().map(|(bytes, _)| *bytes).sum();
        self.metrics.detached_bytes.set(bytes as u64);
        if bytes <= most {
            return;
        }
        held.sort_unstable();
        while bytes > most
            && let Some((count, key)) = held.pop()
        {
            bytes -= count;
            self.end(key, &CloseCode::TooManyDetached.into(), Farewell::Silent);
        }
        self.drain_effects();
    }
}

/// How often the bytes of detached sessions are looked at.
const SWEEP: Span = Span::from_secs(1);
