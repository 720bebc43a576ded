//! What a node and its upstream tell each other: the node stands in for the homes of topics that lie there.
//!
//! The connection to an upstream is a session of the node's own broker. What the upstream says comes as a
//! [`Command::Upstream`](crate::Command::Upstream), and what the node wants of it goes as a
//! [`Reply::Upstream`](crate::Reply::Upstream). So neither knows how the two are connected, and several nodes may be
//! joined in one test without sockets. Invariant: of one subscription the upstream says things in the order in which it
//! says them to all of its clients: a topic's value before what is newer, and each message once.

use std::sync::Arc;

use tiderace_base::{Close, Span};
use tiderace_topics::Path;

use crate::{
    EndPrincipal, LeaveReason, Numbering, Operation, OperationResult, Position, Run,
    SubscriptionKey, Target, TopicSpec,
};

/// What an upstream tells a node.
#[derive(Debug)]
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
    },
    /// Whether it takes calls of this node's clients. Comes behind [`FromUpstream::Up`]. Then what they call goes to the
    /// session as deliveries of exchanges in which it is the responder, with who calls in
    /// [`Run::caller`](crate::Run::caller).
    Calls {
        /// Whether it does.
        taken: bool,
    },
    /// What came of [`ToUpstream::Serve`], or of its end.
    Serving {
        /// The node's name for what is served.
        key: u32,
        /// Whether it serves now; or why not.
        result: Result<bool, Close>,
    },
    /// What came of a request of a client of this node.
    Answered {
        /// The request, as [`ToUpstream::Publish`] or [`ToUpstream::Operate`] has named it.
        request: u32,
        /// What came of it; [`OperationResult::Done`] for messages, all of which were taken.
        result: Result<OperationResult, Close>,
    },
}

/// What a node asks an upstream for.
#[derive(Clone, Debug)]
pub enum ToUpstream {
    /// To subscribe, with current values, notices, deltas and numbers.
    Subscribe {
        /// The node's name for the subscription; small numbers, used again after an end.
        key: SubscriptionKey,
        /// Topics.
        target: Target,
        /// Where to go on; values come where something is missing. Absent: with the values.
        since: Option<Position>,
    },
    /// To end a subscription. Messages of it may still be on their way.
    Unsubscribe {
        /// The subscription.
        key: SubscriptionKey,
    },
    /// To give calls of a service to clients of this node. They come as [`Command::Call`](crate::Command::Call) of the
    /// session. Answered by [`FromUpstream::Serving`].
    Serve {
        /// The node's name for it; small numbers, used again after an end.
        key: u32,
        /// Services.
        target: Target,
    },
    /// To give it no more calls. Answered by [`FromUpstream::Serving`]; calls may come before.
    ServeNoMore {
        /// The node's name for what is served.
        key: u32,
    },
    /// To take messages. Answered once by [`FromUpstream::Answered`], or the connection is lost.
    Publish {
        /// The node's number for the request; of those that are not answered it is unique.
        request: u32,
        /// Whose they are.
        principal: Arc<EndPrincipal>,
        /// The messages, not numbered.
        run: Box<Run>,
    },
    /// To do something with topics: one of the operations that [`Operation::write_json`] writes. Answered as messages are.
    Operate {
        /// The node's number for the request.
        request: u32,
        /// Who asks.
        principal: Arc<EndPrincipal>,
        /// What is to be done.
        operation: Box<Operation>,
    },
}
