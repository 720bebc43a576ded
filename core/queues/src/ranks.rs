//! What is kept for each rank of a queue: its priorities, the most urgent first.
//!
//! Nearly all queues have one rank. Relies on versions that say their rank ([`tiderace_wire::rank_of`]). Invariant: ranks
//! rise, each there once; there are no more of them than have been used.

use tiderace_wire::{rank_of, version_of};

/// A value for each rank for which there is one.
#[derive(Clone, Debug)]
pub(crate) struct PerRank<T>(Vec<(u64, T)>);

impl<T> Default for PerRank<T> {
    fn default() -> PerRank<T> {
        PerRank(Vec::new())
    }
}

impl<T> PerRank<T> {
    pub(crate) fn get(&self, rank: u64) -> Option<&T> {
        self.0.get(self.place(rank).ok()?).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, rank: u64) -> Option<&mut T> {
        let at = self.place(rank).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// The value of a rank, which is made if it is not there; `None` never.
    pub(crate) fn entry(&mut self, rank: u64, make: impl FnOnce() -> T) -> Option<&mut T> {
        let at = match self.place(rank) {
            Ok(at) => at,
            Err(at) => {
                self.0.insert(at, (rank, make()));
                at
            }
        };
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// Sets the value of a rank.
    pub(crate) fn set(&mut self, rank: u64, value: T) {
        match self.get_mut(rank) {
            Some(known) => *known = value,
            None => _ = self.entry(rank, || value),
        }
    }

    /// All values in order, with their ranks.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &T)> {
        self.0.iter().map(|(rank, value)| (*rank, value))
    }

    /// The same without their ranks.
    pub(crate) fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut T> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    fn place(&self, rank: u64) -> Result<usize, usize> {
        // There are ten at most where ranks are priorities, and one where they are not.
        match self.0.first() {
            Some((first, _)) if *first == rank => Ok(0),
            _ => self.0.binary_search_by_key(&rank, |(known, _)| *known),
        }
    }
}

/// The first version of the next rank behind that of a version, which is `u64::MAX` behind the last.
#[inline]
pub(crate) fn behind_rank(version: u64) -> u64 {
    version_of(rank_of(version) + 1, 0)
}

/// The last version of a rank whose number is no higher than that.
#[inline]
pub(crate) fn last_of(rank: u64, number: u64) -> u64 {
    version_of(rank, number).min(version_of(rank + 1, 0).saturating_sub(1))
}
