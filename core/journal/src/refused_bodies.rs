//! Records that the store has left out because it could not keep the files of their bodies.
//!
//! Nothing else waits for them: what concerns them is appended again now and then, one subject at a time, each in its turn, and all
//! others as soon as one is kept. Relies on nothing. Invariant: a subject whose record was left out is noted until it is appended
//! again.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use tiderace_base::{Span, Time};

use crate::RecordSubject;

/// How often it is tried again. A file may be a copy of a gibibyte, so not as often as a store that is full.
const RETRY: Span = Span::from_secs(10);

/// Records without their bodies.
#[derive(Debug, Default)]
pub(crate) struct RefusedBodies {
    /// Those of batches that the store has yet to answer.
    records: BTreeSet<u64>,
    /// What others concerned.
    subjects: BTreeSet<RecordSubject>,
    /// When one of these is to be appended again.
    retry_at: Option<Time>,
    /// The subject that was appended again last, and the last record by which that was done.
    probe: Option<(RecordSubject, u64)>,
    /// The subject whose turn was last.
    tried: Option<RecordSubject>,
}

impl RefusedBodies {
    /// The store leaves a record out.
    pub(crate) fn insert(&mut self, record: u64) {
        self.records.insert(record);
    }

    /// Takes the records up to a number.
    pub(crate) fn take(&mut self, up_to: u64) -> BTreeSet<u64> {
        if self.records.is_empty() {
            return BTreeSet::new();
        }
        let later = self.records.split_off(&up_to.saturating_add(1));
        std::mem::replace(&mut self.records, later)
    }

    /// A record about that was left out.
    pub(crate) fn note(&mut self, subject: RecordSubject) {
        self.subjects.insert(subject);
    }

    /// The store has answered all records up to a number: what is to be appended again, since the last attempt has
    /// succeeded.
    pub(crate) fn answered(&mut self, up_to: u64, are_committed: bool) -> BTreeSet<RecordSubject> {
        match self.probe.take_if(|(_, record)| *record <= up_to) {
            Some((subject, _)) if are_committed && !self.subjects.contains(&subject) => {
                self.retry_at = None;
                std::mem::take(&mut self.subjects)
            }
            _ => BTreeSet::new(),
        }
    }

    /// The next subject that is to be appended again; it is noted no more.
    pub(crate) fn next(&mut self, now: Time) -> Option<RecordSubject> {
        if self.subjects.is_empty() || self.probe.is_some() {
            return None;
        }
        let is_due = now >= *self.retry_at.get_or_insert(now + RETRY);
        if !is_due {
            return None;
        }
        // The one behind the last: a body that never finds room keeps no other from being tried.
        let behind = self.tried.map(|last| (Excluded(last), Unbounded));
        let next = behind.and_then(|behind| self.subjects.range(behind).next().copied());
        let next = next.or_else(|| self.subjects.first().copied())?;
        self.subjects.remove(&next);
        self.tried = Some(next);
        Some(next)
    }

    /// A subject was appended again, up to a record.
    pub(crate) fn appended(&mut self, now: Time, subject: RecordSubject, record: u64) {
        self.probe = Some((subject, record));
        self.retry_at = Some(now + RETRY);
    }
}
