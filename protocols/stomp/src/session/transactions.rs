//! The open transactions of a session, and what waits in them for COMMIT.
//!
//! Relies on frames being checked when they are staged. Invariants: a transaction that was not begun is never opened
//! silently; what open transactions hold has a limit.

use std::collections::BTreeMap;

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Destination, Meta, Outcome, SubscriptionKey};

use super::unacked::Hold;
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

/// One open transaction.
#[derive(Debug, Default)]
struct Transaction {
    actions: Vec<Action>,
    bytes: usize,
}

/// A frame that waits for COMMIT.
#[derive(Debug)]
pub(super) enum Action {
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
pub(super) struct Staged {
    pub(super) key: SubscriptionKey,
    /// The first and the last of those tags.
    pub(super) tags: (u64, u64),
    pub(super) hold: Hold,
    pub(super) outcome: Outcome,
}

impl Transactions {
    /// What all of them hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Opens a transaction.
    pub(super) fn begin(
        &mut self,
        command: &str,
        name: &str,
        count_max: usize,
        bytes_max: usize,
    ) -> Result<(), Close> {
        if self.open.contains_key(name) {
            let text = format_args!(
                "the transaction `{}` is open already. Choose another name.",
                shown(name.as_bytes())
            );
            return Err(fault(CloseCode::DuplicateTransaction, command, text));
        }
        if self.open.len() >= count_max {
            let text = format_args!("{count_max} transactions are open already. End some first.");
            return Err(fault(CloseCode::TransactionTooLarge, command, text));
        }
        let bytes = name.len() + STAGED_OVERHEAD_BYTES;
        self.grow(command, bytes, bytes_max)?;
        self.open.insert(name.into(), Transaction { actions: Vec::new(), bytes });
        Ok(())
    }

    /// Ends a transaction: what has waited in it, in order.
    pub(super) fn end(&mut self, command: &str, name: &str) -> Result<Vec<Action>, Close> {
        let Some(transaction) = self.open.remove(name) else {
            return Err(unknown_transaction(command, name));
        };
        self.bytes -= transaction.bytes;
        Ok(transaction.actions)
    }

    /// Keeps a checked SEND until COMMIT; `data` are its properties.
    pub(super) fn stage_send(
        &mut self,
        name: &str,
        destinations: Vec<Destination>,
        mut data: Vec<u8>,
        body: &[u8],
        meta: Meta,
        bytes_max: usize,
    ) -> Result<(), Close> {
        let size = data.len() + body.len() + destinations.len() * STAGED_OVERHEAD_BYTES;
        let transaction = self.stage("SEND", name, size, bytes_max)?;
        let properties = data.len();
        data.extend_from_slice(body);
        let data = data.into();
        transaction.actions.push(Action::Send { destinations, data, properties, meta });
        Ok(())
    }

    /// Makes room for an acknowledgement: the mark of the messages that it holds.
    pub(super) fn stage_settle(
        &mut self,
        command: &str,
        name: &str,
        bytes_max: usize,
    ) -> Result<Hold, Close> {
        self.stage(command, name, STAGED_OVERHEAD_BYTES, bytes_max)?;
        self.actions = self.actions.wrapping_add(1);
        Ok(Hold::Action(self.actions))
    }

    /// Keeps an acknowledgement, for which there is room, until COMMIT.
    pub(super) fn settle_later(&mut self, name: &str, staged: Staged) {
        if let Some(transaction) = self.open.get_mut(name) {
            transaction.actions.push(Action::Settle(staged));
        }
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
