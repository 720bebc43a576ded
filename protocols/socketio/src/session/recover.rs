//! Coming back: what a session leaves behind when it breaks off, and how another goes on with it.
//!
//! Relies on the table of records for what was, and on the broker's histories for what was missed.
//! Invariant: a namespace is told to be recovered only if nothing is missing; else it begins anew.

use tiderace_base::ShardId;
use tiderace_wire::{Context, Numbering, Position, Token};

use super::answer::{Waiting, What};
use super::namespace::Standing;
use super::subscriptions::Listening;
use super::{SocketSession, Version};
use crate::records::Record;

/// What a namespace asked to go on with.
#[derive(Debug)]
pub(super) struct Resume {
    pid: u128,
    /// The last message received; none if there was no message yet.
    offset: Option<Position>,
    /// Subscriptions that are being made.
    left: usize,
    complete: bool,
}

impl Resume {
    pub(super) fn new(pid: u128, offset: Option<Position>) -> Resume {
        Resume { pid, offset, left: 0, complete: true }
    }
}

/// How far a client has come, and where it began.
#[derive(Debug)]
pub(super) struct Trail {
    /// What recoverable subscriptions have been sent.
    pub(super) position: Position,
    /// For each home the number at which the client came: what holds for a client that has not
    /// received anything from it.
    beginning: Position,
}

impl Trail {
    pub(super) fn new(epoch: u64) -> Box<Trail> {
        Box::new(Trail { position: Position::new(epoch), beginning: Position::new(epoch) })
    }

    /// Messages of a numbering up to that number were before the client's time.
    pub(super) fn begin(&mut self, numbering: Numbering, number: u64) {
        if self.beginning.number(numbering).is_none_or(|known| known == 0) {
            self.beginning.advance_to(numbering, number);
        }
    }
}

impl SocketSession {
    pub(super) fn trail(&mut self) -> &mut Trail {
        let epoch = self.epoch;
        self.trail.get_or_insert_with(|| Trail::new(epoch))
    }

    /// Nothing of a home up to that number is missing.
    pub(super) fn reached(&mut self, home: ShardId, sequence: u64) {
        if !self.remembers() {
            return;
        }
        let numbering = Numbering::new(self.epoch, home);
        let trail = self.trail();
        trail.begin(numbering, sequence);
        trail.position.advance_to(numbering, sequence);
    }

    /// Whether this session may be gone on with.
    pub(super) fn remembers(&self) -> bool {
        self.version == Version::V5 && self.options.recovery.is_some()
    }

    /// Goes on with what the namespace was, if that is known; says whether it does.
    pub(super) fn resume(&mut self, number: u8, context: &mut Context<'_>) -> bool {
        let Some(cold) = &mut self.cold else { return false };
        let Some(resume) = cold.resumes.get_mut(&number) else { return false };
        let (pid, offset) = (resume.pid, resume.offset.take());
        let principal = self.principal.as_deref().unwrap_or_default();
        let table = self.options.recovery.as_ref();
        let record = table.and_then(|table| table.take(pid, principal));
        let here = self.namespaces.get_mut(number);
        let (Some(record), Some(namespace)) = (record, here) else {
            cold.resumes.remove(&number);
            return false;
        };
        if *record.namespace != *namespace.name() {
            cold.resumes.remove(&number);
            return false;
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
            resume.left = record.subscriptions.len();
        }
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
            };
            self.cold().waiting.insert(token, waiting);
            if self.ask_to_listen(key, token, since, context).is_err() {
                self.cold().waiting.remove(&token);
                self.subscriptions.remove(key);
                self.restored(number, false, context);
            }
        }
        true
    }

    /// What a subscription missed is on its way, all of it or not.
    pub(super) fn recovered(&mut self, token: Token, complete: bool) {
        let Some(cold) = &mut self.cold else { return };
        if let Some(waiting) = cold.waiting.get(&token)
            && let Some(resume) = cold.resumes.get_mut(&waiting.namespace)
        {
            resume.complete &= complete;
        }
    }

    /// One subscription of a namespace is made again, or could not be.
    pub(super) fn restored(&mut self, number: u8, made: bool, context: &mut Context<'_>) {
        let Some(cold) = &mut self.cold else { return };
        let Some(resume) = cold.resumes.get_mut(&number) else { return };
        resume.complete &= made;
        resume.left = resume.left.saturating_sub(1);
        if resume.left > 0 {
            return;
        }
        let complete = resume.complete && !cold.held.overflowed();
        cold.resumes.remove(&number);
        if complete {
            return self.connected(number, context);
        }
        self.drop_subscriptions(number, context);
        let (sid, pid) = self.new_ids();
        if let Some(namespace) = self.namespaces.get_mut(number) {
            namespace.sid = sid;
            namespace.set_pid(pid);
        }
        self.admit(number, context);
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
