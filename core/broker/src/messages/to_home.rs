//! What the home of destinations is told: by sessions and their subscriptions, and by other homes.

use std::sync::Arc;

use tiderace_base::{Close, Key, SessionId};
use tiderace_queues::{Consume, Ending, Settlement};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Confirm, Operation, Run, SubscriptionKey, Token};

use super::{Consumption, Interest, SubscribeRequestId, TransferId};
use crate::home::services::{Address, Calling};
use crate::pending_requests::{Awaits, PendingRequest};
use crate::queued::MovedFrom;
use crate::relay::{Relay, Wanted};
use crate::requester::Requester;

/// A message to the home of destinations.
#[derive(Debug)]
pub enum ToHome {
    /// Messages to number and pass on.
    Publish {
        /// Not yet numbered.
        run: Box<Run>,
        /// Who sent it; `None` for the server itself.
        origin: Option<SessionId>,
        /// The sender's name.
        author: Option<Arc<str>>,
        /// Receipts to confirm.
        confirm: Option<Confirm>,
    },
    /// Messages of a session that the rules do not let publish, but that may be the topic's owner.
    PublishAsOwner {
        /// Not yet numbered.
        run: Box<Run>,
        /// Who sent it.
        origin: SessionId,
        /// Its name.
        author: Arc<str>,
        /// Receipts to confirm.
        confirm: Option<Confirm>,
        /// The message to blame if they are refused.
        blame: Option<Token>,
    },
    /// An operation to be done here.
    Operate {
        /// Who asks.
        requester: Box<Requester>,
        /// What.
        operation: Box<Operation>,
    },
    /// Which subscribers of a topic the sender's shard has now.
    Interest {
        /// Which topic.
        path: Path,
        /// Which.
        interest: Interest,
    },
    /// To every home: a subscription to a pattern begins or ends.
    PatternInterest {
        /// Which topics.
        pattern: Pattern,
        /// What kind of subscription.
        interest: Interest,
    },
    /// There is room for more of a snapshot.
    RequestPage {
        /// Whose.
        request: SubscribeRequestId,
        /// For so many bytes, or one value.
        bytes: u32,
    },
    /// A subscription may see topics that it could not see until rules or rights changed.
    ShowValues {
        /// Whose.
        request: SubscribeRequestId,
        /// Which topics.
        paths: Vec<Path>,
        /// What has a number above this has been sent to it.
        until: u64,
    },
    /// The rest of a snapshot is not wanted.
    CancelSnapshot {
        /// Whose.
        request: SubscribeRequestId,
    },
    /// A consumer begins.
    Consume {
        /// The request.
        consume: Box<Consume>,
        /// The subscription that waits for [`ToSubscriber::SubscribeAck`](super::ToSubscriber::SubscribeAck).
        request: SubscribeRequestId,
    },
    /// What became of delivered messages.
    Settle {
        /// Whose.
        session: SessionId,
        /// Which subscription's.
        key: SubscriptionKey,
        /// Stretches of their numbers, both ends included.
        ranges: Vec<(u64, u64)>,
        /// What became of them.
        settlement: Settlement,
        /// Receipt to confirm.
        confirm: Option<Confirm>,
    },
    /// A consumer or a responder may be given more.
    Credit {
        /// Whose.
        session: SessionId,
        /// Which.
        key: SubscriptionKey,
        /// How many messages more.
        messages: u64,
    },
    /// A consumer ends.
    Leave {
        /// Whose.
        session: SessionId,
        /// Which.
        key: SubscriptionKey,
        /// How many of the messages that the home gave it have reached the session.
        handed: u64,
        /// How it ended.
        ending: Ending,
        /// Receipt to confirm once its messages are back in their queues.
        confirm: Option<Confirm>,
    },
    /// Messages of a queue of the sender's are to go to one of this home.
    Transfer {
        /// Which.
        transfer: TransferId,
        /// Not yet numbered.
        run: Box<Run>,
        /// The name of who moves them.
        mover: Arc<str>,
        /// In whose account they are.
        owner: Option<Arc<str>>,
    },
    /// What became of messages that were sent by [`ToHome::Transfer`].
    Transferred {
        /// Which.
        transfer: TransferId,
        /// Whether they are there, and stored if they are to be; or why they are not.
        result: Result<(), Box<Close>>,
    },
    /// A session has ended that may have asked for purges, moves or removals.
    EndJobs {
        /// Which.
        session: SessionId,
    },
    /// A subscriber on the sender's shard cannot keep up with a topic, or all can again.
    Pressure {
        /// Which topic.
        path: Path,
        /// Whether one cannot.
        on: bool,
    },
    /// A subscription that wants notices begins, or is to be told of more topics.
    Notify {
        /// Which topics.
        pattern: Pattern,
        /// Who waits for [`ToNotices::TopicsPage`](super::ToNotices::TopicsPage).
        request: SubscribeRequestId,
        /// Behind which path; absent: it begins.
        after: Option<Path>,
    },
    /// Such a subscription has ended.
    EndNotices {
        /// Which topics.
        pattern: Pattern,
    },
    /// Whether a session that the rules do not let subscribe is the owner.
    IsOwner {
        /// Who asks.
        request: SubscribeRequestId,
        /// Its name.
        name: Arc<str>,
        /// Of which topic.
        path: Path,
    },
    /// The request for messages that follows is made as the topic's owner.
    AsOwner {
        /// Who asks.
        request: SubscribeRequestId,
        /// Its name.
        name: Arc<str>,
    },
    /// A session calls a service. Comes back if the responder had gone.
    Call(Calling),
    /// A caller no longer waits.
    CancelCall {
        /// What was called.
        service: Path,
        /// Its end, on the sender's shard.
        caller: Key,
    },
    /// An exchange is over.
    Released {
        /// Whose place is free.
        responder: Key,
        /// Who had called.
        caller: Address,
    },
    /// A message that was given back too often, to be put where its queue sends those.
    DeadLetter {
        /// Not yet numbered.
        run: Box<Run>,
        /// Who owns the queue where it lay.
        owner: Option<Arc<str>>,
        /// Where it lay, if it is stored there.
        source: Option<MovedFrom>,
    },
    /// A dead letter of the receiver is where it goes.
    Moved {
        /// Where it lay.
        source: MovedFrom,
        /// It is stored; or why not, and then it is to stay stored where it lay.
        result: Result<(), Box<Close>>,
    },
    /// A durable subscription of the sender's is fed by topics, or one less.
    FeedInterest {
        /// Which topics.
        topics: Box<[Pattern]>,
        /// Whether it begins.
        on: bool,
        /// Under which the receiver answers by [`ToHome::Fed`] if it begins.
        number: u64,
    },
    /// What was published to a topic of the sender's, for durable subscriptions of the receiver's.
    Feed {
        /// As subscribers get it.
        run: Arc<Run>,
        /// Under which the receiver answers by [`ToHome::Fed`]; zero: nobody waits.
        number: u64,
    },
    /// The sender has what it was sent, and it is stored if it is to be; or why not.
    Fed {
        /// What was sent.
        number: u64,
        /// What came of it.
        result: Result<(), Box<Close>>,
    },
    /// How many bytes somebody has in the sender's queues.
    AccountBytes {
        /// The name.
        owner: Arc<str>,
        /// How many.
        bytes: u64,
    },
    /// What a session wants of topics and queues that an upstream keeps, for which the receiver stands in.
    Relay(Box<Relay>),
    /// A consumer begins of queues that an upstream keeps.
    ConsumeElsewhere(Box<Consumption>),
    /// What a transaction does at this home, in its order: publications and settlements.
    Together(Vec<ToHome>),
}

impl ToHome {
    /// A publication of the server itself, such as a dead letter.
    pub(crate) fn of_server(run: Run) -> ToHome {
        ToHome::Publish { run: Box::new(run), origin: None, author: None, confirm: None }
    }

    /// The session that waits for an answer to this by a token, if one does.
    #[inline]
    pub(crate) fn pending(&self) -> Option<PendingRequest> {
        let (session, confirm, awaits) = match self {
            ToHome::Publish { origin, confirm, .. } => ((*origin)?, (*confirm)?, Awaits::Receipt),
            ToHome::PublishAsOwner { origin, confirm, .. } => {
                (*origin, (*confirm)?, Awaits::Receipt)
            }
            ToHome::Settle { session, confirm, .. } => (*session, (*confirm)?, Awaits::Receipt),
            ToHome::Leave { session, confirm, .. } => (*session, (*confirm)?, Awaits::End),
            ToHome::Operate { requester, .. } => {
                (requester.session, Confirm::one(requester.token), Awaits::Operation)
            }
            ToHome::Relay(relay) => match &relay.wanted {
                Wanted::Publish { confirm, .. } | Wanted::Say { confirm, .. } => {
                    (relay.session, (*confirm)?, Awaits::Receipt)
                }
                Wanted::Operate { requester, .. } => {
                    (requester.session, Confirm::one(requester.token), Awaits::Operation)
                }
            },
            _ => return None,
        };
        Some(PendingRequest { session, confirm, awaits })
    }

    /// Bytes of the messages and values in it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            ToHome::Publish { run, .. }
            | ToHome::PublishAsOwner { run, .. }
            | ToHome::Transfer { run, .. } => run.bytes(),
            ToHome::Operate { operation, .. } => operation.bytes(),
            ToHome::Relay(relay) => relay.bytes(),
            ToHome::Call(call) => call.run.bytes(),
            ToHome::DeadLetter { run, .. } => run.bytes(),
            ToHome::Feed { run, .. } => run.bytes(),
            ToHome::Together(parts) => {
                parts.iter().map(|part| size_of::<ToHome>() + part.bytes()).sum()
            }
            _ => 0,
        }
    }
}
