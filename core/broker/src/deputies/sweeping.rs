//! Topics that are gone at the upstream, or that nobody here asks for any more.
//!
//! Looked for a slice at a time, since there may be very many. Invariant: a value that the upstream may still have, and
//! that a subscription brings, is not taken away.

use tiderace_base::{Key, Now};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{LeaveReason, Target};

use super::Deputy;
use super::subscriptions::Brought;
use super::sweeps::{Sweep, Why};
use crate::deputy_side::DeputySide;
use crate::effects::Effects;

/// Topics that are looked at in one turn.
const SLICE: usize = 512;

impl Deputy {
    /// A subscription has brought all values there are.
    pub(super) fn sweep_not_brought(&mut self, target: &Target, until: u64, brought: Brought) {
        self.sweep(target, Why::NotBrought { until, brought });
    }

    /// A subscription has ended.
    pub(super) fn sweep_uncovered(&mut self, target: &Target) {
        self.sweep(target, Why::NotCovered);
    }

    /// The upstream does not give any longer what it had given.
    pub(super) fn sweep_refused(&mut self, key: u32, target: &Target) {
        if let Some(subscription) = self.subscriptions.get_mut(key) {
            subscription.unswept = true;
        }
        self.sweep(target, Why::Refused(key));
    }

    fn sweep(&mut self, target: &Target, why: Why) {
        let below = match target {
            Target::Exact(topic) => Pattern::parse(topic.path.as_str()).ok(),
            Target::Pattern(_, pattern) => Some(pattern.clone()),
        };
        let below: Vec<Pattern> = below.into_iter().collect();
        self.sweeps.push(Sweep { below, after: None, why });
    }
}

impl DeputySide<'_> {
    /// Goes on with a sweep, if there is one.
    pub(crate) fn sweep(&mut self, now: Now, effects: &mut Effects) {
        for at in 0..self.deputies.list.len() {
            let Some(deputy) = self.deputies.list.get_mut(at) else { continue };
            let Some(mut sweep) = deputy.sweeps.pop() else { continue };
            if self.sweep_slice(now, at, &mut sweep, effects)
                && let Some(deputy) = self.deputies.list.get_mut(at)
            {
                deputy.sweeps.push(sweep);
            }
        }
    }

    /// One slice; whether there is more.
    fn sweep_slice(
        &mut self,
        now: Now,
        at: usize,
        sweep: &mut Sweep,
        effects: &mut Effects,
    ) -> bool {
        let after = sweep.after.take();
        let walk = self.home.directory.walk_some(&sweep.below, after.as_ref().map(Path::as_str));
        let slice: Vec<(Key, Path)> =
            walk.take(SLICE).map(|(key, topic)| (key, topic.path.clone())).collect();
        sweep.after = slice.last().filter(|_| slice.len() == SLICE).map(|(_, path)| path.clone());
        for (key, path) in slice {
            let is_named = sweep.below.iter().any(|pattern| pattern.matches(&path));
            if !is_named || self.at_topic(&path) != Some(at) {
                continue;
            }
            self.renew(at, key, effects);
            let home = self.home.topic(key).and_then(|topic| topic.home());
            let value = home.and_then(|home| home.value()).map(|value| value.first());
            let deputy = self.deputies.list.get(at);
            let is_covered = deputy.is_some_and(|deputy| deputy.subscriptions.bring(&path));
            let deputy_is_given_up = deputy.is_some_and(|deputy| deputy.is_given_up);
            match &sweep.why {
                Why::NotBrought { until, brought } => {
                    let last = value.or(home.map(|home| home.last()));
                    let is_old = last.is_some_and(|last| last <= *until);
                    let is_known = home.is_some_and(|home| home.is_known());
                    if value.is_some() && is_old && !brought.values.contains(&key) {
                        let stays = brought.topics.contains(&key);
                        self.remove_value(now, at, (key, stays), effects);
                    } else if value.is_none()
                        && is_known
                        && (is_old || brought.values.contains(&key))
                        && !brought.topics.contains(&key)
                    {
                        self.end_empty(at, key, LeaveReason::NotAuthorised, effects);
                    }
                }
                Why::NotCovered if !is_covered => self.drop_kept(at, key, effects),
                Why::Refused(_) if !is_covered => {
                    self.remove_hidden(now, at, key, effects);
                }
                Why::NotCovered | Why::Refused(_) => {}
                Why::Away if deputy_is_given_up => self.remove_held(now, at, key, effects),
                Why::Away | Why::BegunAnew { .. } => {}
            }
        }
        if let (None, Why::BegunAnew { until }) = (&sweep.after, &sweep.why) {
            self.end_renewal(at, *until);
        }
        if let (None, Why::Refused(key)) = (&sweep.after, &sweep.why)
            && let Some(deputy) = self.deputies.list.get_mut(at)
        {
            deputy.subscriptions.note_swept(*key);
        }
        sweep.after.is_some()
    }
}
