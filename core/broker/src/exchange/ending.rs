//! What ends of a session with its exchanges: a subscription that serves, the session itself, and several of these in
//! one call.
//!
//! Relies on `ending.rs` of the sessions for what waits for them, and on `cancel.rs`. Invariant: no exchange is left of
//! a subscription or session that has ended.

use tiderace_base::{Close, CloseCode, Now, SessionId};
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

    /// Ends what a session had open because it ends; `to_upstream`: it was one to an upstream.
    pub(crate) fn end_exchanges(
        &mut self,
        now: Now,
        open: &Open,
        to_upstream: bool,
        effects: &mut Effects,
    ) {
        for key in open.keys() {
            let Some(end) = self.exchanges.get(key) else { continue };
            let close = match end.key.side {
                Side::Caller => CloseCode::CallerGone.into(),
                Side::Responder if to_upstream => self.lost_upstream(end.credit.begun),
                Side::Responder => CloseCode::ResponderGone.into(),
            };
            self.end_exchange(now, key, close, Tell::Other, effects);
        }
    }

    /// What a caller is told whose call was given to a session to an upstream that is lost, and was passed on or not.
    fn lost_upstream(&mut self, passed_on: bool) -> Close {
        if !passed_on {
            let reason = "the connection to the upstream was lost before this call was passed on to it, so nothing was done; \
                          try again later";
            return Close::new(CloseCode::UpstreamAway, reason);
        }
        self.sessions.metrics.upstream_calls_unknown += 1;
        let reason = "the connection to the upstream was lost before the call was over; what was called for may have been \
                      done there, or not";
        Close::new(CloseCode::OutcomeUnknown, reason)
    }
}
