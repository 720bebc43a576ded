//! A connection changes hands: from a request whose answer does not end, or from a WebSocket that was
//! a probe, to the session it was meant for.
//!
//! Invariant: the socket is always in exactly one record, and unread and unwritten bytes go with it.

use tiderace_base::{Close, CloseCode, Key};
use tiderace_websocket::{Decoder, Role};
use tiderace_wire::{Takeover, Ticket};

use crate::carrier::Moved;
use crate::connection::{Live, Stage, Transport};
use crate::driver::Driver;
use crate::outcome::{Ended, Farewell};
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// Tells a session what a probe has said, short of [`Takeover::Done`].
    pub(crate) fn pass_takeover(&mut self, probe: Key, ticket: &Ticket, step: Takeover) {
        let refused = match self.taken(probe, ticket) {
            Some(session) => self.tell(session, step),
            None if step == Takeover::Failed => None,
            None => Some(CloseCode::BadRequest.into()),
        };
        if let Some(close) = refused {
            self.end(probe, &close, Farewell::Transport);
        }
    }

    /// Gives the probe's connection to the session it was for.
    pub(crate) fn finish_takeover(&mut self, probe: Key, ticket: &Ticket) {
        let carried = |shard: &mut Self, session: Key| {
            let live = shard.connections.get_mut(session).and_then(|record| record.live());
            matches!(live, Some(Live { transport: Transport::Requests(_), .. }))
        };
        let Some(session) = self.taken(probe, ticket).filter(|found| carried(self, *found)) else {
            return self.end(probe, &CloseCode::BadRequest.into(), Farewell::Transport);
        };
        let decoder = match self.connections.get_mut(probe).and_then(|record| record.live()) {
            Some(Live { transport: Transport::WebSocket { decoder, .. }, .. }) => {
                std::mem::replace(decoder, Decoder::new(Role::Server))
            }
            _ => return,
        };
        self.adopt(probe, session, Transport::WebSocket { decoder, rest: None });
        self.tell(session, Takeover::Done);
    }

    /// The record of the session that a probe is for.
    fn taken(&mut self, probe: Key, ticket: &Ticket) -> Option<Key> {
        let protocol = self.connections.get_mut(probe)?.live()?.protocol;
        self.holder(probe, protocol, ticket).filter(|found| *found != probe)
    }

    /// Tells a session of a step, and gives the reason if it refuses an offer.
    fn tell(&mut self, session: Key, step: Takeover) -> Option<Close> {
        let mut called =
            self.call(session, |session, now, context| session.takeover(now, step, context));
        let mut refused = None;
        if step == Takeover::Offered
            && let Err(Ended(close, _)) = std::mem::replace(&mut called.outcome, Ok(()))
        {
            refused = Some(close);
        }
        self.settle(session, called);
        self.rearm(session);
        refused
    }

    /// Moves a record's connection into the record of a session that has none.
    pub(crate) fn adopt(&mut self, from: Key, to: Key, transport: Transport) {
        let Some(address) = self.connections.get(to).map(|record| record.peer.address()) else {
            return;
        };
        let Some(Moved { stage, outgoing, is_usable }) = self.move_carrier(from, to) else {
            return;
        };
        self.shared.dismiss_carried(address);
        if let Stage::Live(live) = &stage {
            self.close_session(live.id);
            self.release_client_session_id(from);
            self.limited.remove(from);
        }
        if let Some(record) = self.connections.get_mut(to)
            && (record.input.is_some() || record.flags.is_peer_ended())
        {
            self.lists.again(to, &mut record.flags);
        }
        if let Some(Transport::Requests(requests)) = self.set_transport(to, transport) {
            self.dismiss_requests(to, *requests, &CloseCode::Done.into());
        }
        // What was meant for a held request has gone with it; this is the connection's own.
        if let Some(mut before) = outgoing
            && let Some(record) = self.connections.get_mut(to)
        {
            match &mut record.outgoing {
                None => record.outgoing = Some(before),
                Some(outgoing) => {
                    outgoing.queue.swap_behind(&mut before.queue);
                    self.pool.give_queue(before);
                }
            }
        }
        if !is_usable {
            self.discard(to, CloseCode::TransportError);
        }
        self.rearm(to);
    }
}
