//! What shards tell each other about presence, missing topics, notices and owners.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Confirm, Run, Token, TopicSpec};

use super::SubscribeRequestId;

/// What shards tell each other about presence, topics that are missing, notices and owners.
#[derive(Debug)]
pub enum ServerMail {
    /// To a shard with subscribers of exactly this topic: whether who they are is to be shown.
    Presence {
        /// Which topic.
        path: Path,
        /// Whether it is.
        on: bool,
    },
    /// To a subscriber's shard: nobody knows a topic of that name.
    Unknown {
        /// The subscriber.
        session: SessionId,
        /// The name.
        path: Path,
    },
    /// To a subscriber's shard: this home has no topic that the pattern names.
    Nothing {
        /// The subscriber and its target.
        request: SubscribeRequestId,
    },
    /// To a home: a subscription that wants notices begins, or is to be told of more topics.
    Notify {
        /// Which topics.
        pattern: Pattern,
        /// Who waits for [`ServerMail::Noted`].
        request: SubscribeRequestId,
        /// Behind which path; absent: it begins.
        after: Option<Path>,
    },
    /// To a home: such a subscription has ended.
    Ignore {
        /// Which topics.
        pattern: Pattern,
    },
    /// From a home: a page of the topics that there are; from now on every change of them will be told.
    Noted {
        /// Who asked.
        request: SubscribeRequestId,
        /// The topics.
        topics: Vec<(Path, Arc<TopicSpec>)>,
        /// Behind which path they are.
        after: Option<Path>,
        /// Behind which there may be more.
        next: Option<Path>,
    },
    /// From a home: a topic is there, as something else than before, or no longer.
    Notice {
        /// Which.
        path: Path,
        /// What it is, if it is there.
        spec: Option<Arc<TopicSpec>>,
    },
    /// To a home: messages of somebody whom the rules do not let publish, but who may be the owner.
    Publish {
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
    /// To a home: whether somebody whom the rules do not let subscribe is the owner.
    Owns {
        /// Who asks.
        request: SubscribeRequestId,
        /// Its name.
        name: Arc<str>,
        /// Of which topic.
        path: Path,
    },
    /// To a home: the request for messages that follows is made as the topic's owner.
    AsOwner {
        /// Who asks.
        request: SubscribeRequestId,
        /// Its name.
        name: Arc<str>,
    },
    /// The answer to [`ServerMail::Owns`].
    Owned {
        /// Who asked.
        request: SubscribeRequestId,
        /// Whether it is.
        owned: bool,
    },
}

impl ServerMail {
    /// Bytes of what it carries.
    pub fn bytes(&self) -> usize {
        match self {
            ServerMail::Publish { run, .. } => run.bytes(),
            ServerMail::Noted { topics, .. } => topics
                .iter()
                .map(|(path, _)| size_of::<(Path, usize)>() + path.as_str().len())
                .sum(),
            _ => 0,
        }
    }
}
