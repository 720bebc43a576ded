//! What operations are called, and which destination each is about, for who is told of them.
//!
//! Invariant: a name is the one that stands behind `do`.

use tiderace_topics::Path;

use super::{BlockOperation, Browsable, NodeOperation, Operation, TraceOperation};
use crate::Kind;

impl Operation {
    /// Its name.
    pub fn word(&self) -> &'static str {
        match self {
            Operation::Create { .. } => "create",
            Operation::Remove { .. } => "remove",
            Operation::Update(_) => "update",
            Operation::Fetch(_) => "fetch",
            Operation::Topic { .. } => "topic",
            Operation::History(_) => "history",
            Operation::Amend { .. } => "amend",
            Operation::Abandon { .. } => "abandon",
            Operation::Lock { .. } => "lock",
            Operation::Unlock { .. } => "unlock",
            Operation::Claim { .. } => "claim",
            Operation::Release { .. } => "release",
            Operation::View { text: Some(_), .. } => "view",
            Operation::View { text: None, .. } => "unview",
            Operation::Views => "views",
            Operation::Will(_) => "will",
            Operation::Session => "session",
            Operation::Sessions(_) => "sessions",
            Operation::Kick(_) => "kick",
            Operation::Blocks(asked) => match **asked {
                BlockOperation::Block(_) => "block",
                BlockOperation::Unblock(_) => "unblock",
                BlockOperation::List(_) => "blocks",
            },
            Operation::Traces(asked) => match **asked {
                TraceOperation::Begin(_) => "trace",
                TraceOperation::List => "traces",
                TraceOperation::End { .. } => "trace-end",
            },
            Operation::Drain(_) => "drain",
            Operation::DrainCancel => "drain-cancel",
            Operation::DrainState => "drain-state",
            Operation::Stats => "stats",
            Operation::Node(asked) => match &**asked {
                NodeOperation::Explain(_) => "explain",
                NodeOperation::Config(_) => "config",
                NodeOperation::Identities(asked) => asked.word(),
                NodeOperation::Reload { .. } => "reload",
                NodeOperation::Backup { .. } => "backup",
                NodeOperation::BackupRead { .. } => "backup-read",
                NodeOperation::Audit(_) => "audit",
                NodeOperation::Log { .. } => "log",
            },
            Operation::Browse(browse) if browse.what == Browsable::Queues => "queues",
            Operation::Browse(_) => "browse",
            Operation::Queue(_) => "queue",
            Operation::Peek(_) => "peek",
            Operation::Purge { .. } => "purge",
            Operation::Move(asked) if asked.redrive => "redrive",
            Operation::Move(_) => "move",
            Operation::PauseQueue { on: true, .. } => "pause",
            Operation::PauseQueue { on: false, .. } => "resume",
            Operation::CreateSubscription(_) => "create-subscription",
            Operation::DeleteSubscription { .. } => "delete-subscription",
        }
    }

    /// The destination that it is about, if it is about one.
    pub fn about(&self) -> Option<(Kind, &Path)> {
        Some(match self {
            Operation::Create { path, .. }
            | Operation::Topic { path }
            | Operation::Amend { path, .. }
            | Operation::Abandon { path }
            | Operation::Claim { path }
            | Operation::Release { path } => (Kind::Topic, path),
            Operation::Update(update) => (Kind::Topic, &update.path),
            Operation::History(query) => (Kind::Topic, &query.path),
            Operation::Queue(query) => (Kind::Queue, &query.path),
            Operation::Peek(peek) => (Kind::Queue, &peek.path),
            Operation::Purge { path, .. } | Operation::PauseQueue { path, .. } => {
                (Kind::Queue, path)
            }
            Operation::Move(asked) => (Kind::Queue, &asked.from),
            Operation::CreateSubscription(made) => (Kind::Queue, &made.queue),
            Operation::DeleteSubscription { queue } => (Kind::Queue, queue),
            _ => return None,
        })
    }
}
