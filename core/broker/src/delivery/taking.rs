//! From a session's backlog to what carries it.
//!
//! Called for every delivery, so that what few sessions need stands in functions of its own. Relies on
//! `backlog.rs` for the order. Invariant: whatever waits for a backlog to become shorter goes on here.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::SubscriptionKey;

use crate::broker::Broker;
use crate::delivery::backlog::{Left, Pending, Source};
use crate::effects::Effects;
use crate::places::key_of;

impl Broker {
    /// Takes the session's next delivery out of its backlog.
    pub fn next(&mut self, now: Now, session: SessionId, effects: &mut Effects) -> Option<Pending> {
        let mut pending = self.take_next(now, session, effects)?;
        if pending.source.is_place() {
            pending = self.next_behind(now, session, pending, effects)?;
        }
        self.take_loopback(now, effects);
        Some(pending)
    }

    /// The same behind the end of an exchange or the place of a page, which are no deliveries.
    #[cold]
    fn next_behind(
        &mut self,
        now: Now,
        session: SessionId,
        mut place: Pending,
        effects: &mut Effects,
    ) -> Option<Pending> {
        loop {
            match place.exchange_key() {
                Some(exchange) => self.take_end(session, exchange, effects),
                None => self.ask_behind_taken(now, session, effects),
            }
            self.take_loopback(now, effects);
            let pending = self.take_next(now, session, effects)?;
            if !pending.source.is_place() {
                return Some(pending);
            }
            place = pending;
        }
    }

    #[inline]
    fn take_next(
        &mut self,
        now: Now,
        session: SessionId,
        effects: &mut Effects,
    ) -> Option<Pending> {
        let record = self.sessions.get_mut(key_of(session))?;
        let backlog = record.backlog.as_mut()?;
        let before = backlog.bytes();
        let mut pending = backlog.pop()?;
        let after = backlog.bytes();
        if let Some(empty) = record.backlog.take_if(|backlog| backlog.is_idle()) {
            self.delivery.spares.give(empty);
        }
        self.delivery.waiting_bytes -= before - after;
        if record.rare.is_some() {
            self.note_taken(now, session, &mut pending, after, effects);
        }
        if pending.source == Source::AutoQueue {
            self.accept_taken(session, &pending, effects);
        }
        Some(pending)
    }

    /// What else follows when a delivery is taken and so many bytes are left: of sessions that recover,
    /// are slow, or wait for pages or for credit that was given back.
    fn note_taken(
        &mut self,
        now: Now,
        session: SessionId,
        pending: &mut Pending,
        left: usize,
        effects: &mut Effects,
    ) {
        let key = key_of(session);
        let Some(record) = self.sessions.get_mut(key) else { return };
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
    }

    /// Messages of a queue whose subscription settles nothing are accepted when they are taken.
    fn accept_taken(&mut self, session: SessionId, pending: &Pending, effects: &mut Effects) {
        let run = pending.run.run();
        let (first, last) =
            (run.first() + u64::from(pending.from), run.first() + u64::from(pending.to) - 1);
        self.settle_towards(
            run.home(),
            session,
            pending.key,
            vec![(first, last)],
            Settlement::Accept,
            effects,
        );
    }

    /// Many deliveries are about to be taken: asks memory for what the first of them refer to. For those
    /// behind, [`Broker::next`] does it.
    pub fn look_ahead(&self, session: SessionId) {
        let backlog = self.session(session).and_then(|record| record.backlog.as_ref());
        if let Some(backlog) = backlog {
            backlog.look_ahead();
        }
    }

    /// Several sessions are about to take deliveries: asks memory for what the next of this one refers
    /// to, and says which subscription it is for.
    pub fn glance(&self, session: SessionId) -> Option<SubscriptionKey> {
        let pending = self.session(session)?.backlog.as_ref()?.front()?;
        std::hint::black_box(pending.run.run().bytes());
        Some(pending.key)
    }

    /// Deliveries are being taken: what is left of them.
    pub fn left(&self, session: SessionId) -> Left {
        let backlog = self.session(session).and_then(|record| record.backlog.as_ref());
        backlog.map_or(Left::Nothing, |backlog| backlog.left())
    }

    /// Whether anything waits for the session's connection.
    pub fn has_backlog(&self, session: SessionId) -> bool {
        self.session(session).is_some_and(|record| record.has_deliveries())
    }
}
