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
            sent_last: false,
            received_last: false,
            deaf: false,
            properties: false,
            held: VecDeque::new(),
            ended: None,
        }
    }

    /// The same in which the client may send so many items.
    pub(super) fn granting(self, granted: u32) -> ExchangeState {
        ExchangeState { granted, ..self }
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
