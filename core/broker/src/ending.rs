//! The end of a session, and subscriptions and exchanges of one session that end together: what waits for
//! them is taken out of its backlog in one pass.
//!
//! Looking through a backlog for each of them would cost the product of both. So the first of several that
//! end in one call takes out what waits for all of them, and each of the others looks only at what has come
//! since. Relies on nothing being delivered within a call, and on a backlog's lines noting where they were
//! looked through. Invariant: nothing is left in a backlog for a subscription that has ended, or for an
//! exchange that its session has ended.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Ending;
use tiderace_wire::{Command, Run, SubscriptionKey};

use crate::collections::Map;
use crate::delivery::backlog::{For, Pending, Source};
use crate::effects::Effects;
use crate::places::key_of;
use crate::price::BACKLOG_LOOK;
use crate::session_side::SessionSide;
use crate::together::{EndingTogether, FEW};

/// What a session that ends takes along.
#[derive(Debug)]
pub(crate) struct Closing {
    /// What is published now.
    pub(crate) will: Option<Box<Run>>,
    pub(crate) ending: Ending,
    /// Its subscriptions.
    pub(crate) keys: Vec<SubscriptionKey>,
    pub(crate) together: Option<Box<EndingTogether>>,
}

impl SessionSide<'_> {
    /// A session is about to end: what it takes along, or nothing if it has gone.
    pub(crate) fn begin_close(&mut self, session: SessionId) -> Option<Closing> {
        let record = self.sessions.get_mut(key_of(session))?;
        let memory = self.memory;
        let will = record.rare.as_mut().and_then(|rare| rare.take_will(memory));
        let leaving = record.rare.as_ref().is_some_and(|rare| rare.leaving);
        let ending = if leaving { Ending::Orderly } else { Ending::Lost };
        let keys = record.subscriptions.keys();
        // All at once, and not for each subscription.
        self.close_throttles(key_of(session), None);
        self.take_back(session, |pending| pending.source == Source::Topic);
        let together = self.begin_ending_all(session, &keys);
        Some(Closing { will, ending, keys, together })
    }

    /// A session has ended, with all its subscriptions and exchanges.
    pub(crate) fn end_session(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        self.sessions.forget_gathers(session);
        self.forget_all_asked(session);
        self.hide_session(now, session, effects);
        self.caught_up(key_of(session), effects);
        self.sessions.wait_no_more(session);
        if let Some(record) = self.sessions.remove(key_of(session)) {
            self.delivery.count(record.waiting_bytes(), 0);
            self.metrics.sessions -= 1;
        }
    }

    /// A command ends something of a session, and so may others behind it: all of that, if much waits.
    pub(crate) fn begin_ending(
        &self,
        session: SessionId,
        first: For,
        rest: &[Command],
    ) -> Option<Box<EndingTogether>> {
        self.waits_much(session).then(|| {
            let mut ends: Map<For, u32> = Map::default();
            for what in std::iter::once(first).chain(rest.iter().filter_map(For::ended_by)) {
                *ends.entry(what).or_default() += 1;
            }
            end_together(session, ends)
        })
    }

    /// All subscriptions of a session end.
    fn begin_ending_all(
        &self,
        session: SessionId,
        keys: &[SubscriptionKey],
    ) -> Option<Box<EndingTogether>> {
        self.waits_much(session).then(|| {
            let ends = keys.iter().map(|key| (For::Subscription(*key), 1)).collect();
            end_together(session, ends)
        })
    }

    fn waits_much(&self, session: SessionId) -> bool {
        let backlog = self.session(session).and_then(|record| record.backlog.as_ref());
        backlog.is_some_and(|backlog| backlog.entries() > FEW)
    }

    /// The call is over.
    pub(crate) fn finish_ending(&mut self, together: Option<Box<EndingTogether>>) {
        let Some(together) = together else { return };
        let record = self.sessions.get_mut(together.session);
        if let Some(backlog) = record.and_then(|record| record.backlog.as_mut()) {
            backlog.forget_looked();
        }
    }

    /// Takes out of a session's backlog what is for something that ends; returns it, and how many bytes
    /// are left.
    pub(crate) fn take_ended(
        &mut self,
        session: SessionId,
        what: For,
        together: &mut Option<Box<EndingTogether>>,
    ) -> (Vec<Pending>, usize) {
        let known = together.as_deref_mut();
        let Some(EndingTogether { ends, taken, .. }) =
            known.filter(|it| it.session == key_of(session) && it.ends.contains_key(&what))
        else {
            return self.take_back(session, |pending| For::of(pending) == what);
        };
        let (found, left) = self.take_newer(session, |it| ends.contains_key(&For::of(it)));
        for pending in found {
            taken.entry(For::of(&pending)).or_default().push(pending);
        }
        (taken.remove(&what).unwrap_or_default(), left)
    }

    /// Takes out of a session's backlog what is for nobody any more; returns it, and how many bytes
    /// are left.
    pub(crate) fn take_back(
        &mut self,
        session: SessionId,
        gone: impl Fn(&Pending) -> bool,
    ) -> (Vec<Pending>, usize) {
        self.take_out(session, false, gone)
    }

    /// The same of what has come since it was looked through last in the present call.
    fn take_newer(
        &mut self,
        session: SessionId,
        gone: impl Fn(&Pending) -> bool,
    ) -> (Vec<Pending>, usize) {
        self.take_out(session, true, gone)
    }

    fn take_out(
        &mut self,
        session: SessionId,
        newer: bool,
        gone: impl Fn(&Pending) -> bool,
    ) -> (Vec<Pending>, usize) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else {
            return (Vec::new(), 0);
        };
        let before = record.backlog_bytes();
        let (mut taken, mut looked) = (Vec::new(), 0);
        if let Some(backlog) = record.backlog.as_mut() {
            (taken, looked) = backlog.remove(newer, gone);
        }
        record.tidy_backlog();
        let after = record.backlog_bytes();
        self.delivery.count(before, after);
        self.work.charge(BACKLOG_LOOK * looked as u64);
        (taken, after)
    }
}

/// What ends in a call, of which nothing has been taken out yet.
fn end_together(session: SessionId, ends: Map<For, u32>) -> Box<EndingTogether> {
    Box::new(EndingTogether { session: key_of(session), ends, taken: Map::default() })
}
