//! One client's session of a protocol in a world, driven as the event loop drives it.
//!
//! Relies on [`World`] for the broker and the time. Invariants: a session is given nothing after its end; what it
//! asks the broker for is checked and handed over after each call; it takes deliveries only when it wants some; a session
//! that never comes to rest fails the test.

use std::net::{Ipv4Addr, SocketAddr};

use tiderace_base::{Close, CloseCode, Now, ShardId, Span};
use tiderace_broker::Principal;
use tiderace_wire::{
    Answer, CLIENT_SESSION_ID_BYTES_MAX, CLIENT_SESSION_ID_BYTES_MIN, Command, Commands, Context,
    Framing, Incoming, Opening, OutQueue, Output, Request, Response, Session, SessionAction,
};

use crate::World;
use crate::commands::CommandCheck;

/// Bytes that a session writes of its own accord in one turn.
const WRITE_BYTES: usize = 64 << 10;
/// Turns in which a session that is due may do what it has to: one that is due again at once has a defect.
const EXPIRE_TURNS: usize = 8;
/// Replies, deliveries and writes until a session is at rest: one that needs more goes on for ever.
const STEPS: usize = 100_000;
/// Turns in which a session may say that it has more to take in and takes nothing.
const IDLE_TURNS: usize = 8;

/// A client's connection, and the session behind it.
pub struct Connection {
    session: Box<dyn Session>,
    client: usize,
    framing: Framing,
    queue: OutQueue,
    /// What the session has not taken in.
    input: Vec<u8>,
    commands: CommandCheck,
    /// The id by which the session wants to be found, until it is told whether it can be.
    session_id: Option<Box<[u8]>>,
    /// Answers to requests by HTTP that have not been taken out.
    responses: Vec<Response>,
    /// Whether a request waits for its answer.
    is_asked: bool,
    /// Whether what it sends follows the head of an answer.
    is_stream: bool,
    end: Option<Close>,
}

impl Connection {
    /// Opens a session on a shard.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn open(
        world: &mut World,
        shard: usize,
        framing: Framing,
        open: impl FnOnce(&Opening<'_>) -> Box<dyn Session>,
    ) -> Connection {
        let client = world.open(shard);
        let peer = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        let opening = Opening {
            shard: ShardId(u16::try_from(shard).unwrap_or(u16::MAX)),
            shards: world.shards(),
            epoch: world.epoch(),
            temporary: world.temporary_name(client),
            ..Opening::new(framing, peer, world.now())
        };
        let (queue, input) = (OutQueue::new(), Vec::new());
        let session = open(&opening);
        let (session_id, end) = (None, None);
        let commands = CommandCheck::default();
        let (responses, is_asked, is_stream) = (Vec::new(), false, false);
        let mut connection = Connection {
            session,
            client,
            framing,
            queue,
            input,
            commands,
            session_id,
            responses,
            is_asked,
            is_stream,
            end,
        };
        connection.call(world, |session, now, context| session.begin(now, context));
        connection.run(world);
        connection
    }

    /// The session is logged in by the server, which has opened it itself.
    ///
    /// # Panics
    /// When the session asks for what it may not, or never comes to rest.
    pub fn admit(&mut self, world: &mut World, principal: Principal) {
        world.admit(self.client, principal);
        self.run(world);
    }

    /// Bytes of a stream have come.
    ///
    /// # Panics
    /// When the session takes in more than there is, asks for what it may not, or never comes to rest.
    pub fn receive(&mut self, world: &mut World, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        self.take_in(world);
        self.run(world);
    }

    /// A message has come, which the session may take in in several turns.
    ///
    /// # Panics
    /// When the session takes in more than there is, asks for what it may not, or never comes to rest.
    pub fn message(&mut self, world: &mut World, text: bool, bytes: &[u8]) {
        let mut rest = bytes;
        let mut idle = 0;
        loop {
            let mut taken = rest.len();
            self.call(world, |session, now, context| {
                session.message(now, Incoming { text, bytes: rest }, context)?;
                taken = context.actions.take_yield().unwrap_or(taken);
                Ok(())
            });
            self.run(world);
            rest = &rest[taken..];
            if rest.is_empty() || self.end.is_some() {
                return;
            }
            idle = if taken == 0 { idle + 1 } else { 0 };
            assert!(idle < IDLE_TURNS, "a message is not taken in: {} bytes are left", rest.len());
        }
    }

    /// A request by HTTP has come.
    ///
    /// # Panics
    /// When the session asks for what it may not, or never comes to rest.
    pub fn request(&mut self, world: &mut World, request: &Request<'_>) {
        let mut answer = None;
        self.call(world, |session, now, context| {
            answer = Some(session.request(now, request, context)?);
            Ok(())
        });
        match answer {
            Some(Answer::Respond(response)) => self.responses.push(response),
            Some(Answer::Stream(response)) => {
                self.is_stream = true;
                self.responses.push(response);
            }
            Some(Answer::Hold(_) | Answer::Later) => self.is_asked = true,
            None => {}
        }
        self.run(world);
    }

    /// Whether what the session sends follows the head of an answer.
    pub fn is_stream(&self) -> bool {
        self.is_stream
    }

    /// The answers to requests since the last call.
    pub fn take_responses(&mut self) -> Vec<Response> {
        std::mem::take(&mut self.responses)
    }

    /// Time passes, and what is due in the world and in the session is done.
    ///
    /// # Panics
    /// When the session's deadline does not move.
    pub fn wait(&mut self, world: &mut World, span: Span) {
        let Now { time, wall_ms } = world.now();
        world.advance(Now { time: time + span, wall_ms: wall_ms + span.as_millis() as u64 });
        for turn in 0.. {
            if self.end.is_some() || self.session.deadline() > world.now().time {
                break;
            }
            assert!(turn < EXPIRE_TURNS, "the deadline does not move");
            self.call(world, |session, now, context| session.expire(now, context));
        }
        self.run(world);
    }

    /// Gives the session its replies and deliveries until nothing moves any more.
    ///
    /// # Panics
    /// When the session asks for what it may not, or never comes to rest.
    pub fn run(&mut self, world: &mut World) {
        let mut steps = 0;
        let mut step = || {
            steps += 1;
            assert!(steps < STEPS, "the session does not come to rest in {STEPS} steps");
            true
        };
        loop {
            let mut moved = false;
            if let Some(id) = self.session_id.take() {
                moved = step();
                self.decide(world, &id);
            }
            while let Some(reply) = world.reply(self.client) {
                moved = step();
                if self.end.is_none() {
                    self.commands.reply(&reply);
                }
                self.call(world, |session, now, context| session.reply(now, reply, context));
            }
            if let Some(close) = world.closed(self.client) {
                self.call(world, |_, _, _| Err(close));
            }
            if self.end.is_some() {
                return;
            }
            while self.session.wants_deliveries()
                && let Some(pending) = world.next(self.client)
            {
                moved = step();
                let mut output = Output { framing: self.framing, queue: &mut self.queue };
                self.session.deliver(world.now(), &pending.delivery(), &mut output);
            }
            let mut output = Output { framing: self.framing, queue: &mut self.queue };
            self.session.flush(world.now(), &mut output);
            if self.is_asked
                && let Some(response) = self.session.answer(world.now())
            {
                self.is_asked = false;
                self.responses.push(response);
            }
            if self.session.wants_write() {
                moved |= self.session.poll_write(WRITE_BYTES, &mut output) && step();
            }
            if moved && !self.input.is_empty() {
                self.take_in(world);
            }
            if !moved {
                return;
            }
        }
    }

    /// The server ends the session, if it has not ended.
    pub fn shut_down(&mut self, world: &mut World) {
        self.call(world, |_, _, _| Err(CloseCode::ShuttingDown.into()));
    }

    /// What the session has said since the last call, framing included.
    pub fn take_output(&mut self) -> Vec<u8> {
        self.queue.take_bytes()
    }

    /// Why the session has ended, if it has.
    pub fn end(&self) -> Option<&Close> {
        self.end.as_ref()
    }

    /// The session.
    pub fn session(&self) -> &dyn Session {
        &*self.session
    }

    /// Lets the session take in what has come, in as many turns as it wants.
    fn take_in(&mut self, world: &mut World) {
        let mut idle = 0;
        loop {
            let input = std::mem::take(&mut self.input);
            let (mut consumed, mut yields) = (0, false);
            self.call(world, |session, now, context| {
                consumed = session.receive(now, &input, context)?.consumed;
                yields = context.actions.take_yield().is_some();
                Ok(())
            });
            self.input = input[consumed..].to_vec();
            if !yields || self.end.is_some() {
                return;
            }
            idle = if consumed == 0 { idle + 1 } else { 0 };
            assert!(idle < IDLE_TURNS, "{} bytes are not taken in", self.input.len());
        }
    }

    /// Whether the session can be found by that id: if its length is right, for nobody else has it.
    fn decide(&mut self, world: &mut World, id: &[u8]) {
        let lengths = CLIENT_SESSION_ID_BYTES_MIN..=CLIENT_SESSION_ID_BYTES_MAX;
        let is_good = lengths.contains(&id.len());
        let outcome = if is_good { Ok(()) } else { Err(CloseCode::BadAlias.into()) };
        self.call(world, |session, now, context| {
            session.client_session_id_decided(now, outcome, context)
        });
    }

    fn call(
        &mut self,
        world: &mut World,
        act: impl FnOnce(&mut dyn Session, Now, &mut Context<'_>) -> Result<(), Close>,
    ) {
        if self.end.is_some() {
            return;
        }
        let now = world.now();
        let mut commands = Commands::new();
        commands.begin_turn(now.time);
        let output = Output { framing: self.framing, queue: &mut self.queue };
        let mut context = Context::new(&mut commands, output);
        let result = act(&mut *self.session, now, &mut context);
        self.end = context.actions.take_finish();
        for action in context.actions.drain() {
            match action {
                SessionAction::ClientSessionId(id) => self.session_id = Some(id),
                SessionAction::Respond(response) => {
                    self.is_asked = false;
                    self.responses.push(response);
                }
                SessionAction::RespondWithStream(response) => {
                    (self.is_asked, self.is_stream) = (false, true);
                    self.responses.push(response);
                }
                _ => {}
            }
        }
        if let Err(close) = result {
            let mut output = Output { framing: self.framing, queue: &mut self.queue };
            self.session.goodbye(&close, &mut output);
            self.end = Some(close);
        }
        let asked: Vec<Command> = commands.drain().collect();
        for command in asked {
            if let Err(reason) = self.commands.command(&command) {
                panic!("{reason}: {command:?}");
            }
            commands.push(command);
        }
        world.handle(self.client, &mut commands);
        if self.end.is_some() {
            world.close(self.client);
        }
    }
}
