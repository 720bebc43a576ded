//! The state of a request-channel that the server answers itself.
//!
//! Invariant: items that may come and answers that are owed are together never more than the client wants.

use tiderace_wire::Destination;

use super::describe::RequestOptions;
use crate::frame::Request;

/// What is done with the items of a channel.
#[derive(Debug)]
pub(super) enum Work {
    /// They come back.
    Echo,
    /// They are published there, so.
    Publish(Box<(Destination, RequestOptions<'static>)>),
}

/// A channel.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) work: Work,
    /// Answers that are wanted.
    pub(super) demand: u64,
    /// Items that may come.
    pub(super) granted: u32,
    /// Answers that the broker owes.
    pub(super) pending: u32,
    /// Whether the client has said all.
    pub(super) sent_last: bool,
}

impl Channel {
    /// A channel whose first item has come with the request.
    pub(super) fn new(work: Work, request: &Request<'_>) -> Channel {
        Channel {
            work,
            demand: u64::from(request.credit),
            granted: 0,
            pending: 0,
            sent_last: request.complete,
        }
    }

    /// Whether an item may come.
    pub(super) fn expects(&self) -> bool {
        self.granted > 0 && !self.sent_last
    }

    /// Items that may come.
    pub(super) fn granted(&self) -> u32 {
        self.granted
    }

    /// How many more items to ask for.
    pub(super) fn grant(&mut self, window: u32) -> Option<u32> {
        if self.sent_last {
            return None;
        }
        let free = self.demand.saturating_sub(u64::from(self.pending));
        let room = u32::try_from(free).unwrap_or(u32::MAX).min(window);
        // Not one by one, unless no more are wanted.
        if room == 0 || self.granted > room / 2 {
            return None;
        }
        let more = room - self.granted;
        self.granted = room;
        Some(more)
    }
}
