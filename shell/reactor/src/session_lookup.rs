//! Sessions ask for client session ids, and connections look for the sessions that have them.
//!
//! Questions and answers are messages between shards, in order, so a release never overtakes the question before
//! it. Relies on the session's principal being known when it asks.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Key, ShardId};
use tiderace_wire::{CLIENT_SESSION_ID_BYTES_MAX, CLIENT_SESSION_ID_BYTES_MIN, Ticket};

use crate::client_session_ids::{ClientSessionId, ClientSessionIdMessage};
use crate::driver::Driver;
use crate::mailbox::ShardMessage;
use crate::shard::Shard;

impl<D: Driver> Shard<D> {
    /// A session asks to be known by a client session id.
    pub(crate) fn ask_client_session_id(&mut self, key: Key, bytes: Box<[u8]>) {
        if !(CLIENT_SESSION_ID_BYTES_MIN..=CLIENT_SESSION_ID_BYTES_MAX).contains(&bytes.len()) {
            return self.client_session_ids.answer(key, Err(CloseCode::BadAlias));
        }
        let Some(live) = self.connections.get_mut(key).and_then(|record| record.live()) else {
            return;
        };
        let (protocol, id) = (live.protocol, live.id);
        let secret = live.session.secret().filter(|_| live.session.is_established());
        let named = secret.zip(self.broker.principal_name(id));
        let Some((secret, principal)) = named.filter(|_| !self.client_session_ids.holds(key))
        else {
            return self.client_session_ids.answer(key, Err(CloseCode::BadAlias));
        };
        let client_session_id = ClientSessionId { protocol, bytes };
        let ticket = Ticket { shard: self.id, key, secret };
        self.client_session_ids.hold(key, client_session_id.clone(), ticket);
        let home = client_session_id.home(self.shared.wakers.len());
        self.post_client_session_id(
            home,
            ClientSessionIdMessage::Ask { client_session_id, ticket, principal },
        );
    }

    /// A session ends: its client session id is free.
    pub(crate) fn release_client_session_id(&mut self, key: Key) {
        if let Some((client_session_id, ticket)) = self.client_session_ids.let_go(key) {
            let home = client_session_id.home(self.shared.wakers.len());
            self.post_client_session_id(
                home,
                ClientSessionIdMessage::Release { client_session_id, ticket },
            );
        }
    }

    /// A connection looks for the session that has a client session id; it is told by [`Shard::found`].
    pub(crate) fn find_by_client_session_id(
        &mut self,
        seeker: Key,
        client_session_id: ClientSessionId,
        principal: Option<Arc<str>>,
    ) {
        let home = client_session_id.home(self.shared.wakers.len());
        let message =
            ClientSessionIdMessage::Find { client_session_id, principal, shard: self.id, seeker };
        self.post_client_session_id(home, message);
    }

    fn post_client_session_id(&mut self, to: ShardId, message: ClientSessionIdMessage) {
        match to == self.id {
            true => self.receive_client_session_ids(message),
            false => self.post.send(to, ShardMessage::ClientSessionId(Box::new(message))),
        }
    }

    /// Takes a message about client session ids; answers to sessions here wait for [`Shard::answer_client_session_ids`].
    pub(crate) fn receive_client_session_ids(&mut self, message: ClientSessionIdMessage) {
        match message {
            ClientSessionIdMessage::Ask { client_session_id, ticket, principal } => {
                let most = self.shared.options.connections_max;
                let outcome =
                    self.client_session_ids.give(client_session_id, ticket, principal, most);
                let answer = ClientSessionIdMessage::Answer { session: ticket.key, outcome };
                self.post_client_session_id(ticket.shard, answer);
            }
            ClientSessionIdMessage::Answer { session, outcome } => {
                self.client_session_ids.answer(session, outcome)
            }
            ClientSessionIdMessage::Find { client_session_id, principal, shard, seeker } => {
                let ticket = self.client_session_ids.find(&client_session_id, principal.as_deref());
                self.post_client_session_id(
                    shard,
                    ClientSessionIdMessage::Found { seeker, ticket },
                );
            }
            ClientSessionIdMessage::Found { seeker, ticket } => {
                self.client_session_ids.note_found(seeker, ticket)
            }
            ClientSessionIdMessage::Release { client_session_id, ticket } => {
                self.client_session_ids.release(&client_session_id, ticket)
            }
        }
    }

    /// Tells sessions whether they have the client session ids that they asked for, and connections where the
    /// sessions are that they look for.
    pub(crate) fn answer_client_session_ids(&mut self) {
        for (seeker, ticket) in self.client_session_ids.take_found() {
            self.found(seeker, ticket);
        }
        for (key, outcome) in self.client_session_ids.take_answers() {
            if outcome.is_err_and(|code| code != CloseCode::BadAlias) {
                self.client_session_ids.let_go(key);
            }
            let outcome = outcome.map_err(Close::from);
            let called = self.call(key, |session, now, context| {
                session.client_session_id_decided(now, outcome, context)
            });
            self.settle(key, called);
            self.wake_input(key);
            self.rearm(key);
        }
    }
}
