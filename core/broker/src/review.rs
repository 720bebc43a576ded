//! How far the sessions of a shard have been looked at, since rules, limits or credentials have changed.
//!
//! Places are looked at in a circle. Invariants: a session is looked at with what held when it was given what it has, also if there are
//! several changes soon after another, and what held between those counts as well, since it has been hidden what they did
//! not allow; each place is looked at within one circle of a change, however many others come meanwhile.

use std::sync::Arc;

use crate::BrokerOptions;
use crate::access_change::AccessChange;
use crate::heard::Heard;

/// What held until something changed.
#[derive(Clone, Debug)]
pub(crate) struct Past {
    pub(crate) options: Arc<BrokerOptions>,
    /// How far this shard had heard of homes then: what came later has gone to who may see it since.
    pub(crate) heard: Heard,
}

/// How far it has come: so many circles, and the next place of this one.
type At = (u64, u32);

/// How far it has come.
#[derive(Debug)]
pub(crate) struct Review {
    at: At,
    change: Arc<AccessChange>,
    /// What held, the first of it when sessions were given what they have; empty when it is over.
    past: Vec<Past>,
    /// For each of these where it was when that ended.
    since: Vec<At>,
}

impl Review {
    /// All have yet to be looked at, and go on being looked at from where `unfinished` is.
    pub(crate) fn new(
        change: Arc<AccessChange>,
        before: Past,
        unfinished: Option<Review>,
    ) -> Review {
        let (at, mut past, mut since) = match unfinished {
            Some(Review { at, past, since, .. }) => (at, past, since),
            None => ((0, 0), Vec::new(), Vec::new()),
        };
        past.push(before);
        since.push(at);
        Review { at, change, past, since }
    }

    /// The next place to look at, of so many.
    pub(crate) fn next(&mut self, places: u32) -> Option<u32> {
        if self.is_over(places) {
            return None;
        }
        let next = self.at.1;
        self.at.1 += 1;
        (next < places).then_some(next)
    }

    /// Whether all of so many places have been looked at.
    pub(crate) fn is_over(&mut self, places: u32) -> bool {
        if self.at.1 >= places {
            self.at = (self.at.0 + 1, 0);
        }
        let is_done = |&&(circle, place): &&At| self.at >= (circle + 1, place);
        let done = self.since.iter().take_while(is_done).count();
        self.since.drain(..done);
        self.past.drain(..done);
        self.past.is_empty()
    }

    /// What has changed.
    pub(crate) fn change(&self) -> &AccessChange {
        &self.change
    }

    /// What held until now.
    pub(crate) fn past(&self) -> &[Past] {
        &self.past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(version: u32) -> Past {
        let options = BrokerOptions { rules_version: version, ..BrokerOptions::default() };
        Past { options: Arc::new(options), heard: Heard::default() }
    }

    fn begin(version: u32, unfinished: Option<Review>) -> Review {
        Review::new(Arc::default(), past(version), unfinished)
    }

    #[test]
    fn each_place_is_looked_at_once_for_one_change() {
        let mut review = begin(1, None);
        let looked: Vec<u32> = std::iter::from_fn(|| review.next(5)).collect();
        assert_eq!(looked, [0, 1, 2, 3, 4]);
        assert!(review.is_over(5) && review.past().is_empty());
        assert!(begin(1, None).next(0).is_none());
    }

    #[test]
    fn changes_that_go_on_coming_keep_nothing_from_being_looked_at() {
        let mut review = begin(0, None);
        for version in 1..50 {
            for _ in 0..7 {
                review.next(100);
            }
            // What is remembered is what came within one circle.
            assert!(review.past().len() <= 100 / 7 + 2, "{}", review.past().len());
            review = begin(version, Some(review));
        }
        assert_eq!(review.at.0, 3, "it has gone round three times meanwhile");
        let rest = std::iter::from_fn(|| review.next(100)).count();
        assert_eq!(rest, 100, "one circle more, and it is over");
    }

    #[test]
    fn a_place_is_looked_at_with_what_held_since_it_was_looked_at() {
        let mut review = begin(1, None);
        assert_eq!(review.next(4), Some(0));
        assert_eq!(review.next(4), Some(1));
        review = begin(2, Some(review));
        let versions =
            |review: &Review| review.past().iter().map(|it| it.options.rules_version).collect();
        let mut seen: Vec<(u32, Vec<u32>)> = Vec::new();
        while let Some(place) = review.next(4) {
            seen.push((place, versions(&review)));
        }
        let expected = [(2, vec![1, 2]), (3, vec![1, 2]), (0, vec![2]), (1, vec![2])];
        assert_eq!(seen, expected);
    }

    #[test]
    fn places_that_come_and_go_meanwhile_do_not_keep_it_from_its_end() {
        let mut review = begin(1, None);
        for _ in 0..8 {
            review.next(10);
        }
        review = begin(2, Some(review));
        assert!(std::iter::from_fn(|| review.next(3)).take(20).count() <= 6);
        assert!(review.is_over(3));
    }
}
