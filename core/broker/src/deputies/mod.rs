//! The room of a shard that stands in for the homes of topics at other nodes: its deputies, one for each upstream.
//!
//! A deputy subscribes at its upstream to what sessions of this node ask for, keeps what comes as a home keeps its
//! topics, and answers subscriptions from that. Messages keep the versions and the numbers that they have at the
//! upstream; everything here goes by numbers of this home, given in the order in which messages come.
//!
//! ```text
//!  upstream ──FromUpstream──▶ adopt ──▶ home: value, history ──▶ sessions of all shards
//!     ▲                                        │
//!     └──ToUpstream── subscriptions ◀── interest of shards; answers wait until a subscription is complete
//! ```
//! What clients here publish to topics of an upstream, and do with them, is passed on to it (`relaying.rs`), as are calls for
//! its services (`calling.rs`), and what they send to its queues; what clients here serve is called from there
//! (`serving.rs`). Each of their consumers of its queues has one there (`consuming.rs`, `settling.rs`).
//!
//! Relies on the home for all that is kept, and on the session to the upstream for the wire. Invariants: a subscription
//! is answered as complete only if nothing is missing that the upstream knows of; a message is passed on once.

mod adopting;
mod asking;
mod away;
mod backfilling;
mod backfills;
mod calling;
mod calls;
mod coming_back;
mod consumers;
mod consuming;
mod followed;
mod following;
mod held;
mod interest;
mod link;
mod numberings;
mod refusing;
mod relaying;
mod relays;
mod renewing;
mod serves;
mod serving;
mod settling;
mod subscriptions;
mod sweeping;
mod sweeps;

use tiderace_base::{SessionId, ShardId, Span, Time};
use tiderace_topics::{Path, Pattern};

use crate::BrokerOptions;
use crate::collections::Map;
use crate::messages::UpstreamMarks;
use crate::places::PlaceSet;
use backfills::Backfills;
use calls::Calls;
use consumers::Consumers;
use followed::Followed;
use held::{HeldAnswers, What};
use numberings::{Numberings, Progress};
use relays::Relays;
use serves::Serves;
use subscriptions::UpstreamSubscriptions;
use sweeps::Sweep;

/// The deputies of a shard.
#[derive(Debug, Default)]
pub(crate) struct Deputies {
    list: Vec<Deputy>,
    followed: Followed,
}

/// What stands in for the homes of one upstream's topics.
#[derive(Debug)]
struct Deputy {
    /// Its place in the configuration.
    upstream: u16,
    /// The session to the upstream, while there is one.
    link: Option<SessionId>,
    /// Since when there is none.
    away: Time,
    /// The upstream's life.
    epoch: u64,
    subscriptions: UpstreamSubscriptions,
    /// Topics that shards listen to, and what is asked of the upstream for each.
    topics: Map<Path, TopicUse>,
    patterns: Map<Pattern, PatternUse>,
    /// Everything is asked for, if somebody here listens or not.
    needs_all: bool,
    held: HeldAnswers,
    numberings: Numberings,
    backfills: Backfills,
    sweeps: Vec<Sweep>,
    /// Topics that are kept here: those with a value, and those that are known to be there.
    held_topics: u64,
    /// Subscriptions whose values came anew, since something was missing.
    resyncs: u64,
    /// While topics may have versions of a former life of the upstream: those whose last message has at most this number.
    renewed_after: Option<u64>,
    /// Whether the upstream has been found to have begun anew since this connection was made.
    has_begun_anew: bool,
    /// It has been away for so long that its topics are removed, and has not been there since.
    is_given_up: bool,
    relays: Relays,
    /// Time from the last question whether it is there to its answer.
    round_trip: Option<Span>,
    calls: Calls,
    serves: Serves,
    consumers: Consumers,
}

/// Who listens to a topic.
#[derive(Debug)]
struct TopicUse {
    places: PlaceSet,
    /// The subscription that brings it.
    key: u32,
}

/// Who listens to a pattern.
#[derive(Debug)]
struct PatternUse {
    subscriptions: u32,
    /// The subscriptions that bring its topics.
    keys: Vec<u32>,
}

/// How a deputy is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeputyState {
    /// Its upstream's place in the configuration.
    pub upstream: u16,
    /// Whether the upstream has let this node in.
    pub is_up: bool,
    /// Since when it has not.
    pub away: Time,
    /// Subscriptions there.
    pub subscriptions: u64,
    /// Subscriptions here that wait for the upstream.
    pub waiting: u64,
    /// Topics that are kept here.
    pub topics: u64,
    /// Those of them that may have changed there without being changed here: all, until the upstream has said what has
    /// changed since it was there last.
    pub stale: u64,
    /// Subscriptions there whose values came anew so far, since something was missing.
    pub resyncs: u64,
    /// Requests of clients here that it has not answered.
    pub relays: u64,
    /// Time from the last question whether it is there to its answer; absent while it is away, and before the first.
    pub round_trip: Option<Span>,
    /// Exchanges of clients here with responders there, and calls that wait for it.
    pub calls: u64,
    /// What clients here serve there, by name or pattern.
    pub serves: u64,
    /// Consumers of clients here of its queues.
    pub consumers: u64,
}

impl Deputies {
    /// Where a shard that stands in for others begins with its numbers: those below are for what is given later than it
    /// came.
    pub(crate) const NUMBERS_FROM: u64 = 1 << 32;

    /// Those of a shard.
    pub(crate) fn new(shard: ShardId, options: &BrokerOptions) -> Deputies {
        let upstreams = (0u16..).zip(&options.upstreams);
        let here = upstreams.filter(|(_, upstream)| upstream.shard == shard);
        let list = here.map(|(upstream, _)| Deputy::new(upstream)).collect();
        Deputies { list, followed: Followed::default() }
    }

    /// Whether the shard stands in for nobody.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Whether a session is one to an upstream.
    pub(crate) fn has_link(&self, session: SessionId) -> bool {
        self.list.iter().any(|deputy| deputy.link == Some(session))
    }

    /// Whether a key of an upstream stands for a consumer.
    fn has_consumer(&self, at: usize, key: u32) -> bool {
        self.list.get(at).is_some_and(|deputy| deputy.consumers.named(key).is_some())
    }

    /// The number of this home before the last of the subscriptions began anew that bring what is asked for.
    fn began_anew(&self, what: &What) -> u64 {
        let keys = |deputy: &Deputy| {
            let known = |key: &u32| deputy.subscriptions.get(*key).map_or(0, |known| known.anew);
            deputy.keys_of(what).iter().map(known).max().unwrap_or(0)
        };
        self.list.iter().map(keys).max().unwrap_or(0)
    }

    /// Whether nothing has changed since what views follow was told last; it is told next if something has.
    #[inline]
    pub(crate) fn follow_as_of(&mut self, generation: u32) -> bool {
        std::mem::replace(&mut self.followed.generation, generation) == generation
    }

    /// How each is doing.
    pub(crate) fn states(&self) -> Vec<DeputyState> {
        self.list.iter().map(Deputy::state).collect()
    }

    /// Whether something is to be swept.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.list.iter().any(|deputy| !deputy.sweeps.is_empty())
    }
}

impl Deputy {
    fn new(upstream: u16) -> Deputy {
        Deputy {
            upstream,
            link: None,
            away: Time::ZERO,
            epoch: 0,
            subscriptions: UpstreamSubscriptions::default(),
            topics: Map::default(),
            patterns: Map::default(),
            needs_all: false,
            held: HeldAnswers::default(),
            numberings: Numberings::default(),
            backfills: Backfills::default(),
            sweeps: Vec::new(),
            held_topics: 0,
            resyncs: 0,
            renewed_after: None,
            has_begun_anew: false,
            is_given_up: false,
            relays: Relays::default(),
            round_trip: None,
            calls: Calls::default(),
            serves: Serves::default(),
            consumers: Consumers::default(),
        }
    }

    /// How far everything has come.
    fn marks(&self) -> Box<UpstreamMarks> {
        Box::new(UpstreamMarks(self.numberings.marks()))
    }

    /// How far what is brought goes on.
    fn progress(&self) -> Progress {
        let is_whole = self.subscriptions.are_whole();
        Progress { is_whole, is_newest: is_whole && self.backfills.under_way.is_empty() }
    }

    /// What subscriptions know of a topic that they bring begins anew.
    fn begin_those_of(&mut self, path: &Path) {
        let told = self.numberings.told().into();
        self.subscriptions.begin_those_of(path, &told);
    }

    /// Perhaps everything goes on now that did before the connection was lost.
    fn note_whole(&mut self) {
        if self.subscriptions.has_become_whole() {
            self.numberings.make_whole();
        }
    }

    fn state(&self) -> DeputyState {
        let is_current = self.link.is_some() && self.subscriptions.are_whole();
        DeputyState {
            upstream: self.upstream,
            is_up: self.link.is_some(),
            away: self.away,
            subscriptions: self.subscriptions.len() as u64,
            waiting: self.held.len() as u64,
            topics: self.held_topics,
            stale: if is_current { 0 } else { self.held_topics },
            resyncs: self.resyncs,
            relays: self.relays.len() as u64,
            round_trip: self.round_trip,
            calls: self.calls.len() as u64,
            serves: self.serves.len() as u64,
            consumers: self.consumers.len() as u64,
        }
    }
}
