//! Connections that move between shards.
//!
//! Only connections without a broker session move: right after they are accepted, or when their
//! protocol is known. They take along what was read and not handled, and what was not written.

use tiderace_base::{ShardId, Time};

use crate::connection::{Connection, Flags, Stage};
use crate::driver::Driver;
use crate::mailbox::Letter;
use crate::metrics::Gauge;
use crate::options::Placement;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// The protocol of a connection is known: begins its session, here or where it belongs.
    pub(crate) fn place(&mut self, key: tiderace_base::Key) {
        if self.shared.options.placement == Placement::Accepted {
            return self.start(key);
        }
        if let Some(connection) = self.connections.get_mut(key) {
            connection.flags.set(Flags::MOVING);
        }
    }

    /// Sends a connection marked by [`Shard::place`] on its way, once its handling is over.
    pub(crate) fn move_marked(&mut self, key: tiderace_base::Key) {
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if !connection.flags.has(Flags::MOVING) || !matches!(connection.stage, Stage::Starting(_)) {
            return;
        }
        // It does not count against the shard it is on, or nobody would ever stay.
        self.shared.lose(self.id);
        let shard = self.shared.lightest();
        self.shared.gain(shard);
        connection.flags.clear(Flags::MOVING);
        if shard == self.id {
            self.start(key);
            if let Some(connection) = self.connections.get_mut(key) {
                self.lists.again(key, &mut connection.flags);
            }
            return;
        }
        self.driver.deregister(&mut connection.stream);
        if let Some(connection) = self.connections.remove(key) {
            self.uncount_backlog(connection.outgoing.as_deref());
            self.change_gauge(Some(Gauge::UNKNOWN), None);
            self.send_away(connection, shard);
        }
    }

    pub(crate) fn send_away(&mut self, mut connection: Connection<D::Stream>, shard: ShardId) {
        self.metrics.migrated.add(1);
        connection.armed = Time::NEVER;
        let lists = Flags::READ_LISTED | Flags::WRITE_LISTED | Flags::AGAIN_LISTED;
        connection.flags.clear(lists | Flags::READABLE);
        connection.flags.set(Flags::WRITABLE);
        self.post.send(shard, Letter::Connection(Box::new(connection)));
    }

    /// A connection comes in, new or from another shard.
    pub(crate) fn arrive(&mut self, connection: Connection<D::Stream>) {
        let starting = matches!(connection.stage, Stage::Starting(_));
        let key = self.connections.insert(connection);
        self.change_gauge(None, Some(Gauge::UNKNOWN));
        let Some(connection) = self.connections.get_mut(key) else {
            return;
        };
        if self.driver.register(&mut connection.stream, key).is_err() {
            return self.discard(key, tiderace_base::CloseCode::TransportError);
        }
        if connection.outgoing.is_some() {
            self.lists.write(key, &mut connection.flags);
        }
        if connection.input.is_some() || connection.flags.has(Flags::PEER_ENDED) {
            self.lists.again(key, &mut connection.flags);
        }
        if starting {
            self.start(key);
        }
        self.rearm(key);
    }
}
