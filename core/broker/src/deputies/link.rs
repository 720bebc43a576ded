//! The connection to an upstream: what it says, and what its loss means.
//!
//! Relies on the session there to say things in order. Invariant: nothing that was asked of a connection that is lost
//! stays asked: it is asked of the next one.

use tiderace_base::{Key, Now, SessionId, Time};
use tiderace_wire::{FromUpstream, LeaveReason, Target};

use super::Deputy;
use super::subscriptions::State;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;

impl DeputySide<'_> {
    /// An upstream says something, by the session to it.
    pub(crate) fn on_upstream(
        &mut self,
        now: Now,
        session: SessionId,
        said: FromUpstream,
        effects: &mut Effects,
    ) {
        if let FromUpstream::Up { upstream, epoch } = said {
            return self.link_up(now, session, (upstream, epoch), effects);
        }
        let is_its = |deputy: &Deputy| deputy.link == Some(session);
        let Some(at) = self.deputies.list.iter().position(is_its) else { return };
        match said {
            FromUpstream::Up { .. } => {}
            FromUpstream::Messages { key, run } => {
                if !self.collect(at, key.0, &run) {
                    self.adopt(now, at, key.0, run, effects);
                }
            }
            FromUpstream::Joined { key, path, spec, is_empty } => {
                self.join(now, at, (key.0, is_empty), (path, spec), effects);
            }
            FromUpstream::Left { key, path, reason } => {
                if reason == LeaveReason::NotAuthorised {
                    self.note_not_all(at, key.0);
                }
                self.leave(now, at, (path, reason), effects);
            }
            FromUpstream::Reached { numbering, sequence } => {
                let last = self.home.home.last_number();
                if let Some(deputy) = self.deputies.list.get_mut(at) {
                    let progress = deputy.progress();
                    deputy.numberings.reach(numbering, sequence, (last, progress));
                }
            }
            FromUpstream::Recovered { key, complete, continues } => {
                self.recovered(at, key.0, (complete, continues));
            }
            FromUpstream::Complete { key } => {
                if !self.consumer_begun(at, key.0, effects) {
                    self.complete(now, at, key.0, effects);
                }
            }
            FromUpstream::Queued { key, redeliveries, run } => {
                self.consumed(at, key.0, (redeliveries, run), effects);
            }
            FromUpstream::Browsed { key } => self.browsed_there(at, key.0, effects),
            FromUpstream::Ended { key } => {
                self.consumer_ended(at, key.0, effects);
                if let Some(deputy) = self.deputies.list.get_mut(at) {
                    deputy.subscriptions.ended(key.0);
                }
                self.ask_upstream(at);
            }
            FromUpstream::Pong { round_trip } => {
                if let Some(deputy) = self.deputies.list.get_mut(at) {
                    deputy.round_trip = Some(round_trip);
                }
            }
            FromUpstream::Calls { taken } => self.calls_taken(at, taken, effects),
            FromUpstream::Serving { key, result } => self.serving(at, key, result),
            FromUpstream::Requests { taken, consumers } => {
                self.requests_taken(at, taken, effects);
                self.consumers_taken(at, taken && consumers, effects);
            }
            FromUpstream::Answered { request, result } => {
                self.relay_answered(at, (request, result), effects);
            }
            FromUpstream::Refused { key, close } => {
                if self.end_backfill(now, at, key.0, false, effects) {
                    return;
                }
                if self.deputies.has_consumer(at, key.0) {
                    self.consumer_refused(at, key.0, close, effects);
                    return;
                }
                self.refused(now, at, key.0, close, effects);
            }
        }
    }

    /// It has let this node in.
    fn link_up(
        &mut self,
        now: Now,
        session: SessionId,
        (upstream, epoch): (u16, u64),
        effects: &mut Effects,
    ) {
        let is_meant = |deputy: &Deputy| deputy.upstream == upstream;
        let Some(at) = self.deputies.list.iter().position(is_meant) else { return };
        if let Some(before) = self.deputies.list.get(at).and_then(|deputy| deputy.link) {
            self.link_lost(now, before, effects);
        }
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let is_other_life = deputy.epoch != 0 && deputy.epoch != epoch;
        (deputy.link, deputy.epoch) = (Some(session), epoch);
        deputy.held.wait_until(Time::NEVER);
        // Nobody will be told whether versions go on.
        let was_given_up = std::mem::take(&mut deputy.is_given_up);
        if was_given_up {
            deputy.subscriptions.forget_positions();
        }
        if was_given_up || is_other_life && !deputy.subscriptions.resume_some() {
            self.begin_anew(at);
        }
        self.need_all(now, at);
        self.ask_upstream(at);
    }

    /// The connection is lost.
    pub(crate) fn link_lost(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let is_its = |deputy: &Deputy| deputy.link == Some(session);
        let Some(at) = self.deputies.list.iter().position(is_its) else { return };
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let upstream = self.home.options.upstreams.get(usize::from(deputy.upstream));
        let timeout = upstream.map(|upstream| upstream.timeout).unwrap_or_default();
        (deputy.link, deputy.away, deputy.round_trip) = (None, now.time, None);
        deputy.has_begun_anew = false;
        deputy.numberings.unlink();
        let position = deputy.numberings.position(deputy.epoch);
        deputy.subscriptions.unlink(&position);
        deputy.held.wait_until(now.time + timeout);
        deputy.calls.note_taken(None);
        deputy.serves.unlink();
        self.give_up_backfills(now, at, effects);
        self.drop_said(at, effects);
        self.lose_relays(at, effects);
        self.lose_consumers(at, effects);
    }

    /// What was missed while the connection was lost is on its way, or was for clients.
    fn recovered(&mut self, at: usize, key: u32, (complete, continues): (bool, bool)) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        if deputy.backfills.note_recovered(key, complete) {
            return;
        }
        let Some(subscription) = deputy.subscriptions.get_mut(key) else { return };
        subscription.recovered = complete;
        if !complete {
            self.home.metrics.upstream_resyncs += 1;
            deputy.resyncs += 1;
        }
        if !continues {
            self.begin_anew(at);
        }
    }

    /// A subscription listens, and what it begins with has come.
    fn complete(&mut self, now: Now, at: usize, key: u32, effects: &mut Effects) {
        if self.end_backfill(now, at, key, true, effects) {
            return;
        }
        let last = self.home.home.last_number();
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let told = deputy.numberings.told();
        let Some(subscription) = deputy.subscriptions.get_mut(key) else { return };
        let goes_on = subscription.since.is_some() && subscription.recovered;
        let (target, asked_at) = (subscription.target.clone(), subscription.asked_at);
        let mut brought = subscription.take_brought();
        if goes_on {
            // What has changed has come. An upstream that is an edge itself may have yet to hear of values when it is asked.
            brought.values.extend(brought.topics.iter().copied());
        } else {
            subscription.anew = last;
            subscription.begun = told.into();
        }
        // Also of what goes on: topics that this node may not have any more have ended without a message.
        let is_there = match &target {
            Target::Exact(topic) => {
                let key = self.home.directory.find(&topic.path);
                key.is_none_or(|key| brought.values.contains(&key))
            }
            Target::Pattern(..) => false,
        };
        if !is_there {
            let until = deputy.subscriptions.gone_until(asked_at);
            deputy.sweep_not_brought(&target, until, brought);
        }
        if deputy.subscriptions.repeat(key) {
            return self.end_at_upstream(at, key);
        }
        let waiting = deputy.subscriptions.settle(key, State::Live);
        self.answer_settled(now, at, waiting, effects);
    }

    /// A subscription is settled: what waits for it is answered.
    pub(super) fn answer_settled(
        &mut self,
        now: Now,
        at: usize,
        waiting: Vec<Key>,
        effects: &mut Effects,
    ) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        deputy.note_whole();
        for held in waiting {
            let Some(deputy) = self.deputies.list.get_mut(at) else { return };
            if let Some(held) = deputy.held.settle(held) {
                self.answer_or_hold(now, held.from, held.what, held.ask, effects);
            }
        }
        self.ask_upstream(at);
    }

    /// Housekeeping; about every 50 ms.
    pub(crate) fn tick(&mut self, now: Now, effects: &mut Effects) {
        for at in 0..self.deputies.list.len() {
            while let Some(deputy) = self.deputies.list.get_mut(at)
                && let Some(held) = deputy.held.overdue(now.time)
            {
                for key in deputy.keys_of(&held.what) {
                    deputy.subscriptions.note_answered(key);
                }
                self.answer(now, held.from, held.what, held.ask, effects);
            }
            self.give_up_away(now, at);
            self.begin_backfills(at);
            let deputy = self.deputies.list.get_mut(at);
            if deputy.is_some_and(|deputy| deputy.subscriptions.end_waits(now.time)) {
                self.ask_upstream(at);
            }
            self.end_idle(now, at);
            self.end_overdue_relays(now, at, effects);
            self.look_at_calls(now, at, effects);
            self.serve_at_upstream(at);
            self.end_overdue_consumers(now, at, effects);
        }
    }
}
