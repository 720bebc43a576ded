//! Sessions under test with the broker behind them, driven as the server drives them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

mod broker;
mod table;

use std::sync::Arc;

use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_socketio::{SocketOptions, inner};
use tiderace_wire::{
    Commands, Context, Delivery, Framing, Incoming, MessageFraming, Opening, OutQueue, Output,
    Reply, Request, Session, Ticket,
};

pub use broker::Broker;
pub use table::Table;

/// One client.
pub struct Client {
    session: Box<dyn Session>,
    pub framing: Framing,
    output: Vec<u8>,
    pub end: Option<Close>,
}

/// Clients and their broker.
pub struct Node {
    pub options: Arc<SocketOptions>,
    pub clients: Vec<Option<Client>>,
    pub broker: Broker,
    pub now: Now,
    secrets: u128,
}

/// Marks messages by their kind and length.
pub static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| out.extend_from_slice(format!("t{len}:").as_bytes()),
    binary: |len, out| out.extend_from_slice(format!("b{len}:").as_bytes()),
    armour: None,
};
/// The same, by rewriting what stands there.
pub static ARMOURED: MessageFraming = MessageFraming {
    id: 2,
    text: |_, _| panic!("not a prefix"),
    binary: |_, _| panic!("not a prefix"),
    armour: Some(|out, start, text| {
        let frame = out.split_off(start);
        out.extend_from_slice(
            format!("{}{}:", if text { 't' } else { 'b' }, frame.len()).as_bytes(),
        );
        out.extend_from_slice(&frame);
    }),
};

impl Node {
    pub fn new() -> Node {
        Node::with(SocketOptions::default())
    }

    pub fn with(options: SocketOptions) -> Node {
        Node {
            options: Arc::new(options),
            clients: Vec::new(),
            broker: Broker::default(),
            now: Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 },
            secrets: 0x1234_5678_9abc_def0_1234_5678_9abc_def0,
        }
    }

    /// A node whose sessions can be gone on with.
    pub fn remembering() -> (Node, Arc<Table>) {
        let table = Arc::new(Table::default());
        let recovery: Arc<dyn tiderace_socketio::RecoveryTable> = table.clone();
        (Node::with(SocketOptions { recovery: Some(recovery), ..SocketOptions::default() }), table)
    }

    /// A client that has said nothing yet.
    pub fn open(&mut self, query: &str) -> usize {
        self.open_framed(query, Framing::Messages(&MESSAGES))
    }

    pub fn open_framed(&mut self, query: &str, framing: Framing) -> usize {
        let peer = "127.0.0.1:9".parse().unwrap();
        let request = Request {
            method: "GET",
            path: "/socket.io/",
            query: Some(query),
            fields: &[],
            body: b"",
            peer,
        };
        self.secrets = self.secrets.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0xabcd;
        let ticket = Ticket { secret: self.secrets, ..Ticket::default() };
        let temporary = self.broker.open(self.now);
        let opening = Opening {
            request: Some(&request),
            ticket,
            temporary,
            epoch: self.broker.epoch(),
            shards: self.broker.shards(),
            shard: ShardId(0),
            ..Opening::new(framing, peer, self.now)
        };
        let session = inner(self.options.clone())(&opening);
        self.clients.push(Some(Client { session, framing, output: Vec::new(), end: None }));
        let client = self.clients.len() - 1;
        self.call(client, |session, now, context| session.begin(now, context));
        self.run();
        client
    }

    /// A client in `/`; what it received is forgotten.
    pub fn connected(&mut self) -> usize {
        let client = self.open("EIO=4");
        let received = self.say(client, "0");
        assert!(received[0].starts_with("0{\"sid\":"), "{received:?}");
        client
    }

    /// Sends text, gives what the client hears.
    pub fn say(&mut self, client: usize, text: &str) -> Vec<String> {
        self.send(client, true, text.as_bytes());
        self.received(client)
    }

    pub fn send(&mut self, client: usize, text: bool, bytes: &[u8]) {
        self.call(client, |session, now, context| {
            session.message(now, Incoming { text, bytes }, context)
        });
        self.run();
    }

    /// What the client has received since the last call; binary messages begin with `#`.
    pub fn received(&mut self, client: usize) -> Vec<String> {
        let Some(client) = &mut self.clients[client] else { return Vec::new() };
        let output = std::mem::take(&mut client.output);
        let mut rest = &output[..];
        let mut received = Vec::new();
        while !rest.is_empty() {
            let colon = rest.iter().position(|byte| *byte == b':').unwrap();
            let len: usize = std::str::from_utf8(&rest[1..colon]).unwrap().parse().unwrap();
            let message = &rest[colon + 1..colon + 1 + len];
            let mark = if rest[0] == b't' { "" } else { "#" };
            if rest[0] == b't' {
                assert!(std::str::from_utf8(message).is_ok());
            }
            received.push(format!("{mark}{}", String::from_utf8_lossy(message)));
            rest = &rest[colon + 1 + len..];
        }
        received
    }

    /// The connection breaks: nobody says good-bye.
    pub fn cut(&mut self, client: usize) {
        self.broker.forget(client);
        self.clients[client] = None;
        self.run();
    }

    pub fn end(&self, client: usize) -> Option<tiderace_base::CloseCode> {
        self.clients[client].as_ref()?.end.as_ref().map(|close| close.code)
    }

    pub fn is_established(&self, client: usize) -> bool {
        self.clients[client].as_ref().unwrap().session.is_established()
    }

    /// Ends a session for a reason of the server's.
    pub fn close(&mut self, client: usize, close: Close) {
        let known = self.clients[client].as_mut().unwrap();
        let mut queue = OutQueue::new();
        let mut output = Output { framing: known.framing, queue: &mut queue };
        known.session.goodbye(&close, &mut output);
        known.end = Some(close);
        known.output.extend_from_slice(&queue.take_bytes());
    }

    pub fn reply(&mut self, client: usize, reply: Reply) {
        self.broker.give(client, reply);
        self.run();
    }

    /// Lets time pass; sessions are woken when they want to be.
    pub fn wait(&mut self, span: Span) {
        let target = self.now.time + span;
        for client in 0..self.clients.len() {
            while let Some(known) = &self.clients[client]
                && known.end.is_none()
                && known.session.deadline() <= target
            {
                self.now.time = known.session.deadline().max(self.now.time);
                self.call(client, |session, now, context| session.expire(now, context));
                let known = self.clients[client].as_ref().unwrap();
                let moved = known.session.deadline() > self.now.time;
                assert!(known.end.is_some() || moved, "the deadline does not move");
            }
        }
        self.now.time = target;
        self.broker.advance(self.now);
        self.run();
    }

    /// Replies and deliveries, until nothing moves.
    pub fn run(&mut self) {
        loop {
            while let Some((client, reply)) = self.broker.reply() {
                self.call(client, |session, now, context| session.reply(now, reply, context));
            }
            let mut delivered = false;
            for client in 0..self.clients.len() {
                while let Some(pending) = self.broker.next(client) {
                    delivered = true;
                    self.deliver(client, &pending.delivery());
                }
            }
            if !delivered {
                return;
            }
        }
    }

    fn deliver(&mut self, client: usize, delivery: &Delivery<'_>) {
        let Some(known) = &mut self.clients[client] else { return };
        if known.end.is_some() {
            return;
        }
        let mut queue = OutQueue::new();
        let mut output = Output { framing: known.framing, queue: &mut queue };
        known.session.deliver(self.now, delivery, &mut output);
        known.output.extend_from_slice(&queue.take_bytes());
    }

    fn call(
        &mut self,
        client: usize,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        let Some(known) = &mut self.clients[client] else { return };
        if known.end.is_some() {
            return;
        }
        let mut commands = Commands::new();
        commands.begin_turn(self.now.time);
        let mut queue = OutQueue::new();
        let output = Output { framing: known.framing, queue: &mut queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *known.session, self.now, &mut context);
        known.end = context.actions.take_finish();
        if let Err(close) = result {
            let mut output = Output { framing: known.framing, queue: &mut queue };
            known.session.goodbye(&close, &mut output);
            known.end = Some(close);
        }
        known.output.extend_from_slice(&queue.take_bytes());
        for command in commands.drain() {
            self.broker.handle(client, command);
        }
    }
}
