//! The ends of subscriptions to what nothing brings any longer.
//!
//! Relies on [`RefusedTargets`] for what is left to do. Invariant: a call ends no more of them than a slice has, however many
//! listen to one topic.

use tiderace_base::{Close, Key, Now};
use tiderace_wire::{SubscriptionKey, Target};

use super::Broker;
use crate::effects::Effects;
use crate::peer_lost::LostSubscription;
use crate::places::Place;
use crate::refused_targets::RefusedTarget;
use crate::subscriptions::Entry;

/// Subscriptions that are ended in one call.
const SLICE: usize = 256;

impl Broker {
    /// Nothing brings any longer what some subscriptions listen to: they are ended, the first of them at once.
    #[cold]
    pub(super) fn end_subscriptions_to(
        &mut self,
        now: Now,
        home: Place,
        (target, close): (Target, Close),
        effects: &mut Effects,
    ) {
        let mut subscribers = Vec::new();
        let mut note = |session: Key, key| subscribers.push((session, key));
        match &target {
            Target::Exact(topic) => {
                let topic = self.directory.find(&topic.path);
                if let Some(topic) = topic.and_then(|key| self.directory.get(key)) {
                    self.fanout.exact(topic).iter().for_each(|it| note(it.session, it.key));
                }
            }
            Target::Pattern(_, pattern) => {
                self.fanout.patterns_mut().with(pattern, &mut |it| note(it.session, it.key));
            }
        }
        let is_first = self.sessions.refused_targets_mut().is_empty();
        let refused = RefusedTarget { home, target, close, subscribers };
        self.sessions.refused_targets_mut().push(refused);
        if is_first {
            self.end_refused(now, effects);
        }
    }

    /// Ends a slice of them.
    pub(super) fn end_refused(&mut self, now: Now, effects: &mut Effects) {
        let mut left = SLICE;
        while left > 0 {
            let Some(mut refused) = self.sessions.refused_targets_mut().take_first() else {
                return;
            };
            while left > 0
                && let Some(subscriber) = refused.subscribers.pop()
            {
                left -= 1;
                self.end_refused_one(now, &refused, subscriber, effects);
            }
            self.sessions.refused_targets_mut().put_back(refused);
        }
    }

    fn end_refused_one(
        &mut self,
        now: Now,
        refused: &RefusedTarget,
        (session, key): (Key, SubscriptionKey),
        effects: &mut Effects,
    ) {
        if !self.listens_to(session, key, &refused.target) {
            return;
        }
        let Some(record) = self.sessions.get_mut(session) else { return };
        let token = record.subscription_mut(key).and_then(|known| known.confirm.take());
        // One that was answered gets its pages, if there are more.
        let promising = token.is_some().then_some(refused.home);
        let session = self.session_side().id_of(session);
        let lost = LostSubscription { session, key, token };
        self.refuse_subscription(now, promising, Some(lost), refused.close.clone(), effects);
    }

    /// Whether a subscription is there still: it may have ended since, and its key may be another one's.
    fn listens_to(&self, session: Key, key: SubscriptionKey, target: &Target) -> bool {
        let record = self.sessions.get(session);
        let Some(entry) = record.and_then(|record| record.subscriptions.get(key)) else {
            return false;
        };
        match (entry, target) {
            (Entry::Full(subscription), _) => {
                subscription.targets.as_slice().iter().any(|it| it.target == *target)
            }
            (_, Target::Exact(topic)) => {
                let topic = self.directory.find(&topic.path).map(|key| key.slot);
                topic.is_some() && entry.plain().map(|plain| plain.topic) == topic
            }
            (_, Target::Pattern(..)) => false,
        }
    }
}
