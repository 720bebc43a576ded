//! Requests of this node's clients that the upstream has not answered, and whom it knows.
//!
//! Bookkeeping only. Invariant: a request is answered once, when all of its messages are.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiderace_base::Close;
use tiderace_wire::{EndPrincipal, OperationResult};

use crate::limits::PRINCIPALS_MAX;

/// What is under way, and whom the upstream knows.
#[derive(Default)]
pub(super) struct Relays {
    /// Whether the upstream takes requests.
    pub(super) are_taken: bool,
    /// Bytes that it takes as one body.
    pub(super) message_bytes_max: usize,
    /// By the broker's number.
    open: BTreeMap<u32, Open>,
    /// Whom the upstream has been told of, by id less one; the next place to be used again.
    principals: Vec<Arc<EndPrincipal>>,
    ids: BTreeMap<Arc<EndPrincipal>, u32>,
    next: usize,
}

/// A request that is not answered.
#[derive(Default)]
struct Open {
    /// Requests of the protocol that have no answer yet.
    left: usize,
    taken: usize,
    refused: Option<Close>,
    result: Option<OperationResult>,
}

impl Relays {
    /// The id of a principal, and whether the upstream has to be told.
    pub(super) fn id_of(&mut self, principal: &Arc<EndPrincipal>) -> (u32, bool) {
        if let Some(id) = self.ids.get(principal) {
            return (*id, false);
        }
        let place = self.next;
        self.next = (place + 1) % PRINCIPALS_MAX;
        match self.principals.get_mut(place) {
            Some(known) => {
                let before = std::mem::replace(known, principal.clone());
                self.ids.remove(&before);
            }
            None => self.principals.push(principal.clone()),
        }
        let id = place as u32 + 1;
        self.ids.insert(principal.clone(), id);
        (id, true)
    }

    /// A request begins that is so many of the protocol.
    pub(super) fn begin(&mut self, number: u32, left: usize) {
        self.open.insert(number, Open { left, ..Open::default() });
    }

    /// One of the protocol is answered: what is to be answered, if it was the last of its request.
    pub(super) fn answered(
        &mut self,
        number: u32,
        answer: Result<OperationResult, Close>,
    ) -> Option<Result<OperationResult, Close>> {
        let open = self.open.get_mut(&number)?;
        open.left -= 1;
        match answer {
            Ok(result) => {
                open.taken += 1;
                open.result = Some(result);
            }
            Err(close) => drop(open.refused.get_or_insert(close)),
        }
        if open.left > 0 {
            return None;
        }
        let open = self.open.remove(&number).unwrap_or_default();
        Some(match (open.refused, open.taken) {
            (None, _) => Ok(open.result.unwrap_or(OperationResult::Done)),
            (Some(close), 0) => Err(close),
            (Some(close), taken) => {
                let reason =
                    format!("{} (of this batch, {taken} other messages were taken)", close.reason);
                Err(Close::new(close.code, reason))
            }
        })
    }
}
