//! What a shard is told by homes of topics that its subscriptions want notices of, and of owners.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_topics::Path;
use tiderace_wire::{LeaveReason, TopicSpec};

use super::{SnapshotPage, SubscribeRequestId};

/// A message to a shard whose sessions are told of topics, or wait for an owner to be known.
#[derive(Debug)]
pub enum ToNotices {
    /// Nobody knows a topic of that name.
    UnknownTopic {
        /// The subscriber.
        session: SessionId,
        /// The name.
        path: Path,
    },
    /// This home has no topic that the pattern names.
    NoTopics {
        /// The subscriber and its target.
        request: SubscribeRequestId,
    },
    /// A page of the topics that there are; from now on every change of them will be told.
    TopicsPage {
        /// Who asked.
        request: SubscribeRequestId,
        /// The topics, what each is, and whether it holds no value.
        topics: Vec<(Path, Arc<TopicSpec>, bool)>,
        /// Behind which path they are.
        after: Option<Path>,
        /// Behind which there may be more.
        next: Option<Path>,
    },
    /// A topic is there, as something else than before, or no longer.
    Notice {
        /// Which.
        path: Path,
        /// What it is and whether it holds no value, or why it is there no longer.
        news: Result<(Arc<TopicSpec>, bool), LeaveReason>,
    },
    /// The values of topics that a subscription may see from now on.
    ShownValues {
        /// Whose.
        request: SubscribeRequestId,
        /// What they are; absent if they are too much at once.
        page: Option<Box<SnapshotPage>>,
        /// Up to which number it has been sent everything of this home.
        at: u64,
    },
    /// The answer to [`ToHome::IsOwner`](super::ToHome::IsOwner).
    OwnerAnswer {
        /// Who asked.
        request: SubscribeRequestId,
        /// Whether it is.
        owned: bool,
    },
}

impl ToNotices {
    /// Bytes of the names in it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            ToNotices::TopicsPage { topics, .. } => topics
                .iter()
                .map(|(path, ..)| size_of::<(Path, usize)>() + path.as_str().len())
                .sum(),
            ToNotices::ShownValues { page: Some(page), .. } => {
                size_of::<SnapshotPage>() + page.bytes()
            }
            _ => 0,
        }
    }
}
