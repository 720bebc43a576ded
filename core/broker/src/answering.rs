//! Answers to the commands of sessions, of this shard or of another.
//!
//! Relies on nothing but the session's identity. Invariant: who has gone is told nothing.

use tiderace_base::{Close, SessionId};
use tiderace_wire::{Confirm, Reply, Token};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::{LocalMessage, ToPublisher};
use crate::places::Place;
use crate::session_side::SessionSide;

impl SessionSide<'_> {
    /// Answers a session of this shard.
    pub(crate) fn reply(&self, session: SessionId, mut reply: Reply, effects: &mut Effects) {
        if let Some(record) = self.session(session) {
            if record.root().is_some_and(|root| !root.leave(&mut reply)) {
                return;
            }
            effects.replies.push((record.link, session, reply));
        }
    }

    pub(crate) fn confirm(&self, session: SessionId, token: Option<Token>, effects: &mut Effects) {
        if let Some(token) = token {
            self.reply(session, Reply::Confirmed(Confirm::one(token)), effects);
        }
    }

    /// Every message of a run that was to be confirmed is refused; see [`each_refused`].
    pub(crate) fn refuse_run(
        &self,
        session: SessionId,
        confirm: Option<Confirm>,
        blame: Option<Token>,
        close: &Close,
        effects: &mut Effects,
    ) {
        for token in each_refused(confirm, blame) {
            self.reply(session, Reply::Refused { token, close: close.clone() }, effects);
        }
    }
}

impl HomeSide<'_> {
    /// Refuses a command of a session of any shard.
    pub(crate) fn refuse(
        &mut self,
        session: SessionId,
        token: Option<Token>,
        close: Close,
        effects: &mut Effects,
    ) {
        if session.shard == self.shard {
            self.loopback
                .hand_on(LocalMessage::Refused { session, refusal: Box::new((token, close)) });
        } else {
            self.send(Place::of(session), ToPublisher::Refused { session, token, close }, effects);
        }
    }

    /// Confirms to a session of any shard.
    pub(crate) fn confirm(&mut self, session: SessionId, confirm: Confirm, effects: &mut Effects) {
        if session.shard == self.shard {
            self.loopback.hand_on(LocalMessage::Confirmed { session, confirm });
        } else {
            self.send(Place::of(session), ToPublisher::Confirmed { session, confirm }, effects);
        }
    }

    /// Every message of a run that was to be confirmed is refused; see [`each_refused`].
    pub(crate) fn refuse_run(
        &mut self,
        origin: Option<SessionId>,
        confirm: Option<Confirm>,
        blame: Option<Token>,
        close: &Close,
        effects: &mut Effects,
    ) {
        let Some(session) = origin else { return };
        for token in each_refused(confirm, blame) {
            self.refuse(session, token, close.clone(), effects);
        }
    }
}

/// The receipts of messages that are refused, the one to blame first: where a refusal does not end the session, its
/// client waits for each answer.
fn each_refused(
    confirm: Option<Confirm>,
    blame: Option<Token>,
) -> impl Iterator<Item = Option<Token>> {
    let others = confirm.into_iter().flat_map(|confirm| confirm.from..=confirm.to);
    std::iter::once(blame).chain(others.map(Some).filter(move |token| *token != blame))
}
