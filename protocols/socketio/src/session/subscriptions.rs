//! The subscriptions of a session: what they listen to, under small numbers.
//!
//! Relies on nothing. Invariant: a session has no two subscriptions of one kind to one name in one
//! namespace, and a subscription keeps its number until it ends.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use tiderace_base::prefetch;
use tiderace_wire::{Browsing, Replay, SubscriptionKey};

/// What a subscription is to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// The name of the durable subscription that it is.
    pub(crate) durable: Option<Box<str>>,
    /// What was asked for by `deltas`: values come as bytes, and by differences of that codec; 0 if the
    /// server offers none of those.
    pub(crate) codec: Option<u8>,
    /// Where to begin in what the topics keep.
    pub(crate) replay: Option<Replay>,
    /// Milliseconds between two updates of a topic, at least.
    pub(crate) interval: u32,
    /// Whether to be told of topics that come and go.
    pub(crate) notices: bool,
    /// A queue is shown, and nothing is taken.
    pub(crate) browsing: Option<Browsing>,
}

impl Subscription {
    fn named(&self) -> Name<'_> {
        (self.namespace, self.listening, &self.name)
    }

    /// The name of the durable subscription that it is, if it is one.
    pub(crate) fn durable(&self) -> Option<&str> {
        self.choices.as_ref()?.durable.as_deref()
    }

    /// About what it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        let choices = self.choices.as_ref().map_or(0, |choices| {
            let texts = [&choices.selector, &choices.durable].into_iter().flatten();
            size_of::<Choices>() + texts.map(|text| text.len()).sum::<usize>()
        });
        size_of::<Subscription>() + self.name.len() + choices
    }
}

/// By their keys. Few are looked through; many have an index, so that no event of a client costs
/// more than the client has sent.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    list: Vec<Option<Subscription>>,
    index: Option<Box<Index>>,
}

/// Where to find what, once there are many.
#[derive(Debug)]
struct Index {
    keys: HashTable<u32>,
    hasher: RandomState,
    /// No place before this one is free.
    free_from: usize,
}

/// What a subscription is found by.
type Name<'a> = (u8, Listening, &'a str);

impl Index {
    fn of(list: &[Option<Subscription>]) -> Box<Index> {
        let (keys, hasher) = (HashTable::with_capacity(list.len()), RandomState::default());
        let mut index = Box::new(Index { keys, hasher, free_from: 0 });
        for (key, known) in list.iter().enumerate() {
            if let Some(known) = known {
                index.insert(key as u32, known, list);
            }
        }
        index
    }

    fn find(&self, name: Name<'_>, list: &[Option<Subscription>]) -> Option<u32> {
        let same = |key: &u32| at(list, *key).is_some_and(|known| known.named() == name);
        self.keys.find(self.hasher.hash_one(name), same).copied()
    }

    fn insert(&mut self, key: u32, known: &Subscription, list: &[Option<Subscription>]) {
        let hasher = &self.hasher;
        let hash = |key: &u32| at(list, *key).map_or(0, |known| hasher.hash_one(known.named()));
        self.keys.insert_unique(hasher.hash_one(known.named()), key, hash);
    }

    fn remove(&mut self, key: u32, known: &Subscription) {
        let hash = self.hasher.hash_one(known.named());
        if let Ok(entry) = self.keys.find_entry(hash, |other| *other == key) {
            entry.remove();
        }
        self.free_from = self.free_from.min(key as usize);
    }
}

fn at(list: &[Option<Subscription>], key: u32) -> Option<&Subscription> {
    list.get(key as usize)?.as_ref()
}

impl Subscriptions {
    pub(crate) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        at(&self.list, key.0)
    }

    /// Asks memory for one.
    pub(crate) fn expect(&self, key: SubscriptionKey) {
        if let Some(known) = self.list.get(key.0 as usize) {
            prefetch(known);
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.index {
            Some(index) => index.keys.len(),
            None => self.list.iter().flatten().count(),
        }
    }

    pub(crate) fn find(
        &self,
        namespace: u8,
        listening: Listening,
        name: &str,
    ) -> Option<SubscriptionKey> {
        let name = (namespace, listening, name);
        if let Some(index) = &self.index {
            return index.find(name, &self.list).map(SubscriptionKey);
        }
        let same = |known: &Option<Subscription>| {
            known.as_ref().is_some_and(|known| known.named() == name)
        };
        self.list.iter().position(same).map(|key| SubscriptionKey(key as u32))
    }

    pub(crate) fn insert(&mut self, subscription: Subscription) -> SubscriptionKey {
        let from = self.index.as_ref().map_or(0, |index| index.free_from);
        let mut later = self.list.iter().skip(from);
        let free = later.position(Option::is_none).map_or(self.list.len(), |place| from + place);
        if let Some(index) = &mut self.index {
            index.free_from = free + 1;
        }
        self.put(free, subscription)
    }

    /// Inserts under that key if it is free and near; else under another.
    pub(crate) fn insert_at(&mut self, key: u32, subscription: Subscription) -> SubscriptionKey {
        let place = key as usize;
        if place > self.list.len() + NEAR || matches!(self.list.get(place), Some(Some(_))) {
            return self.insert(subscription);
        }
        self.put(place, subscription)
    }

    /// Puts one into a place that is free.
    fn put(&mut self, place: usize, subscription: Subscription) -> SubscriptionKey {
        let key = place as u32;
        if let Some(index) = &mut self.index {
            index.insert(key, &subscription, &self.list);
        }
        if place >= self.list.len() {
            // Most sessions have one subscription; those with many pay a few moves.
            self.list.reserve_exact((place + 1 - self.list.len()).max(self.list.len() / 2));
            self.list.resize_with(place + 1, || None);
        }
        if let Some(free) = self.list.get_mut(place) {
            *free = Some(subscription);
        }
        if self.index.is_none() && self.list.len() > MANY {
            self.index = Some(Index::of(&self.list));
        }
        SubscriptionKey(key)
    }

    pub(crate) fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        let removed = self.list.get_mut(key.0 as usize)?.take();
        if let (Some(removed), Some(index)) = (&removed, &mut self.index) {
            index.remove(key.0, removed);
        }
        while let Some(None) = self.list.last() {
            self.list.pop();
        }
        if self.list.is_empty() {
            self.index = None;
        }
        removed
    }

    /// The keys of those of a namespace, rising.
    pub(crate) fn of(&self, namespace: u8) -> Vec<SubscriptionKey> {
        let fits = |(key, known): (usize, &Option<Subscription>)| {
            let fits = known.as_ref().is_some_and(|known| known.namespace == namespace);
            fits.then_some(SubscriptionKey(key as u32))
        };
        self.list.iter().enumerate().filter_map(fits).collect()
    }
}

/// How far a key may lie behind the last one: a record's keys come in order, with gaps of others'.
const NEAR: usize = 10_000;
/// Places from which on there is an index.
const MANY: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subscription(name: u32) -> Subscription {
        Subscription {
            name: name.to_string().into(),
            choices: None,
            namespace: (name % 2) as u8,
            listening: Listening::Topic,
            recoverable: false,
            explicit: false,
            snapshot: true,
        }
    }

    proptest! {
        /// The model is a plain list, looked through from the beginning.
        #[test]
        fn few_and_many_are_found(
            steps in proptest::collection::vec((0u32..100, 0u8..4, 0u32..120), 1..400),
        ) {
            let mut all = Subscriptions::default();
            let mut model: Vec<Option<u32>> = Vec::new();
            for (name, step, at) in steps {
                let known = model.iter().position(|known| *known == Some(name));
                let found = all.find((name % 2) as u8, Listening::Topic, &name.to_string());
                prop_assert_eq!(found.map(|key| key.0 as usize), known);
                match (known, step) {
                    (Some(place), 0) => {
                        prop_assert!(all.remove(SubscriptionKey(place as u32)).is_some());
                        model[place] = None;
                    }
                    (Some(_), _) => {}
                    (None, _) => {
                        let free = model.iter().position(Option::is_none).unwrap_or(model.len());
                        let wanted = if step == 1 { at as usize } else { free };
                        let taken = model.get(wanted).is_some_and(Option::is_some);
                        let place = if taken { free } else { wanted };
                        model.resize(model.len().max(place + 1), None);
                        model[place] = Some(name);
                        let key = match step {
                            1 => all.insert_at(at, subscription(name)),
                            _ => all.insert(subscription(name)),
                        };
                        prop_assert_eq!(key.0 as usize, place);
                    }
                }
                while let Some(None) = model.last() {
                    model.pop();
                }
                prop_assert_eq!(all.len(), model.iter().flatten().count());
            }
        }
    }
}
