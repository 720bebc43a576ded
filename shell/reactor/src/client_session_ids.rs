//! Client session ids: tokens of their own choice by which clients name their sessions.
//!
//! A client session id has a home shard, which knows the session that has it; the session's shard gives it up when
//! the session ends. Invariants: at most one session of a protocol has a client session id at a time; only a client that is the same
//! principal, or has not said who it is, finds it; a client session id is never in a log.

use std::collections::HashMap;
use std::sync::Arc;

use tiderace_base::{CloseCode, Key, ShardId};
use tiderace_wire::Ticket;

/// A client session id within its protocol.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct ClientSessionId {
    /// The protocol's place among those that are served.
    pub(crate) protocol: u16,
    pub(crate) bytes: Box<[u8]>,
}

/// The client session ids of one shard.
#[derive(Default)]
pub(crate) struct ClientSessionIds {
    /// As a home: who has which.
    known: HashMap<ClientSessionId, Entry>,
    /// What sessions here have, or have asked for.
    held: HashMap<Key, (ClientSessionId, Ticket)>,
    /// Answers that sessions here have not been told.
    answers: Vec<(Key, Result<(), CloseCode>)>,
    /// What connections here have not been told that look for a session.
    found: Vec<(Key, Option<Ticket>)>,
}

struct Entry {
    ticket: Ticket,
    principal: Arc<str>,
}

/// What shards tell each other of client session ids.
pub(crate) enum ClientSessionIdMessage {
    /// To the home: a session wants it.
    Ask { client_session_id: ClientSessionId, ticket: Ticket, principal: Arc<str> },
    /// To the session's shard: whether it has it.
    Answer { session: Key, outcome: Result<(), CloseCode> },
    /// To the home: a connection looks for the session that has it.
    Find {
        client_session_id: ClientSessionId,
        principal: Option<Arc<str>>,
        shard: ShardId,
        seeker: Key,
    },
    /// To the connection's shard: which that is.
    Found { seeker: Key, ticket: Option<Ticket> },
    /// To the home: the session that has it, or has asked for it, ends.
    Release { client_session_id: ClientSessionId, ticket: Ticket },
}

impl ClientSessionIdMessage {
    /// What it counts for, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            ClientSessionIdMessage::Ask { client_session_id, .. }
            | ClientSessionIdMessage::Find { client_session_id, .. }
            | ClientSessionIdMessage::Release { client_session_id, .. } => {
                client_session_id.bytes.len()
            }
            ClientSessionIdMessage::Answer { .. } | ClientSessionIdMessage::Found { .. } => 0,
        }
    }
}

impl ClientSessionId {
    /// Its home: a stable hash (FNV-1a), spread over the shards.
    pub(crate) fn home(&self, shards: usize) -> ShardId {
        let mix =
            |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        let hash = self.bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix);
        ShardId(((hash ^ (hash >> 32)) % shards.max(1) as u64) as u16)
    }
}

impl ClientSessionIds {
    /// Gives a client session id to a session, unless another one has it.
    pub(crate) fn give(
        &mut self,
        client_session_id: ClientSessionId,
        ticket: Ticket,
        principal: Arc<str>,
        most: usize,
    ) -> Result<(), CloseCode> {
        if self.known.contains_key(&client_session_id) {
            return Err(CloseCode::AliasTaken);
        }
        if self.known.len() >= most {
            return Err(CloseCode::TooManyDetached);
        }
        self.known.insert(client_session_id, Entry { ticket, principal });
        Ok(())
    }

    pub(crate) fn release(&mut self, client_session_id: &ClientSessionId, ticket: Ticket) {
        if self.known.get(client_session_id).is_some_and(|entry| entry.ticket == ticket) {
            self.known.remove(client_session_id);
        }
    }

    /// The session that has a client session id, for somebody who has shown to be that principal, or nobody.
    pub(crate) fn find(
        &self,
        client_session_id: &ClientSessionId,
        principal: Option<&str>,
    ) -> Option<Ticket> {
        let entry = self.known.get(client_session_id)?;
        principal.is_none_or(|name| name == &*entry.principal).then_some(entry.ticket)
    }

    /// Whether a session has one, or has asked for one.
    pub(crate) fn holds(&self, session: Key) -> bool {
        self.held.contains_key(&session)
    }

    /// A session asks for one.
    pub(crate) fn hold(
        &mut self,
        session: Key,
        client_session_id: ClientSessionId,
        ticket: Ticket,
    ) {
        self.held.insert(session, (client_session_id, ticket));
    }

    /// A session has ended, or has not got the one that it asked for.
    pub(crate) fn let_go(&mut self, session: Key) -> Option<(ClientSessionId, Ticket)> {
        if self.held.is_empty() {
            return None;
        }
        self.held.remove(&session)
    }

    /// A session is to be told whether it has the one that it asked for.
    pub(crate) fn answer(&mut self, session: Key, outcome: Result<(), CloseCode>) {
        self.answers.push((session, outcome));
    }

    /// A connection is to be told which session it looks for.
    pub(crate) fn note_found(&mut self, seeker: Key, ticket: Option<Ticket>) {
        self.found.push((seeker, ticket));
    }

    /// Those that sessions have not been told.
    pub(crate) fn take_answers(&mut self) -> Vec<(Key, Result<(), CloseCode>)> {
        std::mem::take(&mut self.answers)
    }

    /// Those that connections have not been told.
    pub(crate) fn take_found(&mut self) -> Vec<(Key, Option<Ticket>)> {
        std::mem::take(&mut self.found)
    }

    /// Whether sessions or connections wait to be told.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty() || !self.found.is_empty()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn client_session_id(protocol: u16, text: &str) -> ClientSessionId {
        ClientSessionId { protocol, bytes: text.as_bytes().into() }
    }

    fn ticket(secret: u128) -> Ticket {
        Ticket { secret, ..Ticket::default() }
    }

    #[test]
    fn one_session_at_a_time_has_a_client_session_id() {
        let mut client_session_ids = ClientSessionIds::default();
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let give = |client_session_ids: &mut ClientSessionIds, secret, who: &Arc<str>| {
            client_session_ids.give(client_session_id(1, "token"), ticket(secret), who.clone(), 10)
        };
        assert_eq!(give(&mut client_session_ids, 1, &ann), Ok(()));
        assert_eq!(give(&mut client_session_ids, 2, &bob), Err(CloseCode::AliasTaken));
        client_session_ids.release(&client_session_id(1, "token"), ticket(2));
        assert_eq!(
            client_session_ids.find(&client_session_id(1, "token"), None),
            Some(ticket(1)),
            "it was not theirs"
        );
        assert_eq!(
            client_session_ids.find(&client_session_id(1, "token"), Some("ann")),
            Some(ticket(1))
        );
        assert_eq!(client_session_ids.find(&client_session_id(1, "token"), Some("bob")), None);
        assert_eq!(
            client_session_ids.find(&client_session_id(2, "token"), None),
            None,
            "another protocol's"
        );
        client_session_ids.release(&client_session_id(1, "token"), ticket(1));
        assert_eq!(give(&mut client_session_ids, 2, &bob), Ok(()));
    }

    #[test]
    fn there_are_only_so_many() {
        let mut client_session_ids = ClientSessionIds::default();
        for number in 0..4 {
            let outcome = client_session_ids.give(
                client_session_id(0, &number.to_string()),
                ticket(1),
                "a".into(),
                3,
            );
            assert_eq!(outcome.is_ok(), number < 3);
        }
    }

    #[test]
    fn homes_are_spread() {
        let mut counts = [0; 4];
        for number in 0..4_000u32 {
            counts[client_session_id(0, &format!("token-{number}")).home(4).index()] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
