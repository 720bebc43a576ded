//! What is known of durable subscriptions: values that homes keep, and that the journal and messages carry.
//!
//! Relies on nothing that acts.

use std::sync::Arc;

use tiderace_base::{Close, Key};
use tiderace_wire::{DurableSubscription, Run};

use crate::feed_parts::FeedParts;
use crate::places::{Place, PlaceSet};

/// What somebody waits for: places that are to take a topic's messages, or to hear of a subscription.
#[derive(Debug)]
pub(crate) struct Fed {
    /// Under which the places answer.
    pub(crate) number: u64,
    /// Those that have yet to answer.
    pub(crate) places: PlaceSet,
    /// What is to be kept cannot be, so far.
    pub(crate) refused: Option<Close>,
    /// Bytes that they have been sent.
    pub(crate) bytes: usize,
}

/// A durable subscription whose queue is here.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) about: Arc<DurableSubscription>,
    /// Who made it; absent: the configuration.
    pub(crate) owner: Option<Arc<str>>,
    /// The number of the first run that is for it, of those that its home takes for subscriptions.
    pub(crate) since: u64,
}

/// Who is to be told that a run is kept, under which number.
pub(crate) type ToldOfFeed = Option<(Place, u64)>;

/// A part of what is to be done with a run that very many subscriptions get.
#[derive(Debug)]
pub(crate) struct FeedSlice {
    pub(crate) number: u64,
    pub(crate) run: Arc<Run>,
    pub(crate) keys: Vec<Key>,
    /// What was made of it for those before.
    pub(crate) parts: FeedParts,
    /// Nobody else gets it.
    pub(crate) is_last: bool,
}
