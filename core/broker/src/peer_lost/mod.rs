//! A place is lost for good: a shard or a node has ended, with all that it kept and all of its sessions.
//!
//! ```text
//!   Broker::peer_lost ─▶ the home:     what its sessions had here is given back: consumers, locks, claims, interest
//!                     ─▶ the sessions: what they have asked of it is answered with `peer-lost`, with what stands upon
//!                                      them: its topics are gone, and exchanges with its sessions end
//!                     ─▶ the views:    what was made of its topics is taken back
//!   from then on      ─▶ a message to it comes back to its sender, who is answered the same way
//! ```
//! A place that is lost does not come back: what begins where it was is another place. Each pass takes as long as there
//! are sessions, or topics, of which a slice is done in each turn. Relies on messages that it had sent being received
//! before. Invariants: nothing waits for a place that is lost; nothing is kept here for its sessions.

mod exchanges;
mod home;
mod sessions;
mod undelivered;

pub(crate) use sessions::{LostSubscription, LostWaits};

use tiderace_base::{Close, CloseCode};

use crate::places::Place;

/// What requests are answered that wait for a place that is lost.
pub(crate) fn lost(place: Place) -> Close {
    let reason = format!(
        "{place}, which was to answer, has been lost; whether it did what was asked is not known: ask again, if it may \
         be done twice"
    );
    Close::new(CloseCode::PeerLost, reason)
}
