//! A session under test, driven as the server drives it; what it says is read by the codec.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

pub mod edge;

use std::sync::Arc;

use tiderace_base::{Close, Now, ShardId, Time};
use tiderace_native::codec::{
    Auth, ClientMessage, Hello, Messages, ServerMessage, SubscribeMessage,
};
use tiderace_native::{NativeOptions, protocol};
use tiderace_testkit::CommandCheck;
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Destination, Exchange, Framing, Incoming, Kind,
    MessageFraming, Meta, Opening, OutQueue, Output, Reply, Run, RunBuilder, Session, SharedRun,
    SubscriptionKey,
};

/// Marks messages by four bytes of length, so that tests see where they begin; no header is longer
/// for large ones.
pub static MESSAGES: MessageFraming = MessageFraming {
    id: 9,
    text: |_, _| panic!("nothing native is text"),
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()),
    armour: None,
};

/// The same for a transport that rewrites whole messages.
pub static ARMOURED: MessageFraming = MessageFraming {
    id: 10,
    text: |_, _| panic!("nothing native is text"),
    binary: |_, _| panic!("headers do not do here"),
    armour: Some(|out, start, text| {
        assert!(!text);
        let len = ((out.len() - start) as u32).to_be_bytes();
        out.splice(start..start, len);
    }),
};

/// One client's connection.
pub struct Rig {
    pub session: Box<dyn Session>,
    pub now: Now,
    pub framing: Framing,
    queue: OutQueue,
    /// Every command, as text, in order.
    pub commands: Vec<Command>,
    check: CommandCheck,
    pub end: Option<Close>,
    /// In how many turns the last message was taken in.
    pub pieces: usize,
}

impl Rig {
    pub fn fresh(options: NativeOptions) -> Rig {
        Rig::framed(options, Framing::Messages(&MESSAGES))
    }

    pub fn framed(options: NativeOptions, framing: Framing) -> Rig {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let registered = protocol(Arc::new(options), Arc::from([]));
        let peer = "127.0.0.1:9".parse().unwrap();
        let opening = Opening { epoch: 300, shards: 2, ..Opening::new(framing, peer, now) };
        Rig {
            session: (registered.open)(&opening),
            now,
            framing,
            queue: OutQueue::new(),
            commands: Vec::new(),
            check: CommandCheck::default(),
            end: None,
            pieces: 0,
        }
    }

    /// Logged in as `ann`, able to decode deltas.
    pub fn new() -> Rig {
        Rig::with(NativeOptions::default(), Framing::Messages(&MESSAGES))
    }

    pub fn with(options: NativeOptions, framing: Framing) -> Rig {
        Rig::offering(options, framing, &[1])
    }

    /// Logged in with these codecs of deltas.
    pub fn offering(options: NativeOptions, framing: Framing, codecs: &[u64]) -> Rig {
        let mut rig = Rig::framed(options, framing);
        rig.send(&hello_with(codecs));
        rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
        assert_eq!(rig.received().len(), 1);
        rig.commands.clear();
        rig
    }

    pub fn send(&mut self, message: &ClientMessage<'_>) {
        let mut bytes = Vec::new();
        message.write(&mut bytes);
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        self.pieces = 0;
        loop {
            let message = Incoming { text: false, bytes: rest };
            let mut taken = rest.len();
            self.call(|session, now, context| {
                session.message(now, message, context)?;
                taken = context.actions.take_yield().unwrap_or(taken);
                Ok(())
            });
            rest = &rest[taken..];
            self.pieces += 1;
            if rest.is_empty() || self.end.is_some() {
                return;
            }
        }
    }

    pub fn reply(&mut self, reply: Reply) {
        self.check.reply(&reply);
        self.call(|session, now, context| session.reply(now, reply, context));
    }

    pub fn confirm(&mut self, token: u32) {
        self.reply(Reply::Confirmed(Confirm::one(token)));
    }

    /// Subscribes to a topic and has it confirmed; what is said is forgotten.
    pub fn subscribe(&mut self, request: u32, key: u32, flags: u64, path: &str) {
        self.send(&ClientMessage::Subscribe(subscribe(request, key, flags, path)));
        self.confirm(request);
        self.received();
        self.commands.clear();
    }

    pub fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.end.is_some() {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: self.framing, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, self.now, &mut context);
        self.end = context.actions.take_finish();
        if let Err(close) = result {
            let mut output = Output { framing: self.framing, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close);
        }
        for command in commands.drain() {
            assert_eq!(self.check.command(&command), Ok(()), "{command:?}");
            self.commands.push(command);
        }
    }

    /// Delivers a whole run of a topic, without a flush.
    pub fn deliver(&mut self, key: u32, run: &SharedRun) {
        self.deliver_part(key, run, 0, run.run().len());
    }

    pub fn deliver_part(&mut self, key: u32, run: &SharedRun, from: usize, to: usize) {
        self.deliver_reaching(key, run, from, to, run.run().first() + to as u64 - 1);
    }

    pub fn deliver_reaching(
        &mut self,
        key: u32,
        run: &SharedRun,
        from: usize,
        to: usize,
        reached: u64,
    ) {
        let (key, redeliveries) = (SubscriptionKey(key), 0);
        let delivery = Delivery { key, run, from, to, redeliveries, reached, exchange: None };
        self.hand(&delivery);
    }

    pub fn deliver_exchange(&mut self, key: u32, run: &SharedRun, exchange: Exchange) {
        let exchange = Some(exchange);
        let key = SubscriptionKey(key);
        let (redeliveries, reached) = (0, 0);
        self.hand(&Delivery { key, run, from: 0, to: 1, redeliveries, reached, exchange });
    }

    fn hand(&mut self, delivery: &Delivery<'_>) {
        let mut output = Output { framing: self.framing, queue: &mut self.queue };
        self.session.deliver(self.now, delivery, &mut output);
    }

    pub fn flush(&mut self) {
        let mut output = Output { framing: self.framing, queue: &mut self.queue };
        self.session.flush(self.now, &mut output);
    }

    /// All deliveries have been given.
    pub fn poll_write(&mut self) {
        let mut output = Output { framing: self.framing, queue: &mut self.queue };
        self.session.poll_write(1 << 16, &mut output);
    }

    /// The transport messages since the last call.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        split(&self.queue.take_bytes())
    }

    /// What the session has said since the last call, message by message, as text.
    pub fn received(&mut self) -> Vec<String> {
        let mut received = Vec::new();
        for frame in self.frames() {
            for message in Messages::new(&frame) {
                let (kind, payload) = message.unwrap();
                let message = ServerMessage::read(kind, payload).unwrap();
                received.push(match &message {
                    ServerMessage::Updates(entries) => {
                        let entries: Vec<String> = ServerMessage::updates(entries)
                            .map(|entry| {
                                let entry = entry.unwrap();
                                let data = entry.data.escape_ascii();
                                format!("{:x}:{} {:?} {data}", entry.flags, entry.id, entry.version)
                            })
                            .collect();
                        format!("Updates {}", entries.join(", "))
                    }
                    ServerMessage::Queued(queued) => {
                        let bodies: Vec<String> = queued
                            .entries()
                            .map(|entry| entry.unwrap().body.escape_ascii().to_string())
                            .collect();
                        format!(
                            "Queued {:x}:{} home {} from {} again {}: {}",
                            queued.flags,
                            queued.id,
                            queued.home,
                            queued.first,
                            queued.redeliveries,
                            bodies.join(", ")
                        )
                    }
                    other => format!("{other:?}"),
                });
            }
        }
        received
    }
}

/// The transport messages of these bytes.
pub fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut rest = bytes;
    let mut frames = Vec::new();
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let (frame, more) = more.split_at(u32::from_be_bytes(*len) as usize);
        frames.push(frame.to_vec());
        rest = more;
    }
    assert!(rest.is_empty());
    frames
}

pub fn hello() -> ClientMessage<'static> {
    hello_with(&[1])
}

pub fn hello_with(codecs: &[u64]) -> ClientMessage<'static> {
    ClientMessage::Hello(Hello {
        version: 1,
        auth: Auth::Anonymous,
        codecs: codecs.to_vec(),
        client: "test",
        position: b"",
        host: None,
        edge: None,
    })
}

pub fn subscribe(request: u32, key: u32, flags: u64, path: &str) -> SubscribeMessage<'_> {
    SubscribeMessage {
        request,
        subscription: key,
        flags,
        kind: Kind::Topic,
        path,
        selector: None,
        prefetch: None,
        position: None,
        replay: None,
        interval_ms: None,
        start: None,
        credit: None,
    }
}

/// A run numbered from `first` by home 1, in successive versions.
pub fn run(kind: Kind, path: &str, first: u64, version: u64, bodies: &[&[u8]]) -> Run {
    let path = Path::parse(path).unwrap();
    let mut builder = RunBuilder::new(Destination { kind, path }, Time::ZERO);
    for body in bodies {
        builder.finish(body, Meta::default());
    }
    let mut run = builder.build();
    run.number(ShardId(1), first);
    run.set_version(version);
    run
}

pub fn topic(path: &str, first: u64, version: u64, bodies: &[&[u8]]) -> SharedRun {
    SharedRun::new(Arc::new(run(Kind::Topic, path, first, version, bodies)))
}
