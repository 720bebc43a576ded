//! What has to hold of a server's session, whatever a client sends: no panic, all that is said can be
//! read, and nothing is kept without end. Shared by the fuzz target and the replay of its corpus.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, dead_code, unreachable_pub)]

use std::sync::Arc;

use tiderace_base::{Close, Now, ShardId, Span, Time};
use tiderace_rsocket::frame::{Body, Frame, PREFIX_BYTES, Payload, Setup, Split, VERSION, split};
use tiderace_rsocket::{EchoOptions, RSocketOptions, protocol};
use tiderace_topics::Path;
use tiderace_wire::{
    Command, Commands, Confirm, Context, Delivery, Destination, Exchange, ExchangeKey, Framing,
    Kind, Meta, Opening, OperationResult, OutQueue, Output, Prefetch, Reply, Run, Session,
    SessionAction, SharedRun, SubscriptionKey, Target,
};

const FRAMES_BYTES_MAX: usize = 1 << 20;

/// A conversation behind a SETUP: the first byte says what SETUP asks for, the second how long each piece
/// is. The broker takes everything but every seventh request, gives subscribers what is published, and
/// answers calls with what was said.
pub fn session(data: &[u8]) {
    let [choices, piece, bytes @ ..] = data else { return };
    let has = |bit: u8| choices & bit != 0;
    let options = RSocketOptions {
        message_bytes_max: 1000,
        streams_max: 20,
        subscriptions_max: 10,
        faults_max: 10,
        fragments_bytes_max: 2000,
        fragmented_max: 3,
        channel_window: 4,
        waiting_max: 3,
        waiting_bytes_max: 1000,
        fragment_bytes: if has(1) { 64 } else { 0 },
        echo: has(2).then_some(EchoOptions { interval: Span::from_secs(1), bytes_max: 500 }),
        ..RSocketOptions::default()
    };
    let registered = protocol(Arc::new(options), [].into());
    let peer = std::net::SocketAddr::from(([127, 0, 0, 1], 1));
    let opening = Opening { shards: 2, ..Opening::new(Framing::Stream, peer, Now::default()) };
    let mut player = Player {
        session: (registered.open)(&opening),
        queue: OutQueue::new(),
        subscriptions: Vec::new(),
        number: 1,
        now: Now::default(),
        ended: false,
        input: Vec::new(),
        told: 0,
    };
    if !has(4) {
        let setup = Setup {
            version: VERSION,
            interval_ms: 1000,
            lifetime_ms: 60_000,
            token: has(8).then_some(&b"0123456789abcdef"[..]),
            lease: has(16),
            metadata_mime: if has(32) {
                b"message/x.rsocket.routing.v0"
            } else {
                b"message/x.rsocket.composite-metadata.v0"
            },
            data_mime: b"text/plain",
            payload: Payload::default(),
        };
        let mut first = Vec::new();
        Frame::connection(Body::Setup(setup)).write(Framing::Stream, &mut first);
        player.send(&first);
    }
    for part in bytes.chunks(usize::from(*piece).max(1)) {
        player.send(part);
        player.turn();
    }
    player.check();
}

struct Player {
    session: Box<dyn Session>,
    queue: OutQueue,
    subscriptions: Vec<(SubscriptionKey, Vec<Target>, bool)>,
    number: u64,
    now: Now,
    ended: bool,
    input: Vec<u8>,
    told: usize,
}

impl Player {
    fn send(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input);
        let mut consumed = 0;
        self.call(|session, now, context| {
            let progress = session.receive(now, &input, context)?;
            assert!(progress.consumed <= input.len());
            consumed = progress.consumed;
            Ok(())
        });
        if !self.ended {
            self.input = input[consumed..].to_vec();
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
        let output = Output { framing: Framing::Stream, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, self.now, &mut context);
        self.ended = context.is_finished();
        let is_id = |action: &SessionAction| matches!(action, SessionAction::ClientSessionId(_));
        let asks_for_id = context.actions.iter().any(is_id);
        if let Err(close) = result {
            let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.ended = true;
        }
        if asks_for_id {
            self.client_session_id_decided();
        }
        let commands: Vec<Command> = commands.drain().collect();
        for command in commands {
            self.carry_out(command);
        }
    }

    fn client_session_id_decided(&mut self) {
        self.call(|session, now, context| session.client_session_id_decided(now, Ok(()), context));
    }

    fn reply(&mut self, reply: Reply) {
        self.call(|session, now, context| session.reply(now, reply, context));
    }

    fn carry_out(&mut self, command: Command) {
        self.number += 1;
        assert!(self.number < 1_000_000, "it asks without end");
        let refused = self.number.is_multiple_of(7);
        let close = || tiderace_base::CloseCode::NotAuthorised.into();
        match command {
            Command::Login(_) => {
                self.reply(Reply::LoggedIn { name: "ann".into(), anonymous: false })
            }
            Command::Publish { mut run, confirm, .. } => {
                run.number(ShardId(1), self.number);
                run.set_version(self.number);
                self.number += run.len() as u64;
                let run = SharedRun::new(Arc::new(run));
                self.publish(&run);
                match confirm {
                    Some(Confirm { from, to }) if refused => {
                        for token in from..=to {
                            self.reply(Reply::Refused { token: Some(token), close: close() });
                        }
                    }
                    Some(confirm) => self.reply(Reply::Confirmed(confirm)),
                    None => {}
                }
            }
            Command::Subscribe(wish) if refused => {
                self.reply(Reply::Refused { token: wish.confirm, close: close() });
            }
            Command::Subscribe(wish) => {
                assert!(self.subscriptions.iter().all(|(key, ..)| *key != wish.key));
                let serves = matches!(
                    wish.targets[..],
                    [Target::Exact(Destination { kind: Kind::Service, .. })]
                );
                assert_eq!(serves, matches!(wish.prefetch, Some(Prefetch { messages: 1.., .. })));
                self.subscriptions.push((wish.key, wish.targets, serves));
                self.reply(Reply::Confirmed(Confirm::one(wish.confirm.unwrap())));
                if serves {
                    let key = ExchangeKey::responder(self.number as u32);
                    let last = self.number.is_multiple_of(2);
                    let run = spoken("served", b"question");
                    self.exchange(
                        wish.key,
                        &run,
                        Exchange { key, first: true, last, bare: false, credit: None },
                    );
                }
            }
            Command::Unsubscribe { key, .. } => {
                self.subscriptions.retain(|(known, ..)| *known != key);
            }
            Command::Credit { key, messages } => {
                assert!(messages > 0 && self.subscriptions.iter().any(|(known, ..)| *known == key));
            }
            Command::Call(call) if refused => {
                let exchange = ExchangeKey::caller(call.number);
                self.reply(Reply::ExchangeEnded { exchange, close: close() });
            }
            Command::Call(call) => {
                let key = ExchangeKey::caller(call.number);
                let run = spoken(call.service.as_str(), &call.body);
                let key_of_none = SubscriptionKey(u32::MAX);
                self.exchange(
                    key_of_none,
                    &run,
                    Exchange { key, first: false, last: false, bare: false, credit: None },
                );
                self.exchange(
                    key_of_none,
                    &run,
                    Exchange { key, first: false, last: call.last, bare: false, credit: None },
                );
            }
            Command::Speak(speak) => {
                let run = spoken("served", &speak.body);
                let exchange = Exchange {
                    key: speak.exchange,
                    first: false,
                    last: speak.last,
                    bare: speak.bare,
                    credit: None,
                };
                self.exchange(SubscriptionKey(u32::MAX), &run, exchange);
            }
            Command::Goodbye => {}
            Command::Operate { token, .. } => {
                let result = Box::new(OperationResult::Updated { version: self.number });
                self.reply(Reply::Operated { token, result });
            }
            Command::Settle(settle) => assert!(!settle.ranges.is_empty()),
            Command::HangUp { .. } | Command::ExchangeCredit { .. } => {}
        }
    }

    fn publish(&mut self, run: &SharedRun) {
        let destination = run.run().destination();
        let listening: Vec<SubscriptionKey> = self
            .subscriptions
            .iter()
            .filter(|(_, targets, _)| {
                targets.iter().any(|target| match target {
                    Target::Exact(exact) => exact == destination,
                    Target::Pattern(kind, pattern) => {
                        *kind == destination.kind && pattern.matches(&destination.path)
                    }
                })
            })
            .map(|(key, ..)| *key)
            .collect();
        for key in listening {
            self.hand(key, run, run.run().len(), None);
        }
    }

    fn exchange(&mut self, key: SubscriptionKey, run: &SharedRun, exchange: Exchange) {
        self.hand(key, run, 1, Some(exchange));
    }

    fn hand(
        &mut self,
        key: SubscriptionKey,
        run: &SharedRun,
        to: usize,
        exchange: Option<Exchange>,
    ) {
        if self.ended || !self.session.wants_deliveries() {
            return;
        }
        let delivery = Delivery { key, run, from: 0, to, redeliveries: 0, reached: 0, exchange };
        let mut output = Output { framing: Framing::Stream, queue: &mut self.queue };
        self.session.deliver(self.now, &delivery, &mut output);
    }

    /// Time passes; what was said is read.
    fn turn(&mut self) {
        self.now.time = self.now.time + Span::from_millis(400);
        for _ in 0..3 {
            if self.ended || self.session.deadline() > self.now.time {
                break;
            }
            self.call(|session, now, context| session.expire(now, context));
        }
        let bytes = self.queue.take_bytes();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(Split::Frame(frame)) = split(rest, FRAMES_BYTES_MAX) else {
                panic!("half a frame was said")
            };
            Frame::read(frame).unwrap();
            rest = &rest[PREFIX_BYTES + frame.len()..];
            self.told += 1;
        }
        assert!(self.session.kept_bytes() < FRAMES_BYTES_MAX);
        assert!(self.session.deadline() > Time::ZERO);
    }

    fn check(mut self) {
        self.turn();
    }
}

fn spoken(service: &str, body: &[u8]) -> SharedRun {
    let path = Path::parse(service).unwrap();
    let destination = Destination { kind: Kind::Service, path };
    let run = Run::single(destination, Time::ZERO, b"a:b\n", body, Meta::default());
    SharedRun::new(Arc::new(run))
}
