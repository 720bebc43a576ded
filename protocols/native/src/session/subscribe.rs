//! SUBSCRIBE, UNSUBSCRIBE, SETTLE.

use tiderace_base::limits::INTERVAL_MAX;
use tiderace_base::{Close, CloseCode, ShardId, Span};
use tiderace_filter::Selector;
use tiderace_topics as topics;
use tiderace_wire::{
    Browsing, Command, Context, Destination, Kind, Outcome, Position, QueueStart, Settle,
    Subscribe, SubscriptionKey, Target, parse_selector,
};

use super::connect::position;
use super::subscriptions::Mark;
use super::{NativeSession, error, refuse, say};
use crate::codec::{ServerMessage, SettleMessage, SubscribeMessage, subscribe};

impl NativeSession {
    pub(super) fn subscribe(
        &mut self,
        message: &SubscribeMessage<'_>,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let token = self.answered(message.request)?;
        let since = message.position.map(|bytes| self.since(bytes)).transpose()?;
        let subscribe = match self.wish(message, since) {
            Ok(subscribe) => subscribe,
            Err(close) => return refuse(token, close, context),
        };
        let mark = Mark::default()
            .with(Mark::PATTERN, message.flags & subscribe::PATTERN != 0)
            .with(Mark::DELTAS, subscribe.deltas)
            .with(Mark::VALUES, message.flags & subscribe::VALUES != 0)
            .with(Mark::OK_LAST, subscribe.confirm_values)
            .with(Mark::NUMBERED, message.flags & subscribe::NUMBERED != 0);
        self.agreed.note_recoverable(subscribe.recoverable);
        if message.flags & subscribe::CREDITS != 0 {
            self.cold().tells_credit = true;
        }
        let (key, resumes) = (message.subscription, subscribe.since.is_some());
        self.subscriptions.begin(key, mark);
        self.cold().unanswered.push(token, key, resumes);
        let subscribe = Subscribe { confirm: Some(token), ..subscribe };
        context.commands.push(Command::Subscribe(Box::new(subscribe)));
        Ok(())
    }

    /// What the message asks for, if that can be.
    fn wish(
        &self,
        message: &SubscribeMessage<'_>,
        since: Option<Position>,
    ) -> Result<Subscribe, Close> {
        let key = message.subscription;
        let most = self.options.subscriptions_max;
        if key as usize >= most {
            let reason = format!("subscription ids are below {most}; use the lowest free one");
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        if self.subscriptions.get(key).is_some() {
            let reason = format!("subscription {key} exists already");
            return Err(Close::new(CloseCode::DuplicateSubscription, reason));
        }
        let has = |flag| message.flags & flag != 0;
        if has(subscribe::NUMBERED) && !(has(subscribe::RECOVERABLE) && message.kind == Kind::Topic)
        {
            let reason =
                "NUMBERED is for topics, and only beside RECOVERABLE; set both flags or none";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        if has(subscribe::CREDITS) && message.kind != Kind::Service {
            return Err(Close::new(CloseCode::BadFrame, "CREDITS is for services"));
        }
        if message.credit.is_some() && message.kind != Kind::Queue {
            let reason = "CREDIT is for queues; leave the flag out";
            return Err(Close::new(CloseCode::BadFrame, reason));
        }
        let targets = if has(subscribe::PATTERN) {
            self.targets(message.kind, message.path)?
        } else {
            let path = self.path(message.path)?;
            vec![Target::Exact(Destination { kind: message.kind, path })]
        };
        let selector = message.selector.map(Selector::parse).transpose().map_err(|error| {
            Close::new(CloseCode::BadSelector, format!("the selector cannot be used: {error}"))
        })?;
        Ok(Subscribe {
            selector,
            explicit: has(subscribe::EXPLICIT),
            prefetch: message.prefetch,
            exclusive: has(subscribe::EXCLUSIVE),
            browsing: match (has(subscribe::BROWSE), has(subscribe::FOLLOW)) {
                (false, _) => None,
                (true, false) => Some(Browsing::ToEnd),
                (true, true) => Some(Browsing::Following),
            },
            start: match message.start {
                None => QueueStart::Version(0),
                Some(0) => QueueStart::Next,
                Some(position) => QueueStart::Version(position),
            },
            retained: has(subscribe::SNAPSHOT),
            recoverable: has(subscribe::RECOVERABLE),
            deltas: has(subscribe::DELTAS) && self.agreed.codec() != 0,
            // What came since the position goes before what is kept.
            replay: message.replay.filter(|_| since.is_none()),
            since,
            confirm_values: has(subscribe::OK_LAST) && message.kind == Kind::Topic,
            interval: Span::from_millis(message.interval_ms.unwrap_or_default()).min(INTERVAL_MAX),
            notices: has(subscribe::NOTICES),
            credit: message.credit,
            ..Subscribe::new(SubscriptionKey(key), targets)
        })
    }

    /// What a selector names. A pattern alone stays one even without wildcards: it shows what may be
    /// seen, as patterns do.
    fn targets(&self, kind: Kind, text: &str) -> Result<Vec<Target>, Close> {
        let selector = self.selector(text)?;
        Ok(match selector.patterns() {
            [pattern] => vec![Target::Pattern(kind, pattern.clone())],
            _ => Target::of(kind, selector),
        })
    }

    /// A topic selector in full.
    pub(super) fn selector(&self, text: &str) -> Result<topics::Selector, Close> {
        parse_selector(text, self.name.as_deref())
    }

    /// Where to go on. Without any position all that can be said is that something is missing, which
    /// is what an epoch that never was leads to.
    fn since(&self, bytes: &[u8]) -> Result<Position, Close> {
        if !bytes.is_empty() {
            return position(bytes);
        }
        let known = self.cold.as_ref().and_then(|cold| cold.position.clone());
        Ok(known.unwrap_or_default())
    }

    pub(super) fn unsubscribe(
        &mut self,
        request: u32,
        key: u32,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let confirm = self.token(request)?;
        let Some(mark) = self.subscriptions.get(key) else {
            return unknown(request, key, context);
        };
        self.forget(key, mark);
        context.commands.push(Command::Unsubscribe { key: SubscriptionKey(key), confirm });
        Ok(())
    }

    /// The broker has ended a subscription, whose id is free. One whose OK stands behind values that are still to be
    /// given is refused instead: its client has not been told that it has begun.
    pub(super) fn subscription_ended(
        &mut self,
        key: u32,
        close: &Close,
        context: &mut Context<'_>,
    ) {
        let Some(mark) = self.subscriptions.get(key) else { return };
        let unanswered = self.cold.as_mut().and_then(|cold| cold.take_settled(key));
        self.forget(key, mark);
        if let Some(token) = unanswered {
            return error(token, close, &mut context.output);
        }
        let (code, slug) = (close.code as u16, close.code.slug());
        let sentence = &close.reason;
        let ended = ServerMessage::Unsubscribed { subscription: key, code, slug, sentence };
        say(&ended, &mut context.output);
    }

    pub(super) fn settle(
        &mut self,
        message: SettleMessage,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let confirm = self.token(message.request)?;
        if message.home >= u16::from(self.shards) {
            return Err(Close::new(CloseCode::BadHeader, "no message has come from that home"));
        }
        if self.subscriptions.get(message.subscription).is_none() {
            return unknown(message.request, message.subscription, context);
        }
        if message.ranges.is_empty() && confirm.is_none() {
            return Ok(());
        }
        context.commands.push(Command::Settle(Settle {
            key: SubscriptionKey(message.subscription),
            home: ShardId(message.home),
            ranges: message.ranges,
            outcome: if message.reject { Outcome::Reject } else { Outcome::Accept },
            confirm,
        }));
        Ok(())
    }
}

pub(super) fn unknown(request: u32, key: u32, context: &mut Context<'_>) -> Result<(), Close> {
    let reason = format!("there is no subscription {key}");
    refuse(request, Close::new(CloseCode::UnknownSubscription, reason), context)
}
