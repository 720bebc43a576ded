//! Values as differences, for subscriptions that ask for them by the option `deltas`.
//!
//! A client cannot apply a difference to a value that it has parsed, so such subscriptions get bytes
//! throughout: each value is a Buffer with the body or, as `delta` says, with a difference to the
//! body before. Relies on the run, which makes a difference once for all sessions. Invariant: a
//! difference is to the body that this client got last for that topic.

use tiderace_base::Close;
use tiderace_delta::NAMES;
use tiderace_value::Json;
use tiderace_wire::{Delivery, Deltas, Flags, Output, SubscriptionKey, properties};

use super::event::Event;
use super::state::SocketSession;
use super::trail::Trail;
use crate::body::Shown;
use crate::write::Text;

impl SocketSession {
    /// The codec that the option `deltas` names; 0 if the server does not offer it.
    pub(super) fn delta_codec(
        &self,
        event: &Event<'_>,
        options: Json<'_>,
    ) -> Result<Option<u8>, Close> {
        let Some(value) = options.field("deltas").filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        let name = value.as_text().filter(|name| NAMES.contains(&&**name)).ok_or_else(|| {
            event.wrong(&format!("its option `deltas` is one of `{}`", NAMES.join("`, `")))
        })?;
        Ok(Some(self.options.deltas.named(&name).map_or(0, |codec| codec.number)))
    }

    /// The codec of a subscription's values, if these come as bytes.
    pub(super) fn codec_of(&self, key: SubscriptionKey) -> Option<u8> {
        self.subscriptions.get(key)?.choices.as_ref()?.codec
    }

    /// Encodes the messages of one delivery as bytes, by differences where the client can use them.
    pub(super) fn topic_as_bytes(
        &mut self,
        codec: u8,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let is_next = self.cold().bases.advance(delivery);
        let offer = &self.options.deltas;
        let codec = offer.numbered(codec.into());
        let deltas = codec.map_or_else(Deltas::default, |codec| {
            delivery.deltas(codec.number, codec.encode, offer.bytes_max, is_next)
        });
        let Some(known) = self.subscriptions.get(delivery.key) else { return };
        let namespace = self.namespaces.name(known.namespace);
        let run = delivery.run.run();
        let mut trail = None;
        if known.recoverable {
            let known = self.trail.take().unwrap_or_else(|| Trail::new(self.epoch));
            let trail = trail.insert(known);
            trail.begin_with(delivery);
        }
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { continue };
            let delta = deltas.of(index);
            let shown = Shown::Binary(delta.unwrap_or(message.body));
            let mut text = Text::event(1, namespace, None, "message");
            text.raw(",");
            text.text(run.destination().path.as_str());
            text.raw(",");
            text.value(&shown);
            text.raw(",{\"version\":");
            text.number(run.version() + index as u64);
            if let Some(version) = run.follows_at(index) {
                text.raw(",\"follows\":");
                text.number(version);
            }
            if let Some(codec) = codec.filter(|_| delta.is_some()) {
                text.raw(",\"delta\":");
                text.text(codec.name);
            }
            if message.flags.contains(Flags::RETAIN) {
                text.raw(",\"retained\":true");
            }
            if message.flags.contains(Flags::RETAIN_REMOVE) {
                text.raw(",\"removed\":true");
            }
            // Elsewhere the kind of value shows it.
            if let Some(kind) = properties::find(message.properties, "content-type") {
                text.raw(",\"content-type\":");
                text.text(&kind);
            }
            text.properties(
                message.properties,
                &["version", "follows", "delta", "retained", "removed"],
            );
            text.raw("}");
            if let Some(trail) = &mut trail {
                trail.position.advance(run.home(), message.sequence.min(delivery.reached));
                text.raw(&format!(",\"{}\"", trail.position.encode()));
            }
            text.raw("]");
            text.write(shown.attachments(), output.framing, output.queue.tail());
        }
        if let Some(mut trail) = trail {
            trail.reach(delivery);
            self.trail = Some(trail);
        }
    }
}
