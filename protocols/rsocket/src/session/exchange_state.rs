//! The state of an exchange: a call or a conversation with a service, or one in which the client serves.
//!
//! Invariant: an exchange is over when both sides have said all and nothing waits.

use std::collections::VecDeque;

use bytes::Bytes;
use tiderace_base::Close;
use tiderace_wire::ExchangeKey;

use crate::frame::Interaction;

/// One exchange.
#[derive(Debug)]
pub(super) struct ExchangeState {
    pub(super) key: ExchangeKey,
    pub(super) interaction: Interaction,
    /// Items that the client wants.
    pub(super) demand: u64,
    /// Items that the client may send.
    pub(super) granted: u32,
    /// Items that the other side wants of the client beyond those; absent: no bound.
    pub(super) wanted: Option<u64>,
    /// Whether the client has said all.
    pub(super) sent_last: bool,
    /// Whether the other side has said all.
    pub(super) received_last: bool,
    /// Whether the client wants no items any more, but may still send some.
    pub(super) deaf: bool,
    /// Whether items bring their properties.
    pub(super) properties: bool,
    /// What waits for demand.
    pub(super) held: VecDeque<Held>,
    /// Why it is over, which the client hears behind what waits.
    pub(super) ended: Option<Box<Close>>,
}

/// A message that waits.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) metadata: Option<Box<[u8]>>,
    pub(super) data: Bytes,
    pub(super) last: bool,
    /// Whether it is no item, but only says that there are no more.
    pub(super) bare: bool,
}

impl Held {
    pub(super) fn bytes(&self) -> usize {
        self.data.len() + self.metadata.as_ref().map_or(0, |metadata| metadata.len()) + HELD_BYTES
    }
}

impl ExchangeState {
    pub(super) fn new(key: ExchangeKey, interaction: Interaction, demand: u32) -> ExchangeState {
        ExchangeState {
            key,
            interaction,
            demand: u64::from(demand),
            granted: 0,
            wanted: None,
            sent_last: false,
            received_last: false,
            deaf: false,
            properties: false,
            held: VecDeque::new(),
            ended: None,
        }
    }

    /// The same in which the other side wants so many items of the client; absent: no bound.
    pub(super) fn wanting(self, wanted: Option<u64>) -> ExchangeState {
        ExchangeState { wanted, ..self }
    }

    /// The other side wants more items of the client.
    pub(super) fn want(&mut self, items: u64) {
        self.wanted = self.wanted.map(|wanted| wanted.saturating_add(items));
    }

    /// Grants the client more items if few are left: what the other side wants, and no more than a window at a
    /// time, so that what is on its way is bounded. How many more.
    pub(super) fn grant(&mut self, window: u32) -> u32 {
        if self.granted > window / 2 {
            return 0;
        }
        let room = window - self.granted;
        let more = self.wanted.map_or(room, |wanted| room.min(wanted.try_into().unwrap_or(room)));
        self.wanted = self.wanted.map(|wanted| wanted - u64::from(more));
        self.granted += more;
        more
    }

    /// The same in which a side has said all, or not.
    pub(super) fn with_last(self, sent: bool, received: bool) -> ExchangeState {
        ExchangeState { sent_last: sent, received_last: received, ..self }
    }

    /// Whether an item may come from the client.
    pub(super) fn expects(&self) -> bool {
        self.granted > 0 && (!self.sent_last || self.ended.is_some())
    }

    pub(super) fn is_over(&self) -> bool {
        self.sent_last && self.received_last && self.held.is_empty()
    }
}

/// What a message that waits costs besides its bytes.
const HELD_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_granted_is_what_is_wanted_a_window_at_a_time(
            window in 1u32..20,
            first in proptest::option::of(1u64..40),
            ops in proptest::collection::vec((any::<bool>(), 1u64..30), 1..80),
        ) {
            let key = ExchangeKey::responder(1);
            let mut state = ExchangeState::new(key, Interaction::Channel, 0).wanting(first);
            let mut granted = u64::from(state.grant(window));
            let (mut wanted, mut sent) = (first, 0u64);
            for (sends, items) in ops {
                if sends && state.granted > 0 {
                    state.granted -= 1;
                    sent += 1;
                } else {
                    state.want(items);
                    wanted = wanted.map(|wanted| wanted + items);
                }
                granted += u64::from(state.grant(window));
                prop_assert_eq!(u64::from(state.granted), granted - sent);
                prop_assert!(state.granted <= window);
                prop_assert!(wanted.is_none_or(|wanted| granted <= wanted));
                // Who has sent all that was asked for is asked for the rest.
                prop_assert!(state.granted > 0 || wanted == Some(granted));
            }
        }
    }
}
