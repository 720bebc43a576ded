//! What ends of a session with its exchanges: a subscription that serves, the session itself, and several of these in
//! one call.
//!
//! Relies on `ending.rs` of the sessions for what waits for them, and on `cancel.rs`. Invariant: no exchange is left of
//! a subscription or session that has ended.

use tiderace_base::{CloseCode, Now, SessionId};
use tiderace_wire::{Command, Side, SubscriptionKey};

use super::{Open, Other, Tell};
use crate::delivery::backlog::For;
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::places::key_of;
use crate::together::EndingTogether;

impl ExchangeSide<'_> {
    /// A command ends something of a session, and so may others behind it.
    #[cold]
    pub(crate) fn begin_ending(
        &self,
        session: SessionId,
        first: For,
        rest: &[Command],
        together: &mut Option<Box<EndingTogether>>,
    ) {
        if together.is_some() {
            return;
        }
        *together = self.sessions.begin_ending(session, first, rest);
        let Some(EndingTogether { ends, .. }) = together.as_deref_mut() else { return };
        // With the exchanges of the services among them.
        let record = self.sessions.session(session);
        let open = record.and_then(|record| record.rare.as_ref()?.exchanges.as_ref());
        let Some(open) = open else { return };
        let ended = |key| ends.contains_key(&For::Subscription(key));
        for exchange in self.exchanges.served_by(open, ended) {
            ends.insert(For::Exchange(exchange), 1);
        }
    }

    /// Ends the exchanges of a subscription that no longer serves.
    pub(crate) fn end_served(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) {
        let Some(open) = self.open_mut(session) else {
            return;
        };
        for end in open.keys() {
            let served = self.exchanges.get(end).is_some_and(|end| match end.other {
                Other::Caller { subscription, .. } => subscription == key,
                _ => false,
            });
            if served {
                let close = CloseCode::ResponderGone.into();
                self.end_at_once(end, close, together, effects);
            }
        }
    }

    /// A session is about to end: what it has open, which is its own no longer.
    pub(crate) fn take_open(&mut self, session: SessionId) -> Option<Box<Open>> {
        let record = self.sessions.record_mut(key_of(session))?;
        record.rare.as_mut()?.exchanges.take()
    }

    /// Ends what a session had open because it ends.
    pub(crate) fn end_exchanges(&mut self, now: Now, open: &Open, effects: &mut Effects) {
        for key in open.keys() {
            let side = self.exchanges.get(key).map(|end| end.key.side);
            let code = match side {
                Some(Side::Caller) => CloseCode::CallerGone,
                Some(Side::Responder) => CloseCode::ResponderGone,
                None => continue,
            };
            self.end_exchange(now, key, code.into(), Tell::Other, effects);
        }
    }
}
