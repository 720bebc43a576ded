//! As a home: which shards want notices of which topics, and pages of topics that are to be given.
//!
//! Bookkeeping only. Invariant: a shard is told of a topic as long as one of its subscriptions wants that.

use std::collections::VecDeque;

use tiderace_topics::{Path, Pattern, PatternIndex};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::places::{Place, PlaceSet};

/// Whom a home tells of topics.
#[derive(Debug, Default)]
pub(crate) struct NoticeInterest {
    /// How many subscriptions of each shard want notices of each pattern.
    uses: Map<(Pattern, Place), u32>,
    places: PatternIndex<Place>,
    requests: VecDeque<TopicsRequest>,
}

/// A page of topics that is to be given.
#[derive(Debug)]
pub(crate) struct TopicsRequest {
    pub(crate) from: Place,
    pub(crate) pattern: Pattern,
    pub(crate) request: SubscribeRequestId,
    /// Behind which path; absent: from the first one on.
    pub(crate) after: Option<Path>,
}

impl NoticeInterest {
    /// A page is asked for; without a path behind which it is, a subscription begins.
    pub(crate) fn ask(&mut self, request: TopicsRequest) {
        if request.after.is_none() {
            let uses = self.uses.entry((request.pattern.clone(), request.from)).or_default();
            *uses += 1;
            if *uses == 1 {
                self.places.insert(&request.pattern, request.from);
            }
        }
        // Not at once: many may ask.
        self.requests.push_back(request);
    }

    /// A subscription has ended.
    pub(crate) fn end(&mut self, from: Place, pattern: &Pattern) {
        let key = (pattern.clone(), from);
        let Some(uses) = self.uses.get_mut(&key) else { return };
        *uses -= 1;
        if *uses == 0 {
            self.uses.remove(&key);
            self.places.remove(pattern, &from);
        }
    }

    /// Whether nobody wants notices.
    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The shards that want notices of a topic.
    pub(crate) fn places_of(&self, path: &Path) -> PlaceSet {
        let mut places = PlaceSet::EMPTY;
        self.places.matches(path, &mut |place| {
            places.insert(*place);
        });
        places
    }

    /// The next page that is to be given.
    pub(crate) fn next_request(&mut self) -> Option<TopicsRequest> {
        self.requests.pop_front()
    }

    pub(crate) fn has_requests(&self) -> bool {
        !self.requests.is_empty()
    }

    /// A place is lost, and what its subscriptions want.
    pub(crate) fn lose(&mut self, place: Place) {
        self.requests.retain(|request| request.from != place);
        let lost = self.uses.keys().filter(|(_, of)| *of == place);
        for (pattern, _) in lost.cloned().collect::<Vec<_>>() {
            self.uses.remove(&(pattern.clone(), place));
            self.places.remove(&pattern, &place);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{SessionId, ShardId};
    use tiderace_wire::SubscriptionKey;

    #[test]
    fn a_lost_place_is_told_nothing_and_given_no_pages() {
        let mut interest = NoticeInterest::default();
        let (lost, other) = (Place::here(ShardId(1)), Place::here(ShardId(2)));
        let (pattern, path) = (Pattern::parse("a/*").unwrap(), Path::parse("a/b").unwrap());
        for from in [lost, other, lost] {
            let session = SessionId { shard: from.shard, slot: 0, generation: 0 };
            let request =
                SubscribeRequestId { session, key: SubscriptionKey(0), target: 0, epoch: 0 };
            let after = None;
            interest.ask(TopicsRequest { from, pattern: pattern.clone(), request, after });
        }
        interest.lose(lost);
        assert_eq!(interest.places_of(&path).iter().collect::<Vec<_>>(), [other]);
        assert_eq!(interest.next_request().map(|request| request.from), Some(other));
        assert!(!interest.has_requests());
        interest.end(other, &pattern);
        assert!(interest.is_empty());
    }
}
