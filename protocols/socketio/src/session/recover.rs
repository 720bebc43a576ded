//! Coming back: what a session leaves behind when it breaks off, and how another goes on with it.
//!
//! Relies on the table of records for what was, and on the broker's histories for what was missed.
//! Invariant: a namespace is told to be recovered only if nothing is missing; else it begins anew.

use tiderace_wire::{Context, Numbering, Position, Token};

use super::namespace::Standing;
use super::questions::{Waiting, What};
use super::state::SocketSession;
use super::subscriptions::Listening;
use crate::records::Record;

/// What is to be done with a namespace that may have been before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resumed {
    /// It begins anew.
    No,
    /// It goes on; its subscriptions are being made.
    Waits,
    /// None of its subscriptions could be asked for.
    Failed,
}

impl SocketSession {
    /// Nothing of a numbering up to that number is missing.
    pub(super) fn reached(&mut self, numbering: Numbering, sequence: u64) {
        if !self.remembers() {
            return;
        }
        let trail = self.trail();
        trail.begin(numbering, sequence);
        trail.position.advance_to(numbering, sequence);
    }

    /// Goes on with what the namespace was, if that is known.
    pub(super) fn resume(&mut self, number: u8, context: &mut Context<'_>) -> Resumed {
        let Some(cold) = &mut self.cold else { return Resumed::No };
        let Some(resume) = cold.resumes.get_mut(&number) else { return Resumed::No };
        let (pid, offset) = (resume.pid, resume.offset.take());
        let principal = self.principal.as_deref().unwrap_or_default();
        let table = self.options.recovery.as_ref();
        let record = table.and_then(|table| table.take(pid, principal));
        let here = self.namespaces.get_mut(number);
        let (Some(record), Some(namespace)) = (record, here) else {
            cold.resumes.remove(&number);
            return Resumed::No;
        };
        if *record.namespace != *namespace.name() {
            cold.resumes.remove(&number);
            return Resumed::No;
        }
        namespace.sid = record.sid;
        namespace.set_pid(pid);
        namespace.standing = Standing::Joining;
        let since = since(offset, record.beginning);
        if since.epoch == self.epoch {
            let trail = self.trail();
            for (numbering, number) in since.seen() {
                trail.begin(*numbering, *number);
                trail.position.advance_to(*numbering, *number);
            }
        }
        if let Some(resume) = self.cold().resumes.get_mut(&number) {
            resume.expect(record.subscriptions.len());
        }
        let mut resumed = Resumed::Waits;
        for (key, mut subscription) in record.subscriptions {
            subscription.namespace = number;
            let since = subscription.recoverable.then(|| since.clone());
            let key = self.subscriptions.insert_at(key, subscription);
            let token = self.token();
            let waiting = Waiting {
                namespace: number,
                ack: None,
                event: "connect",
                what: What::Restore(key),
                complete: None,
            };
            self.cold().questions.insert(token, waiting);
            let is_durable = self.subscriptions.get(key).is_some_and(|it| it.durable().is_some());
            let asked = match is_durable {
                true => {
                    let makes = self.ask(number, None, "subscribe", What::Plain);
                    makes.and_then(|makes| self.ask_durably(key, (makes, token), context))
                }
                false => self.ask_to_listen(key, token, since, context),
            };
            if asked.is_err() {
                self.cold().questions.forget(token);
                self.subscriptions.remove(key);
                if self.restored(number, false).is_some() {
                    resumed = Resumed::Failed;
                }
            }
        }
        resumed
    }

    /// What a subscription missed is on its way, all of it or not.
    pub(super) fn recovered(&mut self, token: Token, complete: bool) {
        let Some(cold) = &mut self.cold else { return };
        cold.questions.recovered(token, complete);
        if let Some(namespace) = cold.questions.namespace_of(token)
            && let Some(resume) = cold.resumes.get_mut(&namespace)
        {
            resume.recovered(complete);
        }
    }

    /// One subscription of a namespace is made again, or could not be. With the last one says whether the client has
    /// missed nothing.
    pub(super) fn restored(&mut self, number: u8, made: bool) -> Option<bool> {
        let cold = self.cold.as_mut()?;
        let complete = cold.resumes.get_mut(&number)?.restored(made)?;
        cold.resumes.remove(&number);
        Some(complete && !cold.held.overflowed())
    }

    /// The session ends: leaves a record of each namespace that can be gone on with.
    pub(super) fn leave_records(&mut self) {
        if self.over || !self.remembers() {
            return;
        }
        let (Some(table), Some(principal)) = (self.options.recovery.clone(), &self.principal)
        else {
            return;
        };
        let beginning = match self.trail.take() {
            Some(trail) => trail.beginning,
            None => Position::new(self.epoch),
        };
        for number in 0..=u8::MAX {
            let Some(namespace) = self.namespaces.get(number) else { continue };
            let keys = self.subscriptions.of(number);
            let mut worth = false;
            let mut subscriptions = Vec::with_capacity(keys.len());
            for key in keys {
                if let Some(subscription) = self.subscriptions.remove(key) {
                    worth |= subscription.recoverable
                        && matches!(subscription.listening, Listening::Topic | Listening::Room);
                    subscriptions.push((key.0, subscription));
                }
            }
            if namespace.standing == Standing::Asked || !worth {
                continue;
            }
            table.keep(Record {
                pid: namespace.pid(),
                principal: principal.clone(),
                namespace: namespace.name().into(),
                sid: namespace.sid,
                subscriptions,
                beginning: beginning.clone(),
            });
        }
    }
}

/// Where a client goes on: where it says that it is, and where it began with homes from which it has
/// not received anything.
fn since(offset: Option<Position>, beginning: Position) -> Position {
    let Some(mut since) = offset.filter(|offset| offset.epoch == beginning.epoch) else {
        return beginning;
    };
    for (numbering, number) in beginning.seen() {
        if since.number(*numbering).is_none_or(|known| known == 0) {
            since.advance_to(*numbering, *number);
        }
    }
    since
}
