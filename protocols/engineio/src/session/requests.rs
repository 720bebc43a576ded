//! Requests of a polling session: the handshake, polls, and packets from the client.
//!
//! Invariant: every request is answered or held, and a session that ends over one leaves no poll
//! without an answer.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{Answer, Context, Intake, Request, Response};

use super::carrier::Carrier;
use super::handshake::handshake;
use super::polling::Polling;
use super::state::EngineSession;
use crate::answer::{Refusal, held, payload_fields, taken};
use crate::options::EngineOptions;
use crate::packet::PacketType;
use crate::payload::{Form, jsonp};

impl EngineSession {
    /// Answers a request.
    pub(super) fn polled(
        &mut self,
        now: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Answer {
        let Carrier::Polling(polling) = &mut self.carrier else {
            return Answer::Respond(Refusal::BadRequest.answer(None, request, &self.options));
        };
        polling.look(context.output.queue);
        if let Some(sid) = polling.take_sid() {
            return Answer::Respond(greet(polling, &sid, request, &self.options));
        }
        let post = request.method == "POST";
        if let Some(close) = polling.closing() {
            if post {
                let reason = Some(&*close.reason);
                return Answer::Respond(Refusal::BadRequest.answer(reason, request, &self.options));
            }
            context.finish(close.clone());
            polling.write_aside(PacketType::Close);
            return Answer::Respond(payload(polling, request, &self.options));
        }
        if post {
            return Answer::Respond(self.posted(now, request, context));
        }
        if polling.held {
            let close = Close::new(
                CloseCode::UnexpectedFrame,
                "a second poll came while the first was waiting for its answer",
            );
            return Answer::Respond(self.refuse(close, request, context));
        }
        if polling.script().is_some() && polling.unfetched() > 0 {
            return Answer::Respond(payload(polling, request, &self.options));
        }
        polling.hold(context.output.queue);
        if polling.has_script() {
            polling.release();
            return Answer::Respond(payload(polling, request, &self.options));
        }
        let jsonp = polling.script().is_some();
        Answer::Hold(held(polling.form, jsonp, request, &self.options))
    }

    /// The client sends packets.
    fn posted(&mut self, now: Now, request: &Request<'_>, context: &mut Context<'_>) -> Response {
        match self.take_payload(now, request, context) {
            Ok(true) => {}
            Ok(false) if context.is_finished() || self.is_closing() => {}
            Ok(false) => {
                if let Carrier::Polling(polling) = &mut self.carrier {
                    polling.hurry(context.output.queue);
                }
                self.respond_script(context);
                context.finish(CloseCode::Done);
            }
            Err(close) => return self.refuse(close, request, context),
        }
        taken(request, &self.options)
    }

    /// Takes the packets of a request in; false if the session ends with one of them.
    fn take_payload(
        &mut self,
        now: Now,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<bool, Close> {
        let Carrier::Polling(polling) = &self.carrier else { return Ok(true) };
        let form = if is_binary(request) { Form::Binary3 } else { Form::text(self.revision) };
        if form.revision() != self.revision {
            let reason =
                "binary payloads belong to EIO=3; with EIO=4 binary data is sent as base64";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        let field;
        let body = match polling.script() {
            Some(_) => {
                field = jsonp::read(request.body)?;
                &*field
            }
            None => request.body,
        };
        let intake = Intake::begin();
        for packet in form.packets(body, self.options.packets_max) {
            intake.check_whole("one request")?;
            if !self.packet(now, &packet?, context)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Ends the session over a request that is not as it must be.
    fn refuse(
        &mut self,
        close: Close,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Response {
        let reason = Some(&*close.reason);
        let refusal = Refusal::BadRequest.answer(reason, request, &self.options);
        self.stop(close, context);
        refusal
    }
}

/// Answers the handshake: the open packet and whatever else there is to say.
fn greet(
    polling: &mut Polling,
    sid: &str,
    request: &Request<'_>,
    options: &EngineOptions,
) -> Response {
    let pending = polling.take_unfetched();
    // As text for every client: it decides by this answer what it is talking to.
    let form = Form::text(polling.form.revision());
    let mut payload = Vec::new();
    form.write(PacketType::Open, &handshake(sid, true, options), &mut payload);
    for packet in polling.form.written(&pending) {
        form.write_packet(&packet, &mut payload);
    }
    payload.drain(..form.skip());
    let body = polling.wrap(payload);
    let mut headers = payload_fields(form, polling.script().is_some(), request, options);
    if let Some(cookie) = &options.cookie {
        let value = format!("{}={sid}; Path=/; HttpOnly; SameSite=Lax", cookie.name);
        headers.push(("Set-Cookie", value));
    }
    Response { status: 200, headers, body: body.into() }
}

/// Answers a poll at once with what waits for it.
fn payload(polling: &mut Polling, request: &Request<'_>, options: &EngineOptions) -> Response {
    let body = polling.payload();
    let headers = payload_fields(polling.form, polling.script().is_some(), request, options);
    Response { status: 200, headers, body: body.into() }
}

fn is_binary(request: &Request<'_>) -> bool {
    let kind = request.text_field("content-type").unwrap_or_default();
    let kind = kind.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/octet-stream")
}
