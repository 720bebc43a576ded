//! Removing topics by selector, at each home.
//!
//! Subscribers of a removed topic get a last message that says so; a topic that nobody listens to is
//! forgotten at once. Many topics are removed in slices, so that nothing else waits long. Invariant:
//! the answer comes when all are gone.

use tiderace_base::{Key, Now};
use tiderace_journal::AnswerKind;
use tiderace_topics::Pattern;
use tiderace_wire::{Destination, Flags, Kind, LeaveReason, Meta, Run, UpstreamNumbers};

use crate::Action;
use crate::effects::Effects;
use crate::home::removals::Removal;
use crate::home_side::HomeSide;
use crate::messages::LocalMessage;
use crate::price;
use crate::publisher::Publisher;
use crate::publisher::Values;
use crate::requester::Requester;

impl HomeSide<'_> {
    /// At a home.
    pub(crate) fn begin_removal(
        &mut self,
        now: Now,
        requester: Requester,
        selector: Vec<Pattern>,
        effects: &mut Effects,
    ) {
        if let Err(close) = self.home.long_jobs_mut().begin(requester.session) {
            return self.loopback.answer_operation(&requester, Err(close), effects);
        }
        let mut removal = Removal::new(requester, selector);
        if self.go_on_removing(now, &mut removal, effects) {
            self.home.defer_removal(removal);
        }
    }

    /// Goes on with the removals under way, a slice at a time, as long as the turn's budget lasts.
    pub(crate) fn remove_more(&mut self, now: Now, effects: &mut Effects) {
        while self.work.left(now) > 0 {
            let Some(mut removal) = self.home.next_removal() else { return };
            self.work.charge(price::of_removal(removal.patterns()));
            if self.go_on_removing(now, &mut removal, effects) {
                self.home.defer_removal(removal);
            }
        }
    }

    /// One slice; whether there is more.
    fn go_on_removing(&mut self, now: Now, removal: &mut Removal, effects: &mut Effects) -> bool {
        let slice = removal.next_slice(self.directory);
        let (mut removed, before_slice) = (0, self.journal.last_record());
        for key in slice {
            let Some(topic) = self.topic(key).filter(|topic| removal.names(*topic)) else {
                continue;
            };
            let path = topic.path().clone();
            let read_only = topic.is_read_only();
            match self.may_operate(removal.requester(), Action::Create, &path) {
                Ok(()) if !read_only => {
                    removed += 1;
                    self.remove_topic(now, key, effects);
                }
                Ok(()) => {}
                Err(close) => removal.note_refused(close),
            }
        }
        removal.note_removed(removed, self.journal.appended_since(before_slice));
        self.work.charge_at(now, price::REMOVED * removed);
        if removal.has_more() {
            return true;
        }
        self.home.long_jobs_mut().end(removal.requester().session);
        let (record, result) = removal.result();
        self.answer_stored((record, AnswerKind::Removal), removal.requester(), result, effects);
        false
    }

    /// At its home: a topic is there no more, with all that it kept.
    pub(crate) fn remove_topic(&mut self, now: Now, key: Key, effects: &mut Effects) {
        self.remove_topic_as(now, key, (LeaveReason::Removed, None), effects);
    }

    /// The same for that reason; what is said of it may have numbers of another node.
    pub(crate) fn remove_topic_as(
        &mut self,
        now: Now,
        key: Key,
        (reason, numbers): (LeaveReason, Option<UpstreamNumbers>),
        effects: &mut Effects,
    ) {
        let Some(topic) = self.directory.get(key) else { return };
        let path = topic.path.clone();
        let mut heard = false;
        if let Some(home) = self.home.topic_mut(topic) {
            self.journal.end_stream(home);
            heard = !home.places().is_empty() || home.value().is_some();
        }
        if heard {
            let destination = Destination { kind: Kind::Topic, path: path.clone() };
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            let mut run = Run::single(destination, now.time, &[], &[], meta);
            run.set_upstream(numbers);
            self.relieve_feeds(now, effects);
            // Taking a value away needs no room.
            let _ =
                self.distribute(now, key, run, &Publisher::default(), Values::Unchecked, effects);
        } else {
            self.loopback.hand_on(LocalMessage::TopicChanged { topic: key, run: None });
        }
        self.drop_series(key);
        let policy = self.options.topic(&path).clone();
        // Behind the last message, which waits with those before it.
        self.loopback.hand_on(LocalMessage::SetSpec { topic: key, spec: policy });
        if let Some(home) = self.topic_mut(key) {
            // What is hidden may be shown again before that has been heard.
            let end = home.value_end().filter(|_| reason == LeaveReason::NotAuthorised).cloned();
            home.remove();
            home.set_value_end(end);
        }
        self.announce_as(&path, Err(reason), effects);
    }
}
