//! What subscriptions of one shard that want notices have been told.
//!
//! Bookkeeping only; see `notices.rs` for who tells it, and when.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tiderace_base::Key;
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex, is_at_or_below};
use tiderace_wire::{Subscribe, SubscriptionKey, TopicSpec};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::places::{Place, PlaceSet};

/// Topics of a home, for a subscription.
pub(crate) type Topics = Vec<(Path, Arc<TopicSpec>)>;

/// What one shard knows of notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Targets of subscriptions here that want them.
    pub(crate) here: PatternIndex<Noticer>,
    pub(crate) told: Map<(Key, SubscriptionKey), Told>,
    /// What sessions have yet to ask homes for.
    pub(crate) listings: Map<Key, Listing>,
    /// Topics that are there.
    pub(crate) topics: BTreeMap<Path, Arc<TopicSpec>>,
    /// Topics that no subscription names any more are being forgotten.
    pub(crate) sweep: Option<Sweep>,
}

/// A subscription that wants notices: what it has been told.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) epoch: u32,
    pub(crate) targets: Vec<ToldTarget>,
    /// Up to which path a home has told of a target: the one that is being asked.
    pub(crate) partly: Option<(u16, Place, Path)>,
    /// How many homes have yet to tell all of some target.
    pub(crate) left: usize,
    /// What begins when all have.
    pub(crate) subscribe: Option<Box<Subscribe>>,
}

#[derive(Debug)]
pub(crate) struct ToldTarget {
    pub(crate) pattern: Pattern,
    /// The homes that have been asked.
    pub(crate) homes: PlaceSet,
    /// Those that have told all.
    pub(crate) complete: PlaceSet,
}

impl Told {
    pub(crate) fn new(
        epoch: u32,
        patterns: Vec<Pattern>,
        left: usize,
        subscribe: Subscribe,
    ) -> Told {
        let target =
            |pattern| ToldTarget { pattern, homes: PlaceSet::EMPTY, complete: PlaceSet::EMPTY };
        let targets = patterns.into_iter().map(target).collect();
        Told { epoch, targets, partly: None, left, subscribe: Some(Box::new(subscribe)) }
    }

    /// Whether a home has told up to a path.
    pub(crate) fn is_told(&self, target: u16, home: Place, path: &Path) -> bool {
        let complete =
            self.targets.get(usize::from(target)).map_or(PlaceSet::EMPTY, |it| it.complete);
        let partly =
            |(at, of, upto): &(u16, Place, Path)| (*at, *of) == (target, home) && path <= upto;
        complete.contains(home) || self.partly.as_ref().is_some_and(partly)
    }
}

/// What a session has yet to be told.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) waiting: VecDeque<TopicsAsk>,
    /// Whether a page is under way, or a place in the backlog asks for it.
    pub(crate) is_asking: bool,
    /// The page that is under way.
    pub(crate) asked: Option<TopicsAsk>,
    /// Bytes that it has been told of since it last had taken what waited for it.
    pub(crate) told_bytes: usize,
    /// The last topic of these.
    pub(crate) last: Option<Path>,
}

#[derive(Debug)]
pub(crate) struct TopicsAsk {
    pub(crate) request: SubscribeRequestId,
    pub(crate) home: Place,
    pub(crate) after: Option<Path>,
}

/// A search for topics that no subscription names any more.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The last that was looked at.
    pub(crate) after: Option<Path>,
    /// Another subscription has ended since it began.
    pub(crate) again: bool,
}

/// One target of a subscription that wants notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Noticer {
    pub(crate) session: Key,
    pub(crate) key: SubscriptionKey,
    pub(crate) target: u16,
}

impl Notices {
    pub(crate) fn is_told(&self, noticer: &Noticer, home: Place, path: &Path) -> bool {
        let told = self.told.get(&(noticer.session, noticer.key));
        told.is_some_and(|told| told.is_told(noticer.target, home, path))
    }

    /// The targets here that name the topic and have been told up to there.
    pub(crate) fn concerned(&self, path: &Path, home: Place) -> Vec<Noticer> {
        let mut found = Vec::new();
        self.here.matches(path, &mut |noticer| {
            if self.is_told(noticer, home, path) {
                found.push(*noticer);
            }
        });
        found
    }

    /// Whether there are any such, and how many name the topic.
    pub(crate) fn concerns(&self, path: &Path, home: Place) -> (bool, usize) {
        let (mut any, mut count) = (false, 0);
        self.here.matches(path, &mut |noticer| {
            count += 1;
            any = any || self.is_told(noticer, home, path);
        });
        (any, count)
    }

    /// The topics here that a pattern names.
    pub(crate) fn named<'a>(
        &'a self,
        pattern: &'a Pattern,
    ) -> impl Iterator<Item = (&'a Path, &'a Arc<TopicSpec>)> {
        let below = pattern.literal_prefix();
        let start = Path::parse(&below).map_or(Bound::Unbounded, Bound::Included);
        self.topics
            .range((start, Bound::Unbounded))
            .take_while(move |(path, _)| is_at_or_below(path.as_str(), &below))
            .filter(|(path, _)| reaches(pattern, path))
    }
}
