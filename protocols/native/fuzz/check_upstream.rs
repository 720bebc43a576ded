//! What must hold whatever an upstream sends: no panic, what a node tells its broker makes sense, and what it says can be
//! read. Shared by the fuzz target and by the test that replays the corpus.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use tiderace_base::{Close, Now, Span};
use tiderace_native::codec::{ClientMessage, Messages, ServerMessage, Welcome, feature};
use tiderace_native::{UpstreamOptions, open_upstream};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Command, Commands, Context, Destination, EndPrincipal, Framing, FromUpstream, Incoming, Kind,
    MessageFraming, Opening, Operation, OutQueue, Output, Position, Reply, Run, Session,
    SubscriptionKey, Target, ToUpstream,
};

static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |_, _| {},
    binary: |len, out| out.extend_from_slice(&(len as u32).to_be_bytes()),
    armour: None,
};

/// What an upstream says: of the first byte the lowest bit says whether WELCOME has come before, the next one whether a
/// subscription is ended, and the others how long each transport message is, in bytes times eight; 0 for all in one.
pub fn upstream(data: &[u8]) {
    let [how, bytes @ ..] = data else { return };
    let mut node = Node::new();
    if how & 1 == 1 {
        let mut bytes = Vec::new();
        ServerMessage::Welcome(welcome()).write(&mut bytes);
        node.hear(&bytes);
        node.wish();
        node.serve();
    }
    let len = match usize::from(how >> 2) {
        0 => bytes.len(),
        eighths => eighths * 8,
    };
    for part in bytes.chunks(len.max(1)) {
        node.hear(part);
        if how & 2 == 2 {
            node.ask(ToUpstream::Unsubscribe { key: SubscriptionKey(0) });
            node.wish();
        }
        node.wait();
    }
}

fn welcome() -> Welcome<'static> {
    Welcome {
        version: 1,
        name: "edge",
        epoch: b"\xac\x02",
        ping_ms: 20_000,
        message_bytes_max: 1000,
        subscriptions_max: 20,
        declarations_max: 0,
        jitter_ms: 0,
        codecs: vec![1],
        server: "tiderace/9",
        features: feature::VALUES | feature::NUMBERED | feature::RELAY | feature::CALLS,
        node: "",
    }
}

struct Node {
    session: Box<dyn Session>,
    now: Now,
    queue: OutQueue,
    is_over: bool,
}

impl Node {
    fn new() -> Node {
        let now = Now::default();
        let framing = Framing::Messages(&MESSAGES);
        let opening = Opening::new(framing, "127.0.0.1:9".parse().unwrap(), now);
        let options = UpstreamOptions {
            message_bytes_max: 1000,
            bases_bytes_max: 200,
            ..UpstreamOptions::default()
        };
        let session = open_upstream(&Arc::new(options), &opening);
        let mut node = Node { session, now, queue: OutQueue::new(), is_over: false };
        node.call(|session, now, context| session.begin(now, context));
        node
    }

    /// The broker wants a pattern as 0, and a topic as 1 from some position on.
    fn wish(&mut self) {
        let target = Target::Pattern(Kind::Topic, Pattern::parse("fx/**").unwrap());
        self.ask(ToUpstream::Subscribe { key: SubscriptionKey(0), target, since: None });
        let path = Path::parse("a").unwrap();
        let target = Target::Exact(Destination { kind: Kind::Topic, path });
        let since = Some(Position::new(300));
        self.ask(ToUpstream::Subscribe { key: SubscriptionKey(1), target, since });
        self.relay();
    }

    /// Clients of the node serve: one a service, as 19, and one a pattern, as 18.
    fn serve(&mut self) {
        let path = Path::parse("s").unwrap();
        let target = Target::Exact(Destination { kind: Kind::Service, path });
        self.ask(ToUpstream::Serve { key: 0, target });
        let target = Target::Pattern(Kind::Service, Pattern::parse("s/**").unwrap());
        self.ask(ToUpstream::Serve { key: 1, target });
    }

    /// A client of the node publishes, and another updates.
    fn relay(&mut self) {
        let principal = EndPrincipal::new("ann".into(), [].into(), [].into(), false).unwrap();
        let principal = Arc::new(principal);
        let path = Path::parse("a").unwrap();
        let destination = Destination { kind: Kind::Topic, path };
        let run = Run::single(destination, self.now.time, b"", b"x", Default::default());
        let (run, known) = (Box::new(run), principal.clone());
        self.ask(ToUpstream::Publish { request: 1, principal: known, run });
        let operation =
            Box::new(Operation::Remove { selector: vec![Pattern::parse("a").unwrap()] });
        self.ask(ToUpstream::Operate { request: 2, principal, operation });
    }

    fn ask(&mut self, asked: ToUpstream) {
        let reply = Reply::Upstream(Box::new(asked));
        self.call(|session, now, context| session.reply(now, reply, context));
    }

    fn hear(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while !self.is_over {
            let mut taken = rest.len();
            self.call(|session, now, context| {
                session.message(now, Incoming { text: false, bytes: rest }, context)?;
                taken = context.actions.take_yield().unwrap_or(taken);
                Ok(())
            });
            rest = &rest[taken..];
            if rest.is_empty() {
                return;
            }
        }
    }

    fn wait(&mut self) {
        self.now.time = self.now.time + Span::from_secs(1);
        if self.session.deadline() <= self.now.time {
            self.call(|session, now, context| session.expire(now, context));
        }
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.is_over {
            return;
        }
        let mut commands = Commands::new();
        let output = Output { framing: Framing::Messages(&MESSAGES), queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        if let Err(close) = act(&mut *self.session, self.now, &mut context) {
            let mut output =
                Output { framing: Framing::Messages(&MESSAGES), queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.is_over = true;
        }
        for command in commands.drain() {
            match command {
                Command::Upstream(told) => check(&told),
                Command::Call(call) => {
                    assert!(call.body.len() <= 1000 && call.service.as_str().starts_with('s'))
                }
                Command::SendExchange(sent) => {
                    assert!(sent.body.len() <= 1000 && (sent.last || !sent.bare));
                }
                Command::Cancel { close, .. } => assert!(close.reason.len() <= 2000),
                Command::ExchangeCredit { messages, .. } => assert!(messages > 0),
                other => panic!("{other:?}"),
            }
        }
        said(&self.queue.take_bytes());
    }
}

/// What the broker is told makes sense.
fn check(told: &FromUpstream) {
    let FromUpstream::Messages { key, run } = told else { return };
    assert!(key.0 < 2 && run.version() > 0 && !run.is_empty());
    let upstream = run.upstream().unwrap();
    assert!(upstream.first.checked_add(run.len() as u64).is_some());
    assert!(run.version().checked_add(run.len() as u64).is_some());
    assert_eq!(run.messages().count(), run.len());
    assert!(run.messages().all(|message| message.body.len() <= 1000));
}

/// What the node says can be read.
fn said(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((len, more)) = rest.split_first_chunk::<4>() {
        let (frame, more) = more.split_at(u32::from_be_bytes(*len) as usize);
        rest = more;
        for message in Messages::new(frame) {
            let (kind, payload) = message.unwrap();
            let message = ClientMessage::read(kind, payload).unwrap();
            assert!(!matches!(message, ClientMessage::Other(_)));
        }
    }
    assert!(rest.is_empty());
}
