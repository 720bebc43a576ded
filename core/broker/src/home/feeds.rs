//! As a home: which durable subscriptions have their queue here, and which places are fed with a topic's messages.
//!
//! ```text
//!   topic's home ── which places have a pattern that names it ──▶ one Feed for each of them
//!   queue's home ── which of its subscriptions have one ────────▶ their queues
//! ```
//! Relies on the home of each subscription telling every home of its patterns. Invariant: what a home is told of another
//! place is counted, so that it ends with the last subscription that has said it.

use std::sync::Arc;

use tiderace_queues::reaches;
use tiderace_topics::{Level, Path, Pattern, PatternIndex};
use tiderace_wire::DurableSubscription;

use crate::authorise::is_reserved;
use crate::collections::Map;
use crate::durables::Durable;
use crate::places::{Place, PlaceSet};

/// The durable subscriptions that concern one home.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    /// Those whose queue is here.
    durables: Map<Path, Durable>,
    by_topic: PatternIndex<(Pattern, Path)>,
    /// How many of each place have each pattern.
    uses: Map<(Pattern, Place), u32>,
    places: PatternIndex<(Pattern, Place)>,
}

impl Feeds {
    /// The subscription with that queue.
    pub(crate) fn get(&self, queue: &Path) -> Option<&Durable> {
        self.durables.get(queue)
    }

    /// How many there are, and how many of them somebody has made.
    pub(crate) fn count(&self, owner: &str) -> (usize, usize) {
        let own = self.durables.values().filter(|it| it.owner.as_deref() == Some(owner));
        (self.durables.len(), own.count())
    }

    /// A subscription begins, or is another one from now on: the one that was there.
    pub(crate) fn put(&mut self, durable: Durable) -> Option<Durable> {
        let before = self.take(&durable.about.queue);
        for topic in &durable.about.topics {
            self.by_topic.insert(topic, (topic.clone(), durable.about.queue.clone()));
        }
        self.durables.insert(durable.about.queue.clone(), durable);
        before
    }

    /// A subscription has ended.
    pub(crate) fn take(&mut self, queue: &Path) -> Option<Durable> {
        let durable = self.durables.remove(queue)?;
        for topic in &durable.about.topics {
            self.by_topic.remove(topic, &(topic.clone(), queue.clone()));
        }
        Some(durable)
    }

    /// The subscriptions here that a topic feeds, each once.
    pub(crate) fn fed_by(&self, topic: &Path) -> Vec<Arc<DurableSubscription>> {
        let mut queues: Vec<&Path> = Vec::new();
        self.by_topic.matches(topic, &mut |(pattern, queue)| {
            if feeds(pattern, topic) {
                queues.push(queue);
            }
        });
        queues.sort_unstable();
        queues.dedup();
        let found = queues.into_iter().filter_map(|queue| self.durables.get(queue));
        found.map(|durable| durable.about.clone()).collect()
    }

    /// A place has a subscription to these topics, or one less: whether other places may be fed from now on.
    pub(crate) fn note(&mut self, place: Place, topics: &[Pattern], on: bool) -> bool {
        let mut changed = false;
        for topic in topics {
            let of = (topic.clone(), place);
            let uses = self.uses.entry(of.clone()).or_default();
            *uses = if on { *uses + 1 } else { uses.saturating_sub(1) };
            match *uses {
                1 if on => {
                    self.places.insert(topic, of);
                    changed = true;
                }
                0 => {
                    changed |= self.places.remove(topic, &of);
                    self.uses.remove(&of);
                }
                _ => {}
            }
        }
        changed
    }

    /// The places that a topic feeds.
    pub(crate) fn places_of(&self, topic: &Path) -> PlaceSet {
        let mut places = PlaceSet::EMPTY;
        if self.uses.is_empty() {
            return places;
        }
        self.places.matches(topic, &mut |(pattern, place)| {
            if feeds(pattern, topic) {
                places.insert(*place);
            }
        });
        places
    }

    /// A place is lost, with the subscriptions there.
    pub(crate) fn lose(&mut self, place: Place) {
        let gone: Vec<_> = self.uses.keys().filter(|(_, of)| *of == place).cloned().collect();
        for of in gone {
            self.places.remove(&of.0, &of);
            self.uses.remove(&of);
        }
    }
}

/// Whether what is published to a topic is for a durable subscription to a pattern: not if it is private, or the
/// server's own, and the pattern does not say so.
fn feeds(pattern: &Pattern, topic: &Path) -> bool {
    let is_spelled = || matches!(pattern.levels().first(), Some(Level::Literal(_)));
    reaches(pattern, topic) && (!is_reserved(topic) || is_spelled())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::ShardId;

    fn durable(name: &str, topics: &[&str]) -> Durable {
        let topics = topics.iter().map(|topic| Pattern::parse(topic).unwrap()).collect();
        let queue = tiderace_wire::durable_queue(name).unwrap();
        let about = Arc::new(DurableSubscription { queue, topics, selector: None });
        Durable { about, owner: Some("ann".into()) }
    }

    fn names(feeds: &Feeds, topic: &str) -> Vec<String> {
        let found = feeds.fed_by(&Path::parse(topic).unwrap());
        found.iter().map(|about| about.queue.as_str().to_owned()).collect()
    }

    #[test]
    fn a_topic_feeds_each_subscription_once() {
        let mut feeds = Feeds::default();
        feeds.put(durable("a", &["fx/*", "fx/**"]));
        feeds.put(durable("b", &["**"]));
        assert_eq!(names(&feeds, "fx/EUR"), ["dsub/a", "dsub/b"]);
        assert_eq!(names(&feeds, "gold"), ["dsub/b"]);
        let before = feeds.put(durable("a", &["gold"])).unwrap();
        assert_eq!(before.about.topics.len(), 2);
        assert_eq!(names(&feeds, "fx/EUR"), ["dsub/b"]);
        assert_eq!(names(&feeds, "gold"), ["dsub/a", "dsub/b"]);
        assert_eq!(feeds.count("ann"), (2, 2));
        assert!(feeds.take(&Path::parse("dsub/b").unwrap()).is_some());
        assert_eq!(feeds.count("bob"), (1, 0));
        assert!(names(&feeds, "fx/EUR").is_empty());
    }

    #[test]
    fn what_is_private_or_the_servers_feeds_those_alone_who_say_so() {
        let mut feeds = Feeds::default();
        feeds.put(durable("all", &["**"]));
        feeds.put(durable("own", &["user/ann/**", "$sys/sessions/**"]));
        for (topic, expected) in [
            ("user/ann/x", &["dsub/own"][..]),
            ("user/bob/x", &[]),
            ("$sys/sessions/s1", &["dsub/own"]),
            ("temp/s1/x", &[]),
            ("x", &["dsub/all"]),
        ] {
            assert_eq!(names(&feeds, topic), expected, "{topic}");
        }
    }

    #[test]
    fn places_are_counted() {
        let mut feeds = Feeds::default();
        let [here, there] = [0, 1].map(|shard| Place::here(ShardId(shard)));
        let topics = [Pattern::parse("a/*").unwrap()];
        let topic = Path::parse("a/b").unwrap();
        assert!(feeds.note(here, &topics, true) && !feeds.note(here, &topics, true));
        assert!(feeds.note(there, &topics, true));
        assert_eq!(feeds.places_of(&topic).len(), 2);
        assert!(!feeds.note(here, &topics, false) && feeds.note(here, &topics, false));
        assert!(!feeds.note(here, &topics, false), "one more than there were");
        assert_eq!(feeds.places_of(&topic), PlaceSet::of(there));
        feeds.lose(there);
        assert!(feeds.places_of(&topic).is_empty());
    }
}
