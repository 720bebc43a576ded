//! Coming back to a session that lost its connection: client session ids, hand-over, detached sessions.
//!
//! For the author of a protocol. A session to which its client may come back
//!
//! 1. answers [`Session::secret`] with the secret of its [`Opening::ticket`];
//! 2. if its client names it by a token of its own choice: asks for that *client session id* once the client has
//!    logged in ([`Context::use_client_session_id`]) and hears by [`Session::client_session_id_decided`] whether it got it;
//! 3. answers [`Session::detach`] with true when its connection is gone, and is then *detached*: its
//!    record, its subscriptions and its backlog live on, nothing is delivered to it, and what it
//!    writes is thrown away, so it keeps itself what it will have to repeat. Replies and deadlines
//!    come as ever. It ends when [`Session::expire`] says so, or when the node has no room for it;
//! 4. is given [`Session::takeover`] with [`Takeover::Done`] when a connection of its client has come
//!    to carry it (whether it was detached or not: an old connection that is still there is closed,
//!    and what was written to it and not sent is lost), and then the first bytes of that connection,
//!    by [`Session::receive`] or [`Session::message`], before anything is delivered. The framing of
//!    the output is the new connection's. Until then nothing may be written to it: the bytes say
//!    from where on.
//!
//! The client comes back on a new connection. Its protocol begins a session there as on every
//! other. When that one reads who the client wants to be, it calls [`Context::hand_over`] and consumes
//! nothing: [`Progress::consumed`] is zero, and a message counts as not given. (That is heard in calls
//! that give it bytes. As long as a login of the session that asks is being verified, nothing happens,
//! and it is given the bytes again when that is decided.) The event loop finds the session, on whichever shard of the node it lives, and drops the one that asked, without a
//! word from it. If the session is not there, knows another secret, was logged in as somebody else,
//! or says no when it is shown the bytes ([`Session::admits`]), nothing happens to it: a new session
//! begins on the connection with [`Opening::unknown`] and gets the bytes, to say so in the words of
//! its protocol.
//!
//! Who may come back: the client that shows the ticket or the client session id. If the session that asks has logged in
//! meanwhile (its connection brought credentials, by an HTTP header for instance), it also has to be
//! the principal of the session that is asked for. Where a connection has no means to show
//! credentials before it comes back, the client session id is the only secret; therefore it has at least
//! [`CLIENT_SESSION_ID_BYTES_MIN`] bytes, it never appears in logs, and nobody is told whether one is known.
//!
//! [`Session::secret`]: crate::Session::secret
//! [`Session::detach`]: crate::Session::detach
//! [`Session::admits`]: crate::Session::admits
//! [`Session::client_session_id_decided`]: crate::Session::client_session_id_decided
//! [`Session::expire`]: crate::Session::expire
//! [`Session::takeover`]: crate::Session::takeover
//! [`Session::receive`]: crate::Session::receive
//! [`Session::message`]: crate::Session::message
//! [`Takeover::Done`]: crate::Takeover::Done
//! [`Context::use_client_session_id`]: crate::Context::use_client_session_id
//! [`Context::hand_over`]: crate::Context::hand_over
//! [`Opening::ticket`]: crate::Opening::ticket
//! [`Opening::unknown`]: crate::Opening::unknown
//! [`Progress::consumed`]: crate::Progress::consumed

use crate::Ticket;

/// The session that a connection is to be handed over to.
#[derive(Clone, PartialEq, Eq)]
pub enum HandOver {
    /// The one with this ticket, which the server had given to the client.
    Ticket(Ticket),
    /// The one that is known by this client session id, which the client had chosen. Client session ids of different
    /// protocols have nothing to do with each other.
    ClientSessionId(Box<[u8]>),
}

impl std::fmt::Debug for HandOver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Both are secrets.
        f.write_str(match self {
            HandOver::Ticket(_) => "HandOver::Ticket",
            HandOver::ClientSessionId(_) => "HandOver::ClientSessionId",
        })
    }
}

/// Bytes of the shortest client session id: 128 bits, which nobody guesses if they were chosen at random.
pub const CLIENT_SESSION_ID_BYTES_MIN: usize = 16;
/// Bytes of the longest client session id.
pub const CLIENT_SESSION_ID_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_printed() {
        let id = HandOver::ClientSessionId(Box::from(&b"open sesame 1234"[..]));
        assert_eq!(format!("{id:?}"), "HandOver::ClientSessionId");
        assert!(!format!("{:?}", HandOver::Ticket(Ticket::default())).contains("secret"));
    }
}
