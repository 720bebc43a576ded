//! Places that are lost, and messages that come back from there: which side of the shard each is for.
//!
//! Relies on the sides for what is done. Invariant: a place is lost once.

use tiderace_base::Now;

use super::Broker;
use crate::effects::Effects;
use crate::messages::{Body, Envelope, ToExchange};
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
        self.home_side().peer_lost(now, place, effects);
        self.hand_on(now, effects);
        self.exchange_side().peer_lost(now, place, effects);
        self.take_loopback(now, effects);
        self.view_side().peer_lost(now, place, effects);
        self.end_view_slice(now, effects);
        self.end_call(now, effects);
    }

    /// A message to a place that is lost has come back.
    #[cold]
    pub(super) fn take_undelivered(&mut self, now: Now, message: Envelope, effects: &mut Effects) {
        let place = message.to;
        match message.body {
            Body::Home(message) => {
                self.exchange_side().home_lost(now, place, message, effects);
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
            Body::Subscriber(_) | Body::Publisher(_) | Body::Undelivered(_) => {}
        }
    }
}
