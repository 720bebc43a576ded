//! What exchanges and the subscriptions that serve them are told when a place is lost, and messages that come back.
//!
//! A subscription that is refused ends, and its exchanges with it: so the steps of the sessions stand here in their
//! order, among those of exchanges. Relies on the methods of sessions, and on `exchange/peer_lost.rs`. Invariant:
//! afterwards neither waits for the place.

use tiderace_base::{CloseCode, Now};
use tiderace_queues::Ending;
use tiderace_wire::Reply;

use super::lost;
use super::sessions::{LostSubscription, LostWaits};
use crate::effects::Effects;
use crate::exchange_side::ExchangeSide;
use crate::messages::{ToExchange, ToHome};
use crate::places::Place;

impl ExchangeSide<'_> {
    /// A place is lost.
    pub(crate) fn peer_lost(&mut self, now: Now, place: Place, effects: &mut Effects) {
        let close = lost(place);
        self.sessions.lose_requests(place, &close, effects);
        let LostWaits { requests, pages } = self.sessions.waits_for(place);
        for request in requests {
            let refused = self.sessions.request_lost(now, place, request, effects);
            self.refuse_lost(now, place, refused, effects);
        }
        self.sessions.lose_pages(now, place, pages, effects);
        self.sessions.lose_told(now, place, &close, effects);
        self.lose_exchanges(now, place, &close, effects);
    }

    /// A subscription is refused that waits for a place that is lost.
    fn refuse_lost(
        &mut self,
        now: Now,
        place: Place,
        refused: Option<LostSubscription>,
        effects: &mut Effects,
    ) {
        let Some(LostSubscription { session, key, token }) = refused else { return };
        self.unsubscribe(now, session, key, (Ending::Orderly, None), &mut None, effects);
        self.sessions.forget_promises(session, place);
        let reply = Reply::Refused { token, close: lost(place) };
        self.sessions.reply(session, reply, effects);
    }

    /// A message of sessions or exchanges to a home has come back.
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
            // Nobody waits for an answer.
            ToHome::Released { .. } => {}
            message => {
                let refused = self.sessions.home_lost(now, place, message, effects);
                self.refuse_lost(now, place, refused, effects);
            }
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
