//! What the store has refused, to be appended again when it works.
//!
//! Settlements of a stream are kept as stretches of versions that are apart, so that a queue which is drained while the
//! store is full takes one of them; all else is noted once by its subject. Relies on nothing. Invariants: noting
//! something takes as long whatever is noted already, but for the depth of a tree; there are no more stretches than
//! messages in the store.

use std::collections::{BTreeMap, BTreeSet};

use crate::RecordSubject;

/// Subjects that were refused.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// All but settlements.
    subjects: BTreeSet<RecordSubject>,
    /// By stream and first version: the last.
    settled: BTreeMap<(u64, u64), u64>,
}

impl Refused {
    /// A record about that was refused.
    pub(crate) fn note(&mut self, subject: RecordSubject) {
        match subject {
            RecordSubject::Settled(stream, first, last) => {
                if !self.subjects.contains(&RecordSubject::Gone(stream)) {
                    self.note_settled(stream, first, last);
                }
            }
            RecordSubject::Gone(stream) => {
                // With all its messages.
                while let Some((key, _)) =
                    self.settled.range((stream, 0)..=(stream, u64::MAX)).next()
                {
                    let key = *key;
                    self.settled.remove(&key);
                }
                self.subjects.insert(subject);
            }
            _ => {
                self.subjects.insert(subject);
            }
        }
    }

    fn note_settled(&mut self, stream: u64, first: u64, last: u64) {
        let (mut first, mut last) = (first, last);
        // What overlaps it or is next to it becomes part of it, from behind.
        while let Some(((_, start), end)) =
            self.settled.range((stream, 0)..=(stream, last.saturating_add(1))).next_back()
            && end.saturating_add(1) >= first
        {
            let (start, end) = (*start, *end);
            self.settled.remove(&(stream, start));
            (first, last) = (first.min(start), last.max(end));
        }
        self.settled.insert((stream, first), last);
    }

    /// Whether something is noted that is no settlement.
    pub(crate) fn has(&self, subject: RecordSubject) -> bool {
        self.subjects.contains(&subject)
    }

    /// Whether the end of a stream is noted.
    pub(crate) fn has_ends(&self) -> bool {
        let ends = RecordSubject::Gone(0)..=RecordSubject::Gone(u64::MAX);
        self.subjects.range(ends).next().is_some()
    }

    /// Whether a settlement is noted.
    pub(crate) fn has_settled(&self) -> bool {
        !self.settled.is_empty()
    }

    /// Whether something is noted that makes room and takes none.
    pub(crate) fn takes_away(&self) -> bool {
        self.has_ends() || self.has_settled()
    }

    /// Takes out what makes room and takes none, at most so many: ends of streams, then settlements.
    pub(crate) fn take_ends(&mut self, most: usize) -> Vec<RecordSubject> {
        let ends = RecordSubject::Gone(0)..=RecordSubject::Gone(u64::MAX);
        let mut taken: Vec<_> = self.subjects.range(ends).take(most).copied().collect();
        for subject in &taken {
            self.subjects.remove(subject);
        }
        while taken.len() < most
            && let Some(((stream, first), last)) = self.settled.pop_first()
        {
            taken.push(RecordSubject::Settled(stream, first, last));
        }
        taken
    }

    /// Takes out the last one that is no settlement.
    pub(crate) fn take_last(&mut self) -> Option<RecordSubject> {
        self.subjects.pop_last()
    }

    /// Takes out all, in the order in which they are to be appended.
    pub(crate) fn take(&mut self) -> Vec<RecordSubject> {
        let settled = std::mem::take(&mut self.settled).into_iter();
        let settled =
            settled.map(|((stream, first), last)| RecordSubject::Settled(stream, first, last));
        let mut all: Vec<_> = std::mem::take(&mut self.subjects).into_iter().collect();
        let at = all.partition_point(|subject| *subject < RecordSubject::Settled(0, 0, 0));
        drop(all.splice(at..at, settled));
        all
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn settlements_are_stretches_that_are_apart_and_in_order(
            noted in proptest::collection::vec((0u64..3, 0u64..40, 0u64..6, any::<bool>()), 1..60),
            most in 1usize..10,
        ) {
            let mut refused = Refused::default();
            let (mut model, mut gone) = (BTreeSet::new(), BTreeSet::new());
            for (stream, first, more, ends) in noted {
                if ends && more == 0 && first < 3 {
                    refused.note(RecordSubject::Gone(stream));
                    gone.insert(stream);
                } else {
                    refused.note(RecordSubject::Settled(stream, first, first + more));
                    model.extend((first..=first + more).map(|version| (stream, version)));
                }
                model.retain(|(stream, _)| !gone.contains(stream));
                prop_assert_eq!(refused.has_ends(), !gone.is_empty());
            }
            refused.note(RecordSubject::Numbers);
            refused.note(RecordSubject::View(1));
            let mut all = Vec::new();
            if most.is_multiple_of(2) {
                all = refused.take();
                prop_assert!(all.is_sorted());
            } else {
                loop {
                    let some = refused.take_ends(most);
                    prop_assert!(some.len() <= most);
                    if some.is_empty() {
                        break;
                    }
                    all.extend(some);
                }
                prop_assert_eq!(refused.take_last(), Some(RecordSubject::View(1)));
                prop_assert!(refused.has(RecordSubject::Numbers));
            }
            let mut before: Option<(u64, u64)> = None;
            for subject in all {
                match subject {
                    RecordSubject::Settled(stream, first, last) => {
                        let apart = before.is_none_or(|it| it < (stream, first.saturating_sub(1)));
                        prop_assert!(apart, "{:?} behind {:?}", subject, before);
                        before = Some((stream, last));
                        for version in first..=last {
                            prop_assert!(model.remove(&(stream, version)));
                        }
                    }
                    RecordSubject::Gone(stream) => prop_assert!(gone.remove(&stream)),
                    _ => {}
                }
            }
            prop_assert!(model.is_empty() && gone.is_empty());
        }
    }
}
