//! Which messages of one record are not needed any more.
//!
//! Relies on nothing. A queue that is settled out of order has a set for most of its records, so a set is never much
//! larger than one bit a message: few ranges are kept as ranges, more of them as bits. Invariant: a set has
//! numbers of its record only.

/// Ranges of a set that are kept as they are, whatever the record.
const RANGES_MIN: usize = 4;

/// Messages of a record, by their distance from its first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// Of a record of up to 64 messages.
    Word(u64),
    /// First and last of each range, rising and apart.
    Ranges(Vec<(u32, u32)>),
    /// A bit for each message.
    Words(Box<[u64]>),
}

const _: () = assert!(size_of::<Gone>() <= 24, "there may be one for each record");

impl Gone {
    /// None of the messages of a record.
    pub(crate) fn none(count: u32) -> Gone {
        match count {
            0..=64 => Gone::Word(0),
            _ => Gone::Ranges(Vec::new()),
        }
    }

    /// Adds the messages from `first` to `last` of a record of `count`.
    pub(crate) fn add(&mut self, count: u32, first: u32, last: u32) {
        match self {
            Gone::Word(word) => *word |= bits(first, last),
            Gone::Words(words) => set(words, first, last),
            Gone::Ranges(ranges) => {
                let start = ranges.partition_point(|range| range.1 < first.saturating_sub(1));
                let end = ranges.partition_point(|range| range.0 <= last.saturating_add(1));
                let touched = ranges.get(start..end).unwrap_or_default();
                let low = touched.first().map_or(first, |range| range.0.min(first));
                let high = touched.last().map_or(last, |range| range.1.max(last));
                ranges.splice(start..end.max(start), [(low, high)]);
                // A range has the size of 64 bits.
                if ranges.len() > RANGES_MIN && ranges.len() > count as usize / 64 {
                    let mut words = vec![0; count.div_ceil(64) as usize];
                    ranges.iter().for_each(|(first, last)| set(&mut words, *first, *last));
                    *self = Gone::Words(words.into());
                }
            }
        }
    }

    /// Whether these are all messages of a record of `count`.
    pub(crate) fn is_all(&self, count: u32) -> bool {
        match self {
            Gone::Word(word) => *word == bits(0, count.saturating_sub(1)),
            Gone::Ranges(ranges) => ranges.as_slice() == [(0, count.saturating_sub(1))],
            Gone::Words(words) => {
                let gone: u32 = words.iter().map(|word| word.count_ones()).sum();
                gone == count
            }
        }
    }

    /// First and last of each range, rising and apart, of a record that begins with that number.
    pub(crate) fn ranges(&self, sequence: u64) -> Vec<(u64, u64)> {
        let of_record = |(first, last)| (sequence + u64::from(first), sequence + u64::from(last));
        match self {
            Gone::Word(word) => ranges_of(&[*word]).into_iter().map(of_record).collect(),
            Gone::Ranges(ranges) => ranges.iter().copied().map(of_record).collect(),
            Gone::Words(words) => ranges_of(words).into_iter().map(of_record).collect(),
        }
    }
}

/// The bits from `first` to `last` of a word.
fn bits(first: u32, last: u32) -> u64 {
    (u64::MAX << first.min(63)) & (u64::MAX >> (63 - last.min(63)))
}

fn set(words: &mut [u64], first: u32, last: u32) {
    let (start, end) = (first / 64, last / 64);
    for (word, at) in words.iter_mut().zip(0..).take(end as usize + 1).skip(start as usize) {
        let low = if at == start { first % 64 } else { 0 };
        let high = if at == end { last % 64 } else { 63 };
        *word |= bits(low, high);
    }
}

fn ranges_of(words: &[u64]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for (word, start) in words.iter().zip((0..).step_by(64)) {
        let mut left = *word;
        while left != 0 {
            let low = left.trailing_zeros();
            let length = (!(left >> low)).trailing_zeros();
            let (first, last) = (start + low, start + low + length - 1);
            match ranges.last_mut() {
                Some(before) if before.1 + 1 == first => before.1 = last,
                _ => ranges.push((first, last)),
            }
            left &= !bits(low, low + length - 1);
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_set_of_numbers_does_the_same(
            count in 1u32..300,
            ranges in proptest::collection::vec((0u32..300, 0u32..12), 0..60),
        ) {
            let mut gone = Gone::none(count);
            let mut model = BTreeSet::new();
            for (first, more) in ranges {
                let first = first % count;
                let last = (first + more).min(count - 1);
                gone.add(count, first, last);
                model.extend(u64::from(first) + 1000..=u64::from(last) + 1000);
                let found = gone.ranges(1000);
                prop_assert!(found.iter().flat_map(|(first, last)| *first..=*last).eq(model.iter().copied()));
                prop_assert!(found.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert_eq!(gone.is_all(count), model.len() == count as usize);
            }
        }
    }

    #[test]
    fn a_set_is_never_much_larger_than_a_bit_for_each_message() {
        for count in [10u32, 59, 64, 65, 1000, 100_000] {
            let mut gone = Gone::none(count);
            for message in (0..count).step_by(2) {
                gone.add(count, message, message);
                let bytes = match &gone {
                    Gone::Word(_) => 0,
                    Gone::Ranges(ranges) => ranges.capacity() * 8,
                    Gone::Words(words) => words.len() * 8,
                };
                assert!(bytes <= 100 + count as usize / 4, "{bytes} bytes for {count} messages");
            }
        }
    }

    #[test]
    fn a_record_of_very_many_messages_costs_what_is_said_of_it() {
        let mut gone = Gone::none(u32::MAX);
        gone.add(u32::MAX, u32::MAX - 1, u32::MAX - 1);
        gone.add(u32::MAX, 0, 0);
        assert_eq!(gone.ranges(1), [(1, 1), (u64::from(u32::MAX), u64::from(u32::MAX))]);
        gone.add(u32::MAX, 1, u32::MAX - 2);
        assert!(gone.is_all(u32::MAX));
    }
}
