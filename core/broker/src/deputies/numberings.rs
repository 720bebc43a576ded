//! The numbers that an upstream gives, beside those that this home gives to the same messages.
//!
//! Messages get numbers here in the order in which they come, which need not be that of the upstream's numbers. A client
//! that comes back tells the latter. Invariant: a client that has everything of a numbering up to a number has all
//! messages of that numbering up to the number of this home that is found for it.

use std::collections::VecDeque;

use tiderace_wire::{Numbering, Position, UpstreamNumbers};

/// Steps that are remembered of each numbering.
const STEPS_MAX: usize = 4096;
/// Numberings of one upstream, which passes on what some nodes give numbers to, each with a numbering for each of its
/// shards. A position tells of no more.
const NUMBERINGS_MAX: usize = 256;

/// What is known of the numberings of one upstream.
#[derive(Debug, Default)]
pub(super) struct Numberings {
    known: Vec<Known>,
    /// There were more than are kept: what somebody has had is not known any more.
    has_more: bool,
}

/// How far what an upstream brings goes on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Everything goes on that did before the connection was lost.
    pub(super) is_whole: bool,
    /// Nothing that was missed is under way: what is told from now on is as far as the upstream itself has come.
    pub(super) is_newest: bool,
}

/// Who has everything up to `most` of a numbering has all its messages with numbers of this home up to `here`.
#[derive(Clone, Copy, Debug)]
struct Step {
    most: u64,
    here: u64,
}

/// What is known of a numbering.
#[derive(Debug)]
struct Known {
    numbering: Numbering,
    /// Everything up to this number has come that was asked for.
    reached: u64,
    /// The same of what has been asked for since the connection was lost, while the rest is not.
    ahead: u64,
    /// How often something was told of it.
    told: u64,
    /// What was told last, with how often something had been told before.
    marks: VecDeque<(u64, u64)>,
    /// The number of this home before its first message.
    begun: u64,
    /// Whether its first message has come, so that it had none before `begun`.
    from_first: bool,
    /// Rising.
    steps: VecDeque<Step>,
    /// Whether the oldest steps are forgotten.
    is_cut: bool,
}

impl Numberings {
    /// Messages have come, and were given numbers of this home up to one.
    pub(super) fn note(
        &mut self,
        numbers: &UpstreamNumbers,
        len: usize,
        (last_here, progress): (u64, Progress),
    ) {
        let begun = last_here.saturating_sub(len as u64);
        let known = self.known(numbers.numbering, begun, numbers.first <= 1);
        let Some(known) = known else { return };
        known.reach(numbers.reached, progress);
        let last = numbers.first + len as u64 - 1;
        let most = known.steps.back().map_or(0, |step| step.most).max(last);
        match known.steps.back_mut() {
            Some(step) if step.most == most => step.here = last_here,
            _ => known.steps.push_back(Step { most, here: last_here }),
        }
        if known.steps.len() > STEPS_MAX {
            known.steps.pop_front();
            known.is_cut = true;
        }
    }

    /// Everything up to a number has come that was asked for; `last_here` is the number that was given last here.
    pub(super) fn reach(
        &mut self,
        numbering: Numbering,
        number: u64,
        (last_here, progress): (u64, Progress),
    ) {
        if let Some(known) = self.known(numbering, last_here, number == 0) {
            known.reach(number, progress);
        }
    }

    /// Everything goes on that did before the connection was lost.
    pub(super) fn make_whole(&mut self) {
        for known in &mut self.known {
            known.reached = known.reached.max(std::mem::take(&mut known.ahead));
        }
    }

    /// Whether everything had come already up to a number that comes only now.
    pub(super) fn are_beyond(&self, numbers: &UpstreamNumbers) -> bool {
        let known = self.known.iter().find(|known| known.numbering == numbers.numbering);
        known.is_some_and(|known| known.reached.max(known.ahead) >= numbers.first)
    }

    /// The connection is lost: what was ahead of the rest is not known to be complete.
    pub(super) fn unlink(&mut self) {
        self.known.iter_mut().for_each(|known| known.ahead = 0);
    }

    /// How often something was told of each.
    pub(super) fn told(&self) -> Vec<u64> {
        self.known.iter().map(|known| known.told).collect()
    }

    /// What was told next of each, since that had been told: how far everything had come at least; absent if nothing was.
    pub(super) fn told_next(&self, told: &[u64]) -> Vec<(Numbering, Option<u64>)> {
        let next = |(at, known): (usize, &Known)| {
            let before = told.get(at).copied().unwrap_or(0);
            (known.numbering, known.told_after(before))
        };
        self.known.iter().enumerate().map(next).collect()
    }

    /// Absent for one more than are kept.
    fn known(&mut self, numbering: Numbering, begun: u64, from_first: bool) -> Option<&mut Known> {
        let place = self.known.iter().position(|known| known.numbering == numbering);
        if place.is_none() && self.known.len() == NUMBERINGS_MAX {
            self.has_more = true;
            return None;
        }
        let place = place.unwrap_or_else(|| {
            let (reached, ahead, told) = (0, 0, 0);
            let (marks, steps, is_cut) = (VecDeque::new(), VecDeque::new(), false);
            self.known.push(Known {
                numbering,
                reached,
                ahead,
                told,
                marks,
                begun,
                from_first,
                steps,
                is_cut,
            });
            self.known.len() - 1
        });
        self.known.get_mut(place)
    }

    /// How far everything has come.
    pub(super) fn marks(&self) -> Vec<(Numbering, u64)> {
        let reached = self.known.iter().filter(|known| known.reached > 0);
        reached.map(|known| (known.numbering, known.reached)).collect()
    }

    /// The same as a position that is begun in a life of the upstream.
    pub(super) fn position(&self, epoch: u64) -> Position {
        let mut position = Position::new(epoch);
        for (numbering, number) in self.marks() {
            position.advance_to(numbering, number);
        }
        position
    }

    /// Whether a position tells something of them.
    pub(super) fn are_known_by(&self, position: &Position) -> bool {
        self.known.iter().any(|known| position.number(known.numbering).is_some())
    }

    /// Whether a client has come further than this node: then what is still to come may be what it has had. Numberings
    /// of the upstream's life of which nothing has come here count as well.
    pub(super) fn are_behind(
        &self,
        position: &Position,
        only: Option<Numbering>,
        epoch: u64,
    ) -> bool {
        let of_interest = |numbering: Numbering| only.is_none_or(|only| only == numbering);
        position.seen().iter().any(|(numbering, number)| {
            let known = self.known.iter().find(|known| known.numbering == *numbering);
            let come = known.map_or(0, Known::come);
            let is_upstreams = known.is_some() || numbering.is_of(epoch);
            of_interest(*numbering) && is_upstreams && *number > come
        })
    }

    /// What a position tells of them, as one that is begun in a life of the upstream.
    pub(super) fn part_of(&self, position: &Position, epoch: u64) -> Position {
        let mut part = Position::new(epoch);
        for known in &self.known {
            if let Some(number) = position.number(known.numbering) {
                part.advance_to(known.numbering, number);
            }
        }
        part
    }

    /// Up to which number of this home a client has everything; of one numbering, if only that is of interest. `last` is
    /// the number that was given last. Absent if it is not known.
    pub(super) fn had_by(
        &self,
        position: &Position,
        only: Option<Numbering>,
        last: u64,
    ) -> Option<u64> {
        let of_interest =
            |known: &&Known| only.is_none_or(|numbering| numbering == known.numbering);
        if self.has_more {
            return None;
        }
        let mut had = last;
        for known in self.known.iter().filter(of_interest) {
            let number = position.number(known.numbering);
            had = had.min(known.had_up_to(number, last)?);
        }
        Some(had)
    }

    /// The upstream has begun anew: nothing of its numbers means anything any more.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.has_more = false;
    }
}

impl Known {
    fn reach(&mut self, number: u64, progress: Progress) {
        if number == 0 {
            return;
        }
        // A lower number than before, as messages have that come late, tells nothing of how far the upstream is.
        let last = self.marks.back().map_or(0, |(_, mark)| *mark);
        if progress.is_newest && number >= last {
            self.marks.push_back((self.told, number));
            self.told += 1;
        }
        if self.marks.len() > STEPS_MAX {
            self.marks.pop_front();
        }
        match progress.is_whole {
            true => self.reached = self.reached.max(number),
            false => self.ahead = self.ahead.max(number),
        }
    }

    /// The highest number of which anything is known.
    fn come(&self) -> u64 {
        let most = self.steps.back().map_or(0, |step| step.most);
        self.reached.max(self.ahead).max(most)
    }

    /// What was told first after something had been told so often; of what is forgotten, something later.
    fn told_after(&self, told: u64) -> Option<u64> {
        let at = self.marks.partition_point(|(before, _)| *before < told);
        self.marks.get(at).map(|(_, mark)| *mark)
    }

    fn had_up_to(&self, number: Option<u64>, last: u64) -> Option<u64> {
        let Some(number) = number else { return self.from_first.then_some(self.begun) };
        let behind = self.steps.partition_point(|step| step.most <= number);
        if behind == self.steps.len() {
            return Some(last);
        }
        match behind.checked_sub(1).and_then(|before| self.steps.get(before)) {
            Some(step) => Some(step.here),
            None => (!self.is_cut).then_some(self.begun),
        }
    }
}

/// What both positions cover.
pub(super) fn lowest(one: &Position, other: &Position) -> Position {
    let mut lowest = Position::new(one.epoch);
    for (numbering, number) in one.seen() {
        if let Some(also) = other.number(*numbering) {
            lowest.advance_to(*numbering, also.min(*number));
        }
    }
    lowest
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;
    use tiderace_base::ShardId;

    const ALL: Progress = Progress { is_whole: true, is_newest: true };

    proptest! {
        #[test]
        fn nothing_that_a_client_lacks_is_taken_for_had(
            order in proptest::collection::vec((0u16..2, 1u64..4), 1..80),
            swaps in proptest::collection::vec(any::<usize>(), 0..10),
            had in (0u64..200, 0u64..200),
        ) {
            // Messages of two numberings, some of which come out of their order.
            let mut next = [1u64; 2];
            let mut messages: Vec<(u16, u64, u64)> = Vec::new();
            for (home, len) in order {
                messages.push((home, next[home as usize], len));
                next[home as usize] += len;
            }
            for swap in swaps {
                let at = swap % messages.len();
                let last = messages.len() - 1;
                messages.swap(at, (at + 1).min(last));
            }
            let numbering = |home| Numbering::new(7, ShardId(home));
            let mut numberings = Numberings::default();
            let (mut here, mut come) = (0, Vec::new());
            for (home, first, len) in messages {
                here += len;
                let numbers = UpstreamNumbers { numbering: numbering(home), first, reached: 0 };
                numberings.note(&numbers, len as usize, (here, ALL));
                for more in 0..len {
                    come.push((home, first + more, here - len + 1 + more));
                }
            }
            let mut position = Position::new(7);
            position.advance_to(numbering(0), had.0);
            position.advance_to(numbering(1), had.1);
            let found = numberings.had_by(&position, None, here).unwrap();
            for (home, number, at) in come {
                let has = number <= if home == 0 { had.0 } else { had.1 };
                prop_assert!(has || at > found, "{home} {number} at {at}, had up to {found}");
            }
        }
    }

    #[test]
    fn numberings_without_end_take_no_memory_without_end() {
        let mut numberings = Numberings::default();
        for life in 1..=NUMBERINGS_MAX as u64 {
            numberings.reach(Numbering::new(life, ShardId(0)), 1, (life, ALL));
        }
        let everything = numberings.position(1);
        assert_eq!(numberings.had_by(&everything, None, 5000), Some(5000));
        let one_more =
            UpstreamNumbers { numbering: Numbering::new(5000, ShardId(0)), first: 1, reached: 1 };
        numberings.note(&one_more, 1, (5001, ALL));
        assert_eq!(numberings.known.len(), NUMBERINGS_MAX);
        assert_eq!(numberings.had_by(&everything, None, 5001), None);
        numberings.clear();
        numberings.note(&one_more, 1, (5002, ALL));
        assert_eq!(numberings.had_by(&numberings.position(1), None, 5002), Some(5002));
    }

    #[test]
    fn of_what_a_position_does_not_tell_nothing_is_had() {
        let (one, other) = (Numbering::new(1, ShardId(0)), Numbering::new(1, ShardId(1)));
        let mut numberings = Numberings::default();
        let first = UpstreamNumbers { numbering: one, first: 10, reached: 10 };
        numberings.note(&first, 1, (1, ALL));
        let second = UpstreamNumbers { numbering: other, first: 1, reached: 1 };
        numberings.note(&second, 1, (2, ALL));
        let mut position = Position::new(1);
        assert_eq!(numberings.had_by(&position, None, 2), None);
        position.advance_to(one, 10);
        assert_eq!(numberings.had_by(&position, None, 2), Some(1));
        assert_eq!(numberings.had_by(&position, Some(one), 2), Some(2));
    }
}
