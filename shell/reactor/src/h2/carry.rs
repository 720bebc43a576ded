//! Tunnels: the streams of HTTP/2 connections, each carrying the connection of a record.
//!
//! ```text
//!   DATA ─▶ inbox ─▶ read like a socket ─▶ the record's stage
//!   DATA ◀─ as much as the client's window allows ◀─ written like a socket ◀─ the record's queue
//! ```
//! The record behaves as if it had a socket of HTTP/1.1: its first bytes are a request head made from
//! HEADERS, the answer it writes is taken apart into HEADERS and DATA. Invariants: the client's window is
//! opened again only for bytes that the record has read; what the client's window does not allow stays in
//! the record's queue, so that back-pressure is what it is for sockets. An idle tunnel has no buffers.

use std::io;

use tiderace_base::Key;

use crate::connection::{Connection, Flags};
use crate::driver::Driver;
use crate::h2::streams::{Broken, Carrier, Taken};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Reads from a record's tunnel.
    pub(crate) fn read_tunnel(&mut self, key: Key, space: &mut [u8]) -> io::Result<usize> {
        match self.tunnels.of(key) {
            Some(Carrier::Tunnel(tunnel)) => {
                let read = tunnel.read(space);
                let hub = tunnel.hub;
                self.count_read(hub, read.as_ref().map_or(0, |(_, released)| *released));
                self.rouse_hub(hub);
                read.map(|(count, _)| count)
            }
            Some(Carrier::Branch(branch)) => branch.read(space, &mut self.post),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Writes a record's queue to its tunnel and says how many bytes went.
    pub(crate) fn write_tunnel(&mut self, key: Key) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(0);
        };
        let Some(outgoing) = &mut connection.outgoing else {
            return Ok(0);
        };
        let before = outgoing.queue.len();
        let (sent, hub) = match self.tunnels.of(key) {
            Some(Carrier::Tunnel(tunnel)) => (tunnel.send(&mut outgoing.queue), Some(tunnel.hub)),
            Some(Carrier::Branch(branch)) => {
                (Ok(branch.send(&mut outgoing.queue, &mut self.post)), None)
            }
            None => return Ok(0),
        };
        let count = before - outgoing.queue.len();
        if sent == Ok(false) {
            connection.flags.clear(Flags::WRITABLE);
        }
        if let Some(hub) = hub {
            self.rouse_hub(hub);
            self.count_tunnel(key);
        }
        match sent {
            Ok(_) => Ok(count),
            Err(Broken::Stream) => Err(io::ErrorKind::BrokenPipe.into()),
            Err(Broken::Answer) => {
                tracing::error!(event = "http2-answer-invalid", "an answer cannot be sent");
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    /// Counts what waits in a record's queue for the client to take.
    pub(crate) fn count_tunnel(&mut self, key: Key) {
        let queued = |connection: &Connection<D::Stream>| {
            connection.outgoing.as_ref().map_or(0, |outgoing| outgoing.queue.len())
        };
        let after = self.connections.get(key).map_or(0, queued);
        if let Some(Carrier::Tunnel(tunnel)) = self.tunnels.of(key)
            && tunnel.counted != after
        {
            let before = std::mem::replace(&mut tunnel.counted, after);
            let hub = tunnel.hub;
            self.count_unsent(hub, before, after);
        }
    }

    /// Our side of a record's tunnel ends; false if that takes its time, and the record goes when it is
    /// done.
    pub(crate) fn finish_tunnel(&mut self, key: Key) -> bool {
        match self.tunnels.of(key) {
            Some(Carrier::Tunnel(tunnel)) => tunnel.stream.finish(),
            Some(Carrier::Branch(branch)) => {
                branch.finish(&mut self.post);
                return false;
            }
            None => {}
        }
        true
    }

    /// The record of a tunnel goes: its stream ends, or is reset if it has not come to its end.
    pub(crate) fn forget_tunnel(&mut self, key: Key) {
        match self.tunnels.take(key) {
            Taken::Tunnel(tunnel) => {
                self.metrics.http2_streams.sub(1);
                self.count_unsent(tunnel.hub, tunnel.counted, 0);
                self.count_read(tunnel.hub, tunnel.owed);
                self.leave_hub(tunnel.hub, tunnel.place);
            }
            Taken::Branch(branch) => branch.leave(&mut self.post),
            Taken::Nothing => {}
        }
    }
}
