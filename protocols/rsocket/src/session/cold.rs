//! What most sessions never need, or need for a moment only.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use tiderace_base::{RateLimiter, Time};
use tiderace_wire::{Command, Destination, SubscriptionKey, Token};

use super::deltas::DeltaSubscriptions;
use super::early::EarlyFrames;
use super::lease::Leases;
use crate::fragment::Assemblies;
use crate::options::RSocketOptions;

/// What an answer of the broker will mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// The answer to a request-response that publishes.
    Publish(u32),
    /// The answer to an item of a channel.
    Item(u32),
    /// The value that a request-response asks for.
    Fetch(u32),
    /// The result of a request-response's operation.
    Operate(u32),
    /// A subscription's confirmation.
    Subscribe(u32, SubscriptionKey),
    /// The confirmation of a client that serves.
    Serve(u32, SubscriptionKey),
}

/// Kept apart from the session, and given back when it is idle.
#[derive(Default)]
pub(super) struct ColdState {
    /// Of the session's ticket, until the login is done.
    pub(super) secret: u128,
    /// Frames that came before the login was done.
    pub(super) early: EarlyFrames,
    /// The token by which the client wants to come back, until the login is done.
    pub(super) token: Option<Box<[u8]>>,
    /// What SETUP said of who the client is.
    pub(super) authentication: Option<Box<[u8]>>,
    /// The MIME type of data, if it has no number.
    pub(super) data_mime: Option<Box<str>>,
    pub(super) waiting: BTreeMap<Token, Waiting>,
    pub(super) assemblies: Assemblies,
    pub(super) pushes: Option<RateLimiter>,
    pub(super) leases: Option<Box<Leases>>,
    /// Streams of exchanges in which the client serves, by the broker's numbers.
    pub(super) served: HashMap<u32, u32, foldhash::fast::RandomState>,
    /// Bytes of messages that wait for demand.
    pub(super) held_bytes: usize,
    pub(super) deltas: DeltaSubscriptions,
    /// Where was published last, by its route.
    pub(super) published: Option<Box<(Box<str>, Destination)>>,
    /// Requests that read and whose answers may be large.
    pub(super) large_answers: usize,
    /// Items that may still come for streams that the server has ended.
    pub(super) late: u32,
    /// What is to be asked of the broker as soon as it can be.
    pub(super) deferred: Vec<Command>,
}

impl ColdState {
    /// For the beginning of a session.
    pub(super) fn new(secret: u128) -> ColdState {
        ColdState { secret, ..ColdState::default() }
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_idle(&self) -> bool {
        self.early.is_empty()
            && self.token.is_none()
            && self.authentication.is_none()
            && self.data_mime.is_none()
            && self.waiting.is_empty()
            && self.assemblies.is_empty()
            && self.pushes.is_none()
            && self.leases.is_none()
            && self.served.is_empty()
            && self.held_bytes == 0
            && self.deltas.is_empty()
            && self.published.is_none()
            && self.large_answers == 0
            && self.late == 0
            && self.deferred.is_empty()
    }

    /// When something of this has to be looked at.
    pub(super) fn deadline(&self, options: &RSocketOptions, detached: bool) -> Time {
        if !self.deferred.is_empty() {
            return AT_ONCE;
        }
        if detached {
            // What its client began goes on when it comes back.
            return Time::NEVER;
        }
        let fragments = self.assemblies.oldest();
        let fragments =
            fragments.map_or(Time::NEVER, |(_, begun)| begun + options.fragments_timeout);
        fragments.min(self.leases.as_ref().map_or(Time::NEVER, |leases| leases.renew_at()))
    }
}

/// In the past.
pub(super) const AT_ONCE: Time = Time::from_nanos(1);
