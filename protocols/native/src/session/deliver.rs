//! UPDATES and QUEUED: the hot path. A thousand sessions with a thousand subscriptions each make it
//! run a million times a second, so it looks at one byte per subscription and copies the body once.
//!
//! Relies on the batch for where bytes go. Invariant: nothing is allocated per message, but for bodies
//! that go out by reference and for topics that are announced.

use tiderace_topics::Path;
use tiderace_wire::{Delivery, Deltas, Flags, Message, Output};

use super::NativeSession;
use super::subscriptions::{Mark, Sent};
use crate::codec::{
    Numbers, Queued, QueuedEntry, ServerMessage, Update, Version, flag, kind, split_content,
};
use tiderace_base::limits::APART_BYTES_MIN;

/// What the updates of one delivery have in common.
struct Form {
    flags: u8,
    id: u32,
    /// Whether the next version is told whole.
    whole: bool,
    /// Whether updates say that they are current values.
    values: bool,
    /// Whether updates tell the numbers of their messages.
    numbered: bool,
    /// Messages sent as deltas, and by how many bytes these were shorter.
    saved: (u64, u64),
}

impl NativeSession {
    #[inline]
    pub(super) fn deliver_updates(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let run = delivery.run.run();
        let key = delivery.key.0;
        let Some(mark) = self.subscriptions.get(key) else { return };
        let first = run.version() + delivery.from as u64;
        let next = run.version() + delivery.to as u64;
        let sent = Sent { next, is_base: !delivery.run.is_merged() };
        let (before, flags, id) = if mark.has(Mark::PATTERN) {
            let path = &run.destination().path;
            let most = self.topics_max();
            let (announced, is_new) = self.cold().topics.find(key, path, most);
            let (id, before) = (announced.id, std::mem::replace(&mut announced.sent, sent));
            if is_new {
                self.announce(id, key, path, output);
            }
            (before, flag::ANNOUNCED, id)
        } else {
            (self.subscriptions.send(key, sent), 0, key)
        };
        // Only the version after the last one can be computed whatever happened meanwhile.
        let follows = before.next == first;
        if !follows {
            self.renumbered(delivery, flags, id, output);
        }
        let deltas = match mark.has(Mark::DELTAS) {
            true => self.deltas(delivery, follows && before.is_base),
            false => Deltas::default(),
        };
        // Of any subscription: where several get a message, the last of them has reached it.
        if self.agreed.is_recoverable() {
            self.cold().reach(u64::from(run.home().0), delivery.reached);
            if let Some((numbering, sequence)) = delivery.reached_upstream() {
                self.cold().reach(numbering.whole(), sequence);
            }
        }
        let (values, numbered) = (mark.has(Mark::VALUES), mark.has(Mark::NUMBERED));
        let mut form = Form { flags, id, whole: !follows, values, numbered, saved: (0, 0) };
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { break };
            let version = run.version() + index as u64;
            self.update(&mut form, delivery, index, &message, version, &deltas, output);
            form.whole = false;
        }
        if form.saved.0 > 0 {
            self.count_deltas(form.saved);
        }
    }

    fn count_deltas(&self, (sent, saved): (u64, u64)) {
        if let Some(counters) = self.options.metrics.of(self.shard) {
            counters.count(sent, saved);
        }
    }

    /// Says that numbers between the topic's message before and the first of these were never given to
    /// messages, so that a client that had the one before does not take them for missed.
    #[cold]
    fn renumbered(&mut self, delivery: &Delivery<'_>, flags: u8, id: u32, output: &mut Output<'_>) {
        let follows = delivery.run.run().follows().filter(|_| delivery.from == 0);
        if let Some(version) = follows {
            let out = self.batch.whole(ENTRY_BYTES, output);
            ServerMessage::Follows { flags, id, version }.write(out);
        }
    }

    #[inline]
    #[allow(clippy::too_many_arguments, reason = "one call site, in the hottest loop")]
    fn update(
        &mut self,
        form: &mut Form,
        delivery: &Delivery<'_>,
        index: usize,
        message: &Message<'_>,
        version: u64,
        deltas: &Deltas,
        output: &mut Output<'_>,
    ) {
        let (content, properties) = split_content(message.properties);
        let mut flags = form.flags | content.bits();
        if message.flags.contains(Flags::RETAIN_REMOVE) {
            flags |= flag::REMOVED;
        }
        if form.values && delivery.run.run().is_value(index) {
            flags |= flag::VALUE;
        }
        let mut data = message.body;
        if let Some(delta) = deltas.of(index) {
            flags |= flag::DELTA;
            form.saved.0 += 1;
            form.saved.1 += (data.len() - delta.len()) as u64;
            data = delta;
        }
        let version =
            if form.whole { Version::Full(version) } else { Version::Low(version as u16) };
        let update = Update { flags, id: form.id, version, numbers: None, properties, data };
        match form.numbered {
            true => self.put_numbered(update, delivery, index, output),
            false => self.put(&update, delivery, index, output),
        }
    }

    /// Apart, for only edges ask for numbers, and those that do not are to pay nothing for them.
    #[cold]
    fn put_numbered(
        &mut self,
        update: Update<'_>,
        delivery: &Delivery<'_>,
        index: usize,
        output: &mut Output<'_>,
    ) {
        let numbers = Some(numbers(delivery, index));
        self.put(&Update { numbers, ..update }, delivery, index, output);
    }

    /// Writes an update of the message at that place.
    #[inline(always)]
    fn put(
        &mut self,
        update: &Update<'_>,
        delivery: &Delivery<'_>,
        index: usize,
        output: &mut Output<'_>,
    ) {
        let Update { flags, properties, data, .. } = *update;
        let room = data.len() + properties.len() + ENTRY_BYTES;
        if room < APART_BYTES_MIN {
            let (out, _) = self.batch.entries(kind::UPDATES, room, output);
            let before = out.len();
            out.reserve(room);
            update.write(out);
            let bytes = out.len() - before;
            return self.batch.spend(bytes);
        }
        let mut head = Vec::new();
        update.write_head(data.len(), &mut head);
        let body = match flags & flag::DELTA {
            0 => delivery.run.body_bytes(index).unwrap_or_default(),
            _ => bytes::Bytes::copy_from_slice(data),
        };
        self.batch.apart(kind::UPDATES, &head, body, output);
    }

    /// Messages of a queue, with the numbers by which they are settled.
    pub(super) fn deliver_queued(&mut self, delivery: &Delivery<'_>, output: &mut Output<'_>) {
        let run = delivery.run.run();
        let key = delivery.key.0;
        let Some(mark) = self.subscriptions.get(key) else { return };
        let (mut flags, mut id) = (0, key);
        if mark.has(Mark::PATTERN) {
            let path = &run.destination().path;
            let most = self.topics_max();
            let (announced, is_new) = self.cold().topics.find(key, path, most);
            (flags, id) = (flag::ANNOUNCED, announced.id);
            if is_new {
                self.announce(id, key, path, output);
            }
        }
        // Every delivery has a message of its own, since the numbers begin anew.
        self.batch.end_message(output);
        for index in delivery.from..delivery.to {
            let Some(message) = run.message(index) else { break };
            let queued = Queued {
                flags,
                id,
                home: run.home().0,
                first: message.sequence,
                redeliveries: delivery.redeliveries,
                entries: b"",
            };
            let (content, properties) = split_content(message.properties);
            let entry = QueuedEntry { flags: content.bits(), properties, body: message.body };
            let room = message.body.len() + properties.len() + ENTRY_BYTES;
            if room < APART_BYTES_MIN {
                let (out, has_begun) = self.batch.entries(kind::QUEUED, room, output);
                let before = out.len();
                if has_begun {
                    queued.write_head(out);
                }
                entry.write(out);
                let bytes = out.len() - before;
                self.batch.spend(bytes);
                continue;
            }
            let mut head = Vec::new();
            queued.write_head(&mut head);
            entry.write_head(message.body.len(), &mut head);
            let body = delivery.run.body_bytes(index).unwrap_or_default();
            self.batch.apart(kind::QUEUED, &head, body, output);
        }
        self.batch.end_message(output);
    }

    /// Gives a topic its id.
    pub(super) fn announce(
        &mut self,
        topic: u32,
        subscription: u32,
        path: &Path,
        output: &mut Output<'_>,
    ) {
        self.subscriptions.announce(subscription);
        let path = path.as_str();
        let out = self.batch.whole(path.len() + ENTRY_BYTES, output);
        ServerMessage::Topic { topic, subscription, path }.write(out);
    }
}

/// The numbers of the message at that place, at its source: what comes from another node has those that it has there.
fn numbers(delivery: &Delivery<'_>, index: usize) -> Numbers {
    let run = delivery.run.run();
    let number = run.first() + index as u64;
    // Between the messages of one delivery nothing further is reached than the message itself.
    let is_last = index + 1 == delivery.to;
    let reached = if is_last { delivery.reached } else { number.min(delivery.reached) };
    let Some(upstream) = run.upstream() else {
        return Numbers { numbering: u64::from(run.home().0), number, reached };
    };
    let (to, exchange) = (index + 1, None);
    let alone = Delivery { from: index, to, reached, exchange, ..*delivery };
    let reached = alone.reached_upstream().map_or(0, |(_, sequence)| sequence);
    let number = upstream.first + index as u64;
    Numbers { numbering: upstream.numbering.whole(), number, reached }
}

/// What an entry, its head and its message's head have besides properties and body, at most.
const ENTRY_BYTES: usize = 64;
