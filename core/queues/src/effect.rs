//! What calls to the queues ask their caller to do.

use tiderace_base::{Key, SessionId};
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use crate::Segment;

/// Why a message is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeathReason {
    /// It has failed too often.
    Redeliveries,
    /// Its time was over before anybody had it.
    Expired,
}

impl DeathReason {
    /// As it stands in the properties of a dead letter.
    pub fn text(self) -> &'static str {
        match self {
            DeathReason::Redeliveries => "redeliveries",
            DeathReason::Expired => "expired",
        }
    }
}

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
    /// A browser has been shown all that was in its queue when it began.
    Browsed {
        /// Its session.
        session: SessionId,
        /// Its subscription, which is one no more.
        key: SubscriptionKey,
        /// Which queue.
        path: Path,
    },
    /// A message was rejected, or lost with its consumer, too often, or has expired where that is a reason.
    DeadLetter {
        /// In which queue it lay.
        queue: Key,
        /// The stream that has it, if it is stored. Nothing of it is needed there when it has come to where it
        /// goes, which [`crate::Queues::end_move`] is told for each message; or the messages come back by
        /// [`crate::Queues::undo_moves`].
        stream: Option<u64>,
        /// The path of that queue.
        from: Path,
        /// Where it should go; `None`: drop it.
        to: Option<Path>,
        /// The messages, which share that fate.
        segment: Segment,
        /// Why.
        reason: DeathReason,
        /// When, in milliseconds since 1970.
        wall_ms: u64,
    },
    /// Stored messages are consumed, or have expired.
    Settled {
        /// The stream that has them.
        stream: u64,
        /// The messages.
        segment: Segment,
        /// The queue waits for the store to say so, by [`crate::Queues::settled`].
        is_outside: bool,
    },
    /// Messages that are in the store alone are gone.
    Purged {
        /// Which streams may have them.
        streams: Vec<u64>,
        /// First and last version of each stretch, rising and apart.
        ranges: Vec<(u64, u64)>,
    },
    /// Messages are to be read from the store, and given to [`crate::Queues::loaded`].
    Load {
        /// Whose.
        queue: Key,
        /// In which streams they may be: the one of persistent messages, and that of the others.
        streams: Vec<u64>,
        /// The first version that is wanted.
        first: u64,
        /// The last.
        last: u64,
        /// Bytes that the answer may have, but for a single larger message.
        bytes_max: usize,
    },
    /// What [`crate::Queues::look`] has asked for is in memory.
    Looked {
        /// The number that was given.
        number: u64,
        /// Up to which version everything has been looked at.
        through: u64,
    },
    /// A queue with a stream has ended, and all that it had.
    Ended {
        /// Which stream.
        stream: u64,
    },
    /// The queue has more than it may hold, or no longer: publishers wait in between.
    Full {
        /// Which queue.
        path: Path,
        /// Whether they wait.
        on: bool,
    },
}
