//! The session without a client that keeps `$sys/alarms/NAME` as the board has it.
//!
//! It lives on the first shard. Invariant: a value is there while its alarm is, and removed when that ends.

use std::sync::Arc;

use serde_json::Value as Json;
use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Context, Delivery, Destination, Flags, Kind, Meta, Open, Opening, Output, Progress, Reply,
    Session, properties,
};

use super::board::AlarmBoard;

/// How often the board is looked at.
const LOOK_INTERVAL: Span = Span::from_millis(250);

/// The session.
pub(crate) fn shown(board: &Arc<AlarmBoard>) -> Arc<Open> {
    let board = Arc::clone(board);
    Arc::new(move |opening: &Opening<'_>| -> Box<dyn Session> {
        let is_first = opening.shard == ShardId(0);
        Box::new(Shown {
            board: Arc::clone(&board),
            seen: 0,
            said: Vec::new(),
            due: if is_first { opening.now.time } else { Time::NEVER },
        })
    })
}

struct Shown {
    board: Arc<AlarmBoard>,
    /// The number of the board when it was read.
    seen: u64,
    /// What was published last.
    said: Vec<(&'static str, Json)>,
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

    fn reply(&mut self, _now: Now, _reply: Reply, _context: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    fn deliver(&mut self, _now: Now, _delivery: &Delivery<'_>, _output: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.due = now.time + LOOK_INTERVAL;
        let changes = self.board.changes();
        if changes == self.seen {
            return Ok(());
        }
        self.seen = changes;
        let values = self.board.values();
        let is_there = |name: &str| values.iter().any(|(other, _)| *other == name);
        for (name, _) in self.said.iter().filter(|(name, _)| !is_there(name)) {
            publish(context, name, None);
        }
        for value in values.iter().filter(|value| !self.said.contains(value)) {
            publish(context, value.0, Some(&value.1));
        }
        self.said = values;
        Ok(())
    }

    fn goodbye(&mut self, _close: &Close, _output: &mut Output<'_>) {}

    fn is_established(&self) -> bool {
        true
    }
}

/// Publishes the value of an alarm, or that there is none.
fn publish(context: &mut Context<'_>, name: &str, value: Option<&Json>) {
    // Names of the table are names of topics.
    let Ok(path) = Path::parse(&format!("$sys/alarms/{name}")) else { return };
    let topic = Destination { kind: Kind::Topic, path };
    match value {
        Some(value) => {
            let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
            properties::append(context.commands.message(&topic), "content-type", JSON);
            context.commands.publish(value.to_string().as_bytes(), meta, None);
        }
        None => {
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            context.commands.message(&topic);
            context.commands.publish(&[], meta, None);
        }
    }
}

const JSON: &str = "application/json";
