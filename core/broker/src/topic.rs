//! A topic as one shard sees it: who listens here, and, at its home, what it remembers.

use std::sync::Arc;

use tiderace_base::{Now, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Run, TopicSpec};

use crate::history::TopicHistory;
use crate::lock::Guard;
use crate::retire::Retirement;
use crate::runs::fresh;
use crate::series::Series;
use crate::subscriber_list::Subscriber;
use crate::subscriber_list::SubscriberList;

/// One topic on one shard.
#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) path: Path,
    pub(crate) spec: Arc<TopicSpec>,
    pub(crate) subscribers: SubscriberList,
    /// Subscribers by pattern, found at generation `patterns_at` of the shard's patterns.
    pub(crate) by_pattern: SubscriberList,
    pub(crate) patterns_at: u64,
    /// How many of the subscribers are recoverable.
    pub(crate) recoverable: u32,
    /// How many of the subscribers want deltas.
    pub(crate) deltas: u32,
    /// The run that was fanned out last, or the value that a subscription began with, if somebody wants
    /// deltas; or its last message.
    pub(crate) previous: Option<Arc<Run>>,
    /// Sessions here for which its publishers are to wait.
    pub(crate) pressing: u32,
    /// When it was last used, in whole seconds since the node began.
    used_seconds: u32,
    /// Present at its home only.
    pub(crate) home: Option<Box<Home>>,
}

const _: () = assert!(size_of::<Topic>() <= 96, "there may be millions of them");
const _: () = assert!(size_of::<Home>() <= 64, "there may be millions of them");

/// What a topic costs besides its value and the text of its name: its records, and its places in the tables,
/// which are half empty after they have grown.
const TOPIC_BYTES: usize = size_of::<Topic>() + size_of::<Home>() + 128;

/// Bytes that a topic of that name takes on a shard, whatever is kept of it.
pub(crate) fn price_of_topic(path: &Path) -> usize {
    TOPIC_BYTES + path.as_str().len()
}

/// What a topic's home keeps.
#[derive(Debug, Default)]
pub(crate) struct Home {
    /// Shards with subscribers of exactly this topic.
    pub(crate) interested: u64,
    /// Shards with matching patterns, found at generation `patterns_at` of the home's patterns.
    pub(crate) by_pattern: u64,
    pub(crate) patterns_at: u64,
    /// The retained value: a run of one message.
    pub(crate) retained: Option<Arc<Run>>,
    /// The version of the next message; zero as long as there was none.
    pub(crate) next_version: u64,
    /// The number of the last message, or the last that an earlier topic of this name may have had.
    pub(crate) last: u64,
    /// Whether some recoverable pattern matches.
    pub(crate) recorded_by_pattern: bool,
    /// It was created, and stays until it is removed.
    pub(crate) created: bool,
    /// It was removed, and has not been published to since.
    pub(crate) removed: bool,
    /// The generation of the views at which those that follow it were found.
    pub(crate) viewed_at: u32,
    /// Absent while it would say nothing.
    rare: Option<Box<RareHome>>,
}

/// What the homes of few topics keep.
#[derive(Debug, Default)]
pub(crate) struct RareHome {
    /// Shards with a subscriber that cannot keep up; while there is one, all hold publishers back.
    pub(crate) pressed: u64,
    /// Shards with recoverable subscribers of exactly this topic.
    pub(crate) recorders: u64,
    /// Shards with views that insert its value elsewhere.
    pub(crate) watchers: u64,
    /// The views that follow it, by rank.
    pub(crate) viewed: Box<[u32]>,
    /// What publishers are held to.
    pub(crate) guard: Option<Box<Guard>>,
    /// Recent messages; present while or shortly after somebody may come back to them.
    pub(crate) history: Option<TopicHistory>,
    /// What its removal policy looks at.
    pub(crate) retirement: Option<Box<Retirement>>,
    /// What its specification says that it keeps.
    pub(crate) series: Option<Series>,
    /// Its stream in the store.
    pub(crate) stream: Option<u64>,
}

impl RareHome {
    /// Whether forgetting it would change nothing.
    fn is_empty(&self) -> bool {
        self.pressed == 0
            && self.recorders == 0
            && self.guard.is_none()
            && self.history.is_none()
            && self.series.is_none()
            && self.retirement.is_none()
            && self.stream.is_none()
            && self.watchers == 0
            && self.viewed.is_empty()
    }
}

impl Home {
    /// What its value costs in memory.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.retained.as_ref().map_or(0, |value| Home::bytes_with(value))
    }

    /// The same for a value that is to be kept.
    pub(crate) fn bytes_with(value: &Run) -> usize {
        value.bytes()
    }

    /// A home that knows nothing of messages up to a number.
    pub(crate) fn starting(last: u64) -> Box<Home> {
        Box::new(Home { last, ..Home::default() })
    }

    /// Whether some recoverable subscription listens.
    pub(crate) fn is_recorded(&self) -> bool {
        self.recorders() != 0 || self.recorded_by_pattern
    }

    /// Shards with a subscriber that cannot keep up.
    pub(crate) fn pressed(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.pressed)
    }

    /// Shards with views that insert its value elsewhere.
    pub(crate) fn watchers(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.watchers)
    }

    /// The views that follow it, as found last.
    pub(crate) fn viewed(&self) -> &[u32] {
        self.rare.as_ref().map_or(&[], |rare| &rare.viewed)
    }

    /// Whether views follow it, as found last.
    pub(crate) fn is_followed(&self) -> bool {
        !self.viewed().is_empty()
    }

    /// Shards with recoverable subscribers of exactly this topic.
    pub(crate) fn recorders(&self) -> u64 {
        self.rare.as_ref().map_or(0, |rare| rare.recorders)
    }

    /// Recent messages, if they are kept.
    pub(crate) fn history(&self) -> Option<&TopicHistory> {
        self.rare.as_ref()?.history.as_ref()
    }

    /// Recent messages, if they are kept.
    pub(crate) fn history_mut(&mut self) -> Option<&mut TopicHistory> {
        self.rare.as_mut()?.history.as_mut()
    }

    /// Its stream in the store, if it has one.
    pub(crate) fn stream(&self) -> Option<u64> {
        self.rare.as_ref()?.stream
    }

    /// What its removal policy looks at, if it has one.
    pub(crate) fn retirement(&self) -> Option<&Retirement> {
        self.rare.as_ref()?.retirement.as_deref()
    }

    /// What its removal policy looks at, if it has one.
    pub(crate) fn retirement_mut(&mut self) -> Option<&mut Retirement> {
        self.rare.as_mut()?.retirement.as_deref_mut()
    }

    /// What it keeps, if it keeps anything.
    pub(crate) fn series(&self) -> Option<&Series> {
        self.rare.as_ref()?.series.as_ref()
    }

    /// What it keeps, if it keeps anything.
    pub(crate) fn series_mut(&mut self) -> Option<&mut Series> {
        self.rare.as_mut()?.series.as_mut()
    }

    /// What publishers are held to, if it is anything.
    pub(crate) fn guard(&self) -> Option<&Guard> {
        self.rare.as_ref()?.guard.as_deref()
    }

    /// What publishers are held to, if it is anything.
    pub(crate) fn guard_mut(&mut self) -> Option<&mut Guard> {
        self.rare.as_mut()?.guard.as_deref_mut()
    }

    /// What few topics need; to be followed by [`Home::tidy`] when something of it has ended.
    pub(crate) fn rare_mut(&mut self) -> &mut RareHome {
        self.rare.get_or_insert_default()
    }

    /// Gives up the room for what is not needed any more.
    pub(crate) fn tidy(&mut self) {
        self.rare.take_if(|rare| rare.is_empty());
    }
}

impl Topic {
    /// How many subscriptions here get its messages, as far as is known.
    pub(crate) fn listeners(&self) -> usize {
        self.subscribers.len() + self.by_pattern.len()
    }

    pub(crate) fn new(path: Path, spec: Arc<TopicSpec>, now: Time) -> Topic {
        Topic {
            path,
            spec,
            subscribers: SubscriberList::None,
            by_pattern: SubscriberList::None,
            patterns_at: 0,
            recoverable: 0,
            deltas: 0,
            previous: None,
            pressing: 0,
            used_seconds: seconds(now),
            home: None,
        }
    }

    /// Its specification, and what it remembers as a home.
    pub(crate) fn with_home(&mut self) -> Option<(&Arc<TopicSpec>, &mut Home)> {
        Some((&self.spec, self.home.as_deref_mut()?))
    }

    /// It is used now.
    pub(crate) fn touch(&mut self, now: Time) {
        self.used_seconds = seconds(now);
    }

    /// How long it has not been used, to about a second.
    pub(crate) fn unused(&self, now: Time) -> Span {
        Span::from_secs(u64::from(seconds(now).saturating_sub(self.used_seconds)))
    }

    /// Whether a subscriber wants deltas.
    pub(crate) fn wants_deltas(&self) -> bool {
        self.spec.deltas
            && (self.deltas > 0
                || self.by_pattern.iter().any(|subscriber| subscriber.flags.deltas()))
    }

    /// Takes a subscriber in at the end of the list.
    pub(crate) fn list(&mut self, subscriber: Subscriber) {
        self.subscribers.push(subscriber);
        self.recoverable += u32::from(subscriber.flags.recoverable());
        self.deltas += u32::from(subscriber.flags.deltas());
    }

    /// The value that a subscriber begins with: for one that wants deltas the next run is a change of it.
    pub(crate) fn follow(&mut self, value: &Arc<Run>) {
        let end = |run: &Arc<Run>| run.version() + run.len() as u64;
        if self.deltas > 0 && self.previous.as_ref().is_none_or(|known| end(known) < end(value)) {
            self.previous = Some(value.clone());
        }
    }

    /// Takes the subscriber out of that place; the one that is there now has moved.
    pub(crate) fn unlist(&mut self, place: usize) -> Option<Subscriber> {
        if let Some(Subscriber { flags, .. }) = self.subscribers.swap_remove(place) {
            self.recoverable -= u32::from(flags.recoverable());
            self.deltas -= u32::from(flags.deltas());
        }
        self.subscribers.get(place).copied()
    }

    /// Whether it remembers a value whose time is over.
    pub(crate) fn retained_expired(&self, wall_ms: u64) -> bool {
        let retained = self.home.as_ref().and_then(|home| home.retained.as_ref());
        let message = retained.and_then(|run| run.message(0));
        message.is_some_and(|message| message.is_expired(wall_ms))
    }

    /// Whether it is there for those who list topics: it was created or published to.
    pub(crate) fn is_known(&self) -> bool {
        self.home
            .as_ref()
            .is_some_and(|home| home.created || home.next_version != 0 && !home.removed)
    }

    /// Whether it is there and some pattern names it.
    pub(crate) fn is_named(&self, selector: &[Pattern]) -> bool {
        self.is_known() && selector.iter().any(|pattern| pattern.matches(&self.path))
    }

    /// Its value, unless its time is over.
    pub(crate) fn value(&self, now: Now) -> Option<Arc<Run>> {
        fresh(self.home.as_ref()?.retained.as_ref(), now)
    }

    /// Whether the server alone publishes to it.
    pub(crate) fn is_read_only(&self) -> bool {
        let guard = self.home.as_ref().and_then(|home| home.guard());
        guard.is_some_and(|guard| guard.read_only)
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        self.subscribers.is_empty()
            && self.pressing == 0
            && self.home.as_ref().is_none_or(|home| {
                !home.created
                    && !home.guard().is_some_and(Guard::holds_topic)
                    && home.series().is_none_or(Series::is_empty)
                    && home.interested == 0
                    && home.pressed() == 0
                    && home.retained.is_none()
                    && home.recorders() == 0
                    && home.watchers() == 0
                    && home.history().is_none_or(|history| history.is_empty())
            })
    }

    /// Whether somebody may come back to it, even if there are no recent messages.
    pub(crate) fn is_recorded(&self) -> bool {
        self.home.as_ref().is_some_and(|home| home.history().is_some())
    }
}

fn seconds(time: Time) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000_000).unwrap_or(u32::MAX)
}
