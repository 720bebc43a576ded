//! What is asked about all sessions of the node: each shard looks at its own, some places a turn.
//!
//! Relies on [`crate::session_walks`] for how far it has come, and on the broker for who a session is and how it fares.
//! Invariant: sessions that no client brought about are none of these.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, Network, SessionId, is_local};
use tiderace_wire::{SessionEntry, SessionFacts, SessionFilter, SessionPage};

use crate::connection::{Connection, Flags, Live, Stage};
use crate::driver::Driver;
use crate::outcome::Farewell;
use crate::session_walks::{Part, SessionJob, SessionWork, Walk};
use crate::shard::Shard;
use crate::shared::Shared;
use crate::waker::{NodeAnswer, Notice};

/// Places for connections that are looked at in a turn: a quarter of a millisecond's worth, so that a million on one
/// shard take a thousand turns.
const PLACES_PER_TURN: u32 = 1_024;
/// Sessions that end in a turn: each says goodbye, and what it had is given back.
const ENDS_PER_TURN: u32 = 64;
/// Walks of either kind that may be open on a node.
const WALKS_MAX: usize = 64;

impl Shared {
    /// One more walk of those that a count of the node counts.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub(crate) fn open_walk(&self, of: &Arc<()>) -> Result<Arc<()>, Close> {
        let open = of.clone();
        // The node's own, and this one.
        if Arc::strong_count(&open) - 2 >= WALKS_MAX {
            let reason =
                "the node looks through its sessions for as many as it may; try again in a second";
            return Err(Close::new(CloseCode::TooMuchWork, reason));
        }
        Ok(open)
    }
}

impl<D: Driver> Shard<D> {
    /// Has all shards look at their sessions, for a session that may ask for it.
    pub(crate) fn begin_walk(&self, what: SessionWork, answer: NodeAnswer) {
        // However much is listed, sessions can be ended.
        let open = match &what {
            SessionWork::List(_) => &self.shared.session_lists,
            SessionWork::Kick(_) | SessionWork::Block(_) => &self.shared.session_kicks,
        };
        match self.shared.open_walk(open) {
            Ok(open) => self.start_walk(what, answer, open),
            Err(close) => answer.tell(Err(close)),
        }
    }

    /// The same, with one of the walks that may be open.
    pub(crate) fn start_walk(&self, what: SessionWork, answer: NodeAnswer, open: Arc<()>) {
        let wakers = self.shared.wakers.clone();
        let asking = answer.session();
        let answer = Box::new(|result| answer.tell(result));
        let job = Arc::new(SessionJob::new(what, asking, wakers.len(), answer, open));
        for waker in wakers.iter() {
            waker.notify(Notice::Walk(job.clone()));
        }
    }

    /// Goes on with a walk, if there is one.
    pub(crate) fn walk_some(&mut self) {
        let Some(mut walk) = self.walks.take() else { return };
        let only = walk.job.what.filter().id.map(|id| self.place_of(id));
        let places = match only {
            Some(place) => {
                // Of one session it is known where it would be.
                if let Some(place) = place {
                    self.look_at(&mut walk, place);
                }
                0
            }
            None => self.connections.slots(),
        };
        let (mut looks, mut ends) = (PLACES_PER_TURN, ENDS_PER_TURN);
        while looks > 0 && ends > 0 {
            let Some(place) = walk.next(places) else { break };
            looks -= 1;
            ends -= u32::from(self.look_at(&mut walk, place));
        }
        self.drain_effects();
        if !walk.is_over(places) {
            return self.walks.put_back(walk);
        }
        let part = self.part_of(&mut walk);
        walk.job.give(part);
    }

    /// Where the connection of a session is, if that is here.
    fn place_of(&self, id: SessionId) -> Option<u32> {
        if id.shard == self.id { self.broker.link_of(id) } else { None }
    }

    /// Looks at what is at one place; whether a session has ended by it.
    fn look_at(&mut self, walk: &mut Walk, place: u32) -> bool {
        let job = walk.job.clone();
        let Some((key, connection, live)) = self.session_at(place) else { return false };
        if !self.is_meant(job.what.filter(), connection, live) {
            return false;
        }
        match &job.what {
            SessionWork::List(query) => {
                walk.matched += 1;
                let since_ms = self.since_ms(key);
                let rank = query.rank(live.id, &self.broker.session_state(live.id), since_ms);
                if query.after.is_none_or(|after| rank > after) {
                    walk.keep(rank, key, query.entries_max());
                }
                false
            }
            // Nobody would be there to be answered.
            _ if live.id == job.asking => false,
            what => {
                walk.matched += 1;
                let is_heard = !live.is_detached();
                let close = what.end();
                if let Some(close) = &close {
                    let farewell = if is_heard { Farewell::Full } else { Farewell::Silent };
                    self.end(key, close, farewell);
                }
                close.is_some()
            }
        }
    }

    /// The session of a client at a place of this shard.
    fn session_at(&self, place: u32) -> Option<(Key, &Connection<D::Stream>, &Live)> {
        let key = self.connections.key_of(place)?;
        let connection = self.connections.get(key)?;
        match &connection.stage {
            Stage::Live(live) if !live.is_internal() && !connection.flags.has(Flags::OUTGOING) => {
                Some((key, connection, live))
            }
            _ => None,
        }
    }

    fn is_meant(
        &self,
        filter: &SessionFilter,
        connection: &Connection<D::Stream>,
        live: &Live,
    ) -> bool {
        let SessionFilter { id, protocol, principal, address, backlog } = filter;
        let client = connection.peer.address();
        // Who has no address is in no network.
        let is_there = |network: Network| !is_local(client) && network.contains(client);
        let is_called = |name: &str| {
            self.broker.principal_of(live.id).is_some_and(|principal| principal.is_called(name))
        };
        id.is_none_or(|id| id == live.id)
            && protocol.as_deref().is_none_or(|name| name == self.protocol_name(live))
            && address.is_none_or(is_there)
            && (*backlog == 0 || self.broker.backlog_bytes(live.id) as u64 >= *backlog)
            && principal.as_deref().is_none_or(is_called)
    }

    /// Since when a session is there, in milliseconds since 1970.
    fn since_ms(&self, key: Key) -> u64 {
        u64::from(self.session_begins.of(key.slot)) * 1000
    }

    fn protocol_name(&self, live: &Live) -> &'static str {
        let protocols = &self.shared.services.protocols;
        protocols.get(usize::from(live.protocol)).map_or("", |protocol| protocol.name)
    }

    /// What this shard has to say of a walk that has come to its end.
    fn part_of(&mut self, walk: &mut Walk) -> Part {
        let job = walk.job.clone();
        let page = match &job.what {
            SessionWork::List(_) => self.page_of(walk),
            SessionWork::Kick(_) | SessionWork::Block(_) => {
                SessionPage { matched: walk.matched, ..SessionPage::default() }
            }
        };
        Part { page }
    }

    fn page_of(&mut self, walk: &mut Walk) -> SessionPage {
        let found = walk.take_found();
        // Also if that one has ended since.
        let next = found.last().map(|(rank, _)| *rank).filter(|_| walk.has_more);
        let sessions: Vec<SessionEntry> =
            found.into_iter().filter_map(|(_, key)| self.entry_of(key)).collect();
        SessionPage { sessions, matched: walk.matched, next }
    }

    fn entry_of(&mut self, key: Key) -> Option<SessionEntry> {
        let tls = self.client_tls(key).is_some();
        // Another one may be in its place.
        let found = self.session_at(key.slot).filter(|(now, ..)| *now == key);
        let (_, connection, live) = found?;
        let entry = self.broker.session_entry(live.id)?;
        let principal = self.broker.principal_of(live.id);
        let facts = SessionFacts {
            groups: principal.map_or_else(|| [].into(), |principal| principal.groups.clone()),
            host: principal.and_then(|principal| principal.host.clone()),
            address: connection.peer.address(),
            port: connection.peer.socket().port(),
            protocol: self.protocol_name(live),
            transport: connection.stage.gauge().transport_name(),
            tls,
            since_ms: self.since_ms(key),
        };
        Some(SessionEntry { facts: Some(Box::new(facts)), ..entry })
    }
}
