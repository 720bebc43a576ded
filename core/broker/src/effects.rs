//! What a broker wants done, and what brokers tell each other.

use std::sync::Arc;

use tiderace_base::{Close, SessionId, ShardId, Span};
use tiderace_queues::{Consume, Ending, Settlement};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Confirm, Credentials, Destination, Operation, OperationResult, Replay, Reply, Run,
    SubscriptionKey, Token, TopicSpec,
};

use crate::messages::ServerMail;
use crate::messages::ServiceMail;
use crate::messages::SubscribeRequestId;
use crate::messages::ViewMail;
use crate::operator::Operator;

/// What is to be done after a call; the caller drains it completely before the next call.
///
/// `u32`s are the links given to [`crate::Broker::open`]. An effect for a session that has ended
/// meanwhile is to be ignored.
#[derive(Debug, Default)]
pub struct Effects {
    /// Answers for sessions.
    pub replies: Vec<(u32, SessionId, Reply)>,
    /// Sessions that have something to deliver and had nothing before.
    pub ready: Vec<(u32, SessionId)>,
    /// Mail for other shards; its order between two shards is to be kept.
    pub mail: Vec<(ShardId, Mail)>,
    /// Credentials to be verified off the shard; the answer goes to [`crate::Broker::verified`].
    pub verify: Vec<(SessionId, Credentials)>,
    /// Connections to stop reading.
    pub pause: Vec<(u32, SessionId)>,
    /// Connections to read again.
    pub resume: Vec<(u32, SessionId)>,
    /// Connections to end.
    pub close: Vec<(u32, SessionId, Close)>,
}

impl Effects {
    /// Whether nothing is to be done.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.replies.is_empty()
            && self.ready.is_empty()
            && self.mail.is_empty()
            && self.verify.is_empty()
            && self.pause.is_empty()
            && self.resume.is_empty()
            && self.close.is_empty()
    }
}

/// From one shard's broker to another's. The order between two shards is kept.
#[derive(Debug)]
pub enum Mail {
    /// To the home: messages to number and pass on.
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
    /// To the publisher's shard: it was taken.
    Confirmed {
        /// Whose.
        session: SessionId,
        /// Which receipts.
        confirm: Confirm,
    },
    /// To the publisher's shard: it was not taken.
    Refused {
        /// Whose.
        session: SessionId,
        /// The receipt asked for.
        token: Option<Token>,
        /// Why not.
        close: Close,
    },
    /// From the home of a topic: a run for the shard's subscribers.
    Fanout {
        /// The messages.
        run: Arc<Run>,
        /// What the topic is, if it is not what the configuration says of all.
        spec: Option<Arc<TopicSpec>>,
    },
    /// To a home: something to be done there.
    Operate {
        /// Who asks.
        operator: Box<Operator>,
        /// What.
        operation: Box<Operation>,
    },
    /// To the session's shard: what came of it.
    Operated {
        /// Whose.
        session: SessionId,
        /// The operation's.
        token: Token,
        /// What came of it.
        result: Result<Box<OperationResult>, Close>,
    },
    /// To the home: which subscribers of the topic the shard has now.
    Interest {
        /// Which topic.
        path: Path,
        /// Which.
        interest: Interest,
    },
    /// To every shard: a subscription to a pattern begins or ends.
    PatternInterest {
        /// Which topics.
        pattern: Pattern,
        /// What kind of subscription.
        interest: Interest,
    },
    /// From a home: everything published from now on will be sent; before it, the answer.
    SubscribeAck {
        /// Who asked.
        request: SubscribeRequestId,
        /// What comes first.
        answer: Answer,
    },
    /// To a home: there is room for more of a snapshot.
    RequestPage {
        /// Whose.
        request: SubscribeRequestId,
        /// For so many bytes, or one value.
        bytes: u32,
    },
    /// To a home: the rest of a snapshot is not wanted.
    CancelSnapshot {
        /// Whose.
        request: SubscribeRequestId,
    },
    /// From a home: more of a snapshot.
    SnapshotPage {
        /// Whose.
        request: SubscribeRequestId,
        /// What.
        page: SnapshotPage,
    },
    /// To a home: a consumer begins.
    Consume {
        /// The request.
        consume: Box<Consume>,
        /// The subscription that waits for [`Mail::SubscribeAck`].
        request: SubscribeRequestId,
    },
    /// From a home: messages of a queue for one consumer.
    Deliver {
        /// Whose.
        session: SessionId,
        /// Which subscription's.
        key: SubscriptionKey,
        /// The messages.
        segment: tiderace_queues::Segment,
    },
    /// To a home: what became of delivered messages.
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
    /// To a home: a consumer or a responder may be given more.
    Credit {
        /// Whose.
        session: SessionId,
        /// Which.
        key: SubscriptionKey,
        /// How many messages more.
        messages: u64,
    },
    /// To a home: a consumer ends.
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
    /// To a topic's home: some subscriber here cannot keep up, or all can again.
    Pressure {
        /// Which topic.
        path: Path,
        /// Whether one cannot.
        on: bool,
    },
    /// From a home to publishers' shards: hold publishers of the destination back, or let them go.
    Pause {
        /// Which destination.
        destination: Destination,
        /// How long each of them waits for such destinations in any minute; zero: until it is let go.
        /// Absent: they go on.
        hold: Option<Span>,
    },
    /// About views.
    View(Box<ViewMail>),
    /// From a home to a publisher's shard: the session waits until the destination is let go by
    /// [`Mail::Pause`].
    Wait {
        /// Whose messages are too many.
        session: SessionId,
        /// What it waits for.
        destination: Destination,
    },
    /// From a home to the shard of a session of which operations are deferred: whether they are so
    /// many that it is not to be read.
    Deferred {
        /// Whose.
        session: SessionId,
        /// Whether they are too many.
        on: bool,
    },
    /// About presence, missing topics, notices and owners.
    Server(Box<ServerMail>),
    /// About services and exchanges.
    Service(Box<ServiceMail>),
}

impl Mail {
    /// A publication of the server itself, such as a dead letter.
    pub(crate) fn of_server(run: Run) -> Mail {
        Mail::Publish { run: Box::new(run), origin: None, author: None, confirm: None }
    }
}

impl From<ViewMail> for Mail {
    fn from(mail: ViewMail) -> Mail {
        Mail::View(Box::new(mail))
    }
}

impl From<ServerMail> for Mail {
    fn from(mail: ServerMail) -> Mail {
        Mail::Server(Box::new(mail))
    }
}

impl From<ServiceMail> for Mail {
    fn from(mail: ServiceMail) -> Mail {
        Mail::Service(Box::new(mail))
    }
}

/// What a shard tells a home of its subscribers.
#[derive(Clone, Copy, Debug)]
pub struct Interest {
    /// Whether there are some; of a pattern: whether one begins.
    pub on: bool,
    /// Whether some are recoverable; of a pattern: whether this one is.
    pub recorded: bool,
    /// The subscription that waits for [`Mail::SubscribeAck`].
    pub ask: Option<Ask>,
}

/// A question to a home.
#[derive(Clone, Copy, Debug)]
pub struct Ask {
    /// Who waits for the answer.
    pub request: SubscribeRequestId,
    /// What is wanted before everything new.
    pub first: First,
    /// Bytes of values that there is room for; the rest is asked for.
    pub room: u32,
}

/// What a subscription wants before everything new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// Nothing.
    Nothing,
    /// The retained values.
    Retained,
    /// What the topics keep, from a beginning on; of those that keep nothing, the value.
    Replay(Replay),
    /// What came after a message.
    Since {
        /// Its number, if it is of this life of the node or of an earlier one that is known.
        after: Option<u64>,
        /// Whether it is of an earlier one.
        earlier: bool,
        /// Whether retained values are wanted where something is missing.
        retained: bool,
    },
}

/// What the topics of values are that are not what the configuration says: with the place of each
/// value among them, rising.
pub type Specs = Vec<(u32, Arc<TopicSpec>)>;

/// What a home has to say before everything new. Runs are in the order of their numbers.
#[derive(Debug, Default)]
pub struct Answer {
    /// The number of the last message before this answer.
    pub at: u64,
    /// Retained values, one message each; to somebody who comes back to one topic, what to deliver if
    /// all that was missed is too much.
    pub retained: Vec<Arc<Run>>,
    /// What their topics are.
    pub specs: Specs,
    /// Whether there are more values, to be asked for; to somebody who comes back, instead of what
    /// was missed.
    pub more: bool,
    /// How many bytes there was room for.
    pub room: u32,
    /// To somebody who comes back: what was missed.
    pub missed: Option<Box<Missed>>,
}

/// What a client that comes back has missed.
#[derive(Debug, Default)]
pub struct Missed {
    /// The number of the last message it has; what is up to there is not meant.
    pub after: u64,
    /// Whether the runs are everything.
    pub complete: bool,
    /// The messages; absent if they are too much.
    pub runs: Option<Vec<Arc<Run>>>,
}

impl Answer {
    /// Bytes of the messages in it.
    pub fn bytes(&self) -> usize {
        let missed = self.missed.as_ref().and_then(|missed| missed.runs.as_ref());
        self.retained.iter().chain(missed.into_iter().flatten()).map(|run| run.bytes()).sum()
    }
}

/// A part of a snapshot.
#[derive(Debug, Default)]
pub struct SnapshotPage {
    /// The values, in the order of their paths.
    pub runs: Vec<Arc<Run>>,
    /// What their topics are.
    pub specs: Specs,
    /// What has a number up to this is not meant.
    pub after: u64,
    /// Whether there is more, to be asked for.
    pub more: bool,
    /// How many bytes were asked for.
    pub room: u32,
    /// Not asked for: a value that something newer of its topic is about to follow.
    pub early: bool,
}

impl SnapshotPage {
    /// Bytes of the messages in it.
    pub fn bytes(&self) -> usize {
        self.runs.iter().map(|run| run.bytes()).sum()
    }
}
