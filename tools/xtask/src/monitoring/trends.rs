//! Alerts that take a history, which a server does not keep: rates, percentiles, what comes again.
//!
//! Data alone. Invariant: each has a history in which it fires, and then ends.

/// One alert.
pub(crate) struct Trend {
    pub(crate) alert: &'static str,
    pub(crate) severity: &'static str,
    pub(crate) expression: &'static str,
    /// Minutes for which it has to hold.
    pub(crate) minutes: u32,
    /// What it means, in a sentence; `{{ $labels.instance }}` stands for the server.
    pub(crate) cause: &'static str,
    pub(crate) remedy: &'static str,
    /// A history of one value a minute, by series.
    pub(crate) series: &'static [(&'static str, &'static str)],
    /// Labels that the alert has besides its severity.
    pub(crate) labels: &'static [(&'static str, &'static str)],
    /// The minute at which it fires, and one at which it has ended.
    pub(crate) fires: u32,
    pub(crate) ends: u32,
}

const ONE: &[(&str, &str)] = &[("instance", "a:7800")];
const BOTH: &[(&str, &str)] = &[("instance", "a:7800"), ("job", "tiderace")];

/// All of them.
pub(crate) const TRENDS: &[Trend] = &[
    Trend {
        alert: "TideraceDown",
        severity: "critical",
        expression: "up{job=~\".*tiderace.*\"} == 0",
        minutes: 1,
        cause: "{{ $labels.instance }} does not answer Prometheus.",
        remedy: "Look whether the server runs, and whether Prometheus may read `/metrics` (`monitoring.metrics_access`).",
        series: &[("up{job=\"tiderace\",instance=\"a:7800\"}", "1 0 0 0 0 1 1")],
        labels: BOTH,
        fires: 4,
        ends: 6,
    },
    Trend {
        alert: "TideraceRestartsAgainAndAgain",
        severity: "critical",
        expression: "changes(process_start_time_seconds{job=~\".*tiderace.*\"}[30m]) > 2",
        minutes: 0,
        cause: "{{ $labels.instance }} was started more than twice within half an hour.",
        remedy: "Read the end of the log of the process before: the journal keeps it, or `docker logs`, `kubectl logs -p`.",
        series: &[(
            "process_start_time_seconds{job=\"tiderace\",instance=\"a:7800\"}",
            "1 2 3 4x60",
        )],
        labels: BOTH,
        fires: 5,
        ends: 40,
    },
    Trend {
        alert: "TideraceDeliversLate",
        severity: "warning",
        expression: "histogram_quantile(0.99, sum by (instance, le) (rate(tiderace_publish_to_deliver_seconds_bucket[5m]))) > 0.5",
        minutes: 5,
        cause: "{{ $labels.instance }} takes more than half a second from publish to deliver for one of a hundred deliveries.",
        remedy: "Look at the boards for long turns, a full processor and backlogs of slow readers.",
        series: &[
            (
                "tiderace_publish_to_deliver_seconds_bucket{instance=\"a:7800\",le=\"0.268435456\"}",
                "0+0x15 1+100x30",
            ),
            (
                "tiderace_publish_to_deliver_seconds_bucket{instance=\"a:7800\",le=\"1.073741824\"}",
                "0+100x15 1501+100x30",
            ),
            (
                "tiderace_publish_to_deliver_seconds_bucket{instance=\"a:7800\",le=\"+Inf\"}",
                "0+100x15 1501+100x30",
            ),
        ],
        labels: ONE,
        fires: 12,
        ends: 40,
    },
    Trend {
        alert: "TideraceTurnsAreLong",
        severity: "warning",
        expression: "histogram_quantile(0.99, sum by (instance, le) (rate(tiderace_turn_seconds_bucket[5m]))) > 0.1",
        minutes: 5,
        cause: "Event loops of {{ $labels.instance }} take more than a tenth of a second for one of a hundred turns.",
        remedy: "Look whether the processor is full or shared; if not, report it with what the server was doing.",
        series: &[
            (
                "tiderace_turn_seconds_bucket{instance=\"a:7800\",le=\"0.067108864\"}",
                "0+0x15 1+100x30",
            ),
            (
                "tiderace_turn_seconds_bucket{instance=\"a:7800\",le=\"0.268435456\"}",
                "0+100x15 1501+100x30",
            ),
            (
                "tiderace_turn_seconds_bucket{instance=\"a:7800\",le=\"+Inf\"}",
                "0+100x15 1501+100x30",
            ),
        ],
        labels: ONE,
        fires: 12,
        ends: 40,
    },
    Trend {
        alert: "TideraceDropsMessages",
        severity: "warning",
        expression: "sum by (instance, reason) (rate(tiderace_messages_dropped_total{reason!~\"expired|temporary\"}[5m])) > 0",
        minutes: 5,
        cause: "{{ $labels.instance }} drops messages ({{ $labels.reason }}), since their readers are slow or their queues full.",
        remedy: "`tiderace connections ls --sort backlog` names the slow readers, `tiderace queues ls` the full queues.",
        series: &[(
            "tiderace_messages_dropped_total{instance=\"a:7800\",reason=\"drop-oldest\"}",
            "0+10x15 150x30",
        )],
        labels: &[("instance", "a:7800"), ("reason", "drop-oldest")],
        fires: 12,
        ends: 40,
    },
    Trend {
        alert: "TideraceHasSlowConsumers",
        severity: "warning",
        expression: "sum by (instance) (rate(tiderace_slow_consumers_total[5m])) > 0",
        minutes: 10,
        cause: "Subscribers of {{ $labels.instance }} do not keep up with what they have subscribed to.",
        remedy: "`tiderace connections ls --sort backlog` names them; give them an `interval` or conflation, or less to read.",
        series: &[("tiderace_slow_consumers_total{instance=\"a:7800\"}", "0+1x20 20x30")],
        labels: ONE,
        fires: 18,
        ends: 45,
    },
    Trend {
        alert: "TideraceRefusesLogins",
        severity: "warning",
        expression: "sum by (instance) (rate(tiderace_logins_total{result!=\"accepted\"}[5m])) > 5",
        minutes: 5,
        cause: "{{ $labels.instance }} refuses more than five logins a second.",
        remedy: "Look at the log for who tries: a client with an old password, or somebody who guesses.",
        series: &[
            (
                "tiderace_logins_total{instance=\"a:7800\",result=\"login-failed\"}",
                "0+600x15 9000x30",
            ),
            ("tiderace_logins_total{instance=\"a:7800\",result=\"accepted\"}", "0+6000x45"),
        ],
        labels: ONE,
        fires: 12,
        ends: 40,
    },
    Trend {
        alert: "TideraceLosesClients",
        severity: "critical",
        expression: "sum by (instance) (tiderace_connections) < 0.5 * sum by (instance) (tiderace_connections offset 5m) and sum by (instance) (tiderace_connections offset 5m) > 100 unless on (instance) (max_over_time(tiderace_drain_state[10m]) > 0) unless on (instance) (changes(process_start_time_seconds[10m]) > 0)",
        minutes: 1,
        cause: "{{ $labels.instance }} has lost half of its clients within five minutes, and does not drain.",
        remedy: "Look at the ends by reason, and at the network or the proxy in front of the server.",
        series: &[
            ("tiderace_connections{instance=\"a:7800\",protocol=\"native\"}", "1000x9 300x30"),
            ("tiderace_drain_state{instance=\"a:7800\"}", "0x40"),
        ],
        labels: ONE,
        fires: 12,
        ends: 20,
    },
    Trend {
        alert: "TideraceDiskFillsUp",
        severity: "warning",
        expression: "predict_linear(tiderace_disk_free_bytes[1h], 4 * 3600) < 0",
        minutes: 10,
        cause: "The disk of the {{ $labels.purpose }} of {{ $labels.instance }} will be full in four hours, if it fills as in the last one.",
        remedy: "Look at the depth of queues and the bytes of the store; make room, or bound them.",
        series: &[(
            "tiderace_disk_free_bytes{instance=\"a:7800\",job=\"tiderace\",purpose=\"store\"}",
            "1000-5x90 550x90",
        )],
        labels: &[("instance", "a:7800"), ("job", "tiderace"), ("purpose", "store")],
        fires: 80,
        ends: 170,
    },
    Trend {
        alert: "TideraceUpstreamComesAndGoes",
        severity: "warning",
        expression: "increase(tiderace_upstream_connections_total[15m]) > 5",
        minutes: 0,
        cause: "{{ $labels.instance }} has connected to the upstream {{ $labels.upstream }} more than five times within a quarter of an hour.",
        remedy: "`tiderace upstreams` says why; look at the network on the way to it.",
        series: &[(
            "tiderace_upstream_connections_total{instance=\"a:7800\",job=\"tiderace\",upstream=\"london\"}",
            "0+1x15 15x30",
        )],
        labels: &[("instance", "a:7800"), ("job", "tiderace"), ("upstream", "london")],
        fires: 15,
        ends: 40,
    },
];
