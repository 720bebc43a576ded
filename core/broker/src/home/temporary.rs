//! The temporary queues of a shard's sessions, whose home the shard is.
//!
//! Bookkeeping only. Invariant: a session has no more queues, and no more bytes in them, than it may have.

use tiderace_base::SessionId;
use tiderace_topics::Path;

use crate::collections::{Map, Set};

/// The temporary queues of all sessions that have any.
#[derive(Debug, Default)]
pub(crate) struct TemporaryQueues {
    by_session: Map<SessionId, QueuesOfSession>,
}

/// What a session has below its name.
#[derive(Debug, Default)]
struct QueuesOfSession {
    /// Its queues, and perhaps some that are gone.
    queues: Set<Path>,
    /// Bytes of what waits in them, or more: messages that have been taken are subtracted only when
    /// there seems to be no room.
    bytes: usize,
}

impl TemporaryQueues {
    /// Counts bytes for a session's queues, if there is room for them among so many; `held` says how many a queue
    /// has.
    pub(crate) fn take(
        &mut self,
        session: SessionId,
        bytes: usize,
        most: usize,
        held: impl Fn(&Path) -> Option<usize>,
    ) -> bool {
        let Some(known) = self.by_session.get_mut(&session) else { return false };
        if known.bytes + bytes > most {
            known.bytes = known.queues.iter().filter_map(held).sum();
        }
        // One message alone may be larger.
        let fits = known.bytes == 0 || known.bytes + bytes <= most;
        known.bytes += if fits { bytes } else { 0 };
        fits
    }

    /// Counts a queue of a session, if it is not one too many; `is_there` says whether one that was counted still
    /// is.
    pub(crate) fn count(
        &mut self,
        session: SessionId,
        path: &Path,
        most: usize,
        is_there: impl Fn(&Path) -> bool,
    ) -> bool {
        let known = self.by_session.entry(session).or_default();
        if known.queues.contains(path) {
            return true;
        }
        if known.queues.len() >= most {
            known.queues.retain(is_there);
        }
        known.queues.len() < most && known.queues.insert(path.clone())
    }

    /// A session has ended: its queues, and perhaps some that are gone.
    pub(crate) fn end(&mut self, session: SessionId) -> impl Iterator<Item = Path> + use<> {
        self.by_session.remove(&session).unwrap_or_default().queues.into_iter()
    }
}
