//! The session: one client's conversation over one connection, in one or several namespaces.
//!
//! ```text
//!              CONNECT                  LoggedIn             subscribed to its topic
//!   namespace ────────▶ Asked ─────────────────────▶ Joining ───────────────────────▶ Connected
//!                         │ Refused                     │ not allowed                    │ DISCONNECT
//!                         └─▶ CONNECT_ERROR             └─▶ CONNECT_ERROR                └─▶ gone
//!
//!   login of the session: None ─ first CONNECT ─▶ Pending ─ LoggedIn ─▶ Done
//! ```
//! Relies on `packet` for what may come and on the modules below for what it means. Invariants:
//! attachments follow their packet with nothing in between; an answer goes to the event that asked
//! for it; what is rarely used costs eight bytes.

mod answer;
mod assembly;
mod connect;
mod deliver;
mod deltas;
mod event;
mod exchange;
mod held;
mod namespace;
mod operate;
mod publish;
mod recover;
mod room;
mod subscribe;
mod subscriptions;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Bases, Context, Credentials, Delivery, ExchangeKey, Incoming, Opening, Output, Progress, Reply,
    Session, Side, SubscriptionKey, Token,
};

use crate::options::SocketOptions;
use crate::packet::{self, Packet, PacketKind};
use crate::query;
use crate::write::Text;
use answer::Waiting;
use assembly::Assembly;
use connect::LoginFor;
use event::Event;
use exchange::{Asked, ExchangeState};
use held::HeldMessages;
use namespace::{Namespaces, Standing};
use operate::quoted;
use recover::{Resume, Trail};
pub(crate) use subscriptions::Subscription;
use subscriptions::Subscriptions;

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// Socket.IO 1 and 2, over Engine.IO 3: `/` is connected from the beginning.
    V4,
    /// Socket.IO 3 and 4, over Engine.IO 4.
    V5,
}

/// How far the login has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Login {
    /// Nothing was asked for.
    None,
    /// The broker is looking at credentials.
    Pending,
    /// The client is known.
    Done,
}

/// One client's conversation in Socket.IO.
pub(crate) struct SocketSession {
    options: Arc<SocketOptions>,
    namespaces: Namespaces,
    subscriptions: Subscriptions,
    cold: Option<Box<ColdState>>,
    principal: Option<Arc<str>>,
    /// How far the client has come, once that matters.
    trail: Option<Box<Trail>>,
    /// The node's present life.
    epoch: u64,
    /// Two words, so that the session needs no alignment to sixteen bytes.
    secret: [u64; 2],
    /// When a client that connects to nothing is given up.
    deadline: Time,
    tokens: Token,
    calls: u32,
    asks: u64,
    /// Connects to namespaces so far.
    connects: u32,
    version: Version,
    login: Login,
    /// Whether nobody has vouched for the principal's name.
    anonymous: bool,
    /// Whether the session said itself that it is over.
    over: bool,
}

const _: () = assert!(size_of::<SocketSession>() <= 176, "there may be millions of idle ones");

/// What most sessions need only for moments.
#[derive(Default)]
struct ColdState {
    /// The credentials of the request the session began with.
    credentials: Option<Credentials>,
    /// Whose login is under way, in order.
    logins: VecDeque<LoginFor>,
    /// What namespaces asked to go on with.
    resumes: BTreeMap<u8, Resume>,
    /// Questions to the broker.
    waiting: BTreeMap<Token, Waiting>,
    /// Those among them whose answers may be large.
    large_answers: Vec<Token>,
    /// Open calls, requests and conversations.
    exchanges: BTreeMap<ExchangeKey, ExchangeState>,
    /// Calls that have had their answer, and whose other side has more to say: given up as soon as the broker can
    /// be told.
    answered_calls: Vec<ExchangeKey>,
    /// Questions to the client, by ack id.
    asked: BTreeMap<u64, Asked>,
    /// The packet whose attachments are coming.
    assembly: Option<Assembly>,
    held: HeldMessages,
    /// What subscriptions with deltas were sent last.
    bases: Bases,
}

impl ColdState {
    fn is_empty(&self) -> bool {
        self.credentials.is_none()
            && self.logins.is_empty()
            && self.resumes.is_empty()
            && self.waiting.is_empty()
            && self.large_answers.is_empty()
            && self.exchanges.is_empty()
            && self.answered_calls.is_empty()
            && self.asked.is_empty()
            && self.assembly.is_none()
            && self.held.is_empty()
            && self.bases.is_empty()
    }
}

impl SocketSession {
    /// Begins a conversation.
    pub(crate) fn new(options: Arc<SocketOptions>, opening: &Opening<'_>) -> SocketSession {
        let revision = opening.request.and_then(|request| request.query_value("EIO"));
        let version = if revision == Some("3") { Version::V4 } else { Version::V5 };
        let credentials =
            opening.request.and_then(|request| query::of_request(request, version == Version::V4));
        let cold = credentials
            .is_some()
            .then(|| Box::new(ColdState { credentials, ..ColdState::default() }));
        let secret = opening.ticket.secret;
        SocketSession {
            namespaces: Namespaces::default(),
            subscriptions: Subscriptions::default(),
            cold,
            principal: None,
            anonymous: true,
            trail: None,
            epoch: opening.epoch,
            secret: [(secret >> 64) as u64, secret as u64],
            deadline: opening.now.time + options.connect_timeout,
            options,
            tokens: 0,
            calls: 0,
            asks: 0,
            connects: 0,
            version,
            login: Login::None,
            over: false,
        }
    }

    fn cold(&mut self) -> &mut ColdState {
        self.cold.get_or_insert_default()
    }

    fn secret(&self) -> u128 {
        let [high, low] = self.secret;
        u128::from(high) << 64 | u128::from(low)
    }

    fn token(&mut self) -> Token {
        self.tokens = self.tokens.wrapping_add(1);
        self.tokens
    }

    /// Forgets what is not needed any more.
    fn tidy(&mut self) {
        if self.cold.as_ref().is_some_and(|cold| cold.is_empty()) {
            self.cold = None;
        }
    }

    fn text(&mut self, now: Now, text: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        if self.cold.as_ref().is_some_and(|cold| cold.assembly.is_some()) {
            return Err(packet::bad("text came where an attachment was due"));
        }
        if text.len() > self.options.message_bytes_max {
            return Err(too_large());
        }
        let packet = packet::decode(text, self.options.bounds())?;
        if packet.attachments > 0 {
            // Nothing is gathered for a client that has not come in.
            self.addressee(&packet)?;
            let deadline = now.time + self.options.attachments_timeout;
            self.cold().assembly = Some(Assembly::new(text, packet.attachments, deadline));
            return Ok(());
        }
        self.packet(now, &packet, &[], context)
    }

    fn binary(&mut self, now: Now, bytes: &[u8], context: &mut Context<'_>) -> Result<(), Close> {
        let max = self.options.message_bytes_max;
        let assembly = self.cold.as_mut().and_then(|cold| cold.assembly.as_mut());
        let Some(assembly) = assembly else {
            return Err(packet::bad("an attachment came without its packet"));
        };
        if assembly.bytes() + bytes.len() > max {
            return Err(too_large());
        }
        if !assembly.push(bytes) {
            return Ok(());
        }
        let Some(assembly) = self.cold().assembly.take() else { return Ok(()) };
        let packet = packet::decode(assembly.head(), self.options.bounds())?;
        self.packet(now, &packet, assembly.attachments(), context)
    }

    fn packet(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        attachments: &[Vec<u8>],
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if packet.kind == PacketKind::Connect {
            return self.connect(packet, context);
        }
        let namespace = self.addressee(packet)?;
        match (packet.kind, packet.data) {
            (PacketKind::Event, Some(data)) => {
                let event = Event::new(namespace, packet.ack, data, attachments);
                self.event(now, &event, context)
            }
            (PacketKind::Ack, Some(data)) => {
                self.answered(packet.ack.unwrap_or_default(), data, attachments, context);
                Ok(())
            }
            _ => {
                self.leave_namespace(namespace, context);
                if self.namespaces.iter().next().is_none() {
                    context.commands.take_leave();
                }
                Ok(())
            }
        }
    }

    /// The namespace that a packet is for, if the client may speak there.
    fn addressee(&self, packet: &Packet<'_>) -> Result<u8, Close> {
        let namespace = self.namespaces.find(packet.namespace);
        let standing = namespace.and_then(|number| self.namespaces.get(number));
        let connected = standing.is_some_and(|known| known.standing == Standing::Connected);
        namespace.filter(|_| connected || packet.kind == PacketKind::Disconnect).ok_or_else(|| {
            let reason = "a packet came for a namespace that is not connected";
            Close::new(CloseCode::UnexpectedFrame, reason)
        })
    }
}

/// In the past.
const AT_ONCE: Time = Time::from_nanos(1);

impl Session for SocketSession {
    fn receive(
        &mut self,
        _now: Now,
        _input: &[u8],
        _context: &mut Context<'_>,
    ) -> Result<Progress, Close> {
        Err(CloseCode::UnexpectedFrame.into())
    }

    /// The older protocol connects `/` without being asked.
    fn begin(&mut self, _now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if self.version == Version::V4 {
            self.enter("/", None, None, context);
        }
        Ok(())
    }

    fn takes_messages(&self) -> bool {
        true
    }

    fn message(
        &mut self,
        now: Now,
        message: Incoming<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if message.text {
            self.text(now, message.bytes, context)?;
        } else {
            self.binary(now, message.bytes, context)?;
        }
        self.tidy();
        Ok(())
    }

    fn reply(&mut self, _now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        match reply {
            Reply::LoggedIn { name, anonymous } => self.logged_in(name, anonymous, context),
            Reply::Confirmed(confirm) => self.confirmed(confirm, context),
            Reply::Recovered { token, complete, .. } => self.recovered(token, complete),
            Reply::Reached { home, sequence } => self.reached(home, sequence),
            Reply::Operated { token, result } => {
                self.operated(token, &result, &mut context.output);
            }
            Reply::Joined { key, path, spec } => {
                let spec = spec.to_json();
                self.notice("joined", key, path.as_str(), ("spec", &spec), &mut context.output);
            }
            Reply::Left { key, path, reason } => {
                let reason = quoted(reason.name());
                self.notice("left", key, path.as_str(), ("reason", &reason), &mut context.output);
            }
            Reply::ExchangeEnded { exchange, close } => {
                self.exchange_ended(exchange, &close, &mut context.output);
            }
            // Events have no credit: who serves answers as it likes.
            Reply::ExchangeCredit { .. } => {}
            Reply::Refused { token, close } => {
                close.answered(|close| self.refused(token, close, context))?;
            }
        }
        self.tidy();
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        if let Some(exchange) = delivery.exchange {
            if self.cold_has(exchange.key) {
                self.exchange_message(delivery, output);
                return self.tidy();
            }
            // What is left of an exchange that is over here.
            if exchange.key.side == Side::Caller || !exchange.first {
                return;
            }
        }
        let namespace = self.subscriptions.get(delivery.key).map(|known| known.namespace);
        let standing = namespace.and_then(|number| self.namespaces.get(number));
        match standing.map(|known| known.standing) {
            Some(Standing::Connected) => self.pass_on(delivery, output),
            Some(_) => self.cold().held.keep(delivery),
            None => {}
        }
    }

    fn look_ahead(&self, key: SubscriptionKey) {
        self.subscriptions.expect(key);
    }

    fn deadline(&self) -> Time {
        let Some(cold) = &self.cold else { return self.deadline };
        if !cold.answered_calls.is_empty() {
            return AT_ONCE;
        }
        let assembly = cold.assembly.as_ref();
        assembly.map_or(self.deadline, |assembly| self.deadline.min(assembly.deadline()))
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        self.give_up_answered_calls(context);
        self.tidy();
        let assembly = self.cold.as_ref().and_then(|cold| cold.assembly.as_ref());
        if assembly.is_some_and(|assembly| assembly.deadline() <= now.time) {
            let reason = "the attachments of a packet did not come in time";
            return Err(Close::new(CloseCode::FrameTimeout, reason));
        }
        if self.deadline <= now.time {
            let reason = "the client connected to no namespace in time";
            return Err(Close::new(CloseCode::LoginTimeout, reason));
        }
        Ok(())
    }

    /// A client that hears "disconnected by the server" stays away, so it hears this only if it
    /// should; others see the connection end and come back.
    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if close.code.is_silent() || close.code.reconnects() {
            return;
        }
        self.over = true;
        for known in self.namespaces.iter() {
            if known.standing != Standing::Connected {
                continue;
            }
            let mut problem = Text::event(0, known.name(), None, "problem");
            problem.raw(",{\"event\":\"disconnect\"");
            problem.problem(close);
            problem.raw("}]");
            output.frame(problem.bytes(), true);
            output.frame(Text::new(b'1', known.name(), None).bytes(), true);
        }
    }

    fn unfinished_bytes(&self) -> usize {
        let assembly = self.cold.as_ref().and_then(|cold| cold.assembly.as_ref());
        assembly.map_or(0, Assembly::bytes)
    }

    fn is_established(&self) -> bool {
        self.login == Login::Done
    }
}

impl Drop for SocketSession {
    fn drop(&mut self) {
        self.leave_records();
    }
}

fn too_large() -> Close {
    let reason = "a packet and its attachments are larger than the limit";
    Close::new(CloseCode::FrameTooLarge, reason)
}
