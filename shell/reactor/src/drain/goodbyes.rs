//! How each kind of connection is told to go: by its protocol's last word if it has a session, by the answer to its
//! request if it has one, by GOAWAY if it is one of HTTP/2.
//!
//! Invariants: a request that has begun is answered; a session between two polls of its client, one whose client
//! has yet to take what waits for it, and a login that is being judged, are passed over and looked at again, until
//! the span is over. A stream of HTTP/2 whose session ends is not the last word of its connection: that says first
//! that it takes no more, so that the client does not come back by it.

use std::borrow::Cow;

use tiderace_base::{Close, CloseCode, Key};

use crate::connection::{Connection, Flags, Stage, Transport};
use crate::driver::Driver;
use crate::http_stage::Work;
use crate::outcome::Farewell;
use crate::shard::Shard;

/// What becomes of a connection in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// It is left alone.
    Stays,
    /// It cannot go now.
    Busy,
    /// It ends already.
    Ends,
    /// It ends.
    Goes,
    /// It ends with its next answer, or with its last stream.
    Last,
}

impl<D: Driver> Shard<D> {
    /// Tells a connection to go; whether it was told. With `is_over` nothing is waited for but answers that are
    /// under way, and with `is_last` not for these.
    pub(super) fn send_off(&mut self, key: Key, is_over: bool, is_last: bool) -> bool {
        let slot = match self.connections.get(key) {
            None => return false,
            Some(connection) if self.is_kept(connection) => Slot::Stays,
            Some(connection) => self.slot_of(connection, is_over, is_last),
        };
        match slot {
            Slot::Stays | Slot::Busy => return false,
            Slot::Ends => {
                self.note_leaving(key);
                return false;
            }
            Slot::Goes | Slot::Last => {}
        }
        // A poll that waits for the session's last word is the last request of its connection, too.
        if let Some(asking) = self.asking(key) {
            self.note_leaving(asking);
            self.take_no_more_requests(asking);
        }
        self.take_no_more_requests(key);
        if slot == Slot::Goes {
            let request = self.draining.as_ref().map(|draining| &draining.plan.request);
            let to = request.and_then(|request| request.to.clone());
            self.end(key, &Close::from(CloseCode::Draining).to(to), Farewell::Full);
            self.drain_effects();
        }
        self.note_leaving(key);
        true
    }

    fn is_kept(&self, connection: &Connection<D::Stream>) -> bool {
        let kept = self.draining.as_ref().and_then(|draining| draining.plan.kept);
        let session = match &connection.stage {
            Stage::Live(live) => Some(live.id),
            _ => None,
        };
        // What leads to an upstream is no client's, and clients that are left need it.
        connection.flags.has(Flags::OUTGOING)
            || self.shared.stays_open(connection.listener)
            || session.is_some() && session == kept.map(|(_, session)| session)
    }

    fn slot_of(&self, connection: &Connection<D::Stream>, is_over: bool, is_last: bool) -> Slot {
        let is_told = connection.flags.has(Flags::LEAVING);
        match &connection.stage {
            Stage::Closing { .. } | Stage::Dialling => Slot::Ends,
            Stage::Sniff => Slot::Goes,
            Stage::Starting(_) | Stage::Seeking(_) if is_last => Slot::Goes,
            Stage::Starting(_) | Stage::Seeking(_) => Slot::Busy,
            Stage::Http(stage) => {
                let is_idle = matches!(stage.work, Work::Idle)
                    && !connection.flags.has(Flags::HEAD_BEGUN)
                    && !connection.flags.is_h2_stream()
                    && connection.input_len() == 0;
                match (is_idle || is_last, is_told) {
                    (true, _) => Slot::Goes,
                    (false, true) => Slot::Busy,
                    (false, false) => Slot::Last,
                }
            }
            Stage::Http2(h2) if h2.streams.is_empty() => Slot::Goes,
            Stage::Http2(_) if is_told => Slot::Busy,
            Stage::Http2(_) => Slot::Last,
            Stage::Live(_) if is_over => Slot::Goes,
            Stage::Live(live) => {
                let has_backlog = connection.flags.has(Flags::BACKLOG);
                let is_busy = live.verifying
                    || match &live.transport {
                        Transport::Requests(requests) => {
                            requests.pending.as_ref().is_none_or(|it| it.held.is_none())
                        }
                        Transport::Detached => false,
                        _ => has_backlog,
                    };
                if is_busy { Slot::Busy } else { Slot::Goes }
            }
        }
    }

    /// The connection of HTTP/2 that carries a record, or is it, takes no more requests.
    fn take_no_more_requests(&mut self, key: Key) {
        let connection = self.connections.get(key);
        let is_h2 = connection.is_some_and(|it| matches!(it.stage, Stage::Http2(_)));
        let is_stream = connection.is_some_and(|it| it.flags.is_h2_stream());
        match self.h2_streams.h2_connection_of(key).filter(|_| is_stream) {
            Some(h2) => {
                self.drain_h2(h2);
                self.note_leaving(h2);
            }
            None if is_stream => self.h2_streams.tell_leaving(key, &mut self.post),
            None if is_h2 => {
                self.drain_h2(key);
            }
            None => {}
        }
    }

    /// Whether a connection has no other answer after one of that status: it was told to go, or its client has
    /// asked for a session that has gone, and finds another where a new connection leads.
    pub(crate) fn is_last_answer(&self, key: Key, status: u16) -> bool {
        let Some(connection) = self.connections.get(key) else { return false };
        let has_begun = self.draining.as_ref().is_some_and(|draining| draining.has_closed);
        connection.flags.has(Flags::LEAVING)
            || has_begun && status >= 400 && !self.shared.stays_open(connection.listener)
    }
}

/// The reason that goes into the close of a WebSocket, which has little room: where to go if that is known.
pub(crate) fn websocket_reason(close: &Close) -> Cow<'_, str> {
    let mut text = "go to".to_owned();
    for address in close.addresses.iter().flat_map(|addresses| addresses.iter()) {
        if text.len() + 1 + address.len() <= REASON_BYTES_MAX {
            text.push(' ');
            text.push_str(address);
        }
    }
    let has_some = text.contains(' ') && text.len() > "go to".len();
    if has_some { Cow::Owned(text) } else { Cow::Borrowed(&close.reason) }
}

/// Bytes of a reason in the close of a WebSocket (RFC 6455 section 5.5).
const REASON_BYTES_MAX: usize = 123;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tiderace_base::Addresses;

    #[test]
    fn the_close_of_a_websocket_names_whole_addresses() {
        let close = Close::from(CloseCode::Draining);
        assert_eq!(websocket_reason(&close), close.reason);
        let long = format!("wss://{}", "b".repeat(120));
        let to = Addresses::new([long.as_str(), "wss://c", "wss://d"]).unwrap();
        assert_eq!(websocket_reason(&close.clone().to(to)), "go to wss://c wss://d");
        let to = Addresses::new([long]).unwrap();
        assert_eq!(websocket_reason(&close.clone().to(to)), close.reason);
    }
}
