//! SUBSCRIBE and UNSUBSCRIBE, and what comes of them.

use tiderace_base::{Close, CloseCode, Now};
use tiderace_wire::{
    Context, FromUpstream, Kind, LeaveReason, OperationResult, Position, SubscriptionKey, Target,
    ToUpstream, TopicSpec, parse_path, shown,
};

use super::fault::{broken, told};
use super::subscriptions::{Request, Wish};
use super::{State, UpstreamSession, say};
use crate::codec::{ClientMessage, SubscribeMessage, subscribe};

impl UpstreamSession {
    /// The broker wants something.
    pub(super) fn ask(&mut self, now: Now, asked: ToUpstream, context: &mut Context<'_>) {
        match asked {
            ToUpstream::Subscribe { key: SubscriptionKey(key), target, since } => {
                if let Some(wish) = self.subscriptions.keep(key, Wish { target, since }) {
                    self.subscribe(key, wish, context);
                }
            }
            ToUpstream::Serve { key, target } => self.serve(key, target, context),
            ToUpstream::ServeNoMore { key } => self.serve_no_more(key, context),
            ToUpstream::Unsubscribe { key } | ToUpstream::Leave { key, lost: false } => {
                self.unsubscribe(key.0, context);
            }
            ToUpstream::Leave { key, lost: true } => self.lose(key.0, context),
            ToUpstream::Consume { key, principal, subscribe } => {
                self.consume(key.0, &principal, &subscribe, context);
            }
            ToUpstream::Settle { request, key, parts, outcome } => {
                self.settle((request, key.0), parts, outcome, context);
            }
            ToUpstream::Credit { key, messages } => self.grant(key.0, messages, context),
            ToUpstream::Publish { request, principal, run } => {
                self.relay_messages(now, (request, principal), &run, context);
            }
            ToUpstream::Operate { request, principal, operation } => {
                self.relay_operation((request, principal), &operation, context);
            }
        }
    }

    fn subscribe(&mut self, key: u32, wish: Wish, context: &mut Context<'_>) {
        let (kind, is_pattern) = match &wish.target {
            Target::Exact(destination) => (destination.kind, false),
            Target::Pattern(kind, _) => (*kind, true),
        };
        let checked = self.check(key, kind).and_then(|()| match kind {
            Kind::Topic => Ok(()),
            Kind::Queue | Kind::Service => {
                let reason = "topics alone come from an upstream to all";
                Err(Close::new(CloseCode::BadDestination, reason))
            }
        });
        if let Err(close) = checked {
            let key = SubscriptionKey(key);
            return self.tell(FromUpstream::Refused { key, close }, context);
        }
        if let Target::Exact(destination) = &wish.target {
            self.topics.begin(key, destination.path.clone());
        }
        let has_deltas = self.has_codec && self.topics.have_room();
        let request = self.subscriptions.begin(key, is_pattern, has_deltas);
        let bit = |flag, is| if is { flag } else { 0 };
        let position = wish.since.as_ref().map(written);
        let message = SubscribeMessage {
            request,
            subscription: key,
            flags: FLAGS | bit(subscribe::PATTERN, is_pattern) | bit(subscribe::DELTAS, has_deltas),
            kind,
            path: wish.target.name(),
            selector: None,
            prefetch: None,
            position: position.as_deref(),
            replay: None,
            interval_ms: None,
            start: None,
            credit: None,
        };
        say(&ClientMessage::Subscribe(message), &mut context.output);
    }

    /// Whether it may be asked for at all.
    pub(super) fn check(&self, key: u32, kind: Kind) -> Result<(), Close> {
        if self.state != State::Up {
            let reason = "the upstream has not let this node in yet";
            return Err(Close::new(CloseCode::UnexpectedFrame, reason));
        }
        if kind == Kind::Service {
            let reason = "no services come from an upstream";
            return Err(Close::new(CloseCode::BadDestination, reason));
        }
        if u64::from(key) >= self.subscriptions_max {
            let most = self.subscriptions_max;
            let reason = format!("the upstream lets a session have {most} subscriptions");
            return Err(Close::new(CloseCode::TooManySubscriptions, reason));
        }
        if self.subscriptions.is_known(key) || self.exchanges.serves(key) {
            let reason = format!("subscription {key} exists already");
            return Err(Close::new(CloseCode::DuplicateSubscription, reason));
        }
        Ok(())
    }

    fn unsubscribe(&mut self, key: u32, context: &mut Context<'_>) {
        if let Some(request) = self.subscriptions.end(key) {
            let message = ClientMessage::Unsubscribe { request, subscription: key };
            say(&message, &mut context.output);
        } else {
            self.tell_if_over(key, context);
        }
    }

    /// A subscription cannot go on, by a limit of this node.
    pub(super) fn give_up(&mut self, key: u32, close: Close, context: &mut Context<'_>) {
        self.unsubscribe(key, context);
        let key = SubscriptionKey(key);
        self.tell(FromUpstream::Refused { key, close }, context);
    }

    /// OK.
    pub(super) fn confirmed(
        &mut self,
        first: u32,
        last: u32,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.subscriptions.first_of(first, last).is_none() {
            return Err(broken("an OK answers nothing that was asked"));
        }
        while let Some(request) = self.subscriptions.first_of(first, last) {
            match self.subscriptions.answered(request) {
                Some(Request::Subscribe(key)) if self.subscriptions.wanted(key).is_some() => {
                    self.tell(FromUpstream::Complete { key: SubscriptionKey(key) }, context);
                }
                Some(Request::Serve(id)) => self.served(id, Ok(true), context),
                Some(Request::ServeNoMore(id)) => self.served(id, Ok(false), context),
                Some(Request::Unsubscribe(key)) => self.end(key, context),
                Some(Request::Relayed(number)) => {
                    self.relay_answered(number, Ok(OperationResult::Done), context);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// ERROR.
    pub(super) fn refused(
        &mut self,
        request: u32,
        (code, slug, sentence): (u16, &str, &str),
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let close = told(code, slug, sentence, CloseCode::PeerLost);
        match self.subscriptions.answered(request) {
            // The end that was asked for meanwhile is answered as well.
            Some(Request::Subscribe(key)) if self.subscriptions.wanted(key).is_none() => {}
            Some(Request::Subscribe(key)) => {
                self.free(key, context);
                let key = SubscriptionKey(key);
                self.tell(FromUpstream::Refused { key, close }, context);
            }
            Some(Request::Over) => {}
            Some(Request::Serve(id)) => self.served(id, Err(close), context),
            // There was nothing to end: its SUBSCRIBE had been refused.
            Some(Request::Unsubscribe(key)) => self.end(key, context),
            Some(Request::ServeNoMore(id)) => self.served(id, Ok(false), context),
            Some(Request::Relayed(number)) => self.relay_answered(number, Err(close), context),
            // What was settled without an answer has crossed the end of its consumer: the messages are in their queue again.
            None if request == 0 && close.code.names_no_subscription() => {}
            None => {
                return Err(broken(format!("an ERROR answers nothing that was asked ({close})")));
            }
        }
        Ok(())
    }

    /// UNSUBSCRIBED.
    pub(super) fn unsubscribed(
        &mut self,
        key: u32,
        (code, slug, sentence): (u16, &str, &str),
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let close = told(code, slug, sentence, CloseCode::PeerLost);
        if self.exchanges.serves(key) {
            self.served(key, Err(close), context);
        } else if self.subscriptions.wanted(key).is_some() {
            self.free(key, context);
            self.tell(FromUpstream::Refused { key: SubscriptionKey(key), close }, context);
        } else if !self.subscriptions.is_known(key) {
            let reason =
                format!("subscription {key} ends, which is nothing that was asked ({close})");
            return Err(broken(reason));
        }
        // Otherwise the UNSUBSCRIBE that has crossed it is answered as well, and the number is free then.
        Ok(())
    }

    pub(super) fn recovered(
        &mut self,
        request: u32,
        complete: bool,
        continues: bool,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        let key = match self.subscriptions.waiting(request) {
            Some(Request::Subscribe(key)) => key,
            Some(Request::Over) => return Ok(()),
            Some(_) | None => {
                return Err(broken("a RECOVERED answers nothing that was asked"));
            }
        };
        if self.subscriptions.wanted(key).is_some() {
            let key = SubscriptionKey(key);
            self.tell(FromUpstream::Recovered { key, complete, continues }, context);
        }
        Ok(())
    }

    pub(super) fn joined(
        &mut self,
        key: u32,
        path: &str,
        (spec, is_empty): (&str, bool),
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.subscriptions.wanted(key).is_none() {
            return Ok(());
        }
        let place = parse_path(path, None).map_err(|close| broken(close.reason))?;
        let is_known = self.spec.as_ref().is_some_and(|(text, _)| **text == *spec);
        if !is_known {
            let read = TopicSpec::parse(spec.as_bytes(), &TopicSpec::default());
            let read = read.map_err(|error| {
                let reason = format!(
                    "this node cannot read what the upstream says of the topic `{}`: {error}; is it older than the upstream?",
                    shown(path)
                );
                Close::new(CloseCode::BadSpecification, reason)
            })?;
            self.spec = Some((spec.into(), read.into()));
        }
        if let Some((_, spec)) = &self.spec {
            let (key, spec) = (SubscriptionKey(key), spec.clone());
            self.tell(FromUpstream::Joined { key, path: place, spec, is_empty }, context);
        }
        Ok(())
    }

    pub(super) fn left(
        &mut self,
        key: u32,
        path: &str,
        reason: &str,
        context: &mut Context<'_>,
    ) -> Result<(), Close> {
        if self.subscriptions.wanted(key).is_none() {
            return Ok(());
        }
        let path = parse_path(path, None).map_err(|close| broken(close.reason))?;
        let all = [LeaveReason::Removed, LeaveReason::NotAuthorised];
        let Some(reason) = all.into_iter().find(|known| known.name() == reason) else {
            let reason = shown(reason);
            return Err(broken(format!("a topic has left for a reason that is none: `{reason}`")));
        };
        self.tell(FromUpstream::Left { key: SubscriptionKey(key), path, reason }, context);
        Ok(())
    }

    /// The upstream has ended a subscription: its number is free, unless something waits for it.
    fn end(&mut self, key: u32, context: &mut Context<'_>) {
        self.free(key, context);
        self.tell_if_over(key, context);
    }

    /// A number is free: what waits for it begins.
    fn free(&mut self, key: u32, context: &mut Context<'_>) {
        self.topics.forget(key);
        if let Some(wish) = self.subscriptions.free(key) {
            self.subscribe(key, wish, context);
        }
    }
}

fn written(position: &Position) -> Vec<u8> {
    let mut bytes = Vec::new();
    position.write(&mut bytes);
    bytes
}

/// What every subscription asks for.
const FLAGS: u64 = subscribe::SNAPSHOT
    | subscribe::RECOVERABLE
    | subscribe::NOTICES
    | subscribe::VALUES
    | subscribe::OK_LAST
    | subscribe::NUMBERED;
