//! How far a client has come that is not given messages in the order of their numbers: because some
//! topics go before others, or because updates are deferred for a while.
//!
//! Relies on being told of every message that is to be given and of every one that was given or given
//! up. Invariant: no number is reached as long as one up to it is still to be given.

use std::collections::BTreeMap;

use tiderace_base::ShardId;

/// The numbers of one session.
#[derive(Debug, Default)]
pub(crate) struct Marks(Vec<Mark>);

/// The numbers of one home.
#[derive(Debug)]
struct Mark {
    home: ShardId,
    /// Everything up to here was given, or is among what is still to be given.
    offered: u64,
    /// The first numbers of what is still to be given, and how often each.
    waiting: BTreeMap<u64, u32>,
}

impl Mark {
    /// Up to where everything was given.
    fn reached(&self) -> u64 {
        let first = self.waiting.first_key_value();
        first.map_or(self.offered, |(first, _)| self.offered.min(first.saturating_sub(1)))
    }
}

impl Marks {
    fn of(&mut self, home: ShardId) -> &mut Mark {
        let place = match self.0.iter().position(|mark| mark.home == home) {
            Some(place) => place,
            None => {
                self.0.push(Mark { home, offered: 0, waiting: BTreeMap::new() });
                self.0.len() - 1
            }
        };
        #[allow(clippy::indexing_slicing, reason = "it was found or made just before")]
        &mut self.0[place]
    }

    /// Messages from number `first` on are still to be given; with them, everything up to `offered` is.
    pub(crate) fn wait(&mut self, home: ShardId, first: u64, offered: u64) {
        let mark = self.of(home);
        *mark.waiting.entry(first).or_default() += 1;
        mark.offered = mark.offered.max(offered);
    }

    /// They were given, or given up: up to where everything of their home has been given now.
    pub(crate) fn end(&mut self, home: ShardId, first: u64) -> u64 {
        let mark = self.of(home);
        if let Some(count) = mark.waiting.get_mut(&first) {
            *count -= 1;
            if *count == 0 {
                mark.waiting.remove(&first);
            }
        }
        mark.reached()
    }

    /// Everything up to a number was given or waits; whether anything of that home waits.
    pub(crate) fn offer(&mut self, home: ShardId, number: u64) -> bool {
        let mark = self.of(home);
        mark.offered = mark.offered.max(number);
        !mark.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_reached_that_still_waits_and_all_is_in_the_end(
            order in proptest::collection::vec((0u16..2, any::<u16>()), 1..60),
        ) {
            let mut marks = Marks::default();
            let mut next = [1u64; 2];
            let mut waiting: Vec<(ShardId, u64)> = Vec::new();
            for (home, pick) in order {
                if pick % 3 == 0 && !waiting.is_empty() {
                    let (home, number) = waiting.remove(pick as usize % waiting.len());
                    let reached = marks.end(home, number);
                    let least = waiting.iter().filter(|entry| entry.0 == home).map(|entry| entry.1).min();
                    let last = next[home.index()] - 1;
                    prop_assert_eq!(reached, least.map_or(last, |least| least - 1));
                } else {
                    let number = next[home as usize];
                    next[home as usize] += 1;
                    marks.wait(ShardId(home), number, number);
                    waiting.push((ShardId(home), number));
                }
            }
            for home in [0u16, 1] {
                let some = waiting.iter().any(|entry| entry.0 == ShardId(home));
                prop_assert_eq!(marks.offer(ShardId(home), 0), some);
            }
        }
    }
}
