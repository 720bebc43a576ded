//! What a shard does with messages that tell its sessions of topics, or let a subscription begin.
//!
//! Relies on the methods of [`NoticeSide`], which stand in the files of what they do. Invariant: a message is taken by
//! one method.

use tiderace_base::Now;

use crate::effects::Effects;
use crate::messages::ToNotices;
use crate::notice_side::NoticeSide;
use crate::places::Place;

impl NoticeSide<'_> {
    /// A message for sessions that are told of topics, or wait for an owner.
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToNotices,
        effects: &mut Effects,
    ) {
        match message {
            ToNotices::UnknownTopic { session, path } => {
                self.tell_unknown(now, session, &path, effects);
            }
            ToNotices::NoTopics { request } => self.count_nothing(now, request, effects),
            ToNotices::TopicsPage { request, topics, after, next } => {
                self.noted(now, from, request, topics, (after, next), effects);
            }
            ToNotices::Notice { path, news } => self.notice(&path, news, effects),
            ToNotices::ShownValues { request, page, at } => {
                self.show(now, from, request, (page, at), effects);
            }
            ToNotices::OwnerAnswer { request, owned } => {
                self.owner_answered(now, request, owned, effects);
            }
        }
    }
}
