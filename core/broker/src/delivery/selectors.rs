//! Selectors of topic subscriptions: what is evaluated for a message, and when.
//!
//! Subscriptions with the same selector share it, and its result for a run of messages. Evaluating costs
//! what the selector and the message's properties make it cost, and is paid from a budget for each turn.
//! When that is used up, a session's subscriptions with selectors get their messages later: they wait
//! with their session, and the sessions take turns, a slice each. So a session that has thousands of dear
//! selectors waits for them, and nobody else does.
//!
//! Invariants: a subscription gets the messages of a topic in their order, because whatever comes while
//! something waits for its session's selectors waits behind it; no position includes what waits; what
//! waits of one session is bounded by its mark and by [`WAITING_MAX`], beyond which it is given up.

use std::rc::Rc;

use tiderace_base::{Key, Now};
use tiderace_topics::Path;
use tiderace_wire::{Kind, SharedRun, Subscribe};

use super::backlog::{Pending, Source};
use super::selection::{SHARED_STEPS, SLICE_STEPS, TURN_STEPS, Unselected, WAITING_MAX, Waiting};
use crate::authorise::Caller;
use crate::effects::Effects;
use crate::places::Place;
use crate::session_side::SessionSide;
use crate::subscriber_list::Subscriber;
use crate::{Action, Principal};

impl SessionSide<'_> {
    /// Lets a new subscription share its selector with others that have the same.
    pub(crate) fn share_selector(&mut self, subscribe: &mut Subscribe) {
        if let Some(selector) = &mut subscribe.selector {
            self.delivery.selectors.share(selector);
        }
    }

    /// A subscription with a selector is offered a run: it gets what it wants of it, now or later.
    pub(crate) fn offer_selected(
        &mut self,
        now: Now,
        topic: Key,
        to: Subscriber,
        run: &Rc<SharedRun>,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.get(to.session) else { return };
        let Some(subscription) = record.subscription(to.key) else { return };
        let listening = subscription.targets.as_slice().get(usize::from(to.target));
        if listening
            .is_none_or(|listening| listening.waiting.contains(Place::here(run.run().home())))
        {
            return;
        }
        let waits = record.rare.as_ref().is_some_and(|rare| rare.unselected.is_some());
        if waits || self.delivery.selectors.left(now) == 0 {
            let epoch = subscription.epoch;
            return self.select_later(topic, to, epoch, run);
        }
        let price = self.give_selected(now, topic, to, run, effects);
        self.delivery.selectors.left = self.delivery.selectors.left.saturating_sub(price);
        self.work.charge_at(now, u64::from(price));
    }

    /// Gives a subscription what its selector selects of a run; what that cost.
    fn give_selected(
        &mut self,
        now: Now,
        topic: Key,
        to: Subscriber,
        run: &Rc<SharedRun>,
        effects: &mut Effects,
    ) -> u32 {
        let record = self.sessions.get(to.session);
        let subscription = record.and_then(|record| record.subscription(to.key));
        let Some(selector) = subscription.and_then(|known| known.selector.as_ref()) else {
            return SHARED_STEPS;
        };
        let (stretches, price) = self.delivery.selectors.select(now, selector, run);
        for (from, end) in stretches.iter().copied() {
            let reached = run.run().first() + u64::from(end) - 1;
            let part = Pending {
                key: to.key,
                run: run.clone(),
                from,
                to: end,
                redeliveries: 0,
                reached,
                source: Source::Topic,
                is_past: false,
            };
            self.push_or_hold(now, topic, to.session, part, effects);
        }
        price
    }

    /// The budget is used up, or something waits already.
    fn select_later(&mut self, topic: Key, to: Subscriber, epoch: u32, run: &Rc<SharedRun>) {
        let mark = self.mark_of(to.session);
        let Some(record) = self.sessions.get_mut(to.session) else { return };
        let rare = record.rare.get_or_insert_default();
        let first = rare.unselected.is_none();
        let waiting = rare.unselected.get_or_insert_default();
        let bytes = run.run().bytes();
        let rules = self.options.rules_version;
        let same = |last: &&mut Waiting| {
            last.topic == topic && last.rules == rules && Rc::ptr_eq(&last.run, run)
        };
        if let Some(last) = waiting.runs.back_mut().filter(same)
            && waiting.entries < WAITING_MAX
        {
            last.to.push((to, epoch));
        } else if waiting.runs.is_empty()
            || waiting.entries < WAITING_MAX && waiting.bytes + bytes <= mark
        {
            let to = vec![(to, epoch)];
            waiting.runs.push_back(Waiting { topic, run: run.clone(), to, at: 0, rules });
            waiting.bytes += bytes;
            self.delivery.count(0, bytes);
        } else {
            let count = run.run().len() as u64;
            self.metrics.dropped_newest += count;
            return self.note_given_up(to.session, 0, count);
        }
        waiting.entries += 1;
        if to.flags.recoverable() && !std::mem::replace(&mut waiting.recovering, true) {
            rare.recovering += 1;
        }
        if first {
            self.delivery.selectors.behind.push_back(to.session);
        }
    }

    /// Goes on with what waits for selectors, within a budget; to be called once a turn.
    pub(crate) fn select_more(&mut self, now: Now, effects: &mut Effects) {
        self.delivery.selectors.left(now);
        self.delivery.selectors.left = TURN_STEPS;
        while self.delivery.selectors.left > 0
            && let Some(session) = self.delivery.selectors.behind.pop_front()
        {
            let record = self.sessions.get_mut(session);
            let rare = record.and_then(|record| record.rare.as_mut());
            let Some(mut waiting) = rare.and_then(|rare| rare.unselected.take()) else { continue };
            let mut slice = SLICE_STEPS.min(self.delivery.selectors.left);
            let whole = slice;
            while slice > 0
                && let Some(first) = waiting.runs.front_mut()
            {
                let Some((to, epoch)) = first.to.get(first.at).copied() else {
                    let bytes = first.run.run().bytes();
                    waiting.bytes -= bytes;
                    self.delivery.count(bytes, 0);
                    waiting.runs.pop_front();
                    continue;
                };
                first.at += 1;
                waiting.entries -= 1;
                let (of, run) = ((first.topic, first.rules), first.run.clone());
                let price = self.give_later(now, of, (to, epoch), &run, effects);
                slice = slice.saturating_sub(price);
            }
            self.delivery.selectors.left =
                self.delivery.selectors.left.saturating_sub(whole - slice);
            self.work.charge_at(now, u64::from(whole - slice));
            self.end_slice(session, waiting, effects);
        }
    }

    /// The same of one subscription, unless it has ended meanwhile.
    fn give_later(
        &mut self,
        now: Now,
        (topic, rules): (Key, u32),
        (to, epoch): (Subscriber, u32),
        run: &Rc<SharedRun>,
        effects: &mut Effects,
    ) -> u32 {
        let record = self.sessions.get_mut(to.session);
        let Some(record) = record else { return SHARED_STEPS };
        if record.subscription(to.key).is_none_or(|known| known.epoch != epoch) {
            return SHARED_STEPS;
        }
        if to.flags.recoverable() {
            record.make_room(run.run().home(), run.run().first().saturating_sub(1));
        }
        let path = &run.run().destination().path;
        let is_asked = rules != self.options.rules_version;
        if self.is_disowned(topic, to) || is_asked && !self.may_have(to, path) {
            return SHARED_STEPS;
        }
        self.give_selected(now, topic, to, run, effects)
    }

    /// Whether a subscriber may have what has waited for it: rules may have changed meanwhile.
    fn may_have(&self, to: Subscriber, path: &Path) -> bool {
        let record = self.sessions.get(to.session);
        let principal = record.and_then(|record| record.principal.as_ref());
        let session = self.id_of(to.session);
        let may = |principal: &Rc<Principal>| {
            let caller = Caller { session, principal };
            self.options.may(caller, Action::Subscribe, Kind::Topic, path)
        };
        principal.is_some_and(may) || self.is_owned(session, to.key)
    }

    fn end_slice(&mut self, session: Key, waiting: Box<Unselected>, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(session) else { return };
        let rare = record.rare.get_or_insert_default();
        if !waiting.runs.is_empty() {
            rare.unselected = Some(waiting);
            return self.delivery.selectors.behind.push_back(session);
        }
        if waiting.recovering {
            self.end_recovering(self.id_of(session), effects);
        } else if rare.is_empty() {
            record.rare = None;
        }
    }
}

#[cfg(test)]
mod tests;
