//! What exchanges do with messages that come back, because their receiver's place is lost.
//!
//! Relies on `exchange/peer_lost.rs` for exchanges that are under way. Invariant: what would have had an answer has
//! one.

use tiderace_base::{CloseCode, Now};

use super::lost;
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::messages::{ToExchange, ToHome};
use crate::places::Place;

impl ExchangeSide<'_> {
    /// A message about a call to its home has come back.
    pub(crate) fn home_lost(
        &mut self,
        now: Now,
        place: Place,
        message: ToHome,
        effects: &mut Effects,
    ) {
        match message {
            ToHome::Call(call) => {
                let (to, close) = (call.caller.key, lost(place));
                let message = ToExchange::Ended { to, close };
                self.sessions.send(call.caller.place, message, effects);
            }
            ToHome::CancelCall { caller, .. } => {
                self.told_of_end(now, caller, lost(place), effects);
            }
            // Nobody waits for an answer to others.
            _ => {}
        }
    }

    /// A message to the other side of an exchange has come back.
    pub(crate) fn exchange_lost(&mut self, now: Now, message: ToExchange, effects: &mut Effects) {
        // The end of a call that was assigned here after its caller was lost; all others have ended.
        if let ToExchange::Accepted { responder, .. } = message {
            self.told_of_end(now, responder, CloseCode::CallerGone.into(), effects);
        }
    }
}
