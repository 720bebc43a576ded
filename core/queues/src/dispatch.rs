//! Who gets the next messages: consumers in turn, each up to its window.
//!
//! With several consumers the ready messages are dealt out in equal shares, so that two messages
//! for two idle consumers go one to each, and a large backlog still moves in large pieces.

use tiderace_base::{Key, Slab};

use crate::Segment;
use crate::consumer::Consumer;
use crate::queue::Queue;
use crate::queues::Effect;

/// Messages a selective consumer may look at in one call; the rest waits for the next tick.
const LOOK_MAX: usize = 4096;

pub(crate) fn dispatch(
    queue_key: Key,
    queue: &mut Queue,
    consumers: &mut Slab<Consumer>,
    effects: &mut Vec<Effect>,
) {
    let exclusive = queue
        .consumers
        .iter()
        .position(|at| consumers.get(at.consumer).is_some_and(|consumer| consumer.exclusive));
    let mut refusals = 0;
    while !queue.ready.is_empty() && refusals < queue.consumers.len() {
        let place = exclusive.unwrap_or(queue.turn % queue.consumers.len());
        let share = match exclusive {
            Some(_) => u32::MAX,
            None => (queue.ready_messages / queue.consumers.len()).max(1) as u32,
        };
        match next_segment(place, share, queue, consumers) {
            Some((key, segment)) => {
                refusals = 0;
                if let Some(consumer) = consumers.get_mut(key) {
                    effects.push(Effect::Deliver {
                        session: consumer.session,
                        key: consumer.key,
                        segment: segment.clone(),
                    });
                    consumer.take_off(queue_key, segment);
                }
            }
            None if exclusive.is_some() => return,
            None => refusals += 1,
        }
        queue.turn = (place + 1) % queue.consumers.len().max(1);
    }
}

/// What the consumer at that place gets now.
fn next_segment(
    place: usize,
    share: u32,
    queue: &mut Queue,
    consumers: &Slab<Consumer>,
) -> Option<(Key, Segment)> {
    let attached = queue.consumers.get(place)?;
    let (key, cursor) = (attached.consumer, attached.cursor);
    let consumer = consumers.get(key)?;
    let messages = consumer.room_messages().min(share);
    if messages == 0 {
        return None;
    }
    let Some(selector) = &consumer.selector else {
        let start = *queue.ready.first_key_value()?.0;
        return Some((key, queue.take(start, messages, consumer.room_bytes())?));
    };
    let mut looked = 0;
    let mut stopped = false;
    let mut found = None;
    let mut seen = cursor;
    let start = queue.ready.range(..=cursor).next_back().map_or(cursor, |(start, _)| *start);
    'search: for segment in queue.ready.range(start..).map(|(_, segment)| segment) {
        for index in segment.from..segment.to {
            let Some(message) = segment.run.message(index as usize) else {
                continue;
            };
            if message.sequence < cursor {
                continue;
            }
            if selector.matches(&message) {
                found = Some((segment.first(), message.sequence));
                break 'search;
            }
            seen = message.sequence + 1;
            looked += 1;
            if looked == LOOK_MAX {
                stopped = true;
                break 'search;
            }
        }
    }
    queue.has_unseen |= stopped;
    if let Some(attached) = queue.consumers.get_mut(place) {
        attached.cursor = found.map_or(seen, |(_, sequence)| sequence);
    }
    let (start, sequence) = found?;
    // Isolate the message: what precedes it stays where it is.
    let mut before = queue.ready.remove(&start)?;
    let at = before.split_off(sequence);
    if !before.is_empty() {
        queue.ready.insert(start, before);
    }
    queue.ready.insert(sequence, at?);
    Some((key, queue.take(sequence, 1, usize::MAX)?))
}
