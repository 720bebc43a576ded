//! What commands of one call of the broker do together, because each alone would cost more, or would let a
//! position pass what another has missed.
//!
//! These values are made by a call and handed on to what it calls. Invariant: nothing of them is left in the
//! broker when the call returns.

use std::rc::Rc;

use tiderace_base::Key;
use tiderace_wire::Entrance;

use crate::Principal;
use crate::collections::Map;
use crate::delivery::backlog::{For, Pending};
use crate::transaction::Transaction;

/// Entries of a backlog up to which looking through it for each call costs less.
pub(crate) const FEW: usize = 64;

/// What commands of one call of `Broker::handle` do together, because each alone would cost more or
/// would let a position pass what another has missed.
#[derive(Debug, Default)]
pub(crate) struct CommandsTogether {
    pub(crate) recoveries: Option<RecoveriesTogether>,
    pub(crate) ending: Option<Box<EndingTogether>>,
    /// Between the marks of a transaction.
    pub(crate) transaction: Option<Box<Transaction>>,
    /// While the session acts for somebody else: its own principal.
    pub(crate) own: Option<Rc<Principal>>,
    /// By which way the session has come.
    pub(crate) entrance: Entrance,
}

/// Recoverable subscriptions that begin in one call. They count as one, so that no position passes what
/// another of them has missed.
#[derive(Debug)]
pub(crate) struct RecoveriesTogether {
    /// How many replies there were when the first of them began.
    pub(crate) replies_before: usize,
}

/// What ends in one call, if that is several and much waits for them.
#[derive(Debug)]
pub(crate) struct EndingTogether {
    pub(crate) session: Key,
    /// What has yet to end, and how often it will: keys are used again.
    pub(crate) ends: Map<For, u32>,
    /// What has been taken out for it.
    pub(crate) taken: Map<For, Vec<Pending>>,
}

/// A command has ended something.
pub(crate) fn note_ended(together: &mut Option<Box<EndingTogether>>, what: For) {
    let Some(together) = together else { return };
    if let Some(times) = together.ends.get_mut(&what) {
        *times -= 1;
        if *times == 0 {
            together.ends.remove(&what);
        }
    }
}
