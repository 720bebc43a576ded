//! What a home keeps of each topic, in a table of its own with the slots of the directory.
//!
//! Nobody but the home sees it: sessions and their fan-out know of a topic what the directory says. Relies on
//! [`SideTable`] for entries that end with their topics.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Run, TopicSpec};

use crate::directory::Directory;
use crate::home::guard::Guard;
use crate::home::topic::HomeTopic;
use crate::runs::fresh;
use crate::side_table::SideTable;
use crate::topic::Topic;

/// What is kept of topics, of those whose home this is.
#[derive(Debug, Default)]
pub(crate) struct HomeTopics {
    table: SideTable<Option<Box<HomeTopic>>>,
}

impl HomeTopics {
    /// What is kept of a topic, if anything is.
    #[inline]
    pub(crate) fn get(&self, topic: &Topic) -> Option<&HomeTopic> {
        self.table.get(topic)?.as_deref()
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, topic: &Topic) -> Option<&mut HomeTopic> {
        self.table.get_mut(topic)?.as_deref_mut()
    }

    /// What is kept of a topic, or from now on.
    #[inline]
    pub(crate) fn get_or_insert_with(
        &mut self,
        topic: &Topic,
        new: impl FnOnce() -> Box<HomeTopic>,
    ) -> &mut HomeTopic {
        self.table.entry(topic).get_or_insert_with(new)
    }

    /// What is kept of a topic is this.
    pub(crate) fn set(&mut self, topic: &Topic, home: Box<HomeTopic>) {
        *self.table.entry(topic) = Some(home);
    }

    /// Nothing is kept of a topic any more: what was.
    pub(crate) fn take(&mut self, topic: &Topic) -> Option<Box<HomeTopic>> {
        self.table.take(topic)
    }

    /// What is kept of the topic with a key that may be stale.
    pub(crate) fn find(&self, directory: &Directory, key: Key) -> Option<&HomeTopic> {
        self.get(directory.get(key)?)
    }

    /// The same, to be changed.
    pub(crate) fn find_mut(&mut self, directory: &Directory, key: Key) -> Option<&mut HomeTopic> {
        self.get_mut(directory.get(key)?)
    }

    /// A topic with what is kept of it.
    #[inline]
    pub(crate) fn at<'a>(&'a self, topic: &'a Topic) -> TopicAtHome<'a> {
        TopicAtHome { topic, home: self.get(topic) }
    }

    /// The entry of this slot is wanted soon.
    pub(crate) fn prefetch(&self, slot: u32) {
        self.table.prefetch(slot);
    }
}

/// A topic as its home sees it: what the directory says, with what is kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopicAtHome<'a> {
    topic: &'a Topic,
    home: Option<&'a HomeTopic>,
}

impl<'a> TopicAtHome<'a> {
    /// Its path.
    #[inline]
    pub(crate) fn path(self) -> &'a Path {
        &self.topic.path
    }

    /// What it is.
    #[inline]
    pub(crate) fn spec(self) -> &'a Arc<TopicSpec> {
        &self.topic.spec
    }

    /// What is kept of it, if anything is.
    #[inline]
    pub(crate) fn home(self) -> Option<&'a HomeTopic> {
        self.home
    }

    /// Whether it keeps a value whose time is over.
    pub(crate) fn retained_expired(self, wall_ms: u64) -> bool {
        let message = self.home.and_then(|home| home.value()?.message(0));
        message.is_some_and(|message| message.is_expired(wall_ms))
    }

    /// Whether it is there for those who list topics: it was created or published to.
    pub(crate) fn is_known(self) -> bool {
        self.home.is_some_and(|home| home.is_known())
    }

    /// Whether it is there and some pattern names it.
    pub(crate) fn is_named(self, selector: &[Pattern]) -> bool {
        self.is_known() && selector.iter().any(|pattern| pattern.matches(self.path()))
    }

    /// Its value, unless its time is over.
    pub(crate) fn value(self, now: Now) -> Option<Arc<Run>> {
        fresh(self.home?.value(), now)
    }

    /// Whether it holds no value.
    pub(crate) fn is_empty(self) -> bool {
        self.home.is_none_or(|home| home.value().is_none())
    }

    /// What publishers are held to, if it is anything.
    #[inline]
    pub(crate) fn guard(self) -> Option<&'a Guard> {
        self.home?.guard()
    }

    /// Whether the server alone publishes to it.
    pub(crate) fn is_read_only(self) -> bool {
        self.guard().is_some_and(Guard::is_read_only)
    }

    /// Whether forgetting what is kept would change nothing.
    pub(crate) fn is_idle(self) -> bool {
        self.home.is_none_or(|home| home.is_idle())
    }

    /// Whether somebody may come back to it, even if there are no recent messages.
    pub(crate) fn is_recorded(self) -> bool {
        self.home.is_some_and(|home| home.history().is_some())
    }
}
