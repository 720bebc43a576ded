//! What most sessions never need, or need for a moment only.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_wire::{Confirm, Destination, EndPrincipal, Output, Position, write_varint};

use super::batch::Batch;
use super::subscriptions::Unanswered;
use super::topics::Topics;
use crate::codec::{begin_message, end_message, kind};
use crate::limits::ROW_BYTES_MAX;

/// Kept apart from the session, and given back when it is idle.
#[derive(Default)]
pub(super) struct ColdState {
    /// The node's, until it is told.
    pub(super) epoch: u64,
    /// What came before the login was done.
    pub(super) early: Vec<u8>,
    /// The request of a LOGIN that is looked at.
    pub(super) login: Option<u32>,
    /// The position of HELLO, until the subscriptions that may need it are answered.
    pub(super) position: Option<Position>,
    pub(super) unanswered: Unanswered,
    /// By declared id, from 1.
    pub(super) declared: Vec<Option<Destination>>,
    /// Whether the client is an edge.
    pub(super) is_edge: bool,
    /// By id, from 1: for whom an edge asks.
    pub(super) principals: Vec<Option<Arc<EndPrincipal>>>,
    pub(super) topics: Topics,
    /// OKs of subscriptions whose values are to be there first: told when all deliveries are given.
    pub(super) settled: VecDeque<u32>,
    /// Requests whose answers may be large and that have not been answered.
    pub(super) large_answers: Vec<u32>,
    /// Messages besides PUBLISH of a message of the transport that is taken in over several turns.
    pub(super) requests: usize,
    /// Whether the client is told how many messages callers want.
    pub(super) tells_credit: bool,
    /// Bytes that may still be sent, if the client counts.
    pub(super) credit: Option<i64>,
    /// By numbering, as positions write it, how far the client has come since positions were told.
    reached: Vec<(u64, u64)>,
}

impl ColdState {
    /// For the beginning of a session.
    pub(super) fn new(epoch: u64) -> ColdState {
        ColdState { epoch, ..ColdState::default() }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_idle(&self) -> bool {
        self.login.is_none()
            && self.position.is_none()
            && self.unanswered.is_empty()
            && self.declared.is_empty()
            && !self.is_edge
            && self.principals.is_empty()
            && self.topics.is_empty()
            && self.settled.is_empty()
            && self.large_answers.is_empty()
            && self.requests == 0
            && self.credit.is_none()
            && !self.tells_credit
            && self.reached.is_empty()
    }

    /// Requests are answered.
    pub(super) fn confirm(&mut self, confirm: Confirm) {
        self.answer(|unanswered| unanswered.confirm(confirm));
    }

    /// A subscription is taken back, answered or not: a refusal that is still to come is of no
    /// meaning for whatever gets its number next.
    pub(super) fn take_back(&mut self, key: u32) {
        self.answer(|unanswered| unanswered.forget(key));
    }

    /// Takes out the OK of a subscription that waits for its values to be given.
    pub(super) fn take_settled(&mut self, key: u32) -> Option<u32> {
        let of = |token: &u32| self.unanswered.key_of(*token) == Some(key);
        let at = self.settled.iter().position(of)?;
        self.settled.remove(at)
    }

    fn answer(&mut self, act: impl FnOnce(&mut Unanswered)) {
        let resumed = self.unanswered.resumes();
        act(&mut self.unanswered);
        if self.unanswered.is_empty() && resumed {
            self.position = None;
        }
    }

    /// Notes how far the client will have come.
    pub(super) fn reach(&mut self, numbering: u64, number: u64) {
        // While something is recovered nothing is reached yet.
        if number == 0 {
            return;
        }
        match self.reached.iter_mut().find(|(known, _)| *known == numbering) {
            Some((_, known)) => *known = number.max(*known),
            None => self.reached.push((numbering, number)),
        }
    }

    /// Tells the client how far it has come, behind everything that it covers.
    pub(super) fn write_position(&mut self, batch: &mut Batch, output: &mut Output<'_>) {
        if self.reached.is_empty() {
            return;
        }
        let out = batch.whole(self.reached.len() * ROW_BYTES_MAX, output);
        let start = begin_message(kind::POSITION, out);
        for (numbering, number) in self.reached.drain(..) {
            write_varint(out, numbering);
            write_varint(out, number);
        }
        end_message(start, out);
    }
}
