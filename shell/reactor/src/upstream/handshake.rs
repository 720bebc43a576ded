//! What follows when an upstream has taken a connection: TLS, the request for a WebSocket, and the session; and the mask
//! of all that is sent from then on.
//!
//! Relies on reading and writing to carry the bytes as those of any other connection. Invariant: nothing that was written
//! for the WebSocket leaves unmasked (RFC 6455 section 5.3), be it a message, a ping or the last word.

use std::sync::Arc;

use tiderace_base::Key;
use tiderace_broker::Principal;
use tiderace_tls::{Failure, Session};
use tiderace_websocket::handshake::{check_response, client_request};
use tiderace_websocket::{Decoder, Role};
use tiderace_wire::{Opening, Ticket};

use super::options::UpstreamOptions;
use super::reasons;
use super::status::UpstreamState;
use crate::connection::{CarriedBy, Live, NO_PROTOCOL, Stage, Transport};
use crate::departure::Step;
use crate::driver::Driver;
use crate::shard::Shard;
use crate::shared::Shared;
use crate::tls_sessions::Secured;

impl<D: Driver> Shard<D> {
    /// The upstream has taken the connection.
    pub(super) fn begin_handshake(&mut self, key: Key) {
        let Some(at) = self.upstreams.holder(key) else { return };
        let Some(url) = self.url(at) else { return };
        if !url.is_secure() {
            return self.ask_for_websocket(key);
        }
        let options = self.upstream_options(&self.shared, at);
        let settings = options.and_then(|options| options.tls.as_ref());
        let session = match settings {
            Some(settings) => Session::connect(settings, url.host()),
            None => Err(Failure::internal("no authorities are trusted")),
        };
        let mut secured = match session {
            Ok(session) => Secured::new(session),
            Err(failure) => return self.fail_tls(key, &failure),
        };
        // The client has the first word.
        let outcome = secured.receive(&mut [], &mut []);
        self.secure.put(key, Some(secured));
        self.metrics.tls_connections.add(1);
        if let Some(record) = self.connections.get_mut(key) {
            record.flags.set_carrier(CarriedBy::Tls);
        }
        self.enter(at, UpstreamState::Securing);
        self.note_tls(key);
        if let Err(failure) = outcome {
            self.fail_tls(key, &failure);
        }
    }

    /// Sends the request for a WebSocket, over what has been secured by now if it is to be.
    pub(crate) fn ask_for_websocket(&mut self, key: Key) {
        let Some(at) = self.upstreams.holder(key) else { return };
        let nonce = self.driver.random().to_ne_bytes();
        let shared = Arc::clone(&self.shared);
        let Some(options) = self.upstream_options(&shared, at) else { return };
        let Some(url) = self.url(at) else { return };
        let names = options.protocol.subprotocols;
        let request = match client_request(url.authority(), options.path(url), nonce, names) {
            Ok(request) => request,
            Err(error) => return self.fail_dialled(key, error.to_string()),
        };
        if let Some(opened) = self.upstreams.get_mut(at).and_then(|it| it.opened_mut()) {
            opened.nonce = nonce;
        }
        if let Some(record) = self.connections.get_mut(key) {
            self.pool.queue(&mut record.outgoing).tail().extend_from_slice(&request);
            self.lists.write(key, &mut record.flags);
        }
        self.enter(at, UpstreamState::Upgrading);
        self.rearm(key);
    }

    /// Handles the answer to the request for a WebSocket.
    pub(crate) fn upgrade_answer(&mut self, key: Key, bytes: &[u8]) -> Step {
        let all = Step::Wait(bytes.len());
        let Some(at) = self.upstreams.holder(key) else { return all };
        let shared = Arc::clone(&self.shared);
        let Some(options) = self.upstream_options(&shared, at) else { return all };
        let opened = self.upstreams.get(at).and_then(|it| it.opened());
        let asked = opened.filter(|opened| opened.state == UpstreamState::Upgrading);
        let Some(nonce) = asked.map(|opened| opened.nonce) else {
            // A server of HTTP does not speak first.
            self.fail_dialled(key, reasons::not_spoken(&["HTTP"]));
            return all;
        };
        let names = options.protocol.subprotocols;
        let established = match check_response(bytes, nonce, names) {
            Ok(None) => return Step::Wait(0),
            Ok(Some(established)) => established,
            Err(error) => {
                let reason = self.url(at).map(|url| reasons::refused(error, url));
                self.fail_dialled(key, reason.unwrap_or_default());
                return all;
            }
        };
        let chosen = names.iter().find(|name| Some(**name) == established.subprotocol).copied();
        if chosen.is_none() && !names.is_empty() {
            self.fail_dialled(key, reasons::not_spoken(names));
            return all;
        }
        let consumed = established.consumed;
        self.enter(at, UpstreamState::LoggingIn);
        self.open_upstream_session(key, options, chosen);
        Step::Next(consumed)
    }

    /// Opens the session that an outgoing connection is for, as the server itself.
    fn open_upstream_session(
        &mut self,
        key: Key,
        options: &UpstreamOptions,
        subprotocol: Option<&'static str>,
    ) {
        let secret = self.driver.random();
        let Some(record) = self.connections.get_mut(key) else { return };
        // A server may answer before it has read all that it was asked.
        let before = record.outgoing.as_ref().map_or(0, |outgoing| outgoing.queue.len());
        self.upstreams.begin_mask(key, before);
        let id = self.broker.open(self.now, key.slot);
        let transport = Transport::WebSocket { decoder: Decoder::new(Role::Client), rest: None };
        let opening = Opening {
            subprotocol,
            ticket: Ticket { shard: self.id, key, secret },
            epoch: self.shared.services.broker.epoch,
            shard: self.id,
            shards: self.shared.wakers.len(),
            temporary: self.broker.temporary_name(id),
            ..Opening::new(transport.framing(), record.peer.socket(), self.now)
        };
        let session = (options.protocol.open)(&opening);
        record.deadline = self.now.time + self.shared.options.deadlines.login;
        let live = Live { session, id, protocol: NO_PROTOCOL, verifying: false, transport };
        self.set_stage(key, Stage::Live(live));
        // It may ask for something as soon as it begins.
        self.broker.verified(self.now, id, Ok(Principal::server()), &mut self.effects);
        let called = self.call(key, |session, now, context| session.begin(now, context));
        self.settle(key, called);
        self.rearm(key);
        self.drain_effects();
    }

    fn upstream_options<'a>(&self, shared: &'a Shared, at: usize) -> Option<&'a UpstreamOptions> {
        shared.options.upstreams.get(self.upstreams.get(at)?.index)
    }

    /// Masks what waits to be written to an upstream and is not masked yet.
    #[cold]
    pub(crate) fn mask_outgoing(&mut self, key: Key) {
        let Some(record) = self.connections.get_mut(key) else { return };
        let Some(outgoing) = record.outgoing.as_mut() else { return };
        if !self.upstreams.has_unmasked(key, outgoing.queue.len()) {
            return;
        }
        let driver = &mut self.driver;
        let (mut random, mut left) = (0u128, 0);
        let key_of_four = || {
            if left == 0 {
                (random, left) = (driver.random(), KEYS_PER_RANDOM);
            }
            left -= 1;
            let key = (random as u32).to_ne_bytes();
            random >>= 32;
            key
        };
        let masked = self.upstreams.mask(key, &outgoing.queue.take_bytes(), key_of_four);
        *outgoing.queue.tail() = masked;
    }

    /// What a write has left is masked.
    #[cold]
    pub(crate) fn note_masked(&mut self, key: Key) {
        let record = self.connections.get(key);
        let left = record.and_then(|it| it.outgoing.as_ref()).map_or(0, |it| it.queue.len());
        self.upstreams.note_written(key, left);
    }
}

/// Keys of four bytes in one random number.
const KEYS_PER_RANDOM: u32 = 4;
