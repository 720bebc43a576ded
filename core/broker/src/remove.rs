//! Removing topics by selector, at each home.
//!
//! Subscribers of a removed topic get a last message that says so; a topic that nobody listens to is
//! forgotten at once. Many topics are removed in slices, so that nothing else waits long. Invariant:
//! the answer comes when all are gone.

use tiderace_base::{Close, Key, Now};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Flags, Kind, Meta, OperationResult, Run};

use crate::Action;
use crate::broker::Broker;
use crate::effects::Effects;
use crate::operator::Operator;
use crate::price;
use crate::publish::{Publisher, Values};

/// Topics looked at in one slice; to begin a removal costs as much.
pub(crate) const SLICE: usize = 256;

/// A removal under way.
#[derive(Debug)]
pub(crate) struct Removal {
    operator: Operator,
    selector: Vec<Pattern>,
    /// The last path that was looked at.
    after: Option<Path>,
    removed: u64,
    refused: Option<Close>,
    /// The record that says that the last of the topics is gone; zero if none was in the store.
    record: u64,
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
        let mut removal =
            Removal { operator, selector, after: None, removed: 0, refused: None, record: 0 };
        if self.go_on_removing(now, &mut removal, effects) {
            self.removals.push_back(removal);
        }
    }

    /// Goes on with the removals under way, a slice at a time, as long as the turn's budget lasts.
    pub(crate) fn remove_more(&mut self, now: Now, effects: &mut Effects) {
        while self.work.left(now) > 0 {
            let Some(mut removal) = self.removals.pop_front() else { return };
            self.work.charge(price::of_removal());
            if self.go_on_removing(now, &mut removal, effects) {
                self.removals.push_back(removal);
            }
        }
    }

    /// One slice; whether there is more.
    fn go_on_removing(&mut self, now: Now, removal: &mut Removal, effects: &mut Effects) -> bool {
        let (after, before) = (removal.after.take(), removal.removed);
        let slice: Vec<Key> = self
            .names
            .walk_some(&removal.selector, after.as_ref().map(Path::as_str), &self.topics)
            .map(|(key, _)| key)
            .take(SLICE)
            .collect();
        let last = slice.last().filter(|_| slice.len() == SLICE);
        let last = last.and_then(|key| self.topics.get(*key)).map(|topic| topic.path.clone());
        let before_slice = self.last_record();
        for key in slice {
            let topic = self.topics.get(key);
            let Some(topic) = topic.filter(|topic| topic.is_named(&removal.selector)) else {
                continue;
            };
            let path = topic.path.clone();
            let read_only = topic.is_read_only();
            match self.may_operate(&removal.operator, Action::Create, &path) {
                Ok(()) if !read_only => {
                    removal.removed += 1;
                    self.remove_topic(now, key, effects);
                }
                Ok(()) => {}
                Err(close) => removal.refused = Some(close),
            }
        }
        removal.record = removal.record.max(self.appended_since(before_slice));
        self.work.charge_at(now, price::REMOVED * (removal.removed - before));
        removal.after = last;
        if removal.after.is_some() {
            return true;
        }
        let refused = removal.refused.take().filter(|_| removal.removed == 0);
        let result = match refused {
            Some(close) => Err(close),
            None => Ok(OperationResult::Removed { topics: removal.removed }),
        };
        self.answer_stored(removal.record, &removal.operator, result, effects);
        false
    }

    /// At its home: a topic is there no more, with all that it kept.
    pub(crate) fn remove_topic(&mut self, now: Now, key: Key, effects: &mut Effects) {
        self.end_stream(key);
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
            let _ =
                self.distribute(now, key, run, &Publisher::default(), Values::Unchecked, effects);
        } else {
            self.note_source(key, None);
        }
        self.drop_series(key);
        let policy = self.options.topic(&path).clone();
        self.set_spec(now, key, policy, effects);
        if let Some(home) = self.topics.get_mut(key).and_then(|topic| topic.home.as_mut()) {
            home.created = false;
            home.removed = true;
            // The next topic of that name is not as old as this one, and others make it.
            home.rare_mut().retirement = None;
            home.tidy();
        }
        self.announce_topic(key, effects);
    }
}
