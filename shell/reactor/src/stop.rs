//! The end of a node: every client hears it, not all at the same moment.
//!
//! Goodbyes are paced so that clients do not all come to the next server at once. Shards go on with
//! messages until the last has no connections, because answers may still come from another one.

use std::sync::atomic::Ordering;

use tiderace_base::{CloseCode, Key, Span};

use crate::driver::Driver;
use crate::outcome::Farewell;
use crate::shard::Shard;
use crate::stopping::Stopping;
use crate::turn::Turn;

impl<D: Driver> Shard<D> {
    /// The node stops within `grace`.
    pub(crate) fn begin_stop(&mut self, grace: Span) {
        if self.stopping.is_some() {
            return;
        }
        self.accepting.stop();
        self.driver.stop_accepting();
        let waiting: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
        self.stopping = Some(Stopping::begin(self.now.time, grace, waiting));
    }

    /// Says the goodbyes that are due.
    pub(crate) fn stop_some(&mut self) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        let now = self.now.time;
        let mut ending = stopping.take_due(now);
        let over = stopping.is_over(now);
        if over || stopping.has_said_all() {
            // Connections that arrived meanwhile, from a shard that knew of the stop later.
            ending.extend(self.connections.iter().map(|(key, _)| key));
        }
        for key in ending {
            self.end(key, &CloseCode::ShuttingDown.into(), Farewell::Full);
            if over {
                self.forget(key);
            }
        }
        self.drain_effects();
    }

    /// Whether the shard's work is done.
    pub(crate) fn finished(&mut self) -> Turn {
        if self.stopping.is_none() {
            return Turn::Continue;
        }
        let unstored = self.has_unstored();
        let Some(stopping) = &mut self.stopping else {
            return Turn::Continue;
        };
        if self.connections.is_empty() && stopping.report() {
            self.shared.unfinished.fetch_sub(1, Ordering::AcqRel);
            // The others wait for this one: let them look.
            for waker in self.shared.wakers.iter() {
                waker.wake();
            }
        }
        let all = self.shared.unfinished.load(Ordering::Acquire) == 0;
        if stopping.is_reported() && (all && !unstored || stopping.is_over(self.now.time)) {
            self.finish_spans();
            return Turn::Finished;
        }
        Turn::Continue
    }
}
