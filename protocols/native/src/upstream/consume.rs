//! Consumers of queues for clients of this node: one subscription at the upstream for each.
//!
//! Relies on the broker for keys, and for what is in flight to whom. Invariants: a consumer is asked for as its principal; of
//! messages the numbers are told by which the upstream settles them.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode, Now, ShardId};
use tiderace_wire::{
    Browsing, Context, Destination, EndPrincipal, Flags, FromUpstream, Kind, Meta, Outcome,
    QueueStart, RunBuilder, Subscribe, SubscriptionKey, Target,
};

use super::fault::{broken, malformed};
use super::subscriptions::Request;
use super::{UpstreamSession, say};
use crate::codec::{
    ClientMessage, ConsumerMessage, Content, Queued, SettleMessage, SubscribeMessage,
    check_properties, flag, subscribe,
};
use crate::limits::{REJECTED_MAX, UPSTREAM_HOMES_MAX, UPSTREAM_NUMBER_MAX};

impl UpstreamSession {
    pub(super) fn consume(
        &mut self,
        key: u32,
        principal: &Arc<EndPrincipal>,
        wanted: &Subscribe,
        context: &mut Context<'_>,
    ) {
        let target = wanted.targets.first();
        let target = target.ok_or_else(|| Close::from(CloseCode::BadDestination));
        let checked = target.and_then(|target| {
            self.check(key, Kind::Queue)?;
            self.check_relay(principal)?;
            Ok(target)
        });
        let target = match checked {
            Ok(target) => target,
            Err(close) => {
                let key = SubscriptionKey(key);
                return self.tell(FromUpstream::Refused { key, close }, context);
            }
        };
        let is_pattern = matches!(target, Target::Pattern(..));
        if let Target::Exact(destination) = target {
            self.topics.begin(key, destination.path.clone());
        }
        let request = self.subscriptions.begin_consumer(key, is_pattern);
        let bit = |flag, is| if is { flag } else { 0 };
        let flags = bit(subscribe::PATTERN, is_pattern)
            | bit(subscribe::EXPLICIT, wanted.explicit)
            | bit(subscribe::EXCLUSIVE, wanted.exclusive)
            | bit(subscribe::BROWSE, wanted.browsing.is_some())
            | bit(subscribe::FOLLOW, wanted.browsing == Some(Browsing::Following));
        let message = SubscribeMessage {
            request,
            subscription: key,
            flags,
            kind: Kind::Queue,
            path: target.name(),
            selector: wanted.selector.as_ref().map(|selector| selector.text()),
            prefetch: wanted.prefetch,
            position: None,
            replay: None,
            interval_ms: None,
            start: match wanted.start {
                QueueStart::Version(0) => None,
                QueueStart::Version(version) => Some(version),
                QueueStart::Next => Some(0),
            },
            credit: wanted.credit,
        };
        let mut bytes = Vec::new();
        ClientMessage::Subscribe(message).write(&mut bytes);
        self.say_as(principal, &bytes, &mut context.output);
    }

    /// What a consumer settles.
    pub(super) fn settle(
        &mut self,
        (number, key): (Option<u32>, u32),
        parts: Vec<(ShardId, Vec<(u64, u64)>)>,
        outcome: Outcome,
        context: &mut Context<'_>,
    ) {
        if let Some(number) = number {
            self.relays.begin(number, parts.len());
        }
        for (home, ranges) in parts {
            let (subscription, home) = (key, home.0);
            let message = match outcome {
                Outcome::Release => {
                    let released = ConsumerMessage::Release { subscription, home, ranges };
                    ClientMessage::Consumer(released)
                }
                Outcome::Accept | Outcome::Reject => {
                    let relayed = |number| self.subscriptions.request(Request::Relayed(number));
                    let request = number.map_or(0, relayed);
                    let reject = outcome == Outcome::Reject;
                    let settled = SettleMessage { request, subscription, home, reject, ranges };
                    ClientMessage::Settle(settled)
                }
            };
            say(&message, &mut context.output);
        }
    }

    /// A consumer may be given more.
    pub(super) fn grant(&mut self, subscription: u32, messages: u64, context: &mut Context<'_>) {
        let granted = ConsumerMessage::Grant { subscription, messages: messages.max(1) };
        say(&ClientMessage::Consumer(granted), &mut context.output);
    }

    /// A consumer whose client was lost ends.
    pub(super) fn lose(&mut self, key: u32, context: &mut Context<'_>) {
        match self.subscriptions.end(key) {
            Some(request) => {
                let lost = ConsumerMessage::Lost { request, subscription: key };
                say(&ClientMessage::Consumer(lost), &mut context.output);
            }
            None => self.tell_if_over(key, context),
        }
    }

    /// QUEUED.
    pub(super) fn queued(
        &mut self,
        now: Now,
        queued: &Queued<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let is_announced = queued.flags & flag::ANNOUNCED != 0;
        let known = self.topics.get(is_announced, queued.id);
        let known = known.map(|(topic, _)| (topic.key, topic.path.clone()));
        let Some((key, path)) = known.filter(|(key, _)| self.subscriptions.is_consumer(*key))
        else {
            let id = queued.id;
            return Err(broken(format!("messages come of the queue {id}, which is not there")));
        };
        if self.subscriptions.wanted(key).is_none() {
            return Ok(());
        }
        if queued.home >= UPSTREAM_HOMES_MAX || queued.first > UPSTREAM_NUMBER_MAX {
            return Err(broken("messages of a queue have numbers that nobody gives"));
        }
        let mut builder = RunBuilder::new(Destination { kind: Kind::Queue, path }, now.time);
        let mut first = queued.first;
        let mut count = 0;
        for entry in queued.entries() {
            let entry = entry.map_err(malformed)?;
            let escaped = check_properties(entry.properties).map_err(malformed)?;
            if entry.body.len() > self.options.message_bytes_max {
                // It would come again with each connection, and every client that may send to the queue may send such a one.
                if count > 0 {
                    let next = RunBuilder::new(builder.destination().clone(), now.time);
                    let full = std::mem::replace(&mut builder, next);
                    self.tell_queued((key, queued), (full, first), context);
                }
                let number = first + count;
                let rejected = vec![(ShardId(queued.home), vec![(number, number)])];
                if queued.redeliveries < REJECTED_MAX {
                    self.settle((None, key), rejected, Outcome::Reject, context);
                }
                (first, count) = (number + 1, 0);
                continue;
            }
            if count > 0 && !builder.has_room() {
                let next = RunBuilder::new(builder.destination().clone(), now.time);
                let full = std::mem::replace(&mut builder, next);
                self.tell_queued((key, queued), (full, first), context);
                (first, count) = (first + count, 0);
            }
            let block = builder.properties();
            block.extend_from_slice(Content::of(entry.flags).line());
            block.extend_from_slice(entry.properties);
            let flags = if escaped { Flags::ESCAPED } else { Flags::NONE };
            builder.finish(entry.body, Meta { flags, expires_ms: None });
            count += 1;
        }
        if count > 0 {
            self.tell_queued((key, queued), (builder, first), context);
        }
        Ok(())
    }

    fn tell_queued(
        &mut self,
        (key, queued): (u32, &Queued<'_>),
        (builder, first): (RunBuilder, u64),
        context: &mut Context<'_>,
    ) {
        let mut run = builder.build();
        run.number(ShardId(queued.home), first);
        let (key, redeliveries) = (SubscriptionKey(key), queued.redeliveries);
        self.tell(FromUpstream::Queued { key, redeliveries, run }, context);
    }

    /// BROWSED.
    pub(super) fn browsed(&mut self, key: u32, context: &mut Context<'_>) -> Result<(), Close> {
        if !self.subscriptions.is_consumer(key) {
            let reason = format!("subscription {key} has browsed, which is nothing that was asked");
            return Err(broken(reason));
        }
        if self.subscriptions.wanted(key).is_some() {
            self.tell(FromUpstream::Browsed { key: SubscriptionKey(key) }, context);
        }
        Ok(())
    }

    /// Tells that a number is free, if nothing stands for it that is to end first.
    pub(super) fn tell_if_over(&mut self, key: u32, context: &mut Context<'_>) {
        if !self.subscriptions.is_known(key) {
            self.tell(FromUpstream::Ended { key: SubscriptionKey(key) }, context);
        }
    }
}
