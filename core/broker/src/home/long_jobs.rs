//! How many purges, moves and removals are under way at one home, which may take many turns.
//!
//! One rule for all of them: a session has a bounded part of the places, so that none can keep the others from theirs.
//! Bookkeeping only. Invariant: a job counts from its beginning to its end, once.

use tiderace_base::{Close, CloseCode, SessionId};

use crate::collections::Map;

/// Jobs under way at one home, at most.
const JOBS_MAX: u32 = 256;
/// Those of one session.
const JOBS_OF_SESSION_MAX: u32 = 16;

/// The jobs of one home, by session.
#[derive(Debug, Default)]
pub(crate) struct LongJobs {
    by_session: Map<SessionId, u32>,
    count: u32,
}

impl LongJobs {
    /// A job of a session begins.
    ///
    /// # Errors
    /// When the session has as many under way as it may have, or the home has.
    pub(crate) fn begin(&mut self, session: SessionId) -> Result<(), Close> {
        let of_session = self.by_session.get(&session).copied().unwrap_or(0);
        let refused = |most: u32, whose: &str| {
            let reason = format!(
                "{most} purges, moves and removals {whose} are under way at one home, which is as many as there may \
                 be: wait for one of them"
            );
            Err(Close::new(CloseCode::TooMuchWork, reason))
        };
        if of_session >= JOBS_OF_SESSION_MAX {
            return refused(JOBS_OF_SESSION_MAX, "of this session");
        }
        if self.count >= JOBS_MAX {
            return refused(JOBS_MAX, "of all sessions");
        }
        self.by_session.insert(session, of_session + 1);
        self.count += 1;
        Ok(())
    }

    /// A job of a session has ended.
    pub(crate) fn end(&mut self, session: SessionId) {
        let Some(of_session) = self.by_session.get_mut(&session) else { return };
        *of_session -= 1;
        self.count -= 1;
        if *of_session == 0 {
            self.by_session.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::ShardId;

    #[test]
    fn no_session_can_take_all_places() {
        let session = |slot| SessionId { shard: ShardId(0), slot, generation: 0 };
        let mut jobs = LongJobs::default();
        let mut begun = 0;
        while jobs.begin(session(0)).is_ok() {
            begun += 1;
        }
        assert!(begun < JOBS_MAX);
        for slot in 1.. {
            if jobs.begin(session(slot)).is_err() {
                break;
            }
            begun += 1;
        }
        assert_eq!(begun, JOBS_MAX);
        assert!(jobs.begin(session(1)).unwrap_err().reason.contains("of all sessions"));
        jobs.end(session(0));
        jobs.begin(session(1)).unwrap();
        let refused = jobs.begin(session(0)).unwrap_err();
        assert_eq!(refused.code, CloseCode::TooMuchWork);
    }
}
