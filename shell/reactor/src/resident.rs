//! Residents: sessions that live on the server, such as feeds.
//!
//! A resident is a record without a stream and without anybody to carry it: it speaks to the broker
//! alone, when its deadline comes, and hears answers and deliveries as every session does. While the
//! broker holds it back its deadline does not come.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::Time;
use tiderace_wire::{Framing, Open, Opening};

use crate::connection::{Connection, Live, NO_LISTENER, Peer, Stage, Transport};
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Opens the residents of the shard.
    pub(crate) fn open_residents(&mut self) {
        let shared = Arc::clone(&self.shared);
        for open in &shared.services.residents {
            self.open_resident(open.as_ref());
        }
    }

    fn open_resident(&mut self, open: &Open) {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let record = Connection::carried(Peer::from(nowhere), NO_LISTENER, Time::NEVER);
        let key = self.connections.insert(record);
        let opening = Opening {
            shard: self.id,
            shards: self.shared.doors.len(),
            ..Opening::new(Framing::Stream, nowhere, self.now)
        };
        let session = open(&opening);
        let id = self.broker.open(self.now, key.slot);
        let transport = Transport::Resident;
        let live = Live { session, id, protocol: u16::MAX, verifying: false, transport };
        if let Some(record) = self.connections.get_mut(key) {
            // What is delivered to it is taken at once.
            record.flags.set(crate::connection::Flags::WRITABLE);
            record.stage = Stage::Live(live);
        }
        self.rearm(key);
    }
}
