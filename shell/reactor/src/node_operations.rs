//! What sessions ask of the node as a whole that takes a thread which may wait: it is handed to who runs the node, and the
//! answer comes back as a notice.
//!
//! Invariant: whoever asks is answered, also when nobody does what was asked for.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_broker::{AccessChange, Operated};
use tiderace_wire::{NodeOperation, NodeReport, OperationResult, Reply, Token};

use crate::driver::Driver;
use crate::shard::Shard;
use crate::waker::{Notice, Waker};

/// Does what is asked of the node as a whole.
pub trait Operator: Send + Sync {
    /// Takes something to do, for who may ask for it. Must return at once; the answer may come later, from any thread.
    fn operate(&self, operation: NodeOperation, answer: NodeAnswer);
}

/// Does nothing, and says so: for nodes that nobody runs.
#[derive(Clone, Copy, Debug)]
pub struct NoOperator;

impl Operator for NoOperator {
    fn operate(&self, _: NodeOperation, answer: NodeAnswer) {
        drop(answer);
    }
}

/// Who has asked for something, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) link: u32,
    pub(crate) session: SessionId,
    pub(crate) token: Token,
}

/// The right to answer one operation, once. Forgetting to answer refuses it.
pub struct NodeAnswer {
    asked: Asked,
    wakers: Arc<[Waker]>,
    is_answered: bool,
}

impl NodeAnswer {
    /// The session that has asked, for logs.
    pub fn session(&self) -> SessionId {
        self.asked.session
    }

    /// Says what came of it. Wakes the session's shard; never blocks for long.
    pub fn send(mut self, result: Result<NodeReport, Close>) {
        self.post(result.map(|report| OperationResult::Node(Box::new(report))));
    }

    fn post(&mut self, result: Operated) {
        self.is_answered = true;
        if let Some(waker) = self.wakers.get(self.asked.session.shard.index()) {
            waker.notify(Notice::NodeOperated { asked: self.asked, result });
        }
    }
}

impl Drop for NodeAnswer {
    fn drop(&mut self) {
        if !self.is_answered {
            let reason = "this server does nothing of that kind now; try again";
            self.post(Err(Close::new(CloseCode::BadOperation, reason)));
        }
    }
}

impl std::fmt::Debug for NodeAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeAnswer").field("asked", &self.asked).finish_non_exhaustive()
    }
}

impl<D: Driver> Shard<D> {
    /// Hands on what a session asks of the node.
    pub(crate) fn hand_to_operator(
        &mut self,
        (link, session): (u32, SessionId),
        token: Token,
        operation: NodeOperation,
    ) {
        let asked = Asked { link, session, token };
        let answer = NodeAnswer { asked, wakers: self.shared.wakers.clone(), is_answered: false };
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
