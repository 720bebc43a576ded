//! What the store has given of a queue: for the next consumer, for a selection, for a search or for an operation.
//!
//! Relies on `swapped` for which of it is in the range of messages that are in the store alone. Invariants: a message
//! comes into memory once; what cannot be read is counted and passed over, and stays in the store.

use std::sync::Arc;

use tiderace_base::{Key, Now};
use tiderace_wire::{Flags, Run, number_of};

use crate::Segment;
use crate::effect::{DeathReason, Effect};
use crate::lines::Choice;
use crate::queues::Queues;
use crate::swapped::{Look, Swapped, Want, alone, expires_ms};

/// What one look of a selection brings into memory.
const SELECTED_BYTES: usize = 64 << 10;
/// How long a queue is not searched again for expired messages, in milliseconds.
const EXPIRED_PAUSE_MS: u64 = 10_000;

/// What the store has given of a queue.
#[derive(Debug, Default)]
pub struct LoadedPart {
    /// Everything up to this version that was asked for is here; nothing if it is lower than all that was asked for,
    /// because it cannot be read just now.
    pub through: u64,
    /// In the order of versions.
    pub runs: Vec<LoadedRun>,
    /// Versions that should be here and cannot be read: first and last of each stretch.
    pub unreadable: Vec<(u64, u64)>,
}

/// A run of a part.
#[derive(Debug)]
pub struct LoadedRun {
    /// With numbers above all before, and its versions.
    pub run: Arc<Run>,
    /// Which of its messages are there, as places: the first of each stretch, and the one behind the last.
    pub there: Vec<(u32, u32)>,
}

impl LoadedPart {
    /// The messages that are in the range, in order.
    fn of(&self, swapped: &Swapped) -> Vec<Segment> {
        let mut segments = Vec::new();
        for LoadedRun { run, there } in &self.runs {
            for (from, to) in there {
                let base = run.queue_version();
                let (first, last) = (base + u64::from(*from), base + u64::from(*to) - 1);
                for (first, last) in swapped.within(first, last.min(self.through)) {
                    let (from, to) = ((first - base) as u32, (last - base) as u32 + 1);
                    segments.push(Segment { from, to, ..Segment::whole(run.clone()) });
                }
            }
        }
        segments
    }
}

impl Queues {
    /// The store has given a part that was asked for. How many messages should have been in it and could not be read.
    pub fn loaded(
        &mut self,
        now: Now,
        key: Key,
        part: &LoadedPart,
        effects: &mut Vec<Effect>,
    ) -> u64 {
        self.begin_turn(now);
        let Some(queue) = self.queues.get(key) else { return 0 };
        let before = (queue.swapped_messages(), queue.swapped_bytes());
        let asked = queue.swapped.as_ref().map_or(0, |swapped| swapped.asked_bytes());
        self.end_asked(asked);
        let Some(swapped) = self.swapped_of(key) else { return 0 };
        if swapped.stall(part.through) {
            swapped.catch_up();
            self.stalled.push(key);
            return 0;
        }
        let Some(want) = swapped.end_load() else { return 0 };
        let mut segments = part.of(swapped);
        self.drop_unkept(key, &mut segments, effects);
        let browser = if let Want::Browser(at) = want { Some(at) } else { None };
        let unreadable = match want {
            // The consumer that wanted it has been given something else meanwhile; it is asked for again when there is room.
            Want::Front if self.is_short() && !self.has_taker(key) => 0,
            Want::Front => self.take_front(now, key, part, segments),
            Want::Selection(id) => self.take_selected(now, key, id, part, segments),
            Want::Drop => self.drop_loaded(key, part, (&segments, effects)),
            Want::Expired => self.take_expired(now, key, part, (segments, effects)),
            Want::Look(look) => self.take_looked(now, key, &look, part, (segments, effects)),
            Want::Browser(at) => self.show_loaded(key, at, part, (segments, effects)),
        };
        let Some(queue) = self.queues.get_mut(key) else { return unreadable };
        queue.has_unread |= unreadable > 0;
        self.unreadable += unreadable;
        if let Some(swapped) = &mut queue.swapped {
            swapped.catch_up();
        }
        self.note_swapped(key, before);
        // Behind that, for it may ask the store anew.
        if let Some(browser) = browser {
            self.go_on(browser, effects);
        }
        self.dispatch(key, effects);
        self.load_next(key, effects);
        self.resume_short(effects);
        unreadable
    }

    /// What was stored in an earlier life only because it came together with persistent messages does not come back.
    fn drop_unkept(&mut self, key: Key, segments: &mut Vec<Segment>, effects: &mut Vec<Effect>) {
        let Some(queue) = self.queues.get_mut(key) else { return };
        let (below, stream) = (queue.stored_below, queue.stream);
        let Some(swapped) = &mut queue.swapped else { return };
        let is_late = |segment: &Segment| number_of(segment.first_version()) >= below;
        if segments.iter().all(is_late) {
            return;
        }
        let mut kept = Vec::with_capacity(segments.len());
        for segment in segments.drain(..) {
            let is_kept = |index: u32| {
                let message = segment.run.message(index as usize);
                message.is_some_and(|message| message.flags.contains(Flags::PERSISTENT))
            };
            let mut rest = Some(segment.clone());
            while let Some(mut part) = rest {
                let is_late = is_late(&part);
                let keep = is_late || is_kept(part.from);
                let alike = (part.from..part.to).take_while(|at| (is_late || is_kept(*at)) == keep);
                let alike = alike.count() as u64;
                rest = part.split_off_version(part.first_version() + alike);
                if keep {
                    kept.push(part);
                    continue;
                }
                let range = (part.first_version(), part.last_version());
                swapped.set_outside(range.0, range.1);
                let first = part.first_version();
                swapped.forget(first, u64::from(part.len()), part.bytes() as u64);
                let Some(stream) = stream else { continue };
                effects.push(Effect::Settled { stream, segment: part, is_outside: true });
            }
        }
        *segments = kept;
    }

    /// Everything up to a version comes into memory.
    fn take_front(&mut self, now: Now, key: Key, part: &LoadedPart, segments: Vec<Segment>) -> u64 {
        let mut unreadable = self.pass_unreadable(key, part, part.through);
        for segment in segments {
            if let Some(swapped) = self.swapped_of(key) {
                let first = segment.first_version();
                swapped.forget(first, u64::from(segment.len()), segment.bytes() as u64);
            }
            self.add(now, key, segment);
        }
        if let Some(swapped) = self.swapped_of(key) {
            // What is missing now the store did not have, although it should.
            unreadable += swapped.pass(part.through);
        }
        unreadable
    }

    /// What consumers of a selection want comes into memory, the rest stays where it is.
    fn take_selected(
        &mut self,
        now: Now,
        key: Key,
        id: u32,
        part: &LoadedPart,
        segments: Vec<Segment>,
    ) -> u64 {
        let choice = self.queues.get(key).and_then(|queue| queue.lines.choice(id)).cloned();
        let Some(Choice { selector, start }) = choice else { return 0 };
        let look = Look {
            number: 0,
            from: 0,
            to: u64::MAX,
            selector,
            messages: u64::MAX,
            bytes: SELECTED_BYTES,
        };
        let through = self.take_matching(now, key, (&look, start), part, segments);
        if let Some(queue) = self.queues.get_mut(key) {
            queue.lines.note_looked(id, through);
        }
        self.pass_unreadable(key, part, through)
    }

    /// The same for an operation.
    fn take_looked(
        &mut self,
        now: Now,
        key: Key,
        look: &Look,
        part: &LoadedPart,
        (segments, effects): (Vec<Segment>, &mut Vec<Effect>),
    ) -> u64 {
        let through = self.take_matching(now, key, (look, 0), part, segments);
        if let Some(swapped) = self.swapped_of(key) {
            swapped.begin_look();
        }
        effects.push(Effect::Looked { number: look.number, through });
        self.pass_unreadable(key, part, through)
    }

    /// Brings what is looked for into memory, at its place, if its number is not too low; up to which version everything
    /// was looked at.
    fn take_matching(
        &mut self,
        now: Now,
        key: Key,
        (look, start): (&Look, u64),
        part: &LoadedPart,
        segments: Vec<Segment>,
    ) -> u64 {
        let (mut messages, mut bytes) = (0, 0);
        let (mut found, mut through) = (Vec::new(), part.through);
        'search: for segment in &segments {
            for (at, version) in (segment.from..segment.to).zip(segment.first_version()..) {
                // A record may begin before what was asked for, and end behind it.
                if version < look.from || !(start..=look.to).contains(&number_of(version)) {
                    continue;
                }
                if messages >= look.messages || bytes >= look.bytes {
                    through = version - 1;
                    break 'search;
                }
                let Some(message) = segment.run.message(at as usize) else { continue };
                if let Some(selector) = &look.selector {
                    let (selected, price) = selector.look(&message);
                    self.left = self.left.saturating_sub(price);
                    // Nobody is given what has expired.
                    if !selected || message.is_expired(now.wall_ms) {
                        continue;
                    }
                }
                let one = Segment { from: at, to: at + 1, ..segment.clone() };
                (messages, bytes) = (messages + 1, bytes + one.bytes());
                match found.last_mut() {
                    Some(Segment { run, to, .. }) if *to == at && Arc::ptr_eq(run, &one.run) => {
                        *to += 1;
                    }
                    _ => found.push(one),
                }
            }
        }
        for segment in found.into_iter().flat_map(alone) {
            if let Some(swapped) = self.swapped_of(key) {
                let first = segment.first_version();
                swapped.set_outside(first, segment.last_version());
                swapped.forget(first, u64::from(segment.len()), segment.bytes() as u64);
            }
            self.add(now, key, segment);
        }
        through
    }

    /// Drops what has expired of a part. The search goes on behind it in a later tick.
    fn take_expired(
        &mut self,
        now: Now,
        key: Key,
        part: &LoadedPart,
        (segments, effects): (Vec<Segment>, &mut Vec<Effect>),
    ) -> u64 {
        let unreadable = self.pass_unreadable(key, part, part.through);
        let Some(queue) = self.queues.get_mut(key) else { return unreadable };
        let mut next_ms = queue.swapped.as_ref().and_then(|swapped| swapped.search.1);
        let ends = segments.iter().flat_map(|segment| {
            (segment.from..segment.to).map(move |at| Segment {
                from: at,
                to: at + 1,
                ..segment.clone()
            })
        });
        for one in ends {
            let Some(expires) = expires_ms(&one) else { continue };
            if expires > now.wall_ms {
                next_ms = Some(next_ms.unwrap_or(u64::MAX).min(expires));
                continue;
            }
            let stream = queue.stream_with(&one);
            let Some(swapped) = &mut queue.swapped else { continue };
            swapped.set_outside(one.first_version(), one.last_version());
            swapped.forget(one.first_version(), 1, one.bytes() as u64);
            if queue.dead_letters_expired() {
                queue.send_dead_letter(key, one, (DeathReason::Expired, now.wall_ms), effects);
            } else if let Some(stream) = stream {
                effects.push(Effect::Settled { stream, segment: one, is_outside: true });
            }
            self.expired += 1;
        }
        let Some(swapped) = &mut queue.swapped else { return unreadable };
        let before = swapped.expires_ms;
        if part.through < swapped.last() {
            swapped.search = (part.through + 1, next_ms);
            swapped.expect(Some(now.wall_ms));
        } else {
            swapped.search = (0, None);
            // Messages whose times are over one after the other are not looked for one by one.
            swapped.expect(next_ms.map(|next| next.max(now.wall_ms + EXPIRED_PAUSE_MS)));
        }
        let expires = (before, swapped.expires_ms);
        self.note_expiring_swapped(key, expires);
        unreadable
    }

    /// What cannot be read is in the range no more; how many messages that are.
    pub(crate) fn pass_unreadable(&mut self, key: Key, part: &LoadedPart, through: u64) -> u64 {
        let Some(swapped) = self.swapped_of(key) else { return 0 };
        let mut count = 0;
        for (first, last) in &part.unreadable {
            for (first, last) in swapped.within(*first, (*last).min(through)) {
                let messages = last - first + 1;
                let bytes = messages.saturating_mul(swapped.bytes_each());
                count += messages;
                swapped.set_outside(first, last);
                swapped.forget(first, messages, bytes);
            }
        }
        count
    }
}
