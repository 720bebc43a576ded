//! What a shard knows of the topics that views follow or insert, and of what was made of them.
//!
//! Invariant: for each view and source the outputs are known that were announced.

use std::collections::BTreeSet;
use std::sync::Arc;

use tiderace_base::Key;
use tiderace_topics::Path;
use tiderace_wire::Run;

/// A topic that has changed and was not looked at since.
#[derive(Debug)]
pub(super) struct Changed {
    /// Its last message; none if its value is gone.
    pub(super) run: Option<Arc<Run>>,
    pub(super) hops: u8,
}

impl Changed {
    /// Why the topic is looked at, and how many views there are between a client and it.
    pub(super) fn why(&self) -> (Why, u8) {
        (self.run.clone().map_or(Why::Lost, Why::Message), self.hops)
    }
}

/// What a view has made of a topic.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// The outputs, by path, with the hashes of their values.
    pub(super) outputs: Box<[(Path, u64)]>,
    /// The topics whose values were looked up, by path.
    pub(super) watched: Box<[Path]>,
}

/// Why a topic is looked at.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// It has this message.
    Message(Arc<Run>),
    /// Its value is gone.
    Lost,
    /// Something else has changed; what counts is its value.
    Again,
}

/// A topic that is inserted somewhere.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Whether there is a job that evaluates what it is inserted into, and whether that is to begin
    /// anew when it is through. However often a topic changes, it has one job.
    pub(super) is_due: bool,
    pub(super) again: bool,
    /// How many views there are between a client and its value.
    pub(super) hops: u8,
    /// Whether its home has said what it is; always, if that is this shard.
    pub(super) known: bool,
    /// Its value, if its home is another shard.
    pub(super) value: Option<Arc<Run>>,
    /// By rank and source, what it is inserted into.
    pub(super) users: BTreeSet<(u32, Key)>,
}
