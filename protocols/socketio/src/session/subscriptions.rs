//! The subscriptions of a session: what they listen to, under small numbers.
//!
//! Relies on nothing. Invariant: a session has no two subscriptions of one kind to one name in one
//! namespace, and a subscription keeps its number until it ends.

use tiderace_wire::SubscriptionKey;

/// What a subscription is to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listening {
    /// Topics, by `subscribe`.
    Topic,
    /// A queue, by `receive`.
    Queue,
    /// A service, by `serve`.
    Service,
    /// A room of an application namespace, by `join`; without a name, the namespace itself.
    Room,
}

/// One subscription.
#[derive(Debug)]
pub(crate) struct Subscription {
    /// The name as the client wrote it.
    pub(crate) name: Box<str>,
    pub(crate) choices: Option<Box<Choices>>,
    /// The number of its namespace.
    pub(crate) namespace: u8,
    pub(crate) listening: Listening,
    /// Whether its messages carry offsets.
    pub(crate) recoverable: bool,
    /// Whether the client answers each message.
    pub(crate) explicit: bool,
    /// Whether retained values come first.
    pub(crate) snapshot: bool,
}

const _: () =
    assert!(size_of::<Option<Subscription>>() <= 32, "there may be millions of idle ones");

/// What few subscriptions ask for; kept for clients that come back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choices {
    pub(crate) selector: Option<Box<str>>,
    pub(crate) prefetch: Option<u32>,
}

impl Subscription {
    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let choices = self.choices.as_ref().map_or(0, |choices| {
            size_of::<Choices>() + choices.selector.as_ref().map_or(0, |text| text.len())
        });
        size_of::<Subscription>() + self.name.len() + choices
    }
}

/// By their keys.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Vec<Option<Subscription>>);

impl Subscriptions {
    pub(crate) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.0.get(key.0 as usize)?.as_ref()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }

    pub(crate) fn find(
        &self,
        namespace: u8,
        listening: Listening,
        name: &str,
    ) -> Option<SubscriptionKey> {
        let same = |known: &Option<Subscription>| {
            known.as_ref().is_some_and(|known| {
                (known.namespace, known.listening, &*known.name) == (namespace, listening, name)
            })
        };
        self.0.iter().position(same).map(|key| SubscriptionKey(key as u32))
    }

    pub(crate) fn insert(&mut self, subscription: Subscription) -> SubscriptionKey {
        let free = self.0.iter().position(Option::is_none).unwrap_or(self.0.len());
        self.insert_at(free as u32, subscription)
    }

    /// Inserts under that key if it is free and near; else under another.
    pub(crate) fn insert_at(&mut self, key: u32, subscription: Subscription) -> SubscriptionKey {
        let at = key as usize;
        if at > self.0.len() + NEAR {
            return self.insert(subscription);
        }
        if at >= self.0.len() {
            // Most sessions have one subscription; those with many pay a few moves.
            self.0.reserve_exact((at + 1 - self.0.len()).max(self.0.len() / 2));
            self.0.resize_with(at + 1, || None);
        }
        match self.0.get_mut(at) {
            Some(place @ None) => {
                *place = Some(subscription);
                SubscriptionKey(key)
            }
            _ => self.insert(subscription),
        }
    }

    pub(crate) fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        let removed = self.0.get_mut(key.0 as usize)?.take();
        while let Some(None) = self.0.last() {
            self.0.pop();
        }
        removed
    }

    /// The keys of those of a namespace, rising.
    pub(crate) fn of(&self, namespace: u8) -> Vec<SubscriptionKey> {
        let fits = |(key, known): (usize, &Option<Subscription>)| {
            let fits = known.as_ref().is_some_and(|known| known.namespace == namespace);
            fits.then_some(SubscriptionKey(key as u32))
        };
        self.0.iter().enumerate().filter_map(fits).collect()
    }
}

/// How far a key may lie behind the last one: a record's keys come in order, with gaps of others'.
const NEAR: usize = 10_000;
