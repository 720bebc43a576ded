//! Sessions that are looked at again, since rules or credentials have changed.
//!
//! Invariant: a session ends, or has what it may have; its client is told nothing but what patterns show it now.

use std::borrow::Cow;
use std::rc::Rc;

use tiderace_base::{Close, CloseCode, Now, SessionId};

use super::rights::RightsChange;
use crate::access_change::Standing;
use crate::effects::Effects;
use crate::notice_side::NoticeSide;
use crate::review::{Past, Review};

impl NoticeSide<'_> {
    /// A session goes on with what it may have, as who it is now, or ends. How many
    /// subscriptions, and topics that it was told of, were looked at.
    pub(crate) fn hold_to(
        &mut self,
        now: Now,
        session: SessionId,
        review: &Review,
        effects: &mut Effects,
    ) -> usize {
        let [first, ..] = review.past() else { return 0 };
        let Some(record) = self.sessions.session(session) else { return 0 };
        let mut looked = record.subscriptions.count();
        let principal = record.principal.clone();
        let Some(principal) = principal.filter(|principal| !principal.is_server()) else {
            return 0;
        };
        let (after, login) = match review.change().standing_of(&principal) {
            // What it may have is what it could have.
            Standing::Same
                if first.options.rules_version == self.sessions.options.rules_version =>
            {
                return 0;
            }
            Standing::Same => (principal.clone(), None),
            Standing::Changed(after) => {
                (Rc::new(after.clone()), self.sessions.begin_login(session, after))
            }
            Standing::Over(close) => {
                self.end_denied(session, close, effects);
                return 0;
            }
        };
        let mut past = Cow::Borrowed(review.past());
        if login.is_some() {
            // Who was somebody else until now was sent messages as that, by the rules that hold.
            let (options, heard) =
                (self.sessions.options.clone(), self.sessions.fanout.heard().clone());
            past.to_mut().push(Past { options, heard });
        }
        let change = RightsChange { before: &principal, after: &after, past: &past };
        let told = self.notice_rights(now, session, change, &mut looked, effects);
        let is_other = login.is_some();
        if let Some(login) = login {
            let (before, after) = login.into_parts();
            self.sessions.show_again(now, session, &after, effects);
            self.sessions.sessions.forget_principal(before);
            // Every topic here looks its pattern subscribers up again, and asks the rules again.
            self.sessions.fanout.patterns_mut().renew();
        }
        if let Err(close) = told.and_then(|()| self.sessions.review(session, (&after, is_other))) {
            self.end_denied(session, close, effects);
        }
        looked
    }

    /// A connection ends since its session may not be or have what it is and has.
    pub(super) fn end_denied(
        &mut self,
        session: SessionId,
        mut close: Close,
        effects: &mut Effects,
    ) {
        let Some(record) = self.sessions.session(session) else { return };
        if let Some(root) = record.root() {
            root.leave_close(&mut close);
        }
        let link = record.link;
        self.sessions.metrics.denied += u64::from(close.code == CloseCode::NotAuthorised);
        effects.close.push((link, session, close));
    }
}
