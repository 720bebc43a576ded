//! Ids of the topics that patterns match, announced to the client before they are used.
//!
//! Relies on the client taking a second announcement of an id as the end of the first. Invariant: at
//! most `topics_max` are kept; when that many are, all are forgotten and ids begin anew.

use hashbrown::{Equivalent, HashMap};
use tiderace_topics::Path;

use super::subscriptions::Sent;

/// A topic as one subscription sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    subscription: u32,
    path: Path,
}

impl std::hash::Hash for Seen {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Asked { subscription: self.subscription, path: &self.path }.hash(state);
    }
}

/// The same, borrowed.
#[derive(Hash)]
struct Asked<'a> {
    subscription: u32,
    path: &'a Path,
}

impl Equivalent<Seen> for Asked<'_> {
    fn equivalent(&self, known: &Seen) -> bool {
        known.subscription == self.subscription
            && (known.path.is_same(self.path) || known.path == *self.path)
    }
}

/// What is known of an announced topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) id: u32,
    pub(super) sent: Sent,
}

/// All announced topics of a session.
#[derive(Debug, Default)]
pub(super) struct Topics {
    known: HashMap<Seen, Announced, foldhash::fast::RandomState>,
    next: u32,
}

impl Topics {
    /// The topic, and whether it has still to be announced.
    pub(super) fn find(
        &mut self,
        subscription: u32,
        path: &Path,
        most: usize,
    ) -> (&mut Announced, bool) {
        let is_new = !self.known.contains_key(&Asked { subscription, path });
        // Before an id could be given a second time while its first topic is known.
        if is_new && (self.known.len() >= most.max(1) || self.next == u32::MAX) {
            self.known.clear();
            self.next = 0;
        }
        let next = &mut self.next;
        let announced =
            self.known.entry(Seen { subscription, path: path.clone() }).or_insert_with(|| {
                let id = *next;
                *next += 1;
                Announced { id, sent: Sent::default() }
            });
        (announced, is_new)
    }

    /// Forgets the topics of a subscription that has ended. Their ids stay unused.
    pub(super) fn forget(&mut self, subscription: u32) {
        self.known.retain(|seen, _| seen.subscription != subscription);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ids_are_given_once_and_anew_when_there_are_too_many() {
        let [a, b, c] = ["a", "b", "c"].map(|name| Path::parse(name).unwrap());
        let mut topics = Topics::default();
        let mut find = |subscription, path| {
            let (announced, is_new) = topics.find(subscription, path, 3);
            (announced.id, is_new)
        };
        assert_eq!(find(0, &a), (0, true));
        assert_eq!(find(1, &a), (1, true));
        assert_eq!(find(0, &b), (2, true));
        assert_eq!(find(1, &a), (1, false));
        assert_eq!(find(0, &c), (0, true));
        assert_eq!(find(0, &a), (1, true));
        topics.forget(0);
        assert!(topics.is_empty());
        assert_eq!(topics.find(2, &a, 3).0.id, 2);
    }

    #[test]
    fn ids_do_not_come_round_while_their_topics_are_known() {
        let [a, b] = ["a", "b"].map(|name| Path::parse(name).unwrap());
        let mut topics = Topics { next: u32::MAX - 1, ..Topics::default() };
        assert_eq!(topics.find(0, &a, 9).0.id, u32::MAX - 1);
        assert_eq!((topics.find(0, &b, 9).0.id, topics.find(0, &b, 9).1), (0, false));
        let (announced, is_new) = topics.find(0, &a, 9);
        assert_eq!((announced.id, is_new), (1, true));
    }
}
