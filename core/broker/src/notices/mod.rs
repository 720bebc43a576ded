//! What subscriptions of one shard that want notices have been told.
//!
//! Bookkeeping only; see `telling.rs` for who tells it, and when, and `pages.rs` for how much at a time. What is
//! told of topics that are missing stands in `missing.rs`. Invariant: no file outside this folder sees what is known
//! here.

mod messages;
mod missing;
mod pages;
mod peer_lost;
mod reviewing;
mod rights;
mod telling;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tiderace_base::Key;
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex, is_at_or_below};
use tiderace_wire::{Subscribe, SubscriptionKey, TopicSpec};

use crate::collections::Map;
use crate::messages::SubscribeRequestId;
use crate::missing_patterns::MissingPatterns;
use crate::places::{Place, PlaceSet};

/// Topics of a home, for a subscription: what each is, and whether it holds no value.
pub(crate) type Topics = Vec<(Path, Arc<TopicSpec>, bool)>;

/// What one shard knows of notices.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Targets of subscriptions here that want them.
    here: PatternIndex<Noticer>,
    told: Map<(Key, SubscriptionKey), Told>,
    /// What sessions have yet to ask homes for.
    listings: Map<Key, Listing>,
    /// Topics that are there.
    topics: BTreeMap<Path, Arc<TopicSpec>>,
    /// Topics that no subscription names any more are being forgotten.
    sweep: Option<Sweep>,
    /// Patterns that name no topic.
    missing: MissingPatterns,
}

/// A subscription that wants notices: what it has been told.
#[derive(Debug)]
pub(crate) struct Told {
    epoch: u32,
    targets: Vec<ToldTarget>,
    /// Up to which path a home has told of a target: the one that is being asked.
    partly: Option<(u16, Place, Path)>,
    /// How many homes have yet to tell all of some target.
    left: usize,
    /// What begins when all have.
    subscribe: Option<Box<Subscribe>>,
    /// Whether values come first.
    wants_values: bool,
    /// The version of the rules when it began.
    rules: u32,
}

#[derive(Debug)]
pub(crate) struct ToldTarget {
    pattern: Pattern,
    /// The homes that have been asked.
    homes: PlaceSet,
    /// Those that have told all.
    complete: PlaceSet,
}

impl Told {
    pub(crate) fn new(
        epoch: u32,
        patterns: Vec<Pattern>,
        left: usize,
        (subscribe, rules): (Subscribe, u32),
    ) -> Told {
        let target =
            |pattern| ToldTarget { pattern, homes: PlaceSet::EMPTY, complete: PlaceSet::EMPTY };
        let targets = patterns.into_iter().map(target).collect();
        let wants_values = subscribe.retained || subscribe.replay.is_some();
        let subscribe = Some(Box::new(subscribe));
        Told { epoch, targets, partly: None, left, subscribe, wants_values, rules }
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
    waiting: VecDeque<TopicsAsk>,
    /// Whether a page is under way, or a place in the backlog asks for it.
    is_asking: bool,
    /// The page that is under way.
    asked: Option<TopicsAsk>,
    /// Bytes that it has been told of since it last had taken what waited for it.
    told_bytes: usize,
    /// The last topic of these.
    last: Option<Path>,
}

#[derive(Debug)]
pub(crate) struct TopicsAsk {
    request: SubscribeRequestId,
    home: Place,
    after: Option<Path>,
}

/// A search for topics that no subscription names any more.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The last that was looked at.
    after: Option<Path>,
    /// Another subscription has ended since it began.
    again: bool,
}

/// One target of a subscription that wants notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Noticer {
    session: Key,
    key: SubscriptionKey,
    target: u16,
}

impl Notices {
    /// Whether there is something to do between turns.
    pub(crate) fn has_work(&self) -> bool {
        self.sweep.is_some()
    }

    fn missing_mut(&mut self) -> &mut MissingPatterns {
        &mut self.missing
    }

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
