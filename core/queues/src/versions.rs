//! Sets of versions, as stretches.
//!
//! Relies on nothing. Invariant: stretches rise, lie apart, and do not touch.

use std::collections::BTreeMap;

/// Some versions.
#[derive(Debug, Default)]
pub(crate) struct Versions {
    /// The last of each stretch by the first.
    stretches: BTreeMap<u64, u64>,
    /// How many versions they have.
    count: u64,
}

impl Versions {
    pub(crate) fn clear(&mut self) {
        *self = Versions::default();
    }

    /// How many are in the set.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds all between two versions, both included.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let (mut low, mut high) = (first, last);
        while let Some((start, end)) = self.stretch_up_to(last.saturating_add(1))
            && end.saturating_add(1) >= first
        {
            self.take_stretch((start, end));
            (low, high) = (low.min(start), high.max(end));
        }
        self.put_stretch((low, high));
    }

    /// Takes out all between two versions, both included.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        while let Some((start, end)) = self.stretch_up_to(last)
            && end >= first
        {
            self.take_stretch((start, end));
            if start < first {
                self.put_stretch((start, first - 1));
            }
            if end > last {
                self.put_stretch((last + 1, end));
            }
        }
    }

    /// Whether any between two versions, both included, is in the set.
    pub(crate) fn has_any(&self, first: u64, last: u64) -> bool {
        self.stretch_up_to(last).is_some_and(|(_, end)| end >= first)
    }

    /// The stretches between two versions, both included, that are not in the set.
    pub(crate) fn gaps(&self, first: u64, last: u64) -> Vec<(u64, u64)> {
        let (mut gaps, mut next) = (Vec::new(), first);
        let before = self.stretch_up_to(first).filter(|(_, end)| *end >= first);
        let start = before.map_or(first, |(start, _)| start);
        for (start, end) in self.stretches.range(start..=last.max(start)) {
            if *start > last {
                break;
            }
            if *start > next {
                gaps.push((next, start - 1));
            }
            next = end.saturating_add(1);
        }
        if next <= last {
            gaps.push((next, last));
        }
        gaps
    }

    /// The first in the set.
    pub(crate) fn first(&self) -> Option<u64> {
        self.stretches.first_key_value().map(|(first, _)| *first)
    }

    /// The first from a version on that is not in the set.
    pub(crate) fn first_gap(&self, from: u64) -> u64 {
        let stretch = self.stretch_up_to(from).filter(|(_, end)| *end >= from);
        stretch.map_or(from, |(_, end)| end.saturating_add(1))
    }

    fn put_stretch(&mut self, (start, end): (u64, u64)) {
        self.count += end - start + 1;
        self.stretches.insert(start, end);
    }

    fn take_stretch(&mut self, (start, end): (u64, u64)) {
        self.count -= end - start + 1;
        self.stretches.remove(&start);
    }

    /// The last stretch that begins at a version or before it.
    fn stretch_up_to(&self, version: u64) -> Option<(u64, u64)> {
        self.stretches.range(..=version).next_back().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_numbers_does_the_same(
            steps in proptest::collection::vec((any::<bool>(), 1u64..60, 0u64..9), 0..60),
            from in 0u64..70,
            more in 0u64..30,
        ) {
            let (mut versions, mut model) = (Versions::default(), BTreeSet::new());
            for (adds, first, more) in steps {
                let last = first + more;
                if adds {
                    versions.add(first, last);
                    model.extend(first..=last);
                } else {
                    versions.remove(first, last);
                    model.retain(|version| !(first..=last).contains(version));
                }
                let all = versions.stretches.iter().flat_map(|(first, last)| *first..=*last);
                prop_assert!(all.eq(model.iter().copied()));
                prop_assert_eq!(versions.count(), model.len() as u64);
                let pairs: Vec<_> = versions.stretches.iter().collect();
                prop_assert!(pairs.windows(2).all(|pair| *pair[0].1 + 1 < *pair[1].0));
            }
            let to = from + more;
            let gaps: Vec<u64> = versions.gaps(from, to).iter().flat_map(|(first, last)| *first..=*last).collect();
            let expected: Vec<u64> = (from..=to).filter(|version| !model.contains(version)).collect();
            prop_assert_eq!(versions.first(), model.first().copied());
            prop_assert_eq!(versions.has_any(from, to), expected.len() as u64 != more + 1);
            prop_assert_eq!(gaps, expected);
            let gap = (from..).find(|version| !model.contains(version));
            prop_assert_eq!(Some(versions.first_gap(from)), gap);
        }
    }
}
