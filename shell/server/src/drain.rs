//! The drain as the process sees it: a server that stops sends its clients elsewhere first, if its configuration
//! says so, and one that was told to stop when all have left does.
//!
//! Relies on `NodeControl` for everything that happens on shards.

use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use anyhow::Context;
use tiderace_base::{Addresses, Sample, SampleValue};
use tiderace_config::ServerConfig;
use tiderace_reactor::NodeControl;
use tiderace_wire::{DrainPhase, DrainRequest, DrainStatus};

use crate::alarms::Lookout;
use crate::metrics::DRAIN_REMAINING;

/// What asked for an end when no signal did.
pub(crate) const DRAINED: &str = "drain";

/// How long answers and last words may take behind the span of a drain, before the server stops all the same.
const BEHIND_SPAN: Duration = Duration::from_secs(10);

/// For how long the server goes on to send its clients elsewhere.
pub(crate) fn remaining(status: &DrainStatus) -> Sample<'static> {
    let DrainRequest { over, delay, .. } = &status.request;
    let is_under_way = matches!(status.phase, DrainPhase::Announced | DrainPhase::Draining);
    let left = (*over + *delay).saturating_sub(status.elapsed);
    let seconds = if is_under_way { left.as_secs_f64() } else { 0.0 };
    Sample { row: &DRAIN_REMAINING, labels: Vec::new(), value: SampleValue::Decimal(seconds) }
}

/// Asks for the end of the server when all clients have left by a drain that was to end so.
///
/// # Errors
/// When the thread that waits for it could not be started.
pub(crate) fn watch(node: NodeControl, stop: Sender<&'static str>) -> anyhow::Result<()> {
    let wait = move || {
        node.wait_for_exit();
        // Nobody hears it if the server is ending already.
        let _ = stop.send(DRAINED);
    };
    let thread = std::thread::Builder::new().name("drain".to_owned()).spawn(wait);
    thread.map(drop).context("the thread that waits for the end of a drain could not be started")
}

/// The drain with which a server that was asked to stop begins, if its configuration wants one.
pub(crate) fn at_the_end(config: &ServerConfig) -> Option<DrainRequest> {
    let (over, delay) = (config.drain_over, config.drain_delay);
    // The configuration has checked the addresses.
    let to = Addresses::new(&config.drain_to).unwrap_or_default();
    (!over.is_zero() || !delay.is_zero()).then_some(DrainRequest { over, delay, to, exit: true })
}

/// How long a drain takes at most.
pub(crate) fn longest(request: &DrainRequest) -> Duration {
    request.delay + request.over + BEHIND_SPAN
}

/// Sends all clients elsewhere; returns when they have left, or the time for it is over. Alarms are looked for meanwhile.
pub(crate) fn finish(node: &NodeControl, request: DrainRequest, lookout: &mut Lookout) {
    let (begun, longest) = (Instant::now(), longest(&request));
    node.drain_finally(request);
    lookout.look_until(|most| {
        let left = longest.saturating_sub(begun.elapsed());
        node.wait_drained(most.min(left));
        (left.is_zero() || node.drain_phase() == DrainPhase::Drained).then_some(())
    });
}
