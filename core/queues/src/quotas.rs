//! Whose queues are whose, and whether a principal may have more of them.
//!
//! Relies on the accounts for what each has. Invariant: what is refused here has changed nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tiderace_base::Key;
use tiderace_topics::Path;

use crate::QueueOptions;
use crate::accounts::{Account, Brought, OverQuota, Quotas};
use crate::queues::Queues;

impl Queues {
    /// What principals may have in queues; to be said before there are any.
    pub fn set_quotas(&mut self, quotas: Quotas) {
        self.accounts.set_quotas(quotas);
    }

    /// In whose account a queue counts.
    pub fn owner_of(&self, key: Key) -> Option<&Arc<str>> {
        Some(self.queues.get(key)?.account()?.name())
    }

    /// What the owner of a queue has in bytes, here and elsewhere, and may have, if that is bounded.
    pub fn account_of(&self, key: Key) -> Option<(u64, u64)> {
        Some(self.queues.get(key)?.counting()?.stand())
    }

    /// Why a queue may not be made, for messages of so many bytes: its owner has as much as it may.
    pub fn refuses_queue(&self, options: &QueueOptions, bytes: usize) -> Option<OverQuota> {
        let bytes = if options.policy.full.drops() { 0 } else { bytes };
        let more = Brought { queues: 1, bytes, parts: usize::from(bytes > 0) };
        self.accounts.refuses(options.owner.as_ref()?, more)
    }

    /// For which queue an owner would have more than it may, and of what, if all these came together: for each queue
    /// bytes, and the number of messages that have them. `options` says what a queue would be that is not there.
    pub fn refuses_together<'a>(
        &self,
        parts: impl Iterator<Item = (&'a Path, usize, usize)>,
        options: impl Fn(&'a Path) -> QueueOptions,
    ) -> Option<(&'a Path, OverQuota)> {
        let mut by_owner = BTreeMap::<Arc<str>, Brought>::new();
        for (path, bytes, messages) in parts {
            let (owner, drops, queues) = match self.queue(path) {
                Some(queue) => {
                    let owner = queue.account().map(|account| account.name().clone());
                    (owner, queue.policy.full.drops(), 0)
                }
                None => {
                    let QueueOptions { owner, policy, .. } = options(path);
                    (owner, policy.full.drops(), 1)
                }
            };
            let Some(owner) = owner else { continue };
            let all = by_owner.entry(owner.clone()).or_default();
            all.queues += queues;
            if !drops {
                (all.bytes, all.parts) = (all.bytes.saturating_add(bytes), all.parts + messages);
            }
            if let Some(over) = self.accounts.refuses(&owner, *all) {
                return Some((path, over));
            }
        }
        None
    }

    /// Whether the owner of a queue has all the bytes that it may.
    pub fn is_owner_full(&self, path: &Path) -> bool {
        let account = self.queue(path).and_then(|queue| queue.counting());
        account.is_some_and(Account::is_full)
    }

    /// How many principals have queues, and how many of them all the bytes that they may.
    pub fn owners(&self) -> (usize, usize) {
        self.accounts.count()
    }

    /// What other homes are to be told by [`Queues::note_elsewhere`]: who has how many bytes here. To be asked for in
    /// each tick.
    pub fn account_news(&mut self) -> Vec<(Arc<str>, u64)> {
        self.accounts.news()
    }

    /// Another home says how many bytes somebody has in queues there.
    pub fn note_elsewhere(&mut self, home: u64, owner: &Arc<str>, bytes: u64) {
        self.accounts.note_elsewhere(home, owner, bytes);
    }

    /// Another home is lost, with the queues there.
    pub fn lose_elsewhere(&mut self, home: u64) {
        self.accounts.lose(home);
    }
}
