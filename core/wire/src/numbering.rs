//! Numberings: who gave a message its number.
//!
//! A home shard numbers its messages from one up, in one life of its node. A numbering names both, so that
//! numbers of several nodes, or of several lives of one, may stand in one position beside each other.

use tiderace_base::ShardId;
use tiderace_base::limits::SHARDS_MAX;

/// A home shard in one life of its node.
///
/// Less than 2^53, so that every client can keep it as a number, and never less than 2^52, so that it
/// differs from the number of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Numbering(u64);

impl Numbering {
    /// That of a home in the life of an epoch.
    pub const fn new(epoch: u64, home: ShardId) -> Numbering {
        let life = (epoch & LIFE_MASK) | LIFE_MARK;
        Numbering((life << SHARD_BITS) | (home.0 as u64 & SHARD_MASK))
    }

    /// The home among the shards of its node.
    pub const fn home(self) -> ShardId {
        ShardId((self.0 & SHARD_MASK) as u16)
    }

    /// Whether the numbers were given in the life of that epoch.
    pub const fn is_of(self, epoch: u64) -> bool {
        self.0 >> SHARD_BITS == Numbering::new(epoch, ShardId(0)).0 >> SHARD_BITS
    }

    /// As it is written where no epoch is known.
    pub const fn whole(self) -> u64 {
        self.0
    }

    /// As it is written where an epoch is known: a numbering of that epoch by its home alone, which is
    /// shorter, and any other as a whole.
    pub(crate) const fn beside(self, epoch: u64) -> u64 {
        if self.is_of(epoch) { self.home().0 as u64 } else { self.0 }
    }

    /// What is meant by a number that is written where an epoch is known; `None` if nothing is.
    pub const fn read(epoch: u64, written: u64) -> Option<Numbering> {
        if written < SHARDS_MAX as u64 {
            return Some(Numbering::new(epoch, ShardId(written as u16)));
        }
        if written >> SHARD_BITS >> LIFE_BITS == 0 && (written >> SHARD_BITS) & LIFE_MARK != 0 {
            return Some(Numbering(written));
        }
        None
    }
}

const SHARD_BITS: u32 = 6;
const SHARD_MASK: u64 = (1 << SHARD_BITS) - 1;
/// The highest of them is always set.
const LIFE_BITS: u32 = 47;
const LIFE_MARK: u64 = 1 << (LIFE_BITS - 1);
const LIFE_MASK: u64 = LIFE_MARK - 1;
const _: () = assert!(SHARDS_MAX == 1 << SHARD_BITS, "a shard's number has its bits");
const _: () = assert!(SHARD_BITS + LIFE_BITS == 53, "JavaScript's numbers are exact up to there");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_numbering_is_read_as_it_was_written(
            epoch: u64,
            other: u64,
            home in 0u16..SHARDS_MAX as u16,
        ) {
            let numbering = Numbering::new(epoch, ShardId(home));
            prop_assert_eq!(numbering.home(), ShardId(home));
            prop_assert!(numbering.is_of(epoch));
            prop_assert_eq!(numbering.beside(epoch), u64::from(home));
            prop_assert_eq!(Numbering::read(epoch, u64::from(home)), Some(numbering));
            prop_assert_eq!(numbering.is_of(other), (epoch ^ other) & LIFE_MASK == 0);
            prop_assert_eq!(Numbering::read(other, numbering.beside(other)), Some(numbering));
            prop_assert!(((1 << 52)..(1 << 53)).contains(&numbering.0));
        }

        #[test]
        fn any_number_is_a_numbering_or_none(epoch: u64, written: u64) {
            if let Some(numbering) = Numbering::read(epoch, written) {
                let again = Numbering::read(epoch, numbering.beside(epoch));
                prop_assert_eq!(again, Some(numbering));
                prop_assert!(written < SHARDS_MAX as u64 || written >> 52 == 1);
            } else {
                prop_assert!(written >= SHARDS_MAX as u64 && written >> 52 != 1);
            }
        }
    }
}
