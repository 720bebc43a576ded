//! Numbers that the store knows of before they are given, so that no later run of the server gives
//! them again.
//!
//! Relies on the named values of the store. Invariant: a number above what the store knows of is in
//! no answer.

use tiderace_journal::{Journal, RecordSubject, StoreRecord};

/// Numbers of one kind that one shard may give.
#[derive(Debug)]
pub(super) struct Reservation {
    /// The named value that says it.
    name: String,
    subject: RecordSubject,
    /// How many are reserved at once.
    ahead: u64,
    /// Up to here the store is told that they may have been given.
    up_to: u64,
    /// The record that told it.
    record: u64,
}

impl Reservation {
    /// None above `up_to` are reserved yet; each time `ahead` of them will be.
    pub(super) fn new(name: String, subject: RecordSubject, ahead: u64, up_to: u64) -> Reservation {
        Reservation { name, subject, ahead, up_to, record: 0 }
    }

    /// Reserves some when less than half of those reserved at once are left above a number; the
    /// record that an answer with that number has to wait for.
    pub(super) fn cover<A>(&mut self, number: u64, journal: &mut Journal<A>) -> u64 {
        if number.saturating_add(self.ahead / 2) > self.up_to {
            self.up_to = number.saturating_add(self.ahead);
            self.append(journal);
        }
        self.record
    }

    /// Tells the store again what it has refused, for at least what was given up to a number.
    pub(super) fn append_again<A>(&mut self, given: u64, journal: &mut Journal<A>) {
        self.up_to = self.up_to.max(given.saturating_add(self.ahead));
        self.append(journal);
    }

    /// The store has refused it: the next number is reserved anew.
    pub(super) fn forget(&mut self) {
        self.up_to = 0;
    }

    fn append<A>(&mut self, journal: &mut Journal<A>) {
        self.record = journal.append(record(self.name.clone(), self.up_to), self.subject);
    }
}

/// A named value that says up to where numbers may have been given.
pub(super) fn record(name: String, up_to: u64) -> StoreRecord {
    StoreRecord::Set { name, value: up_to.to_le_bytes().to_vec() }
}
