//! The subscriptions of one session.
//!
//! Relies on small keys, used again. Invariants: names are unique; a single subscription, which is
//! what most sessions have, needs no table.

use std::collections::BTreeMap;

use tiderace_wire::SubscriptionKey;

use super::subscription::{Name, Subscription, spelled};
use crate::version::Version;

/// All subscriptions of a session.
#[derive(Debug, Default)]
pub(super) enum Subscriptions {
    #[default]
    None,
    /// Only one, under the first key.
    First(Subscription),
    Many(Box<Table>),
}

const _: () = assert!(size_of::<Subscriptions>() <= 32, "it is in every session");

/// Subscriptions by key.
#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<Option<Subscription>>,
    /// Made when a walk over the slots would take long.
    index: Option<Box<Index>>,
}

/// Keys by name.
#[derive(Debug, Default)]
struct Index {
    keys: BTreeMap<Box<[u8]>, u32>,
}

impl Subscriptions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Subscriptions::None => 0,
            Subscriptions::First(_) => 1,
            Subscriptions::Many(table) => table.len(),
        }
    }

    /// Finds one by name.
    pub(super) fn find(&self, version: Version, name: Name<'_>) -> Option<SubscriptionKey> {
        let text = spelled(version, name.text);
        match self {
            Subscriptions::None => None,
            Subscriptions::First(known) => is(known, &text, name.is_destination).then_some(FIRST),
            Subscriptions::Many(table) => table.find(&text, name.is_destination),
        }
    }

    /// Takes one in under the lowest free key.
    pub(super) fn insert(&mut self, subscription: Subscription) -> SubscriptionKey {
        match std::mem::take(self) {
            Subscriptions::None => {
                *self = Subscriptions::First(subscription);
                FIRST
            }
            Subscriptions::First(first) => {
                let mut table = Box::<Table>::default();
                table.insert(first);
                let key = table.insert(subscription);
                *self = Subscriptions::Many(table);
                key
            }
            Subscriptions::Many(mut table) => {
                let key = table.insert(subscription);
                *self = Subscriptions::Many(table);
                key
            }
        }
    }

    /// Gives one back.
    pub(super) fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        match std::mem::take(self) {
            Subscriptions::None => None,
            Subscriptions::First(first) if key == FIRST => Some(first),
            Subscriptions::First(first) => {
                *self = Subscriptions::First(first);
                None
            }
            Subscriptions::Many(mut table) => {
                let removed = table.remove(key);
                if !table.slots.is_empty() {
                    *self = Subscriptions::Many(table);
                }
                removed
            }
        }
    }

    pub(super) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        match self {
            Subscriptions::First(first) if key == FIRST => Some(first),
            Subscriptions::None | Subscriptions::First(_) => None,
            Subscriptions::Many(table) => table.get(key),
        }
    }

    pub(super) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        match self {
            Subscriptions::First(first) if key == FIRST => Some(first),
            Subscriptions::None | Subscriptions::First(_) => None,
            Subscriptions::Many(table) => table.get_mut(key),
        }
    }
}

impl Table {
    /// How many there are.
    fn len(&self) -> usize {
        match &self.index {
            Some(index) => index.keys.len(),
            None => self.slots.iter().flatten().count(),
        }
    }

    /// Finds one by name.
    fn find(&self, text: &[u8], is_destination: bool) -> Option<SubscriptionKey> {
        if let Some(index) = &self.index {
            let key = index_key(text, is_destination);
            return index.keys.get(&key).copied().map(SubscriptionKey);
        }
        let fits = |slot: &Option<Subscription>| {
            slot.as_ref().is_some_and(|known| is(known, text, is_destination))
        };
        self.slots.iter().position(fits).map(|at| SubscriptionKey(at as u32))
    }

    /// Takes one in under the lowest free key.
    fn insert(&mut self, subscription: Subscription) -> SubscriptionKey {
        let free = if self.index.is_some() && self.is_dense() {
            self.slots.len()
        } else {
            self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len())
        };
        if let Some(index) = &mut self.index {
            let key = index_key(subscription.name(), subscription.is_nameless());
            index.keys.insert(key, free as u32);
        }
        if free == self.slots.len() {
            self.slots.push(Some(subscription));
        } else if let Some(slot) = self.slots.get_mut(free) {
            *slot = Some(subscription);
        }
        if self.index.is_none() && self.slots.len() > INDEX_MIN {
            self.build_index();
        }
        SubscriptionKey(free as u32)
    }

    /// Gives one back.
    fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        let subscription = self.slots.get_mut(key.0 as usize)?.take()?;
        if let Some(index) = &mut self.index {
            index.keys.remove(&index_key(subscription.name(), subscription.is_nameless()));
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        Some(subscription)
    }

    fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    fn is_dense(&self) -> bool {
        self.index.as_ref().is_some_and(|index| index.keys.len() == self.slots.len())
    }

    fn build_index(&mut self) {
        let mut index = Index::default();
        for (slot, key) in self.slots.iter().zip(0..) {
            if let Some(subscription) = slot {
                index.keys.insert(index_key(subscription.name(), subscription.is_nameless()), key);
            }
        }
        self.index = Some(Box::new(index));
    }
}

/// Whether it has that name, as names are kept.
fn is(subscription: &Subscription, text: &[u8], is_destination: bool) -> bool {
    subscription.is_nameless() == is_destination && *subscription.name() == *text
}

/// Ids and destinations are different names even if they look the same.
fn index_key(name: &[u8], is_destination: bool) -> Box<[u8]> {
    let mut key = Vec::with_capacity(name.len() + 1);
    key.push(u8::from(is_destination));
    key.extend_from_slice(name);
    key.into()
}

/// From here on a name is looked up instead of searched for.
const INDEX_MIN: usize = 16;
const FIRST: SubscriptionKey = SubscriptionKey(0);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::session::subscription::AckMode;
    use proptest::prelude::*;

    fn id(text: &str) -> Name<'_> {
        Name { text, is_destination: false }
    }

    fn subscription(name: Name<'_>) -> Subscription {
        Subscription::new(Version::V12, name, "/topic/a", None, AckMode::Auto)
    }

    proptest! {
        #[test]
        fn agree_with_a_map(ops in proptest::collection::vec((any::<bool>(), 0u8..40), 1..200)) {
            let mut subscriptions = Subscriptions::default();
            let mut model = BTreeMap::new();
            for (add, number) in ops {
                let text = number.to_string();
                let found = subscriptions.find(Version::V12, id(&text));
                prop_assert_eq!(found, model.get(&number).copied());
                match found {
                    None if add => {
                        let key = subscriptions.insert(subscription(id(&text)));
                        prop_assert!(model.values().all(|known| *known != key));
                        model.insert(number, key);
                    }
                    Some(key) if !add => {
                        prop_assert!(subscriptions.remove(key).unwrap().is_named(Version::V12, &text));
                        prop_assert!(subscriptions.get(key).is_none());
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(subscriptions.len(), model.len());
            }
        }
    }
}
