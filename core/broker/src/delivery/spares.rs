//! Backlogs that ran empty, kept to be filled again.
//!
//! Sessions that are sent a few messages many times a second would otherwise get their backlog anew, and
//! let it grow step by step, for each round. They belong to the shard, not to a session: one that is
//! idle has none. Invariant: what is not needed from one tick to the next is given back, half at a time.

use crate::delivery::backlog::Backlog;

/// The spares of a shard.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    // They move in and out as the pointers that sessions hold.
    #[allow(clippy::vec_box)]
    list: Vec<Box<Backlog>>,
    /// How many there were at least since the last tick.
    least: usize,
}

impl Spares {
    /// An empty backlog.
    pub(crate) fn take(&mut self) -> Box<Backlog> {
        let spare = self.list.pop();
        self.least = self.least.min(self.list.len());
        spare.unwrap_or_default()
    }

    /// Keeps a backlog that can be forgotten, unless there are enough or it is large.
    #[inline]
    pub(crate) fn give(&mut self, backlog: Box<Backlog>) {
        if self.list.len() < SPARES_MAX && backlog.is_worth_keeping() {
            self.list.push(backlog);
        }
    }

    /// To be called now and then.
    pub(crate) fn tick(&mut self) {
        let keep = self.list.len() - self.least.div_ceil(2);
        self.list.truncate(keep);
        self.list.shrink_to(2 * keep);
        self.least = keep;
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}

/// About 3 MiB of a shard at most.
const SPARES_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_needed_is_given_back() {
        let mut spares = Spares::default();
        for _ in 0..2 * SPARES_MAX {
            spares.give(Box::default());
        }
        assert_eq!(spares.len(), SPARES_MAX);
        spares.tick();
        // All that are taken between two ticks stay.
        for _ in 0..3 {
            let taken: Vec<_> = (0..SPARES_MAX).map(|_| spares.take()).collect();
            taken.into_iter().for_each(|backlog| spares.give(backlog));
            spares.tick();
            assert_eq!(spares.len(), SPARES_MAX);
        }
        for _ in 0..12 {
            spares.tick();
        }
        assert_eq!(spares.len(), 0);
    }
}
