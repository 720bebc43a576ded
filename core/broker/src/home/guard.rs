//! What a home holds the publishers of a topic to.
//!
//! Relies on the home asking before it changes a topic. Invariant: at most one session has claimed a topic.

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_topics::Path;

use crate::places::Place;

/// What a home holds publishers of a topic to.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// The only session that may publish.
    claimed: Option<SessionId>,
    /// The server alone publishes.
    read_only: bool,
    /// The lock of the last update under a lock, and its fence; by the hash of its name, which may be far
    /// longer than all else that is kept of the topic.
    fence: Option<(u64, u64)>,
}

impl Guard {
    /// Whether its topic is to be remembered for it. Not for a fence: what a late holder has sent does
    /// not come so late.
    pub(crate) fn holds_topic(&self) -> bool {
        self.claimed.is_some() || self.read_only
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_empty(&self) -> bool {
        !self.holds_topic() && self.fence.is_none()
    }

    /// Whether a session may publish there.
    ///
    /// # Errors
    /// When the server alone publishes, or another session has claimed the topic.
    pub(crate) fn admit(&self, path: &Path, session: SessionId) -> Result<(), Close> {
        if self.read_only {
            return Err(CloseCode::TopicReadOnly.into());
        }
        match self.claimed {
            Some(other) if other != session => Err(claimed_by_another(path)),
            _ => Ok(()),
        }
    }

    /// A session is to be the only one that publishes.
    ///
    /// # Errors
    /// When another session is.
    pub(crate) fn claim(&mut self, path: &Path, session: SessionId) -> Result<(), Close> {
        if self.claimed.is_some_and(|other| other != session) {
            return Err(claimed_by_another(path));
        }
        self.claimed = Some(session);
        Ok(())
    }

    /// Ends that; whether it was so.
    pub(crate) fn release(&mut self, session: SessionId) -> bool {
        self.claimed.take_if(|claimed| *claimed == session).is_some()
    }

    /// A place is lost, and the claim if one of its sessions has it: whether one had.
    pub(crate) fn lose(&mut self, place: Place) -> bool {
        self.claimed.take_if(|session| Place::of(*session) == place).is_some()
    }

    /// Whether some session is the only one that publishes.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claimed.is_some()
    }

    /// Whether the server alone publishes.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(crate) fn set_read_only(&mut self, on: bool) {
        self.read_only = on;
    }

    /// Whether nobody with a later hold of the lock has written here.
    pub(crate) fn allows_fence(&self, lock: &Path, fence: u64) -> bool {
        self.fence.is_none_or(|(known, seen)| known != lock.stable_hash() || seen <= fence)
    }

    /// An update under a lock is written.
    pub(crate) fn note_fence(&mut self, lock: &Path, fence: u64) {
        self.fence = Some((lock.stable_hash(), fence));
    }
}

fn claimed_by_another(path: &Path) -> Close {
    let reason = format!("another session has claimed {path} and is its only publisher");
    Close::new(CloseCode::TopicClaimed, reason)
}
