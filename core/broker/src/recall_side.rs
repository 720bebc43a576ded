//! What a session's consumers give back of queues that another node keeps, when the connection to that node is lost.
//!
//! Stands upon the sessions, whose backlogs hold what their clients have not been given. The home that stands in for the
//! other node hears of it as homes do (`deputies/`). Invariant: what is given back is not given to the client.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::SubscriptionKey;

use crate::delivery::backlog::For;
use crate::effects::Effects;
use crate::places::{Place, key_of};
use crate::session_side::SessionSide;
use crate::subscribe::Ended;

/// The shard with its sessions, during one call.
#[derive(Debug)]
pub(crate) struct RecallSide<'a> {
    pub(crate) sessions: SessionSide<'a>,
}

impl RecallSide<'_> {
    /// Messages that a client has not been given are in their queue again, which is another node's.
    pub(crate) fn recall(
        &mut self,
        now: Now,
        (session, key): (SessionId, SubscriptionKey),
        home: Place,
        effects: &mut Effects,
    ) {
        let side = &mut self.sessions;
        let (unsent, _) = side.take_back(session, |pending| {
            let run = pending.run.run();
            pending.source.is_queue()
                && For::of(pending) == For::Subscription(key)
                && Place::here(run.home()) == home
        });
        for pending in &unsent {
            side.settle_taken(session, pending, Settlement::Return, effects);
            side.refund(key_of(session), key, u64::from(pending.len()));
        }
        let record = side.sessions.get_mut(key_of(session));
        let credit = record.and_then(|record| record.credit_mut(key));
        let waiting = credit.and_then(|credit| credit.take_segments());
        for pending in waiting.into_iter().flatten() {
            side.delivery.count(pending.bytes(), 0);
            side.settle_taken(session, &pending, Settlement::Return, effects);
        }
        side.use_refunds(now, session, effects);
        side.go_on_without(Ended::of_messages(session), effects);
    }
}
