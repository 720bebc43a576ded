//! What a message is sent to and a subscription listens to.

use tiderace_base::ShardId;
use tiderace_topics::Path;

use crate::temporary::home_of;

/// Who gets a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// One consumer.
    Queue,
    /// One responder, which answers.
    Service,
    /// Every subscriber.
    Topic,
}

impl Kind {
    /// Its name in metrics, rules and errors.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Queue => "queue",
            Kind::Service => "service",
            Kind::Topic => "topic",
        }
    }
}

/// A kind and a path. Queues and topics of the same path are different destinations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    /// Who gets its messages.
    pub kind: Kind,
    /// Its name.
    pub path: Path,
}

impl Destination {
    /// The shard that orders its messages and keeps its state.
    pub fn home(&self, shards: usize) -> ShardId {
        home_of(&self.path, shards)
    }
}
