//! What a topic's subscribers are offered.
//!
//! Invariant: it is made once for a run, not for each subscriber.

use tiderace_base::Key;
use tiderace_wire::Priority;

/// What a topic's subscribers on this shard are offered: a run, and what is the same for all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) topic: Key,
    pub(crate) priority: Priority,
    /// A subscriber without conditions gets all of it at once.
    pub(crate) is_plain: bool,
    /// Messages in the run.
    pub(crate) len: u32,
    /// The number of the last of them.
    pub(crate) reached: u64,
}

/// How far above the mark a backlog may grow during the grace period, when publishers are held
/// back but what they sent before is still under way.
pub(crate) const OVERSHOOT: usize = 4;
