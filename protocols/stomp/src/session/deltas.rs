//! Updates as differences, for subscriptions that ask for them by the header `deltas`.
//!
//! Relies on the run, which makes a difference once for all sessions, and on versions that count a
//! topic's messages without gaps. Invariants: a difference is to the body that this client got last
//! for that topic; each message says its version, and how its body is to be read.

use tiderace_base::Close;
use tiderace_delta::{Codec, NAMES};
use tiderace_wire::{Delivery, Deltas, EncodingKey, Message, Output, Target};

use super::message::{form_key, write};
use super::request::Request;
use super::state::StompSession;
use super::subscription::{AckMode, Subscription};
use crate::destination::is_topic;
use crate::encode::{self, Form, Update};
use crate::error::{bad_header, shown};

/// The letter of wire forms whose bodies are differences.
const LETTER: u8 = b'd';

impl StompSession {
    /// The codec of a SUBSCRIBE: the first of those it lists that the server offers; 0 for none, as
    /// values are sent whole then.
    pub(super) fn delta_codec(
        &self,
        request: &Request<'_>,
        mode: AckMode,
        targets: &[Target],
    ) -> Result<u8, Close> {
        let Some(text) = request.find("deltas")? else { return Ok(0) };
        let mut codec = 0;
        for name in text.split(',').map(str::trim) {
            if !NAMES.contains(&name) {
                let text = format_args!(
                    "`deltas:{}` names no codec. Use {}, or several joined by commas.",
                    shown(text.as_bytes()),
                    NAMES.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or "),
                );
                return Err(bad_header(request.command, text));
            }
            if let Some(found) = self.options.deltas.named(name).filter(|_| codec == 0) {
                codec = found.number;
            }
        }
        if mode != AckMode::Auto || !targets.iter().all(is_topic) {
            let text = format_args!(
                "`deltas` is for topics with `ack:auto`. Leave it out, or subscribe to such."
            );
            return Err(bad_header(request.command, text));
        }
        Ok(codec)
    }

    /// Encodes the messages of a delivery, by differences where this client can use them. The lines
    /// of the subscription stand in the form.
    pub(super) fn write_updates(
        &mut self,
        form: Form<'_>,
        shareable: bool,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        let run = delivery.run.run();
        let is_next = self.cold().bases.get_or_insert_default().advance(delivery);
        let options = self.options.clone();
        let Some(subscription) = self.subscription(delivery.key) else { return };
        let Some(codec) = options.deltas.numbered(subscription.codec.into()) else { return };
        let most = options.deltas.bytes_max;
        let deltas = delivery.deltas(codec.number, codec.encode, most, is_next);
        let updates = Updates { form, codec, deltas, delivery };
        // One encoding for all who had the value before; bodies that go apart would not fit into it.
        let all = (delivery.from..delivery.to).all(|index| updates.delta(index).is_some());
        if shareable && all && delivery.is_whole() {
            let key = updates.key(subscription);
            let write = |out: &mut Vec<u8>| {
                for index in delivery.from..delivery.to {
                    updates.append_delta(index, out);
                }
            };
            if delivery.run.write_encoded(key, output.queue, write) {
                return;
            }
        }
        for index in delivery.from..delivery.to {
            if updates.append_delta(index, output.queue.tail()) {
                continue;
            }
            let Some(message) = run.message(index) else { continue };
            let version = run.version() + index as u64;
            let form = Form { update: Some(Update { version, codec: None }), ..updates.form };
            write(&form, index, &message, None, delivery, output);
        }
    }
}

/// The updates of one delivery.
struct Updates<'a> {
    form: Form<'a>,
    codec: &'static Codec,
    deltas: Deltas,
    delivery: &'a Delivery<'a>,
}

impl Updates<'_> {
    /// The difference of a message, where there is one.
    fn delta(&self, index: usize) -> Option<&[u8]> {
        self.deltas.of(index)
    }

    /// Appends a message as a difference; says whether there is one.
    fn append_delta(&self, index: usize, out: &mut Vec<u8>) -> bool {
        let run = self.delivery.run.run();
        let (Some(body), Some(message)) = (self.delta(index), run.message(index)) else {
            return false;
        };
        let version = run.version() + index as u64;
        let update = Some(Update { version, codec: Some(self.codec.name) });
        encode::message(&Form { update, ..self.form }, &Message { body, ..message }, None, out);
        true
    }

    fn key<'a>(&self, subscription: &'a Subscription) -> EncodingKey<'a> {
        let mut key = form_key(LETTER, self.form.version, self.form.framing, subscription);
        // Above the version's and the style's bits.
        key.form |= u32::from(self.codec.number) << 24;
        key
    }
}
