//! What the shard of subscribers is told by homes: deliveries, acknowledgements of subscriptions, pages, notices.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_queues::Segment;
use tiderace_topics::Path;
use tiderace_wire::{Run, SubscriptionKey, TopicSpec};

use super::{Answer, SnapshotPage, SubscribeRequestId};

/// A message to the shard of subscribers.
#[derive(Debug)]
pub enum ToSubscriber {
    /// A run of a topic, for all subscribers of the shard.
    Fanout {
        /// The messages.
        run: Arc<Run>,
        /// What the topic is, if it is not what the configuration says of all.
        spec: Option<Arc<TopicSpec>>,
    },
    /// Messages of a queue for one consumer.
    Deliver {
        /// Whose.
        session: SessionId,
        /// Which subscription's.
        key: SubscriptionKey,
        /// The messages.
        segment: Segment,
    },
    /// Everything published from now on will be sent; before it, the answer.
    SubscribeAck {
        /// Who asked.
        request: SubscribeRequestId,
        /// What comes first.
        answer: Answer,
    },
    /// More of a snapshot.
    SnapshotPage {
        /// Whose.
        request: SubscribeRequestId,
        /// What.
        page: SnapshotPage,
    },
    /// Whether the subscribers of exactly this topic are to be shown.
    Presence {
        /// Which topic.
        path: Path,
        /// Whether they are.
        on: bool,
    },
    /// Nobody knows a topic of that name.
    UnknownTopic {
        /// The subscriber.
        session: SessionId,
        /// The name.
        path: Path,
    },
    /// This home has no topic that the pattern names.
    NoTopics {
        /// The subscriber and its target.
        request: SubscribeRequestId,
    },
    /// A page of the topics that there are; from now on every change of them will be told.
    TopicsPage {
        /// Who asked.
        request: SubscribeRequestId,
        /// The topics.
        topics: Vec<(Path, Arc<TopicSpec>)>,
        /// Behind which path they are.
        after: Option<Path>,
        /// Behind which there may be more.
        next: Option<Path>,
    },
    /// A topic is there, as something else than before, or no longer.
    Notice {
        /// Which.
        path: Path,
        /// What it is, if it is there.
        spec: Option<Arc<TopicSpec>>,
    },
    /// The answer to [`ToHome::IsOwner`](super::ToHome::IsOwner).
    OwnerAnswer {
        /// Who asked.
        request: SubscribeRequestId,
        /// Whether it is.
        owned: bool,
    },
}

impl ToSubscriber {
    /// Whether it tells of topics, or lets a subscription begin.
    #[inline]
    pub(crate) fn is_of_notices(&self) -> bool {
        matches!(
            self,
            ToSubscriber::UnknownTopic { .. }
                | ToSubscriber::NoTopics { .. }
                | ToSubscriber::TopicsPage { .. }
                | ToSubscriber::Notice { .. }
                | ToSubscriber::OwnerAnswer { .. }
        )
    }

    /// Bytes of the messages and names in it. Messages of queues are bounded by the prefetch of their consumers.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToSubscriber::Fanout { run, .. } => run.bytes(),
            ToSubscriber::SubscribeAck { answer, .. } => answer.bytes(),
            ToSubscriber::SnapshotPage { page, .. } => page.bytes(),
            ToSubscriber::TopicsPage { topics, .. } => topics
                .iter()
                .map(|(path, _)| size_of::<(Path, usize)>() + path.as_str().len())
                .sum(),
            _ => 0,
        }
    }
}
