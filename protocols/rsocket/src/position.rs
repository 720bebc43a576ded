//! Positions: how far each side has come, for clients that come back.
//!
//! Bytes of the frames that count ([`crate::frame::Header::counts`]), without prefixes, after they were
//! cut into fragments. Relies on nothing. Invariants: what is kept is a whole number of frames, at most
//! so many bytes, and ends at the position reached.

use std::collections::VecDeque;

use crate::frame::{Header, POSITION_MAX, PREFIX_BYTES};

/// How far the other side has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received(u64);

impl Received {
    /// The position.
    pub fn position(self) -> u64 {
        self.0
    }

    /// A frame of so many bytes has come.
    #[inline]
    pub fn count(&mut self, header: Header, len: usize) {
        if header.counts() {
            self.0 = (self.0 + len as u64) & POSITION_MAX;
        }
    }
}

/// Frames that were sent and may be wanted again, in one ring of bytes.
#[derive(Debug, Default)]
pub struct Retained {
    /// Frames behind their prefixes.
    frames: VecDeque<u8>,
    /// Position of the first frame kept.
    first: u64,
    /// Position reached.
    next: u64,
}

impl Retained {
    /// Nothing was sent yet.
    pub fn new() -> Retained {
        Retained::default()
    }

    /// The position of the first frame that can be sent again.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// The position reached.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.frames.len()
    }

    /// A frame was sent, given without its prefix. It is kept if it counts, and the oldest are
    /// forgotten while more than `bytes_max` are held.
    pub fn keep(&mut self, frame: &[u8], bytes_max: usize) {
        if !Header::read(frame).is_ok_and(|(header, _)| header.counts()) {
            return;
        }
        self.next += frame.len() as u64;
        let [_, a, b, c] = (frame.len() as u32).to_be_bytes();
        self.frames.extend([a, b, c]);
        self.frames.extend(frame);
        while self.frames.len() > bytes_max {
            self.forget_first();
        }
    }

    /// The other side has everything up to this position.
    pub fn trim(&mut self, received: u64) {
        while self.first < received {
            let Some(len) = self.first_len() else { break };
            if self.first + len as u64 > received {
                break;
            }
            self.forget_first();
        }
        if self.frames.is_empty() {
            self.frames = VecDeque::new();
        }
    }

    /// Whether a client that has everything up to this position can be sent the rest: the position is one
    /// between frames, and none of them is missing.
    pub fn reaches(&self, received: u64) -> bool {
        let (mut position, mut place) = (self.first, 0);
        while position < received {
            let Some(len) = self.len_at(place) else { return false };
            position += len as u64;
            place += PREFIX_BYTES + len;
        }
        position == received
    }

    /// Gives each frame that is kept, without its prefix, in order.
    pub fn each(&mut self, mut give: impl FnMut(&[u8])) {
        let mut rest: &[u8] = self.frames.make_contiguous();
        while let Some(([a, b, c], behind)) = rest.split_first_chunk::<PREFIX_BYTES>() {
            let len = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            let Some((frame, behind)) = behind.split_at_checked(len) else { return };
            give(frame);
            rest = behind;
        }
    }

    fn forget_first(&mut self) {
        let Some(len) = self.first_len() else { return self.frames.clear() };
        self.frames.drain(..(PREFIX_BYTES + len).min(self.frames.len()));
        self.first += len as u64;
    }

    fn first_len(&self) -> Option<usize> {
        self.len_at(0)
    }

    fn len_at(&self, place: usize) -> Option<usize> {
        let byte = |at: usize| self.frames.get(place + at).copied();
        Some(u32::from_be_bytes([0, byte(0)?, byte(1)?, byte(2)?]) as usize)
    }
}
