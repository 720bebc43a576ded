//! What sessions ask of the node as a whole that takes a thread which may wait: it is handed to who runs the node, and the
//! answer comes back as a notice. What changes for all sessions comes as a notice, too.
//!
//! Invariant: a session that asks is answered, also when nobody does what was asked for.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_broker::{AccessChange, Operated};
use tiderace_wire::{NodeOperation, Reply, Token};

use crate::driver::Driver;
use crate::shard::Shard;
use crate::waker::{Asked, NodeAnswer};

impl<D: Driver> Shard<D> {
    /// Hands on what a session asks of the node.
    pub(crate) fn hand_to_operator(
        &mut self,
        (link, session): (u32, SessionId),
        token: Token,
        operation: NodeOperation,
    ) {
        let asked = Asked { link, session, token };
        let answer = NodeAnswer::new(asked, self.shared.wakers.clone());
        self.shared.services.operator.operate(operation, answer);
    }

    /// What a session has asked the node for was done, or not.
    pub(crate) fn answer_operation(&mut self, asked: Asked, result: Operated) {
        let Asked { link, session, token } = asked;
        let reply = match result {
            Ok(result) => Reply::Operated { token, result: Box::new(result) },
            Err(close) => Reply::Refused { token: Some(token), close },
        };
        self.effects.replies.push((link, session, reply));
        self.drain_effects();
    }

    /// Rules, limits and credentials are others from now on.
    pub(crate) fn change_access(&mut self, change: Arc<AccessChange>) {
        self.broker.change_access(change);
    }

    /// Looks at some of the sessions that are there since before that.
    pub(crate) fn review_sessions(&mut self) {
        for session in self.broker.review(self.now, &mut self.effects) {
            self.limit_again(session);
        }
        self.drain_effects();
    }
}
