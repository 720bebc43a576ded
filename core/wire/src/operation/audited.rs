//! Operations that change the server, or take all that is in it: how the record of changes names them, and what they are about.
//!
//! Each operation is named here, so that none comes without a decision whether it is recorded. Invariants: an operation that only
//! asks has no name here; one that a verb of [`tiderace_manage`] makes and that changes something has that verb's.

use tiderace_filter::Selector;
use tiderace_topics::Path;

use super::{
    AuditRecord, Block, BlockOperation, DrainRequest, DurableSubscription, IdentityOperation, Kick,
    MoveMessages, NodeOperation, Operation, TraceOperation,
};

/// What the record of changes says of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audited {
    /// The name of what is done.
    pub verb: &'static str,
    /// What it is about.
    pub on: String,
    /// Whether it only says what would be done: then there is something to record only if it is refused.
    pub is_dry: bool,
}

impl Operation {
    /// What the record says, if something is changed that the server is looked after by, or all that is in it leaves it.
    pub fn audited(&self) -> Option<Audited> {
        let (verb, on) = self.named()?;
        let is_dry = match self {
            Operation::Kick(kick) => kick.dry_run,
            Operation::Blocks(asked) => {
                matches!(&**asked, BlockOperation::Block(block) if block.dry_run)
            }
            Operation::Node(asked) => matches!(
                **asked,
                NodeOperation::Reload { dry_run: true }
                    | NodeOperation::Backup { dry_run: true }
                    | NodeOperation::Identities(
                        IdentityOperation::Put { dry_run: true, .. }
                            | IdentityOperation::Remove { dry_run: true, .. }
                    )
            ),
            _ => false,
        };
        let dry = is_dry.then(|| "dry_run".to_owned());
        let on = listed([Some(on).filter(|on| !on.is_empty()), dry]);
        Some(Audited { verb, on, is_dry })
    }

    /// Its name and what it is about.
    fn named(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Operation::Kick(kick) => ("kick", of_kick(kick)),
            Operation::Blocks(asked) => match &**asked {
                BlockOperation::Block(block) => ("block", of_block(block)),
                BlockOperation::Unblock(who) => ("unblock", who.to_string()),
                BlockOperation::List(_) => return None,
            },
            Operation::Traces(asked) => match &**asked {
                TraceOperation::Begin(request) => ("trace", request.to_string()),
                TraceOperation::End { id } => ("trace-end", format!("id={id}")),
                TraceOperation::List => return None,
            },
            Operation::Drain(request) => ("drain", of_drain(request)),
            Operation::DrainCancel => ("drain-cancel", String::new()),
            Operation::Node(asked) => return of_node(asked),
            Operation::Purge { path, selector, up_to } => {
                let parts = [of_selector(selector.as_ref()), part("up_to", up_to.as_ref())];
                ("purge", listed([queue(path)].into_iter().chain(parts)))
            }
            Operation::Move(asked) => {
                (if asked.redrive { "redrive" } else { "move" }, of_move(asked))
            }
            Operation::PauseQueue { path, on } => {
                (if *on { "pause" } else { "resume" }, listed([queue(path)]))
            }
            Operation::CreateSubscription(made) => ("create-subscription", of_subscription(made)),
            Operation::DeleteSubscription { queue: path } => {
                ("delete-subscription", listed([queue(path)]))
            }
            Operation::View { name, text: Some(text) } => {
                // It has not been looked at whether that may be so long, nor who may ask for it.
                let text = AuditRecord::clipped(text);
                ("view", format!("view={} text={text:?}", name.as_str()))
            }
            Operation::View { name, text: None } => ("unview", format!("view={}", name.as_str())),
            // What applications do with topics, and what only tells.
            Operation::Create { .. }
            | Operation::Remove { .. }
            | Operation::Update(_)
            | Operation::Fetch(_)
            | Operation::History(_)
            | Operation::Amend { .. }
            | Operation::Abandon { .. }
            | Operation::Lock { .. }
            | Operation::Unlock { .. }
            | Operation::Claim { .. }
            | Operation::Release { .. }
            | Operation::Views
            | Operation::Will(_)
            | Operation::Session
            | Operation::Sessions(_)
            | Operation::DrainState
            | Operation::Browse(_)
            | Operation::Queue(_)
            | Operation::Stats
            | Operation::Topic { .. }
            | Operation::Peek(_) => return None,
        })
    }
}

fn of_node(asked: &NodeOperation) -> Option<(&'static str, String)> {
    Some(match asked {
        NodeOperation::Backup { .. } => ("backup", String::new()),
        NodeOperation::Reload { .. } => ("reload", String::new()),
        NodeOperation::Log { level, lasts } => {
            let level = level.map_or("as-configured", |level| level.as_str());
            let lasts = lasts.map(|lasts| format!(" for={}ms", lasts.as_millis()));
            ("log", format!("level={level}{}", lasts.unwrap_or_default()))
        }
        NodeOperation::Identities(asked) => return of_identities(asked),
        // What is read of a backup is part of one that stands there.
        NodeOperation::BackupRead { .. }
        | NodeOperation::Audit(_)
        | NodeOperation::Config(_)
        | NodeOperation::Explain(_) => return None,
    })
}

fn of_identities(asked: &IdentityOperation) -> Option<(&'static str, String)> {
    let (kind, name, rest) = match asked {
        IdentityOperation::List { .. } => return None,
        IdentityOperation::Put { name, what, .. } => (what.kind(), name, what.audited()),
        IdentityOperation::Remove { kind, name, .. } => (*kind, name, String::new()),
    };
    // It has not been looked at whether that may be so long, nor who may ask for it.
    let text = format!("{}={name}{rest}", kind.name());
    Some((asked.word(), AuditRecord::clipped(&text).to_owned()))
}

/// What was given, on one line.
fn listed(parts: impl IntoIterator<Item = Option<String>>) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn part(name: &str, value: Option<impl std::fmt::Display>) -> Option<String> {
    value.map(|value| format!("{name}={value}"))
}

fn queue(path: &Path) -> Option<String> {
    part("queue", Some(path.as_str()))
}

fn of_selector(selector: Option<&Selector>) -> Option<String> {
    selector.map(|selector| format!("selector={:?}", selector.text()))
}

fn of_reason(reason: Option<&str>) -> Option<String> {
    reason.map(|reason| format!("reason={reason:?}"))
}

fn of_kick(kick: &Kick) -> String {
    listed([Some(kick.filter.to_string()), of_reason(kick.reason.as_deref())])
}

fn of_block(block: &Block) -> String {
    let Block { who, lasts, reason, force, .. } = block;
    let lasts = format!("{who} for={}ms", lasts.as_millis());
    let force = force.then(|| "force".to_owned());
    listed([Some(lasts), of_reason(reason.as_deref()), force])
}

fn of_move(asked: &MoveMessages) -> String {
    listed([
        queue(&asked.from),
        part("to", asked.to.as_ref().map(Path::as_str)),
        of_selector(asked.selector.as_ref()),
        part("limit", asked.limit),
        part("up_to", asked.up_to),
    ])
}

fn of_subscription(made: &DurableSubscription) -> String {
    let topics = part("topics", Some(made.topics_text()));
    listed([queue(&made.queue), topics, of_selector(made.selector.as_ref())])
}

fn of_drain(request: &DrainRequest) -> String {
    let (over, delay) = (request.over.as_millis(), request.delay.as_millis());
    let exit = request.exit.then(|| "exit".to_owned());
    let spans = format!("over={over}ms delay={delay}ms");
    listed([Some(spans), part("to", request.to.as_ref()), exit])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_base::{Addresses, Span};

    use super::*;
    use crate::{AuditQuery, BlockQuery, Blocked, LogWord, SessionFilter};

    fn named(operation: &Operation) -> Option<(&'static str, String)> {
        let Audited { verb, on, is_dry } = operation.audited()?;
        assert_eq!(is_dry, on.ends_with("dry_run"), "{on}");
        Some((verb, on))
    }

    #[test]
    fn changes_of_the_node_have_a_name_and_what_they_are_about() {
        let kick = |dry_run, reason: Option<&str>| {
            let filter =
                SessionFilter { principal: Some("ann".into()), ..SessionFilter::default() };
            Operation::Kick(Box::new(Kick { filter, dry_run, reason: reason.map(Into::into) }))
        };
        let node = |asked| Operation::Node(Box::new(asked));
        let to = Addresses::new(["wss://b"]).ok().flatten();
        let request =
            DrainRequest { over: Span::from_secs(1), to, exit: true, ..Default::default() };
        let log =
            NodeOperation::Log { level: Some(LogWord::Debug), lasts: Some(Span::from_secs(2)) };
        let block = |dry_run, force, reason: Option<&str>| {
            let who = Blocked::Principal("ann".into());
            let (lasts, reason) = (Span::from_secs(3), reason.map(Into::into));
            BlockOperation::Block(Block { who, lasts, reason, force, dry_run })
        };
        let blocks = |asked| Operation::Blocks(Box::new(asked));
        let unblock = BlockOperation::Unblock(Blocked::Principal("ann".into()));
        for (operation, expected) in [
            (blocks(block(false, false, None)), Some(("block", "principal=ann for=3000ms"))),
            (
                blocks(block(false, true, Some("try \"later\""))),
                Some(("block", r#"principal=ann for=3000ms reason="try \"later\"" force"#)),
            ),
            (blocks(block(true, false, None)), Some(("block", "principal=ann for=3000ms dry_run"))),
            (blocks(unblock), Some(("unblock", "principal=ann"))),
            (blocks(BlockOperation::List(BlockQuery::default())), None),
            (kick(false, None), Some(("kick", "principal=ann"))),
            (kick(false, Some("later")), Some(("kick", r#"principal=ann reason="later""#))),
            (kick(true, None), Some(("kick", "principal=ann dry_run"))),
            (
                Operation::Drain(Box::new(request)),
                Some(("drain", "over=1000ms delay=0ms to=wss://b exit")),
            ),
            (Operation::DrainCancel, Some(("drain-cancel", ""))),
            (Operation::DrainState, None),
            (Operation::Stats, None),
            (Operation::Sessions(Box::default()), None),
            (node(NodeOperation::Reload { dry_run: false }), Some(("reload", ""))),
            (node(NodeOperation::Reload { dry_run: true }), Some(("reload", "dry_run"))),
            (node(NodeOperation::Backup { dry_run: false }), Some(("backup", ""))),
            (node(NodeOperation::Backup { dry_run: true }), Some(("backup", "dry_run"))),
            (node(NodeOperation::BackupRead { backup: 1, from: 0 }), None),
            (node(NodeOperation::Audit(AuditQuery::default())), None),
            (node(log), Some(("log", "level=debug for=2000ms"))),
        ] {
            let audited = named(&operation);
            assert_eq!(audited.as_ref().map(|(verb, on)| (*verb, &**on)), expected);
        }
    }

    #[test]
    fn changes_of_what_is_there_have_a_name_and_what_they_are_about() {
        let path = |text: &str| Path::parse(text).unwrap();
        let selector = || Some(Selector::parse("a = 'b'").unwrap());
        let moved = |redrive, to: Option<&str>| {
            Operation::Move(Box::new(MoveMessages {
                from: path("a/jobs"),
                to: to.map(path),
                redrive,
                selector: selector(),
                limit: Some(3),
                up_to: Some(7),
            }))
        };
        let pause = |on| Operation::PauseQueue { path: path("jobs"), on };
        let made = DurableSubscription {
            queue: path("dsub/audit"),
            topics: vec![tiderace_topics::Pattern::parse("fx/**").unwrap()],
            selector: None,
        };
        let view =
            |text: Option<&str>| Operation::View { name: path("v"), text: text.map(Into::into) };
        for (operation, verb, on) in [
            (
                Operation::Purge { path: path("jobs"), selector: selector(), up_to: Some(9) },
                "purge",
                r#"queue=jobs selector="a = 'b'" up_to=9"#,
            ),
            (
                moved(false, Some("b")),
                "move",
                r#"queue=a/jobs to=b selector="a = 'b'" limit=3 up_to=7"#,
            ),
            (moved(true, None), "redrive", r#"queue=a/jobs selector="a = 'b'" limit=3 up_to=7"#),
            (pause(true), "pause", "queue=jobs"),
            (pause(false), "resume", "queue=jobs"),
            (
                Operation::CreateSubscription(Box::new(made)),
                "create-subscription",
                "queue=dsub/audit topics=fx/**",
            ),
            (
                Operation::DeleteSubscription { queue: path("dsub/audit") },
                "delete-subscription",
                "queue=dsub/audit",
            ),
            (view(Some("map a to b")), "view", r#"view=v text="map a to b""#),
            (view(None), "unview", "view=v"),
        ] {
            assert_eq!(named(&operation), Some((verb, on.to_owned())));
        }
        let (_, on) = named(&view(Some(&"ä".repeat(AuditRecord::TEXT_BYTES_MAX)))).unwrap();
        assert_eq!(on, format!("view=v text=\"{}\"", "ä".repeat(AuditRecord::TEXT_BYTES_MAX / 2)));
    }
}
