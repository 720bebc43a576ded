//! What calls to the queues ask their caller to do.

use tiderace_base::SessionId;
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use crate::Segment;

/// What the queues want done.
#[derive(Debug)]
pub enum Effect {
    /// Give messages to a consumer.
    Deliver {
        /// Its session.
        session: SessionId,
        /// Its subscription.
        key: SubscriptionKey,
        /// The messages.
        segment: Segment,
    },
    /// A message was rejected, or lost with its consumer, too often.
    DeadLetter {
        /// Where it lay.
        from: Path,
        /// Where it should go; `None`: drop it.
        to: Option<Path>,
        /// One message.
        segment: Segment,
    },
    /// The queue has more than it may hold, or no longer: publishers wait in between.
    Full {
        /// Which queue.
        path: Path,
        /// Whether they wait.
        on: bool,
    },
}
