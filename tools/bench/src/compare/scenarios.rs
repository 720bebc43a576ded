//! The scenarios of `docs/benchmarks.md` in which the server's processor time is measured, with command line and figures.
//!
//! Invariant: a scenario's arguments fix its load, so that both servers do the same work.

/// A scenario: one run of another sub-command.
#[derive(Debug)]
pub(super) struct Scenario {
    /// What `--only` calls it.
    pub name: &'static str,
    /// The sub-command and its arguments, without the server's.
    pub arguments: &'static [&'static str],
    /// How the sub-command is told how long to measure.
    pub seconds: Option<&'static str>,
    /// Who starts the server.
    pub server: StartedBy,
    /// What is read from its report.
    pub figures: &'static [Figure],
}

/// Who starts the server of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartedBy {
    /// The sub-command, with `--server`.
    Subcommand,
    /// The comparison: the sub-command measures servers that run already.
    Comparison,
}

/// A figure of a report in JSON: processor time of the server, where less is better.
#[derive(Debug)]
pub(super) struct Figure {
    /// What it is called in the table.
    pub name: &'static str,
    /// Where it stands (RFC 6901).
    pub pointer: &'static str,
}

const fn figure(name: &'static str, pointer: &'static str) -> Figure {
    Figure { name, pointer }
}

macro_rules! cell {
    ($name:literal) => {
        Scenario {
            name: $name,
            arguments: &["stomp", "--matrix", "apollo", "--warm-up", "1", "--only", $name],
            seconds: Some("--duration"),
            server: StartedBy::Comparison,
            figures: &[figure(
                "per message",
                "/tiderace/cells/0/results/server/server/cpu_us_per_message",
            )],
        }
    };
}

macro_rules! rubris {
    ($name:literal, $transport:literal) => {
        Scenario {
            name: $name,
            arguments: &[
                "rubris",
                "--transport",
                $transport,
                "--warm-up",
                "1",
                "--batch-bytes",
                "262144",
                "--set",
                "session.batch_delay=40ms",
                "--no-bare",
            ],
            seconds: Some("--duration"),
            server: StartedBy::Subcommand,
            figures: LEVELS,
        }
    };
}

/// All of them.
pub(super) const SCENARIOS: &[Scenario] = &[
    cell!("queue-1-1-1"),
    cell!("queue-8-8-8"),
    cell!("queue-1-1-10"),
    cell!("queue-10-1-1"),
    cell!("topic-1-1-1"),
    cell!("topic-8-8-8"),
    cell!("topic-10-1-10"),
    cell!("queue-10-10-10"),
    cell!("topic-1-1-0"),
    cell!("topic-10-10-10"),
    cell!("topic-1-1-10"),
    cell!("topic-10-1-1"),
    cell!("queue-1-1-1-1k"),
    cell!("topic-1-1-1-256k"),
    Scenario {
        name: "fanout",
        arguments: &["fanout", "--warm-up", "1", "--no-bare"],
        seconds: Some("--duration"),
        server: StartedBy::Comparison,
        figures: FAN_OUT,
    },
    Scenario {
        name: "fanout-20",
        arguments: &["fanout", "--warm-up", "1", "--no-bare", "--rate", "20"],
        seconds: Some("--duration"),
        server: StartedBy::Comparison,
        figures: FAN_OUT,
    },
    rubris!("rubris-websocket", "websocket"),
    rubris!("rubris-polling", "polling"),
    Scenario {
        name: "diffusion",
        arguments: &[
            "diffusion",
            "--clients",
            "2000",
            "--warm-up",
            "1",
            "--no-saturation",
            "--no-bare",
        ],
        seconds: Some("--seconds"),
        server: StartedBy::Subcommand,
        figures: &[
            figure("per event, deltas off", "/steps/0/server/cpu_us_per_event"),
            figure("per event, deltas on", "/steps/1/server/cpu_us_per_event"),
        ],
    },
    Scenario {
        name: "socketio-websocket",
        arguments: &["socketio", "--transport", "websocket", "--warm-up", "1", "--no-bare"],
        seconds: Some("--duration"),
        server: StartedBy::Subcommand,
        figures: FLAT_OUT,
    },
    Scenario {
        name: "socketio-polling",
        arguments: &["socketio", "--transport", "polling", "--warm-up", "1", "--no-bare"],
        seconds: Some("--duration"),
        server: StartedBy::Subcommand,
        figures: FLAT_OUT,
    },
    Scenario {
        name: "socketio-many-topics",
        arguments: &[
            "socketio",
            "--transport",
            "websocket",
            "--warm-up",
            "1",
            "--no-bare",
            "--subscriptions",
            "1000",
            "--topics",
            "50000",
            "--batch-bytes",
            "262144",
        ],
        seconds: Some("--duration"),
        server: StartedBy::Subcommand,
        figures: FLAT_OUT,
    },
    Scenario {
        name: "rsocket-streams",
        arguments: &[
            "rsocket",
            "--transport",
            "tcp,ws,h2,ws-h2",
            "--connections",
            "1000",
            "--streams",
            "25",
            "--rate",
            "100",
            "--ramp-up",
            "1",
            "--warm-up",
            "1",
        ],
        seconds: Some("--duration"),
        server: StartedBy::Subcommand,
        figures: TRANSPORTS,
    },
    Scenario {
        name: "rsocket-requests",
        arguments: &[
            "rsocket",
            "--transport",
            "tcp,ws,h2,ws-h2",
            "--mode",
            "request-response",
            "--rate",
            "0",
            "--connections",
            "100",
            "--streams",
            "100",
            "--ramp-up",
            "1",
            "--warm-up",
            "1",
        ],
        seconds: Some("--duration"),
        server: StartedBy::Subcommand,
        figures: TRANSPORTS,
    },
    Scenario {
        name: "topics",
        arguments: &["topics", "--topics", "1000000"],
        seconds: None,
        server: StartedBy::Subcommand,
        figures: &[
            figure("creating 1,000,000, s", "/created/server_cpu_s"),
            figure("their snapshot, s", "/snapshot/server_cpu_s"),
        ],
    },
];

const FAN_OUT: &[Figure] =
    &[figure("per delivery", "/tiderace/cells/0/results/server/server/cpu_us_per_delivery")];

const LEVELS: &[Figure] = &[
    figure("per delivery, flat out", "/outcomes/0/levels/0/server/cpu_us_per_delivery"),
    figure("per delivery, half of it", "/outcomes/0/levels/1/server/cpu_us_per_delivery"),
];

const FLAT_OUT: &[Figure] =
    &[figure("per delivery, flat out", "/outcomes/0/levels/0/server/cpu_us_per_delivery")];

const TRANSPORTS: &[Figure] = &[
    figure("per payload, TCP", "/outcomes/0/steps/0/server/cpu_us_per_delivery"),
    figure("per payload, WebSocket", "/outcomes/1/steps/0/server/cpu_us_per_delivery"),
    figure("per payload, HTTP/2", "/outcomes/2/steps/0/server/cpu_us_per_delivery"),
    figure("per payload, WebSocket over HTTP/2", "/outcomes/3/steps/0/server/cpu_us_per_delivery"),
];
