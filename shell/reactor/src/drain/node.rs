//! The drain of the node as a whole: what begins and ends it, and what is said of it.
//!
//! Relies on [`crate::drain::board`] for the decisions. Invariant: each change is one line of the log, which says what
//! can be done then.

use tiderace_base::{Close, ShardId};
use tiderace_wire::DrainStatus;

use crate::drain::board::DrainPlan;
use crate::shared::Shared;
use crate::waker::Notice;

impl Shared {
    /// Connections that a drain sends away and that are there.
    pub(crate) fn all_to_go(&self) -> usize {
        let shards = (0..self.wakers.len()).map(|shard| self.to_go(ShardId(shard as u16)));
        shards.sum::<usize>().saturating_sub(usize::from(self.drain.is_kept_there()))
    }

    fn goodbyes(&self) -> u64 {
        self.metrics.iter().fold(0, |sum, shard| sum.wrapping_add(shard.drain_goodbyes.value()))
    }

    /// How the drain stands.
    pub(crate) fn drain_status(&self) -> DrainStatus {
        let listeners = &self.options.listeners;
        let stays_open = listeners.iter().filter(|it| it.stays_open).count() as u64;
        let status = self.drain.status(self.all_to_go() as u64, self.goodbyes());
        // Looked at behind the phase: where that is `Serving`, all are counted as open.
        let listeners = (listeners.len() as u64).saturating_sub(self.drain.closed());
        DrainStatus { listeners, stays_open, ..status }
    }

    /// Begins a drain, or makes one that is under way the last thing that the node does.
    ///
    /// # Errors
    /// When one is under way that this is not to replace, or the node stops.
    pub(crate) fn begin_drain(&self, plan: DrainPlan) -> Result<DrainStatus, Close> {
        self.drain.begin(plan, self.goodbyes(), |plan, number| {
            tracing::info!(
                event = "drain-announced",
                connections = self.all_to_go(),
                delay_s = plan.request.delay.as_secs_f32(),
                over_s = plan.request.over.as_secs_f32(),
                to = plan.request.to.as_ref().map(tracing::field::display),
                exit = plan.request.exit,
                is_final = plan.is_final,
                "clients are sent to other servers: /readyz says so from now on, listeners close after the delay; `tiderace drain --cancel` takes it back unless it is final"
            );
            for waker in self.wakers.iter() {
                waker.notify(Notice::Drain(plan.clone(), number));
            }
        })?;
        Ok(self.drain_status())
    }

    /// Ends a drain: listeners open again.
    ///
    /// # Errors
    /// When there is none, or none that can be taken back, or the node stops.
    pub(crate) fn cancel_drain(&self) -> Result<DrainStatus, Close> {
        self.drain.cancel(|number| {
            tracing::info!(
                event = "drain-cancelled",
                connections = self.all_to_go(),
                "listeners open again; clients that were sent away come back as their load balancer sends them"
            );
            for waker in self.wakers.iter() {
                waker.notify(Notice::DrainCancelled(number));
            }
        })?;
        Ok(self.drain_status())
    }

    /// The listeners of the node are closed by the drain of that number, but for those that stay open.
    pub(crate) fn note_listeners_closed(&self, number: u64) {
        let connections = self.all_to_go() as u64;
        if self.drain.close(connections, number) {
            tracing::info!(
                event = "drain-begun",
                connections,
                closed = self.drain.closed(),
                "listeners are closed, and clients are told to go; the metric tiderace_drain_connections counts those that are left"
            );
        }
    }

    /// Looks whether all have left by the drain of that number.
    pub(crate) fn note_if_drained(&self, number: u64) {
        let is_empty = self.all_to_go() == 0;
        let Some((goodbyes, stops)) =
            is_empty.then(|| self.drain.finish(self.goodbyes(), number)).flatten()
        else {
            return;
        };
        let next = match stops {
            true => "the server stops",
            false => "stop the server, or take clients again with `tiderace drain --cancel`",
        };
        tracing::info!(event = "drain-done", goodbyes, "all clients have left: {next}");
    }
}
