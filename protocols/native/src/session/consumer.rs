//! CONSUMER: what an edge says of consumers that it has for its own clients.
//!
//! Relies on the broker for what becomes of their messages. Invariant: only who has told of principals says it.

use tiderace_base::{Close, CloseCode, ShardId};
use tiderace_wire::{Command, Context, Outcome, Settle, SubscriptionKey};

use super::NativeSession;
use super::subscribe::unknown;
use super::subscriptions::Mark;
use crate::codec::ConsumerMessage;

impl NativeSession {
    pub(super) fn consumer(
        &mut self,
        message: ConsumerMessage,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.cold.as_ref().is_none_or(|cold| cold.principals.is_empty()) {
            let reason = "CONSUMER is for edges, which have told of a principal before";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        match message {
            ConsumerMessage::Grant { subscription, messages } => {
                if self.subscriptions.get(subscription).is_some() {
                    let key = SubscriptionKey(subscription);
                    context.commands.push(Command::Credit { key, messages });
                }
                Ok(())
            }
            ConsumerMessage::Release { subscription, home, ranges } => {
                if home >= u16::from(self.shards) {
                    let reason = "no message has come from that home";
                    return Err(Close::new(CloseCode::BadHeader, reason));
                }
                if self.subscriptions.get(subscription).is_some() && !ranges.is_empty() {
                    context.commands.push(Command::Settle(Settle {
                        key: SubscriptionKey(subscription),
                        home: ShardId(home),
                        ranges,
                        outcome: Outcome::Release,
                        confirm: None,
                    }));
                }
                Ok(())
            }
            ConsumerMessage::Lost { request, subscription } => {
                let confirm = self.token(request)?;
                let Some(mark) = self.subscriptions.get(subscription) else {
                    return unknown(request, subscription, context);
                };
                self.forget(subscription, mark);
                let key = SubscriptionKey(subscription);
                context.commands.push(Command::Lose { key, confirm });
                Ok(())
            }
        }
    }

    /// A subscription ends by its client: its id is free once that is answered.
    pub(super) fn forget(&mut self, key: u32, mark: Mark) {
        self.subscriptions.end(key);
        if let Some(cold) = &mut self.cold {
            cold.take_back(key);
            if mark.has(Mark::PATTERN) && mark.has(Mark::ANNOUNCED) {
                cold.topics.forget(key);
            }
        }
    }
}
