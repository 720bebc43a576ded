//! As a home: which durable subscriptions have their queue here, and which places are fed with a topic's messages.
//!
//! ```text
//!   topic's home ── which places have a pattern that names it ──▶ one Feed for each of them
//!   queue's home ── which of its subscriptions have one ────────▶ their queues
//! ```
//! Relies on the home of each subscription telling every home of its patterns. Invariant: what a home is told of another
//! place is counted, so that it ends with the last subscription that has said it.

use std::rc::Rc;
use std::sync::Arc;

use super::feed_backlog::FeedBacklog;
use crate::DurableOptions;
use crate::authorise::is_reserved;
use crate::collections::{Map, Set};
use crate::durables::{Durable, FeedSlice};
use crate::places::{Place, PlaceSet};
use crate::price::pattern_bytes;
use tiderace_base::{Close, CloseCode, Key, Memory, MemoryUse, Slab};
use tiderace_queues::gathers;
use tiderace_topics::{Level, Path, Pattern, PatternIndex};

/// The durable subscriptions that concern one home.
#[derive(Debug, Default)]
pub(crate) struct Feeds {
    /// Those whose queue is here.
    durables: Slab<Durable>,
    by_queue: Map<Path, Key>,
    by_topic: PatternIndex<(Pattern, Key)>,
    /// Queues of those that stand in the configuration, of all homes, until everything is restored.
    configured: Set<Path>,
    /// How many of them somebody has made.
    by_owner: Map<Arc<str>, usize>,
    /// How many of each place have each pattern.
    uses: Map<(Pattern, Place), u32>,
    places: PatternIndex<(Pattern, Place)>,
    /// Runs that so many of them get that it takes several turns.
    backlog: FeedBacklog,
    /// How many of them have selectors.
    selecting: usize,
    /// Some queues are mirrors of topics.
    has_mirrors: bool,
}

impl Feeds {
    /// The subscription with that queue.
    pub(crate) fn get(&self, queue: &Path) -> Option<&Durable> {
        self.durables.get(*self.by_queue.get(queue)?)
    }

    /// The subscription under that key.
    pub(crate) fn at(&self, key: Key) -> Option<&Durable> {
        self.durables.get(key)
    }

    /// Whether some queues are mirrors of topics.
    #[inline]
    pub(crate) fn has_mirrors(&self) -> bool {
        self.has_mirrors
    }

    pub(crate) fn set_mirrors(&mut self) {
        self.has_mirrors = true;
    }

    /// Whether some have selectors.
    pub(crate) fn select(&self) -> bool {
        self.selecting > 0
    }

    /// Runs that are being fed.
    #[inline]
    pub(crate) fn backlog(&self) -> &FeedBacklog {
        &self.backlog
    }

    pub(crate) fn backlog_mut(&mut self) -> &mut FeedBacklog {
        &mut self.backlog
    }

    /// The next slice of what is being fed.
    pub(crate) fn next_slice(&mut self, memory: &Rc<Memory>) -> Option<FeedSlice> {
        let Feeds { backlog, by_topic, selecting, .. } = self;
        backlog.next(*selecting > 0, |topic| fed_by(by_topic, topic), memory)
    }

    /// The queue of a subscription that stands in the configuration.
    pub(crate) fn configure(&mut self, queue: &Path) {
        self.configured.insert(queue.clone());
    }

    /// Whether a subscription with that queue stands in the configuration; asked until everything is restored.
    pub(crate) fn is_configured(&self, queue: &Path) -> bool {
        self.configured.contains(queue)
    }

    /// Everything is restored.
    pub(crate) fn end_restoring(&mut self) {
        self.configured = Set::default();
    }

    /// How many there are, and how many of them somebody has made.
    fn count(&self, owner: &str) -> (usize, usize) {
        (self.durables.len(), self.by_owner.get(owner).copied().unwrap_or(0))
    }

    /// Whether somebody may make another one.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub(crate) fn check_room(&self, owner: &str, options: &DurableOptions) -> Result<(), Close> {
        let (all, own) = self.count(owner);
        let (most, whose) = match () {
            () if own >= options.per_principal_max => (options.per_principal_max, owner),
            () if all >= options.count_max => (options.count_max, "all together"),
            () => return Ok(()),
        };
        let reason = format!(
            "{whose} may have {most} durable subscriptions at each shard; end some that nobody needs"
        );
        Err(Close::new(CloseCode::TooManySubscriptions, reason))
    }

    /// A subscription begins, or is another one from now on: the one that was there.
    pub(crate) fn put(&mut self, durable: Durable) -> Option<Durable> {
        let (about, owner) = (durable.about.clone(), durable.owner.clone());
        let known = self.by_queue.get(&about.queue).copied();
        let (key, before) = match known.and_then(|key| Some((key, self.durables.get_mut(key)?))) {
            Some((key, place)) => (key, Some(std::mem::replace(place, durable))),
            None => {
                let key = self.durables.insert(durable);
                self.by_queue.insert(about.queue.clone(), key);
                (key, None)
            }
        };
        if let Some(before) = &before {
            self.forget(key, before);
        }
        self.selecting += usize::from(about.selector.is_some());
        for topic in &about.topics {
            self.by_topic.insert(topic, (topic.clone(), key));
        }
        if let Some(owner) = owner {
            *self.by_owner.entry(owner).or_default() += 1;
        }
        before
    }

    /// A subscription has ended.
    pub(crate) fn take(&mut self, queue: &Path) -> Option<Durable> {
        let key = self.by_queue.remove(queue)?;
        let durable = self.durables.remove(key)?;
        self.forget(key, &durable);
        Some(durable)
    }

    /// Nothing feeds one any more, and it is nobody's.
    fn forget(&mut self, key: Key, durable: &Durable) {
        self.selecting -= usize::from(durable.about.selector.is_some());
        for topic in &durable.about.topics {
            self.by_topic.remove(topic, &(topic.clone(), key));
        }
        let Some(owner) = &durable.owner else { return };
        if let Some(count) = self.by_owner.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.by_owner.remove(owner);
            }
        }
    }

    /// The subscriptions here that a topic feeds, each once, in an order that does not change.
    pub(crate) fn fed_by(&self, topic: &Path) -> Vec<Key> {
        fed_by(&self.by_topic, topic)
    }

    /// A place has a subscription to these topics, or one less: whether other places may be fed from now on.
    pub(crate) fn note(
        &mut self,
        place: Place,
        topics: &[Pattern],
        on: bool,
        memory: &Rc<Memory>,
    ) -> bool {
        let mut changed = false;
        for topic in topics {
            let of = (topic.clone(), place);
            let uses = self.uses.entry(of.clone()).or_default();
            *uses = if on { *uses + 1 } else { uses.saturating_sub(1) };
            match *uses {
                1 if on => {
                    memory.charge(MemoryUse::Names, pattern_bytes(topic));
                    self.places.insert(topic, of);
                    changed = true;
                }
                0 => {
                    if self.places.remove(topic, &of) {
                        memory.refund(MemoryUse::Names, pattern_bytes(topic));
                        changed = true;
                    }
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
    pub(crate) fn lose(&mut self, place: Place, memory: &Rc<Memory>) {
        let gone: Vec<_> = self.uses.keys().filter(|(_, of)| *of == place).cloned().collect();
        for of in gone {
            self.places.remove(&of.0, &of);
            memory.refund(MemoryUse::Names, pattern_bytes(&of.0));
            self.uses.remove(&of);
        }
    }
}

fn fed_by(by_topic: &PatternIndex<(Pattern, Key)>, topic: &Path) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    by_topic.matches(topic, &mut |(pattern, key)| {
        if feeds(pattern, topic) {
            keys.push(*key);
        }
    });
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Whether what is published to a topic is for a durable subscription to a pattern: not if it is private, or the
/// server's own, and the pattern does not say so.
fn feeds(pattern: &Pattern, topic: &Path) -> bool {
    let is_spelled = || matches!(pattern.levels().first(), Some(Level::Literal(_)));
    gathers(pattern, topic) && (!is_reserved(topic) || is_spelled())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::ShardId;
    use tiderace_wire::DurableSubscription;

    fn durable(name: &str, topics: &[&str]) -> Durable {
        let topics = topics.iter().map(|topic| Pattern::parse(topic).unwrap()).collect();
        let queue = tiderace_wire::durable_queue(name).unwrap();
        let about = Arc::new(DurableSubscription { queue, topics, selector: None });
        Durable { about, owner: Some("ann".into()), since: 0 }
    }

    fn names(feeds: &Feeds, topic: &str) -> Vec<String> {
        let found = feeds.fed_by(&Path::parse(topic).unwrap());
        let about = found.iter().map(|key| &feeds.at(*key).unwrap().about);
        about.map(|about| about.queue.as_str().to_owned()).collect()
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
        let memory = &Rc::new(Memory::new(1 << 20));
        let [here, there] = [0, 1].map(|shard| Place::here(ShardId(shard)));
        let topics = [Pattern::parse("a/*").unwrap()];
        let topic = Path::parse("a/b").unwrap();
        assert!(
            feeds.note(here, &topics, true, memory) && !feeds.note(here, &topics, true, memory)
        );
        assert!(feeds.note(there, &topics, true, memory));
        assert_eq!(feeds.places_of(&topic).len(), 2);
        assert!(
            !feeds.note(here, &topics, false, memory) && feeds.note(here, &topics, false, memory)
        );
        assert!(!feeds.note(here, &topics, false, memory), "one more than there were");
        assert_eq!(feeds.places_of(&topic), PlaceSet::of(there));
        feeds.lose(there, memory);
        assert_eq!(memory.used(), 0);
        assert!(feeds.places_of(&topic).is_empty());
    }
}
