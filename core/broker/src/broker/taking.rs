//! From a session's backlog to what carries it.
//!
//! Called for every delivery, so that what few sessions need stands in functions of its own. Relies on
//! `delivery/taking.rs`. Invariant: whatever waits for a backlog to become shorter goes on here.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::{Reply, SubscriptionKey};

use super::Broker;
use crate::delivery::backlog::Source;
use crate::delivery::{Left, Pending};
use crate::effects::Effects;
use crate::places::key_of;
use crate::session::Session;

impl Broker {
    /// Takes the session's next delivery out of its backlog.
    pub fn next(&mut self, now: Now, session: SessionId, effects: &mut Effects) -> Option<Pending> {
        self.next_within(now, session, |_| true, effects)
    }

    /// The same of a session that does not take all bodies that lie in files: whether it takes one of so many bytes. One
    /// that it does not take is passed over; a message of a queue goes back there, as if it had been rejected.
    pub fn next_within(
        &mut self,
        now: Now,
        session: SessionId,
        takes: impl Fn(usize) -> bool,
        effects: &mut Effects,
    ) -> Option<Pending> {
        let mut pending = self.take_next(now, session, effects)?;
        if pending.source.is_place() {
            pending = self.next_behind(now, session, pending, effects)?;
        }
        if pending.run.run().body_in_file().is_some() {
            return self.next_in_file(now, session, pending, &takes, effects);
        }
        self.take_loopback(now, effects);
        Some(pending)
    }

    /// The same behind the end of an exchange or of a queue or the place of a page, which are no deliveries.
    #[cold]
    fn next_behind(
        &mut self,
        now: Now,
        session: SessionId,
        mut place: Pending,
        effects: &mut Effects,
    ) -> Option<Pending> {
        loop {
            match (place.exchange_key(), place.source) {
                (Some(exchange), _) => self.exchange_side().take_end(session, exchange, effects),
                (None, Source::QueueEnd) => {
                    self.session_side().reply(session, Reply::Browsed { key: place.key }, effects);
                }
                (None, Source::ReachedUpstream) => {
                    self.session_side().take_reached_upstream(session, &place, effects);
                }
                (None, _) => self.notice_side().ask_behind_taken(now, session, effects),
            }
            self.take_loopback(now, effects);
            let pending = self.take_next(now, session, effects)?;
            if !pending.source.is_place() {
                return Some(pending);
            }
            place = pending;
        }
    }

    #[inline(always)]
    fn take_next(
        &mut self,
        now: Now,
        session: SessionId,
        effects: &mut Effects,
    ) -> Option<Pending> {
        let (mut pending, left, more) = self.delivery.take(&mut self.sessions, session)?;
        if more && !self.note_taken(now, session, &mut pending, left, effects) {
            pending = self.take_shown(now, session, pending, effects)?;
        }
        if pending.source == Source::AutoQueue {
            self.accept_taken(session, &pending, effects);
        }
        Some(pending)
    }

    /// The first that the session is told of, behind one that it is not: of another virtual host.
    #[cold]
    fn take_shown(
        &mut self,
        now: Now,
        session: SessionId,
        mut hidden: Pending,
        effects: &mut Effects,
    ) -> Option<Pending> {
        loop {
            if hidden.source.is_queue() {
                self.session_side().settle_taken(session, &hidden, Settlement::Reject, effects);
            }
            self.take_loopback(now, effects);
            let (mut pending, left, more) = self.delivery.take(&mut self.sessions, session)?;
            if !more || self.note_taken(now, session, &mut pending, left, effects) {
                return Some(pending);
            }
            hidden = pending;
        }
    }

    /// The first that the session takes, from one on whose body lies in a file.
    #[cold]
    fn next_in_file(
        &mut self,
        now: Now,
        session: SessionId,
        mut pending: Pending,
        takes: &dyn Fn(usize) -> bool,
        effects: &mut Effects,
    ) -> Option<Pending> {
        while pending.run.run().body_in_file().is_some_and(|body| !takes(body.len())) {
            self.pass_over(session, &pending, effects);
            pending = self.take_next(now, session, effects)?;
            if pending.source.is_place() {
                pending = self.next_behind(now, session, pending, effects)?;
            }
        }
        if pending.source == Source::AutoQueue && pending.run.run().body_in_file().is_some() {
            self.session_side().settle_taken(session, &pending, Settlement::Accept, effects);
        }
        self.take_loopback(now, effects);
        Some(pending)
    }

    /// A session does not get a message that its protocol cannot carry.
    #[cold]
    fn pass_over(&mut self, session: SessionId, pending: &Pending, effects: &mut Effects) {
        self.metrics.dropped_too_large += 1;
        if pending.source.is_queue() {
            self.session_side().settle_taken(session, pending, Settlement::Reject, effects);
        }
    }

    /// Whether the session is told of it. Apart from [`Broker::next`], which most deliveries leave without a side of the
    /// shard.
    #[inline(never)]
    fn note_taken(
        &mut self,
        now: Now,
        session: SessionId,
        pending: &mut Pending,
        left: usize,
        effects: &mut Effects,
    ) -> bool {
        let is_told = self.session_side().note_taken(now, session, pending, left, effects);
        // Behind that, which takes what the delivery has said of positions where its credit is to stand.
        if let Some(exchange) = pending.begun_exchange() {
            self.exchange_side().begin_taken(session, exchange, pending);
        }
        is_told
    }

    #[inline(never)]
    fn accept_taken(&mut self, session: SessionId, pending: &Pending, effects: &mut Effects) {
        // Whether it is taken at all is asked first where it lies in a file.
        if pending.run.run().body_in_file().is_none() {
            self.session_side().settle_taken(session, pending, Settlement::Accept, effects);
        }
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
    #[inline]
    pub fn peek(&self, session: SessionId) -> Option<SubscriptionKey> {
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

    pub(crate) fn session(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(key_of(session))
    }
}
