//! Who gets the next messages: consumers in turn, each up to its window.
//!
//! With several consumers the ready messages are dealt out in equal shares, so that two messages
//! for two idle consumers go one to each, and a large backlog still moves in large pieces.

use tiderace_base::{Key, Slab};
use tiderace_wire::Flags;

use crate::Segment;
use crate::consumer::Consumer;
use crate::queue::Queue;
use crate::queues::Effect;

/// Messages a selective consumer may look at in one call; the rest waits for the next tick.
const LOOK_MAX: usize = 4096;

/// Deals out what can be dealt out, to all consumers or to all but one; says how many messages
/// were found expired and dropped.
pub(crate) fn dispatch(
    queue_key: Key,
    queue: &mut Queue,
    consumers: &mut Slab<Consumer>,
    except: Option<Key>,
    wall_ms: u64,
    effects: &mut Vec<Effect>,
) -> usize {
    let exclusive = queue
        .consumers
        .iter()
        .position(|at| consumers.get(at.consumer).is_some_and(|consumer| consumer.exclusive));
    let takers = queue.consumers.iter().filter(|at| Some(at.consumer) != except).count();
    let share = match exclusive {
        None if takers > 1 => queue.ready_messages.div_ceil(takers) as u32,
        _ => u32::MAX,
    };
    let (mut refusals, mut expired) = (0, 0);
    while refusals < queue.consumers.len() {
        if queue.has_expiring {
            expired += queue.expire_front(wall_ms);
        }
        if queue.ready.is_empty() {
            break;
        }
        let place = exclusive.unwrap_or(queue.turn % queue.consumers.len());
        let left_out = queue.consumers.get(place).is_some_and(|at| Some(at.consumer) == except);
        let next =
            if left_out { None } else { next_segment(place, share, queue, consumers, wall_ms) };
        match next {
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
            None if exclusive.is_some() => break,
            None => refusals += 1,
        }
        queue.turn = (place + 1) % queue.consumers.len().max(1);
    }
    expired
}

/// What the consumer at that place gets now.
fn next_segment(
    place: usize,
    share: u32,
    queue: &mut Queue,
    consumers: &Slab<Consumer>,
    wall_ms: u64,
) -> Option<(Key, Segment)> {
    let attached = queue.consumers.get(place)?;
    let (key, cursor) = (attached.consumer, attached.cursor);
    let consumer = consumers.get(key)?;
    let messages = consumer.room_messages().min(share);
    if messages == 0 {
        return None;
    }
    let Some(selector) = &consumer.selector else {
        let (start, first) = queue.ready.first_key_value()?;
        let start = *start;
        if consumer.can_wait(first.bytes()) {
            return None;
        }
        // A message with an expiry date goes alone, so that each is looked at when its turn comes.
        let alone = queue.has_expiring && first.run.any(Flags::EXPIRES);
        let messages = if alone { 1 } else { messages };
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
            if !message.is_expired(wall_ms) && selector.matches(&message) {
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
