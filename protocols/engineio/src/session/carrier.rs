//! What carries a session, and where the session inside writes by that.
//!
//! Invariant: bytes are in the connection's queue only if they are in the form of what carries the session now.

use tiderace_wire::{Framing, OutQueue, Output};

use super::polling::Polling;
use crate::framing;
use crate::payload::Form;
use crate::revision::Revision;

/// What carries the session.
pub(super) enum Carrier {
    /// A WebSocket that has not been greeted.
    Fresh(Box<Fresh>),
    /// A WebSocket.
    WebSocket,
    /// A WebSocket of a client that wants binary data as base64 in text.
    Base64,
    /// Requests.
    Polling(Polling),
}

/// What is needed until the open packet is sent.
pub(super) struct Fresh {
    /// The open packet's data.
    pub(super) handshake: String,
    pub(super) base64: bool,
}

/// Where the session inside writes, and how its frames are marked there.
#[inline]
pub(super) fn place<'a>(
    carrier: &'a mut Carrier,
    revision: Revision,
    output: &'a mut Output<'_>,
    aside: &'a mut OutQueue,
) -> Output<'a> {
    let framing = output.framing;
    match carrier {
        Carrier::Fresh(_) | Carrier::WebSocket => {
            Output { framing: framing::packets(framing, revision), queue: output.queue }
        }
        Carrier::Base64 => {
            Output { framing: Framing::Messages(Form::text(revision).framing()), queue: aside }
        }
        Carrier::Polling(polling) => polling.output(output.queue),
    }
}
