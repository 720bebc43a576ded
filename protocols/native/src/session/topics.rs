//! Ids of the topics that patterns match, announced to the client before they are used.
//!
//! Relies on the client taking a second announcement of an id as the end of the first. Invariant: at
//! most `topics_max` are kept; when that many are, all are forgotten and ids begin anew.

use hashbrown::{Equivalent, HashMap};
use tiderace_topics::Path;

use super::subscriptions::Sent;

/// A topic's path, borrowed.
#[derive(Hash)]
struct Asked<'a>(&'a Path);

impl Equivalent<Path> for Asked<'_> {
    fn equivalent(&self, known: &Path) -> bool {
        known.is_same(self.0) || known == self.0
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
    /// By the subscription's number, which is low.
    known: Vec<Option<Box<Own>>>,
    len: usize,
    next: u32,
}

/// Those of one subscription.
type Own = HashMap<Path, Announced, foldhash::fast::RandomState>;

impl Topics {
    /// The topic, and whether it has still to be announced.
    pub(super) fn find(
        &mut self,
        subscription: u32,
        path: &Path,
        most: usize,
    ) -> (&mut Announced, bool) {
        let place = subscription as usize;
        let own = self.known.get(place).and_then(Option::as_ref);
        let is_new = own.is_none_or(|own| !own.contains_key(&Asked(path)));
        // Before an id could be given a second time while its first topic is known.
        if is_new && (self.len >= most.max(1) || self.next == u32::MAX) {
            *self = Topics::default();
        }
        if place >= self.known.len() {
            self.known.resize_with(place + 1, || None);
        }
        #[allow(clippy::indexing_slicing, reason = "it was made just before")]
        let own = self.known[place].get_or_insert_default();
        let next = &mut self.next;
        let announced = own.entry(path.clone()).or_insert_with(|| {
            let id = *next;
            *next += 1;
            Announced { id, sent: Sent::default() }
        });
        self.len += usize::from(is_new);
        (announced, is_new)
    }

    /// Forgets the topics of a subscription that has ended; their ids stay unused. How many there were.
    pub(super) fn forget(&mut self, subscription: u32) -> usize {
        let own = self.known.get_mut(subscription as usize).and_then(Option::take);
        let count = own.map_or(0, |own| own.len());
        self.len -= count;
        while self.known.pop_if(|last| last.is_none()).is_some() {}
        count
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
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
    fn an_end_looks_at_the_topics_of_its_subscription_alone() {
        let paths: Vec<Path> =
            (0..100).map(|it| Path::parse(&format!("a/{it}")).unwrap()).collect();
        let mut topics = Topics::default();
        for subscription in 0..50 {
            for path in &paths {
                assert!(topics.find(subscription, path, 10_000).1);
            }
        }
        let looked: Vec<usize> = (0..25).map(|subscription| topics.forget(subscription)).collect();
        assert_eq!(looked, [100; 25]);
        assert!(topics.find(0, &paths[0], 10_000).1 && !topics.find(30, &paths[0], 10_000).1);
        (0..50).for_each(|subscription| _ = topics.forget(subscription));
        assert!(topics.is_empty() && topics.known.is_empty());
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
