//! The open throttles of a backlog, and what they defer.
//!
//! `delivery/throttles.rs` holds the messages themselves; here they count, and have their place in the account
//! of what is still to be given.

use tiderace_base::Key;
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use super::{Backlog, Pending};

impl Backlog {
    pub(crate) fn throttle(&self, key: SubscriptionKey, path: &Path) -> Option<Key> {
        self.throttles.as_ref()?.get(&key)?.get(path).copied()
    }

    pub(crate) fn open_throttle(&mut self, key: SubscriptionKey, path: Path, throttle: Key) {
        let throttles = self.throttles.get_or_insert_default();
        throttles.entry(key).or_default().insert(path, throttle);
    }

    pub(crate) fn close_throttle(&mut self, key: SubscriptionKey, path: &Path) {
        let Some(throttles) = &mut self.throttles else { return };
        let Some(own) = throttles.get_mut(&key) else { return };
        own.remove(path);
        if own.is_empty() {
            throttles.remove(&key);
        }
        self.throttles.take_if(|throttles| throttles.is_empty());
    }

    /// Those of one subscription, or all.
    pub(crate) fn throttles_of(&self, key: Option<SubscriptionKey>) -> Vec<Key> {
        let Some(throttles) = &self.throttles else { return Vec::new() };
        match key {
            Some(key) => {
                throttles.get(&key).into_iter().flat_map(|own| own.values().copied()).collect()
            }
            None => throttles.values().flat_map(|own| own.values().copied()).collect(),
        }
    }

    pub(crate) fn deferred_bytes(&self) -> usize {
        self.deferred_bytes
    }

    /// A throttle defers a message, or no longer does.
    pub(crate) fn note_deferred(&mut self, pending: &Pending, on: bool) {
        let bytes = pending.bytes();
        if on {
            self.marks();
            self.deferred += 1;
            self.deferred_bytes += bytes;
        } else {
            self.deferred = self.deferred.saturating_sub(1);
            self.deferred_bytes = self.deferred_bytes.saturating_sub(bytes);
        }
        self.mark(pending, on);
        if self.deferred == 0 && self.is_empty() {
            self.marks = None;
        }
    }
}
