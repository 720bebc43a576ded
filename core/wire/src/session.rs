//! What a protocol is to the rest of the server.

use std::net::SocketAddr;
use std::sync::Arc;

use tiderace_base::{Close, Now, Time};

use crate::{Commands, Delivery, Framing, Output, Reply};

/// A session's own name for one of its subscriptions; small numbers, used again after an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubscriptionKey(pub u32);

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
    /// Set to end the connection in good order once the output is written.
    pub finished: Option<Close>,
    /// Whether the server has stopped reading this connection to slow its client down: silence is
    /// then no fault of the client's.
    pub reading_paused: bool,
}

/// One client's conversation in one protocol: a state machine over bytes and time passed in.
///
/// Calls come one at a time. After an `Err` the caller handles the commands given so far, calls
/// [`Session::goodbye`] once, writes what is left and closes; no other call follows.
pub trait Session: Send {
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

    /// Takes an answer in.
    ///
    /// # Errors
    /// Ends the connection.
    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close>;

    /// Encodes messages.
    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>);

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
    /// Begins a session.
    pub open: Arc<Open>,
}

impl std::fmt::Debug for Protocol {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Protocol").field("name", &self.name).finish_non_exhaustive()
    }
}
