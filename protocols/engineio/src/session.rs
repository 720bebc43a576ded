//! One Engine.IO session: packets on the outside, the session of the protocol inside.
//!
//! ```text
//!            open packet                         probe, upgrade
//!   Fresh ──────────────▶ WebSocket, Base64 ◀──────────────────── Polling ◀─ handshake by a request
//!                            │ no pong, close                        │ no poll, close
//!                            └─▶ end                                 └─▶ end
//! ```
//! Relies on `state` for what is known, and on the duties beside it: this file calls them, and they do not know it.
//! Invariant: what the session inside writes, it writes in a call of `inner`, which knows where it may.

mod carrier;
mod handshake;
mod heart_beat;
mod inner;
mod polling;
mod receive;
mod requests;
mod send;
mod state;
mod takeover;

use tiderace_base::{Close, CloseCode, Now, Time};
use tiderace_wire::{
    Answer, Context, Delivery, Incoming, Output, Progress, Reply, Request, Session,
    SubscriptionKey, Takeover,
};

use crate::answer::Refusal;
use crate::packet::{Packet, PacketType};
use crate::revision::Revision;
use carrier::Carrier;

pub(crate) use state::EngineSession;

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
