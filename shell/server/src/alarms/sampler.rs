//! What the server looks like now, from counters that there are.
//!
//! Relies on the monitor, which knows every part. Invariants: of counters it tells by how much they have grown, and nothing when
//! it looks for the first time; what cannot be told now stays as it was seen last; nothing is allocated while nothing is wrong.

use std::collections::HashMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tiderace_reactor::NodeControl;
use tiderace_wire::DrainPhase;

use super::table::Seen;
use crate::logging;
use crate::monitor::Monitor;

/// Looks again and again.
pub(super) struct Sampler {
    /// What was seen last. What cannot be told at the next look stays as it was: that says nothing of it.
    seen: Seen,
    counters: Counters,
    turns: Turns,
    clock: Option<Clock>,
}

/// What counters were when it was looked last.
#[derive(Default)]
struct Counters(HashMap<&'static str, u64>);

/// Turns that shards had ended, and for how many looks they have been the same.
#[derive(Default)]
struct Turns(Vec<(u64, u64)>);

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Clock {
    passed: Instant,
    wall_ms: u64,
}

impl Sampler {
    pub(super) fn new() -> Sampler {
        Sampler {
            seen: Seen::default(),
            counters: Counters::default(),
            turns: Turns::default(),
            clock: None,
        }
    }

    /// Looks at what conditions ask for and at nothing else. While nothing is wrong, that allocates nothing.
    pub(super) fn look(&mut self, monitor: &Monitor) -> &Seen {
        monitor.resources.look();
        let clock = Clock { passed: Instant::now(), wall_ms: wall_ms() };
        let seen = &mut self.seen;
        seen.files_open = monitor.resources.files_open().or(seen.files_open);
        seen.files_max = monitor.resources.files_max();
        monitor.resources.look_at_disks(clock.passed, &mut seen.disks);
        seen.clock_jump = self.clock.replace(clock).map_or(0.0, |before| jump(before, clock));
        seen.configuration_was_refused = monitor.reloads.is_refused();
        seen.log_lines_dropped = self.counters.grown("log", logging::dropped());
        if let Some(callouts) = &monitor.callouts {
            seen.logins_unanswered = self.counters.grown("logins", callouts.unanswered());
        }
        if let Some(tls) = monitor.tls.get() {
            tls.look_at_certificates(&mut seen.certificates);
            seen.certificates_were_refused = tls.were_refused();
        }
        seen.unreadable = 0;
        if let Some(node) = monitor.node.get() {
            self.look_at_node(node);
        }
        self.look_at_store(monitor);
        &self.seen
    }

    fn look_at_node(&mut self, node: &NodeControl) {
        let (seen, counters) = (&mut self.seen, &mut self.counters);
        (seen.connections, seen.connections_max) =
            (node.sockets() as u64, node.connections_max() as u64);
        let counts = node.counts();
        seen.refused_for_files = counters.grown("files", counts.refused_for_files);
        seen.refused_for_limit = counters.grown("limit", counts.refused_for_limit);
        seen.session_panics = counters.grown("panics", counts.session_panics);
        seen.publishers_paused = counts.paused;
        let sum = |name| node.broker_metric_by_shard(name).fold(0, u64::wrapping_add);
        seen.dead_lettered = counters.grown("dead", sum("tiderace_messages_dead_lettered_total"));
        let refused = sum("tiderace_queue_messages_refused_total")
            .wrapping_add(sum("tiderace_queue_quota_refused_total"));
        seen.queue_messages_refused = counters.grown("refused", refused);
        seen.queue_owners_full = sum("tiderace_queue_owners_full");
        seen.unreadable = sum("tiderace_queue_messages_unreadable_total");
        let used = node.broker_metric_by_shard("tiderace_memory_bytes");
        let most = node.broker_metric_by_shard("tiderace_memory_max_bytes");
        seen.memory.clear();
        seen.memory.extend(used.zip(most));
        seen.stalled = self.turns.stalled(node.turns());
        seen.upstreams_away = node.upstreams_away();
        let phase = node.drain_phase();
        seen.is_opening = phase == DrainPhase::Opening;
        let drains = phase != DrainPhase::Serving && !seen.is_opening;
        seen.draining = drains.then(|| node.drain_status().connections);
    }

    fn look_at_store(&mut self, monitor: &Monitor) {
        let Some(persistence) = &monitor.persistence else { return };
        let (seen, store) = (&mut self.seen, persistence.metrics());
        seen.store_is_full = store.is_full();
        seen.store_queues_are_full = store.are_queues_full();
        seen.store_has_failed = store.is_broken();
        seen.unreadable = seen.unreadable.wrapping_add(store.damaged());
    }
}

impl Counters {
    /// By how much a counter has grown.
    fn grown(&mut self, counter: &'static str, now: u64) -> u64 {
        self.0.insert(counter, now).map_or(0, |before| now.saturating_sub(before))
    }
}

impl Turns {
    /// Shards that ended no turn since the last looks, and for how many seconds. Looks are counted and not the time: while
    /// the whole process was stopped, no shard hung.
    fn stalled(&mut self, turns: impl IntoIterator<Item = u64>) -> Vec<(usize, u64)> {
        for (shard, now) in turns.into_iter().enumerate() {
            if shard == self.0.len() {
                self.0.push((u64::MAX, 0));
            }
            if let Some((before, looks)) = self.0.get_mut(shard) {
                // One that has ended none so far reads what is stored.
                *looks = if now == *before && now > 0 { *looks + 1 } else { 0 };
                *before = now;
            }
        }
        let looks = self.0.iter().map(|(_, looks)| *looks).enumerate();
        looks.filter(|(_, looks)| *looks > 0).collect()
    }
}

/// Seconds by which the time of day went further than the time that has passed.
fn jump(before: Clock, now: Clock) -> f64 {
    let passed = now.passed.saturating_duration_since(before.passed).as_secs_f64();
    (now.wall_ms as f64 - before.wall_ms as f64) / 1000.0 - passed
}

/// The time of day, in milliseconds since 1970.
pub(super) fn wall_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn counters_that_are_seen_for_the_first_time_have_not_grown() {
        let mut counters = Counters::default();
        assert_eq!([7, 7, 9, 2].map(|now| counters.grown("it", now)), [0, 0, 2, 0]);
    }

    #[test]
    fn a_shard_that_ends_no_turn_is_found_and_the_others_are_not() {
        let mut turns = Turns::default();
        assert_eq!(turns.stalled([5, 5]), []);
        assert_eq!(turns.stalled([5, 6]), [(0, 1)]);
        assert_eq!(turns.stalled([5, 7]), [(0, 2)]);
        assert_eq!(turns.stalled([6, 7]), [(1, 1)]);
        assert_eq!(turns.stalled([7, 8]), []);
    }

    #[test]
    fn a_shard_that_reads_what_is_stored_has_not_stalled() {
        let mut turns = Turns::default();
        for _ in 0..10 {
            assert_eq!(turns.stalled([0, 0]), []);
        }
        assert_eq!(turns.stalled([1, 0]), []);
        assert_eq!(turns.stalled([1, 0]), [(0, 1)]);
    }

    #[test]
    fn a_clock_that_is_set_jumps_and_one_that_goes_does_not() {
        let before = Clock { passed: Instant::now(), wall_ms: 1_000_000 };
        let after = |passed_ms: u64, wall_ms: u64| {
            let passed = before.passed + Duration::from_millis(passed_ms);
            jump(before, Clock { passed, wall_ms: 1_000_000 + wall_ms })
        };
        assert!(after(1000, 1000).abs() < 0.001);
        assert!(after(90_000, 90_000).abs() < 0.001, "the process was stopped for a while");
        assert!((after(1000, 61_000) - 60.0).abs() < 0.001);
        let back = Clock { passed: before.passed, wall_ms: 940_000 };
        assert!((jump(before, back) + 60.0).abs() < 0.001);
    }
}
