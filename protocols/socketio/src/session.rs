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
//! Relies on `packet` for what may come, on `state` for what is known, and on the duties beside it for what
//! packets mean: this file calls them, and they do not know it. Invariants:
//! attachments follow their packet with nothing in between; an answer goes to the event that asked
//! for it; what is rarely used costs eight bytes.

mod answer;
mod assembly;
mod connect;
mod deliver;
mod deltas;
mod durable;
mod event;
mod exchange;
mod exchanges;
mod held;
mod namespace;
mod operate;
mod publish;
mod questions;
mod recover;
mod room;
mod state;
mod subscribe;
mod subscriptions;
mod trail;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Confirm, Context, Delivery, Incoming, Kind, Numbering, Output, Progress, Reply, Session, Side,
    SubscriptionKey, Token, shown,
};

use crate::packet::{self, Packet, PacketKind};
use crate::write::Text;
use answer::Made;
use assembly::Assembly;
use event::Event;
use namespace::{Namespace, Standing};
use questions::{Waiting, What};
use state::{Login, Version};
use subscriptions::Listening;

pub(crate) use state::SocketSession;
pub(crate) use subscriptions::Subscription;

impl SocketSession {
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

    /// A mistake in an event costs its answer, never the connection.
    fn event(
        &mut self,
        now: Now,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let main = self.namespaces.get(event.namespace).is_some_and(Namespace::is_main);
        let result = if main {
            self.main_event(now, event, context)
        } else {
            self.room_event(event, context)
        };
        result.or_else(|close| {
            let name = shown(&event.name).into_owned();
            let (namespace, ack) = (event.namespace, event.ack);
            close.answered(|close| self.fail(namespace, ack, &name, close, &mut context.output))
        })
    }

    fn main_event(
        &mut self,
        now: Now,
        event: &Event<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        match &*event.name {
            "publish" => self.publish(now, event, "publish", Kind::Topic, context),
            "send" => self.publish(now, event, "send", Kind::Queue, context),
            "subscribe" => self.subscribe(event, context),
            "unsubscribe" => self.stop_listening(event, "unsubscribe", Listening::Topic, context),
            "receive" => self.consume(event, "receive", Listening::Queue, context),
            "cancel" => self.stop_listening(event, "cancel", Listening::Queue, context),
            "serve" => self.consume(event, "serve", Listening::Service, context),
            "unserve" => self.stop_listening(event, "unserve", Listening::Service, context),
            "call" => self.call(event, true, context),
            "open" => self.call(event, false, context),
            "say" => self.say(event, context),
            "end" => self.end(event, context),
            "operate" => self.operate(now, event, context),
            "login" => self.login_again(event, context),
            _ => {
                let reason = format!("`{}` is no event of the server", shown(&event.name));
                Err(Close::new(CloseCode::UnexpectedFrame, reason))
            }
        }
    }

    /// Questions are answered: it was done.
    fn confirmed(&mut self, confirm: Confirm, context: &mut Context<'_>) {
        while let Some(waiting) = self.cold.as_mut().and_then(|cold| cold.questions.take(confirm)) {
            let Waiting { namespace, ack, what, complete, .. } = waiting;
            match what {
                What::Plain => self.succeed(namespace, ack, None, &mut context.output),
                What::Consume(_) | What::Over => {}
                What::Listen(key) => {
                    let made = Some(Made { id: key.0.into(), recovered: complete });
                    self.succeed(namespace, ack, made, &mut context.output);
                }
                What::Join(_) => self.connected(namespace, context),
                What::Restore(_) => {
                    if let Some(complete) = self.restored(namespace, true) {
                        self.go_on(namespace, complete, context);
                    }
                }
            }
        }
    }

    /// Something was refused: a question, a login, or a message for whose answer nobody asked.
    fn refused(&mut self, token: Option<Token>, close: &Close, context: &mut Context<'_>) {
        let logins = self.cold.as_ref().is_some_and(|cold| !cold.logins.is_empty());
        if token.is_none() && close.code.refuses_login() && logins {
            return self.login_refused(close, context);
        }
        let waiting = token.zip(self.cold.as_mut()).and_then(|(token, cold)| {
            cold.questions.end_large(token);
            cold.questions.take(Confirm::one(token))
        });
        let Some(mut waiting) = waiting else {
            return self.fail(0, None, "publish", close, &mut context.output);
        };
        if let What::Consume(key) = waiting.what
            && let Some(asked) = self.end_refused(key, context)
        {
            waiting = asked;
        }
        let Waiting { namespace, ack, event, what, .. } = waiting;
        match what {
            What::Over => return,
            What::Plain | What::Consume(_) => {}
            What::Listen(key) => {
                let known = self.subscriptions.get(key);
                match known.is_some_and(|known| known.durable().is_some()) {
                    true => drop(self.end_refused(key, context)),
                    false => drop(self.subscriptions.remove(key)),
                }
            }
            What::Join(key) => {
                self.subscriptions.remove(key);
                return self.refuse_namespace(namespace, close, &mut context.output);
            }
            What::Restore(key) => {
                self.subscriptions.remove(key);
                if let Some(complete) = self.restored(namespace, false) {
                    self.go_on(namespace, complete, context);
                }
                return;
            }
        }
        self.fail(namespace, ack, event, close, &mut context.output);
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
            Reply::LoggedIn { name, anonymous, .. } => self.logged_in(name, anonymous, context),
            Reply::Confirmed(confirm) => self.confirmed(confirm, context),
            Reply::Recovered { token, complete, .. } => self.recovered(token, complete),
            Reply::Reached { home, sequence } => {
                self.reached(Numbering::new(self.epoch, home), sequence)
            }
            Reply::ReachedUpstream { numbering, sequence } => {
                self.reached(numbering, sequence);
            }
            Reply::Upstream(_) => {}
            Reply::Operated { token, result } => {
                self.operated(token, &result, &mut context.output);
            }
            Reply::Joined { key, path, spec, .. } => {
                let spec = spec.to_json();
                self.joined(key, path.as_str(), &spec, &mut context.output);
            }
            Reply::Left { key, path, reason } => {
                self.left(key, path.as_str(), reason.name(), &mut context.output);
            }
            Reply::ExchangeEnded { exchange, close } => {
                self.exchange_ended(exchange, &close, &mut context.output);
            }
            // Events have no credit: who serves answers as it likes.
            Reply::ExchangeCredit { .. } => {}
            Reply::Browsed { key } => self.browsed(key, &mut context.output),
            Reply::SubscriptionEnded { key, close } => {
                close.answered(|close| self.subscription_ended(key, close, context))?;
            }
            Reply::Refused { token, close } => {
                close.answered(|close| self.refused(token, close, context))?;
            }
        }
        self.tidy();
        Ok(())
    }

    fn deliver(&mut self, _now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        if let Some(exchange) = delivery.exchange {
            if self.cold.as_ref().is_some_and(|cold| cold.exchanges.has(exchange.key)) {
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
        if cold.exchanges.has_answered() {
            return AT_ONCE;
        }
        let assembly = cold.assembly.as_ref();
        assembly.map_or(self.deadline, |assembly| self.deadline.min(assembly.deadline()))
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if let Some(cold) = &mut self.cold {
            cold.exchanges.give_up_answered(context.commands);
        }
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
    /// should; others see the connection end and come back. That they are sent elsewhere they are told.
    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        let comes_back = close.code.reconnects();
        if close.code.is_silent() || comes_back && !close.code.sends_elsewhere() {
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
            if !comes_back {
                output.frame(Text::new(b'1', known.name(), None).bytes(), true);
            }
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
