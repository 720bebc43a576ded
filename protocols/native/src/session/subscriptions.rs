//! What is known of each subscription: eight bytes, found by the client's own number.
//!
//! Clients choose low numbers as a rule; the broker holds the rest. Invariant: what is noted as sent
//! last is what the client knows, so that it can compute each version that is not told whole.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use tiderace_base::{Numbered, prefetch};
use tiderace_wire::Confirm;

/// Marks of one subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark(u8);

impl Mark {
    /// The number is taken.
    pub(super) const USED: Mark = Mark(1);
    /// Its topics have ids of their own.
    pub(super) const PATTERN: Mark = Mark(2);
    /// Of a pattern: some topic has been announced.
    pub(super) const ANNOUNCED: Mark = Mark(4);
    /// Deltas may be sent.
    pub(super) const DELTAS: Mark = Mark(8);
    /// The client has the body of the version sent last, not one merged from several.
    const BASE: Mark = Mark(16);
    /// The client is told which updates are current values.
    pub(super) const VALUES: Mark = Mark(32);
    /// The confirmation comes behind the current values.
    pub(super) const OK_LAST: Mark = Mark(64);
    /// The client is told the numbers of messages.
    pub(super) const NUMBERED: Mark = Mark(128);

    pub(super) fn has(self, other: Mark) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn with(self, other: Mark, is: bool) -> Mark {
        if is { Mark(self.0 | other.0) } else { self }
    }
}

/// What a client was sent last of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    /// The version after it; zero if nothing was sent.
    pub(super) next: u64,
    /// Whether a difference to it can be applied: the client has the body of that version.
    pub(super) is_base: bool,
}

/// One subscription: eight bits of marks, and above them the version after the one sent last. Never
/// zero, since its number is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known(NonZeroU64);

impl Known {
    const VERSION_SHIFT: u32 = 8;

    fn new(mark: Mark, next: u64) -> Known {
        let taken = NonZeroU64::MIN | u64::from(Mark::USED.0);
        Known(taken | next << Known::VERSION_SHIFT | u64::from(mark.0))
    }

    fn mark(self) -> Mark {
        Mark(self.0.get() as u8)
    }

    fn sent(self) -> Sent {
        Sent { next: self.0.get() >> Known::VERSION_SHIFT, is_base: self.mark().has(Mark::BASE) }
    }
}

/// All subscriptions of a session.
#[derive(Debug)]
pub(super) enum Subscriptions {
    /// As long as most numbers up to the highest are in use, as with clients that count: one step from a
    /// delivery to what is known. Most sessions have one, and there may be millions of these.
    List(Vec<Option<Known>>),
    Spread(Box<Numbered<Known>>),
}

impl Default for Subscriptions {
    fn default() -> Subscriptions {
        Subscriptions::List(Vec::new())
    }
}

const _: () = assert!(size_of::<Option<Known>>() == 8 && size_of::<Subscriptions>() == 24);

impl Subscriptions {
    #[inline]
    fn known(&self, key: u32) -> Option<&Known> {
        match self {
            Subscriptions::List(list) => list.get(key as usize)?.as_ref(),
            Subscriptions::Spread(all) => all.get(key),
        }
    }

    #[inline]
    fn known_mut(&mut self, key: u32) -> Option<&mut Known> {
        match self {
            Subscriptions::List(list) => list.get_mut(key as usize)?.as_mut(),
            Subscriptions::Spread(all) => all.get_mut(key),
        }
    }

    /// The marks of one that is there.
    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<Mark> {
        self.known(key).map(|known| known.mark())
    }

    /// A delivery will soon be made: asks memory for what is known of its subscription, without waiting
    /// for it. A million of them are more than the caches hold.
    #[inline]
    pub(super) fn expect(&self, key: u32) {
        match self {
            Subscriptions::List(list) => list.get(key as usize).into_iter().for_each(prefetch),
            Subscriptions::Spread(all) => all.get(key).into_iter().for_each(prefetch),
        }
    }

    /// Notes that a topic of a pattern is announced.
    pub(super) fn announce(&mut self, key: u32) {
        if let Some(known) = self.known_mut(key) {
            *known = Known(known.0 | u64::from(Mark::ANNOUNCED.0));
        }
    }

    /// Of a subscription to one topic: notes what is sent; what was sent before it.
    #[inline]
    pub(super) fn send(&mut self, key: u32, sent: Sent) -> Sent {
        let Some(known) = self.known_mut(key) else { return Sent::default() };
        let mark = Mark(known.mark().0 & !Mark::BASE.0).with(Mark::BASE, sent.is_base);
        std::mem::replace(known, Known::new(mark, sent.next)).sent()
    }

    /// Takes one in under a number that is free and below the limit.
    pub(super) fn begin(&mut self, key: u32, mark: Mark) {
        let (place, known) = (key as usize, Known::new(mark, 0));
        match self {
            Subscriptions::List(list) if may_list(list, list.capacity(), place) => {
                if list.is_empty() {
                    list.reserve_exact(place + 1);
                }
                if place >= list.len() {
                    list.resize(place + 1, None);
                }
                if let Some(slot) = list.get_mut(place) {
                    *slot = Some(known);
                }
            }
            Subscriptions::List(list) => {
                let mut all = Numbered::default();
                for (before, number) in list.iter().zip(0..) {
                    if let Some(before) = before {
                        all.insert(number, *before);
                    }
                }
                all.insert(key, known);
                *self = Subscriptions::Spread(Box::new(all));
            }
            Subscriptions::Spread(all) => all.insert(key, known),
        }
    }

    /// Frees a number.
    pub(super) fn end(&mut self, key: u32) {
        let is_empty = match self {
            Subscriptions::List(list) => {
                if let Some(slot) = list.get_mut(key as usize) {
                    *slot = None;
                }
                while list.pop_if(|last| last.is_none()).is_some() {}
                list.is_empty()
            }
            Subscriptions::Spread(all) => {
                all.remove(key);
                all.is_empty()
            }
        };
        if is_empty {
            *self = Subscriptions::default();
        }
    }
}

/// Numbers below this are always places in a list.
const LOW: usize = 64;

/// Whether a number may be a place in the list: it is the next, and when the list has to move for it, a
/// quarter of its places is in use. So the list is not much longer than the most entries it ever had.
fn may_list(list: &[Option<Known>], capacity: usize, place: usize) -> bool {
    let has_room = || list.len() < capacity || list.iter().flatten().count() * 4 >= list.len();
    place < LOW.max(list.len()) || place == list.len() && has_room()
}

/// A SUBSCRIBE that has not been answered.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    request: u32,
    key: u32,
    resumes: bool,
}

/// The SUBSCRIBEs that have not been answered, rising by request.
#[derive(Debug, Default)]
pub(super) struct Unanswered {
    waiting: VecDeque<Waiting>,
    /// How many of them resume.
    resuming: u32,
}

impl Unanswered {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether some subscription is to get what it missed.
    pub(super) fn resumes(&self) -> bool {
        self.resuming > 0
    }

    pub(super) fn push(&mut self, request: u32, key: u32, resumes: bool) {
        self.waiting.push_back(Waiting { request, key, resumes });
        self.resuming += u32::from(resumes);
    }

    /// The subscription whose SUBSCRIBE is that request.
    pub(super) fn key_of(&self, request: u32) -> Option<u32> {
        let at = self.waiting.binary_search_by_key(&request, |waiting| waiting.request).ok()?;
        Some(self.waiting.get(at)?.key)
    }

    /// Answers one; the subscription's number if it was there.
    pub(super) fn answer(&mut self, request: u32) -> Option<u32> {
        let at = self.waiting.binary_search_by_key(&request, |waiting| waiting.request).ok()?;
        let waiting = self.waiting.remove(at)?;
        self.resuming -= u32::from(waiting.resumes);
        Some(waiting.key)
    }

    /// Gives up on the subscription of that number, if it is one of them; there is one at most. The
    /// search begins with the last, so that subscribing and unsubscribing again and again stays cheap.
    pub(super) fn forget(&mut self, key: u32) {
        let Some(at) = self.waiting.iter().rposition(|waiting| waiting.key == key) else { return };
        if let Some(waiting) = self.waiting.remove(at) {
            self.resuming -= u32::from(waiting.resumes);
        }
    }

    /// Answers all of a stretch of requests.
    pub(super) fn confirm(&mut self, confirm: Confirm) {
        if confirm.from == confirm.to {
            self.answer(confirm.from);
            return;
        }
        let resuming = &mut self.resuming;
        self.waiting.retain(|waiting| {
            let stays = !(confirm.from..=confirm.to).contains(&waiting.request);
            *resuming -= u32::from(!stays && waiting.resumes);
            stays
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_taken_and_freed() {
        let mut all = Subscriptions::default();
        all.begin(3, Mark::DELTAS);
        assert_eq!((all.get(0), all.get(4)), (None, None));
        assert!(all.get(3).is_some_and(|mark| mark.has(Mark::DELTAS) && !mark.has(Mark::PATTERN)));
        let sent = |next, is_base| Sent { next, is_base };
        assert_eq!(all.send(3, sent(8, true)), Sent::default());
        assert_eq!(all.send(3, sent(1 << 40, false)), sent(8, true));
        assert_eq!(all.send(3, sent(9, true)), sent(1 << 40, false));
        assert_eq!(all.send(9, sent(1, true)), Sent::default());
        assert!(all.get(3).is_some_and(|mark| mark.has(Mark::DELTAS)));
        all.end(9);
        all.end(3);
        assert!(all.get(3).is_none());
        assert!(matches!(all, Subscriptions::List(list) if list.capacity() == 0));
    }

    #[test]
    fn numbers_that_count_up_stay_in_the_list_as_long_as_they_are_in_use() {
        let mut all = Subscriptions::default();
        (0..10_000).for_each(|key| all.begin(key, Mark::DELTAS));
        assert!(matches!(&all, Subscriptions::List(list) if list.len() == 10_000));
        // One after the other, and one at a time.
        let mut all = Subscriptions::default();
        for key in 0..10_000 {
            all.begin(key + 1, Mark::DELTAS);
            all.end(key);
        }
        assert!(matches!(&all, Subscriptions::Spread(all) if all.len() == 1));
        assert!(all.get(10_000).is_some() && all.get(9_999).is_none());
    }

    #[test]
    fn a_high_number_takes_no_more_than_a_low_one() {
        let mut all = Subscriptions::default();
        let sent = |next| Sent { next, is_base: false };
        all.begin(1, Mark::DELTAS);
        all.send(1, sent(7));
        all.begin(9_000_000, Mark::PATTERN);
        all.announce(9_000_000);
        assert!(all.get(9_000_000).is_some_and(|mark| mark.has(Mark::ANNOUNCED)));
        assert_eq!((all.send(1, sent(8)), all.get(64)), (sent(7), None));
        assert!(matches!(&all, Subscriptions::Spread(all) if all.len() == 2));
        all.end(1);
        all.end(2);
        assert!(all.get(1).is_none() && all.get(9_000_000).is_some());
        all.end(9_000_000);
        assert!(matches!(all, Subscriptions::List(list) if list.capacity() == 0));
    }

    #[test]
    fn answers_come_in_any_order() {
        let mut all = Unanswered::default();
        for (request, resumes) in [(1, false), (2, true), (5, true), (6, false)] {
            all.push(request, request * 10, resumes);
        }
        assert_eq!((all.answer(5), all.answer(5), all.answer(3)), (Some(50), None, None));
        assert!(all.resumes());
        all.confirm(Confirm { from: 1, to: 4 });
        assert!(!all.resumes() && !all.is_empty());
        all.confirm(Confirm::one(6));
        assert!(all.is_empty());
        all.push(7, 70, true);
        all.push(8, 80, false);
        all.forget(70);
        all.forget(90);
        assert!(!all.resumes());
        assert_eq!((all.answer(7), all.answer(8)), (None, Some(80)));
    }
}
