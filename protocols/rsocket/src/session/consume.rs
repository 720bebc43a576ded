//! Request-streams of queues: demand settles.
//!
//! A client that asks for more has done with what it had: each item asked for accepts the oldest one
//! that is not settled. What it has not done with when it cancels, or goes, comes to others.
//!
//! Relies on messages coming in the order in which they are noted here. Invariant: each message is
//! settled once, or given back by the end of its subscription.

use std::collections::VecDeque;

use tiderace_base::ShardId;
use tiderace_wire::{Command, Context, Outcome, Settle, SubscriptionKey};

use super::RSocketSession;
use super::streams::Stream;

/// A consumer of queues.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) key: SubscriptionKey,
    /// Whether demand settles.
    explicit: bool,
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
    fn settle(&mut self, count: usize) -> Vec<(ShardId, Vec<(u64, u64)>)> {
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

impl RSocketSession {
    /// More messages are wanted.
    pub(super) fn consume_more(&mut self, stream: u32, items: u32, context: &mut Context<'_>) {
        let Some(Stream::Consuming(consumer)) = self.streams.get_mut(stream) else { return };
        let key = consumer.key;
        if !consumer.explicit {
            return;
        }
        for (home, ranges) in consumer.settle(items as usize) {
            let outcome = Outcome::Accept;
            let settle = Settle { key, home, ranges, outcome, confirm: None };
            context.commands.push(Command::Settle(settle));
        }
        context.commands.push(Command::Credit { key, messages: u64::from(items) });
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
