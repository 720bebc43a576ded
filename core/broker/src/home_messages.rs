//! What a home does with each message that it is sent.
//!
//! Relies on the methods of [`HomeSide`], which stand in the files of what they do. Invariant: a message is taken by
//! one method, and what that has for others is sent or handed on, never returned.

use tiderace_base::Now;

use crate::effects::Effects;
use crate::home::services::Address;
use crate::home_side::HomeSide;
use crate::messages::{SubscribeRequestId, ToHome};
use crate::places::Place;
use crate::publisher::Recipients;
use crate::server_topics::Publication;
use crate::work::Deferred;

impl HomeSide<'_> {
    /// A message has come, from this shard or another. If it is a publication, `recipients` says
    /// who of the sessions here gets it.
    #[inline]
    pub(crate) fn on_message(
        &mut self,
        now: Now,
        from: Place,
        message: ToHome,
        recipients: Recipients,
        effects: &mut Effects,
    ) {
        match message {
            ToHome::Publish { run, origin, author, confirm } => {
                self.publish_at_home(now, from, *run, origin, author, confirm, recipients, effects);
            }
            ToHome::PublishAsOwner { run, origin, author, confirm, blame } => {
                let publication = Publication { run: *run, origin, author, confirm, blame };
                self.publish_as_owner(now, from, publication, recipients.many, effects);
            }
            ToHome::Operate { requester, operation } => {
                self.operate_at_home(now, *requester, *operation, effects);
            }
            ToHome::Interest { path, interest } => {
                self.interest(now, from, path, interest, effects);
            }
            ToHome::PatternInterest { pattern, interest } => {
                self.pattern_interest(now, from, &pattern, interest, effects);
            }
            // Not at once: a session may ask for many.
            ToHome::RequestPage { request, bytes } => self.home.request_page(request, bytes),
            ToHome::ShowValues { request, paths, until } => {
                self.show_values(now, request, (&paths, until), effects);
            }
            ToHome::CancelSnapshot { request } => self.home.end_snapshot(&request),
            ToHome::Consume { consume, request } if self.is_in_turn(request.session) => {
                self.consume(now, from, &consume, request, effects);
            }
            ToHome::Settle { session, key, ranges, settlement, confirm }
                if self.is_in_turn(session) =>
            {
                let what = (&*ranges, settlement);
                self.settle_at_home(now, (session, key), what, confirm, effects);
            }
            ToHome::Credit { session, key, messages } if self.is_in_turn(session) => {
                self.credit_at_home(now, session, key, messages, effects);
            }
            ToHome::Leave { session, key, handed, ending, confirm } if self.is_in_turn(session) => {
                self.leave_at_home(now, session, key, (handed, ending), confirm, effects);
            }
            ToHome::Consume { request: SubscribeRequestId { session, .. }, .. }
            | ToHome::Settle { session, .. }
            | ToHome::Credit { session, .. }
            | ToHome::Leave { session, .. } => {
                let what = Deferred::ForConsumer(Box::new((from, message)));
                self.defer(session, what, effects);
            }
            ToHome::Transfer { transfer, run, mover, owner } => {
                let whose = (owner.as_ref(), &mover);
                self.take_transfer(now, from, transfer, (*run, whose), effects);
            }
            ToHome::Transferred { transfer, result } => {
                self.transferred(now, transfer, result, effects);
            }
            ToHome::EndJobs { session } => self.end_jobs_of(session, effects),
            ToHome::Pressure { path, on } => self.pressure(now, from, &path, on, effects),
            ToHome::Notify { pattern, request, after } => {
                self.notify(from, pattern, request, after);
            }
            ToHome::EndNotices { pattern } => self.home.notice_interest_mut().end(from, &pattern),
            ToHome::IsOwner { request, name, path } => {
                self.answer_owner(from, request, &name, &path, effects);
            }
            ToHome::AsOwner { request, name } => self.expect_owner(request, name),
            ToHome::Call(call) => self.call_at_home(call, effects),
            ToHome::CancelCall { service, caller } => {
                let caller = Address { place: from, key: caller };
                self.cancel_at_home(&service, caller, effects);
            }
            ToHome::Released { responder, caller } => {
                self.release_responder(responder, caller, effects);
            }
            ToHome::DeadLetter { run, owner, source } => {
                self.take_dead_letter(now, from, (*run, owner.as_ref(), source), effects);
            }
            ToHome::Moved { source, result } => {
                self.take_moved(now, source, result.map_err(|close| *close), effects);
            }
            ToHome::FeedInterest { topics, on, number } => {
                self.feed_interest(from, &topics, (on, number), effects);
            }
            ToHome::Feed { run, number } => self.take_feed(now, from, (&run, number), effects),
            ToHome::Fed { number, result } => {
                self.fed(now, from, (number, result.map_err(|close| *close)), effects);
            }
            ToHome::Together(_)
            | ToHome::AccountBytes { .. }
            | ToHome::Relay(_)
            | ToHome::ConsumeElsewhere(_) => debug_assert!(false, "taken by the wiring"),
        }
    }
}
