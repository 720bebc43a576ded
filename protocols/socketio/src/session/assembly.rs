//! A packet whose attachments are coming.
//!
//! Relies on nothing. Invariant: it holds what has been received, never what was announced.

use tiderace_base::Time;

/// A packet and the attachments that came so far.
#[derive(Debug)]
pub(super) struct Assembly {
    head: Box<[u8]>,
    attachments: Vec<Vec<u8>>,
    wanted: usize,
    bytes: usize,
    deadline: Time,
}

impl Assembly {
    pub(super) fn new(head: &[u8], wanted: usize, deadline: Time) -> Assembly {
        Assembly { head: head.into(), attachments: Vec::new(), wanted, bytes: head.len(), deadline }
    }

    /// Takes an attachment in; says whether it was the last.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes += bytes.len();
        self.attachments.push(bytes.to_vec());
        self.attachments.len() >= self.wanted
    }

    /// Bytes so far, the packet's own included.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    pub(super) fn attachments(&self) -> &[Vec<u8>] {
        &self.attachments
    }

    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }
}
