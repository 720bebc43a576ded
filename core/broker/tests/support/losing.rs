//! A shard that ends for good, with its sessions and all that it kept.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tiderace_base::ShardId;
use tiderace_broker::{Broker, BrokerOptions, Envelope, Place};
use tiderace_wire::Token;

use super::World;

/// Shards that have ended, and which others do not know that yet.
#[derive(Debug)]
pub struct Losses {
    options: Arc<BrokerOptions>,
    gone: BTreeSet<usize>,
    unaware: Vec<(usize, usize)>,
}

impl Losses {
    pub fn new(options: Arc<BrokerOptions>) -> Losses {
        Losses { options, gone: BTreeSet::new(), unaware: Vec::new() }
    }

    pub fn is_gone(&self, shard: usize) -> bool {
        self.gone.contains(&shard)
    }

    pub fn has_unaware(&self) -> bool {
        !self.unaware.is_empty()
    }

    /// Which shards may hear now that which others have ended: all that these had sent has come.
    pub fn next(&self, messages: &[Vec<VecDeque<Envelope>>]) -> Vec<(usize, usize)> {
        let next = self.unaware.iter().filter(|(gone, to)| messages[*gone][*to].is_empty());
        next.copied().collect()
    }
}

impl World {
    /// A shard ends: what it had sent by then comes up to some message, and what is sent to it comes nowhere. Others
    /// hear of it one by one, whenever their messages are delivered.
    pub fn lose(&mut self, gone: usize) {
        self.losses.gone.insert(gone);
        self.losses.unaware.retain(|(_, to)| *to != gone);
        // What is not left of a broker is an empty one that nobody hears of.
        self.brokers[gone] = Broker::new(ShardId(gone as u16), self.losses.options.clone());
        for other in 0..self.brokers.len() {
            self.messages[other][gone].clear();
            if self.losses.is_gone(other) {
                continue;
            }
            let sent = self.messages[gone][other].len();
            let kept = self.random.below(sent + 1);
            self.messages[gone][other].truncate(kept);
            self.losses.unaware.push((gone, other));
        }
        for client in self.clients.iter_mut().filter(|client| client.shard == gone) {
            client.open = false;
            client.paused = false;
        }
    }

    /// A shard hears that another has ended.
    pub fn tell_loss(&mut self, gone: usize, to: usize) {
        self.losses.unaware.retain(|known| *known != (gone, to));
        let place = Place::here(ShardId(gone as u16));
        self.brokers[to].peer_lost(self.now, place, &mut self.effects);
        self.absorb(to);
    }

    /// Clients whose shard has not ended.
    pub fn living(&self) -> Vec<usize> {
        let clients = 0..self.clients.len();
        clients.filter(|client| self.clients[*client].open).collect()
    }

    /// Tokens of a client that nobody has answered.
    pub fn unanswered(&self, client: usize) -> Vec<Token> {
        let known = &self.clients[client];
        let refused = |token| known.refused.iter().any(|(blamed, _)| *blamed == Some(token));
        let answered = |token: &Token| {
            known.confirmed.contains(token) || known.operated.contains_key(token) || refused(*token)
        };
        (1..=known.tokens).filter(|token| !answered(token)).collect()
    }
}

impl World {
    /// Ends every session but one.
    pub fn end_all_but(&mut self, last: usize) {
        for client in (0..self.clients.len()).filter(|client| *client != last) {
            self.close(client);
        }
        self.quiesce();
    }
}
