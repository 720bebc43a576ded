//! What lists show of queues, and pages of the messages in one.
//!
//! Invariants: a page spends no more than [`price::QUEUE_SLICE`] and one message on looking at messages; it ends when it has
//! [`PAGE_BYTES`].

use std::sync::Arc;

use tiderace_base::{Key, Now, Time};
use tiderace_queues::{QueueState, Segment};
use tiderace_wire::{
    Message, Meta, Peek, PeekedMessage, PeekedMessages, QueueEntry, Run, number_of, properties,
};

use super::Home;
use crate::BrokerOptions;
use crate::price::{self, EVENT};

/// Bytes of one page; one entry alone may be larger.
pub(crate) const PAGE_BYTES: usize = 256 << 10;
/// What an entry counts for beside its texts.
pub(crate) const ENTRY_BYTES: usize = 128;
/// One message that is passed over.
const PASSED: u64 = 8;

impl Home {
    /// The ready messages in memory up to a version, as a page.
    pub(crate) fn page_of(
        &self,
        now: Now,
        queue: Key,
        peek: &Peek,
        to: u64,
    ) -> (PeekedMessages, u64) {
        let queues = self.queues();
        let (mut found, mut next) = (Vec::new(), None);
        let (mut spent, mut bytes) = (0, 0);
        for (segment, place) in queues.ready_from(queue, peek.from, to) {
            let Some(message) = segment.run.message(place) else { continue };
            let is_full = found.len() >= peek.messages_max() || bytes >= PAGE_BYTES;
            if is_full || spent >= price::QUEUE_SLICE {
                next = Some(segment.run.queue_version() + place as u64);
                break;
            }
            spent += PASSED;
            if message.is_expired(now.wall_ms) {
                continue;
            }
            if let Some(selector) = &peek.selector {
                let (selected, price) = selector.look(&message);
                spent += u64::from(price);
                if !selected {
                    continue;
                }
            }
            let peeked = peeked(now.time, segment, place, &message, peek.body_bytes_max());
            let given = peeked.run.bytes_of(peeked.place, peeked.place + 1);
            bytes += ENTRY_BYTES + given;
            spent += EVENT + given as u64 / price::COPIED_BYTES;
            found.push(peeked);
        }
        // Behind what is in memory there may be more in the store.
        let behind = to.saturating_add(1);
        let behind = queues.has_ready_from(queue, behind).then_some(behind);
        (PeekedMessages { messages: found, next: next.or(behind) }, spent)
    }

    /// How a queue stands, for lists.
    pub(crate) fn entry_of(
        &self,
        options: &BrokerOptions,
        now: Time,
        state: &QueueState<'_>,
    ) -> QueueEntry {
        let durable = self.feeds().get(state.path);
        QueueEntry {
            path: state.path.clone(),
            messages: state.messages as u64,
            in_flight: state.in_flight as u64,
            delayed: state.delayed as u64,
            groups: state.groups as u64,
            bytes: state.bytes as u64 + state.swapped_bytes,
            swapped: state.swapped,
            swapped_bytes: state.swapped_bytes,
            consumers: state.consumers as u64,
            browsers: state.browsers as u64,
            full: state.full,
            paused: state.paused,
            topics: match durable {
                Some(durable) => Some(durable.about.topics_text()),
                None => options.mirrors(state.path).then(|| state.path.as_str().into()),
            },
            patterns: durable.map(|durable| durable.about.topics.clone()).unwrap_or_default(),
            selector: durable.and_then(|durable| durable.about.selector_text()),
            oldest_ms: state.oldest.map(|published| now.since(published).as_millis() as u64),
            owner: state.owner.cloned(),
        }
    }
}

/// A message as a page shows it.
fn peeked(
    now: Time,
    segment: &Segment,
    place: usize,
    message: &Message<'_>,
    body_bytes_max: usize,
) -> PeekedMessage {
    let peeked = PeekedMessage {
        run: segment.run.clone(),
        place,
        position: number_of(segment.run.queue_version() + place as u64),
        redeliveries: segment.redeliveries,
        age_ms: now.since(segment.run.published()).as_millis() as u64,
        cut: None,
    };
    if message.body.len() <= body_bytes_max {
        return peeked;
    }
    let (run, cut) = (cut(&segment.run, message, body_bytes_max), Some(message.body.len() as u64));
    PeekedMessage { run: Arc::new(run), place: 0, cut, ..peeked }
}

/// A message without the end of its body. What is cut is no JSON any more; text is cut between two characters.
fn cut(run: &Run, message: &Message<'_>, bytes: usize) -> Run {
    let body = message.body.get(..bytes).unwrap_or_default();
    let (body, is_text) = match std::str::from_utf8(body) {
        Ok(_) => (body, true),
        Err(error) if error.error_len().is_none() => {
            (body.get(..error.valid_up_to()).unwrap_or_default(), true)
        }
        Err(_) => (body, false),
    };
    let mut block = Vec::with_capacity(message.properties.len() + TEXT_TYPE.len());
    for line in message.properties.split_inclusive(|byte| *byte == b'\n') {
        if !properties::raw(line).any(|(name, _)| name == b"content-type") {
            block.extend_from_slice(line);
        }
    }
    if is_text {
        block.extend_from_slice(TEXT_TYPE);
    }
    let meta = Meta { flags: message.flags, expires_ms: message.expires_ms };
    Run::single(run.destination().clone(), run.published(), &block, body, meta)
}

/// The content type of text, as a property.
const TEXT_TYPE: &[u8] = b"content-type:text/plain\n";
