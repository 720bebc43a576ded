//! The open windows of a backlog, and what they withhold.
//!
//! `crate::windows` holds the messages themselves; here they count, and have their place in the account
//! of what is still to be given.

use tiderace_base::Key;
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use super::{Backlog, Pending};

impl Backlog {
    pub(crate) fn window(&self, key: SubscriptionKey, path: &Path) -> Option<Key> {
        self.windows.as_ref()?.get(&key)?.get(path).copied()
    }

    pub(crate) fn open_window(&mut self, key: SubscriptionKey, path: Path, window: Key) {
        let windows = self.windows.get_or_insert_default();
        windows.entry(key).or_default().insert(path, window);
    }

    pub(crate) fn close_window(&mut self, key: SubscriptionKey, path: &Path) {
        let Some(windows) = &mut self.windows else { return };
        let Some(own) = windows.get_mut(&key) else { return };
        own.remove(path);
        if own.is_empty() {
            windows.remove(&key);
        }
        self.windows.take_if(|windows| windows.is_empty());
    }

    /// Those of one subscription, or all.
    pub(crate) fn windows_of(&self, key: Option<SubscriptionKey>) -> Vec<Key> {
        let Some(windows) = &self.windows else { return Vec::new() };
        match key {
            Some(key) => {
                windows.get(&key).into_iter().flat_map(|own| own.values().copied()).collect()
            }
            None => windows.values().flat_map(|own| own.values().copied()).collect(),
        }
    }

    pub(crate) fn withheld_bytes(&self) -> usize {
        self.withheld_bytes
    }

    /// A window withholds a message, or no longer does.
    pub(crate) fn withhold(&mut self, pending: &Pending, on: bool) {
        let bytes = pending.bytes();
        if on {
            self.marks();
            self.withheld += 1;
            self.withheld_bytes += bytes;
        } else {
            self.withheld = self.withheld.saturating_sub(1);
            self.withheld_bytes = self.withheld_bytes.saturating_sub(bytes);
        }
        self.mark(pending, on);
        if self.withheld == 0 && self.is_empty() {
            self.marks = None;
        }
    }
}
