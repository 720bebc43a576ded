//! The session without a client that keeps `$sys/alarms/NAME` as the board has it.
//!
//! It lives on the first shard. What is refused, as when memory is used up, is asked for again at the next look. Invariant: a value
//! is there while its alarm is, and removed when that ends.

use std::sync::Arc;

use serde_json::Value as Json;
use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_topics::Path;
use tiderace_wire::{
    Context, Delivery, Destination, Flags, Kind, Meta, Open, Opening, Output, Progress, Reply,
    Session, Token, properties,
};

use super::board::AlarmBoard;
use super::table::ALARMS;

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
            is_refused: false,
            due: if is_first { opening.now.time } else { Time::NEVER },
        })
    })
}

struct Shown {
    board: Arc<AlarmBoard>,
    /// The number of the board when it was read.
    seen: u64,
    /// What was published last; null where that was refused.
    said: Vec<(&'static str, Json)>,
    /// Whether something is to be published again.
    is_refused: bool,
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
        if let Reply::Refused { token: Some(token), .. } = reply
            && let Some(row) = ALARMS.get(token as usize)
        {
            self.said.retain(|(name, _)| *name != row.name);
            self.said.push((row.name, Json::Null));
            self.is_refused = true;
        }
        Ok(())
    }

    fn deliver(&mut self, _now: Now, _delivery: &Delivery<'_>, _output: &mut Output<'_>) {}

    fn deadline(&self) -> Time {
        self.due
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.due = now.time + LOOK_INTERVAL;
        let changes = self.board.changes();
        if changes == self.seen && !self.is_refused {
            return Ok(());
        }
        (self.seen, self.is_refused) = (changes, false);
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
    // Its place in the table.
    let place = ALARMS.iter().position(|row| row.name == name);
    let token = place.and_then(|place| Token::try_from(place).ok());
    match value {
        Some(value) => {
            let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
            properties::append(context.commands.message(&topic), "content-type", JSON);
            context.commands.publish(value.to_string().as_bytes(), meta, token);
        }
        None => {
            let meta = Meta { flags: Flags::RETAIN_REMOVE, expires_ms: None };
            context.commands.message(&topic);
            context.commands.publish(&[], meta, token);
        }
    }
}

const JSON: &str = "application/json";

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_base::CloseCode;
    use tiderace_wire::{Command, Commands, Framing, OutQueue};

    use super::super::watch::Present;
    use super::*;

    struct Stage {
        board: Arc<AlarmBoard>,
        session: Shown,
        now: Now,
    }

    impl Stage {
        fn new() -> Stage {
            let board = Arc::<AlarmBoard>::default();
            let session = Shown {
                board: board.clone(),
                seen: 0,
                said: Vec::new(),
                is_refused: false,
                due: Time::ZERO,
            };
            Stage { board, session, now: Now { time: Time::ZERO, wall_ms: 0 } }
        }

        fn set(&self, name: &str) {
            let rows = ALARMS.iter().filter(|row| row.name == name);
            let present = rows.map(|row| Present { row, since_ms: 1, what: String::new() });
            self.board.set(present.collect());
        }

        /// What is published at the next look, whether as a value, and the token of it.
        fn look(&mut self) -> Vec<(String, bool, Token)> {
            let mut commands = Commands::new();
            self.now.time = self.session.deadline();
            self.act(&mut commands, |session, now, context| session.expire(now, context));
            let published = commands.drain().map(|command| match command {
                Command::Publish { run, confirm, .. } => {
                    let path = run.destination().path.to_string();
                    (path, run.any(Flags::RETAIN), confirm.unwrap().from)
                }
                other => panic!("{other:?}"),
            });
            published.collect()
        }

        fn refuse(&mut self, token: Token) {
            let close = CloseCode::TooMuchWork.into();
            let refused = Reply::Refused { token: Some(token), close };
            self.act(&mut Commands::new(), |session, now, context| {
                session.reply(now, refused, context)
            });
        }

        fn act(
            &mut self,
            commands: &mut Commands,
            act: impl FnOnce(&mut Shown, Now, &mut Context<'_>) -> Result<(), Close>,
        ) {
            let mut queue = OutQueue::new();
            let output = Output { queue: &mut queue, framing: Framing::Stream };
            act(&mut self.session, self.now, &mut Context::new(commands, output)).unwrap();
        }
    }

    #[test]
    fn what_is_refused_is_published_again_until_it_is_taken() {
        let mut stage = Stage::new();
        stage.set("memory-full");
        let first = stage.look();
        let [(path, true, token)] = &first[..] else { panic!("{first:?}") };
        assert_eq!(path, "$sys/alarms/memory-full");
        assert_eq!(stage.look(), []);
        for _ in 0..2 {
            stage.refuse(*token);
            assert_eq!(stage.look(), first);
        }
        assert_eq!(stage.look(), [], "it was taken");
        stage.set("");
        let gone = stage.look();
        assert_eq!(gone, [(path.clone(), false, *token)]);
        stage.refuse(*token);
        assert_eq!(stage.look(), gone);
        assert_eq!(stage.look(), []);
    }
}
