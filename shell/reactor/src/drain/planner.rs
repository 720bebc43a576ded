//! When the next goodbye of a drain is due, and where in the slab to look for who hears it.
//!
//! What is left of the span is divided into as many cells as there are connections to go. One goodbye is said in
//! each cell, at a random moment of it; so each connection leaves at random, and all of them leave evenly. A cell
//! is drawn when the one before it is over, from what is left then: connections that end by themselves or come
//! late change its length and nothing else. Who leaves is found by walking through the slab in a random order
//! that visits every place once in a pass.
//!
//! Pure: time and a seed are passed in. Invariants: while there is somebody to go a goodbye becomes due, and
//! none is later than the end of the span; a pass that has found nobody is followed by a short rest.

use tiderace_base::{Span, Time};

/// The goodbyes of one shard.
#[derive(Debug)]
pub(crate) struct Planner {
    until: Time,
    /// Where the next cell begins.
    cell_from: Time,
    /// The cell that was drawn last, until its goodbye is said.
    cell: Option<Cell>,
    walk: Walk,
    random: Random,
    /// Nobody is looked for before this.
    rest_until: Time,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    due: Time,
    end: Time,
    /// How many there were to go when it was drawn.
    to_go: usize,
}

impl Planner {
    /// Goodbyes from one time to another.
    pub(crate) fn new(from: Time, until: Time, seed: u64) -> Planner {
        let random = Random(seed);
        let (walk, rest_until) = (Walk::default(), Time::ZERO);
        Planner { until, cell_from: from, cell: None, walk, random, rest_until }
    }

    /// When the next goodbye is due, if so many are to go; never if none is.
    pub(crate) fn due(&mut self, now: Time, to_go: usize) -> Time {
        if to_go == 0 {
            self.cell = None;
            return Time::NEVER;
        }
        // Many have come since it was drawn: they would have to wait for the end of a long cell.
        let is_outdated = |cell: &Cell| to_go / 2 > cell.to_go;
        let cell = match self.cell.filter(|cell| !is_outdated(cell)) {
            Some(cell) => cell,
            None => self.draw(now, to_go),
        };
        self.cell = Some(cell);
        cell.due.max(self.rest_until)
    }

    fn draw(&mut self, now: Time, to_go: usize) -> Cell {
        // Who is behind by more than that does not hurry to make up for it.
        let from = self.cell_from.max(now - BEHIND_MAX).min(self.until);
        let length = self.until.since(from).as_nanos() as u64 / to_go as u64;
        let due = from + Span::from_nanos(self.random.below(length.max(1)));
        Cell { due, end: from + Span::from_nanos(length), to_go }
    }

    /// The goodbye that was due has been said.
    pub(crate) fn said(&mut self) {
        if let Some(cell) = self.cell.take() {
            self.cell_from = cell.end;
        }
        self.walk.found = true;
    }

    /// The next place to look at in a slab of so many.
    pub(crate) fn look(&mut self, now: Time, slots: u32) -> Option<u32> {
        if self.walk.is_over() {
            if !self.walk.found && self.walk.has_begun() {
                self.rest_until = now + REST;
            }
            self.walk = Walk::begin(slots, &mut self.random);
        }
        self.walk.step().filter(|slot| *slot < slots)
    }
}

/// A pass through a slab: a generator of full period (Hull and Dobell), so that every place comes once.
#[derive(Debug, Default)]
struct Walk {
    /// Places, rounded up to a power of two, less one.
    mask: u32,
    factor: u32,
    increment: u32,
    at: u32,
    left: u64,
    /// Whether somebody was found in this pass.
    found: bool,
}

impl Walk {
    fn begin(slots: u32, random: &mut Random) -> Walk {
        let mask = slots.max(1).next_power_of_two() - 1;
        Walk {
            mask,
            // One more than a multiple of four, and odd: the conditions of a full period.
            factor: random.next() as u32 & !3 | 1,
            increment: random.next() as u32 | 1,
            at: random.next() as u32 & mask,
            left: u64::from(mask) + 1,
            found: false,
        }
    }

    fn has_begun(&self) -> bool {
        self.factor != 0
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }

    fn step(&mut self) -> Option<u32> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        self.at = at.wrapping_mul(self.factor).wrapping_add(self.increment) & self.mask;
        Some(at)
    }
}

/// SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

/// How far behind its cells a shard may be and still make up for it.
const BEHIND_MAX: Span = Span::from_millis(100);
/// How long nobody is looked for after a pass in which all were busy.
const REST: Span = Span::from_millis(10);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use proptest::prelude::*;

    /// A slab with connections in some of its places, in which a drain runs to its end.
    struct World {
        slots: Vec<bool>,
        planner: Planner,
        now: Time,
        said: Vec<Time>,
    }

    const FROM: Time = Time::from_nanos(5_000_000_000);
    const TURN: Span = Span::from_millis(1);

    impl World {
        fn new(slots: Vec<bool>, over: Span, seed: u64) -> World {
            World {
                slots,
                planner: Planner::new(FROM, FROM + over, seed),
                now: FROM,
                said: Vec::new(),
            }
        }

        fn to_go(&self) -> usize {
            self.slots.iter().filter(|slot| **slot).count()
        }

        /// One turn of a shard, as long as something is due; at most so many goodbyes.
        fn turn(&mut self, to_go: &mut usize, goodbyes_max: usize) {
            for _ in 0..goodbyes_max {
                while self.planner.due(self.now, *to_go) <= self.now {
                    let slots = self.slots.len() as u32;
                    let slot = self.planner.look(self.now, slots).map(|slot| slot as usize);
                    if let Some(slot) = slot.filter(|slot| self.slots[*slot]) {
                        self.slots[slot] = false;
                        *to_go -= 1;
                        self.planner.said();
                        self.said.push(self.now);
                        break;
                    }
                }
            }
            self.now = self.now + TURN;
        }

        fn run(&mut self) {
            let mut to_go = self.to_go();
            let end = self.planner.until + Span::from_secs(1);
            while to_go > 0 && self.now < end {
                self.turn(&mut to_go, 64);
            }
        }

        /// Of the seconds of the span: the most goodbyes over the mean.
        fn unevenness(&self, over: Span) -> f64 {
            let mut counts = vec![0usize; over.as_secs() as usize];
            let last = counts.len() - 1;
            for time in &self.said {
                counts[(time.since(FROM).as_secs() as usize).min(last)] += 1;
            }
            let mean = self.said.len() as f64 / counts.len() as f64;
            *counts.iter().max().unwrap() as f64 / mean
        }
    }

    proptest! {
        #[test]
        fn everybody_goes_once_within_the_span(
            slots in prop::collection::vec(any::<bool>(), 1..600),
            over_ms in 1u64..20_000,
            seed: u64,
        ) {
            let over = Span::from_millis(over_ms);
            let mut world = World::new(slots, over, seed);
            let count = world.to_go();
            world.run();
            prop_assert_eq!((world.to_go(), world.said.len()), (0, count));
            // A turn says 64, so the last of a very short span may come some turns later.
            let late = TURN * (1 + count as u32 / 64);
            prop_assert!(world.said.iter().all(|time| *time <= FROM + over + late));
        }

        #[test]
        fn those_who_come_late_or_leave_by_themselves_are_no_trouble(
            changes in prop::collection::vec((0usize..400, any::<bool>(), 0u64..9_000), 0..200),
            growth in 0usize..300,
            seed: u64,
        ) {
            let over = Span::from_secs(10);
            let mut world = World::new(vec![true; 400], over, seed);
            let mut changes = changes;
            changes.sort_by_key(|(.., at)| *at);
            let mut to_go = world.to_go();
            let end = FROM + over + Span::from_secs(1);
            while world.now < end {
                let elapsed = world.now.since(FROM).as_millis() as u64;
                while changes.first().is_some_and(|(.., at)| *at <= elapsed) {
                    let (slot, is_there, _) = changes.remove(0);
                    world.slots[slot] = is_there;
                    to_go = world.to_go();
                }
                if elapsed == 5_000 {
                    world.slots.extend(std::iter::repeat_n(true, growth));
                    to_go = world.to_go();
                }
                world.turn(&mut to_go, 64);
            }
            prop_assert_eq!(world.to_go(), 0);
        }

        #[test]
        fn a_pass_visits_every_place_once(slots in 1u32..5_000, seed: u64) {
            let mut walk = Walk::begin(slots, &mut Random(seed));
            let mut seen = vec![false; slots as usize];
            while let Some(at) = walk.step() {
                if let Some(seen) = seen.get_mut(at as usize) {
                    prop_assert!(!std::mem::replace(seen, true));
                }
            }
            prop_assert!(seen.into_iter().all(|seen| seen));
        }
    }

    #[test]
    fn ten_thousand_leave_evenly_whatever_the_span_and_however_sparse_the_slab() {
        for (slots, over_s, seed) in [(10_000, 10, 1), (10_000, 600, 2), (300_000, 60, 3)] {
            let mut places = vec![false; slots];
            let step = slots / 10_000;
            places.iter_mut().step_by(step).for_each(|place| *place = true);
            let over = Span::from_secs(over_s);
            let mut world = World::new(places, over, seed);
            world.run();
            assert_eq!(world.said.len(), 10_000);
            let unevenness = world.unevenness(over);
            assert!(unevenness <= 1.2, "{unevenness} of {slots} in {over_s} s");
            let span = world.said.last().unwrap().since(*world.said.first().unwrap());
            assert!(span.as_secs_f64() > 0.9 * over.as_secs_f64(), "{span:?}");
        }
    }

    #[test]
    fn who_leaves_first_is_decided_by_the_seed() {
        let first = |seed| {
            let mut planner = Planner::new(FROM, FROM, seed);
            let order = std::iter::repeat_with(|| planner.look(FROM, 64)).flatten();
            order.take(8).collect::<Vec<_>>()
        };
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
    }

    #[test]
    fn one_alone_leaves_at_any_time_of_the_span() {
        let over = Span::from_secs(100);
        let due = |seed| Planner::new(FROM, FROM + over, seed).due(FROM, 1).since(FROM);
        let times: Vec<Span> = (0..1000).map(due).collect();
        let mean = times.iter().sum::<Span>() / 1000;
        assert!((45..55).contains(&mean.as_secs()), "{mean:?}");
        assert!(times.iter().all(|time| *time < over));
    }

    #[test]
    fn where_all_are_busy_there_is_a_rest_after_each_pass() {
        let mut planner = Planner::new(FROM, FROM, 7);
        let mut looks = 0;
        while planner.due(FROM, 3) <= FROM {
            planner.look(FROM, 10);
            looks += 1;
            assert!(looks < 100);
        }
        assert!(looks >= 16, "a whole pass comes first");
        assert_eq!(planner.due(FROM, 3), FROM + REST);
        assert_eq!(planner.due(FROM, 0), Time::NEVER);
    }
}
