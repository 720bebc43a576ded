//! Places that are lost, and messages that come back from there: which side of the shard each is for.
//!
//! Relies on the sides for what is done. Invariant: a place is lost once.

use tiderace_base::{Close, Now};
use tiderace_queues::Ending;
use tiderace_wire::Reply;

use super::Broker;
use crate::effects::Effects;
use crate::messages::{Body, Envelope, ToExchange, ToHome};
use crate::peer_lost::{LostSubscription, LostWaits, lost};
use crate::places::{Place, PlaceSet};

impl Broker {
    /// A place is gone for good, with all that it kept and all of its sessions. What waits for it here is answered with
    /// [`CloseCode::PeerLost`](tiderace_base::CloseCode::PeerLost), and what its sessions had here is given back, as if
    /// each of them had lost its connection. Messages that it had sent are to be received before, and none after.
    pub fn peer_lost(&mut self, now: Now, place: Place, effects: &mut Effects) {
        // A set of places has no room for others: one would be taken for a shard of this node.
        if !PlaceSet::all(self.options.shards).iter().any(|known| known == place)
            || !self.loopback.lose(place)
        {
            return;
        }
        self.loss_side().peer_lost(now, place, effects);
        self.deputy_side().lose_callers(place);
        self.deputy_side().lose_consumers_of(place, effects);
        self.hand_on(now, effects);
        self.lose_for_sessions(now, place, effects);
        self.take_loopback(now, effects);
        self.view_side().peer_lost(now, place, effects);
        self.end_view_slice(now, effects);
        self.end_call(now, effects);
    }

    /// What sessions, notices and exchanges wait for is answered.
    fn lose_for_sessions(&mut self, now: Now, place: Place, effects: &mut Effects) {
        let close = lost(place);
        let mut sessions = self.session_side();
        sessions.lose_requests(place, &close, effects);
        let LostWaits { requests, pages } = sessions.waits_for(place);
        for request in requests {
            let refused = self.session_side().request_lost(now, place, request, effects);
            self.refuse_lost(now, place, refused, effects);
        }
        self.session_side().lose_pages(now, place, pages, effects);
        self.notice_side().peer_lost(now, place, effects);
        let mut side = self.exchange_side();
        side.sessions.lose_told(now, place, &close, effects);
        side.lose_exchanges(now, place, &close, effects);
    }

    /// A subscription is refused that waits for a place that is lost.
    fn refuse_lost(
        &mut self,
        now: Now,
        place: Place,
        refused: Option<LostSubscription>,
        effects: &mut Effects,
    ) {
        self.refuse_subscription(now, Some(place), refused, lost(place), effects);
    }

    /// A subscription is refused by its home, or because that is lost; the place is to send nothing more of what was
    /// promised for it.
    pub(super) fn refuse_subscription(
        &mut self,
        now: Now,
        place: Option<Place>,
        refused: Option<LostSubscription>,
        close: Close,
        effects: &mut Effects,
    ) {
        let Some(LostSubscription { session, key, token }) = refused else { return };
        self.unsubscribe(now, session, key, (Ending::Orderly, None), &mut None, effects);
        let mut sessions = self.session_side();
        if let Some(place) = place {
            sessions.forget_promises(session, place);
        }
        sessions.reply(session, Reply::no_subscription(key, token, close), effects);
    }

    /// A message to a place that is lost has come back.
    #[cold]
    pub(super) fn take_undelivered(&mut self, now: Now, message: Envelope, effects: &mut Effects) {
        let place = message.to;
        match message.body {
            Body::Home(message @ (ToHome::Call(_) | ToHome::CancelCall { .. })) => {
                self.exchange_side().home_lost(now, place, message, effects);
            }
            Body::Home(message @ ToHome::Notify { .. }) => {
                self.notice_side().home_lost(now, place, message, effects);
            }
            Body::Home(ToHome::Transfer { transfer, .. }) => {
                let result = Err(Box::new(lost(place)));
                self.home_side().transferred(now, transfer, result, effects);
            }
            Body::Home(
                ToHome::Feed { number, .. } | ToHome::FeedInterest { on: true, number, .. },
            ) => {
                self.home_side().fed(now, place, (number, Err(lost(place))), effects);
                self.hand_on(now, effects);
            }
            Body::Home(ToHome::DeadLetter { run, source, .. }) => {
                self.loss_side().dead_letter_lost(now, place, (&run, source), effects);
                self.hand_on(now, effects);
            }
            Body::Home(message) => {
                let refused = self.session_side().home_lost(now, place, message, effects);
                self.refuse_lost(now, place, refused, effects);
            }
            Body::Exchange(message @ ToExchange::Assigned(..)) => {
                self.home_side().responder_lost(message, effects);
            }
            Body::Exchange(message) => self.exchange_side().exchange_lost(now, message, effects),
            Body::Views(message) => {
                self.view_side().views_lost(message);
                self.end_view_slice(now, effects);
            }
            // Its sessions are gone.
            Body::Subscriber(_) | Body::Notices(_) | Body::Publisher(_) | Body::Undelivered(_) => {}
        }
    }
}
