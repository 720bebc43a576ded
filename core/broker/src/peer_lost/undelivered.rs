//! Messages that come back to their sender, because their receiver's place is lost.
//!
//! Relies on the methods that take the place's answers. Invariant: what would have had an answer has one.

use tiderace_base::Now;
use tiderace_wire::{Confirm, Reply};

use super::lost;
use super::sessions::LostSubscription;
use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{Ask, SnapshotPage, ToExchange, ToHome, ToViews};
use crate::places::Place;
use crate::session_side::SessionSide;
use crate::view_side::ViewSide;

impl SessionSide<'_> {
    /// A message of sessions to a home has come back; a subscription that is to be refused for it.
    #[must_use = "it is to end, and its client to hear of that"]
    pub(crate) fn home_lost(
        &mut self,
        now: Now,
        place: Place,
        message: ToHome,
        effects: &mut Effects,
    ) -> Option<LostSubscription> {
        if let ToHome::Together(parts) = message {
            for part in parts {
                // Publications and settlements, none of which ends a subscription.
                let _ = self.home_lost(now, place, part, effects);
            }
            return None;
        }
        if let Some(request) = message.pending() {
            self.sessions.pending_mut().answered(request.session, request.confirm.to);
            if let ToHome::Relay(_) = message {
                self.answer_lost(place, request, &lost(place), effects);
            }
        }
        match message {
            ToHome::Publish { origin: Some(session), confirm, .. }
            | ToHome::PublishAsOwner { origin: session, confirm, .. } => {
                if let Some(Confirm { from, .. }) = confirm {
                    self.refuse_run(session, confirm, Some(from), &lost(place), effects);
                }
            }
            ToHome::Operate { requester, .. } => {
                let close = lost(place);
                self.operated(place, requester.session, requester.token, Err(close), effects);
            }
            ToHome::Settle { session, confirm, .. } => {
                if let Some(Confirm { to, .. }) = confirm {
                    let refused = Reply::Refused { token: Some(to), close: lost(place) };
                    self.reply(session, refused, effects);
                }
            }
            // Its messages went with their queues.
            ToHome::Leave { session, confirm: Some(confirm), .. } => {
                self.reply(session, Reply::Confirmed(confirm), effects);
            }
            ToHome::Interest { interest, .. } | ToHome::PatternInterest { interest, .. } => {
                if let Some(Ask { request, .. }) = interest.ask {
                    return self.request_lost(now, place, request, effects);
                }
            }
            ToHome::Consume { request, .. } => {
                return self.request_lost(now, place, request, effects);
            }
            ToHome::ConsumeElsewhere(consumption) => {
                return self.request_lost(now, place, consumption.request, effects);
            }
            ToHome::RequestPage { request, bytes } => {
                let page = SnapshotPage { room: bytes, ..SnapshotPage::default() };
                self.take_page(now, place, request, page, effects);
            }
            ToHome::IsOwner { request, .. } => {
                self.refuse_asked(request.session, request.key, &lost(place), effects);
            }
            // Nobody waits for an answer, or notices and exchanges take it.
            ToHome::Publish { .. }
            | ToHome::CancelSnapshot { .. }
            | ToHome::ShowValues { .. }
            | ToHome::Credit { .. }
            | ToHome::Leave { .. }
            | ToHome::Pressure { .. }
            | ToHome::Transfer { .. }
            | ToHome::Transferred { .. }
            | ToHome::EndNotices { .. }
            | ToHome::EndJobs { .. }
            | ToHome::AsOwner { .. }
            | ToHome::Notify { .. }
            | ToHome::Call(_)
            | ToHome::CancelCall { .. }
            | ToHome::DeadLetter { .. }
            | ToHome::AccountBytes { .. }
            | ToHome::Moved { .. }
            | ToHome::Together(_)
            | ToHome::Relay(_)
            | ToHome::FeedInterest { .. }
            | ToHome::Feed { .. }
            | ToHome::Fed { .. }
            | ToHome::Released { .. } => {}
        }
        None
    }
}

impl HomeSide<'_> {
    /// A message of this home to an end of a call has come back: somebody else may answer it.
    pub(crate) fn responder_lost(&mut self, message: ToExchange, effects: &mut Effects) {
        if let ToExchange::Assigned(_, call) = message {
            self.call_at_home(call, effects);
        }
    }
}

impl ViewSide<'_> {
    /// A message to the views of a place has come back: a topic there has no value.
    pub(crate) fn views_lost(&mut self, message: ToViews) {
        if let ToViews::Watch { path, on: true } = message {
            self.watched(path, None, 0);
        }
    }
}
