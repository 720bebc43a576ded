//! The numbers of messages at the node that they come from.
//!
//! Relies on nothing. Invariant: what is reached is said of a run's last message alone.

use crate::Numbering;

/// The numbers that messages have where they come from, if that is another node.
///
/// This node gives them numbers of its own as well, in the order in which they come; those of the other node are for
/// positions that are good there, and at all nodes that get messages from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpstreamNumbers {
    /// Who gave them.
    pub numbering: Numbering,
    /// The number of the run's first message there.
    pub first: u64,
    /// Up to which of these numbers everything has come that was asked for there, once the run's last message has.
    pub reached: u64,
}

impl UpstreamNumbers {
    /// Those of one message of so many.
    pub(super) fn at(self, index: usize, len: usize) -> UpstreamNumbers {
        let first = self.first + index as u64;
        let reached = if index + 1 == len { self.reached } else { self.reached.min(first) };
        UpstreamNumbers { first, reached, ..self }
    }
}
