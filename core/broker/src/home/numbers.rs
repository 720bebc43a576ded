//! The numbers that a home gives to messages.
//!
//! Invariants: numbers rise; none is given twice, in this life of the server or an earlier one.

use tiderace_base::ShardId;
use tiderace_wire::Run;

/// What is given to the next message.
#[derive(Debug)]
pub(crate) struct Numbers {
    home: ShardId,
    next: u64,
    /// Numbers, and so versions, up to this may have been given in earlier lives of the server.
    earlier: u64,
}

impl Numbers {
    pub(crate) fn new(home: ShardId) -> Numbers {
        Numbers { home, next: 1, earlier: 0 }
    }

    /// Numbers below this one are not given to what comes.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.next = self.next.max(number);
    }

    /// Gives a number to no message: which one.
    pub(crate) fn leave_out(&mut self) -> u64 {
        self.next += 1;
        self.last()
    }

    /// Gives the messages of a run their numbers.
    pub(crate) fn assign(&mut self, run: &mut Run) {
        run.number(self.home, self.next);
        self.next += run.len() as u64;
    }

    /// The same of one that has been restored: if it has numbers of an earlier life, it keeps them, for a
    /// client may come back with a position of that.
    pub(crate) fn assign_restored(&mut self, run: &mut Run) {
        let (number, count) = (run.first(), run.len() as u64);
        if number == 0 || number.saturating_add(count) > self.earlier + 1 {
            self.assign(run);
        } else {
            run.number(self.home, number);
        }
    }

    /// The number of the next message.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The number that was given last.
    pub(crate) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Up to where earlier lives of the server may have given numbers and versions.
    pub(crate) fn earlier(&self) -> u64 {
        self.earlier
    }

    /// Earlier lives may have given numbers up to this one.
    pub(crate) fn begin_above(&mut self, given: u64) {
        self.earlier = given;
        self.next = self.next.max(given + 1);
    }
}
