//! The figures of a step, worked out from what was counted.
//!
//! Invariant: bytes and segments are those of events alone, whatever the levels' lengths.

use crate::clients::counters::SEGMENT_BYTES;
use crate::diffusion::step::{Load, Step};

/// What a table shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figures {
    pub(crate) events_per_s: f64,
    /// Events that were due.
    pub(crate) asked_per_s: Option<f64>,
    pub(crate) per_client_per_s: f64,
    pub(crate) cores: Option<f64>,
    pub(crate) us_per_event: Option<f64>,
    /// The kernel's share of that.
    pub(crate) kernel_share: Option<f64>,
    /// Values or deltas.
    pub(crate) payload_bytes: f64,
    /// The same with what our protocol and WebSocket put around it.
    pub(crate) stream_bytes: f64,
    /// Segments of TCP.
    pub(crate) segments: f64,
    /// The same with headers of TCP, IP and Ethernet.
    pub(crate) wire_bytes: f64,
    pub(crate) megabits_per_s: f64,
    /// Share of payload that deltas have saved, against full values.
    pub(crate) payload_saving: f64,
}

impl Step {
    /// Its figures.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn figures(&self) -> Figures {
        let (observed, counters) = (&self.level.observed, &self.level.counters);
        let events = counters.received.max(1) as f64;
        let payload_bytes = counters.body_bytes as f64 / events;
        let stream_bytes = observed.consumed_bytes as f64 / observed.consumed.max(1) as f64;
        // A client that is late reads several writes at once; the server knows how many there were.
        let read = counters.segments as f64 / events;
        let written = self.writes_per_event.unwrap_or(0.0).max(stream_bytes / SEGMENT_BYTES as f64);
        let segments = read.max(written);
        let wire_bytes = stream_bytes + segments * HEADER_BYTES;
        let events_per_s = observed.consumed_per_s();
        Figures {
            events_per_s,
            asked_per_s: self.level.asked_per_s,
            per_client_per_s: events_per_s / self.spec.clients.max(1) as f64,
            cores: observed.server.as_ref().map(|server| server.cpu_s / observed.seconds),
            us_per_event: observed.server_us_per_delivery(),
            kernel_share: observed
                .server
                .as_ref()
                .filter(|server| server.cpu_s > 0.0)
                .map(|server| server.kernel_s / server.cpu_s),
            payload_bytes,
            stream_bytes,
            segments,
            wire_bytes,
            megabits_per_s: wire_bytes * events_per_s * 8.0 / 1e6,
            payload_saving: 1.0 - payload_bytes / self.value_bytes.max(1.0),
        }
    }

    /// Whether clients got what was due, in time.
    pub(crate) fn keeps_up(&self) -> bool {
        let figures = self.figures();
        let share = figures.events_per_s / figures.asked_per_s.unwrap_or(1.0).max(1.0);
        let latency = self.level.counters.latency.total();
        share > 1.0 - TOLERANCE && latency.value_at_quantile(0.99) < LATENCY_NS_MAX
    }

    /// The step that differs from this in deltas alone.
    pub(crate) fn other<'a>(&self, steps: &'a [Step]) -> Option<&'a Step> {
        let is_other = |step: &&Step| {
            let (one, other) = (self.spec, step.spec);
            one.clients == other.clients && one.load == other.load && one.deltas != other.deltas
        };
        steps.iter().find(is_other)
    }

    /// Share of the network's bytes that deltas have saved, if both modes were measured.
    pub(crate) fn wire_saving(&self, steps: &[Step]) -> Option<f64> {
        let full = self.other(steps).filter(|_| self.spec.deltas)?.figures();
        Some(1.0 - self.figures().wire_bytes / full.wire_bytes)
    }

    /// What deltas have added to the server's CPU per event, as a share, at the same load.
    pub(crate) fn cpu_added(&self, steps: &[Step]) -> Option<f64> {
        let full =
            self.other(steps).filter(|_| self.spec.deltas && self.spec.load == Load::Paced)?;
        Some(self.figures().us_per_event? / full.figures().us_per_event? - 1.0)
    }
}

/// 14 bytes of Ethernet, 20 of IPv4, 20 of TCP and 12 of its time stamps.
pub(crate) const HEADER_BYTES: f64 = 66.0;
/// Events may come so much later or earlier than their second.
const TOLERANCE: f64 = 0.02;
const LATENCY_NS_MAX: u64 = 100_000_000;
