//! What a protocol is to the rest of the server.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::limits::COPIED_BODY_BYTES_MAX;
use tiderace_base::{Close, CloseCode, Now, ShardId, Time};

use crate::{
    Answer, Commands, Delivery, Framing, HandOver, HttpFace, Output, Reply, Request, Response,
    SessionAction, SessionActions, SubscriptionKey, Takeover, TemporaryName, Ticket,
};

/// How far [`Session::receive`] got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes that are done with. The rest comes again, with more behind it.
    pub consumed: usize,
    /// How many bytes, counted from the first one not consumed, must be there before another call
    /// can get further; a hint, zero when unknown.
    pub need: usize,
}

/// What a session may do during one call.
#[derive(Debug)]
pub struct Context<'a> {
    /// Requests to the broker.
    pub commands: &'a mut Commands,
    /// Bytes to the client.
    pub output: Output<'a>,
    /// Whether the server has stopped reading this connection to slow its client down, or has read a part of a frame
    /// that is kept until the rest comes: silence is then no fault of the client's.
    pub reading_paused: bool,
    /// What is to be done with the connection after the call.
    pub actions: SessionActions,
}

impl<'a> Context<'a> {
    /// A context in which nothing has been asked for.
    pub fn new(commands: &'a mut Commands, output: Output<'a>) -> Context<'a> {
        Context { commands, output, reading_paused: false, actions: SessionActions::default() }
    }

    /// Asks for [`SessionAction::Finish`].
    pub fn finish(&mut self, close: impl Into<Close>) {
        self.actions.push(SessionAction::Finish(close.into()));
    }

    /// Whether the connection is to end.
    pub fn is_finished(&self) -> bool {
        self.actions.is_finished()
    }

    /// Asks for [`SessionAction::Respond`].
    pub fn respond(&mut self, response: Response) {
        self.actions.push(SessionAction::Respond(response));
    }

    /// Asks for [`SessionAction::RespondWithStream`].
    pub fn respond_with_stream(&mut self, response: Response) {
        self.actions.push(SessionAction::RespondWithStream(response));
    }

    /// Asks for [`SessionAction::TakeOver`].
    pub fn take_over(&mut self, ticket: Ticket, step: Takeover) {
        self.actions.push(SessionAction::TakeOver(ticket, step));
    }

    /// Asks for [`SessionAction::HandOver`].
    pub fn hand_over(&mut self, to: HandOver) {
        self.actions.push(SessionAction::HandOver(to));
    }

    /// Asks for [`SessionAction::ClientSessionId`].
    pub fn use_client_session_id(&mut self, id: Box<[u8]>) {
        self.actions.push(SessionAction::ClientSessionId(id));
    }

    /// Asks for [`SessionAction::Wait`].
    pub fn wait(&mut self) {
        self.actions.push(SessionAction::Wait);
    }

    /// Asks for [`SessionAction::Yield`].
    pub fn yield_turn(&mut self, taken: usize) {
        self.actions.push(SessionAction::Yield(taken));
    }
}

/// A message from a transport that marks messages.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Whether it is text, and valid UTF-8.
    pub text: bool,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// One client's conversation in one protocol: a state machine over bytes and time passed in.
///
/// Calls come one at a time. After an `Err` the caller handles the commands given so far, calls
/// [`Session::goodbye`] once, writes what is left and closes; no other call follows.
pub trait Session: Send {
    /// The session has just been opened: writes what its protocol says unasked. Comes once, before
    /// every other call that is given a context.
    ///
    /// # Errors
    /// Ends the connection.
    fn begin(&mut self, _now: Now, _context: &mut Context<'_>) -> Result<(), Close> {
        Ok(())
    }

    /// Takes bytes in. Must make progress or say what it needs: a call that consumes nothing is
    /// repeated only when more bytes are there.
    ///
    /// # Errors
    /// Ends the connection.
    fn receive(
        &mut self,
        now: Now,
        input: &[u8],
        context: &mut Context<'_>,
    ) -> Result<Progress, Close>;

    /// Whether messages are given to [`Session::message`] whole instead of to [`Session::receive`]
    /// as a stream of bytes.
    fn takes_messages(&self) -> bool {
        false
    }

    /// Takes a whole message in, if the transport marks messages and the session wants them.
    ///
    /// # Errors
    /// Ends the connection.
    fn message(
        &mut self,
        _now: Now,
        _message: Incoming<'_>,
        _context: &mut Context<'_>,
    ) -> Result<(), Close> {
        Err(CloseCode::UnexpectedFrame.into())
    }

    /// Takes an HTTP request in. While one is held or to be answered later, others may come.
    ///
    /// # Errors
    /// Ends the session; the request is answered with what [`Session::goodbye`] writes, if it was
    /// held before, or else by status 400.
    fn request(
        &mut self,
        _now: Now,
        _request: &Request<'_>,
        _context: &mut Context<'_>,
    ) -> Result<Answer, Close> {
        Err(CloseCode::BadRequest.into())
    }

    /// The client has hung up on a held request.
    ///
    /// # Errors
    /// Ends the session.
    fn abandoned(&mut self, _now: Now, _context: &mut Context<'_>) -> Result<(), Close> {
        Err(CloseCode::PeerGone.into())
    }

    /// Another connection of the client is to carry the session. After [`Takeover::Done`] the
    /// framing of `context.output` is that connection's; what was written for held requests and has
    /// not gone out is still in its queue, in the form it was written in: take it out
    /// ([`crate::OutQueue::take_bytes`]) and write it anew.
    ///
    /// # Errors
    /// Ends the session, or after [`Takeover::Offered`] refuses the connection.
    fn takeover(
        &mut self,
        _now: Now,
        _takeover: Takeover,
        _context: &mut Context<'_>,
    ) -> Result<(), Close> {
        Err(CloseCode::UnexpectedFrame.into())
    }

    /// The connection is gone, without a last word: the client has closed it, the network dropped it,
    /// or it was silent for too long (also when [`Session::expire`] has just said so by
    /// [`CloseCode::HeartBeatTimeout`]). Whether the session lives on without one, until its deadline
    /// or until a connection is handed over to it; see [`crate::hand_over`]. Asked of sessions that
    /// have logged in and have a secret.
    fn detach(&mut self, _now: Now) -> bool {
        false
    }

    /// The head of the request for which the session was opened has come, and not its body: asks the broker to
    /// log the client in by what the head says. True if it has; then the body is read when
    /// [`Session::is_established`], and [`Session::request`] follows. Otherwise no more of the body is taken
    /// than a client may send before its login.
    ///
    /// # Errors
    /// Refuses the request.
    fn head(
        &mut self,
        _now: Now,
        _request: &Request<'_>,
        _context: &mut Context<'_>,
    ) -> Result<bool, Close> {
        Ok(false)
    }

    /// Bytes that the client has begun to send and that the session keeps until the rest comes: fragments,
    /// attachments, open transactions. Asked after what came has been taken in.
    fn unfinished_bytes(&self) -> usize {
        0
    }

    /// Bytes that a detached session keeps for its client, beside its backlog; asked now and then, and
    /// bounded for all of them together.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Whether a connection that begins with these bytes may carry the session, which the client has
    /// named: what is there of a stream, or a whole message. Nothing may change by it.
    fn admits(&self, _now: Now, _first: &[u8]) -> bool {
        true
    }

    /// Whether the session can be found by the id that it asked for ([`SessionAction::ClientSessionId`]): not if a
    /// session that lives has it ([`CloseCode::AliasTaken`]), if it is too short or too long
    /// ([`CloseCode::BadAlias`]), or if there are too many ([`CloseCode::TooManyDetached`]). Comes
    /// once, after the call that asked.
    ///
    /// # Errors
    /// Ends the session.
    fn client_session_id_decided(
        &mut self,
        _now: Now,
        _outcome: Result<(), Close>,
        _context: &mut Context<'_>,
    ) -> Result<(), Close> {
        Ok(())
    }

    /// The secret of the session's [`Ticket`], if clients may come back to it.
    fn secret(&self) -> Option<u128> {
        None
    }

    /// Takes an answer in.
    ///
    /// # Errors
    /// Ends the connection.
    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close>;

    /// Encodes messages.
    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>);

    /// Whether deliveries are wanted now, however much the connection can take. Asked before each;
    /// what is not wanted waits, where the policies for slow subscribers apply.
    fn wants_deliveries(&self) -> bool {
        true
    }

    /// Whether a message with a body of so many bytes may be given to [`Session::deliver`], which lies in a file: not if
    /// the protocol would make a copy of it. Asked of such alone.
    fn takes_body(&self, bytes: usize) -> bool {
        bytes <= COPIED_BODY_BYTES_MAX
    }

    /// A delivery for that subscription comes soon, after some others to this session or to other ones:
    /// may ask memory for what it will need, so that it comes meanwhile.
    fn look_ahead(&self, _key: SubscriptionKey) {}

    /// The turn's deliveries have been given: writes what was kept back to be sent together.
    fn flush(&mut self, _now: Now, _output: &mut Output<'_>) {}

    /// Whether the session has more to say of its own accord than it has written, for as long as its
    /// client takes it. Asked after every call that is given a context; then [`Session::poll_write`] follows.
    fn wants_write(&self) -> bool {
        false
    }

    /// The connection takes bytes and all deliveries have been given: writes what the session has to say
    /// of its own accord, until so many bytes wait in the queue. Says whether there is more; it comes
    /// again when the connection has had its turn, so that others have theirs.
    fn poll_write(&mut self, _bytes_max: usize, _output: &mut Output<'_>) -> bool {
        false
    }

    /// Everything that waited for the session has been delivered while a request is held: its
    /// answer, if it is known now. Asked after [`Session::flush`] and after every reply.
    fn answer(&mut self, _now: Now) -> Option<Response> {
        None
    }

    /// When [`Session::expire`] wants to be called; may move with every other call.
    fn deadline(&self) -> Time;

    /// The deadline has come: sends a heart-beat, or ends a connection that fell silent.
    ///
    /// # Errors
    /// Ends the connection.
    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close>;

    /// The connection ends for this reason: writes the protocol's last word, if it has one.
    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>);

    /// Whether the client has logged in; until then the connection lives under the small limits.
    fn is_established(&self) -> bool;
}

/// Whether first bytes belong to a protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detect {
    /// Too few bytes to tell.
    More,
    /// Not this protocol.
    No,
    /// This protocol.
    Yes,
}

/// What a protocol is told about a new connection.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// How frames are marked.
    pub framing: Framing,
    /// The WebSocket subprotocol agreed on.
    pub subprotocol: Option<&'a str>,
    /// The client's address.
    pub peer: SocketAddr,
    /// When it began.
    pub now: Now,
    /// The request it began with: the upgrade to WebSocket, or the first of an HTTP session.
    pub request: Option<&'a Request<'a>>,
    /// By which the client may come back, if the session says so in [`Session::secret`]. Never used
    /// before; its secret may be the seed of other random choices.
    pub ticket: Ticket,
    /// The connection was handed over to a session that is not there (any more), or not for this
    /// client: the first bytes are those that asked for it. There is no request and no subprotocol.
    pub unknown: bool,
    /// The node's present life; see [`crate::Position`].
    pub epoch: u64,
    /// The session's shard.
    pub shard: ShardId,
    /// How many there are.
    pub shards: usize,
    /// The session's name in the paths of its temporary destinations.
    pub temporary: TemporaryName,
}

impl<'a> Opening<'a> {
    /// An opening on a node of one shard, without request or ticket.
    pub fn new(framing: Framing, peer: SocketAddr, now: Now) -> Opening<'a> {
        Opening {
            framing,
            subprotocol: None,
            peer,
            now,
            request: None,
            ticket: Ticket::default(),
            unknown: false,
            epoch: 0,
            shard: ShardId(0),
            shards: 1,
            temporary: TemporaryName::default(),
        }
    }
}

/// Begins a session on a new connection.
pub type Open = dyn Fn(&Opening<'_>) -> Box<dyn Session> + Send + Sync;

/// A protocol's one registration value.
#[derive(Clone)]
pub struct Protocol {
    /// Its name in configuration and metrics.
    pub name: &'static str,
    /// Looks at first bytes.
    pub detect: fn(&[u8]) -> Detect,
    /// The WebSocket subprotocols it speaks, best first; the first is also assumed when a client
    /// names none on one of [`Protocol::websocket_paths`].
    pub subprotocols: &'static [&'static str],
    /// The HTTP paths on which it answers WebSocket upgrades that name no subprotocol.
    pub websocket_paths: Arc<[String]>,
    /// The HTTP paths on which a POST by HTTP/2 carries its byte stream: the bodies of request and answer
    /// are the two directions.
    pub stream_paths: Arc<[String]>,
    /// How it is reached by HTTP requests, if it is.
    pub http: Option<HttpFace>,
    /// Begins a session.
    pub open: Arc<Open>,
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protocol").field("name", &self.name).finish_non_exhaustive()
    }
}
