//! What the server tells about itself, and to whom.

use crate::kind::Kind;
use crate::spec::DefaultValue::Is;
use crate::spec::{choice, section};

section! {
    /// Logs, on standard error.
    "log" TABLE LogConfig {
        /// Form of the lines.
        "format" format: LogFormat = Is("auto"), Kind::Choice(LogFormat::WORDS), flag("log-format");
        /// The least important lines that are written.
        "level" level: LogLevel = Is("info"), Kind::Choice(LogLevel::WORDS), flag("log-level");
    }
}

section! {
    /// Metrics and health over HTTP.
    "monitoring" TABLE MonitoringConfig {
        /// Who may read `/metrics`.
        "metrics_access" metrics_access: MonitoringAccess = Is("loopback"), Kind::Choice(MonitoringAccess::WORDS);
        /// Who may read `/livez` and `/readyz`.
        "health_access" health_access: MonitoringAccess = Is("open"), Kind::Choice(MonitoringAccess::WORDS);
    }
}

choice! {
    /// Form of the log lines.
    LogFormat {
        /// Text on a terminal, JSON otherwise.
        Auto = "auto",
        /// One JSON object per line.
        Json = "json",
        /// Text for people.
        Text = "text",
    }
}

choice! {
    /// Importance of log lines.
    LogLevel {
        /// Also what only developers need.
        Debug = "debug",
        /// Only what an operator must act on.
        Error = "error",
        /// Also the course of events.
        Info = "info",
        /// Also every step of every connection.
        Trace = "trace",
        /// Also what an operator should look at.
        Warn = "warn",
    }
}

choice! {
    /// Who may read an address of the server's own state.
    MonitoringAccess {
        /// Principals whom a rule allows the action `monitor`.
        Authorised = "authorised",
        /// Connections from this machine, and principals whom a rule allows the action `monitor`.
        Loopback = "loopback",
        /// Everybody who reaches the port.
        Open = "open",
    }
}
