//! The operations on the node as a whole, read; they lead on to those on queues.

use tiderace_base::{Addresses, Close};
use tiderace_value::{Json, JsonKind};

use super::{Given, bad, short};
use crate::operation::audit::AuditQuery;
use crate::operation::config::ConfigQuery;
use crate::operation::drain::{DRAIN_DELAY_MAX, DRAIN_OVER_MAX};
use crate::operation::explain::{ClientName, Question, TEXTS_MAX};
use crate::operation::node::{LOG_LEVEL_TIME_MAX, LogWord, NodeOperation};
use crate::{Browsable, DrainRequest, Kind, Operation, parse_path};

impl Given<'_> {
    /// The operation of that name, of those on the node, on queues, and on the session that asks.
    pub(super) fn other_operation(&self, what: &str) -> Result<Operation, Close> {
        Ok(match what {
            "kick" => Operation::Kick(Box::new(self.kick()?)),
            "trace" | "traces" | "trace-end" => {
                Operation::Traces(Box::new(self.trace_operation(what)?))
            }
            "drain" => Operation::Drain(Box::new(self.drain()?)),
            "drain-cancel" => Operation::DrainCancel,
            "drain-state" => Operation::DrainState,
            "stats" => Operation::Stats,
            "reload" => self.node(NodeOperation::Reload { dry_run: self.truth("dry_run")? }),
            "log" => self.node(self.log()?),
            "backup" => self.node(NodeOperation::Backup { dry_run: self.truth("dry_run")? }),
            "backup-read" => self.node(self.backup_read()?),
            "config" => self.node(NodeOperation::Config(self.config()?)),
            "explain" => self.node(NodeOperation::Explain(Box::new(self.question()?))),
            "audit" => self.node(NodeOperation::Audit(self.audit()?)),
            _ => match self.block_operation(what)? {
                Some(asked) => Operation::Blocks(Box::new(asked)),
                None => match self.queue_operation(what)? {
                    Some(operation) => operation,
                    None if what == "session" => Operation::Session,
                    None => match self.identity_operation(what)? {
                        Some(asked) => self.node(NodeOperation::Identities(asked)),
                        // A row of the table that nothing reads.
                        None => {
                            return Err(bad(format!("`{what}` is no operation of this server")));
                        }
                    },
                },
            },
        })
    }

    /// What is to be listed.
    pub(super) fn browsable(&self) -> Result<Browsable, Close> {
        let name = self.text("what")?;
        let known = Browsable::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, what)| *what).ok_or_else(|| {
            let all = Browsable::ALL.map(|(name, _)| name).join(", ");
            bad(format!("`what` is one of {all}, not `{}`", short(&name)))
        })
    }

    fn node(&self, operation: NodeOperation) -> Operation {
        Operation::Node(Box::new(operation))
    }

    fn backup_read(&self) -> Result<NodeOperation, Close> {
        let missing = || {
            bad(
                "`backup-read` wants `backup`, the number that `backup` has answered, and `from`, the bytes that were read",
            )
        };
        let backup = self.number("backup")?.ok_or_else(missing)?;
        let from = self.number("from")?.ok_or_else(missing)?;
        Ok(NodeOperation::BackupRead { backup, from })
    }

    fn question(&self) -> Result<Question, Close> {
        let (given, action) = (self.name("who")?, self.text("action")?);
        let given = given.ok_or_else(|| bad("`who` is missing: a name, or `anonymous`"))?;
        let who = ClientName::parse(&given).map_err(bad)?;
        let known = tiderace_manage::ACTIONS.iter().find(|known| **known == action);
        let action = known.copied().ok_or_else(|| {
            let all = tiderace_manage::ACTIONS.join(", ");
            bad(format!("`action` is one of {all}, not `{}`", short(&action)))
        })?;
        let kind = match self.optional_text("kind")? {
            None => None,
            Some(kind) => {
                let known = [Kind::Topic, Kind::Queue, Kind::Service];
                let known = known.into_iter().find(|known| *known.name() == *kind);
                Some(known.ok_or_else(|| bad("`kind` is topic, queue or service"))?)
            }
        };
        let (groups, claims) = (self.texts("groups")?, self.texts("claims")?);
        let claims = claims.iter().map(|claim| Question::claim(claim));
        let claims = claims.collect::<Result<_, _>>().map_err(bad)?;
        let text = self.text("path")?;
        if who.name.is_none() && text.starts_with("~/") {
            return Err(bad("`~/` stands for nothing for who does not log in"));
        }
        let path = parse_path(&text, who.name.as_deref())?;
        let question = Question { who, groups, claims, action, kind, path };
        question.check().map_err(bad)?;
        Ok(question)
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<Box<str>>, Close> {
        let wrong = || bad(format!("`{name}` is a list of at most {TEXTS_MAX} texts"));
        let Some(given) = self.field(name) else { return Ok(Vec::new()) };
        if given.kind() != JsonKind::Array || given.elements().nth(TEXTS_MAX).is_some() {
            return Err(wrong());
        }
        let texts = given.elements().map(|text| text.as_text().map(|text| (&*text).into()));
        texts.collect::<Option<_>>().ok_or_else(wrong)
    }

    fn audit(&self) -> Result<AuditQuery, Close> {
        let (after, limit) = (self.number("after")?, self.small("limit")?);
        Ok(AuditQuery { after, limit, who: self.name("who")?, verb: self.name("verb")? })
    }

    fn config(&self) -> Result<ConfigQuery, Close> {
        let (changed, limit) = (self.truth("changed")?, self.small("limit")?);
        Ok(ConfigQuery { under: self.name("under")?, changed, after: self.name("after")?, limit })
    }

    fn log(&self) -> Result<NodeOperation, Close> {
        let wrong = || {
            bad(
                "`level` is one of error, warn, info, debug and trace; without it the level is as the configuration has it",
            )
        };
        let level = match self.field("level") {
            None => None,
            Some(given) => {
                let text = given.as_text().ok_or_else(wrong)?;
                let known = LogWord::ALL.iter().find(|(word, _)| *word == text);
                Some(known.ok_or_else(wrong)?.1)
            }
        };
        let lasts = self.span("for")?;
        if lasts.is_some_and(|lasts| lasts > LOG_LEVEL_TIME_MAX)
            || lasts.is_some() && level.is_none()
        {
            return Err(bad("`for` goes with `level`, and is at most 24 hours"));
        }
        Ok(NodeOperation::Log { level, lasts })
    }

    fn drain(&self) -> Result<DrainRequest, Close> {
        let missing = || bad("`drain` wants `over`: how long the goodbyes are spread, as \"10m\"");
        let over = self.span("over")?.ok_or_else(missing)?;
        let delay = self.span("delay")?.unwrap_or_default();
        if over > DRAIN_OVER_MAX || delay > DRAIN_DELAY_MAX {
            return Err(bad("`over` is at most 24 hours, and `delay` one hour"));
        }
        Ok(DrainRequest { over, delay, to: self.addresses()?, exit: self.truth("exit")? })
    }

    fn addresses(&self) -> Result<Option<Addresses>, Close> {
        let wrong =
            || bad("`to` is a list of addresses such as [\"wss://b.example.org/tiderace\"]");
        let Some(given) = self.field("to") else { return Ok(None) };
        if given.kind() != JsonKind::Array {
            return Err(wrong());
        }
        let texts = given.elements().map(Json::as_text).collect::<Option<Vec<_>>>();
        Addresses::new(texts.ok_or_else(wrong)?).map_err(|error| bad(format!("`to`: {error}")))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Reading;
    use tiderace_base::{CloseCode, Span, Time};
    use tiderace_topics::Path;

    fn parsed(text: &str) -> Result<Operation, Close> {
        let path = |text: &str| Path::parse(text).map_err(|_| CloseCode::BadDestination.into());
        let selector = |_: &str| Ok(Vec::new());
        let reading = Reading { body: None, now: Time::ZERO, path: &path, selector: &selector };
        Operation::parse(text.as_bytes(), &reading)
    }

    #[test]
    fn a_drain_is_read() {
        let text = r#"{"do":"drain","over":"10m","delay":5000,"to":["wss://b"],"exit":true}"#;
        let Ok(Operation::Drain(request)) = parsed(text) else { panic!("{text}") };
        assert_eq!(request.over, Span::from_secs(600));
        assert_eq!((request.delay, request.exit), (Span::from_secs(5), true));
        assert_eq!(request.to.unwrap().to_string(), "wss://b");
        assert!(matches!(parsed(r#"{"do":"drain-cancel"}"#), Ok(Operation::DrainCancel)));
        assert!(matches!(parsed(r#"{"do":"drain-state"}"#), Ok(Operation::DrainState)));
        assert!(matches!(parsed(r#"{"do":"stats"}"#), Ok(Operation::Stats)));
    }

    #[test]
    fn what_a_node_is_asked_for_is_read() {
        let node = |text: &str| match parsed(text) {
            Ok(Operation::Node(asked)) => *asked,
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(node(r#"{"do":"reload"}"#), NodeOperation::Reload { dry_run: false });
        let dry = node(r#"{"do":"reload","dry_run":true}"#);
        assert_eq!(dry, NodeOperation::Reload { dry_run: true });
        assert_eq!(node(r#"{"do":"backup"}"#), NodeOperation::Backup { dry_run: false });
        let read = NodeOperation::BackupRead { backup: 7, from: 1 << 40 };
        assert_eq!(node(r#"{"do":"backup-read","backup":7,"from":1099511627776}"#), read);
        let audit = |after, limit, who: Option<&str>, verb: Option<&str>| {
            let (who, verb) = (who.map(Into::into), verb.map(Into::into));
            NodeOperation::Audit(AuditQuery { after, limit, who, verb })
        };
        assert_eq!(node(r#"{"do":"audit"}"#), audit(None, 0, None, None));
        let text = r#"{"do":"audit","after":0,"limit":7,"who":"@shop/ann","verb":"kick"}"#;
        assert_eq!(node(text), audit(Some(0), 7, Some("@shop/ann"), Some("kick")));
        assert_eq!(node(r#"{"do":"config"}"#), NodeOperation::Config(ConfigQuery::default()));
        let text =
            r#"{"do":"config","under":"rule","changed":true,"after":"rule[3].allow","limit":7}"#;
        let query = ConfigQuery {
            under: Some("rule".into()),
            changed: true,
            after: Some("rule[3].allow".into()),
            limit: 7,
        };
        assert_eq!(node(text), NodeOperation::Config(query));
        let text = r#"{"do":"explain","who":"@h/ann","groups":["a"],"claims":["b=c=d"],"action":"send","kind":"queue","path":"~/j"}"#;
        let question = Question {
            who: ClientName { name: Some("ann".into()), host: Some("h".into()) },
            groups: vec!["a".into()],
            claims: vec![("b".into(), "c=d".into())],
            action: "send",
            kind: Some(Kind::Queue),
            path: Path::parse("user/ann/j").unwrap(),
        };
        assert_eq!(node(text), NodeOperation::Explain(Box::new(question)));
        let log = |level, lasts| NodeOperation::Log { level, lasts };
        assert_eq!(node(r#"{"do":"log"}"#), log(None, None));
        let lasts = Some(Span::from_secs(900));
        let debug = node(r#"{"do":"log","level":"debug","for":"15m"}"#);
        assert_eq!(debug, log(Some(LogWord::Debug), lasts));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, says) in [
            (r#"{"do":"drain"}"#, "`over`"),
            (r#"{"do":"drain","over":"25h"}"#, "24 hours"),
            (r#"{"do":"drain","over":"1s","delay":"2h"}"#, "one hour"),
            (r#"{"do":"drain","over":"1s","to":"wss://b"}"#, "list"),
            (r#"{"do":"drain","over":"1s","to":["b"]}"#, "SCHEME://"),
            (r#"{"do":"drain","over":"1s","where":1}"#, "where"),
            (r#"{"do":"drain-cancel","over":"1s"}"#, "over"),
            (r#"{"do":"reload","dry_run":1}"#, "dry_run"),
            (r#"{"do":"backup-read","backup":7}"#, "`from`"),
            (r#"{"do":"backup-read","from":0}"#, "`backup`"),
            (r#"{"do":"backup-read","backup":-1,"from":0}"#, "`backup`"),
            (r#"{"do":"explain","action":"send","path":"a"}"#, "`who`"),
            (r#"{"do":"explain","who":"*","action":"send","path":"a"}"#, "`*` is no name"),
            (
                r#"{"do":"explain","who":"a","claims":["b"],"action":"send","path":"a"}"#,
                "NAME=VALUE",
            ),
            (
                r#"{"do":"explain","who":"anonymous","groups":["b"],"action":"send","path":"a"}"#,
                "neither groups nor claims",
            ),
            (r#"{"do":"explain","who":"a","action":"fly","path":"a"}"#, "publish"),
            (r#"{"do":"explain","who":"a","action":"send","kind":"x","path":"a"}"#, "`kind`"),
            (r#"{"do":"audit","after":"x"}"#, "`after`"),
            (r#"{"do":"config","under":7}"#, "`under`"),
            (r#"{"do":"config","changed":1}"#, "`changed`"),
            (r#"{"do":"config","after":7}"#, "`after`"),
            (r#"{"do":"config","limit":-1}"#, "`limit`"),
            (r#"{"do":"audit","who":7}"#, "`who`"),
            (r#"{"do":"backup","to":"/etc/passwd"}"#, "to"),
            (r#"{"do":"log","level":"loud"}"#, "`level`"),
            (r#"{"do":"log","level":7}"#, "`level`"),
            (r#"{"do":"log","level":"debug","for":"25h"}"#, "24 hours"),
            (r#"{"do":"log","for":"1h"}"#, "goes with"),
        ] {
            let refused = parsed(text).unwrap_err();
            assert_eq!(refused.code, CloseCode::BadOperation, "{text}");
            assert!(refused.reason.contains(says), "{text}: {}", refused.reason);
        }
    }
}
