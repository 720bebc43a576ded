//! As a home: the recent messages of topics to which clients may come back.
//!
//! Only topics with a recoverable subscriber are recorded, and for a while after they had one. What
//! is kept is bounded by age, by bytes of each topic, and by bytes of all together; the oldest go
//! first. Invariant: every message of a topic above its `boundary` is in its history, and the
//! floors are not below any number of a topic that was forgotten.

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Memory, MemoryUse, Now, Span, Time};
use tiderace_queues::reaches;
use tiderace_topics::{Path, Pattern, PatternIndex};
use tiderace_wire::Run;

use crate::BrokerOptions;
use crate::collections::Map;
use crate::directory::Directory;
use crate::home::displaced::Displaced;
use crate::home::home_topics::HomeTopics;
use crate::home::topic::HomeTopic;
use crate::home::topic_history::TopicHistory;

/// Patterns without subscribers that still make topics record; more are given up at once.
const LINGERING_MAX: usize = 10_000;
/// Runs that are looked at for somebody who comes back.
const RECENT_MAX: usize = 65_536;

/// What a shard remembers as a home.
#[derive(Debug)]
pub(crate) struct History {
    /// Counts the bytes of its runs.
    memory: Rc<Memory>,
    /// First numbers of recorded runs and their topics, rising. Those that a topic gave up for
    /// itself stay until they are met.
    order: VecDeque<(u64, Key)>,
    runs: usize,
    messages: usize,
    /// The highest number that was in a history which is empty now.
    emptied: u64,
    /// The highest number of a forgotten topic.
    forgotten: u64,
    /// The same of those that some pattern here named.
    forgotten_recorded: u64,
    patterns: Map<Pattern, RecordedPattern>,
    /// The same patterns, with the number up to which each knows nothing.
    index: PatternIndex<u64>,
    lingering: usize,
}

/// A pattern whose topics are recorded.
#[derive(Debug)]
struct RecordedPattern {
    subscriptions: u32,
    /// The last number before recording began.
    from: u64,
    /// When the last of its subscriptions ended.
    ended: Time,
}

impl History {
    pub(crate) fn new(memory: Rc<Memory>) -> History {
        History {
            memory,
            order: VecDeque::new(),
            runs: 0,
            messages: 0,
            emptied: 0,
            forgotten: 0,
            forgotten_recorded: 0,
            patterns: Map::default(),
            index: PatternIndex::default(),
            lingering: 0,
        }
    }

    /// Bytes of all its runs.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.used_for(MemoryUse::Histories)
    }

    /// The number up to which nothing is known of a topic that is new.
    pub(crate) fn floor_of(&self, path: &Path) -> u64 {
        let mut from = self.forgotten;
        self.index.matches(path, &mut |known| from = from.min(*known));
        from.max(self.forgotten_recorded)
    }

    /// The number up to which nothing is known of topics of a pattern that are not there now, for
    /// somebody who left off after a message.
    pub(crate) fn floor_for(&self, pattern: &Pattern, after: u64) -> u64 {
        match self.patterns.get(pattern) {
            Some(known) if known.from <= after => self.forgotten_recorded,
            _ => self.forgotten,
        }
    }

    /// Whether some pattern wants the topic recorded.
    pub(crate) fn names(&self, path: &Path) -> bool {
        if self.index.is_empty() {
            return false;
        }
        let mut named = false;
        self.index.matches(path, &mut |_| named = true);
        named
    }

    /// A recoverable subscription to a pattern begins or ends; whether topics are to be looked at
    /// anew. `at` is the last number given.
    pub(crate) fn count(&mut self, pattern: &Pattern, on: bool, at: u64, now: Time) -> bool {
        if on {
            if let Some(known) = self.patterns.get_mut(pattern) {
                self.lingering -= usize::from(known.subscriptions == 0);
                known.subscriptions += 1;
                return false;
            }
            let known = RecordedPattern { subscriptions: 1, from: at, ended: now };
            self.patterns.insert(pattern.clone(), known);
            self.index.insert(pattern, at);
            return true;
        }
        let Some(known) = self.patterns.get_mut(pattern) else {
            return false;
        };
        known.subscriptions = known.subscriptions.saturating_sub(1);
        known.ended = now;
        if known.subscriptions > 0 {
            return false;
        }
        self.lingering += 1;
        self.lingering > LINGERING_MAX && self.drop_pattern(&pattern.clone())
    }

    fn drop_pattern(&mut self, pattern: &Pattern) -> bool {
        let Some(known) = self.patterns.remove(pattern) else {
            return false;
        };
        self.index.remove(pattern, &known.from);
        self.lingering -= 1;
        true
    }

    /// Gives up patterns that have had no subscription for long; whether there were any.
    fn sweep_patterns(&mut self, now: Time, age: Span) -> bool {
        if self.lingering == 0 {
            return false;
        }
        let over =
            |known: &RecordedPattern| known.subscriptions == 0 && now.since(known.ended) >= age;
        let stale = self.patterns.iter().filter(|(_, known)| over(known));
        let stale: Vec<Pattern> = stale.map(|(pattern, _)| pattern.clone()).collect();
        for pattern in &stale {
            self.drop_pattern(pattern);
        }
        !stale.is_empty()
    }

    /// Nothing is known of messages up to a number but what topics themselves tell.
    pub(crate) fn forget_up_to(&mut self, number: u64) {
        self.forgotten = self.forgotten.max(number);
    }

    /// Messages of all topics.
    pub(crate) fn messages(&self) -> usize {
        self.messages
    }

    /// A topic is forgotten, with all that is known of its numbers.
    pub(crate) fn forget(&mut self, path: &Path, home: &HomeTopic) {
        self.forgotten = self.forgotten.max(home.last());
        if home.history().is_some() || self.names(path) {
            self.forgotten_recorded = self.forgotten_recorded.max(home.last());
        }
    }

    /// Takes the oldest run out of a topic's history.
    fn shorten(&mut self, topic: &mut TopicHistory, displaced: &mut Displaced) {
        let Some(run) = topic.pop() else { return };
        let is_full = self.memory.is_full();
        self.memory.refund(MemoryUse::Histories, run.bytes());
        self.messages -= run.len();
        self.runs -= 1;
        if topic.is_empty() {
            self.emptied = self.emptied.max(topic.boundary());
        }
        // What is given up for lack of memory has to be room at once, and most readers count it in their backlogs.
        if !is_full {
            displaced.note(run);
        }
    }

    /// Keeps a run that was just numbered; `before` is the number of the topic's message before it.
    pub(crate) fn record(
        &mut self,
        now: Now,
        key: Key,
        run: &Arc<Run>,
        before: u64,
        (topics, directory): (&mut HomeTopics, &Directory),
        (options, displaced): (&BrokerOptions, &mut Displaced),
    ) {
        let Some(home) = topics.find_mut(directory, key) else { return };
        let wanted = home.is_recorded();
        let topic = home.begin_history(before, now.time);
        if wanted {
            topic.want(now.time);
        }
        topic.push(now.time, run.clone());
        self.order.push_back((run.first(), key));
        self.memory.charge(MemoryUse::Histories, run.bytes());
        self.messages += run.len();
        self.runs += 1;
        // A file is not kept for who may come back: like any message that is larger than what is kept of a topic.
        let is_too_large = run.body_in_file().is_some();
        while topic.bytes() > options.history_bytes_per_topic
            || is_too_large && topic.oldest().is_some()
        {
            self.shorten(topic, displaced);
        }
        // Nobody is refused anything for lack of what is kept here, so it is given up first.
        while (self.bytes() > options.history_bytes_max || self.memory.is_full())
            && self.evict_oldest(topics, directory, displaced, |_| true)
        {}
        if self.order.len() > 2 * self.runs + 64 {
            self.compact(topics, directory);
        }
    }

    /// The runs of a pattern's topics with messages above a number, in the order of their numbers; none
    /// if there may be others that are not kept, or more bytes than so many. Looks at what was published
    /// since, and not at the topics.
    pub(crate) fn recent(
        &self,
        pattern: &Pattern,
        after: u64,
        bytes_max: usize,
        (topics, directory): (&HomeTopics, &Directory),
    ) -> Option<Vec<Arc<Run>>> {
        let recorded = self.patterns.get(pattern).is_some_and(|known| known.from <= after);
        let kept = self.emptied <= after && self.floor_for(pattern, after) <= after;
        // A run that begins before may end behind.
        let start = self.order.partition_point(|(first, _)| *first <= after).saturating_sub(1);
        if !recorded || !kept || self.order.len() - start > RECENT_MAX {
            return None;
        }
        let mut keys: Vec<Key> = self.order.range(start..).map(|(_, key)| *key).collect();
        keys.sort_unstable();
        keys.dedup();
        let (mut runs, mut bytes) = (Vec::new(), 0);
        for topic in keys.into_iter().filter_map(|key| directory.get(key)) {
            let home = topics.get(topic).filter(|home| home.last() > after);
            if home.is_none() || !reaches(pattern, &topic.path) {
                continue;
            }
            let known = home.and_then(|home| home.history());
            for run in known.filter(|known| known.boundary() <= after)?.after(after) {
                bytes += run.bytes();
                runs.push(run.clone());
            }
            if bytes > bytes_max {
                return None;
            }
        }
        runs.sort_by_key(|run| run.first());
        Some(runs)
    }

    /// Gives up the oldest run of all if it is old enough; whether there may be another.
    fn evict_oldest(
        &mut self,
        topics: &mut HomeTopics,
        directory: &Directory,
        displaced: &mut Displaced,
        old: impl Fn(Time) -> bool,
    ) -> bool {
        let Some((number, key)) = self.order.front().copied() else {
            return false;
        };
        let home = topics.find_mut(directory, key);
        let topic = home.and_then(|home| home.history_mut());
        if let Some(topic) = topic
            && let Some((first, at)) = topic.oldest()
            && first == number
        {
            if !old(at) {
                return false;
            }
            self.shorten(topic, displaced);
        }
        self.order.pop_front();
        true
    }

    /// Forgets places of runs that are gone.
    fn compact(&mut self, topics: &HomeTopics, directory: &Directory) {
        self.order.retain(|(number, key)| {
            let home = topics.find(directory, *key);
            let oldest = home.and_then(|home| home.history()?.oldest());
            oldest.is_some_and(|(oldest, _)| oldest <= *number)
        });
    }

    /// Gives up what is too old; whether some patterns do not record topics any more.
    pub(crate) fn sweep(
        &mut self,
        now: Time,
        age: Span,
        (topics, directory): (&mut HomeTopics, &Directory),
        displaced: &mut Displaced,
    ) -> bool {
        while self.evict_oldest(topics, directory, displaced, |at| now.since(at) >= age) {}
        self.sweep_patterns(now, age)
    }

    /// A topic gets an owner, who is not to be shown what was published under its name before.
    pub(crate) fn empty(&mut self, home: &mut HomeTopic, displaced: &mut Displaced) {
        let last = home.last();
        let Some(history) = home.history_mut() else { return };
        while !history.is_empty() {
            self.shorten(history, displaced);
        }
        history.raise_boundary(last);
        self.emptied = self.emptied.max(last);
    }

    /// Gives up a topic's history if nobody may come back to it; `named` says whether a pattern wants it
    /// recorded.
    pub(crate) fn sweep_topic(
        &mut self,
        now: Time,
        age: Span,
        (home, named): (&mut HomeTopic, bool),
        displaced: &mut Displaced,
    ) {
        let recorders = home.recorders();
        let Some(history) = home.history_mut() else { return };
        if named || !recorders.is_empty() {
            history.want(now);
        } else if history.unwanted(now) >= age {
            while !history.is_empty() {
                self.shorten(history, displaced);
            }
            home.end_history();
        }
    }
}
