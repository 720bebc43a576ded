//! Versions of messages in the order of their queue.
//!
//! ```text
//!   version = rank (upper 16 bits) │ number (lower 48 bits)
//! ```
//! Numbers rise by one with each message of a queue. A queue that orders by priority puts its messages into ranks, the most
//! urgent first; all other queues have the first rank alone, so that a version is a number there. Relies on nothing.
//! Invariant: versions are in the order in which messages are given out.

use crate::PRIORITY_MAX;

/// Bits of a number: with a rank above them a version is exact as a number of JavaScript.
const NUMBER_BITS: u32 = 48;
const _: () = assert!((PRIORITY_MAX as u64 + 1) << NUMBER_BITS < 1 << 53);

/// The rank of a version: zero for the most urgent.
#[inline]
pub const fn rank_of(version: u64) -> u64 {
    version >> NUMBER_BITS
}

/// The number of a version.
#[inline]
pub const fn number_of(version: u64) -> u64 {
    version & ((1 << NUMBER_BITS) - 1)
}

/// The version of a number in a rank; the highest there is if that is too high.
#[inline]
pub const fn version_of(rank: u64, number: u64) -> u64 {
    match rank >> (u64::BITS - NUMBER_BITS) {
        0 => (rank << NUMBER_BITS).saturating_add(number),
        _ => u64::MAX,
    }
}

/// The rank of messages of a priority in a queue that orders by it.
#[inline]
pub const fn rank_of_priority(priority: u8) -> u64 {
    PRIORITY_MAX.saturating_sub(priority) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_version_says_its_rank_and_its_number(priority in 0..=PRIORITY_MAX, number in 0u64..1 << NUMBER_BITS) {
            let rank = rank_of_priority(priority);
            let version = version_of(rank, number);
            prop_assert_eq!((rank_of(version), number_of(version)), (rank, number));
            prop_assert!(version < 1 << 53);
        }

        #[test]
        fn versions_are_in_the_order_of_ranks_and_numbers(one: (u16, u64), other: (u16, u64)) {
            let [one, other] = [one, other].map(|(rank, number)| (u64::from(rank), number_of(number)));
            let versions = [one, other].map(|(rank, number)| version_of(rank, number));
            prop_assert_eq!(versions[0].cmp(&versions[1]), one.cmp(&other));
        }

        #[test]
        fn what_is_too_high_is_the_highest(rank: u64, number: u64) {
            let exact = (u128::from(rank) << NUMBER_BITS) + u128::from(number);
            prop_assert_eq!(u128::from(version_of(rank, number)), exact.min(u128::from(u64::MAX)));
        }
    }
}
