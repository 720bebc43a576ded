//! A session under test, driven as the server drives it; what it says is read by the codec.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, Payload, Request, Setup, Split, VERSION, split,
};
use tiderace_rsocket::metadata::{Mime, write_entry, write_tag};
use tiderace_rsocket::{OPTIONS_MIME, PROPERTIES_MIME, RSocketOptions, protocol};
use tiderace_testkit::CommandCheck;
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Destination, Exchange, Framing, Kind, Meta,
    Opening, OutQueue, Output, Reply, Run, RunBuilder, Session, SessionAction, SharedRun,
    SubscriptionKey,
};

/// One client's connection over TCP.
pub struct Rig {
    pub session: Box<dyn Session>,
    pub now: Now,
    pub queue: OutQueue,
    /// What the session did not take in yet.
    pub input: Vec<u8>,
    /// Every command, in order.
    pub commands: Vec<Command>,
    check: CommandCheck,
    pub alias: Option<Box<[u8]>>,
    pub end: Option<Close>,
    /// In how many turns the last bytes were taken in.
    pub pieces: usize,
}

impl Rig {
    /// A connection that was to be handed over to a session that is not there.
    pub fn unknown(options: RSocketOptions) -> Rig {
        Rig::opened(options, true)
    }

    pub fn fresh(options: RSocketOptions) -> Rig {
        Rig::opened(options, false)
    }

    fn opened(options: RSocketOptions, unknown: bool) -> Rig {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let registered = protocol(Arc::new(options), Arc::from([]));
        let peer = "127.0.0.1:9".parse().unwrap();
        let opening =
            Opening { epoch: 300, shards: 2, unknown, ..Opening::new(Framing::Stream, peer, now) };
        Rig {
            session: (registered.open)(&opening),
            now,
            queue: OutQueue::new(),
            input: Vec::new(),
            commands: Vec::new(),
            check: CommandCheck::default(),
            alias: None,
            end: None,
            pieces: 0,
        }
    }

    /// Logged in as `ann`, with composite metadata and JSON.
    pub fn new() -> Rig {
        Rig::with(RSocketOptions::default())
    }

    pub fn with(options: RSocketOptions) -> Rig {
        Rig::set_up(options, &setup())
    }

    pub fn set_up(options: RSocketOptions, setup: &Setup<'_>) -> Rig {
        let mut rig = Rig::fresh(options);
        rig.send(&Frame::connection(Body::Setup(*setup)));
        assert!(matches!(rig.commands.pop(), Some(Command::Login(_))), "{:?}", rig.end);
        rig.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None });
        rig
    }

    pub fn send(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.write(Framing::Stream, &mut bytes);
        self.send_bytes(&bytes);
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.take_in();
    }

    fn take_in(&mut self) {
        self.pieces = 0;
        loop {
            let input = std::mem::take(&mut self.input);
            let (mut consumed, mut stopped) = (0, false);
            self.call(|session, now, context| {
                consumed = session.receive(now, &input, context)?.consumed;
                stopped = context.actions.take_yield().is_some();
                Ok(())
            });
            self.input = input[consumed..].to_vec();
            self.pieces += 1;
            if !stopped {
                return;
            }
        }
    }

    pub fn request(
        &mut self,
        interaction: Interaction,
        stream: u32,
        credit: u32,
        metadata: Option<&[u8]>,
        data: &[u8],
    ) {
        self.request_with(
            stream,
            &Request {
                interaction,
                follows: false,
                complete: false,
                credit,
                payload: Payload { metadata, data },
            },
        );
    }

    pub fn request_with(&mut self, stream: u32, request: &Request<'_>) {
        self.send(&Frame { stream, body: Body::Request(*request) });
    }

    pub fn reply(&mut self, reply: Reply) {
        self.check.reply(&reply);
        self.call(|session, now, context| session.reply(now, reply, context));
        if !self.input.is_empty() {
            self.take_in();
        }
    }

    pub fn confirm(&mut self, token: u32) {
        self.reply(Reply::Confirmed(Confirm::one(token)));
    }

    /// Lets time pass, and what is due happen.
    pub fn wait(&mut self, span: Span) {
        let until = self.now.time + span;
        while self.session.deadline() <= until && self.end.is_none() {
            self.now.time = self.now.time.max(self.session.deadline());
            self.call(|session, now, context| session.expire(now, context));
            if self.session.deadline() <= self.now.time {
                break;
            }
        }
        self.now.time = until;
    }

    pub fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.end.is_some() {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: Framing::Stream, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, self.now, &mut context);
        self.end = context.actions.take_finish();
        for action in context.actions.drain() {
            if let SessionAction::ClientSessionId(id) = action {
                self.alias = Some(id);
            }
        }
        if let Err(close) = result {
            let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close);
        }
        for command in commands.drain() {
            assert_eq!(self.check.command(&command), Ok(()), "{command:?}");
            self.commands.push(command);
        }
    }

    /// Lets it write of its own accord; whether it has more.
    pub fn poll_write(&mut self, bytes_max: usize) -> bool {
        let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
        self.session.poll_write(bytes_max, &mut output)
    }

    /// Delivers a whole run.
    pub fn deliver(&mut self, key: u32, run: &SharedRun) {
        self.hand(key, run, None);
    }

    pub fn deliver_exchange(&mut self, key: u32, run: &SharedRun, exchange: Exchange) {
        self.hand(key, run, Some(exchange));
    }

    fn hand(&mut self, key: u32, run: &SharedRun, exchange: Option<Exchange>) {
        let to = if exchange.is_some() { 1 } else { run.run().len() };
        let key = SubscriptionKey(key);
        let delivery = Delivery { key, run, from: 0, to, redeliveries: 0, reached: 0, exchange };
        let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
        self.session.deliver(self.now, &delivery, &mut output);
        self.session.flush(self.now, &mut output);
    }

    /// The frames since the last call, as bytes.
    pub fn frames(&mut self) -> Vec<Vec<u8>> {
        let bytes = self.queue.take_bytes();
        let mut rest = &bytes[..];
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let Split::Frame(frame) = split(rest, 0xff_ffff).unwrap() else {
                panic!("a frame is cut off")
            };
            frames.push(frame.to_vec());
            rest = &rest[3 + frame.len()..];
        }
        frames
    }

    /// What the session has said since the last call, frame by frame, as text.
    pub fn received(&mut self) -> Vec<String> {
        self.frames().iter().map(|frame| spell(&Frame::read(frame).unwrap())).collect()
    }

    /// The commands since the last call.
    pub fn asked(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }
}

/// A frame in a few words.
pub fn spell(frame: &Frame<'_>) -> String {
    let payload = |payload: &Payload<'_>| {
        let data = payload.data.escape_ascii();
        match payload.metadata {
            Some(metadata) => format!("[{}] {data}", metadata.escape_ascii()),
            None => format!("{data}"),
        }
    };
    let stream = frame.stream;
    match &frame.body {
        Body::Payload(item) => {
            let marks = [(item.follows, "F"), (item.complete, "C"), (item.next, "N")];
            let marks: String =
                marks.iter().filter(|(set, _)| *set).map(|(_, letter)| *letter).collect();
            format!("{stream} PAYLOAD {marks} {}", payload(&item.payload)).trim_end().to_owned()
        }
        Body::Request(request) => {
            let complete = if request.complete { " C" } else { "" };
            format!(
                "{stream} REQUEST {} {}{complete} {}",
                request.interaction.name(),
                request.credit,
                payload(&request.payload)
            )
        }
        Body::RequestN(items) => format!("{stream} REQUEST_N {items}"),
        Body::Cancel => format!("{stream} CANCEL"),
        Body::Error(failure) => {
            let text = String::from_utf8_lossy(failure.text);
            let slug = text.split(':').next().unwrap_or_default().to_owned();
            format!("{stream} ERROR {} {slug}", failure.code)
        }
        Body::KeepAlive(sign) => {
            let (mark, data) = (if sign.respond { "R" } else { "-" }, sign.data.escape_ascii());
            format!("{stream} KEEPALIVE {mark} {} {data}", sign.position).trim_end().to_owned()
        }
        Body::Lease(lease) => format!("{stream} LEASE {} {}", lease.ttl_ms, lease.requests),
        other => format!("{stream} {other:?}"),
    }
}

pub fn setup() -> Setup<'static> {
    Setup {
        version: VERSION,
        interval_ms: 20_000,
        lifetime_ms: 90_000,
        token: None,
        lease: false,
        metadata_mime: b"message/x.rsocket.composite-metadata.v0",
        data_mime: b"application/json",
        payload: Payload::default(),
    }
}

/// Composite metadata with a route.
pub fn route(text: &str) -> Vec<u8> {
    route_with(text, "", "")
}

/// The same with options and properties.
pub fn route_with(text: &str, options: &str, properties: &str) -> Vec<u8> {
    let (mut out, mut tag) = (Vec::new(), Vec::new());
    write_tag(text, &mut tag);
    write_entry(Mime::ROUTING, &tag, &mut out);
    for (name, lines) in [(OPTIONS_MIME, options), (PROPERTIES_MIME, properties)] {
        if !lines.is_empty() {
            write_entry(Mime::Name(name), lines.as_bytes(), &mut out);
        }
    }
    out
}

/// A run numbered from `first` by home 1, in successive versions.
pub fn run(kind: Kind, path: &str, first: u64, bodies: &[&[u8]]) -> SharedRun {
    described(kind, path, first, "", bodies)
}

pub fn described(
    kind: Kind,
    path: &str,
    first: u64,
    properties: &str,
    bodies: &[&[u8]],
) -> SharedRun {
    let path = Path::parse(path).unwrap();
    let mut builder = RunBuilder::new(Destination { kind, path }, Time::ZERO);
    for body in bodies {
        builder.properties().extend_from_slice(properties.as_bytes());
        builder.finish(body, Meta::default());
    }
    let mut run: Run = builder.build();
    run.number(ShardId(1), first);
    run.set_version(if kind == Kind::Topic { first } else { 0 });
    SharedRun::new(Arc::new(run))
}
