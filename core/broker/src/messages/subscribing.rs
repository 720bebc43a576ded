//! What a subscription asks homes for, and what they answer: first values, what was missed, pages of snapshots.

use std::sync::Arc;

use tiderace_wire::{EndPrincipal, Numbering, Position, Replay, Run, Subscribe, TopicSpec};

use super::SubscribeRequestId;
use crate::Principal;

/// What a shard tells a home of its subscribers.
#[derive(Clone, Debug)]
pub struct Interest {
    /// Whether there are some; of a pattern: whether one begins.
    pub on: bool,
    /// Whether some are recoverable; of a pattern: whether this one is.
    pub recorded: bool,
    /// The subscription that waits for [`ToSubscriber::SubscribeAck`](super::ToSubscriber::SubscribeAck).
    pub ask: Option<Ask>,
}

/// A consumer of queues that an upstream keeps.
#[derive(Debug)]
pub struct Consumption {
    /// Whose it is.
    pub principal: Arc<EndPrincipal>,
    /// What it wants, of one target.
    pub subscribe: Subscribe,
    /// The subscription that waits for [`ToSubscriber::SubscribeAck`](super::ToSubscriber::SubscribeAck).
    pub request: SubscribeRequestId,
}

impl Consumption {
    /// The one of a subscription that was admitted, for its session's principal.
    pub(crate) fn of(
        request: SubscribeRequestId,
        subscribe: &Subscribe,
        principal: &Principal,
    ) -> Option<Box<Consumption>> {
        let (principal, subscribe) = (principal.to_end_principal().ok()?, subscribe.clone());
        Some(Box::new(Consumption { principal: principal.into(), subscribe, request }))
    }
}

/// A question to a home.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Who waits for the answer.
    pub request: SubscribeRequestId,
    /// What is wanted before everything new.
    pub first: First,
    /// Bytes of values that there is room for; the rest is asked for.
    pub room: u32,
    /// Whether the client may come back: then it is told how far it has come.
    pub recoverable: bool,
    /// Of somebody who comes back, for who stands in for homes elsewhere: how far it has come.
    pub since: Option<Arc<Position>>,
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
        /// Since which version of the rules it may see what it may see now; zero: always.
        rules_since: u32,
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

/// Up to which numbers of another node everything has come from there.
#[derive(Clone, Debug, Default)]
pub struct UpstreamMarks(pub Vec<(Numbering, u64)>);

/// What a client that comes back has missed.
#[derive(Debug, Default)]
pub struct Missed {
    /// The number of the last message it has; what is up to there is not meant.
    pub after: u64,
    /// Whether the runs are everything.
    pub complete: bool,
    /// The messages; absent if they are too much.
    pub runs: Option<Vec<Arc<Run>>>,
    /// Of topics that come from elsewhere: whether versions that the client knows are still those of the same messages.
    pub continues: Option<bool>,
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
