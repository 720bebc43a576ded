//! The subscriptions of one session.
//!
//! Relies on small keys, used again. Invariants: names are unique; the lines a MESSAGE begins with
//! are made once, when the subscription is.

use std::collections::BTreeMap;
use std::collections::VecDeque;

use tiderace_wire::SubscriptionKey;

use crate::destination::Style;
use crate::header::append_value;
use crate::version::Version;

/// How a subscription's messages are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AckMode {
    /// Not at all.
    Auto,
    /// Each message, with all before it.
    Client,
    /// Each message by itself.
    ClientIndividual,
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Subscription {
    /// The header lines its messages begin with, then, unless they say it, its name.
    text: Box<[u8]>,
    /// How much of `text` is sent.
    prefix: u32,
    /// Where in `text` its name stands.
    name: (u32, u32),
    pub(super) mode: AckMode,
    /// Whether messages may be of several destinations, so that each says its own, in this style.
    pub(super) style: Option<Style>,
    /// 1.0: the destination is its name.
    nameless: bool,
    /// Messages to be acknowledged.
    pub(super) unacked: Option<Box<Unacked>>,
}

/// Delivered messages that wait for their acknowledgement, oldest first.
#[derive(Debug, Default)]
pub(super) struct Unacked {
    pub(super) entries: VecDeque<Waiting>,
    /// Entries that are settled but still in the list.
    pub(super) settled: usize,
    /// No entry up to this tag can be acknowledged any more.
    pub(super) floor: u64,
}

/// One delivered message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) tag: u64,
    pub(super) sequence: u64,
    pub(super) home: u16,
    pub(super) hold: Hold,
}

/// Who decides about a delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// The client has not yet said.
    Free,
    /// An action of an open transaction.
    Action(u32),
    /// It is decided.
    Settled,
}

/// How a subscription is named by its client.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// 1.0 without an id.
    pub(super) is_destination: bool,
}

/// All subscriptions of a session.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    slots: Vec<Option<Subscription>>,
    /// Made when a walk over the slots would take long.
    index: Option<Box<Index>>,
}

/// Keys by name.
#[derive(Debug, Default)]
struct Index {
    keys: BTreeMap<Box<[u8]>, u32>,
}

impl Subscription {
    /// A subscription and the lines its messages begin with; `destination` is its spelling.
    pub(super) fn new(
        version: Version,
        name: Name<'_>,
        destination: &str,
        style: Option<Style>,
        mode: AckMode,
    ) -> Subscription {
        let mut text = Vec::with_capacity(name.text.len() + destination.len() + 32);
        let mut range = (0, 0);
        if !name.is_destination {
            text.extend_from_slice(b"subscription:");
            range = append_named(&mut text, version, name.text);
        }
        if style.is_none() {
            text.extend_from_slice(b"destination:");
            let said = append_named(&mut text, version, destination);
            if name.is_destination {
                range = said;
            }
        }
        let prefix = text.len() as u32;
        if name.is_destination && style.is_some() {
            range = append_named(&mut text, version, destination);
        }
        Subscription {
            text: text.into(),
            prefix,
            name: range,
            mode,
            style,
            nameless: name.is_destination,
            unacked: None,
        }
    }

    /// The lines its messages begin with.
    pub(super) fn prefix(&self) -> &[u8] {
        self.text.get(..self.prefix as usize).unwrap_or_default()
    }

    /// What the index knows it by.
    fn name(&self) -> &[u8] {
        self.text.get(self.name.0 as usize..self.name.1 as usize).unwrap_or_default()
    }

    /// Whether a `subscription` header means it.
    pub(super) fn is_named(&self, version: Version, text: &str) -> bool {
        !self.nameless && *self.name() == *spelled(version, text)
    }
}

impl Subscriptions {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match &self.index {
            Some(index) => index.keys.len(),
            None => self.slots.iter().flatten().count(),
        }
    }

    /// Finds one by name.
    pub(super) fn find(&self, version: Version, name: Name<'_>) -> Option<SubscriptionKey> {
        let text = spelled(version, name.text);
        if let Some(index) = &self.index {
            let key = index_key(&text, name.is_destination);
            return index.keys.get(&key).copied().map(SubscriptionKey);
        }
        let fits = |slot: &Option<Subscription>| {
            slot.as_ref().is_some_and(|subscription| {
                subscription.nameless == name.is_destination && *subscription.name() == *text
            })
        };
        self.slots.iter().position(fits).map(|at| SubscriptionKey(at as u32))
    }

    /// Takes one in under the lowest free key.
    pub(super) fn insert(&mut self, subscription: Subscription) -> SubscriptionKey {
        let free = if self.index.is_some() && self.is_dense() {
            self.slots.len()
        } else {
            self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len())
        };
        if let Some(index) = &mut self.index {
            let key = index_key(subscription.name(), subscription.nameless);
            index.keys.insert(key, free as u32);
        }
        if free == self.slots.len() {
            if self.slots.len() < EXACT_SLOTS_MAX {
                self.slots.reserve_exact(1);
            }
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
    pub(super) fn remove(&mut self, key: SubscriptionKey) -> Option<Subscription> {
        let subscription = self.slots.get_mut(key.0 as usize)?.take()?;
        if let Some(index) = &mut self.index {
            index.keys.remove(&index_key(subscription.name(), subscription.nameless));
        }
        while self.slots.last().is_some_and(Option::is_none) {
            self.slots.pop();
        }
        Some(subscription)
    }

    pub(super) fn get(&self, key: SubscriptionKey) -> Option<&Subscription> {
        self.slots.get(key.0 as usize)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, key: SubscriptionKey) -> Option<&mut Subscription> {
        self.slots.get_mut(key.0 as usize)?.as_mut()
    }

    fn is_dense(&self) -> bool {
        self.index.as_ref().is_some_and(|index| index.keys.len() == self.slots.len())
    }

    fn build_index(&mut self) {
        let mut index = Index::default();
        for (slot, key) in self.slots.iter().zip(0..) {
            if let Some(subscription) = slot {
                index.keys.insert(index_key(subscription.name(), subscription.nameless), key);
            }
        }
        self.index = Some(Box::new(index));
    }
}

impl Unacked {
    /// Forgets settled entries at the front, and all of them when they are the most.
    pub(super) fn tidy(&mut self) {
        while self.entries.front().is_some_and(|entry| entry.hold == Hold::Settled) {
            self.entries.pop_front();
            self.settled -= 1;
        }
        if self.settled > 64 && self.settled * 2 > self.entries.len() {
            self.entries.retain(|entry| entry.hold != Hold::Settled);
            self.settled = 0;
        }
        if self.entries.is_empty() && self.entries.capacity() > 64 {
            self.entries = VecDeque::new();
        }
    }
}

/// Appends a value and an EOL; says where the value stands.
fn append_named(text: &mut Vec<u8>, version: Version, value: &str) -> (u32, u32) {
    let start = text.len() as u32;
    append_value(text, version, value);
    let end = text.len() as u32;
    text.push(b'\n');
    (start, end)
}

/// A name as it is kept.
fn spelled(version: Version, text: &str) -> Vec<u8> {
    let mut spelled = Vec::with_capacity(text.len());
    append_value(&mut spelled, version, text);
    spelled
}

/// Ids and destinations are different names even if they look the same.
fn index_key(name: &[u8], is_destination: bool) -> Box<[u8]> {
    let mut key = Vec::with_capacity(name.len() + 1);
    key.push(u8::from(is_destination));
    key.extend_from_slice(name);
    key.into()
}

/// Up to here the slots take no more memory than they need.
const EXACT_SLOTS_MAX: usize = 8;
/// From here on a name is looked up instead of searched for.
const INDEX_MIN: usize = 16;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn id(text: &str) -> Name<'_> {
        Name { text, is_destination: false }
    }

    fn subscription(name: Name<'_>, style: Option<Style>) -> Subscription {
        Subscription::new(Version::V12, name, "/topic/a", style, AckMode::Auto)
    }

    #[test]
    fn messages_begin_with_what_the_subscriber_said() {
        let row = subscription(id("a:b"), None);
        assert_eq!(row.prefix(), b"subscription:a\\cb\ndestination:/topic/a\n");
        assert!(row.is_named(Version::V12, "a:b"));
        let row = subscription(id("7"), Some(Style::Dots));
        assert_eq!(row.prefix(), b"subscription:7\n");
        let nameless = Name { text: "/topic/a", is_destination: true };
        let row = Subscription::new(Version::V10, nameless, "/topic/a", None, AckMode::Auto);
        assert_eq!(row.prefix(), b"destination:/topic/a\n");
        assert_eq!(row.name(), b"/topic/a");
        let row =
            Subscription::new(Version::V10, nameless, "/topic/a", Some(Style::Dots), AckMode::Auto);
        assert_eq!((row.prefix(), row.name()), (&b""[..], &b"/topic/a"[..]));
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
                        let key = subscriptions.insert(subscription(id(&text), None));
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
