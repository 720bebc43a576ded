//! What a home gives up when a place is lost.
//!
//! Relies on what the home does when a session there ends, one thing at a time. Invariant: afterwards the home is as if
//! each session of the place had ended, but for wills, which went with it.

use tiderace_base::{Key, MemoryUse, Now};
use tiderace_queues::Ending;
use tiderace_topics::Path;
use tiderace_wire::{Destination, Flags, Kind, Meta, Run};

use super::lost;
use crate::effects::Effects;
use crate::loss_side::LossSide;
use crate::messages::{Interest, ToHome};
use crate::places::Place;
use crate::presence::shows_session_of;
use crate::price::TOPIC;
use crate::queued::MovedFrom;

/// Nobody listens any more.
const NO_INTEREST: Interest = Interest { on: false, recorded: false, ask: None };

impl LossSide<'_> {
    /// A place is lost.
    pub(crate) fn peer_lost(&mut self, now: Now, place: Place, effects: &mut Effects) {
        // First, or one of them would be done for a session that has given everything back.
        self.drop_deferred_of(place);
        for (pattern, uses, recorded) in self.home.home.lose(place) {
            for _ in 0..uses {
                self.home.home.count_pattern(place, &pattern, false);
            }
            for _ in 0..recorded {
                self.home.home.count_recorded(place, &pattern, false, now.time);
            }
        }
        self.home.journal.lose(place);
        let out = self.home.home.end_jobs(|session| Place::of(session) == place);
        self.home.apply(out, effects);
        self.home.lose_transfers(now, place, effects);
        self.home.lose_locks(now, place, effects);
        for (session, key) in self.home.home.queues().consumers_of(place) {
            // All that it was given may have been read.
            let end = (u64::MAX, Ending::Lost);
            self.home.leave_at_home(now, session, key, end, None, effects);
        }
        // When nobody there consumes any more, to whom they would be given.
        let home_of = |path: &Path| self.home.options.home_of(path);
        let out = self.home.home.queues_mut().undo_moves(now, |path| home_of(path) == place);
        self.home.apply(out, effects);
        for moved in self.home.home.queues_mut().dead_letters_mut().moving_to(place) {
            self.home.end_dead_letter(moved, Err(lost(place)), effects);
        }
        self.home.lose_services(place, effects);
        self.home.lose_feeds(now, place, &lost(place), effects);
    }

    /// A dead letter of this home has come back, since its queue's home is lost: it is where it lay, if the store has it
    /// there.
    pub(crate) fn dead_letter_lost(
        &mut self,
        now: Now,
        place: Place,
        (run, source): (&Run, Option<MovedFrom>),
        effects: &mut Effects,
    ) {
        let Some(source) = source else {
            self.home.metrics.dropped_dead += run.len() as u64;
            return;
        };
        let (_, out) = self.home.home.queues_mut().undo_move(now, &source);
        self.home.apply(out, effects);
        self.home.end_dead_letter((source.queue, source.version), Err(lost(place)), effects);
    }

    /// Looks at some topics for what the sessions of a lost place had there.
    pub(crate) fn work_on_lost(&mut self, now: Now, effects: &mut Effects) {
        let slots = self.home.directory.topics().slots();
        let Some((place, some)) = self.home.home.next_of_lost(slots) else { return };
        self.home.work.charge_at(now, TOPIC * some.len() as u64);
        for slot in some {
            if let Some(key) = self.home.directory.topics().key_of(slot) {
                self.lose_at_topic(now, place, key, effects);
            }
        }
    }

    fn lose_at_topic(&mut self, now: Now, place: Place, key: Key, effects: &mut Effects) {
        let Some(topic) = self.home.directory.get(key) else { return };
        let shows = shows_session_of(&topic.path, place);
        let path = topic.path.clone();
        let Some(home) = self.home.home.topic_mut(topic) else { return };
        home.set_watcher(place, false);
        if home.guard_mut().is_some_and(|guard| guard.lose(place)) {
            home.tidy_guard();
        }
        if let Some(retirement) = home.retirement_mut() {
            retirement.lose(place);
        }
        let slow = home.pressed().contains(place);
        if home.interested().union(home.recorders()).contains(place) {
            self.home.interest_in(now, place, key, NO_INTEREST, effects);
        }
        if slow {
            self.home.pressure(now, place, &path, false, effects);
        }
        if shows {
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            let destination = Destination { kind: Kind::Topic, path };
            let run = Run::single(destination, now.time, b"", b"", meta);
            self.home.send(self.home.here(), ToHome::of_server(run), effects);
        }
    }

    /// What was deferred for the sessions of a place is not done.
    fn drop_deferred_of(&mut self, place: Place) {
        let work = &mut *self.home.work;
        let sessions = work.queues.keys().filter(|session| Place::of(**session) == place);
        for session in sessions.copied().collect::<Vec<_>>() {
            let Some(mut queue) = work.queues.remove(&session) else { continue };
            while let Some(what) = queue.take_first() {
                work.deferred -= 1;
                work.bytes -= what.bytes();
                self.home.memory.refund(MemoryUse::Input, what.bytes());
            }
        }
    }
}
