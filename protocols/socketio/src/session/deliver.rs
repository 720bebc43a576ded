//! Messages on their way to the client.
//!
//! Relies on runs and their shared encodings. Invariant: clients whose packets are equal byte for byte
//! share one encoding. An offset is equal for all who received from one home alone; for others it is
//! appended to what is shared.

use tiderace_wire::{
    Delivery, EncodingKey, Flags, Framing, Message, Numbering, Output, Position, Run, SOURCE_TOPIC,
    properties,
};

use super::exchanges::Asked;
use super::state::SocketSession;
use super::subscriptions::Listening;
use super::trail::Trail;
use crate::body::Shown;
use crate::ids;
use crate::packet::{Bounds, is_reserved};
use crate::write::Text;

/// The protocol's letter among wire forms.
const LETTER: u8 = b'I';
/// Whole events, events with offsets that are equal for all, and the texts of events up to the offset.
const WHOLE: u8 = 0;
const WITH_OFFSET: u8 = 1;
const UP_TO_OFFSET: u8 = 2;
/// Added to the above for rooms.
const ROOM: u8 = 8;

/// What an event of a topic is made of, besides the message.
#[derive(Clone, Copy)]
struct Form<'a> {
    namespace: &'a str,
    room: bool,
    bounds: Bounds,
}

impl SocketSession {
    /// Encodes the messages of one delivery.
    pub(super) fn pass_on(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(known) = self.subscriptions.get(delivery.key) else { return };
        match known.listening {
            Listening::Topic if known.durable().is_some() => self.jobs(delivery, output),
            Listening::Topic | Listening::Room => match self.codec_of(delivery.key) {
                Some(codec) => self.topic_as_bytes(codec, delivery, output),
                None => self.topic(delivery, output),
            },
            Listening::Queue => self.jobs(delivery, output),
            Listening::Service => self.request(delivery, output),
        }
    }

    fn topic(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let Some(known) = self.subscriptions.get(delivery.key) else { return };
        let Some(namespace) = self.namespaces.get(known.namespace) else { return };
        let run = delivery.run.run();
        let room = known.listening == Listening::Room;
        let recoverable = known.recoverable;
        let last = run.first() + (delivery.to as u64).saturating_sub(1);
        if room && !self.options.application_echo && is_own(run, delivery.from, namespace.sid) {
            if recoverable {
                self.trail().reach(delivery);
            }
            return;
        }
        let form = Form { namespace: namespace.name(), room, bounds: self.options.bounds() };
        if !recoverable {
            return whole(form, delivery, output);
        }
        let epoch = self.epoch;
        let mut trail = self.trail.take().unwrap_or_else(|| Trail::new(epoch));
        trail.begin_with(delivery);
        let position = &mut trail.position;
        let own = Numbering::new(epoch, run.home());
        let alone = position.seen().iter().all(|(numbering, _)| *numbering == own)
            && run.upstream().is_none();
        let in_order = position.of(run.home()) < run.first() && delivery.reached == last;
        if alone && in_order && delivery.is_whole() {
            with_equal_offsets(form, epoch, delivery, output);
        } else {
            with_own_offsets(form, position, delivery, output);
        }
        trail.reach(delivery);
        self.trail = Some(trail);
    }

    /// Messages of a queue; those of a durable subscription come as other messages of topics do.
    fn jobs(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let run = delivery.run.run();
        let Some(known) = self.subscriptions.get(delivery.key) else { return };
        let (explicit, namespace) = (known.explicit, known.namespace);
        let is_durable = known.durable().is_some();
        let event = if is_durable { "message" } else { "job" };
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { continue };
            let job =
                Asked::Job { key: delivery.key, home: run.home(), sequence: message.sequence };
            let ack = explicit.then(|| self.ask_client(job));
            let shown = Shown::of(message.properties, message.body, self.options.bounds());
            let attachments = shown.attachments();
            let name = self.namespaces.name(namespace);
            let mut text = Text::event(attachments.len(), name, ack, event);
            text.raw(",");
            let topic = is_durable.then(|| properties::find(message.properties, SOURCE_TOPIC));
            text.text(topic.flatten().as_deref().unwrap_or(run.destination().path.as_str()));
            text.raw(",");
            text.value(&shown);
            text.raw(if delivery.redeliveries > 0 {
                ",{\"redelivered\":true"
            } else {
                ",{\"redelivered\":false"
            });
            if delivery.redeliveries > 0 {
                text.raw(",\"redeliveries\":");
                text.number(u64::from(delivery.redeliveries));
            }
            text.properties(message.properties, &["redelivered", "redeliveries"]);
            text.raw("}]");
            text.write(attachments, output.framing, output.queue.tail());
        }
    }
}

/// Events without offsets.
fn whole(form: Form<'_>, delivery: &Delivery<'_>, output: &mut Output<'_>) {
    let framing = output.framing;
    if delivery.is_whole() {
        let key = form.key(WHOLE, framing);
        let write = |out: &mut Vec<u8>| write_all(form, delivery, framing, |_| None, out);
        if delivery.run.write_encoded(key, output.queue, write) {
            return;
        }
    }
    write_all(form, delivery, framing, |_| None, output.queue.tail());
}

/// Events whose offsets are equal for everybody who received from this home alone.
fn with_equal_offsets(
    form: Form<'_>,
    epoch: u64,
    delivery: &Delivery<'_>,
    output: &mut Output<'_>,
) {
    let (run, framing) = (delivery.run.run(), output.framing);
    let offset = |sequence: u64| {
        let mut position = Position::new(epoch);
        position.advance(run.home(), sequence);
        Some(position.encode())
    };
    let key = form.key(WITH_OFFSET, framing);
    let write = |out: &mut Vec<u8>| write_all(form, delivery, framing, offset, out);
    if !delivery.run.write_encoded(key, output.queue, write) {
        write_all(form, delivery, framing, offset, output.queue.tail());
    }
}

/// Events with this client's own offsets, appended to texts that all share.
fn with_own_offsets(
    form: Form<'_>,
    position: &mut Position,
    delivery: &Delivery<'_>,
    output: &mut Output<'_>,
) {
    let (run, framing) = (delivery.run.run(), output.framing);
    let shared = run.len() == 1 && delivery.is_whole();
    for index in delivery.from..delivery.to {
        let Some(message) = run.message(index) else { continue };
        let is_last = index + 1 == delivery.to;
        let reached =
            if is_last { delivery.reached } else { message.sequence.min(delivery.reached) };
        position.advance(run.home(), reached);
        if let Some((numbering, sequence)) = delivery.reached_upstream().filter(|_| is_last) {
            position.advance_to(numbering, sequence);
        }
        let suffix = format!(",\"{}\"]", position.encode());
        let block = shared.then(|| {
            delivery.run.encoded(form.key(UP_TO_OFFSET, Framing::Stream), |out| {
                let shown = form.shown(&message);
                // Attachments would have to follow the offset: such events are written apart.
                if shown.attachments().is_empty() {
                    Text::behind(out, |text| {
                        event(form, run, index as u64, &message, &shown, text)
                    });
                }
            })
        });
        let tail = output.queue.tail();
        match block.flatten().filter(|block| !block.is_empty()) {
            Some(block) if framing.is_prefix() => {
                framing.begin(block.len() + suffix.len(), true, tail);
                tail.extend_from_slice(&block);
                tail.extend_from_slice(suffix.as_bytes());
            }
            _ => {
                let shown = form.shown(&message);
                Text::framed(shown.attachments(), framing, tail, |text| {
                    event(form, run, index as u64, &message, &shown, text);
                    text.raw(&suffix);
                });
            }
        }
    }
}

/// Writes the events of a delivery, each with the offset of its number, if any.
fn write_all(
    form: Form<'_>,
    delivery: &Delivery<'_>,
    framing: Framing,
    offset: impl Fn(u64) -> Option<String>,
    out: &mut Vec<u8>,
) {
    let run = delivery.run.run();
    for index in delivery.from..delivery.to {
        let Some(message) = run.message(index) else { continue };
        let shown = form.shown(&message);
        Text::framed(shown.attachments(), framing, out, |text| {
            event(form, run, index as u64, &message, &shown, text);
            if let Some(offset) = offset(message.sequence) {
                text.raw(",");
                text.text(&offset);
            }
            text.raw("]");
        });
    }
}

/// Writes one event up to the place of its offset.
fn event(
    form: Form<'_>,
    run: &Run,
    index: u64,
    message: &Message<'_>,
    shown: &Shown<'_>,
    text: &mut Text,
) {
    if form.room {
        return room_event(form, message, shown, text);
    }
    text.begin_event(shown.attachments().len(), form.namespace, None, "message");
    text.raw(",");
    text.text(run.destination().path.as_str());
    text.raw(",");
    text.value(shown);
    text.raw(",{\"version\":");
    text.number(run.version() + index);
    if let Some(version) = run.follows_at(index as usize) {
        text.raw(",\"follows\":");
        text.number(version);
    }
    if message.flags.contains(Flags::RETAIN) {
        text.raw(",\"retained\":true");
    }
    if message.flags.contains(Flags::RETAIN_REMOVE) {
        text.raw(",\"removed\":true");
    }
    text.properties(message.properties, &["version", "follows", "retained", "removed"]);
    text.raw("}");
}

/// An event of a room: its name and arguments as somebody emitted or published them.
fn room_event(form: Form<'_>, message: &Message<'_>, shown: &Shown<'_>, text: &mut Text) {
    let name = properties::find(message.properties, "event");
    // Clients end the connection over a name that only they themselves may raise.
    let name = name.as_deref().filter(|name| !is_reserved(name)).unwrap_or("message");
    text.begin_event(shown.attachments().len(), form.namespace, None, name);
    let list = properties::find(message.properties, "arguments").as_deref() == Some("list");
    match shown.array().filter(|_| list) {
        Some(array) => {
            for argument in array.elements() {
                text.raw(",");
                text.raw(argument.text());
            }
        }
        None => {
            text.raw(",");
            text.value(shown);
        }
    }
}

/// Whether a run was emitted by that socket; all messages of a run are of one publisher.
fn is_own(run: &Run, at: usize, sid: u64) -> bool {
    run.message(at).is_some_and(|message| {
        let from = properties::raw(message.properties).find(|(name, _)| *name == b"from");
        from.is_some_and(|(_, value)| ids::is_socket(sid, value))
    })
}

impl<'a> Form<'a> {
    fn shown<'m>(&self, message: &Message<'m>) -> Shown<'m> {
        Shown::of(message.properties, message.body, self.bounds)
    }

    fn key(self, which: u8, framing: Framing) -> EncodingKey<'a> {
        let which = which + if self.room { ROOM } else { 0 };
        // What nearly all have is nothing, so that it need not be looked for.
        let variant = if self.namespace == "/" { "" } else { self.namespace };
        EncodingKey {
            form: EncodingKey::form(LETTER, which, framing.id()),
            variant: variant.as_bytes(),
        }
    }
}
