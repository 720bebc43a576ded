//! The session without a client that publishes the events of traces to `$sys/trace/ID`.
//!
//! It lives on the first shard. Relies on the node's board for what there is to publish. Invariants: a topic is there before its events, and
//! before who has asked for it is answered; it keeps the last thousand events, and is removed some time after its trace has ended.

use std::sync::Arc;

use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Context, Delivery, Destination, Flags, Kind, Meta, Open, Opening, Operation, Output,
    Progress, Reply, Session, Token, properties,
};

use crate::monitor::Monitor;

/// How often the board is looked at.
const LOOK_INTERVAL: Span = Span::from_millis(100);
/// What a topic of a trace is.
const SPEC: &str = r#"{"type":"timeseries","history":{"count":1000,"age":0},"persistent":false,"deltas":false,"slow_consumer":"drop-oldest","grace":0,"conflation":"latest","interval":0,"priority":"low","owner":null,"presence":false,"schema":null,"removal":null}"#;
/// Of topics that are removed nobody asks what has come of it.
const REMOVAL: Token = 0;

/// The session.
pub(crate) fn shown(monitor: &Arc<Monitor>) -> Arc<Open> {
    let monitor = Arc::clone(monitor);
    Arc::new(move |opening: &Opening<'_>| -> Box<dyn Session> {
        let is_first = opening.shard == ShardId(0);
        let due = if is_first { opening.now.time } else { Time::NEVER };
        Box::new(Shown { monitor: Arc::clone(&monitor), due })
    })
}

struct Shown {
    monitor: Arc<Monitor>,
    due: Time,
}

impl Session for Shown {
    fn receive(
        &mut self,
        _now: Now,
        input: &[u8],
        _context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        Ok(Progress { consumed: input.len(), need: 0 })
    }

    fn reply(&mut self, _now: Now, reply: Reply, _context: &mut Context<'_>) -> Result<(), Close> {
        let (token, made) = match reply {
            Reply::Operated { token, .. } => (token, Ok(())),
            Reply::Refused { token: Some(token), close } => (token, Err(close)),
            _ => return Ok(()),
        };
        if let Some(node) = self.monitor.node.get().filter(|_| token != REMOVAL) {
            node.trace_topic_made(token.into(), made);
        }
        Ok(())
    }

    fn deliver(&mut self, _now: Now, _delivery: &Delivery<'_>, _output: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.due = now.time + LOOK_INTERVAL;
        // The board is there a moment after the first turn.
        let Some(node) = self.monitor.node.get() else { return Ok(()) };
        let news = node.collect_traces(now);
        for (id, path) in news.begun {
            // Numbers begin with one at each start, and hardly come so far.
            let Ok(token) = Token::try_from(id) else { continue };
            let spec = SPEC.as_bytes().into();
            operate(context, token, Operation::Create { path, spec, value: None });
        }
        for (path, line) in news.lines {
            let topic = Destination { kind: Kind::Topic, path };
            properties::append(context.commands.message(&topic), "content-type", JSON);
            let meta = Meta { flags: Flags::NONE, expires_ms: None };
            context.commands.publish(&line, meta, None);
        }
        let removed = news.removed.iter().map(Path::as_str).map(Pattern::parse);
        let selector: Vec<Pattern> = removed.flatten().collect();
        if !selector.is_empty() {
            operate(context, REMOVAL, Operation::Remove { selector });
        }
        Ok(())
    }

    fn goodbye(&mut self, _close: &Close, _output: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

fn operate(context: &mut Context<'_>, token: Token, operation: Operation) {
    context.commands.push(Command::Operate { token, operation: Box::new(operation) });
}

const JSON: &str = "application/json";
