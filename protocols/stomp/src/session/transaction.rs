//! BEGIN, COMMIT and ABORT (STOMP 1.2, "BEGIN", "COMMIT", "ABORT").
//!
//! Relies on `transactions` for what waits. Invariant: what an aborted transaction acknowledged can be acknowledged
//! again. The end of the session is an abort.

use tiderace_base::Close;
use tiderace_wire::{Command, Context, Destination, Meta, Outcome, SubscriptionKey};

use super::request::Request;
use super::state::StompSession;
use super::transactions::{Action, Staged};
use super::unacked::{Ranges, Unacked};

impl StompSession {
    pub(super) fn begin(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = request.require("transaction")?;
        let (count_max, bytes_max) =
            (self.options.transactions_max, self.options.transaction_bytes_max);
        self.cold().transactions.begin(request.command, &name, count_max, bytes_max)?;
        self.done(request.command, request.headers, context)
    }

    pub(super) fn commit(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = request.require("transaction")?;
        let actions = self.cold().transactions.end(request.command, &name)?;
        let steps: Vec<Step> = actions.into_iter().map(|action| self.step(action)).collect();
        let count: usize = steps.iter().map(Step::len).sum();
        let receipt = self.owe(request.command, request.headers, count as u32)?;
        let mut token = Some(receipt.unwrap_or_else(|| self.await_unasked(count as u32)));
        // What was acknowledged before is not part of it.
        self.flush(context.commands);
        context.commands.push(Command::Together(true));
        for step in steps {
            let next = token.map(|token| token.wrapping_add(step.len() as u32));
            match step {
                Step::Send { destinations, data, properties, meta } => {
                    let (properties, body) = data.split_at_checked(properties).unwrap_or_default();
                    for (destination, index) in destinations.iter().zip(0..) {
                        let confirm = token.map(|token| token.wrapping_add(index));
                        let place = context.commands.message(destination);
                        place.extend_from_slice(properties);
                        context.commands.publish(body, meta, confirm);
                    }
                }
                Step::Settle { key, ranges, outcome } => {
                    self.settle(key, ranges, outcome, token, context);
                }
            }
            token = next;
        }
        // What it acknowledges is.
        self.flush(context.commands);
        context.commands.push(Command::Together(false));
        if count == 0 {
            self.write_receipts(context);
        }
        Ok(())
    }

    pub(super) fn abort(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = request.require("transaction")?;
        for action in self.cold().transactions.end(request.command, &name)? {
            if let Action::Settle(Staged { key, tags, hold, .. }) = action
                && let Some(unacked) = self.unacked(key)
            {
                unacked.release_held(tags, hold);
            }
        }
        self.done(request.command, request.headers, context)
    }

    fn step(&mut self, action: Action) -> Step {
        match action {
            Action::Send { destinations, data, properties, meta } => {
                Step::Send { destinations, data, properties, meta }
            }
            Action::Settle(Staged { key, tags, hold, outcome }) => {
                let unacked = self.unacked(key);
                let ranges =
                    unacked.map_or(Ranges::new(), |unacked| unacked.settle_held(tags, hold));
                Step::Settle { key, ranges, outcome }
            }
        }
    }

    /// What a staged acknowledgement may hold. Messages of a subscription that has ended meanwhile have gone back to
    /// their queues.
    fn unacked(&mut self, key: SubscriptionKey) -> Option<&mut Unacked> {
        self.subscriptions.get_mut(key)?.unacked.as_deref_mut()
    }
}

/// An action on its way to the broker.
enum Step {
    Send { destinations: Vec<Destination>, data: Box<[u8]>, properties: usize, meta: Meta },
    Settle { key: SubscriptionKey, ranges: Ranges, outcome: Outcome },
}

impl Step {
    /// How many confirmations it brings.
    fn len(&self) -> usize {
        match self {
            Step::Send { destinations, .. } => destinations.len(),
            Step::Settle { ranges, .. } => ranges.len(),
        }
    }
}
