//! What a deputy says to its upstream.
//!
//! Relies on the wiring to give it to the session there. Invariant: nothing is asked of an upstream that is away.

use tiderace_base::Now;
use tiderace_wire::{SubscriptionKey, ToUpstream};

use crate::deputy_side::DeputySide;
use crate::messages::LocalMessage;

impl DeputySide<'_> {
    /// Asks for subscriptions that are to be, as many as may be under way.
    pub(super) fn ask_upstream(&mut self, at: usize) {
        let asked_at = self.home.home.last_number();
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(session) = deputy.link else { return };
        while let Some(key) = deputy.subscriptions.next_to_ask() {
            let Some(subscription) = deputy.subscriptions.get_mut(key) else { continue };
            if subscription.begin_asking(asked_at) {
                self.home.metrics.upstream_resyncs += 1;
                deputy.resyncs += 1;
            }
            let (target, since) = (subscription.target.clone(), subscription.since.clone());
            let asked = ToUpstream::Subscribe { key: SubscriptionKey(key), target, since };
            self.home.loopback.hand_on(LocalMessage::Upstream { session, asked: Box::new(asked) });
        }
    }

    /// Ends a subscription at the upstream.
    pub(super) fn end_at_upstream(&mut self, at: usize, key: u32) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(session) = deputy.link else {
            // With the connection all subscriptions have ended.
            return deputy.subscriptions.ended(key);
        };
        let asked = Box::new(ToUpstream::Unsubscribe { key: SubscriptionKey(key) });
        self.home.loopback.hand_on(LocalMessage::Upstream { session, asked });
    }

    /// Ends subscriptions that nobody has needed for long.
    pub(super) fn end_idle(&mut self, now: Now, at: usize) {
        let Some(deputy) = self.deputies.list.get(at) else { return };
        let upstream = self.home.options.upstreams.get(usize::from(deputy.upstream));
        let Some(linger) = upstream.map(|upstream| upstream.linger) else { return };
        let (mut left, last) = (ENDED_AT_ONCE, self.home.home.last_number());
        while left > 0
            && let Some(deputy) = self.deputies.list.get_mut(at)
            && let Some((key, ended)) =
                deputy.subscriptions.end_idle(now.time, (linger, deputy.link.is_some()))
        {
            deputy.subscriptions.note_ended_at(last);
            deputy.note_whole();
            deputy.sweep_uncovered(&ended.target);
            self.end_at_upstream(at, key);
            left -= 1;
        }
    }
}

/// Subscriptions that are ended in one call.
const ENDED_AT_ONCE: usize = 1024;
