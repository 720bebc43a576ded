//! A stretch of consecutive messages of one run that share a fate.

use std::sync::Arc;

use tiderace_wire::Run;

use crate::weight::Weight;

/// What keeping a message takes beside its bytes.
const KEPT_BYTES: usize = 16;

/// Messages `from..to` of a run; never empty.
#[derive(Clone, Debug)]
pub struct Segment {
    /// The run they belong to.
    pub run: Arc<Run>,
    /// The first, counted within the run.
    pub from: u32,
    /// The one after the last.
    pub to: u32,
    /// How often a consumer had them before, as far as can be known, and did not accept them.
    pub redeliveries: u32,
    /// How often they were rejected, or lost together with their consumer.
    pub(crate) failures: u32,
}

/// Messages that were consumed as part of something that may have to be undone.
#[derive(Debug)]
pub struct Consumed {
    /// The stream that has them, if they are stored.
    pub stream: Option<u64>,
    /// The queue waits for the store to say that they are gone, by [`crate::Queues::settled`].
    pub is_outside: bool,
    /// The messages.
    pub segment: Segment,
}

impl Segment {
    /// All messages of a run.
    pub fn whole(run: Arc<Run>) -> Segment {
        let to = run.len() as u32;
        Segment { run, from: 0, to, redeliveries: 0, failures: 0 }
    }

    /// The number of the first message.
    pub fn first(&self) -> u64 {
        self.run.first() + u64::from(self.from)
    }

    /// The number of the last message.
    pub fn last(&self) -> u64 {
        self.run.first() + u64::from(self.to).saturating_sub(1)
    }

    /// The version of the first message in its queue.
    pub fn first_version(&self) -> u64 {
        self.run.queue_version() + u64::from(self.from)
    }

    /// The version of the last message in its queue.
    pub fn last_version(&self) -> u64 {
        self.run.queue_version() + u64::from(self.to).saturating_sub(1)
    }

    /// How many messages.
    pub fn len(&self) -> u32 {
        self.to - self.from
    }

    /// Whether it is empty, which only a part under construction may be.
    pub fn is_empty(&self) -> bool {
        self.to <= self.from
    }

    /// Whether it is all of its run.
    pub(crate) fn is_whole(&self) -> bool {
        self.len() as usize == self.run.len()
    }

    /// What it counts for in budgets, in bytes: the messages and a little for keeping them.
    pub fn bytes(&self) -> usize {
        bytes_of(&self.run, (self.from as usize, self.to as usize))
    }

    /// What all messages of a run count for.
    #[inline]
    pub fn bytes_of_run(run: &Run) -> usize {
        bytes_of(run, (0, run.len()))
    }

    /// What it counts for in its queue, and in the memory budget: of messages that other queues have as well, the run and
    /// a little for each. Their bytes count once, for as long as somebody has them.
    #[inline]
    pub(crate) fn weight(&self) -> Weight {
        let bytes = self.bytes();
        let charged = if self.run.shared().is_none() { bytes } else { self.bytes_beside() };
        Weight { bytes, charged }
    }

    #[cold]
    fn bytes_beside(&self) -> usize {
        // Parts of a run count together as much as the whole.
        let of_run = if self.from == 0 { size_of::<Run>() } else { 0 };
        of_run + self.len() as usize * 32
    }

    /// Cuts off the messages from number `sequence` on; `None` if there are none.
    pub fn split_off(&mut self, sequence: u64) -> Option<Segment> {
        self.split_behind(sequence.saturating_sub(self.run.first()))
    }

    /// Cuts off the messages from a version on; `None` if there are none.
    pub fn split_off_version(&mut self, version: u64) -> Option<Segment> {
        self.split_behind(version.saturating_sub(self.run.queue_version()))
    }

    /// Cuts off the messages from a place in the run on.
    fn split_behind(&mut self, place: u64) -> Option<Segment> {
        let at = place.min(u64::from(self.to)) as u32;
        let at = at.max(self.from);
        let rest = Segment { from: at, ..self.clone() };
        self.to = at;
        (!rest.is_empty()).then_some(rest)
    }
}

/// What messages `from..to` of a run count for.
#[inline]
fn bytes_of(run: &Run, (from, to): (usize, usize)) -> usize {
    run.bytes_of(from, to) + (to - from) * KEPT_BYTES
}
