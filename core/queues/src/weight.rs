//! What messages of a queue count for.
//!
//! Relies on nothing. Invariant: parts of a segment count together as much as the whole.

use std::iter::Sum;
use std::ops::Add;

/// Bytes of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    /// In the bounds of their queue, as if nobody else had them.
    pub(crate) bytes: usize,
    /// In the memory budget, without what several queues share.
    pub(crate) charged: usize,
}

impl Weight {
    /// What is left without others.
    pub(crate) fn without(self, less: Weight) -> Weight {
        Weight {
            bytes: self.bytes.saturating_sub(less.bytes),
            charged: self.charged.saturating_sub(less.charged),
        }
    }
}

impl Add for Weight {
    type Output = Weight;

    fn add(self, more: Weight) -> Weight {
        Weight { bytes: self.bytes + more.bytes, charged: self.charged + more.charged }
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Weight>>(weights: I) -> Weight {
        weights.fold(Weight::default(), Add::add)
    }
}
