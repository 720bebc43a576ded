//! Operations that change the node as a whole, or take all that is in it: how a log names them, and what they are about.
//!
//! Invariant: an operation that only asks has no name here.

use std::fmt::Write;

use super::{BlockOperation, DrainRequest, NodeOperation, Operation};

impl Operation {
    /// The name of what is done and what it is about, if the node is changed by it as a whole, or all that is in it leaves
    /// it.
    pub fn audited(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Operation::Kick(kick) if !kick.dry_run => ("kick", kick.filter.to_string()),
            Operation::Blocks(asked) => match &**asked {
                BlockOperation::Block(block) if !block.dry_run => {
                    let (who, lasts) = (&block.who, block.lasts.as_millis());
                    ("block", format!("{who} for={lasts}ms"))
                }
                BlockOperation::Unblock(who) => ("unblock", who.to_string()),
                BlockOperation::Block(_) | BlockOperation::List(_) => return None,
            },
            Operation::Drain(request) => ("drain", of_drain(request)),
            Operation::DrainCancel => ("drain-cancel", String::new()),
            Operation::Node(asked) => match &**asked {
                NodeOperation::Reload { dry_run: true } => return None,
                // What is read of a backup is part of one that stands there.
                NodeOperation::Backup { dry_run: true } | NodeOperation::BackupRead { .. } => {
                    return None;
                }
                NodeOperation::Backup { dry_run: false } => ("backup", String::new()),
                NodeOperation::Reload { dry_run: false } => ("reload", String::new()),
                NodeOperation::Log { level, lasts } => {
                    let level = level.map_or("as-configured", |level| level.as_str());
                    let lasts = lasts.map(|lasts| format!(" for={}ms", lasts.as_millis()));
                    ("log", format!("level={level}{}", lasts.unwrap_or_default()))
                }
            },
            _ => return None,
        })
    }
}

fn of_drain(request: &DrainRequest) -> String {
    let (over, delay) = (request.over.as_millis(), request.delay.as_millis());
    let mut text = format!("over={over}ms delay={delay}ms");
    if let Some(to) = &request.to {
        // Writing to a String cannot fail.
        let _ = write!(text, " to={to}");
    }
    if request.exit {
        text.push_str(" exit");
    }
    text
}

#[cfg(test)]
mod tests {
    use tiderace_base::{Addresses, Span};

    use super::*;
    use crate::{Block, BlockQuery, Blocked, Kick, LogWord, SessionFilter};

    #[test]
    fn changes_have_a_name_and_what_they_are_about() {
        let kick = |dry_run| {
            let filter =
                SessionFilter { principal: Some("ann".into()), ..SessionFilter::default() };
            Operation::Kick(Box::new(Kick { filter, dry_run, reason: None }))
        };
        let node = |asked| Operation::Node(Box::new(asked));
        let to = Addresses::new(["wss://b"]).ok().flatten();
        let request =
            DrainRequest { over: Span::from_secs(1), to, exit: true, ..Default::default() };
        let log =
            NodeOperation::Log { level: Some(LogWord::Debug), lasts: Some(Span::from_secs(2)) };
        let block = |dry_run| {
            let who = Blocked::Principal("ann".into());
            let lasts = Span::from_secs(3);
            BlockOperation::Block(Block { who, lasts, reason: None, force: false, dry_run })
        };
        let blocks = |asked| Operation::Blocks(Box::new(asked));
        let unblock = BlockOperation::Unblock(Blocked::Principal("ann".into()));
        for (operation, expected) in [
            (blocks(block(false)), Some(("block", "principal=ann for=3000ms"))),
            (blocks(block(true)), None),
            (blocks(unblock), Some(("unblock", "principal=ann"))),
            (blocks(BlockOperation::List(BlockQuery::default())), None),
            (kick(false), Some(("kick", "principal=ann"))),
            (kick(true), None),
            (
                Operation::Drain(Box::new(request)),
                Some(("drain", "over=1000ms delay=0ms to=wss://b exit")),
            ),
            (Operation::DrainCancel, Some(("drain-cancel", ""))),
            (Operation::DrainState, None),
            (Operation::Sessions(Box::default()), None),
            (node(NodeOperation::Reload { dry_run: false }), Some(("reload", ""))),
            (node(NodeOperation::Reload { dry_run: true }), None),
            (node(NodeOperation::Backup { dry_run: false }), Some(("backup", ""))),
            (node(NodeOperation::Backup { dry_run: true }), None),
            (node(NodeOperation::BackupRead { backup: 1, from: 0 }), None),
            (node(log), Some(("log", "level=debug for=2000ms"))),
        ] {
            let audited = operation.audited();
            assert_eq!(audited.as_ref().map(|(verb, on)| (*verb, &**on)), expected);
        }
    }
}
