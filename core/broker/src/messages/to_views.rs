//! What the views of shards tell each other.

use std::sync::Arc;

use tiderace_topics::Path;
use tiderace_views::View;
use tiderace_wire::Run;

/// Paths and values; those without a value are taken back.
pub type Values = Vec<(Path, Option<Box<[u8]>>)>;

/// A message to the views of a shard.
#[derive(Debug)]
pub enum ToViews {
    /// From the registrar: a view begins, or takes the place of the one of the same rank.
    Put {
        /// Its name.
        name: Path,
        /// What it does.
        view: Arc<View>,
        /// Which of two views comes first; stays when its text changes.
        rank: u32,
        /// The number of this change.
        version: u64,
    },
    /// From the registrar: a view ends.
    Remove {
        /// Which.
        rank: u32,
        /// The number of this change.
        version: u64,
    },
    /// To the home of outputs.
    Outputs {
        /// Of which view.
        rank: u32,
        /// The last change that the source's home knew.
        version: u64,
        /// Of which source.
        source: Path,
        /// How many views there are between a client and these.
        hops: u8,
        /// Paths and values; those without a value are taken back.
        values: Values,
    },
    /// To a topic's home: a shard wants its value from now on, or no longer.
    Watch {
        /// Which topic.
        path: Path,
        /// Whether it does.
        on: bool,
    },
    /// From a topic's home: its value.
    Watched {
        /// Which topic.
        path: Path,
        /// A run of one message; nothing if it has no value.
        value: Option<Arc<Run>>,
        /// How many views there are between a client and this value.
        hops: u8,
    },
    /// To the registrar: something of a view could not be done.
    Problem {
        /// Of which.
        rank: u32,
        /// What.
        problem: String,
        /// How often since the last report.
        count: u64,
    },
}

impl ToViews {
    /// Bytes of the values and texts in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToViews::Outputs { values, .. } => values
                .iter()
                .map(|(path, value)| {
                    path.as_str().len() + value.as_ref().map_or(0, |value| value.len())
                })
                .sum(),
            ToViews::Watched { value, .. } => value.as_ref().map_or(0, |run| run.bytes()),
            ToViews::Put { view, .. } => view.text().len(),
            _ => 0,
        }
    }
}
