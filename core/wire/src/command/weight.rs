//! How much the commands of a turn count for where clients may send only so much in a time.
//!
//! Invariant: every protocol's clients count alike, for commands are what all of them become.

use super::{Command, Commands};

/// What the commands of a turn count for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Messages that are published or said in exchanges, calls, operations, and subscriptions that begin or end.
    pub messages: u64,
    /// Bytes of properties and bodies.
    pub bytes: u64,
    /// Whether something of it can be refused alone: a message, a call or an operation.
    pub asks: bool,
}

impl Weight {
    fn add(&mut self, messages: usize, bytes: usize, asks: bool) {
        self.messages += messages as u64;
        self.bytes += bytes as u64;
        self.asks |= asks;
    }
}

impl Commands {
    /// What they count for.
    pub fn weight(&mut self) -> Weight {
        self.close_run();
        let mut weight = Weight::default();
        for command in &self.list {
            match command {
                Command::Publish { run, .. } => {
                    let bytes = |it: crate::Message<'_>| it.properties.len() + it.body.len();
                    weight.add(run.len(), run.messages().map(bytes).sum(), true);
                }
                Command::Call(call) => {
                    weight.add(1, call.properties.len() + call.body.len(), true);
                }
                Command::SendExchange(sent) => {
                    weight.add(1, sent.properties.len() + sent.body.len(), false);
                }
                Command::Operate { .. } => weight.add(1, 0, true),
                Command::Subscribe(_) | Command::Unsubscribe { .. } => weight.add(1, 0, false),
                _ => {}
            }
        }
        weight
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{Destination, Kind, Meta, SubscriptionKey};
    use tiderace_topics::Path;

    #[test]
    fn messages_that_share_a_run_count_each() {
        let destination = Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
        let mut commands = Commands::new();
        assert_eq!(commands.weight(), Weight::default());
        commands.push(Command::Unsubscribe { key: SubscriptionKey(0), confirm: None });
        commands.push(Command::Goodbye);
        assert_eq!(commands.weight(), Weight { messages: 1, bytes: 0, asks: false });
        for _ in 0..3 {
            commands.message(&destination).extend_from_slice(b"k:v\n");
            commands.publish(b"body", Meta::default(), None);
        }
        let weight = commands.weight();
        assert_eq!(weight, Weight { messages: 4, bytes: 24, asks: true });
        assert_eq!(commands.drain().count(), 3, "what is weighed is still to be done");
    }
}
