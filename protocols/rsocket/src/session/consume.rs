//! Request-streams of queues: demand settles.
//!
//! A client that asks for more has done with what it had: each item asked for accepts the oldest one
//! that is not settled. What it has not done with when it cancels, or goes, comes to others.
//!
//! Relies on messages coming in the order in which they are noted here. Invariant: each message is
//! settled once, or given back by the end of its subscription.

use tiderace_wire::{Command, Context, Outcome, Settle};

use super::state::RSocketSession;
use super::streams::Stream;

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
