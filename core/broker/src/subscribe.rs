//! Subscriptions: from a request to entries in topics, patterns and queues, and out again.
//!
//! A subscription becomes live home by home: each home answers with the retained values and from
//! then on sends everything. Until its home has answered, a topic's messages that reach this shard
//! for other subscribers are not for this one, so there is neither a gap nor a repetition.

use tiderace_base::{Close, CloseCode, Key, MemoryUse, Now, SessionId};
use tiderace_queues::{Consume, Ending, Settlement};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Confirm, Destination, Kind, Prefetch, QueueStart, Reply, Subscribe, SubscriptionKey, Target,
    Token,
};

use crate::authorise::Caller;
use crate::delivery::backlog::For;
use crate::delivery::credit::Credit;
use crate::effects::Effects;
use crate::limits::check_allowances;
use crate::memory::check_subscription_room;
use crate::messages::{Answer, Ask, Consumption, Interest, SubscribeRequestId, ToHome};
use crate::places::{Place, PlaceSet, key_of};
use crate::session_side::SessionSide;
use crate::subscriber_list::Plain;
use crate::subscriber_list::Subscriber;
use crate::subscriber_list::SubscriberFlags;
use crate::subscription::Listening;
use crate::subscription::Subscription;
use crate::subscription::Targets;
use crate::subscriptions::Entry;
use crate::together::{EndingTogether, RecoveriesTogether};

/// A subscription that has begun, but for listening.
#[derive(Debug)]
pub(crate) struct Begun {
    pub(crate) epoch: u32,
    pub(crate) subscribe: Subscribe,
}

/// A subscription that has ended, but for the exchanges that it serves.
#[derive(Debug)]
pub(crate) struct Ended {
    session: SessionId,
    /// Whether there may be such exchanges.
    pub(crate) serves: bool,
}

impl Ended {
    /// Nothing but messages that were under way: for what waits behind these.
    pub(crate) fn of_messages(session: SessionId) -> Ended {
        Ended { session, serves: false }
    }
}

impl SessionSide<'_> {
    /// Gives a subscription back if it may be; otherwise it is refused, or a home is asked for the owner.
    pub(crate) fn admit_subscription(
        &mut self,
        session: SessionId,
        subscribe: Subscribe,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) -> Option<Subscribe> {
        let Err(close) = self.may_subscribe(session, &subscribe) else { return Some(subscribe) };
        let asked = self.subscribe_if_owner(session, subscribe, close, recoveries, effects);
        if let Some((subscribe, close)) = asked {
            self.metrics.denied += u64::from(close.code == CloseCode::NotAuthorised);
            let reply = Reply::no_subscription(subscribe.key, subscribe.confirm, close);
            self.reply(session, reply, effects);
        }
        None
    }

    /// A subscription begins that may be, and has yet to listen.
    #[must_use = "it is to listen"]
    pub(crate) fn begin_subscription(
        &mut self,
        session: SessionId,
        mut subscribe: Subscribe,
        recoveries: &mut Option<RecoveriesTogether>,
        effects: &mut Effects,
    ) -> Option<Begun> {
        self.share_patterns(&mut subscribe);
        self.share_selector(&mut subscribe);
        let listening: Vec<Listening> = subscribe
            .targets
            .iter()
            .map(|target| {
                let waiting = match target {
                    Target::Pattern(Kind::Topic, pattern) => self.homes_of(pattern),
                    target => self.options.homes_of_target(target),
                };
                Listening {
                    target: target.clone(),
                    waiting,
                    paging: PlaceSet::EMPTY,
                    topic: None,
                    place: 0,
                }
            })
            .collect();
        let waiting = listening.iter().map(|listening| listening.waiting.len() as u32).sum();
        let targets = match <[Listening; 1]>::try_from(listening) {
            Ok([one]) => Targets::One(one),
            Err(many) => Targets::Many(many.into()),
        };
        let key = subscribe.key;
        let recovery = self.recovery_of(&subscribe);
        let epoch = self.sessions.next_epoch();
        let record = self.sessions.get_mut(key_of(session))?;
        let is_relayed = record.principal.as_ref().is_some_and(|it| it.relayed_by.is_some());
        let subscription = Subscription {
            epoch,
            explicit: subscribe.explicit,
            is_relayed,
            waiting,
            confirm: subscribe.confirm.filter(|_| waiting > 0),
            confirm_values: subscribe.confirm_values,
            recovering: recovery.is_some() || (subscribe.recoverable && waiting > 0),
            selector: subscribe.selector.clone(),
            targets,
            flags: SubscriberFlags::of(&subscribe),
            interval: Some(subscribe.interval).filter(|it| !it.is_zero()).map(Box::new),
            credit: Credit::of(&subscribe),
            recovery,
            handed: Vec::new(),
        };
        let recovering = subscription.recovering;
        let entry = Entry::Full(Box::new(subscription));
        self.memory.charge(MemoryUse::Names, entry.bytes());
        record.begin_subscription(key, entry);
        self.metrics.subscriptions += 1;
        if recovering {
            self.begin_recovering(session, recoveries, effects);
        }
        self.hold_regexes(key_of(session), &subscribe.targets);
        Some(Begun { epoch, subscribe })
    }

    /// Its homes hear of a subscription.
    pub(crate) fn listen_to_all(
        &mut self,
        now: Now,
        session: SessionId,
        epoch: u32,
        subscribe: &Subscribe,
        effects: &mut Effects,
    ) {
        let key = subscribe.key;
        let rules_since = match &subscribe.since {
            Some(_) => self.sessions.rules_since(key_of(session), self.options),
            None => 0,
        };
        for (target, index) in subscribe.targets.iter().zip(0..) {
            let request = SubscribeRequestId { session, key, target: index, epoch };
            self.listen(now, request, (subscribe, target, rules_since), effects);
        }
        if subscribe.targets.is_empty() {
            self.finish_recovery(now, session, key, effects);
            self.settle_beginning(session, key, effects);
            self.confirm(session, subscribe.confirm, effects);
        }
    }

    /// Ends a subscription, but for the exchanges that it serves; messages under way to it go back to their queues. It
    /// is `unheard` if no home has heard of it. Nothing is left to do if there is none.
    #[must_use = "its session is to go on behind it"]
    pub(crate) fn end_subscription(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        (ending, confirm, unheard): (Ending, Option<Token>, bool),
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) -> Option<Ended> {
        self.forget_asked(session, key, effects);
        let record = self.sessions.get_mut(key_of(session))?;
        let Some(mut subscription) = record.end_subscription(key) else {
            self.confirm(session, confirm, effects);
            return None;
        };
        self.memory.refund(MemoryUse::Names, subscription.bytes());
        self.close_throttles_of(key_of(session), key, &subscription);
        // What is said in exchanges ends with them, which may be later.
        let (unsent, _) = self.take_ended(session, For::Subscription(key), together);
        self.metrics.subscriptions -= 1;
        if let Entry::Full(subscription) = &mut subscription {
            let credit = subscription.credit.as_deref_mut();
            self.return_waiting(session, credit, effects);
        }
        if let Entry::Full(subscription) = &subscription {
            // Its client still waits for this answer, and perhaps for others behind it.
            if let Some(recovery) = &subscription.recovery {
                self.abandon_recovery(session, recovery, effects);
            }
            self.end_pages(session, key, subscription, effects);
            if subscription.recovering {
                self.end_recovering(session, effects);
            }
            self.confirm(session, subscription.confirm, effects);
            self.release_regexes(key_of(session), subscription);
        }
        for pending in unsent.iter().filter(|pending| pending.source.is_queue()) {
            let first = pending.run.run().first();
            let range = (first + u64::from(pending.from), first + u64::from(pending.to) - 1);
            self.settle_towards(
                pending.run.run().home(),
                session,
                key,
                vec![range],
                Settlement::Return,
                effects,
            );
        }
        let serves = match subscription {
            // No home has heard of it.
            Entry::Full(_) if unheard => {
                self.confirm(session, confirm, effects);
                false
            }
            Entry::Full(subscription) => {
                let homes = self.end_full(now, session, key, &subscription, effects);
                self.leave(session, (key, &subscription), (homes, ending), confirm, effects);
                subscription
                    .targets
                    .as_slice()
                    .iter()
                    .any(|listening| is_service(&listening.target))
            }
            plain => {
                if let Some(Plain { topic, place }) = plain.plain() {
                    self.unlist(
                        now,
                        self.directory.topics().key_of(topic),
                        place as usize,
                        effects,
                    );
                }
                self.confirm(session, confirm, effects);
                false
            }
        };
        Some(Ended { session, serves })
    }

    /// A subscription has ended, with its exchanges: what waited behind it goes on.
    pub(crate) fn go_on_without(&mut self, ended: Ended, effects: &mut Effects) {
        let session = ended.session;
        self.ask_for_pages(session, effects);
        let after = self.session(session).map_or(0, |record| record.backlog_bytes());
        if after == 0 || after < self.options.backlog_bytes_low {
            self.caught_up(key_of(session), effects);
        } else {
            self.release_backpressure(key_of(session), effects);
        }
    }

    fn end_full(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        subscription: &Subscription,
        effects: &mut Effects,
    ) -> PlaceSet {
        let plain = subscription.selector.is_none();
        let flags = subscription.flags;
        for (listening, target) in subscription.targets.as_slice().iter().zip(0u16..) {
            let entry = |plain| Subscriber { session: key_of(session), key, target, plain, flags };
            match &listening.target {
                Target::Exact(destination) if destination.kind != Kind::Topic => {}
                Target::Pattern(Kind::Queue | Kind::Service, _) => {}
                Target::Exact(_) => {
                    self.unlist(now, listening.topic, listening.place as usize, effects);
                }
                Target::Pattern(Kind::Topic, pattern) => {
                    self.unlist_pattern(&pattern.clone(), entry(plain), effects)
                }
            }
        }
        self.serving_homes(subscription)
    }

    fn may_subscribe(&self, session: SessionId, subscribe: &Subscribe) -> Result<(), Close> {
        let Some(record) = self.session(session) else {
            return Ok(());
        };
        let Some(principal) = &record.principal else {
            return Ok(());
        };
        if subscribe.key.0 as usize >= self.options.subscriptions_max {
            let reason = format!(
                "a session may have {} subscriptions; use wildcards or end some first",
                self.options.subscriptions_max
            );
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        check_allowances(record.allowances()).and_then(|()| check_browsing(subscribe))?;
        if subscribe.selector.is_some() && subscribe.targets.iter().any(is_service) {
            let reason = "a service takes every call; a selector cannot choose among them";
            return Err(Close::new(CloseCode::BadSelector, reason));
        }
        let asked = self.sessions.owners().asks(session, subscribe.key);
        if asked || record.subscriptions.get(subscribe.key).is_some() {
            return Err(CloseCode::DuplicateSubscription.into());
        }
        let caller = Caller { session, principal };
        for target in &subscribe.targets {
            self.options.may_listen(caller, target)?;
        }
        self.options.check_elsewhere(&subscribe.targets, principal)?;
        check_subscription_room(self.memory, subscribe)?;
        self.may_hold_regexes(record, subscribe)
    }

    fn listen(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        (subscribe, target, rules_since): (&Subscribe, &Target, u32),
        effects: &mut Effects,
    ) {
        let session = request.session;
        let entry = Subscriber {
            session: key_of(session),
            key: subscribe.key,
            target: request.target,
            plain: false,
            flags: SubscriberFlags::of(subscribe),
        };
        match target {
            Target::Exact(destination) if destination.kind == Kind::Topic => {
                let path = &destination.path;
                let first = self.first(subscribe, self.options.home_of(path), rules_since);
                let since = self.options.since_for(subscribe, self.options.home_of(path));
                let recoverable = subscribe.recoverable;
                let ask = Ask { request, first, room: 0, recoverable, since };
                self.listen_to_topic(now, ask, entry, path, effects);
            }
            Target::Pattern(Kind::Topic, pattern) => {
                self.fanout.patterns_mut().insert(pattern, entry);
                let values = subscribe.retained || subscribe.replay.is_some();
                let values = values && subscribe.since.is_none();
                let homes = self.homes_of(pattern);
                let room = if values { self.promise_first(session, homes) } else { 0 };
                for home in homes.iter() {
                    let (first, since) = (
                        self.first(subscribe, home, rules_since),
                        self.options.since_for(subscribe, home),
                    );
                    let recoverable = subscribe.recoverable;
                    let ask = Ask { request, first, room, recoverable, since };
                    let interest =
                        Interest { on: true, recorded: subscribe.recoverable, ask: Some(ask) };
                    let message = ToHome::PatternInterest { pattern: pattern.clone(), interest };
                    self.send(home, message, effects);
                }
            }
            target if self.options.upstream_of_queues(target).is_some() => {
                let principal = self.principal_of(session);
                let it = principal.and_then(|it| Consumption::of(request, subscribe, &it));
                for (home, it) in self.options.serving_homes(target).iter().zip(it) {
                    self.send(home, ToHome::ConsumeElsewhere(it), effects);
                }
            }
            Target::Exact(_) | Target::Pattern(Kind::Queue | Kind::Service, _) => {
                let homes = self.options.serving_homes(target);
                let consume = Consume {
                    session,
                    key: subscribe.key,
                    target: target.clone(),
                    selector: subscribe.selector.clone(),
                    window: subscribe.prefetch.unwrap_or(Prefetch { messages: 0, bytes: 0 }),
                    exclusive: subscribe.exclusive,
                    browsing: subscribe.browsing,
                    start: subscribe.start,
                    explicit: subscribe.explicit,
                    credit: subscribe.credit,
                    owner: self.name_of(session),
                };
                for home in homes.iter() {
                    let consume = Box::new(consume.clone());
                    self.send(home, ToHome::Consume { consume, request }, effects);
                }
            }
        }
    }

    fn listen_to_topic(
        &mut self,
        now: Now,
        ask: Ask,
        entry: Subscriber,
        path: &Path,
        effects: &mut Effects,
    ) {
        let topic = self.directory.ensure(now, path);
        let mut recorded = false;
        if let Some(topic) = self.directory.get(topic) {
            let known = self.fanout.subscribers_or_new(topic);
            let place = known.list(entry);
            recorded = known.is_recorded();
            self.set_place(entry.session, entry.key, entry.target, place);
        }
        self.set_topic(entry, topic);
        self.presence_join(now, path, entry.session, effects);
        self.announce_owner(ask.request, path, effects);
        let home = self.options.home_of(path);
        let interest = Interest { on: true, recorded, ask: Some(ask) };
        self.send(home, ToHome::Interest { path: path.clone(), interest }, effects);
    }

    /// Notes which topic a target of a subscription is.
    fn set_topic(&mut self, entry: Subscriber, topic: Key) {
        let record = self.sessions.get_mut(entry.session);
        let subscription = record.and_then(|record| record.subscription_mut(entry.key));
        let targets = subscription.map(|known| known.targets.as_mut_slice());
        let target = usize::from(entry.target);
        if let Some(listening) = targets.and_then(|targets| targets.get_mut(target)) {
            listening.topic = Some(topic);
        }
    }

    /// On the subscriber's shard: a home has answered.
    pub(crate) fn subscribe_acknowledged(
        &mut self,
        now: Now,
        from: Place,
        request: SubscribeRequestId,
        answer: Answer,
        effects: &mut Effects,
    ) {
        self.fanout.heard_mut().note(from.shard, answer.at);
        self.redeem(request.session, from, answer.room);
        let record = self.sessions.get_mut(key_of(request.session));
        let subscription = record.and_then(|record| record.subscription_mut(request.key));
        let Some(subscription) = subscription.filter(|known| known.epoch == request.epoch) else {
            if answer.more {
                self.ask_for_more(from, request, None, effects);
            }
            return self.ask_for_pages(request.session, effects);
        };
        let targets = subscription.targets.as_mut_slice();
        let Some(listening) = targets.get_mut(usize::from(request.target)) else {
            return;
        };
        listening.waiting.remove(from);
        subscription.waiting = subscription.waiting.saturating_sub(1);
        let complete = subscription.waiting == 0;
        let settled = subscription.is_settled() && !answer.more;
        let told = settled || complete && !subscription.confirm_values;
        let confirm = if told { subscription.confirm.take() } else { None };
        let recovered = settled && std::mem::take(&mut subscription.recovering);
        if subscription.recovery.is_some() {
            self.hold_answer(now, from, request, answer);
            if complete {
                self.finish_recovery(now, request.session, request.key, effects);
                self.settle_beginning(request.session, request.key, effects);
                self.go_live(request, true);
            }
        } else {
            let recoverable = subscription.flags.recoverable();
            self.go_live(request, false);
            self.deliver_values(now, request, (answer.retained, answer.specs), 0, effects);
            if recoverable {
                self.reach(request.session, from.shard, answer.at, effects);
            }
            if answer.more {
                self.note_more(from, request);
            }
        }
        if recovered {
            self.end_recovering(request.session, effects);
        }
        if let Some(token) = confirm {
            self.reply(request.session, Reply::Confirmed(Confirm::one(token)), effects);
        }
        self.ask_for_pages(request.session, effects);
    }

    /// Notes where in its topic's list a subscription stands, so that its end need not search.
    fn set_place(&mut self, session: Key, key: SubscriptionKey, target: u16, place: usize) {
        let record = self.sessions.get_mut(session);
        match record.and_then(|record| record.subscriptions.get_mut(key)) {
            Some(Entry::Plain(plain)) => plain.place = place as u32,
            Some(Entry::Credited(credited)) => credited.plain.place = place as u32,
            Some(Entry::Full(known)) => {
                if let Some(listening) = known.targets.as_mut_slice().get_mut(usize::from(target)) {
                    listening.place = place as u32;
                }
            }
            None => {}
        }
    }

    fn unlist(&mut self, now: Now, topic: Option<Key>, place: usize, effects: &mut Effects) {
        if let Some(topic) = topic {
            self.presence_leave(now, topic, place, effects);
        }
        let topic = topic.and_then(|key| self.directory.get_mut(key));
        let Some(topic) = topic else { return };
        topic.touch(now.time);
        let Some(known) = self.fanout.subscribers_mut(topic) else { return };
        let was_recorded = known.is_recorded();
        let moved = known.unlist(place, &topic.spec);
        let (on, recorded) = (!known.exact().is_empty(), known.is_recorded());
        let news = (!on || recorded != was_recorded).then(|| topic.path.clone());
        if let Some(moved) = moved {
            self.set_place(moved.session, moved.key, moved.target, place);
        }
        let Some(path) = news else { return };
        let home = self.options.home_of(&path);
        let interest = Interest { on, recorded, ask: None };
        self.send(home, ToHome::Interest { path, interest }, effects);
    }

    fn unlist_pattern(&mut self, pattern: &Pattern, entry: Subscriber, effects: &mut Effects) {
        for plain in [true, false] {
            if self.fanout.patterns_mut().remove(pattern, &Subscriber { plain, ..entry }) {
                break;
            }
        }
        let interest = Interest { on: false, recorded: entry.flags.recoverable(), ask: None };
        for home in self.homes_of(pattern).iter() {
            let interest = interest.clone();
            let message = ToHome::PatternInterest { pattern: pattern.clone(), interest };
            self.send(home, message, effects);
        }
    }
}

/// Who browses, or begins somewhere in a queue, does so in one queue, in which it knows the versions.
fn check_browsing(subscribe: &Subscribe) -> Result<(), Close> {
    if subscribe.browsing.is_none() && subscribe.start == QueueStart::Version(0) {
        return Ok(());
    }
    let is_queue = |destination: &Destination| destination.kind == Kind::Queue;
    if !matches!(&*subscribe.targets, [Target::Exact(one)] if is_queue(one)) {
        let reason = "only one queue can be browsed, or read from a place on: no pattern, no topic, \
                      and not several";
        return Err(Close::new(CloseCode::BadDestination, reason));
    }
    if subscribe.browsing.is_some() && subscribe.exclusive {
        let reason = "who browses a queue takes nothing of it and cannot have it alone; leave out \
                      `exclusive`";
        return Err(Close::new(CloseCode::BadHeader, reason));
    }
    Ok(())
}

fn is_service(target: &Target) -> bool {
    let (Target::Exact(Destination { kind, .. }) | Target::Pattern(kind, _)) = target;
    *kind == Kind::Service
}
