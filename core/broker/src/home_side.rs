//! What a shard may touch as the home of topics, queues and services.
//!
//! The methods of homes stand in the files of what they do (`publish.rs`, `update.rs`, `queueing.rs` and so on) as
//! methods of [`HomeSide`]. Its fields are all that they may know; the wiring in `broker.rs` alone makes one, of
//! disjoint parts of the broker, for one call. A home knows no session, no backlog, no subscription and no view: what
//! it has for them goes by [`HomeSide::send`], or, for those of its own shard, by
//! [`Loopback::hand_on`](crate::loopback::Loopback::hand_on), which the wiring takes when the call is over. So what
//! homes keep can lie elsewhere, on a disk or on another node, than what sessions see of it.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Memory, ShardId};
use tiderace_topics::Path;

use crate::directory::Directory;
use crate::effects::Effects;
use crate::home::Home;
use crate::home::home_topics::TopicAtHome;
use crate::home::topic::HomeTopic;
use crate::journal::HomeJournal;
use crate::loopback::Loopback;
use crate::messages::Body;
use crate::places::Place;
use crate::work::Work;
use crate::{BrokerMetrics, BrokerOptions};

/// A shard as a home, during one call.
#[derive(Debug)]
pub(crate) struct HomeSide<'a> {
    pub(crate) shard: ShardId,
    pub(crate) options: &'a Arc<BrokerOptions>,
    /// What it numbers, keeps and knows, of each topic and of all.
    pub(crate) home: &'a mut Home,
    /// The topics.
    pub(crate) directory: &'a mut Directory,
    /// What it appends to the store, and the answers that wait for that.
    pub(crate) journal: &'a mut HomeJournal,
    /// Operations and publications that wait, and what a turn may cost.
    pub(crate) work: &'a mut Work,
    pub(crate) memory: &'a Rc<Memory>,
    pub(crate) metrics: &'a mut BrokerMetrics,
    pub(crate) loopback: &'a mut Loopback,
    /// Whether the shard has views, which are to be told of each change.
    pub(crate) has_views: bool,
}

impl HomeSide<'_> {
    /// Where this side is.
    #[inline]
    pub(crate) fn here(&self) -> Place {
        Place::here(self.shard)
    }

    /// A topic, with what is kept of it.
    #[inline]
    pub(crate) fn topic(&self, key: Key) -> Option<TopicAtHome<'_>> {
        Some(self.home.at(self.directory.get(key)?))
    }

    /// The topic of that name, if it is known, with what is kept of it.
    pub(crate) fn topic_named(&self, path: &Path) -> Option<TopicAtHome<'_>> {
        self.topic(self.directory.find(path)?)
    }

    /// What is kept of a topic, to be changed.
    pub(crate) fn topic_mut(&mut self, key: Key) -> Option<&mut HomeTopic> {
        self.home.topic_mut(self.directory.get(key)?)
    }

    /// Sends a message to a place, which may be this one.
    #[inline]
    pub(crate) fn send(&mut self, to: Place, message: impl Into<Body>, effects: &mut Effects) {
        self.loopback.send(to, message, effects);
    }
}
