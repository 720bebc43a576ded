//! MESSAGE frames: how one is written, and by which key its encoding is shared.
//!
//! Relies on `encode` for the bytes. Invariant: a large body is never copied.

use tiderace_base::limits::{APART_BYTES_MIN, COPIED_BODY_BYTES_MAX};
use tiderace_wire::{Delivery, EncodingKey, Framing, Message, Output, SubscriptionKey};

use super::subscription::Subscription;
use crate::destination::Style;
use crate::encode::{self, Form, Tag};
use crate::version::Version;

/// Writes messages that are to be acknowledged, tagged from `tag` on; says how many.
pub(super) fn write_tagged(
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
#[inline]
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
pub(super) fn write_large(
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

/// Only message framings ask. What is longer than most texts is not looked through for every subscriber.
fn is_text(framing: Framing, body: &[u8]) -> bool {
    framing.is_message()
        && body.len() <= COPIED_BODY_BYTES_MAX
        && simdutf8::basic::from_utf8(body).is_ok()
}

/// Names a wire form of a subscription's messages.
#[inline]
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
