//! What a node and its upstream tell each other: the node stands in for the homes of topics that lie there, and passes on
//! what its clients ask of them and of queues.
//!
//! The connection to an upstream is a session of the node's own broker. What the upstream says comes as a
//! [`Command::Upstream`](crate::Command::Upstream), and what the node wants of it goes as a
//! [`Reply::Upstream`](crate::Reply::Upstream). So neither knows how the two are connected, and several nodes may be
//! joined in one test without sockets. Invariant: of one subscription the upstream says things in the order in which it
//! says them to all of its clients: a topic's value before what is newer, and each message once.

use std::sync::Arc;

use tiderace_base::{Close, Span};
use tiderace_topics::Path;

use crate::{LeaveReason, Numbering, OperationResult, Run, SubscriptionKey, TopicSpec};

/// What an upstream tells a node.
#[derive(Clone, Debug)]
pub enum FromUpstream {
    /// It has let the node in: subscriptions may be asked for. Comes first, and once for each connection.
    Up {
        /// Which of the node's upstreams it is, by its place in the configuration.
        upstream: u16,
        /// Its life.
        epoch: u64,
    },
    /// Messages of one topic, with the versions and the numbers that they have there
    /// ([`Run::upstream`](crate::Run::upstream)). This node has not numbered them yet.
    Messages {
        /// The subscription that brings them.
        key: SubscriptionKey,
        /// The messages.
        run: Run,
    },
    /// A subscription has gained a topic; before the first message of it.
    Joined {
        /// The subscription.
        key: SubscriptionKey,
        /// The topic.
        path: Path,
        /// What it is there.
        spec: Arc<TopicSpec>,
        /// Whether it holds no value, or one that comes behind this: a value that this node has from before is not its value.
        is_empty: bool,
    },
    /// A subscription has lost a topic.
    Left {
        /// The subscription.
        key: SubscriptionKey,
        /// The topic.
        path: Path,
        /// Why.
        reason: LeaveReason,
    },
    /// Everything up to this number has come that was asked for.
    Reached {
        /// Who gave the number.
        numbering: Numbering,
        /// The number.
        sequence: u64,
    },
    /// What was missed since the position that a subscription began with is on its way; before
    /// [`FromUpstream::Complete`].
    Recovered {
        /// The subscription.
        key: SubscriptionKey,
        /// Whether nothing is missing.
        complete: bool,
        /// Whether versions that were known before are still those of the same messages.
        continues: bool,
    },
    /// A subscription listens, and all values have come, or all that was missed: topics of it that had a value before
    /// and have not brought one have none any more.
    Complete {
        /// The subscription.
        key: SubscriptionKey,
    },
    /// A subscription that was to end has ended: its key may be used again.
    Ended {
        /// The subscription.
        key: SubscriptionKey,
    },
    /// A subscription has been refused, or was ended there.
    Refused {
        /// The subscription.
        key: SubscriptionKey,
        /// Why.
        close: Close,
    },
    /// It has answered whether it is there.
    Pong {
        /// Time from the question to the answer.
        round_trip: Span,
    },
    /// Whether it takes requests of this node's clients. Comes behind [`FromUpstream::Up`].
    Requests {
        /// Whether it does.
        taken: bool,
        /// Whether it takes their consumers of queues.
        consumers: bool,
    },
    /// Messages of a queue for a consumer of this node, with the numbers that they have there and who gave them
    /// ([`Run::home`](crate::Run::home)), by which they are settled.
    Queued {
        /// The consumer.
        key: SubscriptionKey,
        /// How often a consumer had them before, as far as can be known.
        redeliveries: u32,
        /// The messages.
        run: Run,
    },
    /// Somebody who browses a queue has been given all that was there.
    Browsed {
        /// The consumer.
        key: SubscriptionKey,
    },
    /// Whether it takes calls of this node's clients. Comes behind [`FromUpstream::Up`]. Then what they call goes to the
    /// session as deliveries of exchanges in which it is the responder, with who calls in
    /// [`Run::caller`](crate::Run::caller).
    Calls {
        /// Whether it does.
        taken: bool,
    },
    /// What came of [`ToUpstream::Serve`](crate::ToUpstream::Serve), or of its end.
    Serving {
        /// The node's name for what is served.
        key: u32,
        /// Whether it serves now; or why not.
        result: Result<bool, Close>,
    },
    /// What came of a request of a client of this node.
    Answered {
        /// The request, as [`ToUpstream::Publish`](crate::ToUpstream::Publish) or [`ToUpstream::Operate`](crate::ToUpstream::Operate) has named it.
        request: u32,
        /// What came of it; [`OperationResult::Done`] for messages, all of which were taken.
        result: Result<OperationResult, Close>,
    },
}
