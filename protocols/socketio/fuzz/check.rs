//! What must hold for any messages: no panic, small memory, and whatever is said is a packet of JSON
//! with the attachments it announces. Shared by the fuzz targets and by the test that replays the
//! corpus.
#![allow(dead_code)]

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Now, ShardId};
use tiderace_socketio::{SocketOptions, inner};
use tiderace_value::Json;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Exchange, ExchangeKey, Framing, Incoming, Kind,
    MessageFraming, Opening, OutQueue, Output, Reply, Request, Run, Session, SharedRun,
};

static MARKED: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| mark(b't', len, out),
    binary: |len, out| mark(b'b', len, out),
    armour: None,
};

fn mark(kind: u8, len: usize, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&(len as u32).to_be_bytes());
}

/// The whole input is one text packet of a client in `/` and `/app`.
pub(crate) fn packet(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        let mut player = Player::new("EIO=4");
        player.say(true, b"0");
        player.say(true, b"0/app");
        player.say(true, text.as_bytes());
        player.check();
    }
}

/// The first byte chooses the protocol; lines are messages, those that begin with `#` binary ones.
pub(crate) fn session(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut player = Player::new(if first % 2 == 0 { "EIO=4" } else { "EIO=3" });
    for line in rest.split(|byte| *byte == b'\n') {
        match line.strip_prefix(b"#") {
            Some(bytes) => player.say(false, bytes),
            None if std::str::from_utf8(line).is_ok() => player.say(true, line),
            None => {}
        }
    }
    player.check();
}

struct Player {
    session: Box<dyn Session>,
    queue: OutQueue,
    todo: VecDeque<Command>,
    sequence: u64,
    subscriptions: Vec<(tiderace_wire::SubscriptionKey, Kind)>,
    over: bool,
}

impl Player {
    fn new(query: &str) -> Player {
        let options = SocketOptions {
            message_bytes_max: 2_000,
            subscriptions_max: 8,
            namespaces_max: 4,
            exchanges_max: 4,
            answers_max: 16,
            ..SocketOptions::default()
        };
        let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
        let request = Request {
            method: "GET",
            path: "/socket.io/",
            query: Some(query),
            fields: &[],
            body: b"",
            peer,
        };
        let framing = Framing::Messages(&MARKED);
        let opening =
            Opening { request: Some(&request), ..Opening::new(framing, peer, Now::default()) };
        let mut player = Player {
            session: inner(Arc::new(options))(&opening),
            queue: OutQueue::new(),
            todo: VecDeque::new(),
            sequence: 0,
            subscriptions: Vec::new(),
            over: false,
        };
        player.call(|session, context| session.begin(Now::default(), context));
        player.work();
        player
    }

    fn say(&mut self, text: bool, bytes: &[u8]) {
        let message = Incoming { text, bytes };
        self.call(|session, context| session.message(Now::default(), message, context));
        self.work();
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, &mut Context<'_>) -> Result<(), tiderace_base::Close>,
    ) {
        if self.over {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: Framing::Messages(&MARKED), queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        if let Err(close) = act(&mut *self.session, &mut context) {
            let mut output = Output { framing: Framing::Messages(&MARKED), queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.over = true;
        }
        self.todo.extend(commands.drain());
    }

    /// A broker that says yes: messages go to the first subscription of their kind.
    fn work(&mut self) {
        for _ in 0..100 {
            let Some(command) = self.todo.pop_front() else { return };
            let confirm = match command {
                Command::Operate { .. } | Command::Goodbye => continue,
                Command::Login(_) => {
                    self.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false });
                    None
                }
                Command::Publish { run, confirm, .. } => {
                    let kind = run.destination().kind;
                    self.deliver(run, kind, None);
                    confirm
                }
                Command::Subscribe(subscribe) => {
                    let kind = match subscribe.targets.first() {
                        Some(tiderace_wire::Target::Exact(destination)) => destination.kind,
                        _ => Kind::Topic,
                    };
                    self.subscriptions.push((subscribe.key, kind));
                    subscribe.confirm.map(Confirm::one)
                }
                Command::Credit { .. } => panic!("Socket.IO gives no credit"),
                Command::Unsubscribe { key, confirm } => {
                    self.subscriptions.retain(|(known, _)| *known != key);
                    confirm.map(Confirm::one)
                }
                Command::Call(call) => {
                    let key = ExchangeKey::responder(call.number);
                    let destination =
                        tiderace_wire::Destination { kind: Kind::Service, path: call.service };
                    let run = Run::single(
                        destination,
                        Default::default(),
                        &call.properties,
                        &call.body,
                        Default::default(),
                    );
                    let exchange =
                        Exchange { key, first: true, last: call.last, bare: false, credit: None };
                    self.deliver(run, Kind::Service, Some(exchange));
                    None
                }
                Command::Speak(speak) => {
                    let number = speak.exchange.number;
                    let key = match speak.exchange.side {
                        tiderace_wire::Side::Caller => ExchangeKey::responder(number),
                        tiderace_wire::Side::Responder => ExchangeKey::caller(number),
                    };
                    let Ok(path) = tiderace_topics::Path::parse("x") else { return };
                    let destination = tiderace_wire::Destination { kind: Kind::Service, path };
                    let run = Run::single(
                        destination,
                        Default::default(),
                        &speak.properties,
                        &speak.body,
                        Default::default(),
                    );
                    let exchange = Exchange {
                        key,
                        first: false,
                        last: speak.last,
                        bare: speak.bare,
                        credit: None,
                    };
                    self.deliver(run, Kind::Service, Some(exchange));
                    None
                }
                Command::Settle(_) | Command::Cancel { .. } | Command::ExchangeCredit { .. } => {
                    None
                }
            };
            if let Some(confirm) = confirm {
                self.reply(Reply::Confirmed(confirm));
            }
        }
    }

    fn reply(&mut self, reply: Reply) {
        self.call(|session, context| session.reply(Now::default(), reply, context));
    }

    fn deliver(&mut self, mut run: Run, kind: Kind, exchange: Option<Exchange>) {
        let Some((key, _)) = self.subscriptions.iter().find(|(_, known)| *known == kind) else {
            return;
        };
        run.number(ShardId(0), self.sequence + 1);
        self.sequence += run.len() as u64;
        let run = SharedRun::new(Arc::new(run));
        let delivery = Delivery {
            key: *key,
            run: &run,
            from: 0,
            to: run.run().len(),
            redeliveries: 0,
            reached: self.sequence,
            exchange,
        };
        if !self.over {
            let mut output = Output { framing: Framing::Messages(&MARKED), queue: &mut self.queue };
            self.session.deliver(Now::default(), &delivery, &mut output);
        }
    }

    /// Reads all that was said.
    fn check(mut self) {
        let said = self.queue.take_bytes();
        let mut rest = &said[..];
        let mut due = 0usize;
        while let [kind, a, b, c, d, tail @ ..] = rest {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (message, tail) = tail.split_at(length);
            rest = tail;
            if *kind == b'b' {
                due = due.checked_sub(1).expect("an attachment of nothing");
                continue;
            }
            assert_eq!(due, 0, "text where an attachment is due");
            let text = std::str::from_utf8(message).expect("text is UTF-8");
            let (kind, text) = text.split_at(1);
            let mut text = text;
            if matches!(kind, "5" | "6") {
                let (count, after) = text.split_once('-').expect("a count of attachments");
                due = count.parse().expect("a number");
                text = after;
            }
            if text.starts_with('/') {
                text = text.split_once(',').expect("a comma behind the namespace").1;
            }
            let json = text.trim_start_matches(|digit: char| digit.is_ascii_digit());
            assert!(json.is_empty() || Json::parse(json.as_bytes(), 128).is_ok(), "{text}");
        }
        assert_eq!(due, 0, "attachments are missing");
    }
}
