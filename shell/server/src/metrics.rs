//! What the program itself tells besides its parts, in one table from which names, help and documentation
//! are made.
//!
//! Relies on nothing but the type of rows, so that `cargo xtask docs` reads this file, too.

use tiderace_base::{MetricKind, MetricRow};

/// All metrics of the program.
#[allow(dead_code, reason = "documentation is made of it, by tools/xtask")]
pub(crate) const SERVER_METRICS: &[MetricRow] = &[
    BUILD_INFO,
    ALARM,
    ALARM_FAILURES,
    TLS_EXPIRY,
    TLS_RELOADS,
    CONFIG_RELOADS,
    CONFIG_REFUSED,
    AUDIT_RECORDS,
    DRAIN_REMAINING,
    LOG_LINES_DROPPED,
    LOGIN_CALLOUTS,
    LOGIN_CALLOUTS_IN_FLIGHT,
    SPANS_EXPORTED,
    SPANS_DROPPED,
    SPAN_REQUESTS_FAILED,
    SPANS_WAITING,
    LARGE_MESSAGE_BYTES,
    LARGE_MESSAGES_ARRIVING,
    LARGE_MESSAGES,
    PROCESS_CPU,
    PROCESS_MEMORY,
    PROCESS_START,
    OPEN_FILES,
    OPEN_FILES_MAX,
    DISK_FREE,
    DISK_BYTES,
    HOST_CPU,
    HOST_PROCESSORS,
];

pub(crate) const BUILD_INFO: MetricRow =
    MetricRow::new(MetricKind::Gauge, "tiderace_build_info", "The version that runs; always 1.")
        .with_labels(&["version", "node"]);
pub(crate) const ALARM: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_alarm",
    "1 while the alarm is there, otherwise 0; docs/alarms.md says what each means and what to do.",
)
.with_labels(&["alarm", "severity"]);
pub(crate) const ALARM_FAILURES: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_alarm_looks_failed_total",
    "Times that looking for alarms has failed by a defect of the server; they were left as they were.",
);
pub(crate) const TLS_EXPIRY: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_tls_certificate_expiry_seconds",
    "When the first certificate expires, in seconds since 1970.",
);
pub(crate) const TLS_RELOADS: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_tls_reloads_total",
    "Times that changed certificates were read, by outcome: done or failed.",
)
.with_labels(&["outcome"]);
pub(crate) const CONFIG_RELOADS: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_config_reloads_total",
    "Times that the configuration was read again, by outcome: done, or failed, which has changed nothing.",
)
.with_labels(&["outcome"]);
pub(crate) const CONFIG_REFUSED: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_config_refused",
    "1 while the server runs by an earlier configuration, since it could not use the one that it read last; otherwise 0.",
);
pub(crate) const AUDIT_RECORDS: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_audit_records_total",
    "Changes that were asked for, by outcome: done, refused, unanswered if who had asked was gone, left-out if not done and without a line of its own in the record.",
)
.with_labels(&["outcome"]);
pub(crate) const DRAIN_REMAINING: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_drain_remaining_seconds",
    "How long the server goes on to send its clients elsewhere; 0 while it does not drain.",
);
pub(crate) const LOG_LINES_DROPPED: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_log_lines_dropped_total",
    "Lines of the log that were dropped because standard error was not read, or could not be written to.",
);
pub(crate) const LOGIN_CALLOUTS: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_login_callouts_total",
    "Logins that another server was to be asked about, by outcome: answered or failed, cached from memory, coalesced with an equal one, busy if too many waited, unavailable if it had not answered for a while.",
)
.with_labels(&["outcome"]);
pub(crate) const LOGIN_CALLOUTS_IN_FLIGHT: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_login_callouts_in_flight",
    "Questions about logins that another server has not answered yet.",
);
pub(crate) const SPANS_EXPORTED: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_telemetry_spans_exported_total",
    "Spans of traced messages that the collector has taken.",
);
pub(crate) const SPANS_DROPPED: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_telemetry_spans_dropped_total",
    "Spans of traced messages that were lost, by reason: full if too many waited, failed if they could not be posted, rejected if the collector did not take them.",
)
.with_labels(&["reason"]);
pub(crate) const SPAN_REQUESTS_FAILED: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_telemetry_requests_failed_total",
    "Requests to the collector that had no answer, or none that takes the spans; those that were repeated with success included.",
);
pub(crate) const SPANS_WAITING: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_telemetry_spans_waiting",
    "Spans of traced messages that wait to be exported, those of the request under way included.",
);
pub(crate) const LARGE_MESSAGE_BYTES: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_large_message_bytes",
    "Bytes of large messages in files, arriving ones included.",
);
pub(crate) const LARGE_MESSAGES_ARRIVING: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_large_messages_arriving",
    "Large messages that arrive in files.",
);
pub(crate) const LARGE_MESSAGES: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_large_messages_total",
    "Large messages that began to arrive in files, by outcome: whole or failed.",
)
.with_labels(&["outcome"]);
// Names of `process_…` are those that Prometheus's own clients use.
pub(crate) const PROCESS_CPU: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "process_cpu_seconds_total",
    "Processor time of this process, user and system; on Linux.",
);
pub(crate) const PROCESS_MEMORY: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "process_resident_memory_bytes",
    "Resident memory of this process; on Linux.",
);
pub(crate) const PROCESS_START: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "process_start_time_seconds",
    "When this process was started, in seconds since 1970; on Linux.",
);
pub(crate) const OPEN_FILES: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "process_open_fds",
    "Files that this process has open, connections among them; on Linux.",
);
pub(crate) const OPEN_FILES_MAX: MetricRow =
    MetricRow::new(MetricKind::Gauge, "process_max_fds", "Files that this process may have open.");
pub(crate) const DISK_FREE: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_disk_free_bytes",
    "Bytes that this process may still write to the disk of its store, or of large messages.",
)
.with_labels(&["purpose"]);
pub(crate) const DISK_BYTES: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_disk_bytes",
    "Bytes of the disks that the server writes to, free or not.",
)
.with_labels(&["purpose"]);
pub(crate) const HOST_CPU: MetricRow = MetricRow::new(
    MetricKind::Counter,
    "tiderace_host_cpu_seconds_total",
    "Processor time that anything on this machine has used; on Linux.",
);
pub(crate) const HOST_PROCESSORS: MetricRow = MetricRow::new(
    MetricKind::Gauge,
    "tiderace_host_processors",
    "Processors that this process may use.",
);
