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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tiderace_base::Time;

    use super::*;
    use crate::{Destination, Kind, Meta, OperationResult, Run, TopicSpec};

    #[test]
    fn what_is_told_of_a_topic_is_not_its_value() {
        let path = Path::parse("fx/a").unwrap();
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        let value = Run::single(destination, Time::ZERO, b"", b"secret", Meta::default());
        let entry = TopicEntry {
            path: path.clone(),
            spec: Some(Arc::new(TopicSpec::default())),
            value: Some(Arc::new(value)),
            version: 7,
        };
        let nothing = TopicDetails { path, entry: None, upstream: None, exact: 1, by_pattern: 2 };
        let mut known = TopicDetails { entry: Some(entry), ..nothing.clone() };
        known.merge(nothing.clone());
        let written = |topic: TopicDetails| {
            let result = OperationResult::Topic(Box::new(topic));
            assert!(result.values().is_empty());
            let mut out = Vec::new();
            result.write_json(&mut out, true);
            String::from_utf8(out).unwrap()
        };
        let text = written(known);
        assert!(text.starts_with(r#"{"path":"fx/a","version":7,"spec":{"#), "{text}");
        let end = r#","bytes":6,"exists":true,"subscriptions":2,"by_pattern":4}"#;
        assert!(text.ends_with(end) && !text.contains("secret"), "{text}");
        let text = written(nothing);
        assert_eq!(text, r#"{"path":"fx/a","exists":false,"subscriptions":1,"by_pattern":2}"#);
    }
}
