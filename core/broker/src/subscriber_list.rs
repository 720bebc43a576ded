//! The subscribers of one topic, in as little room as a million topics need.
//!
//! Invariant: a topic that one subscription listens to needs no memory for it beside its entry in a table.

use tiderace_base::{Key, prefetch};
use tiderace_wire::{Subscribe, SubscriptionKey};

/// One subscription's entry in a topic's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Subscriber {
    pub(crate) session: Key,
    pub(crate) key: SubscriptionKey,
    /// Which of the subscription's targets led here.
    pub(crate) target: u16,
    /// No selector and nothing to wait for: deliveries need no look at the subscription.
    pub(crate) plain: bool,
    pub(crate) flags: SubscriberFlags,
}

/// What a subscription wants beyond messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SubscriberFlags(u8);

impl SubscriberFlags {
    pub(crate) fn of(subscribe: &Subscribe) -> SubscriberFlags {
        SubscriberFlags(
            u8::from(subscribe.recoverable)
                | u8::from(subscribe.deltas) << 1
                | u8::from(subscribe.targets.len() > 1) << 2
                | u8::from(!subscribe.interval.is_zero()) << 3
                | u8::from(subscribe.credit.is_some()) << 4,
        )
    }

    /// It gets only as much as it has credit for.
    pub(crate) fn has_credit(self) -> bool {
        self.0 & 16 != 0
    }

    /// Updates of a topic come to it only so often.
    pub(crate) fn is_throttled(self) -> bool {
        self.0 & 8 != 0
    }

    /// Its subscription has other targets, which may match the same topics.
    pub(crate) fn several(self) -> bool {
        self.0 & 4 != 0
    }

    /// Its client may come back for what it missed.
    pub(crate) fn recoverable(self) -> bool {
        self.0 & 1 != 0
    }

    /// It wants to know the message before each run.
    pub(crate) fn deltas(self) -> bool {
        self.0 & 2 != 0
    }
}

const _: () = assert!(size_of::<Subscriber>() <= 16, "every subscription has one");

/// Subscribers, each in its place.
#[derive(Debug, Default)]
pub(crate) enum SubscriberList {
    #[default]
    None,
    One(Subscriber),
    /// Boxed, since a vector's length and capacity would be in every topic.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<Subscriber>>),
}

const _: () = assert!(size_of::<SubscriberList>() <= 16, "every topic has two");

impl SubscriberList {
    pub(crate) fn as_slice(&self) -> &[Subscriber] {
        match self {
            SubscriberList::None => &[],
            SubscriberList::One(one) => std::slice::from_ref(one),
            SubscriberList::Many(many) => many,
        }
    }

    /// Asks memory for what says where they are.
    pub(crate) fn expect(&self) {
        if let SubscriberList::Many(many) = self {
            prefetch(&**many);
        }
    }

    fn as_mut_slice(&mut self) -> &mut [Subscriber] {
        match self {
            SubscriberList::None => &mut [],
            SubscriberList::One(one) => std::slice::from_mut(one),
            SubscriberList::Many(many) => many,
        }
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Subscriber> {
        self.as_slice().iter()
    }

    pub(crate) fn get(&self, place: usize) -> Option<&Subscriber> {
        self.as_slice().get(place)
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Subscriber> {
        self.as_mut_slice().get_mut(place)
    }

    pub(crate) fn len(&self) -> usize {
        self.as_slice().len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a subscriber in the last place.
    pub(crate) fn push(&mut self, subscriber: Subscriber) {
        match self {
            SubscriberList::None => *self = SubscriberList::One(subscriber),
            SubscriberList::One(one) => {
                *self = SubscriberList::Many(Box::new(vec![*one, subscriber]))
            }
            SubscriberList::Many(many) => {
                if many.len() == many.capacity() {
                    // Not doubled: half of a million places would be idle.
                    many.reserve_exact((many.len() / 8).max(1));
                }
                many.push(subscriber);
            }
        }
    }

    /// Takes the subscriber out of a place, which the last one takes.
    pub(crate) fn swap_remove(&mut self, place: usize) -> Option<Subscriber> {
        let removed = *self.get(place)?;
        let SubscriberList::Many(many) = self else {
            *self = SubscriberList::None;
            return Some(removed);
        };
        many.swap_remove(place);
        if let [one] = ***many {
            *self = SubscriberList::One(one);
        } else if many.len() <= many.capacity() / 2 {
            many.shrink_to(many.len() + many.len() / 8);
        }
        Some(removed)
    }
}

/// Where a subscription stands that is nothing but an entry in a topic's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain {
    /// The topic's slot; a topic with subscribers is never forgotten, so no generation is needed.
    pub(crate) topic: u32,
    /// Its place in the topic's list.
    pub(crate) place: u32,
}

impl Plain {
    pub(crate) fn new(topic: Key, place: u32) -> Plain {
        Plain { topic: topic.slot, place }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::Key;
    use tiderace_wire::SubscriptionKey;

    proptest! {
        #[test]
        fn agrees_with_a_list(ops in proptest::collection::vec(any::<(bool, u8)>(), 0..300)) {
            let mut listeners = SubscriberList::default();
            let mut model: Vec<Subscriber> = Vec::new();
            for ((push, at), number) in ops.into_iter().zip(0..) {
                if push {
                    let one = Subscriber {
                        session: Key::default(),
                        key: SubscriptionKey(number),
                        target: 0,
                        plain: number % 2 == 0,
                        flags: Default::default(),
                    };
                    listeners.push(one);
                    model.push(one);
                } else {
                    let at = usize::from(at) % 16;
                    let removed = (at < model.len()).then(|| model.swap_remove(at));
                    prop_assert_eq!(listeners.swap_remove(at), removed);
                }
                prop_assert_eq!(listeners.as_slice(), &model[..]);
                prop_assert_eq!(listeners.is_empty(), model.is_empty());
                if let SubscriberList::Many(many) = &listeners {
                    prop_assert!(many.len() > 1 && many.capacity() <= many.len() * 2 + 1);
                }
            }
        }
    }
}
