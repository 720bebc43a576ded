//! The broker's counters: plain numbers of one shard, summed at scrape time.

macro_rules! broker_metrics {
    ($($name:ident $counter:literal $metric:literal $labels:literal $help:literal;)+) => {
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
        pub const BROKER_METRICS: &[BrokerMetric] = &[
            $(BrokerMetric { name: $metric, labels: $labels, is_counter: $counter, help: $help },)+
        ];
    };
}

/// One row of the table of the broker's metrics.
#[derive(Debug)]
pub struct BrokerMetric {
    /// Prometheus name.
    pub name: &'static str,
    /// Fixed labels in Prometheus form, or empty.
    pub labels: &'static str,
    /// Whether it only rises.
    pub is_counter: bool,
    /// What it counts, with its unit.
    pub help: &'static str,
}

broker_metrics! {
    messages_received true "tiderace_messages_received_total" "" "Messages taken from publishers.";
    dropped_oldest true "tiderace_messages_dropped_total" "reason=\"drop-oldest\"" "Messages dropped from backlogs.";
    dropped_newest true "tiderace_messages_dropped_total" "reason=\"drop-newest\"" "Messages dropped from backlogs.";
    dropped_expired true "tiderace_messages_dropped_total" "reason=\"expired\"" "Messages dropped from backlogs.";
    dropped_dead true "tiderace_messages_dropped_total" "reason=\"redeliveries\"" "Messages dropped from backlogs.";
    dropped_temporary true "tiderace_messages_dropped_total" "reason=\"temporary\"" "Messages dropped from backlogs.";
    conflated true "tiderace_messages_conflated_total" "" "Messages replaced by newer ones of the same topic in backlogs.";
    dead_lettered true "tiderace_messages_dead_lettered_total" "" "Messages moved to a dead-letter queue.";
    redelivered true "tiderace_messages_redelivered_total" "" "Messages delivered again after a rejection, or after a consumer ended that had most likely taken them.";
    slow_consumers true "tiderace_slow_consumers_total" "" "Times a subscriber's backlog stayed above the mark for longer than the grace, if there is one.";
    publishers_paused true "tiderace_publishers_paused_total" "" "Times a publisher was held back for a slow subscriber or a full queue.";
    denied true "tiderace_authorisation_denied_total" "" "Commands refused for lack of permission.";
    calls true "tiderace_calls_total" "" "Calls of services.";
    calls_without_responder true "tiderace_calls_ended_total" "reason=\"no-responder\"" "Calls that ended before both sides had said all.";
    calls_busy true "tiderace_calls_ended_total" "reason=\"service-busy\"" "Calls that ended before both sides had said all.";
    calls_denied true "tiderace_calls_ended_total" "reason=\"not-authorised\"" "Calls that ended before both sides had said all.";
    calls_too_many true "tiderace_calls_ended_total" "reason=\"too-many-calls\"" "Calls that ended before both sides had said all.";
    calls_timed_out true "tiderace_calls_ended_total" "reason=\"call-timeout\"" "Calls that ended before both sides had said all.";
    calls_responder_gone true "tiderace_calls_ended_total" "reason=\"responder-gone\"" "Calls that ended before both sides had said all.";
    calls_caller_gone true "tiderace_calls_ended_total" "reason=\"caller-gone\"" "Calls that ended before both sides had said all.";
    calls_slow true "tiderace_calls_ended_total" "reason=\"slow-consumer\"" "Calls that ended before both sides had said all.";
    calls_hung_up true "tiderace_calls_ended_total" "reason=\"hung-up\"" "Calls that ended before both sides had said all.";
    services false "tiderace_services" "" "Services that somebody serves by name.";
    responders false "tiderace_responders" "" "Subscriptions that serve, those with patterns counted on every shard.";
    calls_waiting false "tiderace_calls_waiting" "" "Calls that wait for a responder with room.";
    exchanges false "tiderace_exchanges" "side=\"caller\"" "Exchanges open, by the side a session holds.";
    exchanges_served false "tiderace_exchanges" "side=\"responder\"" "Exchanges open, by the side a session holds.";
    sessions false "tiderace_sessions" "" "Sessions.";
    subscriptions false "tiderace_subscriptions" "" "Subscriptions.";
    topics false "tiderace_topics" "" "Topics known, counted on each shard that uses them.";
    topics_retired true "tiderace_topics_removed_total" "reason=\"policy\"" "Topics removed by themselves.";
    topics_restored true "tiderace_topics_restored_total" "" "Persistent topics taken back from the store when the server was started.";
    store_refusals true "tiderace_persistent_refused_total" "" "Batches of persistent changes that the store has refused.";
    store_waiting false "tiderace_persistent_waiting" "" "Answers to publishers of persistent topics that wait for the store.";
    retained false "tiderace_topics_retained" "" "Topics that hold a retained value.";
    retained_bytes false "tiderace_topics_retained_bytes" "" "Bytes of retained values, and of what topics keep besides.";
    views false "tiderace_views" "" "Topic views, counted on every shard.";
    view_outputs false "tiderace_view_outputs" "" "Topics that views publish.";
    view_problems true "tiderace_view_problems_total" "" "Outputs of views that could not be published; see $sys/views/.";
    snapshots false "tiderace_snapshots" "" "Parts of snapshots that subscriptions by pattern have yet to take, one for each home.";
    queues false "tiderace_queues" "" "Queues.";
    recoveries_complete true "tiderace_recoveries_total" "result=\"complete\"" "Subscriptions of clients that came back, by whether they got all they had missed.";
    recoveries_incomplete true "tiderace_recoveries_total" "result=\"incomplete\"" "Subscriptions of clients that came back, by whether they got all they had missed.";
    history_messages false "tiderace_history_messages" "" "Recent messages kept for clients that come back.";
    history_bytes false "tiderace_history_bytes" "" "Bytes of recent messages kept for clients that come back.";
    queue_messages false "tiderace_queue_messages" "" "Messages ready in queues.";
    queue_bytes false "tiderace_queue_bytes" "" "Bytes of messages in queues, ready and in flight.";
    work true "tiderace_work_total" "" "Units of work done for operations; one is about three nanoseconds.";
    work_turn_most false "tiderace_work_turn_most" "" "The most units of work that a turn has done, added up over all shards.";
    work_deferred true "tiderace_work_deferred_total" "" "Operations and publications that had to wait for the next turn's budget.";
    work_waiting false "tiderace_work_waiting" "" "Operations and publications that wait for their turn now.";
    work_waiting_bytes false "tiderace_work_waiting_bytes" "" "Bytes of operations and publications that wait for their turn now.";
    windows false "tiderace_conflation_windows" "" "Pairs of a subscription and a topic that get no further update for a while.";
    backlog_bytes false "tiderace_backlog_bytes" "" "Bytes of messages waiting in sessions' backlogs, shared ones counted for each session.";
}
