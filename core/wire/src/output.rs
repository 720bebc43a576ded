//! Bytes on their way to one connection: small pieces in a write block, large shared blocks by
//! reference, ready for one `writev`.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};
use tiderace_base::limits::COPY_BYTES_MAX;

use crate::Framing;

/// What waits to be written to one connection. Empty ones hold no memory worth keeping and are
/// meant to be pooled.
#[derive(Debug, Default)]
pub struct OutQueue {
    blocks: VecDeque<Bytes>,
    tail: Vec<u8>,
    bytes: usize,
}

impl OutQueue {
    /// An empty queue.
    pub fn new() -> OutQueue {
        OutQueue::default()
    }

    /// Bytes waiting.
    pub fn len(&self) -> usize {
        self.bytes + self.tail.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The write block that small pieces are appended to.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.tail
    }

    /// Appends a shared block: by reference if it is large, by copy otherwise.
    pub fn share(&mut self, block: Bytes) {
        if block.len() < COPY_BYTES_MAX {
            self.tail.extend_from_slice(&block);
            return;
        }
        self.seal();
        self.bytes += block.len();
        self.blocks.push_back(block);
    }

    /// The same for a block that somebody keeps.
    pub fn share_of(&mut self, block: &Bytes) {
        if block.len() < COPY_BYTES_MAX {
            self.tail.extend_from_slice(block);
        } else {
            self.share(block.clone());
        }
    }

    /// Puts a block in front of everything.
    pub fn prepend(&mut self, block: impl Into<Bytes>) {
        let block = block.into();
        self.bytes += block.len();
        self.blocks.push_front(block);
    }

    /// Takes everything out of another queue, to come after what waits here. The other one keeps no
    /// memory: it may belong to somebody who is idle from now on.
    pub fn append(&mut self, other: &mut OutQueue) {
        let tail = std::mem::take(&mut other.tail);
        if other.blocks.is_empty() && tail.len() < COPY_BYTES_MAX {
            return self.tail.extend_from_slice(&tail);
        }
        self.seal();
        self.blocks.append(&mut other.blocks);
        self.bytes += std::mem::take(&mut other.bytes);
        self.tail = tail;
        other.blocks = VecDeque::new();
    }

    /// Takes everything out of another queue, to come before what waits here.
    pub fn swap_behind(&mut self, other: &mut OutQueue) {
        std::mem::swap(self, other);
        self.append(other);
    }

    /// Takes everything out as one piece.
    pub fn take_bytes(&mut self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        for block in self.blocks.drain(..) {
            all.extend_from_slice(&block);
        }
        all.append(&mut self.tail);
        *self = OutQueue::default();
        all
    }

    /// Pieces of memory that the bytes lie in.
    pub fn pieces(&self) -> usize {
        self.blocks.len() + usize::from(!self.tail.is_empty())
    }

    /// Fills `slices` with the bytes that come first and says how many slices were filled.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        let mut count = 0;
        for (slot, bytes) in slices.iter_mut().zip(self.blocks.iter().map(|b| &b[..]).chain(tail)) {
            *slot = IoSlice::new(bytes);
            count += 1;
        }
        count
    }

    /// The same with so many bytes at most.
    #[cold]
    pub fn first_slices<'a>(&'a self, slices: &mut [IoSlice<'a>], bytes_max: usize) -> usize {
        let tail = (!self.tail.is_empty()).then_some(&self.tail[..]);
        let (mut count, mut room) = (0, bytes_max);
        for (slot, bytes) in slices.iter_mut().zip(self.blocks.iter().map(|b| &b[..]).chain(tail)) {
            let bytes = bytes.get(..room).unwrap_or(bytes);
            *slot = IoSlice::new(bytes);
            count += 1;
            room -= bytes.len();
            if room == 0 {
                break;
            }
        }
        count
    }

    /// The bytes that come first, as far as they lie together; none if nothing waits.
    pub fn front(&self) -> &[u8] {
        self.blocks.front().map_or(&self.tail, |block| block)
    }

    /// Takes the first `count` bytes out, or as many of them as lie together: by reference if they are in
    /// a shared block or all that is left.
    pub fn take(&mut self, count: usize) -> Bytes {
        if let Some(block) = self.blocks.front_mut() {
            let part = block.split_to(count.min(block.len()));
            self.bytes -= part.len();
            if block.is_empty() {
                self.blocks.pop_front();
            }
            return part;
        }
        if count >= self.tail.len() {
            return Bytes::from(std::mem::take(&mut self.tail));
        }
        let part = Bytes::copy_from_slice(self.tail.get(..count).unwrap_or_default());
        self.advance(count);
        part
    }

    /// Forgets the first `written` bytes.
    pub fn advance(&mut self, mut written: usize) {
        while let Some(block) = self.blocks.front_mut() {
            if written < block.len() {
                block.advance(written);
                self.bytes -= written;
                return;
            }
            written -= block.len();
            self.bytes -= block.len();
            self.blocks.pop_front();
        }
        if written >= self.tail.len() {
            self.tail.clear();
        } else if written > 0 {
            // A short write: what remains becomes a block so that it need not be moved again.
            let rest = Bytes::from(std::mem::take(&mut self.tail)).slice(written..);
            self.bytes += rest.len();
            self.blocks.push_back(rest);
        }
    }

    /// Drops everything but the write block's memory, if that is of a size worth keeping.
    #[inline]
    pub fn clear(&mut self, keep_bytes: usize) {
        self.blocks.clear();
        self.bytes = 0;
        self.tail.clear();
        if self.tail.capacity() > keep_bytes {
            self.tail = Vec::new();
        }
    }

    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.bytes += self.tail.len();
            self.blocks.push_back(Bytes::from(std::mem::take(&mut self.tail)));
        }
    }
}

/// A session's way to its connection: the queue and the transport's framing.
#[derive(Debug)]
pub struct Output<'a> {
    /// How frames are marked.
    pub framing: Framing,
    /// Where the bytes go.
    pub queue: &'a mut OutQueue,
}

impl Output<'_> {
    /// Appends one protocol frame, framed; `text` if it is valid UTF-8.
    pub fn frame(&mut self, frame: &[u8], text: bool) {
        self.framing.write(frame, text, self.queue.tail());
    }

    /// The same for a frame that is nobody else's: a large one is not copied.
    pub fn frame_of(&mut self, frame: Vec<u8>, text: bool) {
        if !self.framing.is_prefix() {
            return self.frame(&frame, text);
        }
        self.framing.begin(frame.len(), text, self.queue.tail());
        self.queue.share(Bytes::from(frame));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_leave_in_the_order_they_came(
            pieces in proptest::collection::vec((any::<bool>(), 1usize..6000, any::<u8>()), 1..30),
            writes in proptest::collection::vec(1usize..9000, 1..100),
        ) {
            let mut queue = OutQueue::new();
            let mut expected = Vec::new();
            let mut written = Vec::new();
            let mut writes = writes.into_iter().cycle();
            for (shared, len, byte) in pieces {
                let piece = vec![byte; len];
                expected.extend_from_slice(&piece);
                if shared { queue.share(Bytes::from(piece)) } else { queue.tail().extend_from_slice(&piece) }
                if byte % 3 == 0 {
                    write(&mut queue, writes.next().unwrap(), &mut written);
                }
                prop_assert_eq!(queue.len(), expected.len() - written.len());
            }
            while !queue.is_empty() {
                write(&mut queue, writes.next().unwrap(), &mut written);
            }
            prop_assert_eq!(written, expected);
        }
    }

    proptest! {
        #[test]
        fn pieces_are_taken_in_order(
            pieces in proptest::collection::vec((any::<bool>(), 1usize..6000), 1..20),
            counts in proptest::collection::vec(1usize..5000, 1..40),
        ) {
            let mut queue = OutQueue::new();
            let (mut expected, mut taken) = (Vec::new(), Vec::new());
            for ((shared, len), byte) in pieces.into_iter().zip(0u8..) {
                let piece = vec![byte; len];
                expected.extend_from_slice(&piece);
                if shared { queue.share(Bytes::from(piece)) } else { queue.tail().extend_from_slice(&piece) }
            }
            for count in counts.into_iter().cycle().take(1000) {
                let front = queue.front().to_vec();
                let part = queue.take(count);
                prop_assert!(front.starts_with(&part));
                taken.extend_from_slice(&part);
                prop_assert_eq!(queue.len(), expected.len() - taken.len());
            }
            prop_assert!(expected.starts_with(&taken));
            prop_assert_eq!(queue.is_empty(), queue.front().is_empty());
        }
    }

    proptest! {
        #[test]
        fn queues_are_joined_in_order(
            sizes in proptest::collection::vec((0usize..3, 0usize..5000), 0..12),
        ) {
            let (mut queues, mut wanted) = ([OutQueue::new(), OutQueue::new(), OutQueue::new()], [vec![], vec![], vec![]]);
            for ((which, len), byte) in sizes.into_iter().zip(0u8..) {
                let piece = vec![byte; len];
                wanted[which].extend_from_slice(&piece);
                if byte % 2 == 0 { queues[which].share(Bytes::from(piece)) } else { queues[which].tail().extend_from_slice(&piece) }
            }
            let [mut first, mut second, mut third] = queues;
            // second, first, third, behind a block of its own.
            first.swap_behind(&mut second);
            first.append(&mut third);
            first.prepend(vec![99; 3]);
            let expected = [&[99; 3][..], &wanted[1], &wanted[0], &wanted[2]].concat();
            prop_assert_eq!(first.len(), expected.len());
            prop_assert_eq!(first.take_bytes(), expected);
            for left in [first, second, third] {
                prop_assert!(left.is_empty());
                prop_assert_eq!(left.tail.capacity() + left.blocks.capacity(), 0, "it may be idle now");
            }
        }
    }

    fn write(queue: &mut OutQueue, mut room: usize, written: &mut Vec<u8>) {
        let mut slices = [IoSlice::new(&[]); 3];
        let count = queue.first_slices(&mut slices, 4000);
        let offered: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        let all = count == queue.pieces().min(slices.len());
        assert!(all && offered <= 4000 || offered == 4000, "as many as fit");
        let mut taken = 0;
        for slice in &slices[..count] {
            let part = slice.len().min(room);
            written.extend_from_slice(&slice[..part]);
            room -= part;
            taken += part;
        }
        queue.advance(taken);
    }
}
