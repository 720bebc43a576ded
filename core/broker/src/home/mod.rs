//! The room of a shard as the home of destinations: what it numbers, keeps and knows of them.
//!
//! What is kept of each topic stands in a table that this room alone has (`home/home_topics.rs`); what is kept of
//! all together is here. The state of each part is private to its file, and the parts are private to the room: the
//! rest of the broker asks by the methods of [`Home`], and is told what came of it. What the room needs of others
//! (topics, options, memory) is passed by reference. Relies on nothing that sends. Invariants: see the parts.

mod adopted;
pub(crate) mod dead_letters;
pub(crate) mod displaced;
pub(crate) mod feed_backlog;
mod feeding;
pub(crate) mod feeds;
pub(crate) mod graces;
pub(crate) mod guard;
pub(crate) mod history;
pub(crate) mod home_topics;
pub(crate) mod locks;
pub(crate) mod long_jobs;
mod missed;
pub(crate) mod missing;
pub(crate) mod notice_interest;
pub(crate) mod numbers;
pub(crate) mod owners;
pub(crate) mod pattern_interest;
pub(crate) mod queue_jobs;
pub(crate) mod queue_loads;
pub(crate) mod queue_pages;
pub(crate) mod queues;
pub(crate) mod quotas;
pub(crate) mod removals;
pub(crate) mod retirement;
mod rule_changes;
pub(crate) mod series;
pub(crate) mod services;
mod snapshot_pages;
pub(crate) mod snapshots;
pub(crate) mod sweep;
pub(crate) mod temporary;
pub(crate) mod topic;
pub(crate) mod topic_history;
mod values;

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Close, Key, Memory, Now, SessionId, ShardId, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::Run;

use crate::BrokerOptions;
use crate::directory::Directory;
use crate::messages::SubscribeRequestId;
use crate::places::Place;
use crate::requester::Requester;
use crate::topic::Topic;

use displaced::Displaced;
use feeds::Feeds;
use graces::Graces;
use history::History;
use home_topics::{HomeTopics, TopicAtHome};
use locks::{LockAnswer, Locks};
use long_jobs::LongJobs;
use missing::MissingTopics;
use notice_interest::NoticeInterest;
use numbers::Numbers;
use owners::ExpectedOwners;
use pattern_interest::PatternInterest;
use queue_jobs::QueueJobs;
use queue_loads::QueueLoads;
use queues::QueueHome;
use removals::Removal;
use rule_changes::RuleChanges;
use services::Services;
use snapshots::Snapshots;
use sweep::Sweep;
use temporary::TemporaryQueues;
pub(crate) use topic::HomeTopic;

/// A shard as a home.
#[derive(Debug)]
pub(crate) struct Home {
    topics: HomeTopics,
    numbers: Numbers,
    rule_changes: RuleChanges,
    patterns: PatternInterest,
    /// What new subscriptions have yet to get.
    snapshots: Snapshots,
    /// Pages that are to be given, a few each turn, each with the bytes there is room for.
    requested_pages: VecDeque<(SubscribeRequestId, u32)>,
    /// Recent messages.
    history: History,
    /// Large values that were replaced while somebody still had them.
    displaced: Displaced,
    /// How many purges, moves and removals are under way.
    long_jobs: LongJobs,
    removals: VecDeque<Removal>,
    locks: Locks,
    graces: Graces,
    queues: QueueHome,
    /// Durable subscriptions, and whom topics feed.
    feeds: Box<Feeds>,
    queue_jobs: QueueJobs,
    /// Asked of the store.
    queue_loads: QueueLoads,
    services: Services,
    sweep: Sweep,
    notice_interest: NoticeInterest,
    owners: ExpectedOwners,
    missing: Box<MissingTopics>,
    temporary: TemporaryQueues,
    /// Places that are lost, each with the slot of the topic that is looked at next for it.
    lost: VecDeque<(Place, u32)>,
}

/// Topics that are looked at in one turn for a place that is lost.
const LOST_SLICE: u32 = 1024;

impl Home {
    pub(crate) fn new(shard: ShardId, memory: &Rc<Memory>) -> Home {
        Home {
            topics: HomeTopics::default(),
            numbers: Numbers::new(shard),
            rule_changes: RuleChanges::default(),
            patterns: PatternInterest::new(memory.clone()),
            snapshots: Snapshots::default(),
            requested_pages: VecDeque::new(),
            history: History::new(memory.clone()),
            displaced: Displaced::default(),
            long_jobs: LongJobs::default(),
            removals: VecDeque::new(),
            locks: Locks::default(),
            graces: Graces::default(),
            feeds: Box::default(),
            queues: QueueHome::new(memory.clone()),
            queue_jobs: QueueJobs::default(),
            queue_loads: QueueLoads::default(),
            services: Services::default(),
            sweep: Sweep::default(),
            notice_interest: NoticeInterest::default(),
            owners: ExpectedOwners::default(),
            missing: Box::default(),
            temporary: TemporaryQueues::default(),
            lost: VecDeque::new(),
        }
    }

    /// Earlier lives of the server may have given numbers and fences up to these. What else there was is not
    /// known any more.
    pub(crate) fn begin_above(&mut self, numbers: u64, fences: u64) {
        self.numbers.begin_above(numbers);
        self.locks.begin_above(fences);
        self.history.forget_up_to(numbers);
    }

    /// A topic with what is kept of it.
    #[inline]
    pub(crate) fn at<'a>(&'a self, topic: &'a Topic) -> TopicAtHome<'a> {
        self.topics.at(topic)
    }

    /// What is kept of a topic, or from now on; nothing is known of its messages up to now.
    pub(crate) fn topic_or_new(&mut self, topic: &Topic) -> &mut HomeTopic {
        let history = &self.history;
        let new = || HomeTopic::starting(history.floor_of(&topic.path));
        self.topics.get_or_insert_with(topic, new)
    }

    /// What is kept of a topic is this, from the store.
    pub(crate) fn restore_topic(&mut self, topic: &Topic, home: Box<HomeTopic>) {
        self.topics.set(topic, home);
    }

    /// What is kept of the topic in this slot is wanted soon.
    pub(crate) fn prefetch(&self, slot: u32) {
        self.topics.prefetch(slot);
    }

    /// A run of a topic comes, and gets its numbers and versions: whether the topic is there from now on.
    #[inline]
    pub(crate) fn begin_run(
        &mut self,
        now: Time,
        topic: &Topic,
        run: &mut Run,
        options: &BrokerOptions,
    ) -> bool {
        self.begin_message(now, topic, options, |home, numbers| {
            numbers.assign(run);
            home.assign_versions(run, numbers.earlier());
        })
    }

    /// A message of a topic comes, and is numbered: whether the topic is there from now on.
    #[inline]
    fn begin_message(
        &mut self,
        now: Time,
        topic: &Topic,
        options: &BrokerOptions,
        number: impl FnOnce(&mut HomeTopic, &mut Numbers),
    ) -> bool {
        let (history, patterns) = (&self.history, &self.patterns);
        let new = || HomeTopic::starting(history.floor_of(&topic.path));
        let home = self.topics.get_or_insert_with(topic, new);
        let generation = patterns.generation();
        if !home.is_found_at(generation) {
            let places = patterns.places_of(&topic.path);
            let fed = !self.feeds.places_of(&topic.path).is_empty()
                || self.feeds.has_mirrors() && options.mirrors(&topic.path);
            home.set_patterns(generation, places, (history.names(&topic.path), fed));
        }
        let is_new = home.begin_message(now, topic.spec.removal.is_some());
        number(home, &mut self.numbers);
        is_new
    }

    /// The durable subscriptions here, and whom topics feed.
    pub(crate) fn feeds(&self) -> &Feeds {
        &self.feeds
    }

    pub(crate) fn feeds_mut(&mut self) -> &mut Feeds {
        &mut self.feeds
    }

    /// Gives the messages of a run their numbers.
    #[inline]
    pub(crate) fn number(&mut self, run: &mut Run) {
        self.numbers.assign(run);
    }

    /// The same of a run that has been restored.
    pub(crate) fn number_restored(&mut self, run: &mut Run) {
        self.numbers.assign_restored(run);
    }

    /// The number of the next message.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.next()
    }

    /// The number of the last message.
    pub(crate) fn last_number(&self) -> u64 {
        self.numbers.last()
    }

    /// Up to where earlier lives of the server may have given numbers and versions.
    pub(crate) fn earlier_numbers(&self) -> u64 {
        self.numbers.earlier()
    }

    /// Whether a pattern of any shard names a topic.
    pub(crate) fn is_named(&self, path: &Path) -> bool {
        self.patterns.has(path)
    }

    /// A subscription of a shard to a pattern begins or ends.
    pub(crate) fn count_pattern(&mut self, from: Place, pattern: &Pattern, on: bool) {
        if let Some(more) = self.patterns.count(from, pattern, on) {
            self.missing.count(pattern, more);
        }
    }

    /// The same of a recoverable one, whose topics are recorded.
    pub(crate) fn count_recorded(&mut self, from: Place, pattern: &Pattern, on: bool, now: Time) {
        self.patterns.count_recorded(from, pattern, on);
        if self.history.count(pattern, on, self.numbers.last(), now) {
            self.patterns.renew();
        }
    }

    /// Keeps a numbered run for those who come back; `before` is the number of the topic's message before it.
    pub(crate) fn append_history(
        &mut self,
        now: Now,
        (key, run, before): (Key, &Arc<Run>, u64),
        directory: &Directory,
        options: &BrokerOptions,
    ) {
        let topics = (&mut self.topics, directory);
        self.history.record(now, key, run, before, topics, (options, &mut self.displaced));
    }

    /// The runs of a pattern's topics with messages above a number; see [`History::recent`].
    pub(crate) fn recent(
        &self,
        pattern: &Pattern,
        after: u64,
        bytes_max: usize,
        directory: &Directory,
    ) -> Option<Vec<Arc<Run>>> {
        self.history.recent(pattern, after, bytes_max, (&self.topics, directory))
    }

    /// The number up to which nothing is known of topics of a pattern that are not there now.
    pub(crate) fn floor_for(&self, pattern: &Pattern, after: u64) -> u64 {
        self.history.floor_for(pattern, after)
    }

    /// Recent messages, and their bytes.
    pub(crate) fn history_depth(&self) -> (usize, usize) {
        (self.history.messages(), self.history.bytes())
    }

    /// Gives up recent messages that are too old, and patterns for which nothing is recorded any more.
    pub(crate) fn sweep_history(&mut self, now: Time, age: Span, directory: &Directory) {
        if self.history.sweep(now, age, (&mut self.topics, directory), &mut self.displaced) {
            self.patterns.renew();
        }
    }

    /// Gives up a topic's history if nobody may come back to it.
    pub(crate) fn sweep_recording(&mut self, now: Time, age: Span, topic: &Topic) {
        let path = &topic.path;
        let home = self.topics.get_mut(topic).filter(|home| home.history().is_some());
        let Some(home) = home else { return };
        let named = match home.is_found_at(self.patterns.generation()) {
            true => home.is_recorded_by_pattern(),
            false => self.history.names(path),
        };
        self.history.sweep_topic(now, age, (home, named), &mut self.displaced);
    }

    /// A topic gets an owner, who is not to be shown what was published under its name before.
    pub(crate) fn empty_history(&mut self, topic: &Topic) {
        if let Some(home) = self.topics.get_mut(topic) {
            self.history.empty(home, &mut self.displaced);
        }
    }

    /// A topic is forgotten.
    pub(crate) fn forget_topic(&mut self, topic: &Topic) {
        if let Some(home) = self.topics.take(topic) {
            self.history.forget(&topic.path, &home);
        }
    }

    pub(crate) fn long_jobs_mut(&mut self) -> &mut LongJobs {
        &mut self.long_jobs
    }

    /// Sessions have ended: their purges, moves and removals end with what is done of them.
    pub(crate) fn end_jobs(
        &mut self,
        is_meant: impl Fn(SessionId) -> bool,
    ) -> Vec<tiderace_queues::Effect> {
        let (mut ended, looked) = self.queue_jobs.cancel(&is_meant);
        let effects = looked.into_iter().flat_map(|queue| self.queues.end_look(queue)).collect();
        self.removals.retain(|removal| {
            let session = removal.requester().session;
            let ends = is_meant(session);
            ended.extend(ends.then_some(session));
            !ends
        });
        ended.into_iter().for_each(|session| self.long_jobs.end(session));
        effects
    }

    /// A removal goes on in another turn.
    pub(crate) fn defer_removal(&mut self, removal: Removal) {
        self.removals.push_back(removal);
    }

    pub(crate) fn next_removal(&mut self) -> Option<Removal> {
        self.removals.pop_front()
    }

    pub(crate) fn has_removals(&self) -> bool {
        !self.removals.is_empty()
    }

    /// Somebody asks for a lock. Without an answer it waits.
    pub(crate) fn lock(
        &mut self,
        now: Now,
        requester: Requester,
        (name, timeout): (Path, Span),
        memory: &Memory,
    ) -> Vec<LockAnswer> {
        self.locks.request(now, requester, name, timeout, memory)
    }

    /// Somebody gives a lock back: what others are told, and whether it had the lock.
    pub(crate) fn unlock(
        &mut self,
        now: Now,
        session: SessionId,
        name: &Path,
        memory: &Memory,
    ) -> (Vec<LockAnswer>, Result<(), Close>) {
        self.locks.release(now, session, name, memory)
    }

    /// The next one of those who have waited long enough for a lock.
    pub(crate) fn expire_lock(&mut self, now: Time) -> Option<LockAnswer> {
        self.locks.expire(now)
    }

    /// The fence that was given last.
    pub(crate) fn last_fence(&self) -> u64 {
        self.locks.last_fence()
    }

    /// Publishers of a topic are to wait for slow subscribers: whether something of its grace is left.
    pub(crate) fn begin_grace(&mut self, now: Time, topic: Key, grace: Span) -> bool {
        self.graces.begin(now, topic, grace)
    }

    /// Publishers of a topic go on.
    pub(crate) fn end_grace(&mut self, now: Time, topic: Key) {
        self.graces.end(now, topic);
    }

    /// Forgets graces that are as good as new.
    pub(crate) fn sweep_graces(&mut self, now: Time) {
        self.graces.sweep(now);
    }

    /// The next of the topics whose grace is used up.
    pub(crate) fn next_grace_over(&mut self, now: Time) -> Option<Key> {
        self.graces.next_over(now)
    }

    pub(crate) fn queues(&self) -> &QueueHome {
        &self.queues
    }

    pub(crate) fn queues_mut(&mut self) -> &mut QueueHome {
        &mut self.queues
    }

    pub(crate) fn queue_jobs(&self) -> &QueueJobs {
        &self.queue_jobs
    }

    pub(crate) fn queue_jobs_mut(&mut self) -> &mut QueueJobs {
        &mut self.queue_jobs
    }

    pub(crate) fn queue_loads(&self) -> &QueueLoads {
        &self.queue_loads
    }

    pub(crate) fn queue_loads_mut(&mut self) -> &mut QueueLoads {
        &mut self.queue_loads
    }

    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    pub(crate) fn services_mut(&mut self) -> &mut Services {
        &mut self.services
    }

    pub(crate) fn owners_mut(&mut self) -> &mut ExpectedOwners {
        &mut self.owners
    }

    pub(crate) fn missing(&self) -> &MissingTopics {
        &self.missing
    }

    pub(crate) fn missing_mut(&mut self) -> &mut MissingTopics {
        &mut self.missing
    }

    /// Counts a temporary queue of a session; false if it has as many as it may have.
    pub(crate) fn count_temporary(&mut self, session: SessionId, path: &Path, most: usize) -> bool {
        let queues = &self.queues;
        self.temporary.count(session, path, most, |known| queues.bytes_of(known).is_some())
    }

    /// Counts bytes for a session's temporary queues, if there is room for them among so many.
    pub(crate) fn take_temporary(&mut self, session: SessionId, bytes: usize, most: usize) -> bool {
        let queues = &self.queues;
        self.temporary.take(session, bytes, most, |path| queues.bytes_of(path))
    }

    /// A session has ended: its temporary queues, and perhaps some that are gone.
    pub(crate) fn end_temporary(
        &mut self,
        session: SessionId,
    ) -> impl Iterator<Item = Path> + use<> {
        self.temporary.end(session)
    }

    pub(crate) fn notice_interest(&self) -> &NoticeInterest {
        &self.notice_interest
    }

    pub(crate) fn notice_interest_mut(&mut self) -> &mut NoticeInterest {
        &mut self.notice_interest
    }

    /// A place is lost: forgets what its subscriptions have asked for, and has its topics looked at. The patterns of
    /// its subscriptions, with how many it had and how many of these were recoverable.
    pub(crate) fn lose(&mut self, place: Place) -> Vec<(Pattern, u32, u32)> {
        self.snapshots.lose(place);
        self.requested_pages.retain(|(request, _)| Place::of(request.session) != place);
        self.notice_interest.lose(place);
        self.owners.lose(place);
        self.queues.lose(place);
        self.lost.push_back((place, 0));
        self.patterns.of(place)
    }

    /// The locks that sessions of a place hold or wait for.
    pub(crate) fn locks_of(&self, place: Place) -> Vec<(Path, SessionId)> {
        self.locks.of(place)
    }

    /// Whether topics are to be looked at for a place that is lost.
    pub(crate) fn has_lost(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The topics, of so many slots, that are to be looked at next for a place that is lost.
    pub(crate) fn next_of_lost(&mut self, slots: u32) -> Option<(Place, Range<u32>)> {
        let (place, from) = self.lost.pop_front()?;
        let to = slots.min(from.saturating_add(LOST_SLICE));
        if to < slots {
            self.lost.push_front((place, to));
        }
        Some((place, from..to))
    }

    /// Whether queues are to be looked at now.
    pub(crate) fn begin_queue_tick(&mut self, now: Time) -> bool {
        self.sweep.begin_queues(now)
    }

    /// The slots of topics, of so many, that are to be looked at now.
    pub(crate) fn next_swept(&mut self, now: Time, slots: u32) -> Option<Range<u32>> {
        self.sweep.next_topics(now, slots)
    }
}
