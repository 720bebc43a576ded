//! What a node asks its upstream for, with the answers of `upstream.rs`.
//!
//! Relies on nothing that acts. Invariant: what is asked for a client of the node says for whom.

use std::sync::Arc;

use tiderace_base::ShardId;

use crate::{EndPrincipal, Operation, Outcome, Position, Run, Subscribe, SubscriptionKey, Target};

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
    /// To have a consumer of a client of this node, which settles whatever that client does. Answered by
    /// [`FromUpstream::Complete`](crate::FromUpstream::Complete) or [`FromUpstream::Refused`](crate::FromUpstream::Refused).
    Consume {
        /// The node's name for it, from the same numbers as those of subscriptions to topics.
        key: SubscriptionKey,
        /// Whose it is.
        principal: Arc<EndPrincipal>,
        /// What it wants, of one target.
        subscribe: Box<Subscribe>,
    },
    /// To settle messages of a consumer.
    Settle {
        /// The node's number for the request, answered as one for messages is; absent: no answer is wanted.
        request: Option<u32>,
        /// The consumer.
        key: SubscriptionKey,
        /// By who gave the numbers, stretches of them, both ends included; never empty.
        parts: Vec<(ShardId, Vec<(u64, u64)>)>,
        /// What became of them.
        outcome: Outcome,
    },
    /// To give a consumer so many messages more.
    Credit {
        /// The consumer, which began with credit.
        key: SubscriptionKey,
        /// How many.
        messages: u64,
    },
    /// To end a consumer; answered by [`FromUpstream::Ended`](crate::FromUpstream::Ended). Messages for it may still be on their way.
    Leave {
        /// The consumer.
        key: SubscriptionKey,
        /// Whether its client was lost.
        lost: bool,
    },
    /// To give calls of a service to clients of this node. They come as [`Command::Call`](crate::Command::Call) of the
    /// session. Answered by [`FromUpstream::Serving`](crate::FromUpstream::Serving).
    Serve {
        /// The node's name for it; small numbers, used again after an end.
        key: u32,
        /// Services.
        target: Target,
    },
    /// To give it no more calls. Answered by [`FromUpstream::Serving`](crate::FromUpstream::Serving); calls may come before.
    ServeNoMore {
        /// The node's name for what is served.
        key: u32,
    },
    /// To take messages. Answered once by [`FromUpstream::Answered`](crate::FromUpstream::Answered), or the connection is lost.
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
