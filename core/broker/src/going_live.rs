//! Subscriptions whose homes have answered: deliveries to them take the short way, and they take little room.
//!
//! Invariant: what is not plain is asked whether it wants a message, each time.

use tiderace_base::{Key, MemoryUse};
use tiderace_wire::{Kind, Target};

use crate::delivery::credit::Credited;
use crate::messages::SubscribeRequestId;
use crate::places::key_of;
use crate::session_side::SessionSide;
use crate::subscriber_list::Plain;
use crate::subscriber_list::{Subscriber, SubscriberFlags};
use crate::subscription::Listening;
use crate::subscriptions::Entry;

impl SessionSide<'_> {
    /// A complete subscription to one topic needs to know no more than its place there.
    pub(crate) fn make_plain(&mut self, request: SubscribeRequestId, plain: Plain) {
        let record = self.sessions.get_mut(key_of(request.session));
        if let Some(entry) = record.and_then(|record| record.subscriptions.get_mut(request.key)) {
            let full = std::mem::replace(entry, Entry::Plain(plain));
            self.memory.change(MemoryUse::Names, full.bytes(), entry.bytes());
        }
    }

    /// The same of one with credit.
    pub(crate) fn make_credited(&mut self, request: SubscribeRequestId, plain: Plain) {
        let record = self.sessions.get_mut(key_of(request.session));
        let entry = record.and_then(|record| record.subscriptions.get_mut(request.key));
        if let Some(entry) = entry
            && let Entry::Full(subscription) = entry
            && let Some(credit) = subscription.credit.take()
        {
            let credited = Entry::Credited(Box::new(Credited { plain, credit: *credit }));
            let full = std::mem::replace(entry, credited);
            self.memory.change(MemoryUse::Names, full.bytes(), entry.bytes());
        }
    }

    /// Lets deliveries take the short way to a target of a subscription, or to all, once its homes
    /// have answered, if there is no selector.
    pub(crate) fn go_live(&mut self, request: SubscribeRequestId, all: bool) {
        let SubscribeRequestId { session, key, epoch, .. } = request;
        let record = self.session(session);
        let Some(subscription) = record.and_then(|record| record.subscription(key)) else {
            return;
        };
        let flags = subscription.flags;
        let tested = subscription.selector.is_some() || self.is_owned(session, key);
        if tested || subscription.recovery.is_some() || flags.is_throttled() {
            return;
        }
        if let [Listening { topic: Some(topic), waiting, place, .. }] =
            subscription.targets.as_slice()
        {
            // The ordinary one: one topic.
            let (topic, live, place) = (*topic, waiting.is_empty(), *place);
            let plain = Plain::new(topic, place);
            if flags.has_credit() {
                return if live {
                    self.make_credited(request, plain)
                };
            }
            if live && self.mark_plain_at(topic, place as usize) {
                self.make_plain(request, plain);
            }
            return;
        }
        if flags.has_credit() {
            return;
        }
        let live: Vec<(u16, Target, Option<Key>, usize)> = (0..)
            .zip(subscription.targets.as_slice())
            .filter(|(at, listening)| {
                listening.waiting.is_empty() && (all || *at == request.target)
            })
            .map(|(at, it)| (at, it.target.clone(), it.topic, it.place as usize))
            .collect();
        for (target, listening, topic, place) in live {
            let request = SubscribeRequestId { session, key, target, epoch };
            self.mark_plain(request, &listening, topic, place, flags);
        }
    }

    /// Lets deliveries to the subscriber of a topic in that place take the short way: whether there is one.
    fn mark_plain_at(&mut self, topic: Key, place: usize) -> bool {
        let Some(topic) = self.directory.get(topic) else { return false };
        self.fanout.subscribers_mut(topic).is_some_and(|known| known.make_plain(place))
    }

    /// Lets deliveries to a live subscription without a selector take the short way.
    pub(crate) fn mark_plain(
        &mut self,
        request: SubscribeRequestId,
        target: &Target,
        topic: Option<Key>,
        place: usize,
        flags: SubscriberFlags,
    ) {
        match target {
            Target::Exact(destination) if destination.kind == Kind::Topic => {
                if let Some(topic) = topic {
                    self.mark_plain_at(topic, place);
                }
            }
            Target::Pattern(Kind::Topic, pattern) => {
                let entry = |plain| Subscriber {
                    session: key_of(request.session),
                    key: request.key,
                    target: request.target,
                    plain,
                    flags,
                };
                if self.fanout.patterns_mut().remove(pattern, &entry(false)) {
                    self.fanout.patterns_mut().insert(pattern, entry(true));
                }
            }
            Target::Exact(_) | Target::Pattern(Kind::Queue | Kind::Service, _) => {}
        }
    }
}
