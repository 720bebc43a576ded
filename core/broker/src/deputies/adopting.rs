//! Messages of an upstream, kept and passed on as a home keeps and passes on its own.
//!
//! They keep their versions, and get numbers of this home in the order in which they come. Relies on versions of a topic
//! that rise in one life of the upstream. Invariant: a message is kept and passed on once, whatever subscriptions bring
//! it.

use std::sync::Arc;

use tiderace_base::{Key, MemoryUse, Now};
use tiderace_topics::Path;
use tiderace_wire::{LeaveReason, Run, TopicSpec, UpstreamNumbers};

use super::Deputy;
use super::subscriptions::{State, UpstreamSubscription};
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::home::HomeTopic;
use crate::messages::LocalMessage;
use crate::publisher::Publisher;
use crate::runs::{holds_messages, keeps, last_of};

impl DeputySide<'_> {
    /// Messages have come by a subscription.
    pub(super) fn adopt(&mut self, now: Now, at: usize, by: u32, run: Run, effects: &mut Effects) {
        let path = run.destination().path.clone();
        let Some(numbers) = run.upstream().copied() else { return };
        // What a subscription that has ended still brings has gaps before what others bring; and a pattern of the
        // upstream's own may name more than what this node takes from it.
        let deputy = self.deputies.list.get(at);
        let known = deputy.and_then(|deputy| deputy.subscriptions.get(by));
        let is_wanted = known.is_some_and(UpstreamSubscription::counts);
        if !is_wanted || self.at_topic(&path) != Some(at) || run.is_empty() {
            return;
        }
        let has_room = self.home.memory.has_room(MemoryUse::Values, run.bytes());
        let key = self.home.directory.admit(now, &path).ok().filter(|_| has_room);
        let Some(key) = key else { return self.lose(at, &numbers, run.len()) };
        self.renew(at, key, effects);
        let home = self.home.topic(key).and_then(|topic| topic.home());
        let known = home.map_or(0, |home| home.last_version());
        let is_there = home.is_some_and(|home| home.is_known() || home.is_held());
        let newest =
            || home.and_then(|home| home.history().and_then(|it| it.newest()).or(home.value()));
        let ends_newest = || newest().is_some_and(|run| holds_messages(run));
        let last = run.version() + run.len() as u64 - 1;
        let is_ended = home.and_then(|home| home.value_end()).is_some_and(|end| {
            end.version() == last && home.is_some_and(|home| home.value().is_none())
        });
        if !holds_messages(&run) && is_ended {
            // LEFT has said so ahead of this, and JOINED may have come since: the value that comes with that has this version.
            return self.note_numbers(at, &numbers);
        }
        if !holds_messages(&run) && (last == known && ends_newest() || !is_there) {
            // The upstream has had it hidden itself, which takes no version. It has said so already, ahead of the last values.
            let stays = home.is_some_and(|home| home.is_created());
            self.note_numbers(at, &numbers);
            // JOINED may have come since LEFT, or LEFT comes behind this.
            return self.remove_value(now, at, (key, stays), effects);
        }
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.subscriptions.note_brought(by, key);
        }
        if last <= known {
            self.home.metrics.upstream_repeated += run.len() as u64;
            return self.note_numbers(at, &numbers);
        }
        let leaves_out =
            known != 0 && run.version() > run.follows().unwrap_or(known).max(known) + 1;
        let deputy = self.deputies.list.get_mut(at);
        if leaves_out && deputy.is_some_and(|it| it.subscriptions.leave_to_others(by, &path)) {
            // They bring this as well, and what is before it.
            self.home.metrics.upstream_repeated += run.len() as u64;
            return self.note_numbers(at, &numbers);
        }
        self.home.metrics.upstream_messages += run.len() as u64;
        if run.version() > known {
            return self.take_in(now, at, by, (key, run, numbers), effects);
        }
        // Some of them have come before.
        let first = run.version();
        for (message, version) in run.messages().zip(first..) {
            if version > known {
                let copy = run.copy_of(&message);
                let numbers = copy.upstream().copied().unwrap_or(numbers);
                self.take_in(now, at, by, (key, copy, numbers), effects);
            }
        }
    }

    /// They are new.
    fn take_in(
        &mut self,
        now: Now,
        at: usize,
        by: u32,
        (key, mut run, numbers): (Key, Run, UpstreamNumbers),
        effects: &mut Effects,
    ) {
        self.note_late(at, by, &run, &numbers);
        let deputy = self.deputies.list.get(at);
        let progress = deputy.map(Deputy::progress).unwrap_or_default();
        if !progress.is_whole {
            // Of other topics something may be missing that was before it.
            run.set_upstream(Some(UpstreamNumbers { reached: 0, ..numbers }));
        }
        let side = &mut self.home;
        let Some(topic) = side.directory.get_mut(key) else { return };
        topic.touch(now.time);
        let topic = &*topic;
        let was_held = side.home.topic(topic).is_some_and(HomeTopic::is_held);
        let known = side.home.topic(topic).map_or(0, |home| home.last_version());
        let is_new = side.home.begin_adopted(now.time, topic, &mut run, side.options);
        run.share_path(&topic.path);
        let run = Arc::new(run);
        let stays = side.home.replace_value(topic, &run, side.memory, side.metrics);
        let Some(home) = side.home.topic_mut(topic) else { return };
        let (_, before) = home.note_run(&run);
        let usual = Arc::ptr_eq(&topic.spec, &side.options.topic_default);
        let spec = (!usual).then(|| topic.spec.clone());
        let keeps = keeps(&topic.spec) && holds_messages(&run);
        // Between what is kept and these some are missing.
        let is_whole = run.version() <= run.follows().unwrap_or(known).max(known) + 1;
        let (places, feeds) = (home.places(), home.feeds());
        let viewed = side.has_views || !home.watchers().is_empty();
        if side.home.owes_pages(before) {
            side.give_early(now, key, before, stays, effects);
        }
        if !is_whole && let Some(topic) = side.directory.get(key) {
            side.home.empty_history(topic);
        }
        side.home.append_history(now, (key, &run, before), side.directory, side.options);
        if keeps {
            side.append_series(now, key, &run, before, &Publisher::default());
        }
        if feeds {
            let _ = side.feed(now, &run, None, effects);
        }
        if viewed {
            let run = Some(run.clone());
            side.loopback.hand_on(LocalMessage::TopicChanged { topic: key, run });
        }
        if is_new {
            side.announce_topic(key, effects);
        }
        let (len, last) = (run.len(), last_of(&run));
        side.send_out(key, places, run, spec, effects);
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.numberings.note(&numbers, len, (last, progress));
        }
        self.count(at, key, was_held);
    }

    /// A message that comes behind newer ones is of a topic that this node may see from now on: who has come as far as those
    /// need not have it, and what subscriptions know begins anew with it.
    fn note_late(&mut self, at: usize, by: u32, run: &Run, numbers: &UpstreamNumbers) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let is_live = deputy.subscriptions.get(by).is_some_and(|it| it.state == State::Live);
        if is_live && deputy.numberings.are_beyond(numbers) {
            deputy.begin_those_of(&run.destination().path);
        }
    }

    /// Nothing is kept of messages that have come before.
    fn note_numbers(&mut self, at: usize, numbers: &UpstreamNumbers) {
        let last = self.home.home.last_number();
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            let progress = deputy.progress();
            deputy.numberings.reach(numbers.numbering, numbers.reached, (last, progress));
        }
    }

    /// There is no room for messages: who comes back with what was before them is told that something is missing.
    fn lose(&mut self, at: usize, numbers: &UpstreamNumbers, len: usize) {
        self.home.metrics.upstream_lost += len as u64;
        self.note_numbers(at, numbers);
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            let told = deputy.numberings.told().into();
            deputy.subscriptions.begin_all(&told);
        }
    }

    /// A topic is there at the upstream, as a subscription says, and what it is.
    pub(super) fn join(
        &mut self,
        now: Now,
        at: usize,
        (by, is_empty): (u32, bool),
        (path, spec): (Path, Arc<TopicSpec>),
        effects: &mut Effects,
    ) {
        if self.at_topic(&path) != Some(at) {
            return;
        }
        let side = &mut self.home;
        let Ok(key) = side.directory.admit(now, &path) else { return };
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.subscriptions.note_joined(by, key, is_empty);
        }
        if !side.directory.specs_mut().has_room(&spec) {
            return;
        }
        let spec = side.directory.specs_mut().share(spec);
        let is_as_before = side.directory.get(key).is_some_and(|topic| topic.spec == spec);
        if !is_as_before {
            side.set_spec(key, spec, effects);
        }
        let Some(topic) = side.directory.get(key) else { return };
        let home = side.home.topic_or_new(topic);
        let (was_held, is_new) = (home.is_held(), home.create());
        if is_new || !is_as_before {
            side.announce_topic(key, effects);
        }
        self.count(at, key, was_held);
    }

    /// A topic without a value is there no more, or not for this node: no message says so that has not come.
    pub(super) fn end_empty(
        &mut self,
        at: usize,
        key: Key,
        reason: LeaveReason,
        effects: &mut Effects,
    ) {
        let was_held = self.is_held(key);
        let side = &mut self.home;
        let Some(topic) = side.directory.get(key) else { return };
        let (path, policy) = (topic.path.clone(), side.options.topic(&topic.path).clone());
        side.drop_series(key);
        side.loopback.hand_on(LocalMessage::SetSpec { topic: key, spec: policy });
        if let Some(home) = side.topic_mut(key) {
            home.remove();
        }
        side.announce_as(&path, Err(reason), effects);
        if reason == LeaveReason::NotAuthorised
            && let Some(topic) = side.directory.get(key)
        {
            side.home.empty_history(topic);
            if let Some(deputy) = self.deputies.list.get_mut(at) {
                deputy.begin_those_of(&path);
            }
        }
        self.count(at, key, was_held);
    }

    /// A topic that is kept here is removed, as if the upstream had said so.
    pub(super) fn remove_held(&mut self, now: Now, at: usize, key: Key, effects: &mut Effects) {
        let was_held = self.is_held(key);
        let last = self.home.topic(key).and_then(|topic| topic.home()).map(HomeTopic::last_version);
        // The upstream has begun anew, and the first version that it gives may be a low one.
        let is_anew = last == Some(0);
        if is_anew && let Some(home) = self.home.topic_mut(key) {
            home.begin_at_version(1);
        }
        self.home.remove_topic(now, key, effects);
        if is_anew && let Some(home) = self.home.topic_mut(key) {
            home.begin_at_version(0);
        }
        self.count(at, key, was_held);
    }

    /// A topic ends here that the upstream may still have and give again: its value may then have the version that it had
    /// here. So what is told of its end has the version and the number of its last message, and takes none of the upstream's.
    pub(super) fn remove_hidden(&mut self, now: Now, at: usize, key: Key, effects: &mut Effects) {
        let was_held = self.is_held(key);
        // Each subscription that has brought it says so.
        let home = self.home.topic(key).and_then(|topic| topic.home());
        let Some(home) = home.filter(|home| home.is_known() || home.is_held()) else { return };
        let last = home.last_version();
        let newest = home.history().and_then(|history| history.newest()).or(home.value());
        let numbers = newest.and_then(|run| {
            let numbers = run.upstream()?;
            let first = numbers.first + run.len() as u64 - 1;
            Some(UpstreamNumbers { first, reached: 0, ..*numbers })
        });
        if let Some(home) = self.home.topic_mut(key) {
            home.begin_at_version(last.max(1));
        }
        let why = (LeaveReason::NotAuthorised, numbers);
        self.home.remove_topic_as(now, key, why, effects);
        if let Some(topic) = self.home.directory.get(key) {
            self.home.home.empty_history(topic);
        }
        if let Some(home) = self.home.topic_mut(key) {
            home.begin_at_version(last);
        }
        if let Some(topic) = self.home.directory.get(key)
            && let Some(deputy) = self.deputies.list.get_mut(at)
        {
            // Who has come as far as this may still have it.
            deputy.begin_those_of(&topic.path);
        }
        self.count(at, key, was_held);
    }

    /// A value ends that the upstream has not given again; whether the topic stays.
    pub(super) fn remove_value(
        &mut self,
        now: Now,
        at: usize,
        (key, stays): (Key, bool),
        effects: &mut Effects,
    ) {
        let spec = self.home.directory.get(key).map(|topic| topic.spec.clone());
        self.remove_hidden(now, at, key, effects);
        let Some(spec) = spec.filter(|_| stays) else { return };
        let was_held = self.is_held(key);
        self.home.set_spec(key, spec, effects);
        if let Some(home) = self.home.topic_mut(key) {
            home.create();
        }
        self.home.announce_topic(key, effects);
        self.count(at, key, was_held);
    }

    fn is_held(&self, key: Key) -> bool {
        let home = self.home.topic(key).and_then(|topic| topic.home());
        home.is_some_and(HomeTopic::is_held)
    }

    /// Counts a topic that is kept from now on, or no more.
    fn count(&mut self, at: usize, key: Key, was_held: bool) {
        let is_held = self.is_held(key);
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            let held = deputy.held_topics + u64::from(is_held);
            deputy.held_topics = held.saturating_sub(u64::from(was_held));
        }
    }

    /// Nobody here asks for a topic any more: what is kept of it is not kept up to date.
    pub(super) fn drop_kept(&mut self, at: usize, key: Key, effects: &mut Effects) {
        let was_held = self.is_held(key);
        let side = &mut self.home;
        let Some(topic) = side.directory.get(key) else { return };
        let path = side.home.at(topic).is_known().then(|| topic.path.clone());
        let had_value = side.home.topic(topic).is_some_and(|home| home.value().is_some());
        let bytes = side.home.end_value(topic);
        side.memory.refund(MemoryUse::Values, bytes);
        side.metrics.retained -= u64::from(had_value);
        side.home.empty_history(topic);
        side.drop_series(key);
        if let Some(home) = side.topic_mut(key) {
            home.remove();
            // If it is asked for again its value comes, whose version may be the one that it had here.
            home.begin_at_version(0);
        }
        if let Some(path) = path {
            // Who has begun to listen meanwhile may have been told that it is there.
            side.announce_as(&path, Err(LeaveReason::NotAuthorised), effects);
        }
        self.count(at, key, was_held);
    }

    /// A topic is not there any more, or this node may not have it any more.
    pub(super) fn leave(
        &mut self,
        now: Now,
        at: usize,
        (path, reason): (Path, LeaveReason),
        effects: &mut Effects,
    ) {
        let key = self.home.directory.find(&path).filter(|_| self.at_topic(&path) == Some(at));
        let Some(key) = key else { return };
        self.renew(at, key, effects);
        let home = self.home.topic(key).and_then(|topic| topic.home());
        let holds_value = home.is_some_and(|home| home.value().is_some());
        if reason == LeaveReason::NotAuthorised {
            return self.remove_hidden(now, at, key, effects);
        }
        if holds_value {
            return self.remove_held(now, at, key, effects);
        }
        self.end_empty(at, key, reason, effects);
    }
}
