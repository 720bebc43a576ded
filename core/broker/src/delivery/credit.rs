//! What a subscription with credit may still be given, and what waits for more.
//!
//! `granting.rs` says how it is used. Invariant: a subscription is never given more than its credit.

use std::collections::VecDeque;

use tiderace_base::Key;
use tiderace_wire::Subscribe;

use super::backlog::Pending;
use crate::messages::SubscribeRequestId;
use crate::places::Place;
use crate::subscriber_list::Plain;

/// What a subscription may still be given, and what waits for more.
#[derive(Debug)]
pub(crate) struct Credit {
    pub(super) left: u64,
    pub(super) waiting: Option<Box<Waiting>>,
}

/// What a subscription without credit left has not been given.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Throttles that only wait for credit, the longest first; some may be closed by now.
    pub(super) throttles: VecDeque<Key>,
    /// Messages of queues.
    pub(super) segments: VecDeque<Pending>,
    /// Snapshots that have more.
    pub(super) pages: Vec<(Place, SubscribeRequestId)>,
}

/// A subscription with credit that is nothing else but an entry in a topic's list.
#[derive(Debug)]
pub(crate) struct Credited {
    pub(crate) plain: Plain,
    pub(crate) credit: Credit,
}

const _: () = assert!(size_of::<Credited>() <= 24, "there may be a million idle streams");

impl Credit {
    /// Whether a page that is meant waits for credit.
    pub(crate) fn holds_page(
        &self,
        is_meant: impl Fn(&(Place, SubscribeRequestId)) -> bool,
    ) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| waiting.pages.iter().any(is_meant))
    }

    /// The credit of a new subscription, if it is to have one.
    pub(crate) fn of(subscribe: &Subscribe) -> Option<Box<Credit>> {
        subscribe.credit.map(|left| Box::new(Credit { left, waiting: None }))
    }

    /// Takes out the messages of queues that wait for more.
    pub(crate) fn take_segments(&mut self) -> Option<VecDeque<Pending>> {
        let segments = std::mem::take(&mut self.waiting.as_mut()?.segments);
        self.tidy();
        Some(segments)
    }

    pub(super) fn tidy(&mut self) {
        self.waiting.take_if(|waiting| {
            waiting.throttles.is_empty() && waiting.segments.is_empty() && waiting.pages.is_empty()
        });
    }
}
