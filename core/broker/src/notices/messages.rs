//! What a shard does with messages that tell its sessions of topics, or let a subscription begin.
//!
//! Relies on the methods of [`NoticeSide`], which stand in the files of what they do. Invariant: a message is taken by
//! one method.

use tiderace_base::Now;

use crate::effects::Effects;
use crate::messages::ToSubscriber;
use crate::notice_side::NoticeSide;
use crate::places::Place;

impl NoticeSide<'_> {
    /// A message for sessions that are told of topics; all others are for the side below.
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToSubscriber,
        effects: &mut Effects,
    ) {
        match message {
            ToSubscriber::UnknownTopic { session, path } => {
                self.tell_unknown(now, session, &path, effects);
            }
            ToSubscriber::NoTopics { request } => self.count_nothing(now, request, effects),
            ToSubscriber::TopicsPage { request, topics, after, next } => {
                self.noted(now, from, request, topics, (after, next), effects);
            }
            ToSubscriber::Notice { path, spec } => self.notice(&path, spec, effects),
            ToSubscriber::OwnerAnswer { request, owned } => {
                self.owner_answered(now, request, owned, effects);
            }
            message => self.sessions.on_subscriber_message(now, from, message, effects),
        }
    }
}
