//! What carries a session is a value, which moves from record to record.
//!
//! ```text
//!   record of a request or a probe ──▶ Carrier ──▶ record of the session it was for      (takeover)
//!   record that looks for a session ─▶ Carrier ──▶ record of that session               (hand-over)
//!   record of a session ─────────────▶ Carrier ──▶ a record in which it ends             (detach)
//!   record without a session ──────────────────▶ another shard, with its carrier     (departure)
//! ```
//! Invariants: a carrier is in exactly one record, or on its way as a value; what was read of it and not taken
//! in, and what was written to it and has not gone out, goes along.

use tiderace_base::{CloseCode, Key, ShardId};

use crate::connection::{Connection, Flags, Peer, Stage};
use crate::driver::Driver;
use crate::pool::Outgoing;
use crate::shard::Shard;
use crate::tls_sessions::Secured;

/// What carries the bytes of a record.
pub(crate) struct Carrier<S> {
    /// The socket, which is not registered.
    stream: Option<S>,
    /// Its TLS session.
    tls: Option<Box<Secured>>,
    /// The record by which its stream of HTTP/2 is known.
    h2_record: Option<Key>,
    /// How far it has come.
    flags: Flags,
    peer: Peer,
    listener: u16,
}

/// What is left of a record whose carrier has gone to another one.
pub(crate) struct Moved {
    pub(crate) stage: Stage,
    /// What was written to the carrier and has not gone out.
    pub(crate) outgoing: Option<Box<Outgoing>>,
    /// Whether the carrier can be used where it is now.
    pub(crate) is_usable: bool,
}

impl<D: Driver> Shard<D> {
    /// Takes what carries a record out of it.
    pub(crate) fn take_carrier(&mut self, key: Key) -> Option<Carrier<D::Stream>> {
        let record = self.connections.get_mut(key).filter(|record| !record.is_carried())?;
        let h2_record = record.flags.is_h2_stream().then_some(key);
        let mut stream = record.stream.take();
        if let Some(stream) = &mut stream {
            self.driver.deregister(stream);
        }
        let flags = record.flags.part_from_carrier();
        let (peer, listener) = (record.peer, record.listener);
        let tls = self.secure.take(key);
        Some(Carrier { stream, tls, h2_record, flags, peer, listener })
    }

    /// Gives a carrier to a record that has none; false if the operating system does not want it to be used.
    pub(crate) fn give_carrier(&mut self, key: Key, carrier: Carrier<D::Stream>) -> bool {
        let Carrier { stream, tls, h2_record, flags, peer, listener } = carrier;
        let Some(record) = self.connections.get_mut(key) else {
            if let Some(from) = h2_record {
                self.forget_h2_stream(from);
                if flags.has(Flags::CLAIMED) {
                    self.shared.dismiss_client(peer.address());
                }
            }
            if let Some(stream) = stream {
                self.shared.dismiss(peer.address());
                self.driver.close(stream);
            }
            return false;
        };
        if record.listener != listener {
            self.shared.lose(self.id, record.listener);
            self.shared.gain(self.id, listener);
        }
        (record.peer, record.listener) = (peer, listener);
        record.flags.take_carrier_of(flags);
        record.stream = stream;
        let stream = record.stream.as_mut();
        let is_registered = stream.is_none_or(|it| self.driver.register(it, key).is_ok());
        self.secure.put(key, tls);
        if let Some(from) = h2_record {
            self.h2_streams.rebind(from, key);
        }
        is_registered
    }

    /// Moves the carrier of one record, with what was read of it, to the record of a session. The record that
    /// had it goes; its address stays admitted, since the connection goes on.
    pub(crate) fn move_carrier(&mut self, from: Key, to: Key) -> Option<Moved> {
        self.forget_input(from);
        let carrier = self.take_carrier(from)?;
        let record = self.connections.remove(from)?;
        self.count_left(record.flags);
        let Connection { stage, input, mut outgoing, listener, .. } = record;
        self.change_gauge(Some(stage.gauge()), None);
        self.uncount_backlog(outgoing.as_deref());
        if let Some(outgoing) = &mut outgoing {
            outgoing.counted = 0;
        }
        self.metrics.count_closed(CloseCode::Done);
        self.shared.lose(self.id, listener);
        let is_usable = self.give_carrier(to, carrier);
        let record = self.connections.get_mut(to)?;
        record.input = input;
        self.lists.read(to, &mut record.flags);
        self.lists.write(to, &mut record.flags);
        Some(Moved { stage, outgoing, is_usable })
    }

    /// Sends a record and what carries it to another shard, which counts it among its connections already.
    pub(crate) fn depart(&mut self, key: Key, shard: ShardId) {
        self.forget_input(key);
        let Some(mut connection) = self.connections.remove(key) else {
            return;
        };
        self.count_left(connection.flags);
        self.uncount_backlog(connection.outgoing.as_deref());
        if let Some(outgoing) = &mut connection.outgoing {
            outgoing.counted = 0;
        }
        self.change_gauge(Some(connection.stage.gauge()), None);
        if let Some(stream) = &mut connection.stream {
            self.driver.deregister(stream);
        }
        if connection.flags.is_h2_stream() {
            return self.send_by_h2_stream(key, connection, shard);
        }
        let secured = self.secure.take(key);
        self.send_away(connection, secured, shard);
    }
}
