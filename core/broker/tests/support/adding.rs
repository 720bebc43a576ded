//! Metrics of several shards together.

use tiderace_broker::BrokerMetrics;

pub fn add(mut left: BrokerMetrics, right: BrokerMetrics) -> BrokerMetrics {
    left.dropped_oldest += right.dropped_oldest;
    left.dropped_newest += right.dropped_newest;
    left.dropped_expired += right.dropped_expired;
    left.dropped_dead += right.dropped_dead;
    left.dropped_temporary += right.dropped_temporary;
    left.conflated += right.conflated;
    left.dead_lettered += right.dead_lettered;
    left.redelivered += right.redelivered;
    left.slow_consumers += right.slow_consumers;
    left.publishers_paused += right.publishers_paused;
    left.denied += right.denied;
    left.calls += right.calls;
    left.calls_without_responder += right.calls_without_responder;
    left.calls_busy += right.calls_busy;
    left.calls_denied += right.calls_denied;
    left.calls_too_many += right.calls_too_many;
    left.calls_timed_out += right.calls_timed_out;
    left.calls_responder_gone += right.calls_responder_gone;
    left.calls_caller_gone += right.calls_caller_gone;
    left.calls_slow += right.calls_slow;
    left.calls_cancelled += right.calls_cancelled;
    left.services += right.services;
    left.responders += right.responders;
    left.calls_waiting += right.calls_waiting;
    left.exchanges += right.exchanges;
    left.exchanges_served += right.exchanges_served;
    left.sessions += right.sessions;
    left.subscriptions += right.subscriptions;
    left.topics += right.topics;
    left.retained += right.retained;
    left.snapshots += right.snapshots;
    left.queues += right.queues;
    left.queue_messages += right.queue_messages;
    left.queue_bytes += right.queue_bytes;
    left.queue_swapped += right.queue_swapped;
    left.queue_swapped_bytes += right.queue_swapped_bytes;
    left.queue_unreadable += right.queue_unreadable;
    left.queue_delayed += right.queue_delayed;
    left.queue_refused += right.queue_refused;
    left.account_refused += right.account_refused;
    left.dropped_head += right.dropped_head;
    left.dropped_tail += right.dropped_tail;
    left.backlog_bytes += right.backlog_bytes;
    left.windows += right.windows;
    left.history_bytes += right.history_bytes;
    left.history_messages += right.history_messages;
    left.recoveries_complete += right.recoveries_complete;
    left.recoveries_incomplete += right.recoveries_incomplete;
    left.upstream_messages += right.upstream_messages;
    left.upstream_repeated += right.upstream_repeated;
    left.upstream_lost += right.upstream_lost;
    left.upstream_backfills += right.upstream_backfills;
    left.upstream_resyncs += right.upstream_resyncs;
    left.upstream_subscriptions += right.upstream_subscriptions;
    left.upstream_calls += right.upstream_calls;
    left.upstream_calls_refused += right.upstream_calls_refused;
    left.upstream_calls_unknown += right.upstream_calls_unknown;
    left.upstream_exchanges += right.upstream_exchanges;
    left.upstream_serves += right.upstream_serves;
    left.upstream_serves_refused += right.upstream_serves_refused;
    left.upstream_waiting += right.upstream_waiting;
    left
}
