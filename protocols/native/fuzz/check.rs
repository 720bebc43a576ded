//! What must hold for any bytes: no panic, what is read is written as it was, and whatever a client
//! sends, what the session says can be read. Shared by the fuzz targets and by the test that replays
//! the corpus.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::{CloseCode, Now, ShardId, Time};
use tiderace_native::codec::{ClientMessage, Messages, QueuedEntries, ServerMessage, Updates};
use tiderace_native::{NativeOptions, protocol};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Destination, Event, Events, Framing, Incoming,
    Kind, LeaveReason, MessageFraming, Meta, Opening, Operation, OperationResult, OutQueue, Output,
    Reply, Run, Session, SharedRun, SubscriptionKey, Target, ViewEntry,
};

/// Messages of a client.
pub fn client(data: &[u8]) {
    for (kind, payload) in Messages::new(data).flatten() {
        let Ok(message) = ClientMessage::read(kind, payload) else { continue };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let (kind, payload) = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(ClientMessage::read(kind, payload).unwrap(), message);
    }
}

/// Messages of the server.
pub fn server(data: &[u8]) {
    for (kind, payload) in Messages::new(data).flatten() {
        let Ok(message) = ServerMessage::read(kind, payload) else { continue };
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        let (kind, payload) = Messages::new(&bytes).next().unwrap().unwrap();
        assert_eq!(ServerMessage::read(kind, payload).unwrap(), message);
        match message {
            ServerMessage::Updates(entries) => {
                let _ = Updates::new(entries).count();
            }
            ServerMessage::Queued(queued) => {
                let _ = QueuedEntries::new(queued.entries).count();
            }
            ServerMessage::Result(result) => {
                let _ = result.values().count();
            }
            _ => {}
        }
    }
}

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| {},
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()),
    armour: None,
};

/// A conversation: the first byte says how long each transport message is. What is published goes to
/// every subscription there is, and the login succeeds at once.
pub fn session(data: &[u8]) {
    let [piece, bytes @ ..] = data else { return };
    let options = NativeOptions {
        message_bytes_max: 1000,
        subscriptions_max: 20,
        declarations_max: 5,
        topics_max: 3,
        ..NativeOptions::default()
    };
    let native = protocol(Arc::new(options), [].into());
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let framing = Framing::Messages(&MESSAGES);
    let opening = Opening { shards: 2, ..Opening::new(framing, peer, Now::default()) };
    let mut player = Player {
        session: (native.open)(&opening),
        queue: OutQueue::new(),
        subscriptions: Vec::new(),
        number: 1,
        ended: false,
    };
    for part in bytes.chunks(usize::from(*piece).max(1)) {
        let message = Incoming { text: false, bytes: part };
        player.call(|session, context| session.message(Now::default(), message, context));
        player.turn();
    }
    player.check();
}

/// A topic that keeps two messages.
fn kept(path: &Path) -> Events {
    let event = |version| {
        let destination = Destination { kind: Kind::Topic, path: path.clone() };
        let (block, body) = (b"content-type:text/plain\na:b\n", b"body");
        let run = Run::single(destination, Time::ZERO, block, body, Meta::default());
        Event { run: Arc::new(run), place: 0, version, time_ms: 7, author: None, amends: None }
    };
    Events { events: vec![event(1), event(2)], more: false }
}

struct Player {
    session: Box<dyn Session>,
    queue: OutQueue,
    subscriptions: Vec<(SubscriptionKey, Vec<Target>)>,
    number: u64,
    ended: bool,
}

impl Player {
    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, &mut Context<'_>) -> Result<(), tiderace_base::Close>,
    ) {
        if self.ended {
            return;
        }
        let framing = Framing::Messages(&MESSAGES);
        let mut commands = Commands::new();
        let output = Output { framing, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, &mut context);
        self.ended = context.is_finished();
        if let Err(close) = result {
            self.session.goodbye(&close, &mut Output { framing, queue: &mut self.queue });
            self.ended = true;
        }
        let commands: Vec<Command> = commands.drain().collect();
        for command in commands {
            self.carry_out(command);
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.call(|session, context| session.reply(Now::default(), reply, context));
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            // As an result is, a list of what was said, or a refusal.
            Command::Goodbye => {}
            Command::Operate { token, operation } => {
                let result = match *operation {
                    Operation::Update(_) => OperationResult::Updated { version: self.number },
                    Operation::History(query) => {
                        OperationResult::Events(Box::new(kept(&query.path)))
                    }
                    Operation::Views => {
                        let name = Path::parse("all").unwrap();
                        OperationResult::Views(vec![ViewEntry { name, text: "\"".into() }])
                    }
                    Operation::Lock { .. } => {
                        let close = CloseCode::LockHeld.into();
                        return self.reply(Reply::Refused { token: Some(token), close });
                    }
                    _ => OperationResult::Done,
                };
                self.reply(Reply::Operated { token, result: Box::new(result) });
            }
            Command::Login(_) => {
                self.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false })
            }
            Command::Publish { mut run, confirm, .. } => {
                run.number(ShardId(1), self.number);
                run.set_version(self.number);
                self.number += run.len() as u64;
                let run = SharedRun::new(Arc::new(run));
                self.deliver(&run);
                if let Some(confirm) = confirm {
                    self.reply(Reply::Confirmed(confirm));
                }
            }
            Command::Subscribe(wish) => {
                // Every third one is refused.
                let token = wish.confirm.unwrap();
                if token % 3 == 0 {
                    let close = CloseCode::NotAuthorised.into();
                    return self.reply(Reply::Refused { token: Some(token), close });
                }
                if wish.notices {
                    let (key, path) = (wish.key, Path::parse("a").unwrap());
                    let spec = Arc::default();
                    self.reply(Reply::Joined { key, path: path.clone(), spec });
                    self.reply(Reply::Left { key, path, reason: LeaveReason::Removed });
                }
                self.subscriptions.push((wish.key, wish.targets));
                self.reply(Reply::Recovered { token, complete: true, continues: true });
                self.reply(Reply::Confirmed(Confirm::one(token)));
            }
            Command::Credit { .. } => panic!("the native protocol gives credit in bytes"),
            Command::Unsubscribe { key, confirm } => {
                self.subscriptions.retain(|(known, _)| *known != key);
                if let Some(token) = confirm {
                    self.reply(Reply::Confirmed(Confirm::one(token)));
                }
            }
            Command::HangUp { exchange, close } => {
                self.reply(Reply::ExchangeEnded { exchange, close });
            }
            Command::ExchangeCredit { .. } => panic!("the native protocol gives credit in bytes"),
            Command::Settle(_) | Command::Call(_) | Command::Speak(_) => {}
        }
    }

    fn deliver(&mut self, run: &SharedRun) {
        let framing = Framing::Messages(&MESSAGES);
        for (key, targets) in &self.subscriptions {
            let destination = run.run().destination();
            let listens = targets.iter().any(|target| match target {
                Target::Exact(exact) => exact == destination,
                Target::Pattern(kind, pattern) => {
                    *kind == destination.kind && pattern.matches(&destination.path)
                }
            });
            if listens {
                let (to, reached) = (run.run().len(), self.number);
                let delivery = Delivery {
                    key: *key,
                    run,
                    from: 0,
                    to,
                    redeliveries: 0,
                    reached,
                    exchange: None,
                };
                let mut output = Output { framing, queue: &mut self.queue };
                self.session.deliver(Now::default(), &delivery, &mut output);
            }
        }
    }

    fn turn(&mut self) {
        let framing = Framing::Messages(&MESSAGES);
        let mut output = Output { framing, queue: &mut self.queue };
        self.session.flush(Now::default(), &mut output);
        assert!(self.session.deadline() > Time::ZERO);
    }

    /// All that was said can be read.
    fn check(mut self) {
        self.turn();
        let bytes = self.queue.take_bytes();
        let mut rest = &bytes[..];
        while let Some((len, more)) = rest.split_first_chunk::<4>() {
            let (frame, more) = more.split_at(u32::from_be_bytes(*len) as usize);
            rest = more;
            for message in Messages::new(frame) {
                let (kind, payload) = message.unwrap();
                match ServerMessage::read(kind, payload).unwrap() {
                    ServerMessage::Updates(entries) => {
                        Updates::new(entries).for_each(|entry| assert!(entry.is_ok()));
                    }
                    ServerMessage::Queued(queued) => {
                        QueuedEntries::new(queued.entries).for_each(|entry| assert!(entry.is_ok()));
                    }
                    ServerMessage::Result(result) => {
                        let told = result.result.matches("\"bytes\":").count();
                        assert_eq!(result.values().map(Result::unwrap).count(), told);
                    }
                    ServerMessage::Other(kind) => panic!("type {kind} was said"),
                    _ => {}
                }
            }
        }
        assert!(rest.is_empty());
    }
}
