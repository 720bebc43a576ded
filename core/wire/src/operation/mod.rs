//! What can be done with topics beyond publishing and subscribing, and what comes of it.
//!
//! Each [`Operation`] is one command with a token and has one answer: [`crate::Reply::Operated`] with
//! an [`OperationResult`], or [`crate::Reply::Refused`]. Invariant: an operation is done whole or not at all.

mod audit;
mod audited;
mod blocks;
mod browse;
mod bytes;
mod config;
mod drain;
mod durable;
mod explain;
mod identity;
mod manages;
mod named;
mod node;
mod queue;
mod read;
mod relayed;
mod relayed_queue;
mod sessions;
mod topic;
mod traces;
mod write;

use std::sync::Arc;

use tiderace_base::{SessionId, Span};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};

use crate::{Flags, Run, TopicSpec};

pub use audit::{AUDIT, AuditEntry, AuditOutcome, AuditPage, AuditQuery, AuditRecord};
pub use audited::Audited;
pub use blocks::{
    BLOCK_TIME_DEFAULT, BLOCK_TIME_MAX, BLOCKS_MAX, Block, BlockEntry, BlockOperation, BlockQuery,
    BlockResult, Blocked, blocked_close,
};
pub use browse::{
    BROWSE_LIMIT_MAX, Browsable, Browse, BrowseCursor, Listing, ListingEntry, QueueEntry,
    ServiceEntry,
};
pub use config::{
    Applies, ConfigChange, ConfigEntry, ConfigPage, ConfigQuery, ConfigTable, ConfigValue,
};
pub use drain::{DRAIN_DELAY_MAX, DRAIN_OVER_MAX, DrainPhase, DrainRequest, DrainStatus};
pub use durable::{
    DURABLE, DURABLE_TOPICS_MAX, DurableSubscription, SOURCE_TOPIC, durable_queue, is_durable,
};
pub use explain::{ClientName, Explanation, Question};
pub use identity::{
    Hidden, IDENTITIES, IdentityChange, IdentityEntry, IdentityKind, IdentityMember,
    IdentityOperation, IdentityPage, NewIdentity, TOKEN_TIME_MAX,
};
pub use node::{
    BACKUP, BackupPart, BackupSize, LOG_LEVEL_TIME_MAX, LogWord, NodeOperation, NodeReport,
};
pub use queue::{
    ConsumerEntry, MoveMessages, MovedMessages, PEEK_BODY_BYTES_MAX, PEEK_LIMIT_MAX, Peek,
    PeekedMessage, PeekedMessages, QueueDetails, QueueQuery, QueueSettings,
};
pub use read::Reading;
pub use sessions::{
    Kick, REASON_BYTES_MAX, SESSIONS_LIMIT_MAX, SessionFacts, SessionFilter, SessionOrder,
    SessionPage, SessionQuery, SessionRank, parse_session_id, spell,
};
pub use topic::TopicDetails;
pub use traces::{
    TRACE, TRACE_BODY_BYTES_MAX, TRACE_TIME_DEFAULT, TRACE_TIME_MAX, TRACES_MAX, TraceEntry,
    TraceOperation, TraceRequest, TraceResult,
};

/// Something to be done.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Makes a topic known; [`OperationResult::Created`].
    Create {
        /// Which.
        path: Path,
        /// Its specification as JSON; what it does not name is as the configuration has it.
        spec: Box<[u8]>,
        /// Its first value.
        value: Option<NewValue>,
    },
    /// Removes topics, their values and their histories; [`OperationResult::Removed`].
    Remove {
        /// Which: all that match one of these.
        selector: Vec<Pattern>,
    },
    /// Gives a topic a new value; [`OperationResult::Updated`].
    Update(Box<Update>),
    /// Lists topics in the order of their paths; [`OperationResult::Page`].
    Fetch(Box<Fetch>),
    /// Shows one topic, and how many subscriptions it has, for who may browse it; [`OperationResult::Topic`].
    Topic {
        /// Which.
        path: Path,
    },
    /// Reads the messages that a topic keeps; [`OperationResult::Events`].
    History(Box<HistoryQuery>),
    /// Replaces an event of a time series; [`OperationResult::Updated`].
    Amend {
        /// Which topic.
        path: Path,
        /// The version of the event.
        version: u64,
        /// What it is to be.
        value: NewValue,
    },
    /// The session that had created a topic has ended: said by its shard, never by a client;
    /// [`OperationResult::Done`].
    Abandon {
        /// Which topic.
        path: Path,
    },
    /// Takes a lock, which is held until it is given back or the session ends; [`OperationResult::Locked`].
    Lock {
        /// Its name.
        name: Path,
        /// How long to wait for it if another session has it.
        timeout: Span,
    },
    /// Gives a lock back; [`OperationResult::Done`].
    Unlock {
        /// Its name.
        name: Path,
    },
    /// Makes the session the only one that may publish to a topic, until it gives that up or ends;
    /// [`OperationResult::Done`].
    Claim {
        /// Which topic.
        path: Path,
    },
    /// Gives a claim up; [`OperationResult::Done`].
    Release {
        /// Which topic.
        path: Path,
    },
    /// Puts a view in place of the one of that name, or takes it away; [`OperationResult::Done`].
    View {
        /// Its name.
        name: Path,
        /// What it says; absent to take it away.
        text: Option<Box<str>>,
    },
    /// Lists the views; [`OperationResult::Views`].
    Views,
    /// What is published when the session ends otherwise than by a goodbye; [`OperationResult::Done`].
    Will(Option<Box<Run>>),
    /// Who the asking session is and how it fares; [`OperationResult::Session`].
    Session,
    /// Lists the sessions of the node, for who may administer or monitor it; [`OperationResult::Sessions`].
    Sessions(Box<SessionQuery>),
    /// Ends sessions, for who may operate or administer the node; [`OperationResult::Kicked`].
    Kick(Box<Kick>),
    /// Keeps principals or addresses out for a while, or no longer, or lists who is kept out, for who may operate or administer
    /// `$sys/blocks`; [`OperationResult::Blocks`].
    Blocks(Box<BlockOperation>),
    /// Begins or ends a trace, or lists those that go on, for who may operate or administer `$sys/trace`;
    /// [`OperationResult::Traces`].
    Traces(Box<TraceOperation>),
    /// Sends the node's clients to other nodes, for who may administer `$sys/drain`; [`OperationResult::Drain`].
    Drain(Box<DrainRequest>),
    /// Takes a drain back: listeners open again, and who has not left stays; [`OperationResult::Drain`].
    DrainCancel,
    /// How the node's drain stands, also for who may monitor; [`OperationResult::Drain`].
    DrainState,
    /// What the node counts, for who may monitor `$sys/stats`; [`OperationResult::Stats`].
    Stats,
    /// Asks the node as a whole for something, for who may administer that; [`OperationResult::Node`].
    Node(Box<NodeOperation>),
    /// Lists sessions, queues or services, for who may browse them; [`OperationResult::Listing`].
    Browse(Browse),
    /// Shows one queue with its consumers, for who may browse it; [`OperationResult::Queue`].
    Queue(QueueQuery),
    /// Reads ready messages of a queue, which stay there; [`OperationResult::Messages`].
    Peek(Box<Peek>),
    /// Removes the ready messages of a queue; [`OperationResult::Purged`].
    Purge {
        /// Which queue.
        path: Path,
        /// Only messages that match.
        selector: Option<Selector>,
        /// Only messages up to this position.
        up_to: Option<u64>,
    },
    /// Moves ready messages to another queue, or dead letters back; [`OperationResult::Moved`].
    Move(Box<MoveMessages>),
    /// Gives consumers nothing of a queue until it is resumed; [`OperationResult::Done`].
    PauseQueue {
        /// Which queue.
        path: Path,
        /// Whether it is paused from now on, or resumed.
        on: bool,
    },
    /// Makes a durable subscription, or changes the one of that name; [`OperationResult::Done`].
    CreateSubscription(Box<DurableSubscription>),
    /// Ends a durable subscription with all that it has gathered; [`OperationResult::Done`].
    DeleteSubscription {
        /// Its queue.
        queue: Path,
    },
}

impl Operation {
    /// Whether its answer may be large, so that a session may have only some of them under way.
    pub fn has_large_answer(&self) -> bool {
        if let Operation::Node(asked) = self {
            return matches!(
                **asked,
                NodeOperation::BackupRead { .. }
                    | NodeOperation::Audit(_)
                    | NodeOperation::Config(_)
                    | NodeOperation::Identities(_)
            );
        }
        matches!(
            self,
            Operation::Fetch(_)
                | Operation::History(_)
                | Operation::Stats
                | Operation::Views
                | Operation::Sessions(_)
                | Operation::Blocks(_)
                | Operation::Browse(_)
                | Operation::Queue(_)
                | Operation::Peek(_)
        )
    }
}

impl NewValue {
    /// Bytes of properties and body.
    pub fn bytes(&self) -> usize {
        self.properties.len() + self.body.len()
    }
}

/// A value that is to be one of a topic's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewValue {
    /// Its properties in the form of [`crate::properties`].
    pub properties: Box<[u8]>,
    /// Its bytes.
    pub body: Box<[u8]>,
}

/// A new value of a topic.
#[derive(Clone, Debug)]
pub struct Update {
    /// Which topic.
    pub path: Path,
    /// What the value is, or what is to be changed in the present one.
    pub change: Change,
    /// Its properties; those of a change are the present ones if this is absent.
    pub properties: Option<Box<[u8]>>,
    /// Marks besides [`Flags::RETAIN`], which is implied.
    pub flags: Flags,
    /// What has to hold, or nothing is done.
    pub condition: Option<Condition>,
    /// With this specification the topic is created if it is not known; without one it is published
    /// to as by a plain publish.
    pub spec: Option<Box<[u8]>>,
}

/// How the new value is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// As it is.
    Value(Box<[u8]>),
    /// As a difference to the value of a version.
    Delta {
        /// The number of the codec.
        codec: u32,
        /// The version that the topic must be in.
        base: u64,
        /// The difference.
        delta: Box<[u8]>,
    },
    /// As a JSON Patch (RFC 6902) of the present value.
    Patch(Box<[u8]>),
    /// As a JSON Merge Patch (RFC 7386) of the present value.
    Merge(Box<[u8]>),
}

impl Change {
    /// Bytes of what is given.
    pub fn bytes(&self) -> usize {
        match self {
            Change::Value(bytes) | Change::Patch(bytes) | Change::Merge(bytes) => bytes.len(),
            Change::Delta { delta, .. } => delta.len(),
        }
    }
}

/// Something that has to hold of a topic, or of what the session holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It has no value, or is not known.
    Absent,
    /// It has a value.
    Present,
    /// Its value is of this version.
    Version(u64),
    /// Its value is exactly this.
    Value(Box<[u8]>),
    /// Its value is JSON in which a place compares so with a JSON scalar.
    Place {
        /// The place: a JSON Pointer (RFC 6901).
        pointer: Box<str>,
        /// How it compares.
        comparison: Comparison,
        /// With what, as JSON text; not looked at for [`Comparison::Exists`] and
        /// [`Comparison::Missing`].
        value: Box<[u8]>,
    },
    /// The session holds the lock of that name.
    Locked(Path),
    /// All of these.
    All(Vec<Condition>),
    /// At least one of these.
    Any(Vec<Condition>),
}

impl Condition {
    /// Whether it depends on what is inside the value, which is then parsed.
    pub fn looks_into(&self) -> bool {
        match self {
            Condition::Place { .. } => true,
            Condition::All(parts) | Condition::Any(parts) => {
                parts.iter().any(Condition::looks_into)
            }
            _ => false,
        }
    }
}

/// How two values compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// They are equal as JSON.
    Equal,
    /// They are not.
    NotEqual,
    /// The first is less.
    Less,
    /// The first is less or equal.
    LessOrEqual,
    /// The first is greater.
    Greater,
    /// The first is greater or equal.
    GreaterOrEqual,
    /// There is something at the place.
    Exists,
    /// There is nothing at the place.
    Missing,
}

impl Comparison {
    /// All comparisons with their names in protocols.
    pub const ALL: [(&'static str, Comparison); 8] = [
        ("eq", Comparison::Equal),
        ("ne", Comparison::NotEqual),
        ("lt", Comparison::Less),
        ("le", Comparison::LessOrEqual),
        ("gt", Comparison::Greater),
        ("ge", Comparison::GreaterOrEqual),
        ("exists", Comparison::Exists),
        ("missing", Comparison::Missing),
    ];
}

/// Which topics to list, and what of them.
#[derive(Clone, Debug)]
pub struct Fetch {
    /// All that match one of these.
    pub selector: Vec<Pattern>,
    /// Only those behind this path, in the order of paths.
    pub after: Option<Path>,
    /// At most so many; zero: as many as is usual. The server has a limit of its own.
    pub limit: u32,
    /// Of topics with more levels than this, only the paths of so many levels are listed, once
    /// each; zero: no bound.
    pub depth: u32,
    /// Whether values are wanted.
    pub values: bool,
    /// Whether specifications are wanted.
    pub specs: bool,
}

/// Which messages of a topic to read.
#[derive(Clone, Debug)]
pub struct HistoryQuery {
    /// Which topic.
    pub path: Path,
    /// Where to begin.
    pub from: Replay,
    /// The last version wanted; absent: all there are.
    pub to: Option<u64>,
    /// At most so many; the server has a limit of its own.
    pub limit: u32,
    /// Whether events that were replaced are wanted as well.
    pub amended: bool,
}

/// Where a look at a topic's kept messages begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// With the last so many.
    Last(u32),
    /// With this version.
    Version(u64),
    /// With the first at or after this time, in milliseconds since 1970.
    Time(u64),
}

/// What came of an operation.
#[derive(Clone, Debug)]
pub enum OperationResult {
    /// It was done.
    Done,
    /// How the node's drain stands.
    Drain(Box<DrainStatus>),
    /// What the node counts, as an object of JSON.
    Stats(Box<str>),
    /// What the node was asked for has been done.
    Node(Box<NodeReport>),
    /// The topic is there.
    Created {
        /// Whether it was there before, with the same specification.
        existed: bool,
    },
    /// The topics are gone.
    Removed {
        /// How many.
        topics: u64,
    },
    /// The value is of this version.
    Updated {
        /// Which.
        version: u64,
    },
    /// Topics.
    Page(Box<Page>),
    /// One topic.
    Topic(Box<TopicDetails>),
    /// Messages.
    Events(Box<Events>),
    /// The lock is held.
    Locked {
        /// Rises each time that somebody takes it; for others to tell a late holder's requests.
        fence: u64,
    },
    /// Views.
    Views(Vec<ViewEntry>),
    /// Who the session is, and how it fares.
    Session(Arc<str>, SessionState),
    /// A page of the sessions.
    Sessions(Box<SessionPage>),
    /// Sessions have ended, or would have.
    Kicked {
        /// How many.
        sessions: u64,
        /// Whether it was only to be said.
        dry_run: bool,
    },
    /// What has come of an operation on blocks.
    Blocks(Box<BlockResult>),
    /// What has come of an operation on traces.
    Traces(Box<TraceResult>),
    /// A page of a list.
    Listing(Box<Listing>),
    /// One queue.
    Queue(Box<QueueDetails>),
    /// Ready messages of a queue.
    Messages(Box<PeekedMessages>),
    /// Messages are gone from a queue.
    Purged {
        /// How many.
        messages: u64,
        /// The position up to which messages were looked at: none that came after the operation began has one as low.
        up_to: u64,
    },
    /// Messages have gone to another queue.
    Moved(Box<MovedMessages>),
}

/// Topics in the order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The topics.
    pub topics: Vec<TopicEntry>,
    /// Whether there are more.
    pub more: bool,
    /// If so, the path behind which they are: what the next [`Fetch::after`] is to be.
    pub next: Option<Path>,
}

/// One topic of a page.
#[derive(Clone, Debug)]
pub struct TopicEntry {
    /// Its path; one that stands for the deeper ones has neither version nor value.
    pub path: Path,
    /// Its specification, if wanted.
    pub spec: Option<Arc<TopicSpec>>,
    /// Its value, if there is one and it was wanted: a run of one message.
    pub value: Option<Arc<Run>>,
    /// Its version; zero if there was no message yet.
    pub version: u64,
}

/// Kept messages of a topic, oldest first.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// The messages.
    pub events: Vec<Event>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// One kept message.
#[derive(Clone, Debug)]
pub struct Event {
    /// The run it is in.
    pub run: Arc<Run>,
    /// Its place there.
    pub place: usize,
    /// Its version.
    pub version: u64,
    /// When its home took it, in milliseconds since 1970.
    pub time_ms: u64,
    /// Who published it, if that is kept.
    pub author: Option<Arc<str>>,
    /// The version of the event that it replaces.
    pub amends: Option<u64>,
}

/// One view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewEntry {
    /// Its name.
    pub name: Path,
    /// What it says.
    pub text: Arc<str>,
}

/// How one of many sessions fares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionEntry {
    /// Tells it from all others of this life of the server.
    pub id: SessionId,
    /// Who it is.
    pub name: Arc<str>,
    /// How it fares.
    pub state: SessionState,
    /// What is known of it besides, where that is listed.
    pub facts: Option<Box<SessionFacts>>,
}

impl SessionEntry {
    /// Bytes of its texts.
    fn bytes(&self) -> usize {
        self.name.len() + self.facts.as_ref().map_or(0, |facts| facts.bytes())
    }
}

/// How a session fares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Its subscriptions.
    pub subscriptions: u64,
    /// Messages that wait for it.
    pub backlog_messages: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
    /// Messages for which a newer one was put in their place.
    pub conflated: u64,
    /// Messages that were dropped because it was slow.
    pub dropped: u64,
}
