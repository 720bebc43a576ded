//! Purges, moves and removals end with the session that has asked for them.
//!
//! They may take many turns and there are only so many places for them, so nobody is to hold one who does not wait for the
//! answer any more. A session remembers where it has asked for some, and tells these homes when it ends. Invariant: when a
//! home has heard of the end of a session, no more of what it has asked for is begun there.

use tiderace_base::{MemoryUse, SessionId};
use tiderace_wire::Operation;

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::ToHome;
use crate::places::{Place, PlaceSet, key_of};
use crate::session_side::SessionSide;
use crate::work::Deferred;

impl SessionSide<'_> {
    /// A session asks a home for something that may take long.
    pub(crate) fn note_job(&mut self, session: SessionId, home: Place) {
        let mut homes = PlaceSet::EMPTY;
        homes.insert(home);
        self.note_jobs(session, homes);
    }

    /// The same of several homes.
    pub(crate) fn note_jobs(&mut self, session: SessionId, homes: PlaceSet) {
        if let Some(record) = self.sessions.get_mut(key_of(session)) {
            let rare = record.rare.get_or_insert_default();
            rare.jobs = rare.jobs.union(homes);
        }
    }

    /// A session ends.
    pub(crate) fn end_jobs(&mut self, session: SessionId, effects: &mut Effects) {
        let record = self.sessions.get_mut(key_of(session));
        let Some(rare) = record.and_then(|record| record.rare.as_mut()) else { return };
        for home in std::mem::take(&mut rare.jobs).iter() {
            self.send(home, ToHome::EndJobs { session }, effects);
        }
    }
}

impl HomeSide<'_> {
    /// A session has ended: what it has asked for is not begun, and what has begun ends with what is done of it.
    pub(crate) fn end_jobs_of(&mut self, session: SessionId, effects: &mut Effects) {
        let out = self.home.end_jobs(|of| of == session);
        self.apply(out, effects);
        let Some(queue) = self.work.queues.get_mut(&session) else { return };
        let is_job = |what: &Deferred| match what {
            Deferred::Operation(asked) => matches!(
                asked.1,
                Operation::Purge { .. } | Operation::Move(_) | Operation::Remove { .. }
            ),
            _ => false,
        };
        for what in queue.take_out(is_job) {
            self.work.deferred -= 1;
            self.work.bytes -= what.bytes();
            self.memory.refund(MemoryUse::Input, what.bytes());
        }
    }
}
