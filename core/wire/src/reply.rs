//! What the broker tells a session.

use tiderace_base::Close;

use crate::{Confirm, SharedRun, SubscriptionKey, Token};

/// An answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The login was accepted.
    LoggedIn {
        /// The identity's name.
        name: std::sync::Arc<str>,
    },
    /// These were done. Answers from different shards may come in another order than their
    /// questions; sessions whose protocol promises an order keep it themselves.
    Confirmed(Confirm),
    /// A command was refused; protocols without a milder way end the connection with it.
    Refused {
        /// The token of the command or message that is to blame, if it had one.
        token: Option<Token>,
        /// What to tell the client.
        close: Close,
    },
}

/// Messages for one subscription: part of a run, in order.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Which subscription.
    pub key: SubscriptionKey,
    /// The run.
    pub run: &'a SharedRun,
    /// The first message, counted within the run.
    pub from: usize,
    /// The one after the last.
    pub to: usize,
    /// How often these messages were delivered before.
    pub redeliveries: u32,
}

impl Delivery<'_> {
    /// Whether it is the whole run, so that shared encodings fit.
    pub fn is_whole(&self) -> bool {
        self.from == 0 && self.to == self.run.run().len()
    }
}
