//! What is asked of a node as a whole beside its drain, and what came of it.
//!
//! Who runs the node does it, on a thread that may wait; a broker only says who may ask. Invariant: the words are the
//! same in every protocol, in the configuration and in logs.

use std::sync::Arc;

use tiderace_base::{Span, Time};
use tiderace_topics::Path;
use tiderace_value::append_text;

use super::audit::{AuditPage, AuditQuery};
use super::config::{ConfigChange, ConfigPage, ConfigQuery};
use super::explain::{Explanation, Question};
use super::identity::{IdentityChange, IdentityKind, IdentityOperation, IdentityPage};
use crate::{Destination, Kind, Meta, Run, RunBuilder, properties};

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
    /// Begins a backup of what is stored, or only says what would be in it; [`NodeReport::Backup`].
    Backup {
        /// Whether none is to be begun.
        dry_run: bool,
    },
    /// Reads the next bytes of a backup; [`NodeReport::BackupPart`].
    BackupRead {
        /// Which, as it was called when it was begun.
        backup: u64,
        /// How many bytes have been read.
        from: u64,
    },
    /// Reads a part of the record of changes; [`NodeReport::Audit`].
    Audit(AuditQuery),
    /// Tells which configuration it holds to; [`NodeReport::Config`].
    Config(ConfigQuery),
    /// Says whether somebody may do something, and why; [`NodeReport::Explained`].
    Explain(Box<Question>),
    /// Tells or changes who may come in, and who may do what; [`NodeReport::Identities`] and [`NodeReport::Identity`].
    Identities(IdentityOperation),
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

/// What a backup of the store has in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupSize {
    /// Bytes of the whole.
    pub bytes: u64,
    /// Segments of the log.
    pub segments: u64,
    /// Files with bodies of large messages.
    pub bodies: u64,
}

/// Some of the bytes of a backup.
#[derive(Clone, Debug)]
pub struct BackupPart {
    /// How many bytes there are before these.
    pub from: u64,
    /// Whether there are more behind these.
    pub more: bool,
    run: Arc<Run>,
}

impl BackupPart {
    /// These bytes, which are behind `from` others. Whether a message can have so many is not looked at; `None` only if
    /// [`BACKUP`] were no path.
    pub fn new(from: u64, more: bool, bytes: &[u8]) -> Option<BackupPart> {
        let destination = Destination { kind: Kind::Topic, path: Path::parse(BACKUP).ok()? };
        let mut run = RunBuilder::new(destination, Time::default());
        properties::append(run.properties(), "content-type", "application/octet-stream");
        run.finish(bytes, Meta::default());
        Some(BackupPart { from, more, run: Arc::new(run.build()) })
    }

    /// The bytes, as the only message of a run.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }
}

/// Where rules are looked up for who may have a backup.
pub const BACKUP: &str = "$sys/backup";

/// What came of a [`NodeOperation`].
#[derive(Clone, Debug)]
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
    /// A backup has begun.
    Backup {
        /// By this number its bytes are asked for; absent if none was to be begun.
        backup: Option<u64>,
        /// What is in it.
        size: BackupSize,
    },
    /// Bytes of a backup.
    BackupPart(BackupPart),
    /// A part of the record of changes.
    Audit(Box<AuditPage>),
    /// Options of the configuration.
    Config(Box<ConfigPage>),
    /// Whether somebody may do something, and why.
    Explained(Box<Explanation>),
    /// Users, tokens or rules.
    Identities(Box<IdentityPage>),
    /// A user, a token or a rule was put or removed.
    Identity {
        /// What it is.
        kind: IdentityKind,
        /// Its name.
        name: Box<str>,
        /// What has become of it.
        outcome: IdentityChange,
        /// Whether nothing was changed.
        dry_run: bool,
    },
}

impl NodeReport {
    /// Appends it as JSON, but for bytes of a backup.
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
            NodeReport::Backup { backup, size } => {
                let BackupSize { bytes, segments, bodies } = size;
                let dry_run = backup.is_none();
                out.extend_from_slice(format!("{{\"dry_run\":{dry_run}").as_bytes());
                if let Some(backup) = backup {
                    out.extend_from_slice(format!(",\"backup\":{backup}").as_bytes());
                }
                let rest =
                    format!(",\"bytes\":{bytes},\"segments\":{segments},\"bodies\":{bodies}}}");
                out.extend_from_slice(rest.as_bytes());
            }
            NodeReport::Audit(page) => page.write_json(out),
            NodeReport::Config(page) => page.write_json(out),
            NodeReport::Explained(explanation) => explanation.write_json(out),
            NodeReport::Identities(page) => page.write_json(out),
            NodeReport::Identity { kind, name, outcome, dry_run } => {
                out.extend_from_slice(format!("{{\"{}\":", kind.name()).as_bytes());
                append_text(out, name);
                let outcome = outcome.as_str();
                let rest = format!(",\"outcome\":\"{outcome}\",\"dry_run\":{dry_run}}}");
                out.extend_from_slice(rest.as_bytes());
            }
            NodeReport::BackupPart(BackupPart { from, more, .. }) => {
                out.extend_from_slice(format!("{{\"from\":{from},\"more\":{more}}}").as_bytes());
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Applies;

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
    fn what_is_in_a_backup_is_json() {
        let size = BackupSize { bytes: 4096, segments: 2, bodies: 1 };
        let expected = r#"{"dry_run":true,"bytes":4096,"segments":2,"bodies":1}"#;
        assert_eq!(json(&NodeReport::Backup { backup: None, size }), expected);
        let expected = r#"{"dry_run":false,"backup":7,"bytes":4096,"segments":2,"bodies":1}"#;
        assert_eq!(json(&NodeReport::Backup { backup: Some(7), size }), expected);
    }

    #[test]
    fn each_level_has_a_word() {
        for (word, level) in LogWord::ALL {
            assert_eq!(level.as_str(), word);
        }
    }
}
