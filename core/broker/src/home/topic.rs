//! What the home of a topic keeps of it, beside the record that every shard has.
//!
//! Bookkeeping only. Invariant: what few topics need costs the others one word.

use std::sync::Arc;

use tiderace_base::Time;
use tiderace_wire::Run;

use crate::home::guard::Guard;
use crate::home::retirement::Retirement;
use crate::home::series::Series;
use crate::home::topic_history::TopicHistory;
use crate::places::{Place, PlaceSet};
use crate::runs::last_of;

const _: () = assert!(size_of::<HomeTopic>() <= 64, "there may be millions of them");

/// What a topic's home keeps.
#[derive(Debug, Default)]
pub(crate) struct HomeTopic {
    /// Shards with subscribers of exactly this topic.
    interested: PlaceSet,
    /// Shards with matching patterns, found at generation `patterns_at` of the home's patterns.
    by_pattern: PlaceSet,
    patterns_at: u64,
    /// Whether it feeds durable subscriptions, as found with the patterns.
    is_fed: bool,
    /// The retained value: a run of one message.
    value: Option<Arc<Run>>,
    /// The version of the next message; zero as long as there was none.
    next_version: u64,
    /// The number of the last message, or the last that an earlier topic of this name may have had.
    last: u64,
    /// Whether some recoverable pattern matches.
    recorded_by_pattern: bool,
    /// It was created, and stays until it is removed.
    created: bool,
    /// It was removed, and has not been published to since.
    removed: bool,
    /// The generation of the views at which those that follow it were found.
    viewed_at: u32,
    /// Absent while it would say nothing.
    rare: Option<Box<RareHomeTopic>>,
}

/// What the homes of few topics keep.
#[derive(Debug, Default)]
struct RareHomeTopic {
    /// Shards with a subscriber that cannot keep up; while there is one, all hold publishers back.
    pressed: PlaceSet,
    /// Shards with recoverable subscribers of exactly this topic.
    recorders: PlaceSet,
    /// Shards with views that insert its value elsewhere.
    watchers: PlaceSet,
    /// The views that follow it, by rank.
    viewed: Box<[u32]>,
    /// What publishers are held to.
    guard: Option<Box<Guard>>,
    /// Recent messages; present while or shortly after somebody may come back to them.
    history: Option<TopicHistory>,
    /// What its removal policy looks at.
    retirement: Option<Box<Retirement>>,
    /// What its specification says that it keeps.
    series: Option<Series>,
    /// Its stream in the store.
    stream: Option<u64>,
    /// What took its value away; absent if it has one, or has had none.
    value_end: Option<Arc<Run>>,
}

impl RareHomeTopic {
    /// Whether forgetting it would change nothing.
    fn is_empty(&self) -> bool {
        self.pressed.is_empty()
            && self.recorders.is_empty()
            && self.guard.is_none()
            && self.history.is_none()
            && self.series.is_none()
            && self.retirement.is_none()
            && self.stream.is_none()
            && self.value_end.is_none()
            && self.watchers.is_empty()
            && self.viewed.is_empty()
    }
}

impl HomeTopic {
    /// What its value costs in memory.
    pub(crate) fn retained_bytes(&self) -> usize {
        self.value.as_ref().map_or(0, |value| HomeTopic::bytes_with(value))
    }

    /// The same for a value that is to be kept.
    pub(crate) fn bytes_with(value: &Run) -> usize {
        value.bytes()
    }

    /// The version of the first message that it needs.
    pub(crate) fn first_kept(&self) -> Option<u64> {
        let value = self.value.as_ref().map(|value| value.version());
        let kept = self.series().and_then(|series| series.first());
        value.into_iter().chain(kept).min()
    }

    /// A shard has recoverable subscribers of exactly this topic, or has none any more.
    pub(crate) fn note_recorder(&mut self, now: Time, from: Place, on: bool) {
        let before = self.recorders();
        if !on && !before.contains(from) {
            return;
        }
        let last = self.last;
        let rare = self.rare_mut();
        rare.recorders.set(from, on);
        rare.history.get_or_insert_with(|| TopicHistory::new(last, now)).want(now);
    }

    /// A message comes: whether the topic is there from now on; `retires` says whether it has a policy by
    /// which it is removed.
    #[inline]
    pub(crate) fn begin_message(&mut self, now: Time, retires: bool) -> bool {
        let is_new = self.removed || self.next_version == 0 && !self.created;
        self.removed = false;
        if retires {
            let made = || Box::new(Retirement::new(now));
            self.rare_mut().retirement.get_or_insert_with(made).update(now);
        }
        is_new
    }

    /// Gives a numbered run its versions. `earlier`: up to where earlier lives of the server may have given
    /// versions.
    #[inline]
    pub(crate) fn assign_versions(&mut self, run: &mut Run, earlier: u64) {
        if self.next_version <= earlier {
            // Above all versions of an earlier topic of this name, or of this one in another life of
            // the server: there were never more of them than numbers.
            let before = self.next_version.saturating_sub(1);
            self.next_version = run.first();
            run.set_version(self.next_version);
            run.set_follows(before);
        } else {
            run.set_version(self.next_version);
        }
    }

    /// A run with versions is the topic's last: the version of its last message, and the number of the message
    /// before it.
    #[inline]
    pub(crate) fn note_run(&mut self, run: &Run) -> (u64, u64) {
        self.next_version += run.len() as u64;
        (self.next_version - 1, std::mem::replace(&mut self.last, last_of(run)))
    }

    /// The next message has a version that was given elsewhere; zero: whatever it has.
    pub(crate) fn begin_at_version(&mut self, version: u64) {
        self.next_version = version;
    }

    /// A home that knows nothing of messages up to a number.
    pub(crate) fn starting(last: u64) -> Box<HomeTopic> {
        Box::new(HomeTopic { last, ..HomeTopic::default() })
    }

    /// Whether some recoverable subscription listens.
    pub(crate) fn is_recorded(&self) -> bool {
        !self.recorders().is_empty() || self.recorded_by_pattern
    }

    /// Shards with a subscriber that cannot keep up.
    pub(crate) fn pressed(&self) -> PlaceSet {
        self.rare.as_ref().map_or(PlaceSet::EMPTY, |rare| rare.pressed)
    }

    /// Shards with views that insert its value elsewhere.
    pub(crate) fn watchers(&self) -> PlaceSet {
        self.rare.as_ref().map_or(PlaceSet::EMPTY, |rare| rare.watchers)
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
    pub(crate) fn recorders(&self) -> PlaceSet {
        self.rare.as_ref().map_or(PlaceSet::EMPTY, |rare| rare.recorders)
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

    /// What few topics need; to be followed by [`HomeTopic::tidy`] when something of it has ended.
    fn rare_mut(&mut self) -> &mut RareHomeTopic {
        self.rare.get_or_insert_default()
    }

    /// Its value, whether its time is over or not.
    #[inline]
    pub(crate) fn value(&self) -> Option<&Arc<Run>> {
        self.value.as_ref()
    }

    /// Whether that run is its value, or one of those that it keeps besides.
    pub(crate) fn has_run(&self, run: &Arc<Run>) -> bool {
        self.value.as_ref().is_some_and(|value| Arc::ptr_eq(value, run))
            || self.series().is_some_and(|series| series.has_run(run))
            || self.history().is_some_and(|history| history.has_run(run))
    }

    /// What took its value away behind a number, which somebody may not have heard who comes back with that position. What is
    /// said of a topic that was hidden takes no version, so it is not given behind LEFT.
    pub(crate) fn end_since(&self, after: u64) -> Option<&Arc<Run>> {
        self.value_end().filter(|end| !self.removed && end.first() > after)
    }

    /// What took its value away.
    pub(crate) fn value_end(&self) -> Option<&Arc<Run>> {
        self.rare.as_ref()?.value_end.as_ref()
    }

    /// Gives it another value, or none; returns the one before.
    #[inline]
    pub(crate) fn replace_value(&mut self, value: Option<Arc<Run>>) -> Option<Arc<Run>> {
        if self.value.is_none() && value.is_some() {
            self.set_value_end(None);
        }
        std::mem::replace(&mut self.value, value)
    }

    /// A message has taken its value away. That is small, as it has nothing but its numbers.
    pub(crate) fn set_value_end(&mut self, end: Option<Arc<Run>>) {
        if end.is_some() {
            self.rare_mut().value_end = end;
        } else if let Some(rare) = &mut self.rare {
            rare.value_end = None;
            self.tidy();
        }
    }

    /// The number of the last message, or the last that an earlier topic of this name may have had.
    #[inline]
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// The version of the last message; zero for none.
    pub(crate) fn last_version(&self) -> u64 {
        self.next_version.saturating_sub(1)
    }

    /// The version of the first message that it needs, or that it will have.
    pub(crate) fn keeps_from(&self) -> u64 {
        self.first_kept().unwrap_or(self.next_version)
    }

    /// A version of its own for something that is only told to the store.
    pub(crate) fn take_version(&mut self) -> u64 {
        self.next_version += 1;
        self.next_version - 1
    }

    /// Of a topic that was in the store: whether it was created, the version of its last message, and its
    /// stream.
    pub(crate) fn restored(created: bool, version: u64, stream: u64) -> Box<HomeTopic> {
        let mut home = HomeTopic::starting(0);
        home.created = created;
        home.next_version = if version > 0 { version + 1 } else { 0 };
        home.set_stream(stream);
        home
    }

    /// The number that its last message had in an earlier life of the server, as far as that is known.
    pub(crate) fn restore_last(&mut self, number: u64) {
        self.last = number;
    }

    /// Whether it was created, and stays until it is removed.
    pub(crate) fn is_created(&self) -> bool {
        self.created
    }

    /// Whether something is kept for it: it was created, or has a value.
    pub(crate) fn is_held(&self) -> bool {
        self.created || self.value().is_some()
    }

    /// It is created; whether it was not.
    pub(crate) fn create(&mut self) -> bool {
        !std::mem::replace(&mut self.created, true)
    }

    /// It is removed. The next topic of that name is not as old as this one, and others make it.
    pub(crate) fn remove(&mut self) {
        self.created = false;
        self.removed = true;
        if let Some(rare) = &mut self.rare {
            (rare.retirement, rare.value_end) = (None, None);
        }
        self.tidy();
    }

    /// Whether it is there for those who list topics: it was created or published to.
    pub(crate) fn is_known(&self) -> bool {
        self.created || self.next_version != 0 && !self.removed
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_idle(&self) -> bool {
        !self.created
            && !self.guard().is_some_and(Guard::holds_topic)
            && self.series().is_none_or(Series::is_empty)
            && self.interested.is_empty()
            && self.pressed().is_empty()
            && self.value.is_none()
            && self.recorders().is_empty()
            && self.watchers().is_empty()
            && self.history().is_none_or(|history| history.is_empty())
    }

    /// Shards with subscribers of exactly this topic.
    pub(crate) fn interested(&self) -> PlaceSet {
        self.interested
    }

    /// Shards that get its messages, as found last.
    #[inline]
    pub(crate) fn places(&self) -> PlaceSet {
        self.interested.union(self.by_pattern)
    }

    /// A shard has subscribers of exactly this topic, or has none any more: whether it has for the first time.
    pub(crate) fn set_interested(&mut self, from: Place, on: bool) -> bool {
        self.interested.set(from, on) && on
    }

    /// Whether its shards with patterns were found at a generation of the patterns.
    #[inline]
    pub(crate) fn is_found_at(&self, generation: u64) -> bool {
        self.patterns_at == generation
    }

    /// Whether it feeds durable subscriptions, as found last.
    #[inline]
    pub(crate) fn feeds(&self) -> bool {
        self.is_fed
    }

    /// The shards with patterns that name it, found at a generation, whether one of them wants it recorded, and whether it
    /// feeds durable subscriptions.
    pub(crate) fn set_patterns(
        &mut self,
        generation: u64,
        places: PlaceSet,
        (recorded, fed): (bool, bool),
    ) {
        self.is_fed = fed;
        self.patterns_at = generation;
        self.by_pattern = places;
        self.recorded_by_pattern = recorded;
    }

    /// Whether a pattern wants it recorded, as found last.
    pub(crate) fn is_recorded_by_pattern(&self) -> bool {
        self.recorded_by_pattern
    }

    /// Its recent messages, which begin after that number if there are none yet.
    pub(crate) fn begin_history(&mut self, before: u64, now: Time) -> &mut TopicHistory {
        self.rare_mut().history.get_or_insert_with(|| TopicHistory::new(before, now))
    }

    /// Recent messages are kept no longer.
    pub(crate) fn end_history(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.history = None;
        }
        self.tidy();
    }

    /// What it keeps besides its value, which begins after that number if there is nothing yet.
    pub(crate) fn begin_series(&mut self, before: u64) -> &mut Series {
        self.rare_mut().series.get_or_insert_with(|| Series::after(before))
    }

    /// It keeps nothing besides its value any more.
    pub(crate) fn end_series(&mut self) -> Option<Series> {
        let series = self.rare.as_mut()?.series.take();
        self.tidy();
        series
    }

    pub(crate) fn set_stream(&mut self, stream: u64) {
        self.rare_mut().stream = Some(stream);
    }

    /// It has no stream any more.
    pub(crate) fn end_stream(&mut self) -> Option<u64> {
        let stream = self.rare.as_mut()?.stream.take();
        self.tidy();
        stream
    }

    pub(crate) fn set_retirement(&mut self, retirement: Retirement) {
        self.rare_mut().retirement = Some(Box::new(retirement));
    }

    /// What publishers are held to, made if need be; to be followed by [`HomeTopic::tidy_guard`] when something
    /// of it has ended.
    pub(crate) fn guard_or_new(&mut self) -> &mut Guard {
        self.rare_mut().guard.get_or_insert_default()
    }

    /// Shards with a subscriber that cannot keep up.
    pub(crate) fn set_pressed(&mut self, places: PlaceSet) {
        if places != self.pressed() {
            self.rare_mut().pressed = places;
        }
        self.tidy();
    }

    /// A shard has views that insert its value elsewhere, or has none any more.
    pub(crate) fn set_watcher(&mut self, place: Place, on: bool) {
        if self.watchers().contains(place) != on {
            self.rare_mut().watchers.set(place, on);
        }
        self.tidy();
    }

    /// Whether the views that follow it were found at a generation of the views.
    pub(crate) fn is_viewed_at(&self, generation: u32) -> bool {
        self.viewed_at == generation
    }

    /// The views that follow it, by rank, found at a generation.
    pub(crate) fn set_viewed(&mut self, generation: u32, ranks: Vec<u32>) {
        self.viewed_at = generation;
        if !ranks.is_empty() || self.is_followed() {
            self.rare_mut().viewed = ranks.into();
            self.tidy();
        }
    }

    /// Gives up what publishers are held to if that is nothing any more.
    pub(crate) fn tidy_guard(&mut self) {
        if let Some(rare) = &mut self.rare {
            rare.guard.take_if(|guard| guard.is_empty());
        }
        self.tidy();
    }

    /// Gives up the room for what is not needed any more.
    fn tidy(&mut self) {
        self.rare.take_if(|rare| rare.is_empty());
    }
}
