//! What sessions ask of the node as a whole that takes a thread which may wait: it is handed to who runs the node, and the
//! answer comes back as a notice. What changes for all sessions comes as a notice, too.
//!
//! Invariant: a session that asks is answered, also when nobody does what was asked for.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, SessionId};
use tiderace_broker::{AccessChange, AskNode, NodeEffect, Operated};
use tiderace_wire::{DrainStatus, NodeOperation, Operation, OperationResult, Reply, Token};

use crate::audit::Audit;
use crate::drain::board::DrainPlan;
use crate::driver::Driver;
use crate::session_walks::SessionWork;
use crate::shard::Shard;
use crate::waker::{Asked, NodeAnswer};

impl<D: Driver> Shard<D> {
    /// Does what a session asks of the node, or has it done by who runs it or by all shards, which answer later. What
    /// changes the node is written into the log, and so is who may not.
    pub(crate) fn operate_node(&mut self, asked: AskNode) -> Option<Reply> {
        let AskNode { link, session, token, operation, allowed } = asked;
        // It goes on also when its session has ended.
        let audit = self.audits.take(session, token);
        let later = |shard: &Shard<D>, audit| {
            let asked = Asked { link, session, token };
            NodeAnswer::new(asked, audit, shard.shared.wakers.clone())
        };
        let result = match (allowed, operation) {
            (Err(close), _) => Err(close),
            (Ok(()), Operation::Node(operation)) => {
                let answer = later(self, audit);
                if matches!(*operation, NodeOperation::BackupRead { .. }) {
                    // Which of them reads what is there is known to who runs the node.
                    self.node_readers.insert(session);
                }
                self.shared.services.operator.operate(*operation, answer);
                return None;
            }
            (Ok(()), Operation::Sessions(query)) => {
                self.begin_walk(SessionWork::List(*query), later(self, audit));
                return None;
            }
            (Ok(()), Operation::Kick(kick)) => {
                self.begin_walk(SessionWork::Kick(*kick), later(self, audit));
                return None;
            }
            (Ok(()), Operation::Blocks(asked)) => {
                let answer = later(self, audit);
                self.operate_blocks(link, *asked, answer);
                return None;
            }
            (Ok(()), Operation::Traces(asked)) => {
                let answer = later(self, audit);
                self.operate_traces(*asked, answer);
                return None;
            }
            (Ok(()), Operation::Stats) => {
                self.shared.services.operator.stats().map(OperationResult::Stats)
            }
            (Ok(()), operation) => {
                let status = self.operate_drain((link, session), operation);
                status.map(|status| OperationResult::Drain(Box::new(status)))
            }
        };
        if let Some(audit) = audit {
            audit.end(result.as_ref());
        }
        Some(answer_of(token, result))
    }

    fn operate_drain(
        &mut self,
        asking: (u32, SessionId),
        operation: Operation,
    ) -> Result<DrainStatus, Close> {
        match operation {
            Operation::Drain(request) => {
                let key = self.find(asking.0, asking.1);
                let connection = key.and_then(|key| self.connections.get(key));
                // Whose listener stays open is left alone anyway.
                let is_counted = connection.is_some_and(|it| !self.shared.stays_open(it.listener));
                let kept = is_counted.then_some(asking);
                self.shared.begin_drain(DrainPlan { request: *request, kept, is_final: false })
            }
            Operation::DrainCancel => self.shared.cancel_drain(),
            Operation::DrainState => Ok(self.shared.drain_status()),
            _ => Err(CloseCode::BadOperation.into()),
        }
    }

    /// Takes the changes out of what is for the node, and waits for what comes of them.
    pub(crate) fn begin_audits(&mut self, effects: &mut Vec<NodeEffect>) {
        let is_change = |it: &mut NodeEffect| matches!(it, NodeEffect::Change(_));
        for effect in effects.extract_if(.., is_change) {
            let NodeEffect::Change(change) = effect else { continue };
            let (session, token) = (change.session, change.token);
            let key = self.find(change.link, session);
            let from = key.and_then(|key| self.connections.get(key)).map(|it| it.peer.socket());
            let operator = self.shared.services.operator.clone();
            let audit = Audit::new(*change, from, move |record| operator.record(record));
            match key {
                Some(_) => self.audits.begin(session, token, audit),
                // It has ended in the call that asked, so no answer comes, and it is not said again that it has.
                None => audit.end_unanswered(),
            }
        }
    }

    /// What a session has asked the node for was done, or not.
    pub(crate) fn answer_operation(&mut self, asked: Asked, result: Operated) {
        let Asked { link, session, token } = asked;
        self.effects.replies.push((link, session, answer_of(token, result)));
        self.drain_effects();
    }

    /// Ends a session in the broker, and tells who runs the node if that keeps something for it.
    pub(crate) fn close_session(&mut self, session: SessionId) {
        self.broker.close(self.now, session, &mut self.effects);
        if !self.audits.is_empty() {
            self.audits.leave(session);
        }
        if !self.node_readers.is_empty() && self.node_readers.remove(&session) {
            self.shared.services.operator.reader_ended(session);
        }
    }

    /// Rules, limits and credentials are others from now on.
    pub(crate) fn change_access(&mut self, change: Arc<AccessChange>) {
        self.broker.change_access(change);
        self.review_traces();
    }

    /// Looks at some of the sessions that are there since before that.
    pub(crate) fn review_sessions(&mut self) {
        for session in self.broker.review(self.now, &mut self.effects) {
            self.limit_again(session);
        }
        self.drain_effects();
    }
}

/// What a session is told.
fn answer_of(token: Token, result: Operated) -> Reply {
    match result {
        Ok(result) => Reply::Operated { token, result: Box::new(result) },
        Err(close) => Reply::Refused { token: Some(token), close },
    }
}
