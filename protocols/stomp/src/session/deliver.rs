//! Messages on their way to the client.
//!
//! Relies on runs and their shared encodings. Invariant: subscribers whose frames are equal byte
//! for byte share one encoding; every other frame is written straight into the write block.

use tiderace_wire::{Delivery, EncodingKey, Framing, Message, Output, SubscriptionKey};

use super::StompSession;
use super::subscription::{AckMode, Hold, Subscription, Waiting};
use crate::destination::{Style, spell_destination, spell_own_temporary};
use crate::encode::{self, Form, Tag};
use crate::header::append_value;
use crate::version::Version;
use tiderace_base::limits::APART_BYTES_MIN;

/// Letters of the protocol's wire forms: whole runs, and heads of frames whose body goes apart.
const WHOLE: u8 = b'S';
const HEAD: u8 = b's';

impl StompSession {
    /// Encodes the messages of one delivery.
    pub(super) fn write_messages(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(subscription) = self.subscription(delivery.key) else {
            return;
        };
        let run = delivery.run.run();
        let (line, is_own) = self.destination_line(subscription, delivery);
        let framing = output.framing;
        let form = Form {
            framing,
            version: self.version,
            prefix: &[],
            destination: &line,
            home: run.home().0,
            redeliveries: delivery.redeliveries,
            update: None,
        };
        let shareable = delivery.redeliveries == 0 && !is_own;
        let is_large = run.len() == 1 && run.bytes_of(0, 1) >= APART_BYTES_MIN;
        let is_auto = subscription.mode == AckMode::Auto;
        if subscription.codec != 0 {
            let lines = subscription.lines();
            let form = Form { prefix: &lines, ..form };
            return self.write_updates(form, shareable, delivery, output);
        }
        if is_auto && shareable && !is_large && delivery.is_whole() {
            let key = form_key(WHOLE, self.version, framing, subscription);
            let write = |out: &mut Vec<u8>| {
                let lines = subscription.lines();
                let form = Form { prefix: &lines, ..form };
                for message in run.messages() {
                    encode::message(&form, &message, None, out);
                }
            };
            if delivery.run.write_encoded(key, output.queue, write) {
                return;
            }
        }
        let lines = subscription.lines();
        let form = Form { prefix: &lines, ..form };
        if !is_auto {
            let first = self.cold.as_ref().map_or(0, |cold| cold.tags) + 1;
            let tags = write_tagged(&form, delivery, first, output);
            self.remember(delivery, tags);
            return;
        }
        if is_large {
            let key = shareable.then(|| form_key(HEAD, self.version, framing, subscription));
            return write_large(&form, key, delivery, output);
        }
        for index in delivery.from..delivery.to {
            if let Some(message) = run.message(index) {
                write(&form, index, &message, None, delivery, output);
            }
        }
    }

    /// The `destination` line where the subscription's own lines do not hold it, and whether only
    /// this session spells it like that.
    fn destination_line(
        &self,
        subscription: &Subscription,
        delivery: &Delivery<'_>,
    ) -> (Vec<u8>, bool) {
        let Some(style) = subscription.style else {
            return (Vec::new(), false);
        };
        let destination = delivery.run.run().destination();
        let own = spell_own_temporary(destination, &self.temporary, style);
        let is_own = own.is_some();
        let text = own.unwrap_or_else(|| spell_destination(destination, style));
        let mut line = b"destination:".to_vec();
        append_value(&mut line, self.version, &text);
        line.push(b'\n');
        (line, is_own)
    }

    /// Notes what the client will have to acknowledge.
    fn remember(&mut self, delivery: &Delivery<'_>, tags: u64) {
        let run = delivery.run.run();
        let cold = self.cold();
        let first = cold.tags + 1;
        cold.tags += tags;
        let Some(subscription) = self.subscriptions.get_mut(delivery.key) else {
            return;
        };
        let unacked = subscription.unacked.get_or_insert_default();
        for (tag, index) in (first..).zip(delivery.from..delivery.to) {
            unacked.entries.push_back(Waiting {
                tag,
                sequence: run.first() + index as u64,
                home: run.home().0,
                hold: Hold::Free,
            });
        }
    }
}

/// Writes messages that are to be acknowledged, tagged from `tag` on; says how many.
fn write_tagged(
    form: &Form<'_>,
    delivery: &Delivery<'_>,
    tag: u64,
    output: &mut Output<'_>,
) -> u64 {
    let SubscriptionKey(key) = delivery.key;
    let mut number = tag;
    for index in delivery.from..delivery.to {
        if let Some(message) = delivery.run.run().message(index) {
            write(form, index, &message, Some(Tag { key, number }), delivery, output);
        }
        number += 1;
    }
    number - tag
}

/// Writes one message for this client alone.
pub(super) fn write(
    form: &Form<'_>,
    index: usize,
    message: &Message<'_>,
    tag: Option<Tag>,
    delivery: &Delivery<'_>,
    output: &mut Output<'_>,
) {
    if message.body.len() < APART_BYTES_MIN {
        return encode::message(form, message, tag, output.queue.tail());
    }
    let text = is_text(form.framing, message.body);
    encode::framed_head(form, message, tag, text, output.queue.tail());
    share_body(index, delivery, output);
}

/// Writes a single large message: its head is made once per wire form, its body never copied.
fn write_large(
    form: &Form<'_>,
    key: Option<EncodingKey<'_>>,
    delivery: &Delivery<'_>,
    output: &mut Output<'_>,
) {
    let Some(message) = delivery.run.run().message(0) else { return };
    let head = |out: &mut Vec<u8>| {
        // The body, for which room was made, goes apart.
        *out = Vec::new();
        let text = is_text(form.framing, message.body);
        encode::framed_head(form, &message, None, text, out);
    };
    if key.is_some_and(|key| delivery.run.write_encoded(key, output.queue, head)) {
        share_body(0, delivery, output);
    } else {
        write(form, 0, &message, None, delivery, output);
    }
}

fn share_body(index: usize, delivery: &Delivery<'_>, output: &mut Output<'_>) {
    if let Some(body) = delivery.run.body_bytes(index) {
        output.queue.share(body);
    }
    output.queue.tail().push(0);
}

/// Only message framings ask.
fn is_text(framing: Framing, body: &[u8]) -> bool {
    framing.is_message() && simdutf8::basic::from_utf8(body).is_ok()
}

/// Names a wire form of a subscription's messages.
pub(super) fn form_key(
    letter: u8,
    version: Version,
    framing: Framing,
    subscription: &Subscription,
) -> EncodingKey<'_> {
    let style = match subscription.style {
        None => 0,
        Some(Style::Dots) => 1,
        Some(Style::Slashes) => 2,
    };
    EncodingKey {
        form: EncodingKey::form(letter, version.class() | style << 4, framing.id()),
        variant: subscription.variant(),
    }
}
