//! What a subscription that comes back holds until all homes have said what was missed.
//!
//! `recover.rs` says what homes answer, and when it is let go. Invariant: of each home messages are given in the
//! order of their numbers, each once.

use tiderace_base::ShardId;
use tiderace_wire::Token;

use super::backlog::Pending;
use super::conflate::conflated;
use crate::messages::SubscribeRequestId;
use crate::places::Place;

/// A subscription that waits until all homes have said what was missed.
#[derive(Debug)]
pub(crate) struct Recovery {
    pub(crate) token: Option<Token>,
    /// Whether the client's position is of this life of the node or of an earlier one that is known.
    pub(crate) continues: bool,
    /// Whether nothing is missing so far.
    pub(crate) complete: bool,
    /// Whether what was missed is still held, and not given up for its size.
    pub(crate) fits: bool,
    pub(crate) held: Vec<Held>,
    /// Bytes held, without what is there instead.
    pub(crate) bytes: usize,
    /// Which homes have answered, where the client left off there, and the number of the last
    /// message before the answer.
    pub(crate) answers: Vec<(ShardId, u64, u64)>,
    /// Which homes have values instead of what was missed, and for which target.
    pub(crate) open: Vec<(Place, SubscribeRequestId)>,
}

/// Messages that wait for the last home.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) pending: Pending,
    pub(crate) what: What,
}

/// Why messages are held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// They were missed.
    Missed,
    /// They stand in for what was missed, if that is too much.
    Instead,
    /// They came after the home's answer.
    Live,
}

impl Recovery {
    pub(crate) fn hold(&mut self, pending: Pending, what: What) {
        if what == What::Missed && !self.fits {
            return;
        }
        self.bytes += if what == What::Instead { 0 } else { pending.bytes() };
        self.held.push(Held { pending, what });
    }

    /// Gives up what was missed.
    pub(crate) fn give_up(&mut self) {
        self.fits = false;
        self.held.retain(|held| held.what != What::Missed);
        let live = self.held.iter().filter(|held| held.what == What::Live);
        self.bytes = live.map(|held| held.pending.bytes()).sum();
    }

    /// Holds a message that came after its home's answer. When that gets too much, what was missed
    /// is given up, and then the messages of each topic are conflated; how many of these.
    pub(crate) fn hold_live(&mut self, pending: Pending, merge: bool, bytes_max: usize) -> u64 {
        if self.bytes + pending.bytes() > bytes_max && self.fits {
            self.give_up();
        }
        if self.bytes + pending.bytes() <= bytes_max {
            self.hold(pending, What::Live);
            return 0;
        }
        self.complete = false;
        let destination = pending.run.run().destination().clone();
        let of_topic = |held: &mut Held| {
            held.what == What::Live && *held.pending.run.run().destination() == destination
        };
        let held: Vec<Held> = self.held.extract_if(.., of_topic).collect();
        self.bytes -= held.iter().map(|held| held.pending.bytes()).sum::<usize>();
        let (mut last, mut given_up): (Option<Pending>, u64) = (None, 0);
        let mut removed = None;
        for next in held.into_iter().map(|held| held.pending).chain([pending]) {
            let both = conflated(last.as_ref(), next, merge);
            given_up += both.given_up;
            removed = removed.or(both.removal);
            last = Some(both.last);
        }
        for pending in removed.into_iter().chain(last) {
            self.hold(pending, What::Live);
        }
        given_up
    }

    /// What is held of topics that are for nobody any more is not to be delivered.
    pub(crate) fn take_back(&mut self, gone: impl Fn(&Pending) -> bool) {
        let (mut bytes, held) = (0, &mut self.held);
        held.retain(|held| {
            let is_gone = gone(&held.pending);
            let counts = is_gone && held.what != What::Instead;
            bytes += if counts { held.pending.bytes() } else { 0 };
            !is_gone
        });
        self.bytes -= bytes;
    }

    /// What is to be delivered, in the order of each home's numbers.
    pub(crate) fn release(self, fits: bool) -> Vec<Pending> {
        let unwanted = if fits { What::Instead } else { What::Missed };
        let wanted = self.held.into_iter().filter(|held| held.what != unwanted);
        let mut released: Vec<Pending> = wanted.map(|held| held.pending).collect();
        // Targets with the same home have each had an answer of their own.
        let numbers = |pending: &Pending| {
            let (home, first) = (pending.run.run().home(), pending.run.run().first());
            (home, first + u64::from(pending.from), first + u64::from(pending.to))
        };
        released.sort_by_key(numbers);
        // A value that may be shown from now on may have been in an answer as well. What an upstream was asked for has numbers
        // of its answer, which are those of others in the answer to another target.
        released.dedup_by(|next, before| {
            let ((home, _, end), (home_before, _, end_before)) = (numbers(next), numbers(before));
            let path = &next.run.run().destination().path;
            let is_same_topic = *path == before.run.run().destination().path;
            home == home_before && end <= end_before && is_same_topic
        });
        released
    }
}
