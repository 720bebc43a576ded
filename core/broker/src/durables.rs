//! What is known of durable subscriptions: values that homes keep, and that the journal and messages carry.
//!
//! Relies on nothing that acts.

use std::sync::Arc;

use tiderace_base::Close;
use tiderace_wire::DurableSubscription;

use crate::places::PlaceSet;

/// What somebody waits for: places that are to take a topic's messages, or to hear of a subscription.
#[derive(Debug)]
pub(crate) struct Fed {
    /// Under which the places answer.
    pub(crate) number: u64,
    /// Those that have yet to answer.
    pub(crate) places: PlaceSet,
    /// What is to be kept cannot be, so far.
    pub(crate) refused: Option<Close>,
}

/// A durable subscription whose queue is here.
#[derive(Debug)]
pub(crate) struct Durable {
    pub(crate) about: Arc<DurableSubscription>,
    /// Who made it; absent: the configuration.
    pub(crate) owner: Option<Arc<str>>,
}
