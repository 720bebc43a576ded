//! What a shard may touch for the sessions of its connections.
//!
//! The methods stand in the files of what they do (`subscribe.rs`, `delivery/` and so on) as methods of
//! [`SessionSide`]. Its fields are all that they may know; the wiring in `broker.rs` alone makes one, of disjoint
//! parts of the broker, for one call. Sessions know no numbers, values, queues or locks: these are the home's, which
//! is asked by [`SessionSide::send`], also where it is this shard. Of the directory they use what a topic is; who
//! listens to it, and for whom its publishers wait, stands in [`Fanout`]. Notices and exchanges stand upon this
//! side, whose methods know nothing of them; the list of a session's ends alone stands in its record.

use std::rc::Rc;
use std::sync::Arc;

use tiderace_base::{Key, Memory, SessionId, ShardId};

use tiderace_topics::Pattern;

use crate::delivery::Deliveries;
use crate::directory::Directory;
use crate::effects::Effects;
use crate::fanout::Fanout;
use crate::loopback::Loopback;
use crate::messages::{Body, ToHome};
use crate::places::{Place, PlaceSet, key_of};
use crate::session::Session;
use crate::sessions::Sessions;
use crate::work::Work;
use crate::{BrokerMetrics, BrokerOptions};

/// A shard with its sessions, during one call.
#[derive(Debug)]
pub(crate) struct SessionSide<'a> {
    pub(crate) shard: ShardId,
    pub(crate) options: &'a Arc<BrokerOptions>,
    pub(crate) sessions: &'a mut Sessions,
    /// What waits for them.
    pub(crate) delivery: &'a mut Deliveries,
    /// Who subscribes to topics and by patterns.
    pub(crate) fanout: &'a mut Fanout,
    /// The topics.
    pub(crate) directory: &'a mut Directory,
    pub(crate) work: &'a mut Work,
    pub(crate) memory: &'a Rc<Memory>,
    pub(crate) metrics: &'a mut BrokerMetrics,
    pub(crate) loopback: &'a mut Loopback,
}

impl SessionSide<'_> {
    /// Where this side is.
    #[inline]
    pub(crate) fn here(&self) -> Place {
        Place::here(self.shard)
    }

    /// The homes that what is named by a pattern may be at: all but those that are lost, whose topics, queues and
    /// services are there no longer.
    pub(crate) fn homes(&self) -> PlaceSet {
        PlaceSet::all(self.options.shards).minus(self.loopback.lost())
    }

    /// The homes of those of them that topics of a pattern may be at.
    pub(crate) fn homes_of(&self, pattern: &Pattern) -> PlaceSet {
        match self.options.upstreams.is_empty() {
            true => self.homes(),
            false => self.options.homes_of(pattern).minus(self.loopback.lost()),
        }
    }

    /// Sends a message to a place, which may be this one.
    #[inline]
    pub(crate) fn send(&mut self, to: Place, message: impl Into<Body>, effects: &mut Effects) {
        let message = message.into();
        if let Body::Home(message) = &message {
            self.note_pending(to, message);
        }
        self.loopback.send(to, message, effects);
    }

    /// Notes which session waits for the answer to a message to a home elsewhere, if one does.
    #[inline]
    pub(crate) fn note_pending(&mut self, to: Place, message: &ToHome) {
        if to != self.here()
            && let Some(request) = message.pending()
        {
            self.sessions.pending_mut().note(request, to);
        }
    }

    /// A session of this shard.
    #[inline]
    pub(crate) fn session(&self, session: SessionId) -> Option<&Session> {
        self.sessions.get(key_of(session))
    }

    /// The same by its key.
    #[inline]
    pub(crate) fn record(&self, key: Key) -> Option<&Session> {
        self.sessions.get(key)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn record_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.sessions.get_mut(key)
    }

    /// The identity of a session of this shard.
    #[inline]
    pub(crate) fn id_of(&self, key: Key) -> SessionId {
        SessionId { shard: self.shard, slot: key.slot, generation: key.generation }
    }
}
