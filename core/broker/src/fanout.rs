//! Who of this shard is to get the messages of a topic or of a pattern's topics. Who gets notices stands in `notices/`.
//!
//! What is kept of each topic stands in a table of its own with the slots of the directory, which homes do not see.
//! Each part keeps its state to itself.

use crate::heard::Heard;
use crate::pattern_subscribers::PatternSubscribers;
use crate::side_table::SideTable;
use crate::subscriber_list::{Subscriber, SubscriberList};
use crate::topic::Topic;
use crate::topic_subscribers::TopicSubscribers;

/// The shard's subscriptions, by topic and by pattern.
#[derive(Debug, Default)]
pub(crate) struct Fanout {
    topics: SideTable<TopicSubscribers>,
    patterns: PatternSubscribers,
    heard: Heard,
}

impl Fanout {
    /// Who listens to a topic, if anybody ever did.
    #[inline]
    pub(crate) fn subscribers(&self, topic: &Topic) -> Option<&TopicSubscribers> {
        self.topics.get(topic)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn subscribers_mut(&mut self, topic: &Topic) -> Option<&mut TopicSubscribers> {
        self.topics.get_mut(topic)
    }

    /// Who listens to a topic, with memory for it from now on.
    #[inline]
    pub(crate) fn subscribers_or_new(&mut self, topic: &Topic) -> &mut TopicSubscribers {
        self.topics.entry(topic)
    }

    /// Whether the subscribers of a topic by pattern are those of the present patterns.
    #[inline]
    pub(crate) fn is_found(&self, topic: &Topic) -> bool {
        let at = self.patterns.generation();
        self.subscribers(topic).is_some_and(|known| known.is_found_at(at))
    }

    /// These subscribers have the present patterns that name a topic.
    pub(crate) fn set_by_pattern(&mut self, topic: &Topic, found: SubscriberList) {
        self.topics.entry(topic).set_by_pattern(self.patterns.generation(), found);
    }

    /// The subscribers of exactly a topic, by place.
    pub(crate) fn exact(&self, topic: &Topic) -> &[Subscriber] {
        self.subscribers(topic).map(|known| known.exact()).unwrap_or_default()
    }

    /// The subscribers of a topic by pattern, as found last.
    pub(crate) fn by_pattern(&self, topic: &Topic) -> &[Subscriber] {
        self.subscribers(topic).map(|known| known.by_pattern()).unwrap_or_default()
    }

    /// How many subscriptions bring a topic: exactly, and by a pattern, if these have been looked up since patterns changed.
    pub(crate) fn counts(&self, topic: &Topic) -> (u64, Option<u64>) {
        let by_pattern = self.is_found(topic).then(|| self.by_pattern(topic).len() as u64);
        (self.exact(topic).len() as u64, by_pattern)
    }

    /// Whether nobody listens to exactly this topic, nor are its publishers to wait.
    pub(crate) fn is_idle(&self, topic: &Topic) -> bool {
        self.subscribers(topic).is_none_or(|subscribers| subscribers.is_idle())
    }

    /// A topic is there no longer.
    pub(crate) fn forget_topic(&mut self, topic: &Topic) {
        self.topics.take(topic);
    }

    /// Who listens to the topic in this slot is wanted soon.
    pub(crate) fn prefetch(&self, slot: u32) {
        self.topics.prefetch(slot);
    }

    /// How far this shard has heard of homes.
    pub(crate) fn heard(&self) -> &Heard {
        &self.heard
    }

    #[inline]
    pub(crate) fn heard_mut(&mut self) -> &mut Heard {
        &mut self.heard
    }

    /// Who gets messages by a pattern.
    #[inline]
    pub(crate) fn patterns(&self) -> &PatternSubscribers {
        &self.patterns
    }

    pub(crate) fn patterns_mut(&mut self) -> &mut PatternSubscribers {
        &mut self.patterns
    }
}
