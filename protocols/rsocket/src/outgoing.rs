//! Frames on their way out: cut into fragments, marked as the transport wants it, kept for those who
//! come back.
//!
//! Relies on [`crate::fragment`] and [`crate::position`]. Invariant: what is kept is what was written.

use tiderace_wire::Framing;

use crate::fragment::Fragments;
use crate::frame::{Frame, PREFIX_BYTES};
use crate::position::Retained;

/// How frames leave.
#[derive(Debug)]
pub struct Outgoing {
    framing: Framing,
    fragment_bytes_max: usize,
    retained: Option<Box<Retained>>,
    retained_bytes_max: usize,
}

impl Outgoing {
    /// For a transport of this framing, by frames of at most `fragment_bytes_max` bytes. Frames are
    /// kept if `retained_bytes_max` is above zero.
    pub fn new(framing: Framing, fragment_bytes_max: usize, retained_bytes_max: usize) -> Outgoing {
        let retained = (retained_bytes_max > 0).then(Box::default);
        Outgoing { framing, fragment_bytes_max, retained, retained_bytes_max }
    }

    /// What was kept, if anything is.
    pub fn retained(&mut self) -> Option<&mut Retained> {
        self.retained.as_deref_mut()
    }

    /// The transport's framing.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Another connection carries the conversation.
    pub fn reframe(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Appends a frame.
    #[inline]
    pub fn write(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        if frame.len() <= self.fragment_bytes_max {
            return self.write_one(frame, out);
        }
        for fragment in Fragments::new(*frame, self.fragment_bytes_max) {
            self.write_one(&fragment, out);
        }
    }

    /// Appends what was kept, as it was.
    pub fn repeat(&mut self, out: &mut Vec<u8>) {
        let framing = self.framing;
        if let Some(retained) = &mut self.retained {
            retained.each(|frame| write_bytes(frame, framing, out));
        }
    }

    #[inline]
    fn write_one(&mut self, frame: &Frame<'_>, out: &mut Vec<u8>) {
        frame.write(self.framing, out);
        if let Some(retained) = &mut self.retained
            && frame.header().counts()
        {
            let len = frame.len();
            match out.len().checked_sub(len).and_then(|start| out.get(start..)) {
                Some(bytes) if self.framing.is_prefix() => {
                    retained.keep(bytes, self.retained_bytes_max);
                }
                _ => {
                    let mut bytes = Vec::with_capacity(len);
                    frame.write_bare(&mut bytes);
                    retained.keep(&bytes, self.retained_bytes_max);
                }
            }
        }
    }
}

fn write_bytes(frame: &[u8], framing: Framing, out: &mut Vec<u8>) {
    if let Framing::Stream = framing {
        let [_, a, b, c] = (frame.len() as u32).to_be_bytes();
        out.reserve(PREFIX_BYTES + frame.len());
        out.extend_from_slice(&[a, b, c]);
    }
    framing.write(frame, false, out);
}
