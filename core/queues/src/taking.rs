//! Taking ready messages out of a queue on an operator's behalf: to drop them, or to give them to another queue.
//!
//! What was taken out belongs to nobody until it is dropped or given back; meanwhile it counts in the queue like what
//! is in flight. So a message that cannot go where it should is back at its place in the order. A slice takes a
//! bounded number of messages and looks at a bounded number more. Invariant: what a slice has taken out is dropped or
//! given back once, or its queue is gone with all that was in it.

use tiderace_base::{Key, Now};
use tiderace_filter::Selector;
use tiderace_topics::Path;
use tiderace_wire::rank_of;

use crate::effect::Effect;
use crate::queue::Queue;
use crate::queues::Queues;
use crate::ranks::{behind_rank, last_of};
use crate::{QueueOptions, Segment};

/// What one slice is to take out.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    /// The version of the first message to look at.
    pub from: u64,
    /// The number of the last, whatever its rank.
    pub to: u64,
    /// Of the messages in the store alone, those of lower versions were looked at by [`Queues::look`].
    pub seen_below: u64,
    /// Only messages that match.
    pub selector: Option<&'a Selector>,
    /// At most so many messages.
    pub messages: u64,
    /// About so many bytes; one message is taken whatever it has.
    pub bytes: usize,
    /// What selectors and segments may cost, in steps of about three nanoseconds; one message is looked at whatever
    /// it costs.
    pub steps: u64,
}

/// What one slice has taken out.
#[derive(Debug, Default)]
pub struct Taken {
    /// The messages, in order.
    pub segments: Vec<Segment>,
    /// How many they are.
    pub messages: u64,
    /// The version with which the next slice begins, if there may be more.
    pub next: Option<u64>,
    /// Before that, messages from this version on have to be looked for in the store.
    pub unseen: Option<u64>,
    /// What it has cost, in the steps of [`Slice::steps`].
    pub spent: u64,
}

/// What it costs to take a segment out, or to cut one.
const SEGMENT_STEPS: u64 = 128;

impl Queues {
    /// Takes ready messages out of a queue.
    pub fn take_out(&mut self, key: Key, slice: &Slice<'_>) -> Taken {
        let mut taken = Taken::default();
        let Some(queue) = self.queues.get_mut(key) else { return taken };
        queue.take_slice(slice, &mut taken);
        self.ready = self.ready.saturating_sub(taken.messages as usize);
        taken
    }

    /// Messages that were taken out come back to their places, as they were.
    pub fn return_taken(
        &mut self,
        now: Now,
        key: Key,
        segments: Vec<Segment>,
        effects: &mut Vec<Effect>,
    ) {
        if self.queues.get(key).is_none() {
            return;
        }
        self.begin_turn(now);
        for segment in segments {
            self.put_back(key, segment);
        }
        self.dispatch(key, effects);
    }

    /// Messages that were taken out are gone for good.
    pub fn drop_taken(
        &mut self,
        now: Now,
        key: Key,
        segments: Vec<Segment>,
        effects: &mut Vec<Effect>,
    ) {
        for segment in segments {
            self.accepted(key, segment, effects);
        }
        if let Some(queue) = self.queues.get_mut(key) {
            queue.used = now.time;
        }
        self.review(key, effects);
    }

    /// The same of messages that another queue has: the caller has told the store.
    pub fn forget_taken(
        &mut self,
        now: Now,
        key: Key,
        segments: &[Segment],
        effects: &mut Vec<Effect>,
    ) {
        for segment in segments {
            self.uncount(key, segment);
        }
        if let Some(queue) = self.queues.get_mut(key) {
            queue.used = now.time;
        }
        self.review(key, effects);
    }

    /// Makes a queue that stays although nothing may be in it, until it is discarded or may go.
    pub fn set_staying(
        &mut self,
        now: Now,
        path: &Path,
        stays: bool,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Key {
        let key = self.ensure(now, path.clone(), options);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.used = now.time;
            queue.stays = stays;
        }
        key
    }

    /// Gives consumers nothing of a queue until it is resumed. A queue that is not there is made to be paused; one
    /// that is paused stays, although nothing may be in it, unless it is private.
    pub fn pause(
        &mut self,
        now: Now,
        path: &Path,
        on: bool,
        options: impl FnOnce(&Path) -> QueueOptions,
        effects: &mut Vec<Effect>,
    ) {
        if !on && !self.has(path) {
            return;
        }
        self.begin_turn(now);
        let key = self.ensure(now, path.clone(), options);
        let Some(queue) = self.queues.get_mut(key) else { return };
        queue.used = now.time;
        if std::mem::replace(&mut queue.paused, on) == on {
            return;
        }
        match on {
            true => self.paused += 1,
            false => {
                self.paused = self.paused.saturating_sub(1);
                self.dispatch(key, effects);
            }
        }
    }
}

impl Queue {
    fn take_slice(&mut self, slice: &Slice<'_>, taken: &mut Taken) {
        let (mut at, mut bytes) = (slice.from, 0);
        let unseen = self.unseen_from(slice.seen_below.max(slice.from), slice.to);
        loop {
            let next = self.ready.from(at).next();
            let next = next.filter(|segment| segment.first_version().max(at) < unseen);
            let Some(segment) = next else {
                if unseen < u64::MAX {
                    (taken.next, taken.unseen) = (Some(unseen), Some(unseen));
                }
                break;
            };
            if taken.messages >= slice.messages
                || bytes >= slice.bytes
                || taken.spent >= slice.steps
            {
                taken.next = Some(at);
                break;
            }
            at = at.max(segment.first_version());
            taken.spent += SEGMENT_STEPS;
            if at > last_of(rank_of(at), slice.to) {
                // The rest of its rank came later.
                at = behind_rank(at);
                continue;
            }
            let Some((wanted, alike)) = alike(segment, at, slice, &mut taken.spent) else { break };
            let last = at + alike - 1;
            if wanted {
                let most = slice.messages - taken.messages;
                let most = u32::try_from(most).unwrap_or(u32::MAX);
                let room = slice.bytes - bytes;
                let Some(segment) = self.ready.take_stretch(at, last, most, room) else { break };
                at = segment.last_version().saturating_add(1);
                taken.messages += u64::from(segment.len());
                bytes += segment.bytes();
                self.in_flight += segment.len() as usize;
                taken.segments.push(segment);
            } else {
                at = last.saturating_add(1);
            }
        }
    }
}

/// Whether the message of that version of a segment is wanted, and how many from there on are wanted or not as it is.
fn alike(segment: &Segment, at: u64, slice: &Slice<'_>, spent: &mut u64) -> Option<(bool, u64)> {
    let last = segment.last_version().min(last_of(rank_of(at), slice.to));
    let Some(selector) = slice.selector else { return Some((true, last - at + 1)) };
    let (mut wanted, mut alike) = (None, 0);
    for version in at..=last {
        if alike > 0 && *spent >= slice.steps {
            break;
        }
        let message = segment.run.message((version - segment.run.queue_version()) as usize)?;
        let (selected, price) = selector.look(&message);
        *spent += u64::from(price);
        if *wanted.get_or_insert(selected) != selected {
            break;
        }
        alike += 1;
    }
    Some((wanted?, alike))
}
