//! A node's side of a connection to its upstream, driven as the node would: what the session tells the broker is kept,
//! and what the broker wants is said by the test.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{Close, Now};
use tiderace_native::codec::{
    ClientMessage, Messages, Numbers, ServerMessage, Update, Version, Welcome, feature,
};
use tiderace_native::{UpstreamOptions, open_upstream};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Commands, Context, Destination, Framing, FromUpstream, Incoming, Kind, Opening,
    OutQueue, Output, Position, Reply, Run, Session, SubscriptionKey, Target, ToUpstream,
};

use super::MESSAGES;

/// One node's connection.
pub struct Edge {
    pub session: Box<dyn Session>,
    pub now: Now,
    queue: OutQueue,
    told: Vec<FromUpstream>,
    /// What it asks of the broker besides.
    pub commands: Vec<Command>,
    pub end: Option<Close>,
    /// Bytes are kept back on the way in.
    pub paused: bool,
}

impl Edge {
    pub fn new(options: UpstreamOptions) -> Edge {
        let now = Now::default();
        let framing = Framing::Messages(&MESSAGES);
        let opening = Opening::new(framing, "127.0.0.1:9".parse().unwrap(), now);
        let session = open_upstream(&Arc::new(options), &opening);
        let (queue, told, commands) = (OutQueue::new(), Vec::new(), Vec::new());
        let mut edge = Edge { session, now, queue, told, commands, end: None, paused: false };
        edge.call(|session, now, context| session.begin(now, context));
        edge
    }

    pub fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.end.is_some() {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: Framing::Messages(&MESSAGES), queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        context.reading_paused = self.paused;
        let result = act(&mut *self.session, self.now, &mut context);
        if let Err(close) = result {
            let mut output =
                Output { framing: Framing::Messages(&MESSAGES), queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close);
        }
        for command in commands.drain() {
            match command {
                Command::Upstream(told) => self.told.push(*told),
                other => self.commands.push(other),
            }
        }
    }

    /// A transport message has come.
    pub fn hear(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        loop {
            let mut taken = rest.len();
            self.call(|session, now, context| {
                session.message(now, Incoming { text: false, bytes: rest }, context)?;
                taken = context.actions.take_yield().unwrap_or(taken);
                Ok(())
            });
            rest = &rest[taken..];
            if rest.is_empty() || self.end.is_some() {
                return;
            }
        }
    }

    pub fn ask(&mut self, asked: ToUpstream) {
        let reply = Reply::Upstream(Box::new(asked));
        self.call(|session, now, context| session.reply(now, reply, context));
    }

    pub fn subscribe(&mut self, key: u32, name: &str, since: Option<Position>) {
        let target = match Path::parse(name) {
            Ok(path) => Target::Exact(Destination { kind: Kind::Topic, path }),
            Err(_) => Target::Pattern(Kind::Topic, Pattern::parse(name).unwrap()),
        };
        self.ask(ToUpstream::Subscribe { key: SubscriptionKey(key), target, since });
    }

    pub fn unsubscribe(&mut self, key: u32) {
        self.ask(ToUpstream::Unsubscribe { key: SubscriptionKey(key) });
    }

    pub fn expire(&mut self) {
        self.call(|session, now, context| session.expire(now, context));
    }

    /// What was told since the last call.
    pub fn told(&mut self) -> Vec<FromUpstream> {
        std::mem::take(&mut self.told)
    }

    /// The same of messages alone; other things are forgotten.
    pub fn runs(&mut self) -> Vec<Run> {
        let run = |told| match told {
            FromUpstream::Messages { run, .. } => Some(run),
            _ => None,
        };
        self.told().into_iter().filter_map(run).collect()
    }

    /// The transport messages that were written since the last call.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        super::split(&self.queue.take_bytes())
    }
}

/// The life of the upstream that [`welcome`] is of.
pub const EPOCH: u64 = 300;

pub fn welcome() -> Welcome<'static> {
    Welcome {
        version: 1,
        name: "edge",
        epoch: b"\xac\x02",
        ping_ms: 20_000,
        message_bytes_max: 1 << 20,
        subscriptions_max: 8,
        declarations_max: 10,
        jitter_ms: 0,
        codecs: vec![1],
        server: "tiderace/9",
        features: feature::VALUES | feature::NUMBERED,
        node: "origin",
    }
}

pub fn options() -> UpstreamOptions {
    UpstreamOptions { upstream: 3, node: "one".into(), ..UpstreamOptions::default() }
}

pub fn written(messages: &[ServerMessage<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    messages.iter().for_each(|message| message.write(&mut bytes));
    bytes
}

pub fn hear(edge: &mut Edge, messages: &[ServerMessage<'_>]) {
    edge.hear(&written(messages));
}

/// What the node has said, as text.
pub fn said(edge: &mut Edge) -> Vec<String> {
    let mut said = Vec::new();
    for frame in edge.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            said.push(format!("{:?}", ClientMessage::read(kind, payload).unwrap()));
        }
    }
    said
}

/// A node that was let in.
pub fn up() -> Edge {
    up_with(options(), welcome())
}

pub fn up_with(options: UpstreamOptions, welcome: Welcome<'_>) -> Edge {
    let mut edge = Edge::new(options);
    hear(&mut edge, &[ServerMessage::Welcome(welcome)]);
    assert_eq!(edge.end, None);
    edge.told();
    edge.frames();
    edge
}

/// An update with the number of its version.
pub fn update(id: u32, flags: u8, version: u64, data: &[u8]) -> Update<'_> {
    let numbers = Some(Numbers { numbering: 1, number: version, reached: version });
    Update { flags, id, version: Version::Full(version), numbers, properties: b"", data }
}

pub fn entries(updates: &[Update<'_>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    updates.iter().for_each(|update| update.write(&mut bytes));
    bytes
}

/// A broken rule ends the session, and names itself.
pub fn ends(edge: &mut Edge, messages: &[ServerMessage<'_>], part: &str) {
    hear(edge, messages);
    let end = edge.end.as_ref().unwrap_or_else(|| panic!("it goes on: {messages:?}"));
    assert!(end.reason.contains(part), "{end}");
}
