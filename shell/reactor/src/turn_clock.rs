//! When the turns of a shard begin and end, and what waits for the time to pass.

use tiderace_base::{Span, Time, Wheel};

use crate::pause::Pause;

/// The times of one shard's turns.
#[derive(Debug)]
pub(crate) struct TurnClock {
    /// When the broker's housekeeping is due.
    tick_at: Time,
    /// When the turn began.
    began: Time,
    /// When the last turn ended.
    idle_since: Time,
    /// How long the last turn's writing took.
    wrote: Span,
    /// Whether the shard's memory was used up at the end of the last turn.
    was_full: bool,
    /// The deadlines of connections.
    pub(crate) wheel: Wheel,
    /// Keeps deadlines from being judged before sockets were read.
    pub(crate) pause: Pause,
}

impl TurnClock {
    /// Of a shard that begins.
    pub(crate) fn new(now: Time) -> TurnClock {
        let pause = Pause::new(now);
        TurnClock {
            tick_at: now + TICK,
            began: now,
            idle_since: now,
            wrote: Span::ZERO,
            was_full: false,
            wheel: Wheel::new(),
            pause,
        }
    }

    /// A turn begins; its poll has brought so many events.
    pub(crate) fn begin_turn(&mut self, now: Time, events: usize) {
        self.began = now;
        self.pause.begin_turn(now, events);
    }

    /// A turn ends, whose clock was read last before writing; says how long it took.
    pub(crate) fn end_turn(&mut self, now: Time, end: Time) -> Span {
        // The clock was read again before writing, if there was anything to write.
        self.wrote = if now > self.began { end.since(now) } else { Span::ZERO };
        self.idle_since = end;
        end.since(self.began)
    }

    /// Whether the broker's housekeeping is due; if so, the next is a tick later.
    pub(crate) fn is_tick_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.tick_at;
        if is_due {
            self.tick_at = now + TICK;
        }
        is_due
    }

    /// How long the shard may sleep until the next tick, or the next deadline of a connection.
    pub(crate) fn until_deadline(&self) -> Span {
        let tick = self.tick_at.since(self.idle_since);
        self.wheel.until_next(self.idle_since).map_or(tick, |wheel| tick.min(wheel))
    }

    /// Whether the shard's memory is used up, at the end of a turn; says whether that is news.
    pub(crate) fn note_full(&mut self, is_full: bool) -> bool {
        std::mem::replace(&mut self.was_full, is_full) != is_full
    }

    /// When the last turn ended.
    pub(crate) fn idle_since(&self) -> Time {
        self.idle_since
    }

    /// How long the last turn's writing took.
    pub(crate) fn wrote(&self) -> Span {
        self.wrote
    }
}

/// How often the broker does its housekeeping.
const TICK: Span = Span::from_millis(50);
