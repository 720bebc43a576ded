//! The boards: what an operator looks at.
//!
//! Data alone. Invariant: each panel says in a sentence what it shows and what to look for.

use super::boards::{Board, Kind, Panel};

const fn lines(
    title: &'static str,
    unit: &'static str,
    about: &'static str,
    shows: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, kind: Kind::Lines, shows }
}

const fn number(
    title: &'static str,
    unit: &'static str,
    about: &'static str,
    shows: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, about, unit, kind: Kind::Number, shows }
}

/// The first to look at.
pub(crate) fn overview() -> String {
    let panels = const {
        &[
            Panel {
                title: "Alarms",
                about: "Every alarm with 1 while it is there, the present ones first; docs/alarms.md says what to do.",
                unit: "none",
                kind: Kind::Table,
                shows: &[("sort_desc(max by (alarm, severity) (tiderace_alarm{$s}))", "")],
            },
            number(
                "Servers",
                "none",
                "Servers that answer.",
                &[("count(tiderace_build_info{$s})", "")],
            ),
            number(
                "Connections",
                "short",
                "Connections open now, and sessions carried by requests or detached.",
                &[("sum(tiderace_connections{$s})", "")],
            ),
            number(
                "In",
                "cps",
                "Messages taken from publishers, a second.",
                &[("sum(rate(tiderace_messages_received_total{$s}[$r]))", "")],
            ),
            number(
                "Out",
                "cps",
                "Messages delivered, a second.",
                &[("sum(rate(tiderace_messages_delivered_total{$s}[$r]))", "")],
            ),
            number(
                "Latency",
                "s",
                "From reading a publisher's bytes to writing them for a subscriber: 99 of 100 deliveries are faster.",
                &[(
                    "histogram_quantile(0.99, sum by (le) (rate(tiderace_publish_to_deliver_seconds_bucket{$s}[$r])))",
                    "",
                )],
            ),
            number(
                "Running for",
                "s",
                "Time since the youngest of the servers was started.",
                &[("time() - max(process_start_time_seconds{$s})", "")],
            ),
            lines(
                "Messages",
                "cps",
                "What comes in and goes out, by server; out is in times subscribers, less what was conflated.",
                &[
                    ("rate(tiderace_messages_received_total{$s}[$r])", "in {{instance}}"),
                    ("rate(tiderace_messages_delivered_total{$s}[$r])", "out {{instance}}"),
                ],
            ),
            lines(
                "Bytes",
                "Bps",
                "What is read from connections and written to them.",
                &[
                    ("rate(tiderace_bytes_received_total{$s}[$r])", "in {{instance}}"),
                    ("rate(tiderace_bytes_sent_total{$s}[$r])", "out {{instance}}"),
                ],
            ),
            lines(
                "Latency from publish to deliver",
                "s",
                "Half of the deliveries, 99 of 100 and 999 of 1,000 are faster; a wide gap means slow turns or slow readers.",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(tiderace_publish_to_deliver_seconds_bucket{$s}[$r])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(tiderace_publish_to_deliver_seconds_bucket{$s}[$r])))",
                        "p99",
                    ),
                    (
                        "histogram_quantile(0.999, sum by (le) (rate(tiderace_publish_to_deliver_seconds_bucket{$s}[$r])))",
                        "p99.9",
                    ),
                ],
            ),
            lines(
                "Connections by protocol",
                "short",
                "Who is connected by what; a sudden fall is a network or a proxy, most of the time.",
                &[("sum by (protocol) (tiderace_connections{$s})", "{{protocol}}")],
            ),
            lines(
                "Backlog",
                "bytes",
                "Bytes that wait for subscribers in the broker, and encoded bytes that the system has not taken: readers that are slow.",
                &[
                    ("tiderace_backlog_bytes{$s}", "messages {{instance}}"),
                    ("tiderace_write_backlog_bytes{$s}", "encoded {{instance}}"),
                ],
            ),
            lines(
                "Headroom",
                "percentunit",
                "How much is used of what there may be: files, memory budget, disk. From 0.9 on there are alarms; of a disk only if less than 50 GiB are free.",
                &[
                    ("process_open_fds{$s} / process_max_fds{$s}", "files {{instance}}"),
                    (
                        "tiderace_memory_bytes{$s} / tiderace_memory_max_bytes{$s}",
                        "memory {{instance}}",
                    ),
                    (
                        "1 - tiderace_disk_free_bytes{$s} / tiderace_disk_bytes{$s}",
                        "disk of {{purpose}} {{instance}}",
                    ),
                ],
            ),
        ]
    };
    let about = "How it stands with all servers at a look: alarms, traffic, latency, headroom.";
    Board { uid: "tiderace-overview", title: "Tiderace: overview", about, panels }.render()
}

/// Who is connected, and how.
pub(crate) fn connections() -> String {
    let panels = const {
        &[
            lines(
                "Connections",
                "short",
                "Connections by protocol and what carries them; detached sessions wait for their clients.",
                &[(
                    "sum by (protocol, transport) (tiderace_connections{$s}) > 0",
                    "{{protocol}} {{transport}}",
                )],
            ),
            lines(
                "Coming and going",
                "cps",
                "Connections accepted and ended, a second; both high means clients that connect again and again.",
                &[
                    ("sum(rate(tiderace_connections_opened_total{$s}[$r]))", "opened"),
                    ("sum(rate(tiderace_connections_closed_total{$s}[$r]))", "closed"),
                ],
            ),
            lines(
                "Ends by reason",
                "cps",
                "Why connections ended, by close code; docs/close-codes.md says what each means.",
                &[(
                    "sum by (reason) (rate(tiderace_connections_closed_total{$s}[$r]))",
                    "{{reason}}",
                )],
            ),
            lines(
                "Rejected as they came",
                "cps",
                "Connections that were closed at once, by reason: limits, and files that may not be opened.",
                &[(
                    "sum by (reason) (rate(tiderace_connections_rejected_total{$s}[$r]))",
                    "{{reason}}",
                )],
            ),
            lines(
                "Logins",
                "cps",
                "Logins by what came of them; many that are refused are a wrong configuration or an attack.",
                &[("sum by (result) (rate(tiderace_logins_total{$s}[$r]))", "{{result}}")],
            ),
            lines(
                "Denied",
                "cps",
                "Commands that the rules refuse, a second.",
                &[(
                    "sum by (instance) (rate(tiderace_authorisation_denied_total{$s}[$r]))",
                    "{{instance}}",
                )],
            ),
            lines(
                "Sessions that came back",
                "cps",
                "Sessions that lost their connection, those that went on with another one, and those that were not there any more.",
                &[
                    ("sum(rate(tiderace_sessions_detached_total{$s}[$r]))", "detached"),
                    ("sum(rate(tiderace_sessions_resumed_total{$s}[$r]))", "resumed"),
                    ("sum(rate(tiderace_sessions_resumes_refused_total{$s}[$r]))", "refused"),
                ],
            ),
            lines(
                "TLS",
                "cps",
                "Handshakes by version and kind, and those that failed.",
                &[
                    (
                        "sum by (version, kind) (rate(tiderace_tls_handshakes_total{$s}[$r]))",
                        "{{version}} {{kind}}",
                    ),
                    ("sum(rate(tiderace_tls_failures_total{$s}[$r]))", "failed"),
                ],
            ),
            lines(
                "HTTP",
                "cps",
                "Requests, upgrades to WebSocket included, and streams of HTTP/2.",
                &[
                    ("sum(rate(tiderace_http_requests_total{$s}[$r]))", "requests"),
                    ("sum(rate(tiderace_http2_streams_opened_total{$s}[$r]))", "HTTP/2 streams"),
                ],
            ),
            lines(
                "Limits of clients",
                "cps",
                "How often clients met a limit of a `limit` section of the configuration, by limit.",
                &[(
                    "sum by (limit) (rate(tiderace_client_limits_reached_total{$s}[$r]))",
                    "{{limit}}",
                )],
            ),
            lines(
                "Drain",
                "short",
                "Clients that are still to go elsewhere while a server drains, and the seconds that are left for it.",
                &[
                    ("tiderace_drain_connections{$s}", "to go {{instance}}"),
                    ("tiderace_drain_remaining_seconds{$s}", "seconds {{instance}}"),
                ],
            ),
            lines(
                "Files",
                "short",
                "Open files of each server, and how many it may have; each connection is one.",
                &[
                    ("process_open_fds{$s}", "open {{instance}}"),
                    ("process_max_fds{$s}", "limit {{instance}}"),
                ],
            ),
        ]
    };
    let about = "Who is connected by what, who comes, goes and is refused, and why.";
    let title = "Tiderace: connections and protocols";
    Board { uid: "tiderace-connections", title, about, panels }.render()
}

/// Topics, and what deltas and conflation save.
pub(crate) fn topics() -> String {
    let panels = const {
        &[
            lines(
                "Topics and subscriptions",
                "short",
                "Topics that hold a value, subscriptions, and views with what they publish.",
                &[
                    ("sum(tiderace_topics_retained{$s})", "topics with a value"),
                    ("sum(tiderace_subscriptions{$s})", "subscriptions"),
                    ("sum(tiderace_view_outputs{$s})", "outputs of views"),
                ],
            ),
            lines(
                "Messages in and out",
                "cps",
                "Messages taken from publishers and delivered to subscribers.",
                &[
                    ("sum(rate(tiderace_messages_received_total{$s}[$r]))", "in"),
                    ("sum(rate(tiderace_messages_delivered_total{$s}[$r]))", "out"),
                ],
            ),
            lines(
                "Fan-out",
                "short",
                "Deliveries for each message that came in.",
                &[(
                    "sum(rate(tiderace_messages_delivered_total{$s}[$r])) / sum(rate(tiderace_messages_received_total{$s}[$r]))",
                    "deliveries",
                )],
            ),
            lines(
                "Saved by deltas",
                "Bps",
                "Bytes that were not sent since messages went as the difference to the one before.",
                &[
                    ("sum(rate(tiderace_delta_saved_bytes_total{$s}[$r]))", "saved"),
                    ("sum(rate(tiderace_bytes_sent_total{$s}[$r]))", "sent"),
                ],
            ),
            lines(
                "Deltas",
                "cps",
                "Messages that were sent as deltas, of those delivered.",
                &[
                    ("sum(rate(tiderace_deltas_sent_total{$s}[$r]))", "deltas"),
                    ("sum(rate(tiderace_messages_delivered_total{$s}[$r]))", "all"),
                ],
            ),
            lines(
                "Conflated and dropped",
                "cps",
                "Messages that newer ones replaced in backlogs, and those that were dropped, by reason: readers that are slow.",
                &[
                    ("sum(rate(tiderace_messages_conflated_total{$s}[$r]))", "conflated"),
                    (
                        "sum by (reason) (rate(tiderace_messages_dropped_total{$s}[$r]))",
                        "{{reason}}",
                    ),
                ],
            ),
            lines(
                "Slow consumers and publishers held back",
                "cps",
                "How often a subscriber was over its mark for too long, and a publisher had to wait.",
                &[
                    ("sum(rate(tiderace_slow_consumers_total{$s}[$r]))", "slow consumers"),
                    ("sum(rate(tiderace_publishers_paused_total{$s}[$r]))", "publishers held back"),
                ],
            ),
            lines(
                "Kept",
                "bytes",
                "Bytes of values, and of recent messages for clients that come back.",
                &[
                    ("sum(tiderace_topics_retained_bytes{$s})", "values"),
                    ("sum(tiderace_history_bytes{$s})", "histories"),
                ],
            ),
            lines(
                "Recoveries",
                "cps",
                "Subscriptions of clients that came back, by whether they got all that they had missed.",
                &[("sum by (result) (rate(tiderace_recoveries_total{$s}[$r]))", "{{result}}")],
            ),
        ]
    };
    let about = "Topics, their traffic, and what deltas and conflation save.";
    Board { uid: "tiderace-topics", title: "Tiderace: topics and deltas", about, panels }.render()
}

/// Queues and services.
pub(crate) fn queues() -> String {
    let panels = const {
        &[
            lines(
                "Depth",
                "short",
                "Messages ready in queues, with consumers, and delayed; a depth that only rises wants more consumers.",
                &[
                    ("sum(tiderace_queue_messages{$s})", "ready"),
                    ("sum(tiderace_queue_messages_in_flight{$s})", "in flight"),
                    ("sum(tiderace_queue_messages_delayed{$s})", "delayed"),
                ],
            ),
            lines(
                "Age of the oldest",
                "s",
                "How long the oldest ready message has been waiting, by server.",
                &[("tiderace_queue_oldest_seconds{$s}", "{{instance}}")],
            ),
            lines(
                "Bytes",
                "bytes",
                "Bytes of messages of queues in memory, and of those that are in the store alone.",
                &[
                    ("sum(tiderace_queue_bytes{$s})", "in memory"),
                    ("sum(tiderace_queue_swapped_bytes{$s})", "in the store alone"),
                ],
            ),
            lines(
                "Queues",
                "short",
                "Queues, and those that are paused.",
                &[
                    ("sum(tiderace_queues{$s})", "queues"),
                    ("sum(tiderace_queues_paused{$s})", "paused"),
                ],
            ),
            lines(
                "Redelivered, dead, refused",
                "cps",
                "Messages that came again, that went to dead-letter queues, and that were refused since a queue was full: consumers that fail or do not keep up.",
                &[
                    ("sum(rate(tiderace_messages_redelivered_total{$s}[$r]))", "redelivered"),
                    ("sum(rate(tiderace_messages_dead_lettered_total{$s}[$r]))", "dead letters"),
                    ("sum(rate(tiderace_queue_messages_refused_total{$s}[$r]))", "refused"),
                ],
            ),
            lines(
                "Moved by hand",
                "cps",
                "Messages that operations have purged and moved.",
                &[
                    ("sum(rate(tiderace_messages_purged_total{$s}[$r]))", "purged"),
                    ("sum(rate(tiderace_messages_moved_total{$s}[$r]))", "moved"),
                ],
            ),
            lines(
                "Calls",
                "cps",
                "Calls of services, and those that ended before both sides had said all, by reason.",
                &[
                    ("sum(rate(tiderace_calls_total{$s}[$r]))", "calls"),
                    ("sum by (reason) (rate(tiderace_calls_ended_total{$s}[$r]))", "{{reason}}"),
                ],
            ),
            lines(
                "Services",
                "short",
                "Services, their responders, and calls that wait for one with room.",
                &[
                    ("sum(tiderace_services{$s})", "services"),
                    ("sum(tiderace_responders{$s})", "responders"),
                    ("sum(tiderace_calls_waiting{$s})", "calls waiting"),
                ],
            ),
            lines(
                "Exchanges",
                "short",
                "Calls that are open, by the side that sessions of the server hold.",
                &[("sum by (side) (tiderace_exchanges{$s})", "{{side}}")],
            ),
        ]
    };
    let about = "How deep and how old queues are, what fails, and how services are called.";
    Board { uid: "tiderace-queues", title: "Tiderace: queues and services", about, panels }.render()
}

/// The store and the process.
pub(crate) fn store() -> String {
    let panels = const {
        &[
            lines(
                "Processor",
                "percentunit",
                "Processor time of the server as a part of the processors that it may use.",
                &[
                    (
                        "rate(process_cpu_seconds_total{$s}[$r]) / tiderace_host_processors{$s}",
                        "server {{instance}}",
                    ),
                    (
                        "rate(tiderace_host_cpu_seconds_total{$s}[$r]) / tiderace_host_processors{$s}",
                        "machine {{instance}}",
                    ),
                ],
            ),
            lines(
                "Memory",
                "bytes",
                "Resident memory, and what of the budget (memory.messages_bytes_max) is in use.",
                &[
                    ("process_resident_memory_bytes{$s}", "resident {{instance}}"),
                    ("tiderace_memory_bytes{$s}", "in use {{instance}}"),
                    ("tiderace_memory_max_bytes{$s}", "budget {{instance}}"),
                ],
            ),
            lines(
                "Turns",
                "s",
                "How long turns of the event loops take: half, and 99 of 100, are shorter; long ones delay everybody on their shard.",
                &[
                    (
                        "histogram_quantile(0.5, sum by (le) (rate(tiderace_turn_seconds_bucket{$s}[$r])))",
                        "p50",
                    ),
                    (
                        "histogram_quantile(0.99, sum by (le) (rate(tiderace_turn_seconds_bucket{$s}[$r])))",
                        "p99",
                    ),
                ],
            ),
            lines(
                "Work that waits",
                "short",
                "Operations and publications that wait for their turn's budget.",
                &[("sum by (instance) (tiderace_work_waiting{$s})", "{{instance}}")],
            ),
            lines(
                "Store",
                "bytes",
                "Bytes of the log, and those of them that are needed; cleaning gives the difference back.",
                &[
                    ("tiderace_store_bytes{$s}", "log {{instance}}"),
                    ("tiderace_store_live_bytes{$s}", "needed {{instance}}"),
                    ("tiderace_store_body_bytes{$s}", "bodies in files {{instance}}"),
                ],
            ),
            lines(
                "Writes to the store",
                "Bps",
                "Bytes written to the log, those of cleaning included.",
                &[("rate(tiderace_store_bytes_written_total{$s}[$r])", "{{instance}}")],
            ),
            lines(
                "Commits",
                "cps",
                "Writes to the log, records in them, and syncs: more records than commits means that they are gathered.",
                &[
                    ("rate(tiderace_store_commits_total{$s}[$r])", "commits {{instance}}"),
                    ("rate(tiderace_store_records_total{$s}[$r])", "records {{instance}}"),
                    ("rate(tiderace_store_syncs_total{$s}[$r])", "syncs {{instance}}"),
                ],
            ),
            lines(
                "Time of a sync",
                "s",
                "How long the disk takes for a sync, on average; publishers of persistent messages wait for it.",
                &[(
                    "rate(tiderace_store_sync_seconds_total{$s}[$r]) / (rate(tiderace_store_syncs_total{$s}[$r]) > 0) or 0 * tiderace_store_syncs_total{$s}",
                    "{{instance}}",
                )],
            ),
            lines(
                "Refused and waiting",
                "short",
                "Batches that the store refused, a second, and answers that wait for it.",
                &[
                    ("rate(tiderace_store_refused_total{$s}[$r])", "refused {{instance}}"),
                    ("tiderace_persistent_waiting{$s}", "waiting {{instance}}"),
                ],
            ),
            lines(
                "Disk",
                "bytes",
                "Bytes free on the disks that the server writes to.",
                &[("tiderace_disk_free_bytes{$s}", "{{purpose}} {{instance}}")],
            ),
            lines(
                "Configuration and certificates",
                "short",
                "Readings of the configuration and of certificates in the last hour, by outcome.",
                &[(
                    "increase(tiderace_config_reloads_total{$s}[1h])",
                    "configuration {{outcome}} {{instance}}",
                )],
            ),
            lines(
                "Log",
                "cps",
                "Lines of the log that were dropped since nobody read them, a second.",
                &[("rate(tiderace_log_lines_dropped_total{$s}[$r])", "{{instance}}")],
            ),
        ]
    };
    let about = "The store, the disk, the processor and the memory of the servers.";
    Board { uid: "tiderace-store", title: "Tiderace: store and runtime", about, panels }.render()
}
