//! Messages between rooms: which side of the shard each is for.
//!
//! Relies on the sides for what is done. Invariant: a side is given only messages of the types that it takes.

use tiderace_base::Now;

use super::Broker;
use crate::effects::Effects;
use crate::messages::{Body, ToHome, ToPublisher, ToSubscriber};
use crate::places::Place;
use crate::publisher::Recipients;

impl Broker {
    /// Gives a message to the side that it is for. What the side has for others of the shard is to be handed on then.
    #[inline]
    pub(super) fn take_message(
        &mut self,
        now: Now,
        from: Place,
        body: Body,
        effects: &mut Effects,
    ) {
        match body {
            Body::Home(ToHome::Together(parts)) => {
                let parts = self.with_recipients(parts);
                let mut side = self.home_side();
                if let Some(parts) = side.admit_together(now, from, parts, effects) {
                    side.do_together(now, from, parts, effects);
                }
            }
            Body::Home(ToHome::AccountBytes { owner, bytes }) => {
                self.home.queues_mut().note_elsewhere(from, &owner, bytes);
            }
            Body::Home(message) => {
                let message = match self.deputies.is_empty() {
                    true => Some(message),
                    false => self.deputy_side().take(now, from, message, effects),
                };
                let Some(message) = message else { return };
                let recipients = self.recipients_of(&message);
                self.home_side().on_message(now, from, message, recipients, effects);
            }
            Body::Subscriber(ToSubscriber::SubscribeRefused { request, close }) => {
                let refused = self.session_side().subscribe_refused(request);
                self.refuse_subscription(now, Some(from), refused, *close, effects);
            }
            Body::Subscriber(ToSubscriber::SubscriptionsEnded { target, close }) => {
                self.end_subscriptions_to(now, from, (*target, *close), effects);
            }
            Body::Subscriber(ToSubscriber::Recall { session, key }) => {
                self.recall_side().recall(now, (session, key), from, effects);
            }
            Body::Subscriber(message) => {
                self.session_side().on_subscriber_message(now, from, message, effects);
            }
            Body::Notices(message) => {
                self.notice_side().on_message(now, from, message, effects);
            }
            Body::Publisher(ToPublisher::Relaying { session, on }) => {
                self.sessions.pending_mut().note_relaying(session, from, on);
                self.session_side().pause_for_work(session, on, effects);
            }
            Body::Publisher(message) => {
                self.session_side().on_publisher_message(now, from, message, effects);
            }
            Body::Exchange(message) => {
                self.exchange_side().on_message(now, from, message, effects);
            }
            Body::Undelivered(envelope) => self.take_undelivered(now, *envelope, effects),
            Body::Views(message) => {
                self.view_side().on_message(now, from, message, effects);
                self.end_view_slice(now, effects);
            }
        }
    }

    /// The parts of a transaction, with who of the sessions here gets what they publish.
    pub(super) fn with_recipients(&mut self, parts: Vec<ToHome>) -> Vec<(ToHome, Recipients)> {
        let parts = parts.into_iter().map(|part| {
            let recipients = self.recipients_of(&part);
            (part, recipients)
        });
        parts.collect()
    }

    /// Who of the sessions here gets what is published, which the home does not know.
    #[inline]
    fn recipients_of(&mut self, message: &ToHome) -> Recipients {
        match message {
            ToHome::Publish { run, .. } | ToHome::PublishAsOwner { run, .. } => {
                self.recipients(run)
            }
            _ => Recipients::NONE,
        }
    }
}
