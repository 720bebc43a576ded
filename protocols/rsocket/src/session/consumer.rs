//! A request-stream of queues: what was sent to it and is not settled.
//!
//! Relies on messages coming in the order in which they are noted here. Invariant: each message is
//! taken for settlement once.

use std::collections::VecDeque;

use tiderace_base::ShardId;
use tiderace_wire::SubscriptionKey;

/// A consumer of queues.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) key: SubscriptionKey,
    /// Whether demand settles.
    pub(super) explicit: bool,
    /// What was sent and not settled, the oldest first.
    unsettled: VecDeque<(ShardId, u64)>,
}

impl Consumer {
    pub(super) fn new(key: SubscriptionKey, explicit: bool) -> Consumer {
        Consumer { key, explicit, unsettled: VecDeque::new() }
    }

    /// Messages have been sent.
    pub(super) fn sent(&mut self, home: ShardId, first: u64, count: usize) {
        self.unsettled.extend((first..).take(count).map(|sequence| (home, sequence)));
    }

    /// Takes the oldest ones, in stretches of one home each.
    pub(super) fn settle(&mut self, count: usize) -> Vec<(ShardId, Vec<(u64, u64)>)> {
        let mut all: Vec<(ShardId, Vec<(u64, u64)>)> = Vec::new();
        for (home, sequence) in self.unsettled.drain(..count.min(self.unsettled.len())) {
            if all.last().is_none_or(|(known, _)| *known != home) {
                all.push((home, Vec::new()));
            }
            let Some((_, ranges)) = all.last_mut() else { continue };
            match ranges.last_mut() {
                Some((_, end)) if *end + 1 == sequence => *end = sequence,
                _ => ranges.push((sequence, sequence)),
            }
        }
        if self.unsettled.is_empty() {
            self.unsettled = VecDeque::new();
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_settled_in_stretches() {
        let mut consumer = Consumer::new(SubscriptionKey(0), true);
        consumer.sent(ShardId(1), 5, 3);
        consumer.sent(ShardId(0), 9, 1);
        consumer.sent(ShardId(1), 9, 2);
        assert_eq!(consumer.settle(2), [(ShardId(1), vec![(5, 6)])]);
        let rest =
            [(ShardId(1), vec![(7, 7)]), (ShardId(0), vec![(9, 9)]), (ShardId(1), vec![(9, 10)])];
        assert_eq!(consumer.settle(100), rest);
        assert!(consumer.settle(1).is_empty() && consumer.unsettled.capacity() == 0);
    }
}
