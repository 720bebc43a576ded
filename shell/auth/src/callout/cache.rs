//! Answers that are remembered for a while, by the hash of their question.
//!
//! The time is passed in. Invariants: no question is kept, only its hash under a key that is another one in every life of
//! the server; there are at most as many answers as the caller allows, of which the oldest goes first.

use std::collections::{HashMap, VecDeque};

use tiderace_base::Time;

/// The hash of a question.
pub(crate) type QuestionHash = [u8; 32];

/// Remembered answers.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    entries: HashMap<QuestionHash, Entry<V>>,
    /// In the order of coming; of an entry that was replaced the earlier places mean nothing.
    order: VecDeque<(QuestionHash, u64)>,
    entries_max: usize,
    number: u64,
}

#[derive(Debug)]
struct Entry<V> {
    value: V,
    fresh_until: Time,
    kept_until: Time,
    number: u64,
}

impl<V: Clone> Cache<V> {
    pub(crate) fn new(entries_max: usize) -> Cache<V> {
        Cache { entries: HashMap::new(), order: VecDeque::new(), entries_max, number: 0 }
    }

    /// The answer, if it need not be asked for again.
    pub(crate) fn fresh(&self, question: &QuestionHash, now: Time) -> Option<V> {
        let entry = self.entries.get(question).filter(|entry| now < entry.fresh_until);
        entry.map(|entry| entry.value.clone())
    }

    /// The last answer, for while nobody answers.
    pub(crate) fn kept(&self, question: &QuestionHash, now: Time) -> Option<V> {
        let entry = self.entries.get(question).filter(|entry| now < entry.kept_until);
        entry.map(|entry| entry.value.clone())
    }

    /// Remembers an answer until the later of two times, if that lies ahead.
    pub(crate) fn put(
        &mut self,
        question: QuestionHash,
        value: V,
        now: Time,
        (fresh_until, kept_until): (Time, Time),
    ) {
        self.remove(&question);
        if fresh_until.max(kept_until) <= now || self.entries_max == 0 {
            return;
        }
        while self.entries.len() >= self.entries_max
            && let Some((oldest, number)) = self.order.pop_front()
        {
            if self.entries.get(&oldest).is_some_and(|entry| entry.number == number) {
                self.entries.remove(&oldest);
            }
        }
        self.number += 1;
        let number = self.number;
        self.entries.insert(question, Entry { value, fresh_until, kept_until, number });
        self.order.push_back((question, number));
        if self.order.len() > 2 * self.entries_max {
            let entries = &self.entries;
            let counts = |(question, number): &(QuestionHash, u64)| {
                entries.get(question).is_some_and(|entry| entry.number == *number)
            };
            self.order.retain(counts);
        }
    }

    /// Forgets an answer.
    pub(crate) fn remove(&mut self, question: &QuestionHash) {
        self.entries.remove(question);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn answers_are_fresh_and_then_kept_and_then_gone() {
        let mut cache = Cache::new(2);
        cache.put([1; 32], "one", at(0), (at(10), at(100)));
        assert_eq!(cache.fresh(&[1; 32], at(9)), Some("one"));
        assert_eq!(
            (cache.fresh(&[1; 32], at(10)), cache.kept(&[1; 32], at(10))),
            (None, Some("one"))
        );
        assert_eq!(cache.kept(&[1; 32], at(100)), None);
        cache.put([2; 32], "never", at(5), (at(5), at(0)));
        assert_eq!(cache.kept(&[2; 32], at(5)), None, "an answer that must not be remembered");
    }

    #[test]
    fn the_oldest_answer_makes_room_and_the_table_stays_bounded() {
        let mut cache = Cache::new(3);
        for number in 0..100_u8 {
            cache.put([number; 32], number, at(0), (at(9), at(9)));
            // One that is renewed all the time is never the oldest.
            cache.put([200; 32], 200, at(0), (at(9), at(9)));
            assert!(cache.entries.len() <= 3 && cache.order.len() <= 6, "{}", cache.order.len());
            assert_eq!(cache.fresh(&[200; 32], at(1)), Some(200));
        }
        assert_eq!(cache.fresh(&[99; 32], at(1)), Some(99));
        assert_eq!(cache.fresh(&[90; 32], at(1)), None);
    }
}
