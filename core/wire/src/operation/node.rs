//! What is asked of a node as a whole beside its drain, and what came of it.
//!
//! Who runs the node does it, on a thread that may wait; a broker only says who may ask. Invariant: the words are the
//! same in every protocol, in the configuration and in logs.

use tiderace_base::Span;
use tiderace_value::append_text;

/// How long a level of the log that goes back by itself may last, at most.
pub const LOG_LEVEL_TIME_MAX: Span = Span::from_secs(24 * 3600);

/// Something that the node is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeOperation {
    /// Reads the configuration again and holds to it, or only says what that would change; [`NodeReport::Reload`].
    Reload {
        /// Whether nothing is to be changed.
        dry_run: bool,
    },
    /// Writes other lines to the log; [`NodeReport::Log`].
    Log {
        /// The least important lines that are written; absent: as the configuration has it.
        level: Option<LogWord>,
        /// After how long the level is again as the configuration has it.
        lasts: Option<Span>,
    },
}

/// How important the lines of a log are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogWord {
    /// Only what an operator must act on.
    Error,
    /// Also what an operator should look at.
    Warn,
    /// Also the course of events.
    Info,
    /// Also what only developers need.
    Debug,
    /// Also every step of every connection.
    Trace,
}

impl LogWord {
    /// All of them with their words.
    pub const ALL: [(&'static str, LogWord); 5] = [
        ("error", LogWord::Error),
        ("warn", LogWord::Warn),
        ("info", LogWord::Info),
        ("debug", LogWord::Debug),
        ("trace", LogWord::Trace),
    ];

    /// Its word.
    pub fn as_str(self) -> &'static str {
        LogWord::ALL.iter().find(|(_, level)| *level == self).map_or("info", |(word, _)| word)
    }
}

/// When a changed option is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Applies {
    /// At once, by all who are connected.
    Now,
    /// By connections that come from then on.
    NewConnections,
    /// When the server is started again.
    Restart,
}

impl Applies {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Applies::Now => "now",
            Applies::NewConnections => "new-connections",
            Applies::Restart => "restart",
        }
    }
}

/// An option of the configuration that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// The option, such as `log.level`, or the name of a section that may stand several times, such as `user`.
    pub option: Box<str>,
    /// When it is held to.
    pub applies: Applies,
}

/// What came of a [`NodeOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeReport {
    /// The configuration was read again.
    Reload {
        /// Whether nothing was changed.
        dry_run: bool,
        /// What is not as the server runs now, or before this was done; in the order of the configuration.
        changes: Vec<ConfigChange>,
    },
    /// The log is written so.
    Log {
        /// The least important lines.
        level: LogWord,
        /// After how long the level is again as the configuration has it.
        lasts: Option<Span>,
    },
}

impl NodeReport {
    /// Appends it as JSON.
    pub(super) fn write_json(&self, out: &mut Vec<u8>) {
        match self {
            NodeReport::Reload { dry_run, changes } => {
                out.extend_from_slice(format!("{{\"dry_run\":{dry_run},\"changes\":[").as_bytes());
                for (place, change) in changes.iter().enumerate() {
                    out.extend_from_slice(if place == 0 {
                        b"{\"option\":"
                    } else {
                        b",{\"option\":"
                    });
                    append_text(out, &change.option);
                    out.extend_from_slice(b",\"applies\":");
                    append_text(out, change.applies.as_str());
                    out.push(b'}');
                }
                out.extend_from_slice(b"]}");
            }
            NodeReport::Log { level, lasts } => {
                out.extend_from_slice(b"{\"level\":");
                append_text(out, level.as_str());
                if let Some(lasts) = lasts {
                    out.extend_from_slice(format!(",\"for_ms\":{}", lasts.as_millis()).as_bytes());
                }
                out.push(b'}');
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn json(report: &NodeReport) -> String {
        let mut out = Vec::new();
        report.write_json(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn reports_are_json() {
        let change = |option: &str, applies| ConfigChange { option: option.into(), applies };
        let changes = vec![
            change("log.level", Applies::Now),
            change("tls.version_min", Applies::NewConnections),
            change("server.shards", Applies::Restart),
        ];
        let expected = concat!(
            r#"{"dry_run":true,"changes":[{"option":"log.level","applies":"now"},"#,
            r#"{"option":"tls.version_min","applies":"new-connections"},{"option":"server.shards","applies":"restart"}]}"#
        );
        assert_eq!(json(&NodeReport::Reload { dry_run: true, changes }), expected);
        let nothing = NodeReport::Reload { dry_run: false, changes: Vec::new() };
        assert_eq!(json(&nothing), r#"{"dry_run":false,"changes":[]}"#);
        let log = |lasts| NodeReport::Log { level: LogWord::Debug, lasts };
        assert_eq!(json(&log(None)), r#"{"level":"debug"}"#);
        assert_eq!(json(&log(Some(Span::from_secs(900)))), r#"{"level":"debug","for_ms":900000}"#);
    }

    #[test]
    fn each_level_has_a_word() {
        for (word, level) in LogWord::ALL {
            assert_eq!(level.as_str(), word);
        }
    }
}
