//! Things under numbers that somebody else chooses.
//!
//! Low numbers are places in a list, as is right for numbers that are used again. A number far above the
//! count of entries is in a map: so memory and time go by how many entries there are and not by the
//! highest number. Invariants: no number holds two entries; the list is not longer than some few places
//! for each of the most entries that were ever there.

use std::collections::BTreeMap;

/// Entries by number.
#[derive(Debug)]
pub struct Numbered<T> {
    low: Vec<Option<T>>,
    high: BTreeMap<u32, T>,
    len: usize,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { low: Vec::new(), high: BTreeMap::new(), len: 0 }
    }
}

impl<T> Numbered<T> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of a number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        match self.low.get(number as usize) {
            Some(Some(entry)) => Some(entry),
            _ => self.high.get(&number),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, number: u32) -> Option<&mut T> {
        match self.low.get_mut(number as usize) {
            Some(Some(entry)) => Some(entry),
            _ => self.high.get_mut(&number),
        }
    }

    /// Puts an entry in the place of what was there.
    pub fn insert(&mut self, number: u32, entry: T) {
        if let Some(known) = self.get_mut(number) {
            *known = entry;
            return;
        }
        let place = number as usize;
        if place >= LOW_MIN + 2 * self.len {
            self.high.insert(number, entry);
        } else {
            if place >= self.low.len() {
                self.low.resize_with(place + 1, || None);
            }
            if let Some(slot) = self.low.get_mut(place) {
                *slot = Some(entry);
            }
        }
        self.len += 1;
    }

    /// Takes the entry of a number out.
    pub fn remove(&mut self, number: u32) -> Option<T> {
        let low = self.low.get_mut(number as usize).and_then(Option::take);
        let entry = low.or_else(|| self.high.remove(&number))?;
        self.len -= 1;
        // Later than it could be: who comes and goes at the end of the list does not move it each time.
        if self.low.len() > 2 * LOW_MIN + 4 * self.len {
            while self.low.pop_if(|last| last.is_none()).is_some() {}
            self.low.shrink_to(2 * self.low.len());
        }
        Some(entry)
    }

    /// The numbers in use, rising.
    pub fn numbers(&self) -> Vec<u32> {
        let low = self
            .low
            .iter()
            .zip(0..)
            .filter_map(|(entry, number)| entry.is_some().then_some(number));
        let mut numbers: Vec<u32> = low.collect();
        numbers.extend(self.high.keys());
        if !self.high.is_empty() {
            numbers.sort_unstable();
        }
        numbers
    }

    /// Bytes of the places, used or not.
    #[cfg(test)]
    fn places(&self) -> usize {
        self.low.capacity()
    }
}

/// Numbers below this are always places in the list.
const LOW_MIN: usize = 64;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agree_with_a_map(
            ops in proptest::collection::vec(
                (prop_oneof![0u32..10, 60u32..200, any::<u32>(), Just(u32::MAX)], any::<bool>()),
                1..300,
            ),
        ) {
            let (mut numbered, mut model) = (Numbered::default(), BTreeMap::new());
            for ((number, add), entry) in ops.into_iter().zip(0u64..) {
                if add {
                    numbered.insert(number, entry);
                    model.insert(number, entry);
                } else {
                    prop_assert_eq!(numbered.remove(number), model.remove(&number));
                }
                prop_assert_eq!(numbered.get(number), model.get(&number));
                prop_assert_eq!(numbered.get_mut(number), model.get_mut(&number));
                prop_assert_eq!(numbered.numbers(), model.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!((numbered.len(), numbered.is_empty()), (model.len(), model.is_empty()));
            }
        }
    }

    #[test]
    fn room_goes_by_the_count_and_not_by_the_number() {
        let mut numbered = Numbered::default();
        numbered.insert(50_000_000, 1);
        assert_eq!((numbered.get(50_000_000), numbered.places()), (Some(&1), 0));
        for number in 0..1_000 {
            numbered.insert(number, 2);
        }
        assert!(numbered.places() < 3_000, "{} places", numbered.places());
        let before = numbered.places();
        // One that comes and goes at the end of the list.
        for _ in 0..10 {
            numbered.insert(1_500, 3);
            numbered.remove(1_500);
        }
        assert!(numbered.places() <= 2 * before.max(1_501));
        for number in 0..1_000 {
            numbered.remove(number);
        }
        assert!(numbered.places() <= 2 * LOW_MIN, "{} places", numbered.places());
        assert_eq!(numbered.numbers(), [50_000_000]);
    }
}
