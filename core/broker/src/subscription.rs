//! What the broker knows of one subscription that is more than an entry in a topic's list.

use tiderace_base::{Key, ShardId, Span};
use tiderace_filter::Selector;
use tiderace_wire::{Target, Token};

use crate::delivery::credit::Credit;
use crate::delivery::recovery::Recovery;
use crate::places::PlaceSet;
use crate::subscriber_list::SubscriberFlags;

/// One subscription of a session that is more than an entry in a topic's list.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// Tells it from earlier subscriptions with the same key.
    pub(crate) epoch: u32,
    pub(crate) explicit: bool,
    /// Whether it is for a principal of another node, for which the session asked.
    pub(crate) is_relayed: bool,
    /// How many homes have yet to answer before the subscription is complete.
    pub(crate) waiting: u32,
    /// Who waits for that.
    pub(crate) confirm: Option<Token>,
    /// Whether they wait for all values too.
    pub(crate) confirm_values: bool,
    /// Whether positions wait for what comes before everything new.
    pub(crate) recovering: bool,
    pub(crate) selector: Option<Selector>,
    pub(crate) targets: Targets,
    pub(crate) flags: SubscriberFlags,
    /// The shortest time between two updates of one topic, if there is one.
    pub(crate) interval: Option<Box<Span>>,
    /// What it may still be given, if that is bounded.
    pub(crate) credit: Option<Box<Credit>>,
    /// What waits until every home has said what was missed.
    pub(crate) recovery: Option<Box<Recovery>>,
    /// Of queues whose messages are settled by the client: how many have come, by home.
    pub(crate) handed: Vec<(ShardId, u64)>,
}

impl Subscription {
    /// Messages of a home's queues have come.
    pub(crate) fn note_handed(&mut self, home: ShardId, count: u32) {
        let count = u64::from(count);
        match self.handed.iter_mut().find(|(known, _)| *known == home) {
            Some((_, handed)) => *handed += count,
            None => self.handed.push((home, count)),
        }
    }

    /// How many messages of a home's queues have come.
    pub(crate) fn handed_by(&self, home: ShardId) -> u64 {
        let known = self.handed.iter().find(|(known, _)| *known == home);
        known.map_or(0, |(_, handed)| *handed)
    }
}

/// What a subscription listens to: nearly always one thing.
#[derive(Debug)]
pub(crate) enum Targets {
    One(Listening),
    Many(Box<[Listening]>),
}

/// One target and the homes that have not yet answered for it, as a set of places.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) target: Target,
    pub(crate) waiting: PlaceSet,
    /// The homes that have more values for it.
    pub(crate) paging: PlaceSet,
    /// The topic, if it is exactly one; a topic with subscribers is never forgotten.
    pub(crate) topic: Option<Key>,
    /// Its place in the topic's list of subscribers.
    pub(crate) place: u32,
}

impl Targets {
    pub(crate) fn as_slice(&self) -> &[Listening] {
        match self {
            Targets::One(one) => std::slice::from_ref(one),
            Targets::Many(many) => many,
        }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [Listening] {
        match self {
            Targets::One(one) => std::slice::from_mut(one),
            Targets::Many(many) => many,
        }
    }
}
