//! What of sessions waits for its turn at a home, and how it gets it; see [`crate::work`].

use tiderace_base::{CloseCode, MemoryUse, Now, SessionId};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::ToPublisher;
use crate::places::{Place, key_of};
use crate::publisher::{Known, Room, Sent};
use crate::session_side::SessionSide;
use crate::temporary::TemporaryOwner;
use crate::work::{CHEAP, Deferred, PAUSE_AT, Publication, SPARED_BYTES_MAX, SessionQueue};
use std::sync::Arc;

impl HomeSide<'_> {
    /// Whether something of a session may be done at once; then it has been charged. Otherwise it is
    /// to be deferred.
    pub(crate) fn may_run(&mut self, now: Now, session: SessionId, price: u64) -> bool {
        if price > CHEAP || self.work.has(session) || self.work.left(now) < price {
            return false;
        }
        self.work.charge(price);
        true
    }

    /// Lets something of a session wait for its turn, behind what waits of it already. What is large is
    /// refused if there is no memory for it; the rest is bounded by what is read of a session at once.
    pub(crate) fn defer(&mut self, session: SessionId, what: Deferred, effects: &mut Effects) {
        let bytes = what.bytes();
        if bytes > SPARED_BYTES_MAX && !self.memory.has_room(MemoryUse::Input, bytes) {
            return self.refuse_deferred(what, effects);
        }
        self.memory.charge(MemoryUse::Input, bytes);
        let price = self.price_of(&what);
        let work = &mut self.work;
        work.deferred += 1;
        work.deferred_total += 1;
        work.bytes += bytes;
        let queue = work.queues.entry(session).or_default();
        queue.push(what);
        let count = queue.len();
        let pauses = count >= PAUSE_AT && !std::mem::replace(&mut queue.paused, count >= PAUSE_AT);
        if count == 1 {
            work.list(session, price);
        }
        if pauses {
            self.tell_deferred(session, true, effects);
        }
    }

    fn refuse_deferred(&mut self, what: Deferred, effects: &mut Effects) {
        let close = CloseCode::MemoryFull.into();
        match what {
            Deferred::Operation(asked) => {
                self.loopback.answer_operation(&asked.0, Err(close), effects)
            }
            Deferred::Publication(it) => {
                let blame = it.confirm.map(|confirm| confirm.from);
                self.refuse_run(Some(it.origin), it.confirm, blame, &close, effects);
            }
            Deferred::Together(it) => {
                it.1.into_iter().for_each(|part| self.refuse_part(part, &close, effects));
            }
            // It is small, and not refused.
            Deferred::ForConsumer(_) => {}
        }
    }

    /// Takes what of a session is first, if it is its turn: it can be done, and costs no more than that.
    pub(crate) fn take_first(&mut self, session: SessionId, most: u64) -> Option<Deferred> {
        let first = self.work.queues.get(&session).and_then(SessionQueue::first)?;
        let price = self.price_of(first);
        if self.is_blocked(first) {
            self.work.blocked.push(session);
            return None;
        }
        if price > most {
            self.work.dear.push_back(session);
            return None;
        }
        self.work.charge(price);
        let what = self.work.queues.get_mut(&session).and_then(SessionQueue::take_first)?;
        self.work.deferred -= 1;
        self.work.bytes -= what.bytes();
        self.memory.refund(MemoryUse::Input, what.bytes());
        Some(what)
    }

    /// A session's turn is over: lists it for the next one if it has more.
    pub(crate) fn end_turn_of(&mut self, session: SessionId, effects: &mut Effects) {
        let Some(queue) = self.work.queues.get_mut(&session) else { return };
        let resumes = queue.paused && queue.len() <= PAUSE_AT / 2;
        queue.paused &= !resumes;
        if queue.is_empty() {
            self.work.queues.remove(&session);
        }
        if resumes {
            self.tell_deferred(session, false, effects);
        }
        let next = self.work.queues.get(&session).and_then(SessionQueue::first);
        if let Some(price) = next.map(|next| self.price_of(next)) {
            self.work.list(session, price);
        }
    }

    /// Does it; what is left of it if it takes more than this turn.
    pub(crate) fn do_deferred(
        &mut self,
        now: Now,
        what: Deferred,
        owner: TemporaryOwner,
        effects: &mut Effects,
    ) -> Option<Deferred> {
        match what {
            Deferred::Operation(asked) => {
                let (requester, operation) = *asked;
                self.do_operation(now, requester, operation, effects);
                None
            }
            Deferred::Publication(publication) => {
                let Publication { from, run, origin, author, confirm, checked } = *publication;
                // A topic that has got another specification meanwhile takes other values.
                let spec = || {
                    Some(&self.directory.get(self.directory.find(&run.destination().path)?)?.spec)
                };
                let checked = checked
                    .filter(|known| spec().is_some_and(|spec| Arc::ptr_eq(spec, &known.spec)))
                    .map_or(0, |known| known.values);
                let known = Known { owner, checked, room: Room::Unknown };
                let sent = Sent { from, run, origin: Some(origin), author, confirm };
                self.number_and_pass(now, sent, known, effects).map(Deferred::Publication)
            }
            Deferred::ForConsumer(it) => {
                self.do_for_consumer(now, *it, effects);
                None
            }
            Deferred::Together(_) => {
                debug_assert!(false, "done by the wiring, which knows who gets what is published");
                None
            }
        }
    }

    /// What is left of something deferred comes before all else of its session.
    pub(crate) fn put_back(&mut self, session: SessionId, rest: Deferred) {
        let bytes = rest.bytes();
        self.memory.charge(MemoryUse::Input, bytes);
        self.work.deferred += 1;
        self.work.bytes += bytes;
        self.work.queues.entry(session).or_default().put_back(rest);
    }

    /// Tells a session's shard that so much of it is deferred here that it is not to be read, or that
    /// it is to be read again.
    fn tell_deferred(&mut self, session: SessionId, on: bool, effects: &mut Effects) {
        self.send(Place::of(session), ToPublisher::Deferred { session, on }, effects);
    }
}

impl SessionSide<'_> {
    /// On the session's shard.
    pub(crate) fn pause_for_work(&mut self, session: SessionId, on: bool, effects: &mut Effects) {
        let Some(record) = self.sessions.get_mut(key_of(session)) else { return };
        if on {
            record.backpressured_by += 1;
            if record.backpressured_by == 1 {
                self.metrics.publishers_paused += 1;
                effects.pause.push((record.link, session));
            }
        } else {
            record.backpressured_by = record.backpressured_by.saturating_sub(1);
            if record.backpressured_by == 0 {
                effects.resume.push((record.link, session));
            }
        }
    }
}
