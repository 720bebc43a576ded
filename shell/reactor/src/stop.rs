//! The end of a node: every client hears it, not all at the same moment.
//!
//! Goodbyes are paced so that clients do not all come to the next server at once. Shards go on with
//! mail until the last has no connections, because answers may still come from another one.

use std::sync::atomic::Ordering;

use tiderace_base::{CloseCode, Key, Span, Time};

use crate::close::Farewell;
use crate::driver::Driver;
use crate::shard::{Shard, Turn};

/// A shard that ends.
#[derive(Debug)]
pub(crate) struct Stopping {
    begun: Time,
    /// Within which all goodbyes are said.
    pace: Span,
    /// When the shard ends whatever is left.
    deadline: Time,
    /// Whose turn to end is still to come, in the order of their slots.
    waiting: Vec<Key>,
    total: usize,
    /// Whether the node has been told that this shard has no connections.
    reported: bool,
}

impl<D: Driver> Shard<D> {
    /// The node stops within `grace`.
    pub(crate) fn begin_stop(&mut self, grace: Span) {
        if self.stopping.is_some() {
            return;
        }
        self.accepting.stop();
        self.driver.stop_accepting();
        let waiting: Vec<Key> = self.connections.iter().map(|(key, _)| key).collect();
        let total = waiting.len();
        // What is left of the grace is for writing the last words.
        let pace = (GOODBYE_SPACING * total as u32).min(grace * 3 / 4);
        let begun = self.now.time;
        self.stopping = Some(Stopping {
            begun,
            pace,
            deadline: begun + grace,
            waiting,
            total,
            reported: false,
        });
    }

    /// Says the goodbyes that are due.
    pub(crate) fn stop_some(&mut self) {
        let Some(stopping) = &mut self.stopping else {
            return;
        };
        let now = self.now.time;
        let elapsed = now.since(stopping.begun);
        let share = if stopping.pace.is_zero() {
            1.0
        } else {
            (elapsed.as_secs_f64() / stopping.pace.as_secs_f64()).min(1.0)
        };
        let due = (stopping.total as f64 * share).ceil() as usize;
        let left = stopping.total.saturating_sub(due).min(stopping.waiting.len());
        let over = now >= stopping.deadline;
        let mut ending = stopping.waiting.split_off(left);
        if over || stopping.waiting.is_empty() {
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
        if self.connections.is_empty() && !stopping.reported {
            stopping.reported = true;
            self.shared.unfinished.fetch_sub(1, Ordering::AcqRel);
            // The others wait for this one: let them look.
            for door in self.shared.doors.iter() {
                door.rouse();
            }
        }
        let all = self.shared.unfinished.load(Ordering::Acquire) == 0;
        if stopping.reported && (all && !unstored || self.now.time >= stopping.deadline) {
            return Turn::Finished;
        }
        Turn::Continue
    }
}

/// Ten thousand goodbyes a second and shard, if the grace allows.
const GOODBYE_SPACING: Span = Span::from_micros(100);
