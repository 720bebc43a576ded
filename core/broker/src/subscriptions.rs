//! The subscriptions of one session, in as little room as a million idle subscribers need.
//!
//! Keys are small and used again as a rule, but some are chosen by clients. Invariants: a single subscription under the first key
//! needs no memory of its own once its homes have answered; no key holds two entries.

use tiderace_base::Numbered;
use tiderace_wire::{SubscriptionKey, Target};

use crate::delivery::credit::Credited;
use crate::price::TEXT_BYTES;
use crate::subscriber_list::Plain;
use crate::subscription::Listening;
use crate::subscription::Subscription;

/// A subscription as its session keeps it.
#[derive(Debug)]
pub(crate) enum Entry {
    /// To one topic, without a selector, and every home has answered: all that most ever are.
    Plain(Plain),
    /// The same with credit.
    Credited(Box<Credited>),
    /// Anything else.
    Full(Box<Subscription>),
}

/// Bytes of a subscription that is a record of its own, beside its texts: its places in a session, in
/// indexes, and perhaps at homes.
pub(crate) const SUBSCRIPTION_BYTES: usize = size_of::<Subscription>() + 256;
/// Bytes of one that is hardly more than an entry in a list.
const PLAIN_BYTES: usize = size_of::<Option<Entry>>() + 32;

/// Bytes that a target of a subscription takes.
pub(crate) fn target_bytes(target: &Target) -> usize {
    match target {
        Target::Exact(destination) => destination.path.as_str().len(),
        Target::Pattern(_, pattern) => 2 * pattern.as_str().len(),
    }
}

impl Entry {
    /// Bytes that it takes, in the session and where it is listed.
    pub(crate) fn bytes(&self) -> usize {
        let Entry::Full(subscription) = self else { return PLAIN_BYTES };
        let targets = subscription.targets.as_slice();
        let texts: usize =
            targets.iter().map(|it| size_of::<Listening>() + target_bytes(&it.target)).sum();
        let selector = subscription.selector.as_ref().map_or(0, |it| TEXT_BYTES * it.text().len());
        SUBSCRIPTION_BYTES + texts + selector
    }

    /// Its place, if it is nothing but an entry in a topic's list.
    pub(crate) fn plain(&self) -> Option<Plain> {
        match self {
            Entry::Plain(plain) => Some(*plain),
            Entry::Credited(credited) => Some(credited.plain),
            Entry::Full(_) => None,
        }
    }
}

/// Entries by key.
#[derive(Debug, Default)]
pub(crate) enum Subscriptions {
    #[default]
    None,
    /// Only one, under the first key.
    First(Entry),
    Many(Box<Numbered<Entry>>),
}

const _: () = assert!(size_of::<Subscriptions>() <= 16, "it is in every session");

impl Subscriptions {
    pub(crate) fn get(&self, key: SubscriptionKey) -> Option<&Entry> {
        match self {
            Subscriptions::First(entry) if key == FIRST => Some(entry),
            Subscriptions::None | Subscriptions::First(_) => None,
            Subscriptions::Many(entries) => entries.get(key.0),
        }
    }

    pub(crate) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Entry> {
        match self {
            Subscriptions::First(entry) if key == FIRST => Some(entry),
            Subscriptions::None | Subscriptions::First(_) => None,
            Subscriptions::Many(entries) => entries.get_mut(key.0),
        }
    }

    /// Puts an entry in the place of what was there.
    pub(crate) fn insert(&mut self, key: SubscriptionKey, entry: Entry) {
        if let Subscriptions::Many(entries) = self {
            return entries.insert(key.0, entry);
        }
        if key == FIRST {
            *self = Subscriptions::First(entry);
            return;
        }
        let mut entries = Numbered::default();
        if let Subscriptions::First(first) = std::mem::take(self) {
            entries.insert(FIRST.0, first);
        }
        entries.insert(key.0, entry);
        *self = Subscriptions::Many(Box::new(entries));
    }

    pub(crate) fn remove(&mut self, key: SubscriptionKey) -> Option<Entry> {
        match std::mem::take(self) {
            Subscriptions::None => None,
            Subscriptions::First(entry) if key == FIRST => Some(entry),
            Subscriptions::First(entry) => {
                *self = Subscriptions::First(entry);
                None
            }
            Subscriptions::Many(mut entries) => {
                let entry = entries.remove(key.0);
                if !entries.is_empty() {
                    *self = Subscriptions::Many(entries);
                }
                entry
            }
        }
    }

    /// Those that are more than an entry in a topic's list, in order of their keys.
    pub(crate) fn full(&self) -> impl Iterator<Item = (SubscriptionKey, &Subscription)> {
        let (first, many) = match self {
            Subscriptions::None => (None, None),
            Subscriptions::First(entry) => (Some((FIRST, entry)), None),
            Subscriptions::Many(entries) => (None, Some(entries)),
        };
        let many = many.into_iter().flat_map(|entries| {
            let numbers = entries.numbers().into_iter();
            numbers.filter_map(|number| Some((SubscriptionKey(number), entries.get(number)?)))
        });
        first.into_iter().chain(many).filter_map(|(key, entry)| match entry {
            Entry::Full(subscription) => Some((key, &**subscription)),
            Entry::Plain(_) | Entry::Credited(_) => None,
        })
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        match self {
            Subscriptions::None => 0,
            Subscriptions::First(_) => 1,
            Subscriptions::Many(entries) => entries.len(),
        }
    }

    /// The keys in use, rising.
    pub(crate) fn keys(&self) -> Vec<SubscriptionKey> {
        match self {
            Subscriptions::None => Vec::new(),
            Subscriptions::First(_) => vec![FIRST],
            Subscriptions::Many(entries) => {
                entries.numbers().into_iter().map(SubscriptionKey).collect()
            }
        }
    }
}

/// The key of the first subscription of most protocols' sessions.
const FIRST: SubscriptionKey = SubscriptionKey(0);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn plain(entry: &Entry) -> Plain {
        match entry {
            Entry::Plain(plain) => *plain,
            _ => panic!("only plain ones were put in"),
        }
    }

    proptest! {
        #[test]
        fn agree_with_a_map(ops in proptest::collection::vec((0u32..6, any::<bool>()), 1..100)) {
            let mut subscriptions = Subscriptions::default();
            let mut model = BTreeMap::new();
            for ((key, add), number) in ops.into_iter().zip(0..) {
                let key = SubscriptionKey(key);
                if add {
                    let entry = Plain { topic: number, place: number };
                    subscriptions.insert(key, Entry::Plain(entry));
                    model.insert(key, entry);
                } else {
                    let removed = subscriptions.remove(key);
                    prop_assert_eq!(removed.as_ref().map(plain), model.remove(&key));
                }
                for key in (0..7).map(SubscriptionKey) {
                    let known = model.get(&key).copied();
                    prop_assert_eq!(subscriptions.get(key).map(plain), known);
                    prop_assert_eq!(subscriptions.get_mut(key).map(|entry| plain(entry)), known);
                }
                prop_assert_eq!(subscriptions.keys(), model.keys().copied().collect::<Vec<_>>());
                prop_assert_eq!(subscriptions.count(), model.len());
                prop_assert_eq!(matches!(subscriptions, Subscriptions::None), model.is_empty());
            }
        }
    }
}
