//! Buffers that busy connections borrow and idle ones do not have.
//!
//! Keeps the invariant that what is given back is empty and of a size worth keeping.

use tiderace_base::limits::WRITE_BLOCK_BYTES;
use tiderace_wire::OutQueue;

/// What waits to be written to one connection.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The bytes.
    pub(crate) queue: OutQueue,
    /// The bytes that the shard's gauge of its backlog counts for this connection.
    pub(crate) counted: usize,
}

/// The free buffers of one shard.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    outgoing: Vec<Box<Outgoing>>,
    inputs: Vec<Box<Vec<u8>>>,
}

impl Pool {
    /// The connection's queue, fetched if it has none.
    pub(crate) fn queue<'a>(&mut self, slot: &'a mut Option<Box<Outgoing>>) -> &'a mut OutQueue {
        let outgoing = slot.get_or_insert_with(|| self.outgoing.pop().unwrap_or_default());
        &mut outgoing.queue
    }

    /// Takes back a queue that is of no use any more.
    pub(crate) fn give_queue(&mut self, mut outgoing: Box<Outgoing>) {
        if self.outgoing.len() < OUTGOING_KEPT {
            outgoing.queue.clear(BLOCK_BYTES_KEPT);
            outgoing.counted = 0;
            self.outgoing.push(outgoing);
        }
    }

    /// An empty input buffer.
    pub(crate) fn input(&mut self) -> Box<Vec<u8>> {
        self.inputs.pop().unwrap_or_default()
    }

    /// Takes back an input buffer.
    pub(crate) fn give_input(&mut self, mut input: Box<Vec<u8>>) {
        if self.inputs.len() < INPUTS_KEPT && input.capacity() <= INPUT_BYTES_KEPT {
            input.clear();
            self.inputs.push(input);
        }
    }
}

/// Queues kept: a turn uses one after the other, unless many clients are slow at once.
const OUTGOING_KEPT: usize = 32;
/// The write block of a kept queue: a greedy turn may end with one message beyond the block.
const BLOCK_BYTES_KEPT: usize = WRITE_BLOCK_BYTES + WRITE_BLOCK_BYTES / 4;
const INPUTS_KEPT: usize = 64;
const INPUT_BYTES_KEPT: usize = 64 * 1024;

/// Bytes read per connection and turn: enough to make a system call cheap, small enough to stay in
/// the second-level cache until it is handled.
pub(crate) const READ_BYTES: usize = 256 * 1024;
/// Kept bytes below this are copied in front of the next read.
pub(crate) const KEPT_COPIED_MAX: usize = 32 * 1024;
/// The size of the shared read buffer.
pub(crate) const BUFFER_BYTES: usize = READ_BYTES + KEPT_COPIED_MAX;
