//! Messages that rooms of shards send each other, those of one shard among them.
//!
//! A message to a room of the same shard takes the way of one to another shard: it waits in one list, in
//! order, and is taken before the call of the broker that caused it returns. So no room calls back into
//! the room that called it, and what a call does cannot change under its hands. What is on the way of
//! every message does not wait in that list if nothing waits there: a publication to a home on the
//! session's own shard is returned to the wiring, which hands it to the home, and what a home has for
//! subscribers and consumers on its own shard is handed on as soon as its method returns. Confirmations and
//! refusals for a session of the shard take that way always. Invariants: the order is that of the list,
//! whichever way a message takes; between two calls of the broker nothing waits here.

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Key, ShardId};
use tiderace_wire::Run;

use crate::effects::Effects;
use crate::messages::{Body, Envelope, LocalMessage, ToPublisher};
use crate::places::{Place, PlaceSet};
use crate::requester::{Operated, Requester};

/// Messages of a shard to itself, in order.
#[derive(Debug)]
pub(crate) struct Loopback {
    here: Place,
    messages: VecDeque<Body>,
    /// Places that are gone for good: what is sent there comes back.
    lost: PlaceSet,
    /// What the home has for subscribers, if it is the first to be handed on, as it is for nearly every
    /// publication: it stands outside the list, which costs each of them more than all else here.
    fanout: Option<(Key, Arc<Run>)>,
    /// From the home, to be handed on behind that, and before anything of `messages`.
    local: VecDeque<LocalMessage>,
}

impl Loopback {
    /// The lists of a shard.
    pub(crate) fn new(shard: ShardId) -> Loopback {
        Loopback {
            here: Place::here(shard),
            messages: VecDeque::new(),
            lost: PlaceSet::EMPTY,
            fanout: None,
            local: VecDeque::new(),
        }
    }

    /// Where these lists are.
    #[inline]
    pub(crate) fn here(&self) -> Place {
        self.here
    }

    /// Sends a message to a shard, which may be this one.
    #[inline]
    pub(crate) fn send(&mut self, to: Place, body: impl Into<Body>, effects: &mut Effects) {
        let body = body.into();
        if to == self.here {
            self.messages.push_back(body);
        } else if self.lost.contains(to) {
            let message = Envelope { from: self.here, to, body };
            self.messages.push_back(Body::Undelivered(Box::new(message)));
        } else {
            effects.messages.push(Envelope { from: self.here, to, body });
        }
    }

    /// A place is lost: what is sent there from now on comes back to its sender. Whether it was there until now.
    pub(crate) fn lose(&mut self, place: Place) -> bool {
        place != self.here && self.lost.insert(place)
    }

    /// The places that are lost.
    pub(crate) fn lost(&self) -> PlaceSet {
        self.lost
    }

    /// Whether a place is lost.
    pub(crate) fn is_lost(&self, place: Place) -> bool {
        self.lost.contains(place)
    }

    /// Whether a message for this shard may be handed on directly: none was sent before it that waits.
    #[inline]
    pub(crate) fn is_direct(&self, to: Place) -> bool {
        to == self.here && self.messages.is_empty()
    }

    /// The home has something for sessions or views of this shard.
    #[inline]
    pub(crate) fn hand_on(&mut self, message: LocalMessage) {
        self.local.push_back(message);
    }

    /// The home has messages of a topic for subscribers of this shard.
    #[inline]
    pub(crate) fn fan_out(&mut self, topic: Key, run: Arc<Run>) {
        if self.fanout.is_none() && self.local.is_empty() {
            self.fanout = Some((topic, run));
        } else {
            self.local.push_back(LocalMessage::Fanout { topic, run });
        }
    }

    /// Messages of a topic that are to be handed on before what [`Loopback::next_local`] gives.
    #[inline]
    pub(crate) fn next_fanout(&mut self) -> Option<(Key, Arc<Run>)> {
        self.fanout.take()
    }

    /// The next message of the home for sessions or views of this shard, behind [`Loopback::next_fanout`].
    #[inline]
    pub(crate) fn next_local(&mut self) -> Option<LocalMessage> {
        self.local.pop_front()
    }

    /// The next message of the list.
    #[inline]
    pub(crate) fn next_message(&mut self) -> Option<Body> {
        self.messages.pop_front()
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.fanout.is_none() && self.local.is_empty()
    }

    /// Says at a home, or where the session is, what came of an operation.
    pub(crate) fn answer_operation(
        &mut self,
        requester: &Requester,
        result: Operated,
        effects: &mut Effects,
    ) {
        let (session, token) = (requester.session, requester.token);
        let result = result.map(Box::new);
        self.send(Place::of(session), ToPublisher::Operated { session, token, result }, effects);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::{SessionId, Time};
    use tiderace_topics::Path;
    use tiderace_wire::{Confirm, Destination, Kind, RunBuilder};

    #[test]
    fn messages_of_the_home_keep_their_order_wherever_they_wait() {
        let session = SessionId { shard: ShardId(0), slot: 0, generation: 0 };
        let topic = |slot| Key { slot, generation: 0 };
        let run = || {
            let path = Path::parse("t").unwrap();
            Arc::new(RunBuilder::new(Destination { kind: Kind::Topic, path }, Time::ZERO).build())
        };
        let answer = |number| LocalMessage::Confirmed { session, confirm: Confirm::one(number) };
        let mut loopback = Loopback::new(ShardId(0));
        loopback.fan_out(topic(1), run());
        loopback.hand_on(answer(2));
        loopback.fan_out(topic(3), run());
        let mut order = Vec::new();
        for _ in 0..2 {
            loop {
                if let Some((topic, _)) = loopback.next_fanout() {
                    order.push(topic.slot);
                }
                match loopback.next_local() {
                    Some(LocalMessage::Fanout { topic, .. }) => order.push(topic.slot),
                    Some(_) => order.push(2),
                    None => break,
                }
            }
            // The other way round there is something in front of the fan-out.
            loopback.hand_on(answer(2));
            loopback.fan_out(topic(4), run());
        }
        assert_eq!(order, [1, 2, 3, 2, 4]);
    }
}
