//! One Engine.IO session: packets on the outside, the session of the protocol inside.
//!
//! ```text
//!            open packet                         probe, upgrade
//!   Fresh ──────────────▶ WebSocket, Base64 ◀──────────────────── Polling ◀─ handshake by a request
//!                            │ no pong, close                        │ no poll, close
//!                            └─▶ end                                 └─▶ end
//! ```
//! The session inside is called with an output of its own: the connection's queue with the framing of
//! message packets where they can go out, or a queue kept aside while no request is held. Invariant:
//! bytes are in the connection's queue only if they are in the form of what carries the session now.

mod heart_beat;
mod polling;
mod requests;
mod send;
mod takeover;

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Answer, Context, Delivery, Framing, Incoming, Intake, Open, Opening, OutQueue, Output,
    Progress, Reply, Request, Session, SubscriptionKey, Takeover,
};

use crate::answer::Refusal;
use crate::packet::{Packet, PacketType};
use crate::payload::Form;
use crate::{EngineOptions, Revision, framing};

use polling::Polling;

/// A session.
pub(crate) struct EngineSession {
    inner: Box<dyn Session>,
    options: Arc<EngineOptions>,
    /// Of its ticket; as bytes, which need no alignment.
    secret: [u8; 16],
    /// When the next heartbeat is due, ours or the client's.
    due: Time,
    carrier: Carrier,
    revision: Revision,
    /// A ping has been sent and not been answered.
    pinged: bool,
}

const _: () = assert!(size_of::<EngineSession>() <= 72, "idle sessions are many");

/// What carries the session.
enum Carrier {
    /// A WebSocket that has not been greeted.
    Fresh(Box<Fresh>),
    /// A WebSocket.
    WebSocket,
    /// A WebSocket of a client that wants binary data as base64 in text.
    Base64,
    /// Requests.
    Polling(Polling),
}

/// What is needed until the open packet is sent.
struct Fresh {
    handshake: String,
    base64: bool,
}

impl EngineSession {
    pub(crate) fn new(
        options: Arc<EngineOptions>,
        opening: &Opening<'_>,
        inner: &Open,
    ) -> EngineSession {
        let query = |name| opening.request.and_then(|request| request.query_value(name));
        let revision = Revision::of(query("EIO"), &options).unwrap_or(Revision::Four);
        let sid = opening.ticket.encode();
        let base64 = query("b64").is_some_and(|value| !matches!(value, "" | "0" | "false"));
        let (carrier, framing) = if query("transport") == Some("polling") {
            let jsonp = query("j").filter(|_| revision == Revision::Three);
            let jsonp = jsonp.map(|index| index.parse().unwrap_or(0));
            let form = match revision {
                Revision::Four => Form::Text4,
                Revision::Three if base64 || jsonp.is_some() => Form::Text3,
                Revision::Three => Form::Binary3,
            };
            let polling = Polling::new(form, jsonp, base64, sid);
            (Carrier::Polling(polling), Framing::Messages(form.framing()))
        } else {
            let handshake = handshake(&sid, false, &options);
            let fresh = Fresh { handshake, base64 };
            (Carrier::Fresh(Box::new(fresh)), framing::packets(opening.framing, revision))
        };
        let inner = inner(&Opening { framing, subprotocol: None, ..*opening });
        let timeout = match revision {
            Revision::Four => options.ping_interval,
            Revision::Three => options.ping_interval + options.ping_timeout,
        };
        let secret = opening.ticket.secret.to_le_bytes();
        let due = opening.now.time + timeout;
        EngineSession { inner, options, secret, due, carrier, revision, pinged: false }
    }

    /// Calls the session inside and does what follows from it.
    fn call_inner(
        &mut self,
        now: Now,
        context: &mut Context<'_>,
        call: impl FnOnce(&mut dyn Session, &mut Context<'_>) -> Result<(), Close>,
    ) {
        let mut aside = OutQueue::new();
        let place = place(&mut self.carrier, self.revision, &mut context.output, &mut aside);
        let mut within = Context::new(context.commands, place);
        within.reading_paused = context.reading_paused;
        let result = call(&mut *self.inner, &mut within);
        let finished = within.actions.take_finish();
        self.settle(&mut context.output, aside);
        match (result, finished) {
            (Err(close), _) => self.end_inner(now, &close, true, context),
            (Ok(()), Some(close)) => self.end_inner(now, &close, false, context),
            (Ok(()), None) => self.check_pending(context),
        }
        self.respond_script(context);
    }

    /// Calls the session inside for what it writes.
    fn write_inner(
        &mut self,
        output: &mut Output<'_>,
        call: impl FnOnce(&mut dyn Session, &mut Output<'_>),
    ) {
        let mut aside = OutQueue::new();
        let mut place = place(&mut self.carrier, self.revision, output, &mut aside);
        call(&mut *self.inner, &mut place);
        self.settle(output, aside);
    }

    /// The session inside has ended: its last words are waited for if a poll is to fetch them.
    fn end_inner(&mut self, now: Now, close: &Close, has_words: bool, context: &mut Context<'_>) {
        if has_words {
            self.write_inner(&mut context.output, |inner, output| inner.goodbye(close, output));
        }
        if let Carrier::Polling(polling) = &mut self.carrier
            && polling.waits_to_close(now, close, context, &self.options)
        {
            return;
        }
        self.write(PacketType::Close, "", &mut context.output);
        self.respond_script(context);
        context.finish(close.clone());
    }

    /// Ends the session at once, for a fault in this layer.
    fn stop(&mut self, close: Close, context: &mut Context<'_>) {
        self.write(PacketType::Close, "", &mut context.output);
        self.respond_script(context);
        context.finish(close);
    }

    /// Takes a packet in; false if nothing more is to be taken in.
    fn packet(
        &mut self,
        now: Now,
        packet: &Packet<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Close> {
        match packet.kind {
            PacketType::Message => {
                let (bytes, text) = packet.data.bytes();
                let message = Incoming { text, bytes };
                self.call_inner(now, context, |inner, within| give(inner, now, message, within));
            }
            PacketType::Ping => self.pinged(now, packet, context)?,
            PacketType::Pong => self.ponged(now)?,
            PacketType::Close => {
                context.commands.take_leave();
                return Ok(false);
            }
            PacketType::Noop => {}
            PacketType::Open | PacketType::Upgrade => {
                let reason = "this packet is not a client's to send here";
                return Err(Close::new(CloseCode::UnexpectedFrame, reason));
            }
        }
        Ok(!context.is_finished() && !self.is_closing())
    }

    fn is_closing(&self) -> bool {
        matches!(&self.carrier, Carrier::Polling(polling) if polling.closing().is_some())
    }
}

/// Gives a message to the session inside. A packet cannot be kept half taken in, so where that session would go on in
/// the next turn it goes on at once, as far as what it takes is not dear.
fn give(
    inner: &mut dyn Session,
    now: Now,
    message: Incoming<'_>,
    within: &mut Context<'_>,
) -> Result<(), Close> {
    let intake = Intake::begin();
    let mut rest = message.bytes;
    loop {
        inner.message(now, Incoming { text: message.text, bytes: rest }, within)?;
        match within.actions.take_yield() {
            Some(taken) if taken > 0 && !within.is_finished() => {
                rest = rest.get(taken..).unwrap_or_default();
            }
            _ => return Ok(()),
        }
        intake.check_whole("one packet")?;
    }
}

/// Where the session inside writes, and how its frames are marked there.
fn place<'a>(
    carrier: &'a mut Carrier,
    revision: Revision,
    output: &'a mut Output<'_>,
    aside: &'a mut OutQueue,
) -> Output<'a> {
    let framing = output.framing;
    match carrier {
        Carrier::Fresh(_) | Carrier::WebSocket => {
            Output { framing: framing::packets(framing, revision), queue: output.queue }
        }
        Carrier::Base64 => {
            Output { framing: Framing::Messages(text_form(revision).framing()), queue: aside }
        }
        Carrier::Polling(polling) => polling.output(output.queue),
    }
}

/// The form that any client of the revision understands.
fn text_form(revision: Revision) -> Form {
    match revision {
        Revision::Four => Form::Text4,
        Revision::Three => Form::Text3,
    }
}

/// The open packet's data. Spans are in milliseconds.
fn handshake(sid: &str, polling: bool, options: &EngineOptions) -> String {
    let upgrades =
        if polling && options.upgrades && options.websocket { r#"["websocket"]"# } else { "[]" };
    format!(
        r#"{{"sid":"{sid}","upgrades":{upgrades},"pingInterval":{},"pingTimeout":{},"maxPayload":{}}}"#,
        options.ping_interval.as_millis(),
        options.ping_timeout.as_millis(),
        options.payload_bytes_max,
    )
}

impl Session for EngineSession {
    fn begin(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if let Carrier::Fresh(fresh) = &mut self.carrier {
            let handshake = std::mem::take(&mut fresh.handshake);
            let carrier = if fresh.base64 { Carrier::Base64 } else { Carrier::WebSocket };
            self.carrier = carrier;
            self.write(PacketType::Open, &handshake, &mut context.output);
        }
        self.call_inner(now, context, |inner, within| inner.begin(now, within));
        Ok(())
    }

    fn receive(&mut self, _: Now, _: &[u8], _: &mut Context<'_>) -> Result<Progress, Close> {
        Err(CloseCode::UnexpectedFrame.into())
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
        if message.bytes.len() > self.options.payload_bytes_max {
            let reason = "a message is larger than maxPayload allows";
            return Err(Close::new(CloseCode::FrameTooLarge, reason));
        }
        let packet = if message.text {
            let text = std::str::from_utf8(message.bytes).map_err(|_| CloseCode::BadText)?;
            Packet::decode_text(self.revision, text)?
        } else {
            Packet::decode_binary(self.revision, message.bytes)?
        };
        let goes_on = self.packet(now, &packet, context)?;
        if !goes_on && !context.is_finished() {
            context.finish(CloseCode::Done);
        }
        Ok(())
    }

    fn request(
        &mut self,
        now: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<Answer, Close> {
        let revision = Revision::of(request.query_value("EIO"), &self.options);
        if revision != Some(self.revision) || !matches!(self.carrier, Carrier::Polling(_)) {
            let reason = "the session is carried otherwise, or of another revision";
            let refusal = Refusal::BadRequest.answer(Some(reason), request, &self.options);
            return Ok(Answer::Respond(refusal));
        }
        Ok(self.polled(now, request, context))
    }

    fn abandoned(&mut self, _: Now, _: &mut Context<'_>) -> Result<(), Close> {
        if let Carrier::Polling(polling) = &mut self.carrier {
            polling.release();
        }
        Err(CloseCode::PeerGone.into())
    }

    fn takeover(
        &mut self,
        now: Now,
        takeover: Takeover,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        self.taken_over(now, takeover, context)
    }

    fn secret(&self) -> Option<u128> {
        Some(u128::from_le_bytes(self.secret))
    }

    fn reply(&mut self, now: Now, reply: Reply, context: &mut Context<'_>) -> Result<(), Close> {
        if !self.is_closing() {
            self.call_inner(now, context, |inner, within| inner.reply(now, reply, within));
        }
        Ok(())
    }

    fn deliver(&mut self, now: Now, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        self.write_inner(output, |inner, output| inner.deliver(now, delivery, output));
    }

    fn wants_deliveries(&self) -> bool {
        match &self.carrier {
            Carrier::Polling(polling) if !polling.has_room() => false,
            _ => self.inner.wants_deliveries(),
        }
    }

    fn look_ahead(&self, key: SubscriptionKey) {
        self.inner.look_ahead(key);
    }

    fn flush(&mut self, now: Now, output: &mut Output<'_>) {
        self.write_inner(output, |inner, output| inner.flush(now, output));
        if let Carrier::Polling(polling) = &mut self.carrier {
            polling.write_script(output.queue);
        }
    }

    fn wants_write(&self) -> bool {
        self.inner.wants_write()
    }

    fn poll_write(&mut self, bytes_max: usize, output: &mut Output<'_>) -> bool {
        // What polls have no room for yet would be overtaken.
        if !self.wants_deliveries() {
            return false;
        }
        let mut more = false;
        self.write_inner(output, |inner, output| more = inner.poll_write(bytes_max, output));
        if let Carrier::Polling(polling) = &mut self.carrier {
            polling.write_script(output.queue);
        }
        more
    }

    fn deadline(&self) -> Time {
        match &self.carrier {
            Carrier::Polling(polling) => match polling.closing() {
                Some(_) => polling.by(),
                None => polling.by().min(self.due).min(self.inner.deadline()),
            },
            _ => self.due.min(self.inner.deadline()),
        }
    }

    fn expire(&mut self, now: Now, context: &mut Context<'_>) -> Result<(), Close> {
        if let Carrier::Polling(polling) = &mut self.carrier
            && polling.expire(now, context)
        {
            return Ok(());
        }
        self.beat(now, context)?;
        if self.inner.deadline() <= now.time {
            self.call_inner(now, context, |inner, within| inner.expire(now, within));
        }
        Ok(())
    }

    fn goodbye(&mut self, close: &Close, output: &mut Output<'_>) {
        if self.is_closing() {
            return;
        }
        self.write_inner(output, |inner, output| inner.goodbye(close, output));
        self.write(PacketType::Close, "", output);
        if let Carrier::Polling(polling) = &mut self.carrier {
            polling.write_script(output.queue);
        }
    }

    fn unfinished_bytes(&self) -> usize {
        self.inner.unfinished_bytes()
    }

    fn is_established(&self) -> bool {
        self.inner.is_established()
    }
}
