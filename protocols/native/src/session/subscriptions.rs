//! What is known of each subscription: one byte, found by the client's own number.
//!
//! Relies on clients choosing low numbers; the broker holds the rest.

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
    /// The first update has been sent; of a pattern, some topic has been announced.
    pub(super) const INTRODUCED: Mark = Mark(4);
    /// Deltas may be sent.
    pub(super) const DELTAS: Mark = Mark(8);

    pub(super) fn has(self, other: Mark) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn with(self, other: Mark, is: bool) -> Mark {
        if is { Mark(self.0 | other.0) } else { self }
    }
}

/// All subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct Subscriptions(Vec<Mark>);

impl Subscriptions {
    /// The marks of one that is there.
    #[inline]
    pub(super) fn get(&self, key: u32) -> Option<Mark> {
        self.0.get(key as usize).copied().filter(|mark| mark.has(Mark::USED))
    }

    /// Notes that its first update is on its way; whether it was so before.
    #[inline]
    pub(super) fn introduce(&mut self, key: u32) -> bool {
        self.0.get_mut(key as usize).is_some_and(|mark| {
            let before = mark.has(Mark::INTRODUCED);
            *mark = mark.with(Mark::INTRODUCED, true);
            before
        })
    }

    /// Takes one in under a number that is free and below the limit.
    pub(super) fn begin(&mut self, key: u32, mark: Mark) {
        let place = key as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Mark::default());
        }
        if let Some(known) = self.0.get_mut(place) {
            *known = mark.with(Mark::USED, true);
        }
    }

    /// Frees a number.
    pub(super) fn end(&mut self, key: u32) {
        if let Some(known) = self.0.get_mut(key as usize) {
            *known = Mark::default();
        }
        while self.0.pop_if(|last| !last.has(Mark::USED)).is_some() {}
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
        assert_eq!((all.introduce(3), all.introduce(3), all.introduce(9)), (false, true, false));
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
