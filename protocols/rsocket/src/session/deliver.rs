//! Messages of topics and queues on their way out: the hot path.
//!
//! Relies on the broker for credit. Invariants: nothing is allocated per message, but for what goes out
//! by reference and for metadata that was asked for; a message is one item.

use tiderace_wire::{Delivery, Deltas, Flags, Message, Output};

use super::describe::{MESSAGE_MIME, PROPERTIES_MIME};
use super::state::RSocketSession;
use super::streams::{Form, Slot, Stream};
use crate::frame::{Frame, Payload};
use crate::metadata::{Mime, write_entry};
use tiderace_base::limits::APART_BYTES_MIN;

impl RSocketSession {
    /// Messages of a subscription.
    #[inline]
    pub(super) fn deliver_messages(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(slot) = self.streams.by_key(delivery.key) else { return };
        let run = delivery.run.run();
        if !slot.form.is_plain() {
            return self.deliver_described(slot, delivery, output);
        }
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { break };
            self.deliver_one(slot.stream, None, &message, index, delivery, output);
        }
    }

    #[inline]
    fn deliver_one(
        &mut self,
        stream: u32,
        metadata: Option<&[u8]>,
        message: &Message<'_>,
        index: usize,
        delivery: &Delivery<'_>,
        output: &mut Output<'_>,
    ) {
        if message.body.len() < APART_BYTES_MIN {
            let payload = Payload { metadata, data: message.body };
            return self.writer.send(Frame::item(stream, payload, false), output);
        }
        let data = delivery.run.body_bytes(index).unwrap_or_default();
        self.writer.shared_item(stream, metadata, data, false, output);
    }

    /// Messages that say what they are, or that are settled one by one.
    fn deliver_described(&mut self, slot: Slot, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let run = delivery.run.run();
        let Slot { stream, form } = slot;
        if form.has(Form::EXPLICIT)
            && let Some(Stream::Consuming(consumer)) = self.streams.get_mut(stream)
        {
            let first = run.first() + delivery.from as u64;
            consumer.sent(run.home(), first, delivery.to - delivery.from);
        }
        let (deltas, codec) = self.deltas(form, delivery);
        let mut metadata = Vec::new();
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { break };
            let delta = deltas.of(index);
            metadata.clear();
            self.write_metadata(form, delivery, index, &message, delta.and(codec), &mut metadata);
            let metadata = (!metadata.is_empty()).then_some(metadata.as_slice());
            match delta {
                Some(data) => {
                    let payload = Payload { metadata, data };
                    self.writer.send(Frame::item(stream, payload, false), output);
                }
                None => self.deliver_one(stream, metadata, &message, index, delivery, output),
            }
        }
    }

    /// What may be sent as deltas, and by which codec.
    fn deltas(&mut self, form: Form, delivery: &Delivery<'_>) -> (Deltas, Option<&'static str>) {
        if !form.has(Form::DELTAS) {
            return (Deltas::default(), None);
        }
        let cold = self.cold.get_or_insert_default();
        cold.deltas.of(delivery, &self.writer.options.deltas)
    }

    fn write_metadata(
        &self,
        form: Form,
        delivery: &Delivery<'_>,
        index: usize,
        message: &Message<'_>,
        codec: Option<&str>,
        out: &mut Vec<u8>,
    ) {
        if form.has(Form::DETAILS) {
            let lines = details(delivery, index, message, codec);
            write_entry(Mime::Name(MESSAGE_MIME), &lines, out);
        }
        if form.has(Form::PROPERTIES) && !message.properties.is_empty() {
            write_entry(Mime::Name(PROPERTIES_MIME), message.properties, out);
        }
    }
}

/// What a delivery says of a message.
fn details(
    delivery: &Delivery<'_>,
    index: usize,
    message: &Message<'_>,
    codec: Option<&str>,
) -> Vec<u8> {
    let run = delivery.run.run();
    let path = run.destination().path.as_str();
    let mut lines = Vec::with_capacity(path.len() + LINES_BYTES);
    tiderace_wire::properties::append(&mut lines, "path", path);
    let mut number = |name: &str, value: u64| {
        lines.extend_from_slice(name.as_bytes());
        lines.push(b':');
        lines.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        lines.push(b'\n');
    };
    if run.version() > 0 {
        number("version", run.version() + index as u64);
        if let Some(version) = run.follows_at(index) {
            number("follows", version);
        }
    }
    if delivery.redeliveries > 0 {
        number("redeliveries", u64::from(delivery.redeliveries));
    }
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        lines.extend_from_slice(b"removed:true\n");
    }
    if let Some(codec) = codec {
        lines.extend_from_slice(b"delta:");
        lines.extend_from_slice(codec.as_bytes());
        lines.push(b'\n');
    }
    lines
}

/// What the lines have besides the path, as a rule.
const LINES_BYTES: usize = 48;
