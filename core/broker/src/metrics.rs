//! The broker's counters: plain numbers of one shard, summed at scrape time.

use tiderace_base::{MetricKind, MetricRow};

macro_rules! broker_metrics {
    ($($name:ident $kind:ident $metric:literal $fixed:tt $help:literal;)+) => {
        /// Counters and gauges of one shard's broker.
        #[derive(Clone, Debug, Default)]
        pub struct BrokerMetrics {
            $(#[doc = $help] pub $name: u64,)+
        }

        impl BrokerMetrics {
            /// The values in the order of [`BROKER_METRICS`].
            pub fn values(&self) -> [u64; BROKER_METRICS.len()] {
                [$(self.$name,)+]
            }
        }

        /// Their names, in the order of [`BrokerMetrics::values`].
        pub const BROKER_METRICS: &[MetricRow] =
            &[$(MetricRow::new(MetricKind::$kind, $metric, $help).with_fixed(&$fixed),)+];
    };
}

/// Those of which the greatest of all shards counts, and not their sum.
pub const BROKER_MAXIMA: &[&str] = &["tiderace_queue_oldest_seconds"];

broker_metrics! {
    messages_received Counter "tiderace_messages_received_total" [] "Messages taken from publishers.";
    dropped_oldest Counter "tiderace_messages_dropped_total" [("reason", "drop-oldest")] "Messages dropped from backlogs.";
    dropped_newest Counter "tiderace_messages_dropped_total" [("reason", "drop-newest")] "Messages dropped from backlogs.";
    dropped_expired Counter "tiderace_messages_dropped_total" [("reason", "expired")] "Messages dropped from backlogs.";
    dropped_dead Counter "tiderace_messages_dropped_total" [("reason", "redeliveries")] "Messages dropped from backlogs.";
    dropped_head Counter "tiderace_messages_dropped_total" [("reason", "drop-head")] "Messages dropped from backlogs.";
    dropped_tail Counter "tiderace_messages_dropped_total" [("reason", "drop-tail")] "Messages dropped from backlogs.";
    dropped_too_large Counter "tiderace_messages_dropped_total" [("reason", "too-large-for-protocol")] "Messages dropped from backlogs.";
    dropped_temporary Counter "tiderace_messages_dropped_total" [("reason", "temporary")] "Messages dropped from backlogs.";
    conflated Counter "tiderace_messages_conflated_total" [] "Messages replaced by newer ones of the same topic in backlogs.";
    dead_lettered Counter "tiderace_messages_dead_lettered_total" [] "Messages moved to a dead-letter queue.";
    messages_purged Counter "tiderace_messages_purged_total" [] "Messages removed from queues by purges.";
    messages_moved Counter "tiderace_messages_moved_total" [] "Messages moved from one queue to another by operations.";
    redelivered Counter "tiderace_messages_redelivered_total" [] "Messages delivered again after a rejection, or after a consumer ended that had most likely taken them.";
    slow_consumers Counter "tiderace_slow_consumers_total" [] "Times a subscriber's backlog stayed above the mark for longer than the grace, if there is one.";
    publishers_paused Counter "tiderace_publishers_paused_total" [] "Times a publisher was held back for a slow subscriber or a full queue.";
    denied Counter "tiderace_authorisation_denied_total" [] "Commands refused for lack of permission.";
    calls Counter "tiderace_calls_total" [] "Calls of services.";
    calls_without_responder Counter "tiderace_calls_ended_total" [("reason", "no-responder")] "Calls that ended before both sides had said all.";
    calls_busy Counter "tiderace_calls_ended_total" [("reason", "service-busy")] "Calls that ended before both sides had said all.";
    calls_denied Counter "tiderace_calls_ended_total" [("reason", "not-authorised")] "Calls that ended before both sides had said all.";
    calls_too_many Counter "tiderace_calls_ended_total" [("reason", "too-many-calls")] "Calls that ended before both sides had said all.";
    calls_timed_out Counter "tiderace_calls_ended_total" [("reason", "call-timeout")] "Calls that ended before both sides had said all.";
    calls_responder_gone Counter "tiderace_calls_ended_total" [("reason", "responder-gone")] "Calls that ended before both sides had said all.";
    calls_caller_gone Counter "tiderace_calls_ended_total" [("reason", "caller-gone")] "Calls that ended before both sides had said all.";
    calls_slow Counter "tiderace_calls_ended_total" [("reason", "slow-consumer")] "Calls that ended before both sides had said all.";
    calls_cancelled Counter "tiderace_calls_ended_total" [("reason", "cancelled")] "Calls that ended before both sides had said all.";
    services Gauge "tiderace_services" [] "Services that somebody serves by name.";
    responders Gauge "tiderace_responders" [] "Subscriptions that serve, those with patterns counted on every shard.";
    calls_waiting Gauge "tiderace_calls_waiting" [] "Calls that wait for a responder with room.";
    exchanges Gauge "tiderace_exchanges" [("side", "caller")] "Exchanges open, by the side a session holds.";
    exchanges_served Gauge "tiderace_exchanges" [("side", "responder")] "Exchanges open, by the side a session holds.";
    sessions Gauge "tiderace_sessions" [] "Sessions.";
    subscriptions Gauge "tiderace_subscriptions" [] "Subscriptions.";
    topics Gauge "tiderace_topics" [] "Topics known, counted on each shard that uses them.";
    topics_retired Counter "tiderace_topics_removed_total" [("reason", "policy")] "Topics removed by themselves.";
    topics_restored Counter "tiderace_topics_restored_total" [] "Persistent topics taken back from the store when the server was started.";
    store_refusals Counter "tiderace_persistent_refused_total" [] "Batches of persistent changes that the store has refused, and large messages whose files it could not keep.";
    store_waiting Gauge "tiderace_persistent_waiting" [] "Answers to publishers of persistent topics and messages, and to consumers, that wait for the store.";
    retained Gauge "tiderace_topics_retained" [] "Topics that hold a retained value.";
    retained_bytes Gauge "tiderace_topics_retained_bytes" [] "Bytes of retained values, and of what topics keep besides.";
    views Gauge "tiderace_views" [] "Topic views, counted on every shard.";
    upstream_messages Counter "tiderace_upstream_messages_total" [] "Messages that upstreams have brought and that were passed on.";
    upstream_repeated Counter "tiderace_upstream_repeated_total" [] "Messages that upstreams have brought again, after a connection was lost or by several subscriptions.";
    upstream_lost Counter "tiderace_upstream_lost_total" [] "Messages of upstreams for which there was no memory.";
    upstream_backfills Counter "tiderace_upstream_backfills_total" [] "Subscriptions of clients that came back for which an upstream was asked what they had missed.";
    upstream_resyncs Counter "tiderace_upstream_resyncs_total" [] "Subscriptions at upstreams whose values came anew to subscribers, since something may have been missing after a connection was lost.";
    upstream_consumed Counter "tiderace_upstream_consumed_messages_total" [] "Messages of queues that upstreams have given consumers here.";
    upstream_consumers Gauge "tiderace_upstream_consumers" [] "Consumers of clients here of the queues of upstreams.";
    upstream_relayed Counter "tiderace_upstream_relayed_total" [] "Requests of clients that upstreams have taken: runs of messages, and operations.";
    upstream_relay_refused Counter "tiderace_upstream_relay_refused_total" [] "Requests of clients that an upstream has refused, or for which it was away for too long.";
    upstream_relay_unknown Counter "tiderace_upstream_relay_unknown_total" [] "Requests of clients of which nobody knows what came of them, since the connection to the upstream was lost before it answered.";
    upstream_relay_waiting Gauge "tiderace_upstream_relay_waiting" [] "Requests of clients that upstreams have not answered.";
    upstream_calls Counter "tiderace_upstream_calls_total" [] "Calls of clients that were passed on to upstreams.";
    upstream_calls_refused Counter "tiderace_upstream_calls_refused_total" [] "Calls of clients for services of an upstream that were not passed on: it was away for too long, takes none, or too many waited.";
    upstream_calls_unknown Counter "tiderace_upstream_calls_unknown_total" [] "Calls of clients of which nobody knows what came of them, since the connection to the upstream was lost before they were over.";
    upstream_serves Gauge "tiderace_upstream_serves" [] "Services of clients that are called from upstreams as well, by name or pattern.";
    upstream_serves_refused Counter "tiderace_upstream_serves_refused_total" [] "Services of clients that an upstream would not let this server serve there.";
    upstream_exchanges Gauge "tiderace_upstream_exchanges" [] "Exchanges of clients with responders at upstreams, and calls that wait for an upstream.";
    upstream_subscriptions Gauge "tiderace_upstream_subscriptions" [] "Subscriptions at upstreams.";
    upstream_waiting Gauge "tiderace_upstream_subscribers_waiting" [] "Subscriptions of this node that wait for an upstream.";
    view_outputs Gauge "tiderace_view_outputs" [] "Topics that views publish.";
    view_problems Counter "tiderace_view_problems_total" [] "Outputs of views that could not be published; see $sys/views/.";
    snapshots Gauge "tiderace_snapshots" [] "Parts of snapshots that subscriptions by pattern have yet to take, one for each home.";
    queues Gauge "tiderace_queues" [] "Queues.";
    queues_paused Gauge "tiderace_queues_paused" [] "Queues that are paused, so that consumers get nothing.";
    recoveries_complete Counter "tiderace_recoveries_total" [("result", "complete")] "Subscriptions of clients that came back, by whether they got all they had missed.";
    recoveries_incomplete Counter "tiderace_recoveries_total" [("result", "incomplete")] "Subscriptions of clients that came back, by whether they got all they had missed.";
    history_messages Gauge "tiderace_history_messages" [] "Recent messages kept for clients that come back.";
    history_bytes Gauge "tiderace_history_bytes" [] "Bytes of recent messages kept for clients that come back.";
    queue_messages Gauge "tiderace_queue_messages" [] "Messages ready in queues.";
    account_refused Counter "tiderace_queue_quota_refused_total" [] "Messages and consumers refused because the owner of their queue has as much in queues as it may.";
    accounts Gauge "tiderace_queue_owners" [] "Principals that own queues, counted on every shard.";
    accounts_full Gauge "tiderace_queue_owners_full" [] "Principals whose queues hold nearly all the bytes that they may, or have since and not left a sixteenth of them free, counted on every shard.";
    queue_refused Counter "tiderace_queue_messages_refused_total" [] "Messages refused because their queue was full.";
    messages_fed Counter "tiderace_subscription_messages_total" [] "Messages of topics put into durable subscriptions.";
    queue_delayed Gauge "tiderace_queue_messages_delayed" [] "Messages in queues that wait for the time when they are to be delivered.";
    queue_in_flight Gauge "tiderace_queue_messages_in_flight" [] "Messages of queues that consumers have and have not settled, as counted within a second or so.";
    queue_oldest Gauge "tiderace_queue_oldest_seconds" [] "How long the oldest ready message of all queues has been waiting; 0 if none waits.";
    queue_bytes Gauge "tiderace_queue_bytes" [] "Bytes of messages of queues in memory: ready, in flight and delayed.";
    queue_swapped Gauge "tiderace_queue_swapped_messages" [] "Ready messages of queues that are in the store alone.";
    queue_swapped_bytes Gauge "tiderace_queue_swapped_bytes" [] "Bytes of the ready messages of queues that are in the store alone.";
    queue_loads Counter "tiderace_queue_loads_total" [] "Times a part of a queue was asked of the store.";
    queue_unreadable Counter "tiderace_queue_messages_unreadable_total" [] "Messages of queues that the store should have had and could not give.";
    queue_stored Counter "tiderace_queue_messages_stored_total" [] "Messages of queues put into the store.";
    queues_restored Counter "tiderace_queues_restored_total" [] "Queues taken back from the store when the server was started.";
    work Counter "tiderace_work_total" [] "Units of work done for operations; one is about three nanoseconds.";
    work_turn_most Gauge "tiderace_work_turn_most" [] "The most units of work that a turn has done, added up over all shards.";
    work_deferred Counter "tiderace_work_deferred_total" [] "Operations and publications that had to wait for the next turn's budget.";
    work_waiting Gauge "tiderace_work_waiting" [] "Operations and publications that wait for their turn now.";
    work_waiting_bytes Gauge "tiderace_work_waiting_bytes" [] "Bytes of operations and publications that wait for their turn now.";
    windows Gauge "tiderace_conflation_windows" [] "Pairs of a subscription and a topic that get no further update for a while.";
    memory_bytes Gauge "tiderace_memory_bytes" [] "Bytes that count in the memory budget (memory.messages_bytes_max).";
    memory_max_bytes Gauge "tiderace_memory_max_bytes" [] "Bytes of the memory budget.";
    backlog_bytes Gauge "tiderace_backlog_bytes" [] "Bytes of messages waiting in sessions' backlogs, shared ones counted for each session.";
}
