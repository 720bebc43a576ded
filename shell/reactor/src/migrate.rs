//! Connections that move between shards.
//!
//! Only connections without a broker session move: right after they are accepted, or when their
//! protocol is known. They take along what was read and not handled, and what was not written.

use tiderace_base::{Close, CloseCode, ShardId, Time};

use crate::connection::{Connection, Flags, Stage};
use crate::departure::{Departure, LeavesFor, Step};
use crate::driver::Driver;
use crate::mailbox::ShardMessage;
use crate::options::Placement;
use crate::outcome::Farewell;
use crate::shard::Shard;
use crate::tls_sessions::Secured;

impl<D: Driver> Shard<D> {
    /// The protocol of a connection is known: begins its session, here or where it belongs.
    pub(crate) fn place(&mut self, key: tiderace_base::Key) {
        let pinned = match self.connections.get(key).map(|connection| &connection.stage) {
            Some(Stage::Starting(starting)) => starting.pinned,
            _ => return,
        };
        let is_h2_stream = self.connections.get(key).is_some_and(|it| it.flags.is_h2_stream());
        if pinned || is_h2_stream || self.shared.options.placement == Placement::Accepted {
            return self.start(key);
        }
        if let Some(Connection { stage: Stage::Starting(starting), .. }) =
            self.connections.get_mut(key)
        {
            starting.is_moving = true;
        }
    }

    /// Sends a connection marked by [`Shard::place`] on its way, once its handling is over.
    pub(crate) fn move_marked(&mut self, key: tiderace_base::Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        match &mut connection.stage {
            Stage::Starting(starting) if starting.is_moving => starting.is_moving = false,
            _ => return,
        }
        let listener = connection.listener;
        // It does not count against the shard it is on, or nobody would ever stay.
        self.shared.lose(self.id, listener);
        let shard = self.shared.lightest();
        self.shared.gain(shard, listener);
        if shard == self.id {
            self.start(key);
            if let Some(connection) = self.connections.get_mut(key) {
                self.lists.again(key, &mut connection.flags);
            }
            return;
        }
        self.depart(key, shard);
    }

    /// A request's session lives on another shard: the connection moves there, and its request is
    /// read again.
    pub(crate) fn leave_for(shard: ShardId) -> Step {
        Step::Leave(Departure::to(LeavesFor::Shard(shard)))
    }

    /// Sends a connection on its way whose request is another shard's.
    pub(crate) fn move_request(&mut self, key: tiderace_base::Key, shard: ShardId) {
        if self.is_rooted(key) {
            let reason =
                "the session lives on another shard, and this stream has moved once; open another";
            let close = Close::new(CloseCode::BadRequest, reason);
            return self.end(key, &close, Farewell::Full);
        }
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let listener = connection.listener;
        if let Stage::Http(stage) = &mut connection.stage {
            stage.scanner = tiderace_http1::HeadScanner::default();
        }
        self.shared.lose(self.id, listener);
        self.shared.gain(shard, listener);
        self.depart(key, shard);
    }

    /// Sends a connection to another shard, with the TLS session it may have.
    pub(crate) fn send_away(
        &mut self,
        mut connection: Connection<D::Stream>,
        secured: Option<Box<Secured>>,
        shard: ShardId,
    ) {
        self.metrics.migrated.add(1);
        connection.armed = Time::NEVER;
        connection.flags.leave_shard();
        self.post.send(shard, ShardMessage::Connection(Box::new(connection), secured));
    }

    /// A connection comes in, new or from another shard.
    pub(crate) fn arrive(
        &mut self,
        connection: Connection<D::Stream>,
        secured: Option<Box<Secured>>,
    ) {
        let starting = matches!(connection.stage, Stage::Starting(_));
        let seeking = matches!(connection.stage, Stage::Seeking(_));
        let gauge = connection.stage.gauge();
        let key = self.connections.insert(connection);
        self.secure.put(key, secured);
        self.change_gauge(None, Some(gauge));
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        let registered = connection.stream.as_mut().map(|stream| self.driver.register(stream, key));
        if !matches!(registered, Some(Ok(()))) {
            return self.discard(key, tiderace_base::CloseCode::TransportError);
        }
        if connection.outgoing.is_some() || connection.flags.has(Flags::UNSENT) {
            self.lists.write(key, &mut connection.flags);
        }
        if self.secure.is_ended(key) {
            connection.flags.set(Flags::READABLE);
            self.lists.read(key, &mut connection.flags);
        }
        if connection.input.is_some() || connection.flags.is_peer_ended() {
            self.lists.again(key, &mut connection.flags);
        }
        if starting {
            self.start(key);
        }
        if seeking {
            self.seek(key);
            self.drain_effects();
        }
        self.rearm(key);
    }
}
