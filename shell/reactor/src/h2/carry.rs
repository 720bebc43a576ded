//! Streams of HTTP/2 connections, each carrying a record as a socket would.
//!
//! ```text
//!   DATA ─▶ inbox ─▶ read like a socket ─▶ the record's stage
//!   DATA ◀─ as much as the client's window allows ◀─ written like a socket ◀─ the record's queue
//! ```
//! The record behaves as if it had a socket of HTTP/1.1: its first bytes are a request head made from
//! HEADERS. The head of its answer becomes HEADERS at once, the body DATA when it is written. Invariants:
//! the client's window is opened again only for bytes that the record has read; what the client's window
//! does not allow stays in the record's queue, so that back-pressure is what it is for sockets. An idle
//! stream has no buffers.

use std::io;

use tiderace_base::Key;
use tiderace_http2::AnswerHead;

use crate::connection::{Connection, Flags};
use crate::driver::Driver;
use crate::h2::streams::{Broken, Carrier, Taken};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Reads from a record's stream.
    pub(crate) fn read_h2_stream(&mut self, key: Key, space: &mut [u8]) -> io::Result<usize> {
        match self.h2_streams.of(key) {
            Some(Carrier::H2Stream(h2_stream)) => {
                let read = h2_stream.read(space);
                let h2 = h2_stream.h2;
                self.count_read(h2, read.as_ref().map_or(0, |(_, released)| *released));
                self.wake_h2(h2);
                read.map(|(count, _)| count)
            }
            Some(Carrier::RemoteStream(remote_stream)) => remote_stream.read(space, &mut self.post),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// Answers on a record's stream; so many bytes of a body follow, or as many as come.
    pub(crate) fn respond_by_h2_stream(
        &mut self,
        key: Key,
        head: AnswerHead,
        body_bytes: Option<u64>,
    ) {
        match self.h2_streams.of(key) {
            Some(Carrier::H2Stream(h2_stream)) => {
                // A stream that is of no use any more breaks when its body is written, or ends with its record.
                h2_stream.stream.respond(head, body_bytes);
                let h2 = h2_stream.h2;
                self.wake_h2(h2);
            }
            Some(Carrier::RemoteStream(remote_stream)) => {
                remote_stream.respond(head, body_bytes, &mut self.post);
            }
            None => {}
        }
    }

    /// Writes a record's queue to its stream and says how many bytes went.
    pub(crate) fn write_h2_stream(&mut self, key: Key) -> io::Result<usize> {
        let Some(connection) = self.connections.get_mut(key) else {
            return Ok(0);
        };
        let Some(outgoing) = &mut connection.outgoing else {
            return Ok(0);
        };
        let before = outgoing.queue.len();
        let (sent, h2) = match self.h2_streams.of(key) {
            Some(Carrier::H2Stream(h2_stream)) => {
                (h2_stream.send(&mut outgoing.queue), Some(h2_stream.h2))
            }
            Some(Carrier::RemoteStream(remote_stream)) => {
                (Ok(remote_stream.send(&mut outgoing.queue, &mut self.post)), None)
            }
            None => return Ok(0),
        };
        let count = before - outgoing.queue.len();
        if sent == Ok(false) {
            connection.flags.clear(Flags::WRITABLE);
        }
        if let Some(h2) = h2 {
            self.wake_h2(h2);
            self.count_h2_stream(key);
        }
        match sent {
            Ok(_) => Ok(count),
            Err(Broken) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Counts what waits in a record's queue for the client to take.
    pub(crate) fn count_h2_stream(&mut self, key: Key) {
        let queued = |connection: &Connection<D::Stream>| {
            connection.outgoing.as_ref().map_or(0, |outgoing| outgoing.queue.len())
        };
        let after = self.connections.get(key).map_or(0, queued);
        if let Some(Carrier::H2Stream(h2_stream)) = self.h2_streams.of(key)
            && h2_stream.counted != after
        {
            let before = std::mem::replace(&mut h2_stream.counted, after);
            let h2 = h2_stream.h2;
            self.count_unsent(h2, before, after);
        }
    }

    /// Our side of a record's stream ends; false if that takes its time, and the record goes when it is
    /// done.
    pub(crate) fn finish_h2_stream(&mut self, key: Key) -> bool {
        match self.h2_streams.of(key) {
            Some(Carrier::H2Stream(h2_stream)) => h2_stream.stream.finish(),
            Some(Carrier::RemoteStream(remote_stream)) => {
                remote_stream.finish(&mut self.post);
                return false;
            }
            None => {}
        }
        true
    }

    /// The record of a stream of HTTP/2 goes: its stream ends, or is reset if it has not come to its end.
    pub(crate) fn forget_h2_stream(&mut self, key: Key) {
        match self.h2_streams.take(key) {
            Taken::H2Stream(h2_stream) => {
                self.metrics.http2_streams.sub(1);
                self.count_unsent(h2_stream.h2, h2_stream.counted, 0);
                self.count_read(h2_stream.h2, h2_stream.owed);
                self.leave_h2(h2_stream.h2, h2_stream.place);
            }
            Taken::RemoteStream(remote_stream) => remote_stream.leave(&mut self.post),
            Taken::Nothing => {}
        }
    }
}
