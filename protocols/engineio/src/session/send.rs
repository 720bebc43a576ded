//! What this layer writes itself, in whatever form the session's carrier takes.

use base64::Engine;
use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Context, OutQueue, Output, Response};

use super::carrier::Carrier;
use super::state::EngineSession;
use crate::limits::UNFETCHED_BYTES_MAX;
use crate::packet::{BASE64, Data, Packet, PacketType};
use crate::payload::Form;
use crate::revision::Revision;

impl EngineSession {
    /// Sends a packet of text.
    pub(super) fn write(&mut self, kind: PacketType, data: &str, output: &mut Output<'_>) {
        match &mut self.carrier {
            Carrier::Polling(polling) => polling.write(kind, data, output.queue),
            _ => write_text(kind, data, output),
        }
    }

    /// The session inside has written: what stands aside goes out, what stands in the queue counts.
    #[inline]
    pub(super) fn settle(&mut self, output: &mut Output<'_>, mut aside: OutQueue) {
        match &mut self.carrier {
            Carrier::Polling(polling) => polling.note(output.queue),
            Carrier::Base64 if !aside.is_empty() => {
                write_anew(Form::text(self.revision), &aside.take_bytes(), true, output);
            }
            _ => {}
        }
    }

    /// Ends a session whose client asks and asks and fetches nothing.
    pub(super) fn check_pending(&mut self, context: &mut Context<'_>) {
        let Carrier::Polling(polling) = &mut self.carrier else { return };
        if polling.unfetched() > self.options.payload_bytes_max + UNFETCHED_BYTES_MAX {
            polling.take_unfetched();
            let reason = "too much waits for a poll that does not come";
            self.stop(Close::new(CloseCode::SlowConsumer, reason), context);
        }
    }

    /// Ends the session at once, for a fault in this layer.
    pub(super) fn stop(&mut self, close: Close, context: &mut Context<'_>) {
        self.write(PacketType::Close, "", &mut context.output);
        self.respond_script(context);
        context.finish(close);
    }

    /// Answers a script that waits with what has been gathered for it.
    pub(super) fn respond_script(&mut self, context: &mut Context<'_>) {
        if let Carrier::Polling(polling) = &mut self.carrier
            && polling.has_script()
        {
            let headers = vec![
                ("Content-Type", "text/javascript; charset=UTF-8".to_owned()),
                ("Cache-Control", "no-store".to_owned()),
            ];
            context.respond(Response { status: 200, headers, body: polling.payload().into() });
            polling.release();
        }
    }
}

/// Sends a packet of text over a WebSocket.
fn write_text(kind: PacketType, data: &str, output: &mut Output<'_>) {
    let message = [&[kind.digit()], data.as_bytes()].concat();
    output.frame(&message, true);
}

/// Sends over a WebSocket what had been written for other carriers.
pub(super) fn write_anew(form: Form, payload: &[u8], base64: bool, output: &mut Output<'_>) {
    for packet in form.written(payload) {
        write_packet(form.revision(), &packet, base64, output);
    }
}

fn write_packet(revision: Revision, packet: &Packet<'_>, base64: bool, output: &mut Output<'_>) {
    match (&packet.data, revision) {
        (Data::Text(text), _) => write_text(packet.kind, text, output),
        (Data::Binary(bytes), _) if base64 => {
            let mut message = String::from("b");
            if revision == Revision::Three {
                message.push(char::from(packet.kind.digit()));
            }
            BASE64.encode_string(bytes, &mut message);
            output.frame(message.as_bytes(), true);
        }
        (Data::Binary(bytes), Revision::Four) => output.frame(bytes, false),
        (Data::Binary(bytes), Revision::Three) => {
            output.frame(&[&[packet.kind as u8], &**bytes].concat(), false);
        }
    }
}
