//! What a shard knows of selectors, and what waits for those of one session.
//!
//! `selectors.rs` says when they are evaluated. Invariant: a selector is evaluated once for a run, however
//! many subscriptions have it.

use std::collections::{HashSet, VecDeque};
use std::rc::Rc;

use tiderace_base::{Key, Now, ShardId, Time};
use tiderace_filter::Selector;
use tiderace_wire::SharedRun;

use crate::collections::Map;
use crate::subscriber_list::Subscriber;

/// Steps of about three nanoseconds that selectors may cost in one turn: about three milliseconds.
pub(super) const TURN_STEPS: u32 = 1 << 20;
/// What one session may use of that before the next has its turn.
pub(super) const SLICE_STEPS: u32 = 1 << 17;
/// What it costs to look at a subscription whose selector was evaluated for another.
pub(super) const SHARED_STEPS: u32 = 16;
/// Subscriptions of one session that may wait for a run, counted once for each run.
pub(super) const WAITING_MAX: usize = 65_536;
/// How many selectors there are at least before those that nobody uses any more are forgotten.
pub(super) const SELECTORS_MIN: usize = 64;

pub(super) type Stretches = Rc<[(u32, u32)]>;

/// What a shard knows of selectors.
#[derive(Debug, Default)]
pub(crate) struct SelectorState {
    /// Each text once, and perhaps some that nobody uses any more.
    selectors: HashSet<Selector, foldhash::fast::RandomState>,
    swept_at: usize,
    /// The run that was evaluated last, and what each selector selects of it.
    pub(super) run: Option<(ShardId, u64)>,
    selected: Map<usize, (Selector, Stretches)>,
    /// Sessions whose selectors are behind, in turns.
    pub(super) behind: VecDeque<Key>,
    /// What is left of the budget of the turn of that time.
    pub(super) left: u32,
    turn: Option<Time>,
    /// How often a selector was evaluated for a message.
    pub(super) evaluated: u64,
}

/// What waits for a session's selectors.
#[derive(Debug, Default)]
pub(crate) struct Unselected {
    pub(super) runs: VecDeque<Waiting>,
    /// Subscriptions in all of them.
    pub(super) entries: usize,
    pub(super) bytes: usize,
    /// Whether positions wait for it.
    pub(super) recovering: bool,
}

/// A run of messages, and the subscriptions that may want some of them.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) topic: Key,
    pub(super) run: Rc<SharedRun>,
    pub(super) to: Vec<(Subscriber, u32)>,
    /// How many of these have been looked at.
    pub(super) at: usize,
    /// The version of the rules when it came.
    pub(super) rules: u32,
}

impl Unselected {
    /// Bytes of the messages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl SelectorState {
    /// Gives a selector the place of one with the same text, if there is one.
    pub(super) fn share(&mut self, selector: &mut Selector) {
        if let Some(known) = self.selectors.get(&*selector) {
            *selector = known.clone();
            return;
        }
        if self.selectors.len() >= (2 * self.swept_at).max(SELECTORS_MIN) {
            self.selectors.retain(|known| known.clones() > 1);
            self.swept_at = self.selectors.len();
        }
        self.selectors.insert(selector.clone());
    }

    pub(super) fn left(&mut self, now: Now) -> u32 {
        if self.turn != Some(now.time) {
            self.turn = Some(now.time);
            self.left = TURN_STEPS;
        }
        self.left
    }

    /// What a selector selects of a run, and what it cost.
    pub(super) fn select(
        &mut self,
        now: Now,
        selector: &Selector,
        run: &SharedRun,
    ) -> (Stretches, u32) {
        let run = run.run();
        let of = (run.home(), run.first());
        if self.run != Some(of) {
            self.run = Some(of);
            self.selected.clear();
        }
        if let Some((_, stretches)) = self.selected.get(&selector.id()) {
            return (stretches.clone(), SHARED_STEPS);
        }
        let mut stretches: Vec<(u32, u32)> = Vec::new();
        let mut price = SHARED_STEPS;
        for (message, index) in run.messages().zip(0u32..) {
            self.evaluated += 1;
            let (selected, steps) = selector.look(&message);
            price = price.saturating_add(steps);
            if !selected || message.is_expired(now.wall_ms) {
                continue;
            }
            match stretches.last_mut() {
                Some((_, end)) if *end == index => *end += 1,
                _ => stretches.push((index, index + 1)),
            }
        }
        let stretches: Stretches = stretches.into();
        self.selected.insert(selector.id(), (selector.clone(), stretches.clone()));
        (stretches, price)
    }
}
