//! What is kept for a client that may come back: what it was sent, and how far each side has come.
//!
//! Relies on `position` for the counting. Invariant: what is kept ends at the position that was sent last.

use tiderace_base::Time;

use crate::frame::{Frame, Header, Resume};
use crate::limits::SCRATCH_BYTES_MAX;
use crate::position::{Received, Retained};

/// What is kept for a client that may come back.
#[derive(Debug, Default)]
pub(super) struct Kept {
    sent: Retained,
    received: Received,
    /// Of the session's ticket.
    secret: u128,
    /// A frame on its way.
    scratch: Vec<u8>,
    /// When the session ends, while it is detached.
    until: Option<Time>,
}

impl Kept {
    /// Nothing yet, for the session with that secret.
    pub(super) fn new(secret: u128) -> Kept {
        Kept { secret, ..Kept::default() }
    }

    /// The secret of the session's ticket.
    pub(super) fn secret(&self) -> u128 {
        self.secret
    }

    /// Keeps a frame that is sent, within so many bytes; how many more, or fewer, are kept now.
    pub(super) fn keep(&mut self, frame: &Frame<'_>, bytes_max: usize) -> isize {
        if !frame.header().counts() {
            return 0;
        }
        let before = self.sent.bytes();
        self.scratch.clear();
        frame.write_bare(&mut self.scratch);
        self.sent.keep(&self.scratch, bytes_max);
        self.scratch.shrink_to(SCRATCH_BYTES_MAX);
        self.sent.bytes() as isize - before as isize
    }

    /// Bytes that are kept.
    pub(super) fn bytes(&self) -> usize {
        self.sent.bytes()
    }

    /// Gives each frame that is kept, the oldest first.
    pub(super) fn each_sent(&mut self, give: impl FnMut(&[u8])) {
        self.sent.each(give);
    }

    /// The client has everything up to this position; how many bytes fewer are kept now.
    pub(super) fn trim(&mut self, received: u64) -> usize {
        let before = self.sent.bytes();
        self.sent.trim(received);
        before - self.sent.bytes()
    }

    /// A frame of so many bytes has come.
    #[inline]
    pub(super) fn count_received(&mut self, header: Header, len: usize) {
        self.received.count(header, len);
    }

    /// Up to where everything has come from the client.
    pub(super) fn position(&self) -> u64 {
        self.received.position()
    }

    /// Whether the session can go on from where a client says that it is.
    pub(super) fn admits(&self, resume: &Resume<'_>) -> bool {
        resume.available <= self.position() && self.sent.reaches(resume.received)
    }

    /// The connection is gone: the session waits for another one until then.
    pub(super) fn detach(&mut self, until: Time) {
        self.until = Some(until);
    }

    /// Another connection carries the session.
    pub(super) fn attach(&mut self) {
        self.until = None;
    }

    /// When the session ends if its client does not come back.
    pub(super) fn until(&self) -> Time {
        self.until.unwrap_or(Time::NEVER)
    }

    /// Whether the session waits for its client.
    pub(super) fn is_detached(&self) -> bool {
        self.until.is_some()
    }
}
