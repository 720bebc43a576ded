//! Rules and credentials that change while clients are there.

use std::sync::Arc;

use tiderace_base::SessionId;
use tiderace_broker::{AccessChange, Bearer, CredentialId, Rule, Rules};

use super::World;

/// Those rules; names are believed, before and after.
pub fn believing(rules: Vec<Rule>) -> AccessChange {
    let credentials = [CredentialId::BELIEVED, CredentialId::NOTHING];
    AccessChange {
        rules: Some(Rules::new(rules)),
        credentials: credentials.map(|id| (id, Bearer::Named)).into_iter().collect(),
        ..AccessChange::default()
    }
}

impl World {
    /// All shards hold to that from now on; their sessions have yet to be looked at.
    pub fn change_access(&mut self, change: AccessChange) {
        let change = Arc::new(change);
        for broker in &mut self.brokers {
            broker.change_access(change.clone());
        }
    }

    /// One turn of looking at sessions: those that were looked at.
    pub fn review(&mut self, shard: usize) -> Vec<SessionId> {
        let reviewed = self.brokers[shard].review(self.now, &mut self.effects);
        self.absorb(shard);
        reviewed
    }

    /// Looks at all sessions; the turns that it has taken.
    pub fn review_all(&mut self) -> usize {
        let mut turns = 0;
        for shard in 0..self.brokers.len() {
            while self.brokers[shard].is_reviewing() {
                self.review(shard);
                turns += 1;
            }
        }
        turns
    }
}
