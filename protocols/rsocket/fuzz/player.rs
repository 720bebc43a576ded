//! A session against any bytes, with a broker that answers everything; shared by the fuzz target and
//! the replay of its corpus.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, ShardId, Span, Time};
use tiderace_rsocket::frame::{
    Body, Frame, Interaction, PREFIX_BYTES, Payload, Resume, Setup, Split, VERSION, split,
};
use tiderace_rsocket::{EchoOptions, Lease, RSocketOptions, ResumeOptions, protocol};
use tiderace_testkit::CommandCheck;
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Destination, Exchange, ExchangeKey, Framing,
    Incoming, Kind, MessageFraming, Meta, Opening, Operation, OperationResult, OutQueue, Output,
    Reply, Run, Session, SessionAction, SharedRun, Side, SubscriptionKey, Takeover, Target,
};

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| panic!("frames are binary"),
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()[1..]),
    armour: None,
};

/// A conversation. Bits of the first byte: messages instead of a stream, no SETUP before it, leases, a
/// token, echo without pause. The second byte says how long the pieces of a stream are.
pub fn client(data: &[u8]) {
    let [mode, piece, bytes @ ..] = data else { return };
    let mut player = Player::new(*mode);
    if mode & 2 == 0 {
        player.set_up(mode & 4 != 0, mode & 8 != 0);
    }
    if mode & 1 == 0 {
        bytes.chunks(usize::from(*piece).max(1)).for_each(|part| player.feed(part));
    } else {
        let mut rest = bytes;
        while let Ok(Split::Frame(frame)) = split(rest, 1 << 16) {
            rest = &rest[PREFIX_BYTES + frame.len()..];
            player.message(frame);
        }
    }
    player.wait(3);
    player.come_back();
    player.wait(400);
    player.check();
}

/// The same bytes in pieces of any length are the same conversation, with a broker that answers nothing
/// but the login: when others are answered depends on the pieces.
pub fn pieces(data: &[u8]) {
    let [mode, piece, bytes @ ..] = data else { return };
    let said = |piece: usize| {
        let mut player = Player { mute: true, ..Player::new(mode & !1) };
        if mode & 2 == 0 {
            player.set_up(mode & 4 != 0, mode & 8 != 0);
        }
        bytes.chunks(piece.max(1)).for_each(|part| player.feed(part));
        (player.ended, player.queue.take_bytes())
    };
    assert!(said(usize::from(*piece)) == said(bytes.len()), "pieces of {piece} bytes differ");
}

struct Subscription {
    key: SubscriptionKey,
    targets: Vec<Target>,
    credit: Option<u64>,
}

struct Player {
    session: Box<dyn Session>,
    framing: Framing,
    now: Now,
    queue: OutQueue,
    input: Vec<u8>,
    subscriptions: Vec<Subscription>,
    commands: CommandCheck,
    /// What the client has ever allowed, by stream.
    allowed: BTreeMap<u32, u64>,
    number: u64,
    ended: bool,
    /// Whether nothing but the login is answered.
    mute: bool,
    /// How deep commands answer commands.
    depth: usize,
    exchanges: u32,
}

fn options(mode: u8) -> RSocketOptions {
    let interval = if mode & 16 == 0 { Span::from_secs(1) } else { Span::ZERO };
    RSocketOptions {
        message_bytes_max: 1000,
        metadata_bytes_max: 500,
        setup_bytes_max: 600,
        streams_max: 8,
        subscriptions_max: 4,
        faults_max: 10,
        fragment_bytes: if mode & 32 == 0 { 0 } else { 64 },
        fragment_bytes_min: 16,
        fragments_bytes_max: 2000,
        fragmented_max: 3,
        channel_window: 4,
        waiting_max: 4,
        waiting_bytes_max: 2000,
        lease: Lease { requests: 5, ttl: Span::from_secs(10) },
        resume: Some(ResumeOptions {
            window: Span::from_secs(60),
            bytes_max: 1000,
            bytes_shard_max: 2000,
        }),
        echo: (mode & 64 == 0).then_some(EchoOptions { interval, bytes_max: 3000 }),
        ..RSocketOptions::default()
    }
}

impl Player {
    fn new(mode: u8) -> Player {
        let registered = protocol(Arc::new(options(mode)), Arc::from([]));
        let framing = if mode & 1 == 0 { Framing::Stream } else { Framing::Messages(&MESSAGES) };
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        let opening = Opening { shards: 2, ..Opening::new(framing, peer, now) };
        Player {
            session: (registered.open)(&opening),
            framing,
            now,
            queue: OutQueue::new(),
            input: Vec::new(),
            subscriptions: Vec::new(),
            commands: CommandCheck::default(),
            allowed: BTreeMap::new(),
            number: 1,
            ended: false,
            mute: false,
            depth: 0,
            exchanges: 0,
        }
    }

    fn set_up(&mut self, lease: bool, token: bool) {
        let setup = Setup {
            version: VERSION,
            interval_ms: 20_000,
            lifetime_ms: 60_000,
            token: token.then_some(b"0123456789abcdef"),
            lease,
            metadata_mime: b"message/x.rsocket.composite-metadata.v0",
            data_mime: b"application/json",
            payload: Payload::default(),
        };
        self.say(&Frame::connection(Body::Setup(setup)));
    }

    fn say(&mut self, frame: &Frame<'_>) {
        let mut bytes = Vec::new();
        frame.write_bare(&mut bytes);
        match self.framing {
            Framing::Stream => {
                let mut framed = Vec::new();
                frame.write(Framing::Stream, &mut framed);
                self.feed(&framed);
            }
            _ => self.message(&bytes),
        }
    }

    fn feed(&mut self, part: &[u8]) {
        self.input.extend_from_slice(part);
        // Commands of a call are answered before the next, which may let more be read.
        loop {
            let input = std::mem::take(&mut self.input);
            let mut consumed = 0;
            self.call(|session, now, context| {
                consumed = session.receive(now, &input, context)?.consumed;
                Ok(())
            });
            assert!(consumed <= input.len());
            // A client that is cut off has been received up to some place.
            self.allow(if self.ended { &input } else { &input[..consumed] });
            self.input = input[consumed..].to_vec();
            if consumed == 0 || self.ended {
                return;
            }
        }
    }

    fn message(&mut self, bytes: &[u8]) {
        let mut framed = (bytes.len() as u32).to_be_bytes()[1..].to_vec();
        framed.extend_from_slice(bytes);
        self.allow(&framed);
        let message = Incoming { text: false, bytes };
        self.call(|session, now, context| session.message(now, message, context));
    }

    /// Notes what the client allows the server to send, whether or not the server heeds it.
    fn allow(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Ok(Split::Frame(frame)) = split(rest, 1 << 24) {
            rest = &rest[PREFIX_BYTES + frame.len()..];
            let Ok(frame) = Frame::read(frame) else { continue };
            let more = match frame.body {
                Body::Request(request) if request.interaction.has_credit() => request.credit,
                Body::Request(request) if request.interaction == Interaction::Response => 1,
                Body::RequestN(items) => items,
                _ => 0,
            };
            let allowed = self.allowed.entry(frame.stream).or_default();
            *allowed += u64::from(more);
        }
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.ended {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: self.framing, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, self.now, &mut context);
        self.ended |= context.is_finished() || context.actions.moves_connection();
        let id = context.actions.drain().find_map(|action| match action {
            SessionAction::ClientSessionId(id) => Some(id),
            _ => None,
        });
        if let Err(close) = result {
            let mut output = Output { framing: self.framing, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.ended = true;
        }
        let commands: Vec<Command> = commands.drain().collect();
        for command in &commands {
            assert_eq!(self.commands.command(command), Ok(()), "{command:?}");
        }
        self.depth += 1;
        // Those who call each other for ever are stopped here.
        if self.depth < 50 {
            commands.into_iter().for_each(|command| self.carry_out(command));
        }
        self.depth -= 1;
        if let Some(id) = id {
            self.alias(&id);
        }
    }

    fn alias(&mut self, alias: &[u8]) {
        let outcome = match alias.len() {
            16.. => Ok(()),
            _ => Err(CloseCode::BadAlias.into()),
        };
        self.call(|session, now, context| session.client_session_id_decided(now, outcome, context));
    }

    fn reply(&mut self, reply: Reply) {
        self.commands.reply(&reply);
        self.call(|session, now, context| session.reply(now, reply, context));
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Login(credentials) if credentials.login.as_deref() == Some("mallory") => {
                self.reply(Reply::Refused { token: None, close: CloseCode::LoginFailed.into() });
            }
            Command::Login(_) => {
                self.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false, host: None })
            }
            _ if self.mute => {}
            Command::Publish { mut run, confirm, .. } => {
                run.number(ShardId(1), self.number);
                run.set_version(self.number);
                self.number += run.len() as u64;
                self.publish(&SharedRun::new(Arc::new(run)));
                match confirm {
                    Some(confirm) if confirm.from % 5 == 0 => {
                        let close = CloseCode::NotAuthorised.into();
                        self.reply(Reply::Refused { token: Some(confirm.from), close });
                    }
                    Some(confirm) => self.reply(Reply::Confirmed(confirm)),
                    None => {}
                }
            }
            Command::Subscribe(wish) => {
                let token = wish.confirm.unwrap();
                if token % 3 == 0 {
                    let close = CloseCode::NotAuthorised.into();
                    return self.reply(Reply::Refused { token: Some(token), close });
                }
                let (key, targets, credit) = (wish.key, wish.targets, wish.credit);
                self.subscriptions.push(Subscription { key, targets, credit });
                self.reply(Reply::Confirmed(Confirm::one(token)));
                if token % 11 == 10 {
                    self.subscriptions.retain(|known| known.key != key);
                    let close = CloseCode::UpstreamAway.into();
                    self.reply(Reply::SubscriptionEnded { key, close });
                }
            }
            Command::Credit { key, messages } => {
                let known = self.subscriptions.iter_mut().find(|known| known.key == key);
                let credit = known.and_then(|known| known.credit.as_mut());
                if let Some(credit) = credit {
                    *credit = credit.saturating_add(messages);
                }
            }
            Command::Unsubscribe { key, confirm } | Command::Lose { key, confirm } => {
                self.subscriptions.retain(|known| known.key != key);
                if let Some(token) = confirm {
                    self.reply(Reply::Confirmed(Confirm::one(token)));
                }
            }
            Command::Call(call) => {
                let key = ExchangeKey::caller(call.number);
                if !self.serve(&call.service, call.last) {
                    match call.body.len() % 4 {
                        0 => {
                            let close = CloseCode::NoResponder.into();
                            self.reply(Reply::ExchangeEnded { exchange: key, close });
                        }
                        1 => self.send_exchange(key, false, true, b"answer"),
                        2 => (0..6).for_each(|n| self.send_exchange(key, false, n == 5, b"many")),
                        _ => self.send_exchange(key, false, true, b""),
                    }
                }
            }
            Command::SendExchange(sent) if sent.exchange.side == Side::Caller => {
                self.send_exchange(sent.exchange, false, sent.last, &sent.body);
            }
            Command::Goodbye | Command::Upstream(_) => {}
            Command::Operate { token, operation } => {
                if let Operation::Views = *operation {
                    let result = Box::new(OperationResult::Views(Vec::new()));
                    return self.reply(Reply::Operated { token, result });
                }
                let close = CloseCode::TopicUnknown.into();
                self.reply(Reply::Refused { token: Some(token), close });
            }
            Command::Settle(_)
            | Command::Together(_)
            | Command::ActAs(_)
            | Command::SendExchange(_)
            | Command::Cancel { .. }
            | Command::ExchangeCredit { .. } => {}
        }
    }

    /// Lets the client serve a call of its own, if it does serve that.
    fn serve(&mut self, service: &Path, last: bool) -> bool {
        let wanted = |target: &Target| match target {
            Target::Exact(exact) => exact.kind == Kind::Service && exact.path == *service,
            Target::Pattern(..) => false,
        };
        let known = self.subscriptions.iter().find(|known| known.targets.iter().any(wanted));
        let Some(key) = known.map(|known| known.key) else { return false };
        self.exchanges += 1;
        let exchange = ExchangeKey::responder(self.exchanges);
        self.deliver(key, &run(Kind::Service, b"question"), Some((exchange, true, last)));
        self.send_exchange(exchange, false, true, b"more");
        true
    }

    fn send_exchange(&mut self, key: ExchangeKey, first: bool, last: bool, body: &[u8]) {
        let run = run(Kind::Service, body);
        self.deliver(SubscriptionKey(u32::MAX), &run, Some((key, first, last)));
    }

    fn publish(&mut self, run: &SharedRun) {
        let destination = run.run().destination().clone();
        let listens = |target: &Target| match target {
            Target::Exact(exact) => *exact == destination,
            Target::Pattern(kind, pattern) => {
                *kind == destination.kind && pattern.matches(&destination.path)
            }
        };
        let mut keys = Vec::new();
        for known in &mut self.subscriptions {
            let wanted = known.credit.is_none_or(|credit| credit >= run.run().len() as u64);
            if wanted && known.targets.iter().any(listens) {
                known.credit = known.credit.map(|credit| credit - run.run().len() as u64);
                keys.push(known.key);
            }
        }
        keys.into_iter().for_each(|key| self.deliver(key, run, None));
    }

    fn deliver(
        &mut self,
        key: SubscriptionKey,
        run: &SharedRun,
        exchange: Option<(ExchangeKey, bool, bool)>,
    ) {
        if self.ended || !self.session.wants_deliveries() {
            return;
        }
        let exchange = exchange.map(|(key, first, last)| Exchange {
            key,
            first,
            last,
            bare: false,
            credit: None,
        });
        let to = run.run().len();
        let delivery = Delivery { key, run, from: 0, to, redeliveries: 0, reached: 0, exchange };
        let mut output = Output { framing: self.framing, queue: &mut self.queue };
        self.session.deliver(self.now, &delivery, &mut output);
        self.session.flush(self.now, &mut output);
    }

    fn wait(&mut self, seconds: u64) {
        let until = self.now.time + Span::from_secs(seconds);
        for _ in 0..50 {
            let deadline = self.session.deadline();
            if self.ended || deadline > until {
                break;
            }
            self.now.time = self.now.time.max(deadline);
            self.call(|session, now, context| session.expire(now, context));
        }
        if !self.ended {
            let mut output = Output { framing: self.framing, queue: &mut self.queue };
            self.session.poll_write(4096, &mut output);
        }
        self.now.time = until;
    }

    /// The connection is lost, and another one wants to go on.
    fn come_back(&mut self) {
        if self.ended || !self.session.detach(self.now) {
            self.ended = true;
            return;
        }
        self.input.clear();
        let resume = |received| {
            let (token, available) = (&b"0123456789abcdef"[..], 0);
            let resume = Resume { version: VERSION, token, received, available };
            Frame::connection(Body::Resume(resume))
        };
        let admitted = [0, 6, 7, 11, 12, 16, 1 << 40].map(|received| {
            let mut bytes = Vec::new();
            resume(received).write(Framing::Stream, &mut bytes);
            self.session.admits(self.now, &bytes).then_some(received)
        });
        let Some(received) = admitted.into_iter().flatten().next_back() else { return };
        self.framing = Framing::Stream;
        self.call(|session, now, context| session.takeover(now, Takeover::Done, context));
        self.say(&resume(received));
    }

    /// All that was said can be read, and is no more than was allowed.
    fn check(mut self) {
        let bytes = self.queue.take_bytes();
        let (mut rest, mut follows) = (&bytes[..], BTreeMap::new());
        let mut again = false;
        while !rest.is_empty() {
            let Ok(Split::Frame(frame)) = split(rest, 1 << 24) else {
                panic!("half a frame was said")
            };
            rest = &rest[PREFIX_BYTES + frame.len()..];
            let frame = Frame::read(frame).unwrap();
            match frame.body {
                // What was said once may be said again.
                Body::ResumeOk(_) => again = true,
                Body::Payload(item) if item.next => {
                    let more = follows.insert(frame.stream, item.follows).unwrap_or_default();
                    let allowed = self.allowed.entry(frame.stream).or_default();
                    if !more && frame.stream % 2 == 1 && !again {
                        assert!(*allowed > 0, "stream {} was sent too much", frame.stream);
                        *allowed -= 1;
                    }
                }
                Body::Request(request) => {
                    assert!(frame.stream.is_multiple_of(2) && frame.stream > 0, "{request:?}");
                }
                Body::Ignored | Body::Setup(_) | Body::Resume(_) | Body::Extension(_) => {
                    panic!("a server said {frame:?}")
                }
                _ => {}
            }
        }
    }
}

fn run(kind: Kind, body: &[u8]) -> SharedRun {
    let path = Path::parse("a").unwrap();
    let properties = b"content-type:text/plain\n";
    let destination = Destination { kind, path };
    let mut run = Run::single(destination, Time::ZERO, properties, body, Meta::default());
    run.number(ShardId(1), 1);
    SharedRun::new(Arc::new(run))
}
