//! A world of shards for the tests of protocols: the broker itself, messages between its shards, and a
//! clock that the test moves.
//!
//! Relies on nothing but the broker, so that what a protocol's test sees is what the server does. Invariants:
//! messages between shards are delivered in order, before a call returns; a client takes deliveries only
//! after the broker has said that there are some, as the event loop does.

mod commands;
mod connection;
mod neighbours;

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_base::{Close, Now, SessionId, ShardId};
use tiderace_broker::{Broker, BrokerOptions, Effects, Envelope, Pending, Principal};
use tiderace_wire::{Commands, Credentials, Reply, TemporaryName};

pub use commands::CommandCheck;
pub use connection::Connection;
pub use neighbours::Neighbours;

/// Rounds of messages and work until the shards of a world are at rest: a world that needs more goes on for ever.
const ROUNDS: usize = 1_000_000;

/// Decides whether credentials are those of somebody.
pub type Verify = fn(&Credentials) -> Result<Principal, Close>;

/// Shards, their clients and the time.
pub struct World {
    shards: Vec<Broker>,
    clients: Vec<Client>,
    /// Messages between shards.
    messages: VecDeque<Envelope>,
    verify: Option<Verify>,
    effects: Effects,
    epoch: u64,
    now: Now,
}

/// The session of one client, as the broker knows it.
struct Client {
    shard: usize,
    session: SessionId,
    replies: VecDeque<Reply>,
    /// Whether the broker has said that there are deliveries.
    is_ready: bool,
    is_paused: bool,
    closed: Option<Close>,
}

impl World {
    /// Shards with those options; `verify` decides about logins, and without it everybody is who they say.
    pub fn new(now: Now, mut options: BrokerOptions, verify: Option<Verify>) -> World {
        options.verify_logins = verify.is_some();
        let options = Arc::new(options);
        let shard = |index: usize| Broker::new(shard_id(index), options.clone());
        World {
            shards: (0..options.shards).map(shard).collect(),
            clients: Vec::new(),
            messages: VecDeque::new(),
            verify,
            effects: Effects::default(),
            epoch: options.epoch,
            now,
        }
    }

    /// Opens a session on a shard; its number among the clients.
    ///
    /// # Panics
    /// When there is no such shard.
    pub fn open(&mut self, shard: usize) -> usize {
        let link = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        let session = self.shards[shard].open(self.now, link);
        self.clients.push(Client {
            shard,
            session,
            replies: VecDeque::new(),
            is_ready: false,
            is_paused: false,
            closed: None,
        });
        self.clients.len() - 1
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The node's present life.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The time.
    pub fn now(&self) -> Now {
        self.now
    }

    /// The name of a client's session in the paths of its temporary destinations.
    pub fn temporary_name(&self, client: usize) -> TemporaryName {
        let Client { shard, session, .. } = self.clients[client];
        self.shards[shard].temporary_name(session)
    }

    /// Logs a client's session in, as the server does with sessions that it opens itself.
    pub fn admit(&mut self, client: usize, principal: Principal) {
        let Client { shard, session, .. } = self.clients[client];
        self.shards[shard].verified(self.now, session, Ok(principal), &mut self.effects);
        self.settle(shard);
    }

    /// Hands commands to the broker, and does all that follows from them.
    pub fn handle(&mut self, client: usize, commands: &mut Commands) {
        let Client { shard, session, .. } = self.clients[client];
        self.shards[shard].handle(self.now, session, commands, &mut self.effects);
        self.settle(shard);
    }

    /// Ends a client's session.
    pub fn close(&mut self, client: usize) {
        let Client { shard, session, .. } = self.clients[client];
        self.shards[shard].close(self.now, session, &mut self.effects);
        self.settle(shard);
    }

    /// The next reply to a client.
    pub fn reply(&mut self, client: usize) -> Option<Reply> {
        self.clients[client].replies.pop_front()
    }

    /// The next delivery to a client.
    pub fn next(&mut self, client: usize) -> Option<Pending> {
        let Client { shard, session, is_ready, .. } = self.clients[client];
        if !is_ready {
            return None;
        }
        let pending = self.shards[shard].next(self.now, session, &mut self.effects);
        self.clients[client].is_ready = pending.is_some();
        self.settle(shard);
        pending
    }

    /// Whether the broker has asked not to read from a client.
    pub fn is_paused(&self, client: usize) -> bool {
        self.clients[client].is_paused
    }

    /// Why the broker has ended a client's session, once.
    pub fn closed(&mut self, client: usize) -> Option<Close> {
        self.clients[client].closed.take()
    }

    /// Sets the clock, and lets every shard do what is due.
    pub fn advance(&mut self, now: Now) {
        self.now = now;
        for shard in 0..self.shards.len() {
            self.shards[shard].tick(now, &mut self.effects);
            self.settle(shard);
        }
    }

    /// Passes on what a shard wants done, until no shard wants anything.
    fn settle(&mut self, shard: usize) {
        self.absorb(shard);
        for round in 0.. {
            assert!(round < ROUNDS, "the shards do not come to rest in {ROUNDS} rounds");
            if let Some(message) = self.messages.pop_front() {
                let to = message.to.shard.index();
                self.shards[to].receive(self.now, message, &mut self.effects);
                self.absorb(to);
                continue;
            }
            let busy = |broker: &Broker| broker.has_work() || broker.has_deferred();
            let Some(shard) = self.shards.iter().position(busy) else { return };
            self.shards[shard].work(self.now, &mut self.effects);
            self.shards[shard].run_deferred(self.now, &mut self.effects);
            self.absorb(shard);
        }
    }

    fn absorb(&mut self, shard: usize) {
        let effects = std::mem::take(&mut self.effects);
        self.messages.extend(effects.messages);
        for (link, _, reply) in effects.replies {
            self.clients[link as usize].replies.push_back(reply);
        }
        for (link, _) in effects.ready {
            self.clients[link as usize].is_ready = true;
        }
        for (link, _) in effects.pause {
            self.clients[link as usize].is_paused = true;
        }
        for (link, _) in effects.resume {
            self.clients[link as usize].is_paused = false;
        }
        for (link, _, close) in effects.close {
            self.clients[link as usize].closed = Some(close);
        }
        for (session, credentials) in effects.verify {
            let Some(verify) = self.verify else { continue };
            let result = verify(&credentials);
            self.shards[shard].verified(self.now, session, result, &mut self.effects);
            self.absorb(shard);
        }
    }
}

fn shard_id(index: usize) -> ShardId {
    ShardId(u16::try_from(index).unwrap_or(u16::MAX))
}
