//! An upstream of a node under test.

use tiderace_base::{ShardId, Span};
use tiderace_broker::UpstreamTopics;
use tiderace_topics::Pattern;

/// One that has these topics, at the first shard: read only, with times that a test waits for.
pub fn upstream(name: &str, topics: &[&str]) -> UpstreamTopics {
    UpstreamTopics {
        name: name.into(),
        topics: topics.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
        shard: ShardId(0),
        linger: Span::from_millis(300),
        timeout: Span::from_millis(500),
        remove_after: None,
        eager: false,
        write: false,
        queues: Vec::new(),
        services: Vec::new(),
    }
}
