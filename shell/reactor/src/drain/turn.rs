//! The drain in the turns of a shard: listeners that close and open, and the goodbyes that are due.
//!
//! Relies on the planner for when and where, and on the goodbyes for how. Invariant: what has been told and is not
//! gone is counted, so that the others are spread over what is left of the span.

use tiderace_base::{Key, Span, Time};

use crate::connection::Flags;
use crate::drain::board::DrainPlan;
use crate::drain::draining::Draining;
use crate::drain::planner::Planner;
use crate::driver::Driver;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// The node sends its clients elsewhere, by the drain of that number.
    pub(crate) fn begin_drain(&mut self, plan: DrainPlan, number: u64) {
        if self.stopping.is_some() {
            return;
        }
        let now = self.now.time;
        let before = self.draining.take();
        let (delay, over) = (plan.request.delay, plan.request.over);
        let mut closes_at = now + delay;
        let mut until = closes_at + over;
        if let Some(before) = &before {
            // What has been begun is hurried at most.
            closes_at = closes_at.min(before.closes_at.max(now));
            until = before.until.max(now).min(closes_at + over);
        }
        let seed = self.driver.random() as u64;
        self.draining = Some(Box::new(Draining {
            plan,
            number,
            begun: before.as_ref().map_or(now, |before| before.begun),
            closes_at,
            until,
            planner: Planner::new(closes_at, until, seed),
            leaving: before.as_ref().map_or(0, |before| before.leaving),
            has_closed: before.is_some_and(|before| before.has_closed),
            wake_at: now,
        }));
    }

    /// It does not any more: listeners open again, and the node serves when all are open.
    pub(crate) fn cancel_drain(&mut self, number: u64) {
        self.draining = None;
        self.metrics.drain_connections.set(0);
        if self.id.index() == 0 {
            self.accepting.open_from(self.now.time);
            self.open_listeners();
            self.note_closed_listeners(number);
        }
    }

    /// How long the shard may sleep for all that its drain has to do.
    pub(crate) fn drain_timeout(&self) -> Span {
        let wake_at = self.draining.as_ref().map_or(Time::NEVER, |draining| draining.wake_at);
        wake_at.since(self.clock.idle_since())
    }

    /// Does what the drain wants done now.
    pub(crate) fn drain_some(&mut self) {
        self.open_listeners();
        if self.stopping.is_some() {
            self.draining = None;
        }
        let now = self.now.time;
        let Some(draining) = &mut self.draining else { return };
        let (closes_at, elapsed) = (draining.closes_at, now.since(draining.begun));
        let number = draining.number;
        draining.wake_at = closes_at;
        let kept = draining.plan.kept.filter(|(_, session)| session.shard == self.id);
        let is_first = self.id.index() == 0;
        let is_kept_here = kept.is_some_and(|(link, session)| self.find(link, session).is_some());
        if kept.is_some() {
            self.shared.drain.note_kept(is_kept_here, number);
        }
        if now >= closes_at {
            self.close_listeners();
            self.say_goodbyes(usize::from(is_kept_here));
        }
        let left = self.shared.to_go(self.id).saturating_sub(usize::from(is_kept_here));
        self.metrics.drain_connections.set(left as u64);
        if is_first {
            self.shared.drain.note_elapsed(elapsed);
            self.shared.note_if_drained(number);
            self.metrics.drain_state.set(self.shared.drain.phase() as u64);
        }
    }

    /// Says the goodbyes that are due, as far as one turn allows. So many connections are kept.
    fn say_goodbyes(&mut self, kept: usize) {
        let now = self.now.time;
        let (mut looks, mut goodbyes) = (LOOKS_PER_TURN, GOODBYES_PER_TURN);
        loop {
            let slots = self.connections.slots();
            let to_go = self.shared.to_go(self.id).saturating_sub(kept);
            let Some(draining) = &mut self.draining else { return };
            // Answers that are under way at the end of the span have a little longer.
            let is_last = now >= draining.until + LAST_WAIT;
            let told = if is_last { 0 } else { draining.leaving };
            let due = draining.planner.due(now, to_go.saturating_sub(told));
            draining.wake_at = due;
            if due > now || looks == 0 || goodbyes == 0 {
                return;
            }
            looks -= 1;
            let is_over = now >= draining.until;
            let slot = draining.planner.look(now, slots);
            let Some(key) = slot.and_then(|slot| self.connections.key_of(slot)) else { continue };
            if self.send_off(key, is_over, is_last) {
                goodbyes -= 1;
                self.metrics.drain_goodbyes.add(1);
                if let Some(draining) = &mut self.draining {
                    draining.planner.said();
                }
            }
        }
    }

    fn close_listeners(&mut self) {
        let number = match &mut self.draining {
            Some(draining) if !draining.has_closed => {
                draining.has_closed = true;
                draining.number
            }
            _ => return,
        };
        if self.id.index() != 0 {
            return;
        }
        self.accepting.stay_closed();
        for listener in 0..self.shared.options.listeners.len() as u16 {
            if self.shared.stays_open(listener) {
                continue;
            }
            self.accept_last(listener);
            if self.driver.close_listener(listener) {
                self.accepting.note_closed(listener);
            }
        }
        self.note_closed_listeners(number);
        self.shared.note_listeners_closed(number);
    }

    /// Tells the board how many listeners are closed, now that the shard has acted upon the beginning or end of that
    /// number.
    fn note_closed_listeners(&mut self, number: u64) {
        self.accepting.act_upon(number);
        self.shared.drain.note_closed(self.accepting.closed(), number);
        self.metrics.drain_state.set(self.shared.drain.phase() as u64);
    }

    /// Opens the listeners that a drain had closed.
    fn open_listeners(&mut self) {
        let to_open = self.accepting.take_to_open(self.now.time);
        if to_open.is_empty() {
            return;
        }
        let backlog = self.shared.options.listen_backlog;
        for listener in to_open {
            match self.driver.open_listener(listener, backlog) {
                Ok(()) => self.accepting.note(listener),
                Err(error) => {
                    tracing::error!(
                        event = "listener-closed",
                        listener,
                        %error,
                        "a listener that the drain had closed cannot be opened again; it is tried every second"
                    );
                    self.accepting.note_closed(listener);
                    self.accepting.open_from(self.now.time + OPEN_AGAIN);
                }
            }
        }
        self.note_closed_listeners(self.accepting.acted_upon());
    }

    /// A connection is gone from the shard.
    pub(crate) fn count_left(&mut self, flags: Flags) {
        if flags.has(Flags::LEAVING)
            && let Some(draining) = &mut self.draining
        {
            draining.note_left();
        }
    }

    /// A connection has been told to go, or ends anyway.
    pub(super) fn note_leaving(&mut self, key: Key) {
        if let Some(connection) = self.connections.get_mut(key)
            && connection.flags.raise(Flags::LEAVING)
            && let Some(draining) = &mut self.draining
        {
            draining.leaving += 1;
        }
    }
}

/// Places of the slab that are looked at in one turn: some ten microseconds.
const LOOKS_PER_TURN: usize = 256;
/// Goodbyes said in one turn.
const GOODBYES_PER_TURN: usize = 64;
/// How long answers may take that are under way when the span is over.
const LAST_WAIT: Span = Span::from_secs(2);
/// How long after a listener could not be opened it is tried again.
const OPEN_AGAIN: Span = Span::from_secs(1);
