//! Payloads that come in fragments: how many bytes of them wait, and what may.
//!
//! Relies on `fragment` for putting them together. Invariant: what waits is counted for the shard until it is whole,
//! given up, or its session is gone.

use tiderace_base::Time;

use super::state::RSocketSession;
use crate::fragment::{FragmentError, FragmentLimits, Taken};
use crate::frame::Frame;

impl RSocketSession {
    /// Whether fragments of that stream wait for more.
    pub(super) fn assembles(&self, stream: u32) -> bool {
        let cold = self.cold.as_ref().filter(|cold| !cold.assemblies.is_empty());
        cold.is_some_and(|cold| cold.assemblies.is_open(stream))
    }

    /// What has come of a stream's payload is not wanted any more.
    pub(super) fn forget_fragments(&mut self, stream: u32) {
        let before = self.fragment_bytes();
        if let Some(cold) = &mut self.cold {
            cold.assemblies.forget(stream);
        }
        self.count_fragments(before);
    }

    /// Bytes of fragments that wait for the rest of their payloads.
    pub(super) fn fragment_bytes(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.assemblies.bytes())
    }

    /// They were so many until now.
    fn count_fragments(&self, before: usize) {
        let more = self.fragment_bytes().wrapping_sub(before);
        if more != 0 {
            self.writer.count(|counters| counters.fragments.add(more as u64));
        }
    }

    /// Whether the shard keeps as many fragments as it may.
    pub(super) fn fragments_are_full(&self) -> bool {
        let most = self.options().fragments_bytes_shard_max;
        let counters = self.options().metrics.of(self.writer.shard);
        counters.is_some_and(|all| all.fragments.value() >= most)
    }

    /// Takes a fragment.
    ///
    /// # Errors
    /// When it breaks a rule; what came of its payload before is forgotten then.
    pub(super) fn take_fragment(
        &mut self,
        now: Time,
        frame: &Frame<'_>,
    ) -> Result<Taken, FragmentError> {
        let (limits, before) = (self.fragment_limits(), self.fragment_bytes());
        let taken = self.cold().assemblies.take(now, frame, &limits);
        self.count_fragments(before);
        taken
    }

    fn fragment_limits(&self) -> FragmentLimits {
        let options = self.options();
        let message_bytes_max = options.message_bytes_max + options.metadata_bytes_max;
        FragmentLimits {
            message_bytes_max,
            total_bytes_max: options.fragments_bytes_max,
            messages_max: options.fragmented_max,
            // As many as the shortest allowed would make of the longest message.
            fragments_max: u32::try_from(message_bytes_max / options.fragment_bytes_min.max(1))
                .unwrap_or(u32::MAX),
            fragment_bytes_min: options.fragment_bytes_min,
        }
    }
}
