//! New connections: taken by the shard that has the listeners, placed where there are fewest.
//!
//! One shard accepts for all. Placing by count spreads a few heavy connections as well as many
//! light ones, which the kernel's hashing over `SO_REUSEPORT` sockets does not. Limits are applied
//! here, before a connection costs a record.

use std::net::SocketAddr;

use tiderace_base::Span;
use tiderace_wire::Entrance;

use crate::connection::Connection;
use crate::driver::{Accepted, Driver};
use crate::metrics::Rejected;
use crate::options::Placement;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Accepts a bounded number of connections.
    pub(crate) fn accept(&mut self) {
        if !self.accepting.has_work(self.now.time) {
            return;
        }
        let mut ready = self.accepting.take();
        ready.retain(|listener| self.accept_from(*listener));
        self.accepting.put_back(ready);
    }

    /// Accepts all that waits at a listener that is about to close, as far as one turn allows.
    pub(crate) fn accept_last(&mut self, listener: u16) {
        let mut turns = self.shared.options.listen_backlog.max(0) as usize / ACCEPTS_PER_TURN + 1;
        while turns > 0 && self.accept_from(listener) {
            turns -= 1;
        }
    }

    /// Accepts from one listener; true if more may be waiting.
    fn accept_from(&mut self, listener: u16) -> bool {
        for _ in 0..ACCEPTS_PER_TURN {
            match self.driver.accept(listener) {
                Accepted::Stream(stream, peer) => self.admit(stream, peer, listener),
                Accepted::Empty => return false,
                Accepted::Failed => self.metrics.count_rejected(Rejected::Failed),
                Accepted::Exhausted => {
                    self.metrics.count_rejected(Rejected::Files);
                    self.accepting.pause_until(self.now.time + EXHAUSTED_PAUSE);
                    tracing::warn!(
                        event = "files-exhausted",
                        "out of file descriptors: connections are being refused"
                    );
                    return true;
                }
            }
        }
        true
    }

    fn admit(&mut self, stream: D::Stream, peer: SocketAddr, listener: u16) {
        let options = &self.shared.options;
        let first_byte = options.deadlines.first_byte;
        // Who looks after the server gets in also when clients have all the places.
        let kept = match options.entrance(listener, peer) {
            Entrance::Admin(_) => ADMIN_CONNECTIONS,
            Entrance::Clients | Entrance::Rules => 0,
        };
        let most = options.connections_max.saturating_add(kept);
        let reason = if self.shared.is_blocked(self.now.time, peer) {
            Some(Rejected::Blocked)
        } else if self.shared.sockets() >= most {
            Some(Rejected::Limit)
        } else if !self.shared.admit(peer.ip().to_canonical()) {
            Some(Rejected::AddressLimit)
        } else {
            None
        };
        if let Some(reason) = reason {
            self.metrics.count_rejected(reason);
            return self.driver.close(stream);
        }
        self.metrics.opened.add(1);
        let shard = match options.placement {
            Placement::Accepted => self.shared.lightest(),
            Placement::Identified => self.id,
        };
        self.shared.gain(shard, listener);
        let connection = Connection::new(stream, peer, listener, self.now.time + first_byte);
        if shard == self.id {
            self.arrive(connection, None);
        } else {
            self.send_away(connection, None, shard);
        }
    }
}

/// Connections of the admin socket that are accepted beyond those that there may be.
const ADMIN_CONNECTIONS: usize = 16;
/// Connections accepted per listener and turn: the rest wait while others are served.
const ACCEPTS_PER_TURN: usize = 128;
/// How long to wait for file descriptors.
const EXHAUSTED_PAUSE: Span = Span::from_millis(100);
