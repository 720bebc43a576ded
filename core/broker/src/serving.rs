//! Services between the shards: the messages about them, and what a home does with those.
//!
//! ```text
//!   caller's shard ──Call──▶ home ──Assigned──▶ responder's shard
//!        ▲ ◀───────────────Accepted────────────────┘ │
//!        ├───────────────────Sent───────────────────▶┤ and back
//!        └───────────────────Credit─────────────────▶┘
//!                            home ◀──Released── when the exchange is over
//! ```
//! Every call is answered to its caller's shard once by [`ToExchange::Accepted`] or, from its home, by
//! [`ToExchange::Ended`]; every call that was assigned is released once.

use tiderace_base::{CloseCode, Key, SessionId};
use tiderace_queues::Consume;
use tiderace_topics::Path;
use tiderace_wire::SubscriptionKey;

use crate::effects::Effects;
use crate::home::services::{Address, Calling, Responding, Step};
use crate::home_side::HomeSide;
use crate::messages::{Answer, SubscribeRequestId, ToExchange, ToHome};
use crate::places::Place;

impl HomeSide<'_> {
    /// At a home: somebody calls a service.
    pub(crate) fn call_at_home(&mut self, call: Calling, effects: &mut Effects) {
        if self.loopback.is_lost(call.caller.place) {
            return;
        }
        let mut out = Vec::new();
        self.home.services_mut().call(call, &self.options.services, &mut out);
        self.take_steps(out, effects);
    }

    /// At a home: a place is lost, with the callers and responders there.
    pub(crate) fn lose_services(&mut self, place: Place, effects: &mut Effects) {
        let mut out = Vec::new();
        self.home.services_mut().lose(place, &mut out);
        self.take_steps(out, effects);
    }

    /// At a home: a caller waits no longer for a responder.
    pub(crate) fn cancel_at_home(
        &mut self,
        service: &Path,
        caller: Address,
        effects: &mut Effects,
    ) {
        if self.home.services_mut().cancel(service, caller) {
            let close = CloseCode::CallCancelled.into();
            self.send(caller.place, ToExchange::Ended { to: caller.key, close }, effects);
        }
    }

    /// At a home: an exchange is over.
    pub(crate) fn release_responder(
        &mut self,
        responder: Key,
        caller: Address,
        effects: &mut Effects,
    ) {
        let mut out = Vec::new();
        self.home.services_mut().release(responder, caller, &mut out);
        self.take_steps(out, effects);
    }

    /// At a home: a subscription begins to serve.
    pub(crate) fn serve(
        &mut self,
        from: Place,
        consume: &Consume,
        request: SubscribeRequestId,
        effects: &mut Effects,
    ) {
        // The answer first: calls may follow it, never overtake it.
        self.answer(from, request, Answer::default(), effects);
        let window = match consume.window.messages {
            0 => self.options.services.window,
            messages => messages,
        };
        let responding = Responding {
            session: consume.session,
            key: consume.key,
            epoch: request.epoch,
            responder: Key::default(),
        };
        let mut out = Vec::new();
        let most = (window, consume.credit);
        self.home.services_mut().serve(responding, &consume.target, most, &mut out);
        self.take_steps(out, effects);
    }

    /// At a home: somebody who serves may be given more calls.
    pub(crate) fn credit_responder(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        calls: u64,
        effects: &mut Effects,
    ) {
        let mut out = Vec::new();
        self.home.services_mut().credit(session, key, calls, &mut out);
        self.take_steps(out, effects);
    }

    /// At a home: a subscription ends.
    pub(crate) fn serve_no_more(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        effects: &mut Effects,
    ) {
        let mut out = Vec::new();
        self.home.services_mut().leave(session, key, &mut out);
        self.take_steps(out, effects);
    }

    fn take_steps(&mut self, out: Vec<Step>, effects: &mut Effects) {
        for step in out {
            match step {
                Step::Assign(to, call) => {
                    self.send(Place::of(to.session), ToExchange::Assigned(to, call), effects);
                }
                Step::Again(call) => self.send(self.here(), ToHome::Call(call), effects),
                Step::Refuse(caller, code) => {
                    let message = ToExchange::Ended { to: caller.key, close: code.into() };
                    self.send(caller.place, message, effects);
                }
            }
        }
    }
}
