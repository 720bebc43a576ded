//! The reading half of a connection: one shared buffer per thread, a small tail per connection.
//!
//! Invariant: a connection between reads holds only the bytes of its one unfinished frame.

use std::io::{self, Read};

use crate::reading;
use crate::stomp::frames::{Sink, Walker};
use crate::stomp::websocket::Deframer;

/// Told that bytes have arrived, before the frames in them are reported.
pub trait Arrival {
    /// `bytes` have just been read.
    fn arrived(&mut self, bytes: usize);
}

/// The reading state of one connection.
#[derive(Debug, Clone, Default)]
pub struct Inbound {
    tail: Vec<u8>,
    walker: Walker,
    /// Present when the connection speaks WebSocket.
    pub deframer: Option<Deframer>,
}

impl Inbound {
    /// The state of a fresh connection on which `leftover` has been read already.
    pub fn new(websocket: bool, leftover: Vec<u8>) -> Self {
        Self {
            tail: leftover,
            walker: Walker::default(),
            deframer: websocket.then(Deframer::default),
        }
    }

    /// Whether bytes of an unfinished frame are held.
    pub fn is_waiting(&self) -> bool {
        !self.tail.is_empty()
    }

    /// Reads once into `buffer` and reports the frames; returns the bytes read (0: the end) and
    /// whether the read filled the buffer.
    ///
    /// # Errors
    /// Those of the read, and `InvalidData` for what is not STOMP.
    pub fn read<S: Sink + Arrival>(
        &mut self,
        stream: &mut impl Read,
        buffer: &mut [u8],
        sink: &mut S,
    ) -> io::Result<(usize, bool)> {
        let held = self.tail.len();
        if held + READ_BYTES_MIN > buffer.len() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the server sent a frame larger than the read buffer",
            ));
        }
        let (front, room) = buffer.split_at_mut(held);
        let read = reading::read(stream, room)?;
        let full = read == room.len();
        sink.arrived(read);
        front.copy_from_slice(&self.tail);
        let input = buffer.get(..held + read).unwrap_or_default();
        let done = match &mut self.deframer {
            Some(deframer) => deframer.walk(input, &mut self.walker, sink)?,
            None => self
                .walker
                .walk(input, sink)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?,
        };
        self.tail.clear();
        self.tail.extend_from_slice(input.get(done..).unwrap_or_default());
        Ok((read, full))
    }
}

const READ_BYTES_MIN: usize = 4096;
