//! What the shard of subscribers is told by homes: deliveries, acknowledgements of subscriptions, pages.

use std::sync::Arc;

use tiderace_base::{Close, SessionId};
use tiderace_queues::Segment;
use tiderace_topics::Path;
use tiderace_wire::{Run, SubscriptionKey, Target, TopicSpec};

use super::{Answer, SnapshotPage, SubscribeRequestId, UpstreamMarks};

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
    /// Somebody who browses a queue has been given all that was there.
    Browsed {
        /// Whose.
        session: SessionId,
        /// Which subscription.
        key: SubscriptionKey,
        /// Which queue.
        path: Path,
    },
    /// The connection to the upstream that keeps a queue is lost, and its messages are in the queue again: those that the
    /// client has not been given are not for it.
    Recall {
        /// Whose.
        session: SessionId,
        /// Which subscription's.
        key: SubscriptionKey,
    },
    /// Everything published from now on will be sent; before it, the answer.
    SubscribeAck {
        /// Who asked.
        request: SubscribeRequestId,
        /// What comes first.
        answer: Answer,
    },
    /// Behind an answer: up to which numbers of another node everything has come from there.
    ReachedUpstream {
        /// Whose subscription was answered.
        session: SessionId,
        /// The numbers.
        marks: Box<UpstreamMarks>,
    },
    /// There is nothing to consume from.
    SubscribeRefused {
        /// Who asked.
        request: SubscribeRequestId,
        /// Why.
        close: Box<Close>,
    },
    /// Nothing brings what subscriptions listen to any longer.
    SubscriptionsEnded {
        /// What all of them name.
        target: Box<Target>,
        /// Why.
        close: Box<Close>,
    },
    /// More of a snapshot.
    SnapshotPage {
        /// Whose.
        request: SubscribeRequestId,
        /// What.
        page: SnapshotPage,
    },
    /// A topic comes from a node that has begun anew: its versions are not those that its subscribers know.
    BegunAnew {
        /// Which topic.
        path: Path,
    },
    /// Whether the subscribers of exactly this topic are to be shown.
    Presence {
        /// Which topic.
        path: Path,
        /// Whether they are.
        on: bool,
    },
}

impl ToSubscriber {
    /// Bytes of the messages in it. Messages of queues are bounded by the prefetch of their consumers.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToSubscriber::Fanout { run, .. } => run.bytes(),
            ToSubscriber::SubscribeAck { answer, .. } => answer.bytes(),
            ToSubscriber::SnapshotPage { page, .. } => page.bytes(),
            _ => 0,
        }
    }
}
