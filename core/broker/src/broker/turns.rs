//! What is done between calls: deferred operations, and slices of what would be too much for one call.
//!
//! Relies on each room for what it has to do. Invariant: a turn does no more than its budgets and one slice of each.

use tiderace_base::{Now, SessionId};

use super::Broker;
use crate::effects::Effects;
use crate::messages::ToHome;
use crate::places::PlaceSet;
use crate::temporary::TemporaryOwner;
use crate::work::{CHEAP, Deferred};

impl Broker {
    /// Whether views have something to do, of which a part is done whenever the broker is called.
    pub fn views_have_work(&self) -> bool {
        self.views.has_jobs()
    }

    /// Whether something is deferred that can be done.
    pub fn has_deferred(&self) -> bool {
        !self.work.cheap.is_empty() || !self.work.dear.is_empty()
    }

    /// Runs deferred operations within the turn's budget: cheap ones first, then dear ones, of which
    /// one is always run; then a turn's part of what views have to do. To be called once a turn while
    /// [`Broker::has_deferred`] or [`Broker::views_have_work`], but not while messages
    /// to other shards are behind.
    pub fn run_deferred(&mut self, now: Now, effects: &mut Effects) {
        self.work.begin_turn(now);
        while self.work.left > 0 {
            let Some(session) = self.work.cheap.pop_front() else { break };
            self.run_first(now, session, CHEAP, effects);
        }
        // Each of them at most once, for one that is blocked costs nothing.
        for _ in 0..self.work.dear.len() {
            let Some(session) = self.work.dear.pop_front() else { break };
            let ran = self.run_first(now, session, u64::MAX, effects);
            if ran && self.work.left == 0 {
                break;
            }
        }
        if self.views.has_jobs() {
            self.view_side().begin_turn();
        }
        self.end_call(now, effects);
    }

    /// Tells other homes who has how much in queues here.
    pub(super) fn tell_accounts(&mut self, effects: &mut Effects) {
        let here = self.loopback.here();
        let others = PlaceSet::all(self.options.shards).minus(self.loopback.lost()).without(here);
        for (owner, bytes) in self.home.queues_mut().account_news() {
            for place in others.iter() {
                let message = ToHome::AccountBytes { owner: owner.clone(), bytes };
                self.loopback.send(place, message, effects);
            }
        }
    }

    /// Gives a session its turn: whether something was done.
    fn run_first(
        &mut self,
        now: Now,
        session: SessionId,
        most: u64,
        effects: &mut Effects,
    ) -> bool {
        let Some(what) = self.home_side().take_first(session, most) else { return false };
        match what {
            Deferred::Together(together) => {
                let (from, parts) = *together;
                let parts = self.with_recipients(parts);
                self.home_side().do_together(now, from, parts, effects);
            }
            what => self.do_first(now, session, what, effects),
        }
        // Before the answers are taken in: what the session asks for then is listed when it is deferred.
        self.home_side().end_turn_of(session, effects);
        self.take_loopback(now, effects);
        true
    }

    fn do_first(&mut self, now: Now, session: SessionId, what: Deferred, effects: &mut Effects) {
        let owner = match &what {
            Deferred::Publication(publication) => self.temporary_owner(&publication.run),
            _ => TemporaryOwner::NotTemporary,
        };
        let mut home = self.home_side();
        if let Some(rest) = home.do_deferred(now, what, owner, effects) {
            home.put_back(session, rest);
        }
    }

    /// Whether there is something to do that would have been too much for one call.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.home.has_requested_pages()
            || self.home.has_removals()
            || self.home.has_lost()
            || self.home.queues().has_work()
            || self.home.queue_jobs().has_work()
            || !self.home.feeds().backlog().is_empty()
            || self.home.notice_interest().has_requests()
            || self.delivery.is_selecting()
            || self.sessions.presence().changes_waiting() > 0
            || self.sessions.has_refused_targets()
            || self.notices.has_work()
            || self.exchanges.has_withdrawn()
            || self.deputies.has_work()
    }

    /// Does a slice of it; to be called once per turn while there is some.
    pub fn work(&mut self, now: Now, effects: &mut Effects) {
        let mut home = self.home_side();
        home.give_pages(now, effects);
        home.remove_more(now, effects);
        home.queue_work(now, effects);
        home.work_on_queue_jobs(now, effects);
        home.feed_more(now, effects);
        self.loss_side().work_on_lost(now, effects);
        if self.deputies.has_work() {
            self.deputy_side().sweep(now, effects);
        }
        self.hand_on(now, effects);
        let mut sessions = self.session_side();
        sessions.select_more(now, effects);
        sessions.change_more(now, effects);
        self.home_side().give_topics(now, effects);
        self.notice_side().sweep_notices(now);
        self.end_refused(now, effects);
        self.exchange_side().end_withdrawn(now, effects);
        self.end_call(now, effects);
    }
}
