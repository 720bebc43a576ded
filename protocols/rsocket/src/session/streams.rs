//! The open streams of a session, by id, and the subscriptions among them, by key.
//!
//! Relies on nothing. Invariants: an id has at most one stream; an idle stream costs one slot of a table
//! and, if it is a subscription, eight bytes more; what is rarely used is behind a pointer.

use hashbrown::HashMap;
use tiderace_base::prefetch;
use tiderace_wire::{SubscriptionKey, Token};

use super::channel::Channel;
use super::consumer::Consumer;
use super::echo::Echo;
use super::exchange_state::ExchangeState;
use crate::frame::NUMBER_MAX;
use crate::metrics::{Kind, Role};

/// What an open stream is.
#[derive(Debug)]
pub(super) enum Stream {
    /// A request-stream whose payload comes back again and again.
    Echo(Echo),
    /// A request-stream of topics.
    Subscribed { key: SubscriptionKey },
    /// A request-stream of queues.
    Consuming(Box<Consumer>),
    /// A request-response that waits for the broker.
    Waiting { token: Token },
    /// A client that serves; it is never sent an item.
    Serving { key: SubscriptionKey, channel: bool },
    /// A request-channel whose items the server answers itself.
    Channel(Box<Channel>),
    /// An exchange with a service, or with a client that serves.
    Exchange(Box<ExchangeState>),
}

const _: () = assert!(size_of::<(u32, Stream)>() <= 40, "there may be millions of them");

impl Stream {
    /// What it is in metrics.
    pub(super) fn kind(&self) -> Kind {
        match self {
            Stream::Echo(_) | Stream::Subscribed { .. } | Stream::Consuming(_) => Kind::Stream,
            Stream::Waiting { .. } => Kind::Response,
            Stream::Serving { channel: false, .. } => Kind::Stream,
            Stream::Serving { channel: true, .. } | Stream::Channel(_) => Kind::Channel,
            Stream::Exchange(state) => state.interaction.into(),
        }
    }
}

/// Whose stream it is, by its id.
pub(super) fn role(stream: u32) -> Role {
    if stream % 2 == 1 { Role::Responder } else { Role::Requester }
}

/// How the deliveries of a subscription go out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form(u8);

impl Form {
    /// Each message says its path and version.
    pub(super) const DETAILS: Form = Form(1);
    /// Each message brings its properties.
    pub(super) const PROPERTIES: Form = Form(2);
    /// Deltas may be sent; details say so.
    pub(super) const DELTAS: Form = Form(4);
    /// It is a queue's.
    pub(super) const QUEUE: Form = Form(8);
    /// Its messages are settled by the client's demand.
    pub(super) const EXPLICIT: Form = Form(16);
    /// It serves.
    pub(super) const SERVICE: Form = Form(32);
    /// Its client wants everything, so that more demand means nothing.
    pub(super) const UNBOUNDED: Form = Form(64);

    /// Nothing but data.
    #[inline]
    pub(super) fn is_plain(self) -> bool {
        self.0 & (Form::DETAILS.0 | Form::PROPERTIES.0 | Form::EXPLICIT.0) == 0
    }

    #[inline]
    pub(super) fn has(self, other: Form) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn with(self, other: Form, is: bool) -> Form {
        if is { Form(self.0 | other.0) } else { self }
    }
}

/// A subscription's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    /// Zero if the key is free.
    pub(super) stream: u32,
    pub(super) form: Form,
}

/// All open streams.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: HashMap<u32, Stream, foldhash::fast::RandomState>,
    keys: Vec<Slot>,
    /// Bytes that echo streams keep.
    echo_bytes: u32,
    /// Keys in use.
    used: u32,
    /// The highest id of the client's streams.
    highest: u32,
    /// The id of the server's last stream.
    own: u32,
    /// The place in the table at which a walk through it was stopped.
    turn: u32,
    /// Whether ids have come to their end, so that any of them may have been used.
    wrapped: bool,
}

impl Streams {
    /// How many are open.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// How many subscriptions there are.
    pub(super) fn subscriptions(&self) -> usize {
        self.used as usize
    }

    #[inline]
    pub(super) fn get(&self, stream: u32) -> Option<&Stream> {
        self.open.get(&stream)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, stream: u32) -> Option<&mut Stream> {
        self.open.get_mut(&stream)
    }

    pub(super) fn is_open(&self, stream: u32) -> bool {
        self.open.contains_key(&stream)
    }

    /// Gives each stream once, until told to stop; begins with the one at which it was stopped last,
    /// give or take those that have begun or ended since.
    pub(super) fn each_in_turn(&mut self, mut go_on: impl FnMut(u32, &mut Stream) -> bool) {
        let first = self.turn as usize;
        for places in [first..usize::MAX, 0..first] {
            let streams = self.open.iter_mut().enumerate().take(places.end).skip(places.start);
            for (place, (id, stream)) in streams {
                if !go_on(*id, stream) {
                    self.turn = place as u32;
                    return;
                }
            }
        }
    }

    /// Bytes that echo streams keep.
    pub(super) fn echo_bytes(&self) -> usize {
        self.echo_bytes as usize
    }

    /// Whether a stream is a subscription of that key, still.
    pub(super) fn has_key(&self, stream: u32, key: SubscriptionKey) -> bool {
        self.by_key(key).is_some_and(|slot| slot.stream == stream)
    }

    pub(super) fn ids(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    pub(super) fn insert(&mut self, id: u32, stream: Stream) {
        if let Stream::Echo(echo) = &stream {
            self.echo_bytes += echo.bytes() as u32;
        }
        self.open.insert(id, stream);
    }

    /// Ends a stream; its key stays in use.
    pub(super) fn remove(&mut self, stream: u32) -> Option<Stream> {
        let removed = self.open.remove(&stream);
        if let Some(Stream::Echo(echo)) = &removed {
            self.echo_bytes -= echo.bytes() as u32;
        }
        // Who had many streams once does not keep their room.
        if self.open.capacity() > KEPT_PLACES && self.open.len() < self.open.capacity() / 8 {
            self.open.shrink_to(self.open.len() * 2);
        }
        removed
    }

    /// Notes an id of the client's.
    pub(super) fn note(&mut self, stream: u32) {
        self.wrapped |= stream >= NUMBER_MAX - 1;
        self.highest = self.highest.max(stream);
    }

    /// Whether a stream of that id may have been there.
    pub(super) fn may_have_been(&self, stream: u32) -> bool {
        let most = if stream % 2 == 1 { self.highest } else { self.own };
        stream <= most || self.wrapped
    }

    /// An id for a stream that the server begins.
    pub(super) fn next_own(&mut self) -> u32 {
        loop {
            self.own += 2;
            if self.own >= NUMBER_MAX {
                self.own = 2;
                self.wrapped = true;
            }
            if !self.open.contains_key(&self.own) {
                return self.own;
            }
        }
    }

    /// The lowest free key, for the subscription of that stream.
    pub(super) fn take_key(&mut self, stream: u32, form: Form) -> SubscriptionKey {
        let slot = Slot { stream, form };
        let free = match self.used as usize == self.keys.len() {
            true => None,
            false => self.keys.iter().position(|slot| slot.stream == 0),
        };
        self.used += 1;
        let at = match free {
            Some(at) => at,
            None => {
                self.keys.push(slot);
                self.keys.len() - 1
            }
        };
        if let Some(place) = self.keys.get_mut(at) {
            *place = slot;
        }
        SubscriptionKey(at as u32)
    }

    /// Frees a key.
    pub(super) fn free_key(&mut self, key: SubscriptionKey) {
        let Some(slot) = self.keys.get_mut(key.0 as usize) else { return };
        if slot.stream != 0 {
            self.used -= 1;
        }
        *slot = Slot { stream: 0, form: Form::default() };
        while self.keys.pop_if(|slot| slot.stream == 0).is_some() {}
        if self.keys.len() < self.keys.capacity() / 8 {
            self.keys.shrink_to(self.keys.len() * 2);
        }
    }

    /// A delivery will soon be made: asks memory for what leads to its stream, without waiting for it.
    #[inline]
    pub(super) fn expect(&self, key: SubscriptionKey) {
        self.keys.get(key.0 as usize).into_iter().for_each(prefetch);
    }

    /// The stream of a subscription.
    #[inline]
    pub(super) fn by_key(&self, key: SubscriptionKey) -> Option<Slot> {
        self.keys.get(key.0 as usize).copied().filter(|slot| slot.stream != 0)
    }
}

/// A table of so many places is kept as it is.
const KEPT_PLACES: usize = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn keys_are_the_lowest_free_ones(ops in proptest::collection::vec((any::<bool>(), 0u32..8), 1..60)) {
            let mut streams = Streams::default();
            let mut model = BTreeMap::new();
            for ((take, key), number) in ops.into_iter().zip(1..) {
                if take {
                    let lowest = (0..).find(|key| !model.contains_key(key)).unwrap_or_default();
                    let key = streams.take_key(number, Form::DELTAS);
                    prop_assert_eq!(key.0, lowest);
                    model.insert(key.0, number);
                } else {
                    streams.free_key(SubscriptionKey(key));
                    model.remove(&key);
                }
                prop_assert_eq!(streams.subscriptions(), model.len());
                for key in 0..9 {
                    let found = streams.by_key(SubscriptionKey(key)).map(|slot| slot.stream);
                    prop_assert_eq!(found, model.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn room_for_many_is_given_back() {
        let mut streams = Streams::default();
        for stream in 0..1000 {
            streams.insert(stream, Stream::Waiting { token: 1 });
            streams.take_key(stream + 1, Form::default());
        }
        for stream in (1..1000).rev() {
            streams.remove(stream);
            streams.free_key(SubscriptionKey(stream));
        }
        assert!(streams.open.capacity() <= KEPT_PLACES && streams.keys.capacity() <= 16);
        assert!(streams.is_open(0) && streams.by_key(SubscriptionKey(0)).is_some());
    }

    #[test]
    fn own_ids_are_even_and_free() {
        let mut streams = Streams::default();
        assert_eq!((streams.next_own(), streams.next_own()), (2, 4));
        streams.own = NUMBER_MAX - 3;
        streams.insert(2, Stream::Waiting { token: 1 });
        assert_eq!(streams.next_own(), NUMBER_MAX - 1);
        assert_eq!(streams.next_own(), 4, "2 is in use");
    }

    #[test]
    fn what_never_was_is_told_from_what_is_over() {
        let mut streams = Streams::default();
        streams.note(5);
        assert!(streams.may_have_been(3) && !streams.may_have_been(7));
        assert!(!streams.may_have_been(2));
        streams.next_own();
        assert!(streams.may_have_been(2) && !streams.may_have_been(4));
    }
}
