//! The batch: messages that leave together in one frame, written in place at the end of the
//! connection's write block.
//!
//! Relies on nobody else writing there between the first delivery of a turn and the flush; the
//! session closes the batch before anything else is said. Invariant: what is open ends exactly at the
//! end of the block.

use bytes::Bytes;
use tiderace_wire::{Output, write_varint};

use crate::limits::BATCH_BYTES_MAX;
use crate::limits::HEAD_BYTES_MAX;

/// The frame and the message that are open, by where their bytes begin in the write block.
#[derive(Debug)]
pub(super) struct Batch {
    frame: u32,
    message: u32,
    kind: u8,
    /// Bytes of messages since it was last asked.
    spent: u32,
}

impl Default for Batch {
    fn default() -> Batch {
        Batch { frame: NOWHERE, message: NOWHERE, kind: 0, spent: 0 }
    }
}

impl Batch {
    /// Whether a frame is open.
    pub(super) fn is_open(&self) -> bool {
        self.frame != NOWHERE
    }

    /// Bytes of the messages that were written since the last call.
    pub(super) fn take_spent(&mut self) -> u32 {
        std::mem::take(&mut self.spent)
    }

    /// Counts bytes as spent.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent = self.spent.saturating_add(bytes as u32);
    }

    /// Where entries of a message of that type may be appended, about `room` bytes; whether the
    /// message has only begun, so that its head comes first.
    #[inline]
    pub(super) fn entries<'o>(
        &mut self,
        kind: u8,
        room: usize,
        output: &'o mut Output<'_>,
    ) -> (&'o mut Vec<u8>, bool) {
        let fits = self.frame != NOWHERE
            && output.queue.tail().len() - self.frame as usize + room <= BATCH_BYTES_MAX;
        if fits && self.message != NOWHERE && self.kind == kind {
            return (output.queue.tail(), false);
        }
        let out = self.whole(room, output);
        out.extend_from_slice(&[kind, 0x80, 0x80, 0]);
        self.message = out.len() as u32;
        self.kind = kind;
        self.spent = self.spent.saturating_add(HEAD_BYTES as u32);
        (output.queue.tail(), true)
    }

    /// Where whole messages may be appended, about `room` bytes.
    pub(super) fn whole<'o>(&mut self, room: usize, output: &'o mut Output<'_>) -> &'o mut Vec<u8> {
        self.end_message(output);
        let used = output.queue.tail().len().saturating_sub(self.frame as usize);
        if self.is_open() && used + room > BATCH_BYTES_MAX {
            self.close(output);
        }
        if !self.is_open() {
            self.frame = output.framing.open(false, output.queue.tail()) as u32;
        }
        output.queue.tail()
    }

    /// Ends the message of entries: its length is known now.
    pub(super) fn end_message(&mut self, output: &mut Output<'_>) {
        if self.message == NOWHERE {
            return;
        }
        let start = self.message as usize;
        self.message = NOWHERE;
        let out = output.queue.tail();
        let len = out.len().saturating_sub(start);
        // Three bytes whatever the length, so that nothing has to move.
        let length = [len as u8 | 0x80, (len >> 7) as u8 | 0x80, (len >> 14) as u8 & 0x7f];
        if let Some(place) = out.get_mut(start.saturating_sub(length.len())..start) {
            place.copy_from_slice(&length);
        }
    }

    /// Ends the frame.
    pub(super) fn close(&mut self, output: &mut Output<'_>) {
        self.end_message(output);
        if self.is_open() {
            output.framing.close(self.frame as usize, false, output.queue.tail());
            self.frame = NOWHERE;
        }
    }

    /// Writes a message in a frame of its own: `head` is its payload up to the body, which goes out by
    /// reference if the framing lets it.
    pub(super) fn apart(&mut self, kind: u8, head: &[u8], body: Bytes, output: &mut Output<'_>) {
        self.close(output);
        let mut front = Vec::with_capacity(head.len() + HEAD_BYTES_MAX);
        front.push(kind);
        write_varint(&mut front, (head.len() + body.len()) as u64);
        front.extend_from_slice(head);
        self.spend(front.len() + body.len());
        if output.framing.is_prefix() {
            let tail = output.queue.tail();
            output.framing.begin(front.len() + body.len(), false, tail);
            tail.extend_from_slice(&front);
            output.queue.share(body);
        } else {
            front.extend_from_slice(&body);
            output.frame(&front, false);
        }
    }
}

const NOWHERE: u32 = u32::MAX;
/// Type and padded length.
const HEAD_BYTES: usize = 4;
