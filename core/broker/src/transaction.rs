//! Transactions: what commands between two marks do together, from their session to the homes.
//!
//! A value that the call which takes the commands makes and hands on. Each home is told its part in one message
//! ([`ToHome::Together`]), and does it in one batch ([`HomeSide::do_together`]). Relies on the session for the marks.
//! Invariant: what a home is told of a transaction waits, as a whole, behind what is deferred there of the session.

use tiderace_base::{Now, SessionId};
use tiderace_queues::Settlement;
use tiderace_wire::{Confirm, Run, Settle, Token};

use crate::effects::Effects;
use crate::home_side::HomeSide;
use crate::messages::ToHome;
use crate::places::Place;
use crate::publish::Admitted;
use crate::publisher::Recipients;
use crate::session_side::SessionSide;
use crate::spans::traced_of;
use crate::work::Deferred;

/// What the commands of a transaction tell homes, by place.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    parts: Vec<(Place, Vec<ToHome>)>,
}

impl Transaction {
    fn add(&mut self, to: Place, message: ToHome) {
        match self.parts.iter_mut().find(|(place, _)| *place == to) {
            Some((_, messages)) => messages.push(message),
            None => self.parts.push((to, vec![message])),
        }
    }
}

impl SessionSide<'_> {
    /// A session publishes in a transaction.
    pub(crate) fn publish_together(
        &mut self,
        now: Now,
        (session, run): (SessionId, Run),
        (confirm, blame): (Option<Confirm>, Option<Token>),
        transaction: &mut Transaction,
        effects: &mut Effects,
    ) {
        let home = self.options.home_of(&run.destination().path);
        let admitted = self.admit_publication(now, session, &run, (confirm, blame), effects);
        let run = Box::new(run);
        let message = match admitted {
            Admitted::Directly(author) | Admitted::ByMessage(_, author) => {
                ToHome::Publish { run, origin: Some(session), author, confirm }
            }
            Admitted::IfOwner(author) => {
                ToHome::PublishAsOwner { run, origin: session, author, confirm, blame }
            }
            Admitted::Relayed(_) => {
                let close = self.options.not_sent_together(run.destination());
                return self.refuse_run(session, confirm, blame, &close, effects);
            }
            Admitted::Refused(code) => return effects.note_published(traced_of(&run), Some(code)),
        };
        self.note_pending(home, &message);
        transaction.add(home, message);
    }

    /// A session settles messages in a transaction.
    pub(crate) fn settle_together(
        &mut self,
        session: SessionId,
        settle: Settle,
        transaction: &mut Transaction,
        effects: &mut Effects,
    ) {
        let record = self.session(session);
        let subscription = record.and_then(|record| record.subscription(settle.key));
        if let Some(close) = self.options.not_settled_together(subscription) {
            let confirm = settle.confirm.map(Confirm::one);
            return self.refuse_run(session, confirm, settle.confirm, &close, effects);
        }
        let (home, message) = to_settle(session, settle);
        self.note_pending(home, &message);
        transaction.add(home, message);
    }

    /// All commands of a transaction have come: each home is told its part.
    pub(crate) fn end_transaction(&mut self, transaction: Transaction, effects: &mut Effects) {
        for (place, parts) in transaction.parts {
            self.loopback.send(place, ToHome::Together(parts), effects);
        }
    }
}

impl HomeSide<'_> {
    /// A home's part of a transaction has come: given back if it is to be done now.
    pub(crate) fn admit_together(
        &mut self,
        now: Now,
        from: Place,
        parts: Vec<(ToHome, Recipients)>,
        effects: &mut Effects,
    ) -> Option<Vec<(ToHome, Recipients)>> {
        if self.work.is_calm() {
            return Some(parts);
        }
        let session = parts.iter().find_map(|(part, _)| session_of(part));
        let Some(session) = session.filter(|session| self.must_wait(now, *session, &parts)) else {
            return Some(parts);
        };
        let parts = parts.into_iter().map(|(part, _)| part).collect();
        self.defer(session, Deferred::Together(Box::new((from, parts))), effects);
        None
    }

    fn must_wait(&mut self, now: Now, session: SessionId, parts: &[(ToHome, Recipients)]) -> bool {
        self.work.has(session)
            || parts.iter().any(|(part, recipients)| match part {
                ToHome::Publish { run, .. } | ToHome::PublishAsOwner { run, .. } => {
                    self.is_publication_deferred(now, session, run, recipients.many)
                }
                _ => false,
            })
    }

    /// Whether what a session says of its consumers is done at once: nothing that comes before it waits here.
    #[inline]
    pub(crate) fn is_in_turn(&self, session: SessionId) -> bool {
        !self.work.holds_consumers(session)
    }

    /// Does what a session has said of a consumer and what had to wait.
    pub(crate) fn do_for_consumer(
        &mut self,
        now: Now,
        (from, message): (Place, ToHome),
        effects: &mut Effects,
    ) {
        match message {
            ToHome::Consume { consume, request } => {
                self.consume(now, from, &consume, request, effects);
            }
            ToHome::Settle { session, key, ranges, settlement, confirm } => {
                let what = (&*ranges, settlement);
                self.settle_at_home(now, (session, key), what, confirm, effects);
            }
            ToHome::Credit { session, key, messages } => {
                self.credit_at_home(now, session, key, messages, effects);
            }
            ToHome::Leave { session, key, handed, ending, confirm } => {
                self.leave_at_home(now, session, key, (handed, ending), confirm, effects);
            }
            _ => debug_assert!(false, "nothing else waits behind a transaction"),
        }
    }
}

/// The home of settled messages, and what it is told.
pub(crate) fn to_settle(session: SessionId, settle: Settle) -> (Place, ToHome) {
    let settlement = match settle.outcome {
        tiderace_wire::Outcome::Accept => Settlement::Accept,
        tiderace_wire::Outcome::Reject => Settlement::Reject,
        tiderace_wire::Outcome::Release => Settlement::Return,
    };
    let Settle { key, home, ranges, confirm, .. } = settle;
    let confirm = confirm.map(Confirm::one);
    (Place::here(home), ToHome::Settle { session, key, ranges, settlement, confirm })
}

/// Whose part of a transaction it is.
fn session_of(part: &ToHome) -> Option<SessionId> {
    match part {
        ToHome::Publish { origin, .. } => *origin,
        ToHome::PublishAsOwner { origin, .. } => Some(*origin),
        ToHome::Settle { session, .. } => Some(*session),
        _ => None,
    }
}
