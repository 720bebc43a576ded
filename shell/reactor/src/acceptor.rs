//! Which listeners have connections waiting, and whether they may be taken now.

use tiderace_base::Time;

/// What the accepting shard has to do.
#[derive(Debug, Default)]
pub(crate) struct Accepting {
    /// Listeners that may have connections waiting.
    ready: Vec<u16>,
    /// File descriptors ran out: nothing is accepted before this.
    not_before: Time,
    /// Listeners that a drain has closed.
    closed: Vec<u16>,
    /// When those that were to open again and could not are tried once more; never if they are to stay closed.
    open_at: Option<Time>,
    /// The number of the beginning or end of a drain that listeners were closed or opened for last.
    acted_upon: u64,
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
        self.open_at = None;
    }

    /// A drain has closed a listener.
    pub(crate) fn note_closed(&mut self, listener: u16) {
        self.closed.push(listener);
        self.open_at = None;
    }

    /// Those that are closed stay so.
    pub(crate) fn stay_closed(&mut self) {
        self.open_at = None;
    }

    /// Listeners are as the beginning or end of a drain of that number wants them, as far as they can be.
    pub(crate) fn act_upon(&mut self, number: u64) {
        self.acted_upon = number;
    }

    /// The number of the last such one.
    pub(crate) fn acted_upon(&self) -> u64 {
        self.acted_upon
    }

    /// How many are closed.
    pub(crate) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Those that are closed may open again, at this time or later.
    pub(crate) fn open_from(&mut self, time: Time) {
        self.open_at = (!self.closed.is_empty()).then_some(time);
    }

    /// The listeners that are to open now; those that do not are to be noted as closed again.
    pub(crate) fn take_to_open(&mut self, now: Time) -> Vec<u16> {
        match self.open_at {
            Some(time) if time <= now => {
                self.open_at = None;
                std::mem::take(&mut self.closed)
            }
            _ => Vec::new(),
        }
    }
}
