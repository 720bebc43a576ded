//! Searches for queues that a pattern names, which may take more than one turn.

use tiderace_base::Key;
use tiderace_topics::Pattern;

/// Steps of about three nanoseconds that one turn may spend on looking for messages that selectors
/// select and for queues that patterns name: about three milliseconds.
pub(crate) const TURN_STEPS: u32 = 1 << 20;

/// A consumer that looks for queues.
#[derive(Debug)]
pub(crate) struct Walk {
    pub(crate) consumer: Key,
    pub(crate) pattern: Pattern,
    /// The slot to be looked at next.
    pub(crate) slot: u32,
}
