//! What shards tell each other, by what it is about.
//!
//! Relies on nothing that acts. Invariant: a message says all that its receiver needs to know.

mod local;
mod server;
mod service;
mod views;

use tiderace_base::SessionId;
use tiderace_wire::SubscriptionKey;

pub(crate) use local::LocalMessage;
pub use server::ServerMail;
pub use service::ServiceMail;
pub use views::{Values, ViewMail};

/// One target of a subscription, waiting for a home's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SubscribeRequestId {
    /// Whose.
    pub session: SessionId,
    /// Which subscription.
    pub key: SubscriptionKey,
    /// Which of its targets.
    pub target: u16,
    /// Which of the subscriptions that have had that key: keys are used again, and an answer to an
    /// earlier one may still be under way.
    pub epoch: u32,
}
