//! The end of a session, and of a subscription.
//!
//! Relies on each room to end what it has of them. Invariant: what is left to do when a method returns is done in the
//! same call.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Ending;
use tiderace_wire::{Command, SubscriptionKey, Token};

use super::Broker;
use crate::delivery::backlog::For;
use crate::effects::Effects;
use crate::ending::Closing;
use crate::together::{CommandsTogether, EndingTogether, note_ended};

impl Broker {
    /// A session ends: its subscriptions end and its unsettled messages go back to their queues.
    pub fn close(&mut self, now: Now, session: SessionId, effects: &mut Effects) {
        let to_upstream = self.deputies.has_link(session);
        if to_upstream {
            self.deputy_side().link_lost(now, session, effects);
            self.hand_on(now, effects);
        }
        let mut side = self.exchange_side();
        let exchanges = side.take_open(session);
        let Some(closing) = side.sessions.begin_close(session) else { return };
        let Closing { will, ending, keys, mut together } = closing;
        for key in keys {
            let how = (ending, None);
            self.unsubscribe(now, session, key, how, &mut together, effects);
            self.take_loopback(now, effects);
        }
        let mut side = self.exchange_side();
        side.sessions.finish_ending(together);
        if let Some(exchanges) = exchanges {
            side.end_exchanges(now, &exchanges, to_upstream, effects);
        }
        // While it still has what it has claimed.
        if let Some(will) = will {
            self.publish(now, session, *will, (None, None), effects);
        }
        self.session_side().give_back(session, effects);
        self.session_side().end_jobs(session, effects);
        self.home_side().end_temporary(session, effects);
        self.hand_on(now, effects);
        self.notice_side().end_listing(session);
        self.session_side().end_session(now, session, effects);
        self.end_call(now, effects);
    }

    /// Ends a subscription, with what it has been told and the exchanges that it serves.
    pub(super) fn end_subscription(
        &mut self,
        now: Now,
        session: SessionId,
        (key, how): (SubscriptionKey, (Ending, Option<Token>)),
        (rest, together): (&[Command], &mut CommandsTogether),
        effects: &mut Effects,
    ) {
        let end = For::Subscription(key);
        let ending = &mut together.ending;
        self.exchange_side().begin_ending(session, end, rest, ending);
        self.unsubscribe(now, session, key, how, ending, effects);
        note_ended(ending, end);
    }

    /// Ends a subscription, with the exchanges that it serves.
    pub(super) fn unsubscribe(
        &mut self,
        now: Now,
        session: SessionId,
        key: SubscriptionKey,
        (ending, confirm): (Ending, Option<Token>),
        together: &mut Option<Box<EndingTogether>>,
        effects: &mut Effects,
    ) {
        let unheard = self.notice_side().end_notices(session, key, effects);
        let how = (ending, confirm, unheard);
        let mut side = self.exchange_side();
        let sessions = &mut side.sessions;
        let ended = sessions.end_subscription(now, session, key, how, together, effects);
        let Some(ended) = ended else { return };
        if ended.serves {
            side.end_served(session, key, together, effects);
        }
        side.sessions.go_on_without(ended, effects);
    }
}
