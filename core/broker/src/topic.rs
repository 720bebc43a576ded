//! A topic as one shard knows it: its name, what it is and, at its home, what it remembers.

use std::sync::Arc;

use tiderace_base::{Now, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Run, TopicSpec};

use crate::home::guard::Guard;
use crate::home::topic::HomeTopic;
use crate::runs::fresh;
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
    /// Present at its home only.
    pub(crate) home: Option<Box<HomeTopic>>,
}

const _: () = assert!(size_of::<Topic>() <= 40, "there may be millions of them");
/// What a topic costs besides its value and the text of its name: its records, and its places in the tables,
/// which are half empty after they have grown.
const TOPIC_BYTES: usize =
    size_of::<Topic>() + size_of::<TopicSubscribers>() + size_of::<HomeTopic>() + 120;

/// Bytes that a topic of that name takes on a shard, whatever is kept of it.
pub(crate) fn price_of_topic(path: &Path) -> usize {
    TOPIC_BYTES + path.as_str().len()
}

impl Topic {
    pub(crate) fn new(path: Path, spec: Arc<TopicSpec>, now: Time) -> Topic {
        Topic { path, spec, slot: u32::MAX, used_seconds: seconds(now), home: None }
    }

    /// Its specification, and what it remembers as a home.
    pub(crate) fn with_home(&mut self) -> Option<(&Arc<TopicSpec>, &mut HomeTopic)> {
        Some((&self.spec, self.home.as_deref_mut()?))
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

    /// Whether it remembers a value whose time is over.
    pub(crate) fn retained_expired(&self, wall_ms: u64) -> bool {
        let retained = self.home.as_ref().and_then(|home| home.value());
        let message = retained.and_then(|run| run.message(0));
        message.is_some_and(|message| message.is_expired(wall_ms))
    }

    /// Whether it is there for those who list topics: it was created or published to.
    pub(crate) fn is_known(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.is_known())
    }

    /// Whether it is there and some pattern names it.
    pub(crate) fn is_named(&self, selector: &[Pattern]) -> bool {
        self.is_known() && selector.iter().any(|pattern| pattern.matches(&self.path))
    }

    /// Its value, unless its time is over.
    pub(crate) fn value(&self, now: Now) -> Option<Arc<Run>> {
        fresh(self.home.as_ref()?.value(), now)
    }

    /// Whether the server alone publishes to it.
    pub(crate) fn is_read_only(&self) -> bool {
        let guard = self.home.as_ref().and_then(|home| home.guard());
        guard.is_some_and(Guard::is_read_only)
    }

    /// Whether forgetting what its home keeps would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.home.as_ref().is_none_or(|home| home.is_idle())
    }

    /// Whether somebody may come back to it, even if there are no recent messages.
    pub(crate) fn is_recorded(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.history().is_some())
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
