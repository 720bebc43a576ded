//! Changes that sessions ask for, told to who keeps the record of them.
//!
//! Called where operations are dispatched, and where they are refused before that, so that no operation has to think of it. Relies on
//! [`Operation::audited`] for what is a change. Invariant: a change is told before its answer.

use tiderace_base::SessionId;
use tiderace_wire::{Operation, Token};

use super::Broker;
use crate::effects::{AskedChange, Effects, NodeEffect};

impl Broker {
    /// Tells that a session has asked for something, if that is a change.
    pub(super) fn record(
        &mut self,
        session: SessionId,
        token: Token,
        operation: &Operation,
        effects: &mut Effects,
    ) {
        let Some(what) = operation.audited() else { return };
        let Some(who) = self.principal_name(session) else { return };
        let Some(record) = self.session(session) else { return };
        let link = record.link;
        // Whom an edge acts for is the principal only during the call.
        let edge = record.principal.as_ref().and_then(|it| it.relayed_by.as_ref());
        let via = edge.map(|edge| edge.name.clone());
        let change = AskedChange { link, session, token, who, via, what };
        effects.node.push(NodeEffect::Change(Box::new(change)));
    }
}
