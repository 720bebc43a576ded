//! What rooms of this shard have for each other, handed on.
//!
//! Relies on no method of a room calling another room. Invariant: what the home has for sessions and views is handed
//! on before any message of the list, and before the home is called again.

use std::sync::Arc;

use tiderace_base::{Now, SessionId};
use tiderace_journal::AnswerKind;
use tiderace_topics::compiled_bytes;
use tiderace_wire::{Confirm, Destination, Kind, OperationResult, Reply, Run, Token, is_temporary};

use super::Broker;
use crate::effects::Effects;
use crate::messages::{LocalMessage, ToHome};
use crate::places::Place;
use crate::price::{COMPILED, FREE_DELIVERIES};
use crate::publish::Admitted;
use crate::publisher::Recipients;
use crate::relay::Relay;
use crate::spans::traced_of;
use crate::temporary::TemporaryOwner;

impl Broker {
    /// Takes what the shard has sent to itself, and what comes of that.
    #[inline]
    pub(super) fn take_loopback(&mut self, now: Now, effects: &mut Effects) {
        if !self.loopback.is_empty() {
            self.take_all(now, effects);
        }
    }

    #[inline(never)]
    fn take_all(&mut self, now: Now, effects: &mut Effects) {
        self.hand_on(now, effects);
        while let Some(message) = self.loopback.next_message() {
            self.take_message(now, self.loopback.here(), message, effects);
            self.hand_on(now, effects);
        }
    }

    /// Hands on what the home has for sessions and views.
    #[inline(never)]
    pub(super) fn hand_on(&mut self, now: Now, effects: &mut Effects) {
        loop {
            if let Some((topic, run)) = self.loopback.next_fanout() {
                self.session_side().fan_out_topic(now, topic, run, effects);
            }
            let Some(message) = self.loopback.next_local() else { return };
            self.take_local(now, message, effects);
        }
    }

    /// The end of a call: takes what the shard has sent to itself, and does what views have to do within
    /// the turn's budget.
    pub(super) fn end_call(&mut self, now: Now, effects: &mut Effects) {
        self.take_loopback(now, effects);
        self.work_on_views(now, effects);
        self.follow_views(now);
        while !self.loopback.is_empty() {
            self.take_loopback(now, effects);
            self.work_on_views(now, effects);
            self.follow_views(now);
        }
        self.home.count_displaced(&self.directory, &self.memory);
    }

    /// Has the deputies ask their upstreams for what views follow, if the views have changed.
    #[inline]
    fn follow_views(&mut self, now: Now) {
        if !self.deputies.is_empty() && !self.deputies.follow_as_of(self.views.generation()) {
            let sources = self.views.sources();
            let wanted = sources.map(|(it, upstream)| (it.clone(), upstream.map(Into::into)));
            let wanted = wanted.collect();
            self.deputy_side().follow(now, wanted);
        }
    }

    /// Does what views have to do within the turn's budget.
    #[inline]
    pub(super) fn work_on_views(&mut self, now: Now, effects: &mut Effects) {
        while self.views.has_jobs() && self.view_side().work_on_next(now, effects) {
            self.end_view_slice(now, effects);
        }
    }

    /// Hands on what the home has of a slice of the views' work.
    pub(super) fn end_view_slice(&mut self, now: Now, effects: &mut Effects) {
        self.hand_on(now, effects);
        self.views.end_slice();
    }

    /// What every message that is published takes; the rest stands apart.
    #[inline]
    fn take_local(&mut self, now: Now, message: LocalMessage, effects: &mut Effects) {
        match message {
            LocalMessage::Fanout { topic, run } => {
                self.session_side().fan_out_topic(now, topic, run, effects);
            }
            LocalMessage::Deliver { session, key, segment } => {
                self.session_side().deliver_segment(session, key, segment, effects);
            }
            LocalMessage::Confirmed { session, confirm } => {
                self.session_side().reply(session, Reply::Confirmed(confirm), effects);
            }
            message => self.take_other(now, message, effects),
        }
    }

    fn take_other(&mut self, now: Now, message: LocalMessage, effects: &mut Effects) {
        match message {
            LocalMessage::Fanout { .. }
            | LocalMessage::Deliver { .. }
            | LocalMessage::Confirmed { .. } => debug_assert!(false, "taken by `take_local`"),
            LocalMessage::Browsed { session, key, path } => {
                self.session_side().deliver_end(now, session, key, path, effects);
            }
            LocalMessage::Refused { session, refusal } => {
                let (token, close) = *refusal;
                self.session_side().reply(session, Reply::Refused { token, close }, effects);
            }
            LocalMessage::SpecChanged { topic, change } => {
                self.session_side().spec_changed(now, topic, change, effects);
            }
            LocalMessage::SetSpec { topic, spec } => {
                self.home_side().reset_spec(topic, spec, effects);
            }
            LocalMessage::TopicChanged { topic, run: Some(run) } => {
                self.view_side().note_viewed(now, topic, &run, effects);
            }
            LocalMessage::TopicChanged { topic, run: None } => {
                self.view_side().note_source(topic, None);
            }
            LocalMessage::ChangeView { requester, name, text } => {
                let (before, compiled) = (self.journal.last_record(), compiled_bytes());
                let mut side = self.view_side();
                let result = side.change_view(now, &requester, &name, text.as_deref(), effects);
                let home = &mut side.home;
                home.work.charge_at(now, COMPILED * (compiled_bytes() - compiled));
                let record = home.journal.appended_since(before);
                home.answer_stored((record, AnswerKind::Write), &requester, result, effects);
            }
            LocalMessage::ListViews { requester } => {
                let result = self.view_side().list_views(&requester);
                self.loopback.answer_operation(&requester, result, effects);
            }
            LocalMessage::BrowseSessions { requester, browse } => {
                let page = self.session_side().browse_sessions(now, &browse);
                self.loopback.answer_operation(&requester, Ok(page), effects);
            }
            LocalMessage::ShowTopic { requester, mut topic } => {
                self.session_side().show_topic(now, &mut topic);
                let result = OperationResult::Topic(topic);
                self.loopback.answer_operation(&requester, Ok(result), effects);
            }
            LocalMessage::Inserted { path, on } => self.deputy_side().insert(now, &path, on),
            LocalMessage::Upstream { session, asked } => {
                self.session_side().reply(session, Reply::Upstream(asked), effects);
            }
        }
    }

    /// A session publishes.
    #[inline]
    pub(super) fn publish(
        &mut self,
        now: Now,
        session: SessionId,
        run: Run,
        (confirm, blame): (Option<Confirm>, Option<Token>),
        effects: &mut Effects,
    ) {
        let mut side = self.session_side();
        match side.admit_publication(now, session, &run, (confirm, blame), effects) {
            Admitted::Directly(author) => {
                self.publish_at_home(
                    now,
                    self.loopback.here(),
                    run,
                    Some(session),
                    author,
                    confirm,
                    effects,
                );
            }
            Admitted::ByMessage(home, author) => {
                let (run, origin) = (Box::new(run), Some(session));
                side.send(home, ToHome::Publish { run, origin, author, confirm }, effects);
            }
            Admitted::IfOwner(author) => {
                let home = side.options.home_of(&run.destination().path);
                let run = Box::new(run);
                let message =
                    ToHome::PublishAsOwner { run, origin: session, author, confirm, blame };
                side.send(home, message, effects);
            }
            Admitted::Relayed(home) => {
                let principal = side.session(session).and_then(|record| record.principal.clone());
                match principal.map(|principal| principal.to_end_principal()) {
                    Some(Ok(principal)) => {
                        // What comes of it, the other node knows.
                        effects.note_published(traced_of(&run), None);
                        let relay = Relay::publication(principal, session, run, confirm);
                        side.send(home, ToHome::Relay(relay), effects);
                    }
                    Some(Err(close)) => side.refuse_run(session, confirm, blame, &close, effects),
                    None => {}
                }
            }
            Admitted::Refused(code) => effects.note_published(traced_of(&run), Some(code)),
        }
    }

    /// Messages have come to their home.
    #[allow(clippy::too_many_arguments)]
    #[inline(always)]
    pub(super) fn publish_at_home(
        &mut self,
        now: Now,
        from: Place,
        run: Run,
        origin: Option<SessionId>,
        author: Option<Arc<str>>,
        confirm: Option<Confirm>,
        effects: &mut Effects,
    ) {
        let known = self.recipients(&run);
        self.home_side().publish_at_home(now, from, run, origin, author, confirm, known, effects);
        self.hand_on(now, effects);
    }

    /// Who of the sessions here gets messages, as far as their home is to know.
    #[inline]
    pub(super) fn recipients(&mut self, run: &Run) -> Recipients {
        let many = !self.work.is_calm() && self.has_many_subscribers(run);
        Recipients { owner: self.temporary_owner(run), many }
    }

    /// Whether so many here get messages of a topic that one more costs something extra.
    #[cold]
    fn has_many_subscribers(&self, run: &Run) -> bool {
        let Destination { kind: Kind::Topic, path } = run.destination() else { return false };
        let topic = self.directory.find(path).and_then(|key| self.directory.get(key));
        let known = topic.and_then(|topic| self.fanout.subscribers(topic));
        known.is_some_and(|known| known.len() > FREE_DELIVERIES)
    }

    /// Whose temporary destination messages go to, if it is one.
    #[inline]
    pub(super) fn temporary_owner(&mut self, run: &Run) -> TemporaryOwner {
        match is_temporary(&run.destination().path) {
            false => TemporaryOwner::NotTemporary,
            true => self.session_side().owner_below(&run.destination().path),
        }
    }
}
