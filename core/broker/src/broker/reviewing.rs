//! Rules, limits and credentials that change while sessions are there.
//!
//! The new ones hold at once for all that is asked from then on. What sessions have from before is looked at afterwards, some
//! sessions at a time, so that no turn is longer by it. Invariant: when the review is over, nobody has what the rules
//! do not give.

use std::sync::Arc;

use tiderace_base::{Close, Now, SessionId};

use super::Broker;
use crate::access_change::AccessChange;
use crate::effects::Effects;
use crate::limits::least_mark;
use crate::places::key_of;
use crate::review::Past;
use crate::{BrokerOptions, Principal};

/// Places for sessions that are looked at in a turn.
const PLACES_PER_TURN: u32 = 512;
/// Subscriptions, and topics that these were told of, that are looked at in a turn, and those of one session.
const LOOKS_PER_TURN: usize = 2_048;

impl Broker {
    /// What holds now.
    pub fn options(&self) -> &BrokerOptions {
        &self.options
    }

    /// Who logs in, if what it has shown is accepted still.
    ///
    /// # Errors
    /// When it is not: it may have been verified before that changed.
    pub fn admit_login(&self, principal: Principal) -> Result<Principal, Close> {
        self.sessions.admit_login(principal)
    }

    /// Who a session is.
    pub fn principal_of(&self, session: SessionId) -> Option<&Principal> {
        let record = self.sessions.get(key_of(session))?;
        record.principal.as_deref()
    }

    /// Holds to other rules, limits and credentials from now on. Sessions are looked at by [`Broker::review`].
    pub fn change_access(&mut self, change: Arc<AccessChange>) {
        let mut options = BrokerOptions::clone(&self.options);
        options.verify_logins = change.verify_logins;
        options.limits = change.limits.clone();
        if let Some(rules) = &change.rules {
            options.rules = rules.clone();
            options.rules_version = options.rules_version.wrapping_add(1);
            self.fanout.patterns_mut().renew();
            self.home.note_rules(options.rules_version);
            let before = self.options.clone();
            self.sessions.past_rules_mut().note(options.rules_version, before);
        }
        let options = Arc::new(options);
        self.delivery.set_mark(least_mark(&options.limits, options.backlog_bytes_high));
        self.directory.set_options(options.clone());
        let before = std::mem::replace(&mut self.options, options);
        let heard = self.fanout.heard().clone();
        self.sessions.begin_review(change, Past { options: before, heard });
    }

    /// Whether sessions have yet to be looked at, since something has changed.
    #[inline]
    pub fn is_reviewing(&self) -> bool {
        self.sessions.review().is_some()
    }

    /// Looks at some sessions: those that may not have what they have end, or get what they may have now. To be called once
    /// a turn while [`Broker::is_reviewing`]; says which were looked at.
    pub fn review(&mut self, now: Now, effects: &mut Effects) -> Vec<SessionId> {
        let mut reviewed = Vec::new();
        let Some(mut review) = self.sessions.take_review() else { return reviewed };
        let (mut places, mut looked) = (0, 0);
        let slots = self.sessions.slots();
        while places < PLACES_PER_TURN && looked < LOOKS_PER_TURN {
            let Some(slot) = review.next(slots) else { break };
            places += 1;
            let Some(key) = self.sessions.key_of(slot) else { continue };
            let mut side = self.notice_side();
            let session = side.sessions.id_of(key);
            looked += side.hold_to(now, session, &review, effects);
            self.take_loopback(now, effects);
            reviewed.push(session);
        }
        if !review.is_over(slots) {
            self.sessions.set_review(review);
        }
        self.end_call(now, effects);
        reviewed
    }
}
