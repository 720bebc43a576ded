//! What a shard does with each message that its sessions are sent, but for notices and exchanges.
//!
//! Relies on the methods of [`SessionSide`], which stand in the files of what they do. Invariant: a message is taken by
//! one method, and what that has for others is sent, never returned.

use tiderace_base::Now;
use tiderace_wire::Reply;

use crate::effects::Effects;
use crate::messages::{ToPublisher, ToSubscriber};
use crate::places::Place;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// A message for sessions that subscribe.
    #[inline]
    pub(crate) fn on_subscriber_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToSubscriber,
        effects: &mut Effects,
    ) {
        match message {
            ToSubscriber::Fanout { run, spec } => self.fan_out(now, run, spec, effects),
            ToSubscriber::Deliver { session, key, segment } => {
                self.deliver_segment(session, key, segment, effects);
            }
            ToSubscriber::Browsed { session, key, path } => {
                self.deliver_end(now, session, key, path, effects);
            }
            ToSubscriber::SubscribeAck { request, answer } => {
                self.subscribe_acknowledged(now, from, request, answer, effects);
            }
            ToSubscriber::ReachedUpstream { session, marks } => {
                self.reach_upstream(session, &marks.0, effects);
            }
            ToSubscriber::SubscribeRefused { .. }
            | ToSubscriber::SubscriptionsEnded { .. }
            | ToSubscriber::Recall { .. } => {
                debug_assert!(false, "taken by the wiring");
            }
            ToSubscriber::SnapshotPage { request, page } => {
                self.take_page(now, from, request, page, effects);
            }
            ToSubscriber::BegunAnew { path } => self.end_subscribers_of(&path, effects),
            ToSubscriber::Presence { path, on } => {
                self.presence_changed(now, &path, on, effects);
            }
        }
    }

    /// A message for sessions that publish, settle and ask.
    #[inline]
    pub(crate) fn on_publisher_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToPublisher,
        effects: &mut Effects,
    ) {
        match message {
            ToPublisher::Confirmed { session, confirm } => {
                self.sessions.pending_mut().answered(session, confirm.to);
                self.reply(session, Reply::Confirmed(confirm), effects);
            }
            ToPublisher::Refused { session, token, close } => {
                if let Some(token) = token {
                    self.sessions.pending_mut().answered(session, token);
                }
                self.reply(session, Reply::Refused { token, close }, effects);
            }
            ToPublisher::Operated { session, token, result } => {
                self.sessions.pending_mut().answered(session, token);
                self.operated(from, session, token, result.map(|result| *result), effects);
            }
            ToPublisher::Pause { destination, hold } => {
                self.sessions.pause(now, destination, hold, effects);
            }
            ToPublisher::Wait { session, destination } => {
                let waits = self.sessions.wait_for(session, destination, effects);
                self.metrics.publishers_paused += u64::from(waits);
            }
            ToPublisher::Relaying { .. } => debug_assert!(false, "taken by the wiring"),
            ToPublisher::Deferred { session, on } => {
                self.sessions.pending_mut().note_deferring(session, from, on);
                self.pause_for_work(session, on, effects);
            }
        }
    }
}
