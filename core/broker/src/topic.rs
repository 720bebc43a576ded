//! A topic as both sides of a shard know it: its name, what it is, and when it was used last.
//!
//! What its home keeps of it, and who listens to it here, stands in tables of these sides; see [`crate::side_table`].

use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_topics::Path;
use tiderace_wire::TopicSpec;

use crate::home::topic::HomeTopic;
use crate::topic_subscribers::TopicSubscribers;

/// One topic on one shard.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) path: Path,
    pub(crate) spec: Arc<TopicSpec>,
    /// Where it is in the directory, and in what the sides of the shard keep of topics.
    slot: u32,
    /// When it was last used, in whole seconds since the node began.
    used_seconds: u32,
}

const _: () = assert!(size_of::<Topic>() <= 32, "there may be millions of them");
/// What a topic costs besides its value and the text of its name: its records, and its places in the tables,
/// which are half empty after they have grown.
const TOPIC_BYTES: usize =
    size_of::<Topic>() + size_of::<TopicSubscribers>() + size_of::<HomeTopic>() + 128;

/// Bytes that a topic of that name takes on a shard, whatever is kept of it.
pub(crate) fn price_of_topic(path: &Path) -> usize {
    TOPIC_BYTES + path.as_str().len()
}

impl Topic {
    pub(crate) fn new(path: Path, spec: Arc<TopicSpec>, now: Time) -> Topic {
        Topic { path, spec, slot: u32::MAX, used_seconds: seconds(now) }
    }

    /// Its slot in the directory.
    #[inline]
    pub(crate) fn slot(&self) -> u32 {
        self.slot
    }

    /// It is in the directory now.
    pub(crate) fn set_slot(&mut self, slot: u32) {
        self.slot = slot;
    }

    /// It is used now.
    pub(crate) fn touch(&mut self, now: Time) {
        self.used_seconds = seconds(now);
    }

    /// How long it has not been used, to about a second.
    pub(crate) fn unused(&self, now: Time) -> Span {
        Span::from_secs(u64::from(seconds(now).saturating_sub(self.used_seconds)))
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
