//! How far a shard has heard of each home: the highest number that has come from it.
//!
//! Bookkeeping only. Invariant: what a home sent to this shard with a number above that has yet to come.

use tiderace_base::ShardId;

/// The highest number of each home, by its shard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heard(Vec<u64>);

impl Heard {
    /// Everything has come from a home that it sends here up to a number.
    #[inline]
    pub(crate) fn note(&mut self, home: ShardId, number: u64) {
        match self.0.get_mut(usize::from(home.0)) {
            Some(heard) => *heard = number.max(*heard),
            None => self.note_first(home, number),
        }
    }

    #[cold]
    fn note_first(&mut self, home: ShardId, number: u64) {
        self.0.resize(usize::from(home.0) + 1, 0);
        self.note(home, number);
    }

    /// Up to which number everything has come from a home; zero: of nothing is it known.
    pub(crate) fn of(&self, home: ShardId) -> u64 {
        self.0.get(usize::from(home.0)).copied().unwrap_or(0)
    }
}
