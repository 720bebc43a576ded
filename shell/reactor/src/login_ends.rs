//! When the logins of sessions end.
//!
//! Bookkeeping only. Invariant: only sessions whose login ends take memory.

use std::collections::HashMap;

use tiderace_base::{Key, Time};

/// When the logins of sessions end, of those that do.
#[derive(Debug, Default)]
pub(crate) struct LoginEnds(pub(crate) HashMap<Key, LoginEnd>);

/// When the login of one ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoginEnd {
    pub(crate) until: Time,
    /// The earliest entry in the timer wheel; it is armed again when it fires, so that renewing leaves no entries behind.
    pub(crate) armed: Time,
}

impl LoginEnds {
    /// Forgets a session; when its login would have ended.
    pub(crate) fn remove(&mut self, key: Key) -> Time {
        if self.0.is_empty() {
            return Time::NEVER;
        }
        self.0.remove(&key).map_or(Time::NEVER, |end| end.until)
    }
}
