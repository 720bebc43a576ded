//! By which record a session has settled messages last without asking for a confirmation: it may ask later whether all of it is
//! stored.
//!
//! Relies on nothing. Invariant: what is given is no earlier than the session's last record.

use tiderace_base::SessionId;

use crate::collections::Map;

/// Sessions that are noted one by one, 16 bytes each. Most ask when they end, or never.
const SETTLERS_MAX: usize = 4_096;

/// Sessions and their records.
#[derive(Debug, Default)]
pub(crate) struct Settlers {
    records: Map<SessionId, u64>,
    /// The last record of those that are not noted any more.
    others: u64,
}

impl Settlers {
    /// A session has settled something.
    pub(crate) fn note(&mut self, session: SessionId, record: u64) {
        if let Some(known) = self.records.get_mut(&session) {
            *known = record;
            return;
        }
        if self.records.len() >= SETTLERS_MAX {
            // Nearly all of these have ended, and the store has answered what they have settled.
            self.others = self.records.values().copied().fold(self.others, u64::max);
            self.records.clear();
        }
        self.records.insert(session, record);
    }

    /// The last record of a session, or, of one that is not noted, of all that are not any more; zero for none.
    pub(crate) fn take(&mut self, session: SessionId) -> u64 {
        self.records.remove(&session).unwrap_or(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tiderace_base::ShardId;

    fn session(number: u32) -> SessionId {
        SessionId { shard: ShardId(0), slot: number, generation: 0 }
    }

    #[test]
    fn a_session_waits_for_its_own_records_until_very_many_are_noted() {
        let mut settlers = Settlers::default();
        settlers.note(session(1), 3);
        settlers.note(session(1), 5);
        settlers.note(session(2), 7);
        assert_eq!([1, 3, 1].map(|it| settlers.take(session(it))), [5, 0, 0]);
        for number in 10..10 + SETTLERS_MAX as u32 {
            settlers.note(session(number), 100 + u64::from(number));
        }
        assert_eq!((settlers.take(session(2)), settlers.records.len()), (4_105 + 99, 1));
    }
}
