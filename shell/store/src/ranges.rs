//! A set of numbers as ranges: the messages of one record that are not needed any more.
//!
//! Relies on nothing. Invariant: the ranges rise and lie apart, so a set is as long as its gaps are many.

/// Numbers that belong to the set, as first and last of each range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet(Vec<(u64, u64)>);

impl RangeSet {
    /// Adds the numbers from `first` to `last`.
    pub(crate) fn add(&mut self, first: u64, last: u64) {
        let start = self.0.partition_point(|range| range.1 < first.saturating_sub(1));
        let end = self.0.partition_point(|range| range.0 <= last.saturating_add(1));
        let touched = self.0.get(start..end).unwrap_or_default();
        let low = touched.first().map_or(first, |range| range.0.min(first));
        let high = touched.last().map_or(last, |range| range.1.max(last));
        self.0.splice(start..end.max(start), [(low, high)]);
    }

    /// Whether all numbers from `first` to `last` belong to the set.
    pub(crate) fn covers(&self, first: u64, last: u64) -> bool {
        self.0.iter().any(|range| range.0 <= first && range.1 >= last)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().copied()
    }

    #[cfg(test)]
    pub(crate) fn into_vec(self) -> Vec<(u64, u64)> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_numbers_does_the_same(ranges in proptest::collection::vec((0u64..60, 0u64..12), 0..30)) {
            let mut set = RangeSet::default();
            let mut model = BTreeSet::new();
            for (first, more) in ranges {
                set.add(first, first + more);
                model.extend(first..=first + more);
                let numbers: Vec<u64> = set.iter().flat_map(|(first, last)| first..=last).collect();
                prop_assert!(numbers.iter().eq(model.iter()));
                prop_assert!(set.0.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert_eq!(set.covers(first, first + more), true);
                prop_assert_eq!(set.covers(0, 80), false);
            }
        }
    }

    #[test]
    fn the_ends_of_the_numbers_fit() {
        let mut set = RangeSet::default();
        set.add(u64::MAX, u64::MAX);
        set.add(0, 0);
        set.add(1, u64::MAX - 1);
        assert_eq!(set.into_vec(), [(0, u64::MAX)]);
    }
}
