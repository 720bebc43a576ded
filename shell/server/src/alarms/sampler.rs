//! What the server looks like now, from counters that there are.
//!
//! Relies on the monitor, which knows every part. Invariant: of counters it tells by how much they have grown, and nothing when
//! it looks for the first time.

use std::collections::HashMap;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tiderace_base::SampleValue;
use tiderace_reactor::NodeControl;
use tiderace_wire::DrainPhase;

use super::table::Seen;
use crate::logging;
use crate::monitor::Monitor;

/// Looks again and again.
pub(super) struct Sampler {
    /// What counters were when it looked last.
    counters: HashMap<&'static str, u64>,
    /// Turns that shards had ended, and for how many looks they have been the same.
    turns: Vec<(u64, u64)>,
    clock: Option<Clock>,
}

/// Both clocks at one moment.
#[derive(Clone, Copy)]
struct Clock {
    passed: Instant,
    wall_ms: u64,
}

impl Sampler {
    pub(super) fn new() -> Sampler {
        Sampler { counters: HashMap::new(), turns: Vec::new(), clock: None }
    }

    pub(super) fn look(&mut self, monitor: &Monitor) -> Seen {
        monitor.resources.look();
        let clock = Clock { passed: Instant::now(), wall_ms: wall_ms() };
        let mut seen = Seen {
            files_open: monitor.resources.files_open(),
            files_max: monitor.resources.files_max(),
            disks: monitor.resources.disks(),
            clock_jump: self.clock.replace(clock).map_or(0.0, |before| jump(before, clock)),
            configuration_was_refused: monitor.reloads.is_refused(),
            log_lines_dropped: self.grown("log", sum(&logging::sample().value)),
            ..Seen::default()
        };
        if let Some(callouts) = &monitor.callouts {
            seen.logins_unanswered = self.grown("logins", callouts.unanswered());
        }
        if let Some(tls) = monitor.tls.get() {
            seen.certificates = tls.certificates();
            seen.certificates_were_refused = tls.were_refused();
        }
        if let Some(node) = monitor.node.get() {
            self.look_at_node(node, &mut seen);
        }
        self.look_at_store(monitor, &mut seen);
        seen
    }

    fn look_at_node(&mut self, node: &NodeControl, seen: &mut Seen) {
        (seen.connections, seen.connections_max) =
            (node.sockets() as u64, node.connections_max() as u64);
        for sample in node.metrics() {
            let value = sum(&sample.value);
            match (sample.row.name, &*sample.labels) {
                ("tiderace_connections_rejected_total", ["files"]) => {
                    seen.refused_for_files = self.grown("files", value);
                }
                ("tiderace_connections_rejected_total", ["limit"]) => {
                    seen.refused_for_limit = self.grown("limit", value);
                }
                ("tiderace_connections_paused", _) => seen.publishers_paused = value,
                ("tiderace_session_panics_total", _) => {
                    seen.session_panics = self.grown("panics", value);
                }
                _ => {}
            }
        }
        let mut refused = 0;
        for (row, value) in node.broker_metrics() {
            match row.name {
                "tiderace_messages_dead_lettered_total" => {
                    seen.dead_lettered = self.grown("dead", value);
                }
                "tiderace_queue_messages_refused_total" | "tiderace_queue_quota_refused_total" => {
                    refused += value;
                }
                "tiderace_queue_owners_full" => seen.queue_owners_full = value,
                "tiderace_queue_messages_unreadable_total" => seen.unreadable += value,
                _ => {}
            }
        }
        seen.queue_messages_refused = self.grown("refused", refused);
        let used = node.broker_metric_by_shard("tiderace_memory_bytes");
        let most = node.broker_metric_by_shard("tiderace_memory_max_bytes");
        seen.memory = used.into_iter().zip(most).collect();
        seen.stalled = self.stalled(&node.turns());
        let statuses = node.upstreams();
        let away = statuses.iter().filter(|status| status.away_since_ms.is_some());
        seen.upstreams_away =
            away.map(|status| (status.name.clone(), status.last_error.clone())).collect();
        let drain = node.drain_status();
        seen.draining = (drain.phase != DrainPhase::Serving).then_some(drain.connections);
    }

    fn look_at_store(&mut self, monitor: &Monitor, seen: &mut Seen) {
        let Some(Some(persistence)) = monitor.persistence.get() else { return };
        for sample in persistence.metrics().samples() {
            let value = sum(&sample.value);
            match sample.row.name {
                "tiderace_store_full" => seen.store_is_full = value > 0,
                "tiderace_store_queues_full" => seen.store_queues_are_full = value > 0,
                "tiderace_store_broken" => seen.store_has_failed = value > 0,
                "tiderace_store_damaged_records_total" => seen.unreadable += value,
                _ => {}
            }
        }
    }

    /// By how much a counter has grown.
    fn grown(&mut self, counter: &'static str, now: u64) -> u64 {
        self.counters.insert(counter, now).map_or(0, |before| now.saturating_sub(before))
    }

    /// Shards that ended no turn since the last looks, and for how many seconds. Looks are counted and not the time: while
    /// the whole process was stopped, no shard hung.
    fn stalled(&mut self, turns: &[u64]) -> Vec<(usize, u64)> {
        self.turns.resize(turns.len(), (u64::MAX, 0));
        for (now, (before, looks)) in turns.iter().zip(&mut self.turns) {
            // One that has ended none so far reads what is stored.
            *looks = if now == before && *now > 0 { *looks + 1 } else { 0 };
            *before = *now;
        }
        let looks = self.turns.iter().map(|(_, looks)| *looks).enumerate();
        looks.filter(|(_, looks)| *looks > 0).collect()
    }
}

/// Seconds by which the time of day went further than the time that has passed.
fn jump(before: Clock, now: Clock) -> f64 {
    let passed = now.passed.saturating_duration_since(before.passed).as_secs_f64();
    (now.wall_ms as f64 - before.wall_ms as f64) / 1000.0 - passed
}

fn sum(value: &SampleValue) -> u64 {
    match value {
        SampleValue::Number(value) => *value,
        SampleValue::Decimal(value) => *value as u64,
        SampleValue::Histogram { buckets, .. } => buckets.iter().sum(),
    }
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
        let mut sampler = Sampler::new();
        assert_eq!([7, 7, 9, 2].map(|now| sampler.grown("it", now)), [0, 0, 2, 0]);
    }

    #[test]
    fn a_shard_that_ends_no_turn_is_found_and_the_others_are_not() {
        let mut sampler = Sampler::new();
        assert_eq!(sampler.stalled(&[5, 5]), []);
        assert_eq!(sampler.stalled(&[5, 6]), [(0, 1)]);
        assert_eq!(sampler.stalled(&[5, 7]), [(0, 2)]);
        assert_eq!(sampler.stalled(&[6, 7]), [(1, 1)]);
        assert_eq!(sampler.stalled(&[7, 8]), []);
    }

    #[test]
    fn a_shard_that_reads_what_is_stored_has_not_stalled() {
        let mut sampler = Sampler::new();
        for _ in 0..10 {
            assert_eq!(sampler.stalled(&[0, 0]), []);
        }
        assert_eq!(sampler.stalled(&[1, 0]), []);
        assert_eq!(sampler.stalled(&[1, 0]), [(0, 1)]);
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
