//! Removing topics by selector, at each home.
//!
//! Listeners of a removed topic get a last message that says so; a topic that nobody listens to is
//! forgotten at once. Many topics are removed in slices, so that nothing else waits long. Invariant:
//! the answer comes when all are gone.

use std::collections::VecDeque;

use tiderace_base::{Close, Key, Now};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Flags, Kind, Meta, Outturn, Run};

use crate::Action;
use crate::broker::Broker;
use crate::effects::Effects;
use crate::operate::Operator;
use crate::topic::Topic;

/// Topics looked at in one slice.
const SLICE: usize = 4096;

/// A removal under way.
#[derive(Debug)]
pub(crate) struct Removal {
    operator: Operator,
    left: VecDeque<Key>,
    removed: u64,
    refused: Option<Close>,
}

impl Broker {
    /// At a home.
    pub(crate) fn begin_removal(
        &mut self,
        now: Now,
        operator: Operator,
        selector: Vec<Pattern>,
        effects: &mut Effects,
    ) {
        let left = self.known_topics(&selector, None).collect();
        let mut removal = Removal { operator, left, removed: 0, refused: None };
        if self.go_on_removing(now, &mut removal, effects) {
            self.removals.push_back(removal);
        }
    }

    /// Goes on with the removals under way, a slice at a time.
    pub(crate) fn remove_more(&mut self, now: Now, effects: &mut Effects) {
        if let Some(mut removal) = self.removals.pop_front()
            && self.go_on_removing(now, &mut removal, effects)
        {
            self.removals.push_back(removal);
        }
    }

    /// One slice; whether there is more.
    fn go_on_removing(&mut self, now: Now, removal: &mut Removal, effects: &mut Effects) -> bool {
        for _ in 0..SLICE {
            let Some(key) = removal.left.pop_front() else { break };
            let Some(topic) = self.topics.get(key).filter(|topic| topic.is_known()) else {
                continue;
            };
            let path = topic.path.clone();
            let read_only = topic.is_read_only();
            match self.may_operate(&removal.operator, Action::Create, &path, &topic.spec) {
                Ok(()) if !read_only => {
                    removal.removed += 1;
                    self.remove_topic(now, key, effects);
                }
                Ok(()) => {}
                Err(close) => removal.refused = Some(close),
            }
        }
        if !removal.left.is_empty() {
            return true;
        }
        let refused = removal.refused.take().filter(|_| removal.removed == 0);
        let result = match refused {
            Some(close) => Err(close),
            None => Ok(Outturn::Removed { topics: removal.removed }),
        };
        self.answer_operation(&removal.operator, result, effects);
        false
    }

    /// At its home: a topic is there no more, with all that it kept.
    pub(crate) fn remove_topic(&mut self, now: Now, key: Key, effects: &mut Effects) {
        let Some(topic) = self.topics.get(key) else { return };
        let path = topic.path.clone();
        let heard = topic
            .home
            .as_ref()
            .is_some_and(|home| home.interested | home.by_pattern != 0 || home.retained.is_some());
        if heard {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            let mut run = Run::single(destination, now.time, &[], &[], meta);
            run.number(self.shard, self.next_sequence);
            self.next_sequence += 1;
            // Taking a value away needs no room.
            let _ = self.distribute(now, key, run, None, effects);
        }
        let policy = self.options.topic(&path).clone();
        if let Some(topic) = self.topics.get_mut(key) {
            topic.spec = policy;
            if let Some(home) = &mut topic.home {
                home.created = false;
                home.removed = true;
            }
        }
    }

    /// The topics that there are, in the order of their paths, from behind a path on.
    pub(crate) fn known_topics(
        &self,
        selector: &[Pattern],
        after: Option<&Path>,
    ) -> impl Iterator<Item = Key> + use<> {
        let wanted = |topic: &Topic| {
            topic.is_known()
                && after.is_none_or(|after| topic.path > *after)
                && selector.iter().any(|pattern| pattern.matches(&topic.path))
        };
        let mut found: Vec<(Path, Key)> = self
            .topics
            .iter()
            .filter(|(_, topic)| wanted(topic))
            .map(|(key, topic)| (topic.path.clone(), key))
            .collect();
        found.sort();
        found.into_iter().map(|(_, key)| key)
    }
}
