//! Which sessions of a shard may have what the rules refuse, for owning it: what is asked and known of that.
//!
//! Bookkeeping only. Invariant: every subscription that waits is answered once, or its session has ended.

use std::collections::BTreeMap;

use tiderace_base::{Close, SessionId};
use tiderace_topics::Path;
use tiderace_wire::{Subscribe, SubscriptionKey};

use crate::collections::Set;
use crate::messages::SubscribeRequestId;

/// A subscription of which the rules refuse targets.
#[derive(Debug)]
pub(crate) struct PendingSubscribe {
    subscribe: Subscribe,
    epoch: u32,
    /// The paths of these targets that are still to be asked for, the present one last.
    refused: Vec<Path>,
    close: Close,
}

/// What comes of the answer to the question whether a session owns a topic.
#[derive(Debug)]
pub(crate) enum OwnerAnswer {
    /// It is to be asked for another path.
    Next(Path),
    /// It owns all that it named: the subscription begins.
    Begins(Box<Subscribe>),
    /// It does not.
    Refused(Box<Subscribe>, Close),
}

/// What one shard knows of owners among its sessions.
#[derive(Debug, Default)]
pub(crate) struct OwnerRequests {
    pending: BTreeMap<(SessionId, SubscriptionKey), PendingSubscribe>,
    /// Subscriptions that are there because their sessions own what the rules would refuse.
    owned: Set<(SessionId, SubscriptionKey)>,
}

impl OwnerRequests {
    /// A subscription waits until homes have said whether its session owns these paths, the last first.
    pub(crate) fn ask(
        &mut self,
        session: SessionId,
        (subscribe, epoch): (Subscribe, u32),
        refused: Vec<Path>,
        close: Close,
    ) {
        let of = (session, subscribe.key);
        self.pending.insert(of, PendingSubscribe { subscribe, epoch, refused, close });
    }

    /// The subscriptions for which the home of a topic is asked that is meant.
    pub(crate) fn asking(
        &self,
        is_meant: impl Fn(&Path) -> bool,
    ) -> Vec<(SessionId, SubscriptionKey)> {
        let asked = self.pending.iter();
        let asked = asked.filter(|(_, pending)| pending.refused.last().is_some_and(&is_meant));
        asked.map(|(of, _)| *of).collect()
    }

    /// Whether a subscription of that key waits for an answer.
    pub(crate) fn asks(&self, session: SessionId, key: SubscriptionKey) -> bool {
        !self.pending.is_empty() && self.pending.contains_key(&(session, key))
    }

    /// A home has answered; nothing comes of it if nobody waits for that any more.
    pub(crate) fn answered(
        &mut self,
        request: &SubscribeRequestId,
        owned: bool,
    ) -> Option<OwnerAnswer> {
        let of = (request.session, request.key);
        let pending = self.pending.get_mut(&of).filter(|known| known.epoch == request.epoch)?;
        if owned {
            pending.refused.pop();
            if let Some(next) = pending.refused.last() {
                return Some(OwnerAnswer::Next(next.clone()));
            }
        }
        let PendingSubscribe { subscribe, close, .. } = self.pending.remove(&of)?;
        let subscribe = Box::new(subscribe);
        if owned {
            self.owned.insert(of);
            return Some(OwnerAnswer::Begins(subscribe));
        }
        Some(OwnerAnswer::Refused(subscribe, close))
    }

    /// A session allows more messages to a subscription; whether that waits for an answer, and is to
    /// begin with them.
    pub(crate) fn add_credit(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
        messages: u64,
    ) -> bool {
        if self.pending.is_empty() {
            return false;
        }
        let Some(pending) = self.pending.get_mut(&(session, key)) else { return false };
        if let Some(credit) = &mut pending.subscribe.credit {
            *credit = credit.saturating_add(messages);
        }
        true
    }

    /// A subscription ends; given back if it still waited.
    pub(crate) fn end(
        &mut self,
        session: SessionId,
        key: SubscriptionKey,
    ) -> Option<(Subscribe, Close)> {
        if !self.owned.is_empty() {
            self.owned.remove(&(session, key));
        }
        if self.pending.is_empty() {
            return None;
        }
        let pending = self.pending.remove(&(session, key))?;
        Some((pending.subscribe, pending.close))
    }

    /// A session has ended.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        let own = (session, SubscriptionKey(0))..=(session, SubscriptionKey(u32::MAX));
        let pending = self.pending.range(own).map(|(of, _)| *of);
        for of in pending.collect::<Vec<_>>() {
            self.pending.remove(&of);
        }
    }

    /// Whether a subscription is there for its session owns what it names.
    pub(crate) fn is_owned(&self, session: SessionId, key: SubscriptionKey) -> bool {
        !self.owned.is_empty() && self.owned.contains(&(session, key))
    }
}
