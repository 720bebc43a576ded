//! What is known of each subscription: eight bytes, found by the client's own number.
//!
//! Relies on clients choosing low numbers; the broker holds the rest. Invariant: what is noted as sent
//! last is what the client knows, so that it can compute each version that is not told whole.

use std::collections::VecDeque;

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

/// One subscription: eight bits of marks, and above them the version after the one sent last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Known(u64);

impl Known {
    const VERSION_SHIFT: u32 = 8;

    fn new(mark: Mark, next: u64) -> Known {
        Known(next << Known::VERSION_SHIFT | u64::from(mark.0))
    }

    fn mark(self) -> Mark {
        Mark(self.0 as u8)
    }

    fn sent(self) -> Sent {
        Sent { next: self.0 >> Known::VERSION_SHIFT, is_base: self.mark().has(Mark::BASE) }
    }
}

/// All subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Known>);

impl Subscriptions {
    /// The marks of one that is there.
    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<Mark> {
        self.0.get(key as usize).map(|known| known.mark()).filter(|mark| mark.has(Mark::USED))
    }

    /// Notes that a topic of a pattern is announced.
    pub(super) fn announce(&mut self, key: u32) {
        if let Some(known) = self.0.get_mut(key as usize) {
            *known = Known(known.0 | u64::from(Mark::ANNOUNCED.0));
        }
    }

    /// Of a subscription to one topic: notes what is sent; what was sent before it.
    #[inline]
    pub(super) fn send(&mut self, key: u32, sent: Sent) -> Sent {
        let Some(known) = self.0.get_mut(key as usize) else { return Sent::default() };
        let mark = Mark(known.mark().0 & !Mark::BASE.0).with(Mark::BASE, sent.is_base);
        std::mem::replace(known, Known::new(mark, sent.next)).sent()
    }

    /// Takes one in under a number that is free and below the limit.
    pub(super) fn begin(&mut self, key: u32, mark: Mark) {
        let place = key as usize;
        if self.0.is_empty() {
            // Most sessions have one, and there may be millions of these.
            self.0.reserve_exact(place + 1);
        }
        if place >= self.0.len() {
            self.0.resize(place + 1, Known::default());
        }
        if let Some(known) = self.0.get_mut(place) {
            *known = Known::new(mark.with(Mark::USED, true), 0);
        }
    }

    /// Frees a number.
    pub(super) fn end(&mut self, key: u32) {
        if let Some(known) = self.0.get_mut(key as usize) {
            *known = Known::default();
        }
        while self.0.pop_if(|last| !last.mark().has(Mark::USED)).is_some() {}
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
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
    /// search begins with the last, so that asking and taking back again and again stays cheap.
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
        assert!(all.get(3).is_none() && all.0.capacity() == 0);
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
