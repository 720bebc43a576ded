//! BEGIN, COMMIT and ABORT (STOMP 1.2, "BEGIN", "COMMIT", "ABORT").
//!
//! Relies on frames being checked when they are staged. Invariants: a transaction that was not
//! begun is never opened silently; what open transactions hold has a limit; what an aborted
//! transaction acknowledged can be acknowledged again. The end of the session is an abort.

use std::collections::BTreeMap;

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Context, Destination, Meta, Outcome, SubscriptionKey};

use super::acknowledge::{Ranges, grouped};
use super::subscription::{AckMode, Hold};
use super::{Request, StompSession};
use crate::error::{fault, shown};
use crate::limits::STAGED_OVERHEAD_BYTES;

/// The open transactions of one session.
#[derive(Debug, Default)]
pub(super) struct Transactions {
    open: BTreeMap<Box<str>, Transaction>,
    /// What all of them hold.
    bytes: usize,
    /// Numbers staged acknowledgements.
    actions: u32,
}

#[derive(Debug, Default)]
struct Transaction {
    actions: Vec<Action>,
    bytes: usize,
}

/// A frame that waits for COMMIT.
#[derive(Debug)]
enum Action {
    Send {
        destinations: Vec<Destination>,
        /// Properties, then the body.
        data: Box<[u8]>,
        properties: usize,
        meta: Meta,
    },
    Settle(Staged),
}

/// An acknowledgement that waits for COMMIT: it holds messages between two tags.
#[derive(Clone, Copy, Debug)]
struct Staged {
    key: SubscriptionKey,
    from: u64,
    to: u64,
    hold: Hold,
    outcome: Outcome,
}

impl StompSession {
    pub(super) fn begin(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let name = request.require("transaction")?;
        let (count_max, bytes_max) =
            (self.options.transactions_max, self.options.transaction_bytes_max);
        let transactions = &mut self.cold().transactions;
        if transactions.open.contains_key(&*name) {
            let text = format_args!(
                "the transaction `{}` is open already. Choose another name.",
                shown(name.as_bytes())
            );
            return Err(fault(CloseCode::DuplicateTransaction, request.command, text));
        }
        if transactions.open.len() >= count_max {
            let text = format_args!("{count_max} transactions are open already. End some first.");
            return Err(fault(CloseCode::TransactionTooLarge, request.command, text));
        }
        let bytes = name.len() + STAGED_OVERHEAD_BYTES;
        transactions.grow(request.command, bytes, bytes_max)?;
        let transaction = Transaction { actions: Vec::new(), bytes };
        transactions.open.insert(name.into(), transaction);
        self.done(request.command, request.headers, context)
    }

    pub(super) fn commit(
        &mut self,
        request: &Request<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let transaction = self.close_transaction(request)?;
        let steps: Vec<Step> =
            transaction.actions.into_iter().map(|action| self.step(action)).collect();
        let count: usize = steps.iter().map(Step::len).sum();
        let mut token = self.owe(request.command, request.headers, count as u32)?;
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
        let transaction = self.close_transaction(request)?;
        for action in transaction.actions {
            if let Action::Settle(staged) = action {
                self.decide(&staged, Hold::Free);
            }
        }
        self.done(request.command, request.headers, context)
    }

    /// Keeps a checked SEND until COMMIT.
    pub(super) fn stage_send(
        &mut self,
        name: &str,
        destinations: Vec<Destination>,
        mut data: Vec<u8>,
        body: &[u8],
        meta: Meta,
    ) -> Result<(), Close> {
        let bytes_max = self.options.transaction_bytes_max;
        let size = data.len() + body.len() + destinations.len() * STAGED_OVERHEAD_BYTES;
        let transaction = self.cold().transactions.stage("SEND", name, size, bytes_max)?;
        let properties = data.len();
        data.extend_from_slice(body);
        let data = data.into();
        transaction.actions.push(Action::Send { destinations, data, properties, meta });
        Ok(())
    }

    /// Keeps a checked ACK or NACK of the entry at that place until COMMIT.
    pub(super) fn stage_ack(
        &mut self,
        request: &Request<'_>,
        name: &str,
        key: SubscriptionKey,
        at: usize,
        outcome: Outcome,
    ) -> Result<(), Close> {
        let bytes_max = self.options.transaction_bytes_max;
        let transactions = &mut self.cold().transactions;
        transactions.stage(request.command, name, STAGED_OVERHEAD_BYTES, bytes_max)?;
        transactions.actions = transactions.actions.wrapping_add(1);
        let hold = Hold::Action(transactions.actions);
        let Some(subscription) = self.subscriptions.get_mut(key) else { return Ok(()) };
        let cumulative = subscription.mode == AckMode::Client;
        let Some(unacked) = &mut subscription.unacked else { return Ok(()) };
        let Some(to) = unacked.entries.get(at).map(|entry| entry.tag) else { return Ok(()) };
        let from = if cumulative { unacked.floor + 1 } else { to };
        unacked.take(at, cumulative, hold);
        let staged = Staged { key, from, to, hold, outcome };
        if let Some(transaction) = self.cold().transactions.open.get_mut(name) {
            transaction.actions.push(Action::Settle(staged));
        }
        Ok(())
    }

    fn close_transaction(&mut self, request: &Request<'_>) -> Result<Transaction, Close> {
        let name = request.require("transaction")?;
        let transactions = &mut self.cold().transactions;
        let Some(transaction) = transactions.open.remove(&*name) else {
            return Err(unknown_transaction(request.command, &name));
        };
        transactions.bytes -= transaction.bytes;
        Ok(transaction)
    }

    fn step(&mut self, action: Action) -> Step {
        match action {
            Action::Send { destinations, data, properties, meta } => {
                Step::Send { destinations, data, properties, meta }
            }
            Action::Settle(staged) => Step::Settle {
                key: staged.key,
                ranges: self.decide(&staged, Hold::Settled),
                outcome: staged.outcome,
            },
        }
    }

    /// Decides about the messages that a staged acknowledgement holds. Those of a subscription that
    /// has ended meanwhile have gone back to their queues.
    fn decide(&mut self, staged: &Staged, hold: Hold) -> Ranges {
        let Some(unacked) = self.unacked_mut(staged.key) else {
            return Ranges::new();
        };
        let first = unacked.entries.partition_point(|entry| entry.tag < staged.from);
        let mut list = Vec::new();
        for entry in unacked.entries.range_mut(first..) {
            if entry.tag > staged.to {
                break;
            }
            if entry.hold == staged.hold {
                entry.hold = hold;
                list.push((entry.home, entry.sequence));
            }
        }
        if hold == Hold::Settled {
            unacked.settled += list.len();
            unacked.tidy();
        } else {
            unacked.floor = unacked.floor.min(staged.from - 1);
        }
        grouped(list)
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

impl Transactions {
    /// What all of them hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes room in an open transaction.
    fn stage(
        &mut self,
        command: &str,
        name: &str,
        bytes: usize,
        bytes_max: usize,
    ) -> Result<&mut Transaction, Close> {
        if !self.open.contains_key(name) {
            return Err(unknown_transaction(command, name));
        }
        self.grow(command, bytes, bytes_max)?;
        let Some(transaction) = self.open.get_mut(name) else {
            return Err(unknown_transaction(command, name));
        };
        transaction.bytes += bytes;
        Ok(transaction)
    }

    fn grow(&mut self, command: &str, bytes: usize, bytes_max: usize) -> Result<(), Close> {
        if self.bytes + bytes > bytes_max {
            let text = format_args!(
                "the open transactions would hold more than {bytes_max} bytes. Commit more often."
            );
            return Err(fault(CloseCode::TransactionTooLarge, command, text));
        }
        self.bytes += bytes;
        Ok(())
    }
}

fn unknown_transaction(command: &str, name: &str) -> Close {
    let text =
        format_args!("no transaction `{}` is open. Send BEGIN first.", shown(name.as_bytes()));
    fault(CloseCode::UnknownTransaction, command, text)
}
