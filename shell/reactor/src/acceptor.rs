//! Which listeners have connections waiting, and whether they may be taken now.

use tiderace_base::Time;

/// What the accepting shard has to do.
#[derive(Debug, Default)]
pub(crate) struct Accepting {
    /// Listeners that may have connections waiting.
    ready: Vec<u16>,
    /// File descriptors ran out: nothing is accepted before this.
    not_before: Time,
}

impl Accepting {
    pub(crate) fn note(&mut self, listener: u16) {
        if !self.ready.contains(&listener) {
            self.ready.push(listener);
        }
    }

    /// Whether there is something to accept now.
    pub(crate) fn has_work(&self, now: Time) -> bool {
        !self.ready.is_empty() && self.not_before <= now
    }

    /// The listeners that may have connections waiting, each to be put back if it still may.
    pub(crate) fn take(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.ready)
    }

    /// Those that still may.
    pub(crate) fn put_back(&mut self, ready: Vec<u16>) {
        self.ready = ready;
    }

    /// File descriptors ran out.
    pub(crate) fn pause_until(&mut self, time: Time) {
        self.not_before = time;
    }

    pub(crate) fn stop(&mut self) {
        self.ready.clear();
    }
}
