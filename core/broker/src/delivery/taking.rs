//! From a session's backlog to what carries it.
//!
//! Called for every delivery, so that what few sessions need stands in functions of its own. Relies on
//! `backlog.rs` for the order. Invariant: whatever waits for a backlog to become shorter goes on here.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::Root;

use crate::delivery::Deliveries;
use crate::delivery::backlog::Pending;
use crate::effects::Effects;
use crate::places::key_of;
use crate::session_side::SessionSide;
use crate::sessions::Sessions;

impl Deliveries {
    /// Takes a session's next delivery out of its backlog: how many bytes are left, and whether more is to follow
    /// from that.
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        sessions: &mut Sessions,
        session: SessionId,
    ) -> Option<(Pending, usize, bool)> {
        let record = sessions.get_mut(key_of(session))?;
        let backlog = record.backlog.as_mut()?;
        let before = backlog.bytes();
        let pending = backlog.pop()?;
        let after = backlog.bytes();
        if let Some(empty) = record.backlog.take_if(|backlog| backlog.is_idle()) {
            self.spares.give(empty);
        }
        self.waiting_bytes -= before - after;
        Some((pending, after, record.rare.is_some()))
    }
}

impl SessionSide<'_> {
    /// What else follows when a delivery is taken and so many bytes are left: of sessions that recover,
    /// are slow, or wait for pages or for credit that was given back. Says whether the session is told of
    /// it, as its virtual host calls it.
    pub(crate) fn note_taken(
        &mut self,
        now: Now,
        session: SessionId,
        pending: &mut Pending,
        left: usize,
        effects: &mut Effects,
    ) -> bool {
        let key = key_of(session);
        let Some(record) = self.sessions.get_mut(key) else { return true };
        let is_told = record.root().is_none_or(|root| leave_host(root, pending));
        if let Some(rare) = record.rare.as_mut().filter(|rare| rare.recovering > 0) {
            rare.note_reached(pending.run.run().home(), std::mem::take(&mut pending.reached));
        }
        let short = left == 0 || left < self.options.backlog_bytes_low;
        let relaxed = record.slow().is_some() && short;
        let pages = record.waits_for_pages();
        let refunded = record.rare.as_ref().is_some_and(|rare| rare.refunded.is_some());
        if pages {
            self.ask_for_pages(session, effects);
        }
        if relaxed {
            self.caught_up(key, effects);
        }
        if refunded {
            self.use_refunds(now, session, effects);
        }
        is_told
    }

    /// Settles messages of a queue when they are taken: they are accepted if their subscription settles nothing.
    pub(crate) fn settle_taken(
        &mut self,
        session: SessionId,
        pending: &Pending,
        settlement: Settlement,
        effects: &mut Effects,
    ) {
        let run = pending.run.run();
        let (first, last) =
            (run.first() + u64::from(pending.from), run.first() + u64::from(pending.to) - 1);
        self.settle_towards(
            run.home(),
            session,
            pending.key,
            vec![(first, last)],
            settlement,
            effects,
        );
    }
}

/// A delivery with the name that a client of the host has for where it comes from; whether it is told of it.
fn leave_host(root: &Root, pending: &mut Pending) -> bool {
    if let Some(renamed) = pending.run.renamed(root) {
        pending.run = renamed;
        return true;
    }
    // An exchange belongs to those who take part in it.
    pending.exchange_key().is_some()
        || pending.source.is_place()
        || root.shows(&pending.run.run().destination().path)
}
