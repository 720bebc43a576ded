//! One topic: what its home keeps of it, and how many subscriptions on the node get what is published to it.
//!
//! Each shard counts its own subscriptions, and the home says what it keeps; the asking session's shard puts that together.
//! Invariant: a part that knows nothing changes nothing.

use std::sync::Arc;

use tiderace_topics::Path;

use super::TopicEntry;

/// What is known of one topic.
#[derive(Clone, Debug)]
pub struct TopicDetails {
    /// Its path.
    pub path: Path,
    /// What its home keeps of it; absent if it is not there, or its home is another node's.
    pub entry: Option<TopicEntry>,
    /// The upstream that it comes from, if it does.
    pub upstream: Option<Arc<str>>,
    /// Subscriptions to exactly it, of sessions of this node.
    pub exact: u64,
    /// Subscriptions by a pattern, as far as they bring it.
    pub by_pattern: u64,
}

impl TopicDetails {
    /// One of which nothing is known.
    pub fn of(path: Path) -> TopicDetails {
        TopicDetails { path, entry: None, upstream: None, exact: 0, by_pattern: 0 }
    }

    /// Takes in what another shard knows.
    pub fn merge(&mut self, other: TopicDetails) {
        self.entry = self.entry.take().or(other.entry);
        self.upstream = self.upstream.take().or(other.upstream);
        self.exact += other.exact;
        self.by_pattern += other.by_pattern;
    }

    /// Bytes of its value and texts.
    pub fn bytes(&self) -> usize {
        let value = self.entry.as_ref().and_then(|entry| entry.value.as_ref());
        self.path.as_str().len() + value.map_or(0, |run| run.bytes())
    }
}
