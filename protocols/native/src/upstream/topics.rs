//! Topics that have numbers on the connection, and what is needed to read their updates.
//!
//! To apply deltas the last body of a topic is kept, as a copy. It could share the buffer of the run that brought it, but
//! that holds whatever else came with it, up to 64 KiB, and the broker, which copies a value out of its run as well, would
//! count it as one or the other's. So bodies are counted here, and have a limit of their own. Invariant: the bytes counted
//! are those of the bodies that are kept.

use std::collections::BTreeSet;

use hashbrown::HashMap;
use tiderace_base::{Close, CloseCode, Numbered};
use tiderace_topics::Path;

use crate::limits::UPSTREAM_TOPICS_MAX;

/// What is known of a topic.
pub(super) struct Topic {
    /// Its subscription.
    pub(super) key: u32,
    pub(super) path: Path,
    /// The version that came last; zero if none did.
    pub(super) last: u64,
    /// What the next message's version follows, if that was told.
    pub(super) follows: Option<u64>,
    base: Option<Vec<u8>>,
}

/// The bodies that are kept.
pub(super) struct Bases {
    bytes: usize,
    bytes_max: usize,
}

/// All topics.
pub(super) struct Topics {
    /// By subscription, of those to one topic.
    single: Numbered<Topic>,
    /// By the upstream's number.
    announced: Numbered<Topic>,
    /// The numbers of a pattern's topics, so that its end looks at them alone.
    own: HashMap<u32, BTreeSet<u32>, foldhash::fast::RandomState>,
    bases: Bases,
}

impl Topics {
    pub(super) fn new(bases_bytes_max: usize) -> Topics {
        Topics {
            single: Numbered::default(),
            announced: Numbered::default(),
            own: HashMap::default(),
            bases: Bases { bytes: 0, bytes_max: bases_bytes_max },
        }
    }

    /// Whether another subscription may keep bodies.
    pub(super) fn have_room(&self) -> bool {
        self.bases.bytes <= self.bases.bytes_max / 2
    }

    /// The topic of a subscription to one.
    pub(super) fn begin(&mut self, key: u32, path: Path) {
        self.single.insert(key, Topic::new(key, path));
    }

    /// A topic of a pattern has got a number, which may have been another's.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn announce(&mut self, id: u32, key: u32, path: Path) -> Result<(), Close> {
        if id == 0 {
            self.forget_announced();
        }
        let is_full = self.announced.len() >= UPSTREAM_TOPICS_MAX;
        match self.announced.get_mut(id) {
            Some(before) => {
                self.bases.drop(before);
                if let Some(own) = self.own.get_mut(&before.key) {
                    own.remove(&id);
                }
            }
            None if is_full => {
                let reason = format!(
                    "the upstream has announced more than {UPSTREAM_TOPICS_MAX} topics; lower its `native.edge_topics_max`"
                );
                return Err(Close::new(CloseCode::TooManyTopics, reason));
            }
            None => {}
        }
        self.announced.insert(id, Topic::new(key, path));
        self.own.entry(key).or_default().insert(id);
        Ok(())
    }

    /// The upstream begins with its numbers again: it knows none of those that it gave before.
    fn forget_announced(&mut self) {
        for ids in std::mem::take(&mut self.own).into_values() {
            for id in ids {
                if let Some(mut topic) = self.announced.remove(id) {
                    self.bases.drop(&mut topic);
                }
            }
        }
    }

    /// The topic of a number, with what counts its body.
    #[inline]
    pub(super) fn get(&mut self, is_announced: bool, id: u32) -> Option<(&mut Topic, &mut Bases)> {
        let all = if is_announced { &mut self.announced } else { &mut self.single };
        all.get_mut(id).map(|topic| (topic, &mut self.bases))
    }

    /// Forgets the topics of a subscription.
    pub(super) fn forget(&mut self, key: u32) {
        let ids = self.own.remove(&key).unwrap_or_default();
        let single = self.single.remove(key).into_iter();
        let announced = ids.into_iter().filter_map(|id| self.announced.remove(id));
        for mut topic in single.chain(announced) {
            self.bases.drop(&mut topic);
        }
    }
}

impl Topic {
    fn new(key: u32, path: Path) -> Topic {
        Topic { key, path, last: 0, follows: None, base: None }
    }

    /// The body that came last, if it was kept.
    pub(super) fn base(&self) -> Option<&[u8]> {
        self.base.as_deref()
    }
}

impl Bases {
    /// Keeps the body that came last, if there is room for it.
    pub(super) fn keep(&mut self, topic: &mut Topic, body: &[u8]) {
        let mut base = self.drop(topic).unwrap_or_default();
        if self.bytes.saturating_add(body.len()) > self.bytes_max {
            return;
        }
        base.clear();
        if base.capacity() > 2 * body.len() {
            base = Vec::new();
        }
        base.reserve_exact(body.len());
        base.extend_from_slice(body);
        self.bytes += base.capacity();
        topic.base = Some(base);
    }

    fn drop(&mut self, topic: &mut Topic) -> Option<Vec<u8>> {
        let base = topic.base.take()?;
        self.bytes -= base.capacity();
        Some(base)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn path(text: &str) -> Path {
        Path::parse(text).unwrap()
    }

    fn keep(topics: &mut Topics, is_announced: bool, id: u32, body: &[u8]) -> bool {
        let (topic, bases) = topics.get(is_announced, id).unwrap();
        bases.keep(topic, body);
        topic.base() == Some(body)
    }

    #[test]
    fn bodies_have_a_limit_and_go_with_their_topics() {
        let mut topics = Topics::new(100);
        topics.begin(0, path("a"));
        topics.announce(0, 1, path("b")).unwrap();
        topics.announce(1, 1, path("c")).unwrap();
        assert!(keep(&mut topics, false, 0, &[1; 50]) && topics.have_room());
        assert!(keep(&mut topics, true, 0, &[2; 40]) && !topics.have_room());
        assert!(!keep(&mut topics, true, 1, &[3; 40]), "there is no room");
        assert!(keep(&mut topics, true, 1, &[]), "an empty one is a body");
        assert!(keep(&mut topics, true, 0, &[4; 50]), "in the place of the one before");
        assert!(!keep(&mut topics, true, 0, &[4; 60]));
        assert_eq!(topics.bases.bytes, 50);
        assert!(keep(&mut topics, true, 1, &[5; 50]));
        // A number that becomes another topic's.
        topics.announce(1, 2, path("d")).unwrap();
        assert_eq!(topics.bases.bytes, 50);
        topics.forget(1);
        assert!(topics.get(true, 0).is_none() && topics.get(true, 1).is_some());
        topics.forget(0);
        topics.forget(2);
        assert_eq!((topics.bases.bytes, topics.announced.len(), topics.own.len()), (0, 0, 0));
        assert!(topics.get(true, 1).is_none() && topics.get(false, 0).is_none());
    }
}
