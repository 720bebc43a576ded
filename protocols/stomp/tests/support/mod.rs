//! A session under test with the broker behind it, driven as the server drives them.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::Arc;

use std::collections::VecDeque;

use tiderace_base::{Close, CloseCode, Now, Span};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_stomp::{StompOptions, protocol};
use tiderace_testkit::World;
use tiderace_wire::{
    Command, Commands, Context, Credentials, Framing, MessageFraming, Opening, OutQueue, Outcome,
    Output, Reply, Session,
};

/// The broker of one client, and what the test does with what goes to and fro.
pub struct Backend {
    world: World,
    client: usize,
    /// Replies that the broker has not given, or that were held back.
    replies: VecDeque<Reply>,
    /// Whether replies are held back.
    pub hold: bool,
    /// Whether commands are counted and forgotten.
    pub mute: bool,
    /// Commands handled.
    handled: usize,
    /// Settled messages: their numbers and what becomes of them.
    pub settled: Vec<(u64, Outcome)>,
}

impl Backend {
    fn new(now: Now) -> Backend {
        let mut world = World::new(now, BrokerOptions::default(), Some(verify));
        let client = world.open(0);
        let (replies, settled) = (VecDeque::new(), Vec::new());
        Backend { world, client, replies, hold: false, mute: false, handled: 0, settled }
    }

    fn handle(&mut self, command: Command) {
        self.handled += 1;
        if self.mute {
            return;
        }
        if let Command::Settle(settle) = &command {
            let numbers = settle.ranges.iter().flat_map(|(from, to)| *from..=*to);
            self.settled.extend(numbers.map(|number| (number, settle.outcome)));
        }
        let mut commands = Commands::new();
        commands.push(command);
        self.world.handle(self.client, &mut commands);
        self.note_replies();
    }

    /// What the broker has to say, also when something was delivered: whether there is anything.
    fn note_replies(&mut self) -> bool {
        let before = self.replies.len();
        self.replies.extend(std::iter::from_fn(|| self.world.reply(self.client)));
        self.replies.len() > before
    }
}

/// Everybody is who they say, unless the passcode is wrong.
fn verify(credentials: &Credentials) -> Result<Principal, Close> {
    if credentials.passcode.as_deref() == Some("wrong") {
        return Err(CloseCode::LoginFailed.into());
    }
    Ok(match &credentials.login {
        Some(login) => Principal::named(login.as_str()),
        None => Principal::anonymous(),
    })
}

/// One client's connection.
pub struct Rig {
    session: Box<dyn Session>,
    pub broker: Backend,
    pub now: Now,
    pub framing: Framing,
    pub paused: bool,
    /// What the session has not consumed.
    input: Vec<u8>,
    /// What it said, framing headers included.
    output: Vec<u8>,
    /// How it ended.
    pub end: Option<Close>,
    /// Every command, as text, in order.
    pub commands: Vec<String>,
    /// The most bytes the session asked to be collected.
    pub need: usize,
}

/// Marks messages so that tests see where they begin and what kind they are.
pub static MESSAGES: MessageFraming = MessageFraming {
    id: 1,
    text: |len, out| out.extend_from_slice(format!("<text {len}>").as_bytes()),
    binary: |len, out| out.extend_from_slice(format!("<binary {len}>").as_bytes()),
    armour: None,
};

impl Rig {
    pub fn new() -> Rig {
        Rig::with(StompOptions::default(), Framing::Stream)
    }

    pub fn with(options: StompOptions, framing: Framing) -> Rig {
        let now = Now { time: tiderace_base::Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let registered = protocol(Arc::new(options), Arc::from([]));
        let broker = Backend::new(now);
        let temporary = broker.world.temporary_name(broker.client);
        let peer = "127.0.0.1:9".parse().unwrap();
        let opening = Opening { temporary, ..Opening::new(framing, peer, now) };
        Rig {
            session: (registered.open)(&opening),
            broker,
            now,
            framing,
            paused: false,
            input: Vec::new(),
            output: Vec::new(),
            end: None,
            commands: Vec::new(),
            need: 0,
        }
    }

    /// A rig that has logged in with that version; what CONNECTED said is forgotten.
    pub fn connected(version: &str) -> Rig {
        let mut rig = Rig::new();
        rig.connect(version);
        rig
    }

    pub fn connect(&mut self, version: &str) {
        let frame = match version {
            "1.0" => "CONNECT\n\n\0".to_owned(),
            version => format!("CONNECT\naccept-version:{version}\nhost:h\n\n\0"),
        };
        let said = self.say(&frame);
        assert!(said.contains("CONNECTED\n"), "{said}");
        self.commands.clear();
    }

    /// Sends text, gives what the session answers.
    pub fn say(&mut self, text: &str) -> String {
        self.send(text.as_bytes());
        self.received()
    }

    /// What the session has said since the last call.
    pub fn received(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.output)).into_owned()
    }

    pub fn received_bytes(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.end.is_some() {
            return;
        }
        self.input.extend_from_slice(bytes);
        self.run();
    }

    /// Lets time pass; the session is woken when it wants to be.
    pub fn wait(&mut self, span: Span) {
        let target = self.now.time + span;
        while self.end.is_none() && self.session.deadline() <= target {
            let deadline = self.session.deadline().max(self.now.time);
            self.advance(deadline);
            self.call(|session, now, context| session.expire(now, context));
            assert!(
                self.end.is_some() || self.session.deadline() > self.now.time,
                "the deadline does not move"
            );
        }
        self.advance(target);
        self.deliver();
    }

    /// The name of the session in the paths of its temporary destinations.
    pub fn temporary(&self) -> String {
        self.broker.world.temporary_name(self.broker.client).to_string()
    }

    pub fn is_established(&self) -> bool {
        self.session.is_established()
    }

    /// Lets the broker answer what it was told to hold back.
    pub fn release(&mut self) {
        self.broker.hold = false;
        self.run();
    }

    /// Passes a reply in that the broker did not give.
    pub fn reply(&mut self, reply: tiderace_wire::Reply) {
        self.broker.replies.push_back(reply);
        self.run();
    }

    fn advance(&mut self, to: tiderace_base::Time) {
        let span = to.since(self.now.time);
        self.now.time = to;
        self.now.wall_ms += span.as_millis() as u64;
        self.broker.world.advance(self.now);
    }

    /// Receives, replies and delivers until nothing moves any more.
    fn run(&mut self) {
        loop {
            let before = (self.input.len(), self.broker.handled);
            let mut answered = false;
            let input = std::mem::take(&mut self.input);
            let mut rest = input.as_slice();
            self.call(|session, now, context| {
                let progress = session.receive(now, rest, context)?;
                assert!(progress.consumed <= rest.len());
                assert!(progress.need == 0 || progress.need > rest.len() - progress.consumed);
                rest = &rest[progress.consumed..];
                Ok(())
            });
            self.input = rest.to_vec();
            while self.end.is_none() && !self.broker.hold {
                let Some(reply) = self.broker.replies.pop_front() else { break };
                self.call(|session, now, context| session.reply(now, reply, context));
                answered = true;
            }
            self.deliver();
            answered |= self.broker.note_replies();
            let after = (self.input.len(), self.broker.handled);
            if self.end.is_some() || (before == after && !answered) {
                return;
            }
        }
    }

    fn deliver(&mut self) {
        while let Some(pending) = self.broker.world.next(self.broker.client) {
            let mut queue = OutQueue::new();
            let mut output = Output { framing: self.framing, queue: &mut queue };
            self.session.deliver(self.now, &pending.delivery(), &mut output);
            collect(&mut queue, &mut self.output);
        }
    }

    fn call(
        &mut self,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.end.is_some() {
            return;
        }
        let mut commands = Commands::new();
        commands.begin_turn(self.now.time);
        let mut queue = OutQueue::new();
        let output = Output { framing: self.framing, queue: &mut queue };
        let mut context = Context::new(&mut commands, output);
        context.reading_paused = self.paused;
        let result = act(&mut *self.session, self.now, &mut context);
        self.end = context.actions.take_finish();
        if let Err(close) = result {
            let mut output = Output { framing: self.framing, queue: &mut queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close);
        }
        for command in commands.drain() {
            self.commands.push(describe(&command));
            self.broker.handle(command);
        }
        collect(&mut queue, &mut self.output);
    }
}

fn collect(queue: &mut OutQueue, output: &mut Vec<u8>) {
    let mut slices = [std::io::IoSlice::new(&[]); 64];
    while !queue.is_empty() {
        let count = queue.slices(&mut slices);
        let bytes: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
        slices = [std::io::IoSlice::new(&[]); 64];
        output.extend_from_slice(&bytes);
        queue.advance(bytes.len());
    }
}

/// A command as one line, the same however messages were grouped into runs.
fn describe(command: &Command) -> String {
    match command {
        Command::Publish { run, .. } => {
            let rows: Vec<String> = run
                .messages()
                .map(|message| {
                    format!(
                        "publish {} {} [{}] {} {:?} {:?}",
                        run.destination().kind.name(),
                        run.destination().path,
                        String::from_utf8_lossy(message.properties).replace('\n', "|"),
                        String::from_utf8_lossy(message.body),
                        message.flags,
                        message.expires_ms,
                    )
                })
                .collect();
            rows.join("\n")
        }
        other => format!("{other:?}"),
    }
}
