//! What a session of this layer knows.
//!
//! Relies on `carrier` for what carries it. Invariant: an idle session takes little.

use std::sync::Arc;

use tiderace_base::Time;
use tiderace_wire::{Framing, Open, Opening, Session};

use super::carrier::{Carrier, Fresh};
use super::handshake::handshake;
use super::polling::Polling;
use crate::framing;
use crate::options::EngineOptions;
use crate::payload::Form;
use crate::revision::Revision;

/// A session.
pub(crate) struct EngineSession {
    pub(super) inner: Box<dyn Session>,
    pub(super) options: Arc<EngineOptions>,
    /// Of its ticket; as bytes, which need no alignment.
    pub(super) secret: [u8; 16],
    /// When the next heartbeat is due, ours or the client's.
    pub(super) due: Time,
    pub(super) carrier: Carrier,
    pub(super) revision: Revision,
    /// A ping has been sent and not been answered.
    pub(super) pinged: bool,
}

const _: () = assert!(size_of::<EngineSession>() <= 72, "idle sessions are many");

impl EngineSession {
    pub(crate) fn new(
        options: Arc<EngineOptions>,
        opening: &Opening<'_>,
        inner: &Open,
    ) -> EngineSession {
        let query = |name| opening.request.and_then(|request| request.query_value(name));
        let revision = Revision::of(query("EIO"), &options).unwrap_or(Revision::Four);
        let sid = opening.ticket.encode();
        let base64 = query("b64").is_some_and(|value| !matches!(value, "" | "0" | "false"));
        let (carrier, framing) = if query("transport") == Some("polling") {
            let jsonp = query("j").filter(|_| revision == Revision::Three);
            let jsonp = jsonp.map(|index| index.parse().unwrap_or(0));
            let form = match revision {
                Revision::Four => Form::Text4,
                Revision::Three if base64 || jsonp.is_some() => Form::Text3,
                Revision::Three => Form::Binary3,
            };
            let polling = Polling::new(form, jsonp, base64, sid);
            (Carrier::Polling(polling), Framing::Messages(form.framing()))
        } else {
            let handshake = handshake(&sid, false, &options);
            let fresh = Fresh { handshake, base64 };
            (Carrier::Fresh(Box::new(fresh)), framing::packets(opening.framing, revision))
        };
        let inner = inner(&Opening { framing, subprotocol: None, ..*opening });
        let timeout = match revision {
            Revision::Four => options.ping_interval,
            Revision::Three => options.ping_interval + options.ping_timeout,
        };
        let secret = opening.ticket.secret.to_le_bytes();
        let due = opening.now.time + timeout;
        EngineSession { inner, options, secret, due, carrier, revision, pinged: false }
    }

    /// Whether the session inside has ended, and its last words wait for a poll.
    #[inline]
    pub(super) fn is_closing(&self) -> bool {
        matches!(&self.carrier, Carrier::Polling(polling) if polling.closing().is_some())
    }
}
