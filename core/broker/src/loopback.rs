//! Messages that rooms of shards send each other, those of one shard among them.
//!
//! A message to a room of the same shard takes the way of one to another shard: it waits in one list, in
//! order, and is taken before the call of the broker that caused it returns. So no room calls back into
//! the room that called it, and what a call does cannot change under its hands. What is on the way of
//! every message is handed on directly if nothing waits in the list: publications to a home on the
//! session's own shard, and messages of a home for subscribers and consumers on its own shard.
//! Confirmations and refusals for a session of the shard are no messages to a room: they become replies at
//! once. Invariants: the order is that of the list, whichever way a message takes; between two calls of
//! the broker the list is empty.

use tiderace_base::{Now, ShardId};

use crate::broker::Broker;
use crate::effects::{Effects, Mail};

impl Broker {
    /// Sends a message to a shard, which may be this one.
    #[inline]
    pub(crate) fn send(&mut self, to: ShardId, mail: impl Into<Mail>, effects: &mut Effects) {
        if to == self.shard {
            self.loopback.push(mail.into());
        } else {
            effects.mail.push((to, mail.into()));
        }
    }

    /// Whether a message for this shard may be handed on directly: none was sent before it that waits.
    #[inline]
    pub(crate) fn is_direct(&self, to: ShardId) -> bool {
        to == self.shard && self.loopback.is_empty()
    }

    /// Takes what the shard has sent to itself, and what comes of that.
    #[inline]
    pub(crate) fn take_loopback(&mut self, now: Now, effects: &mut Effects) {
        while let Some(mail) = self.loopback.pop() {
            self.take_mail(now, self.shard, mail, effects);
        }
    }

    /// The end of a call: takes what the shard has sent to itself, and does what views have to do within
    /// the turn's budget.
    pub(crate) fn end_call(&mut self, now: Now, effects: &mut Effects) {
        self.take_loopback(now, effects);
        self.work_on_views(now, effects);
        while !self.loopback.is_empty() {
            self.take_loopback(now, effects);
            self.work_on_views(now, effects);
        }
    }
}
