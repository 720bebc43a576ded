//! An upstream that is away for long: its topics are removed here, if that is wanted.
//!
//! Relies on sweeps, so that no call removes very many. Invariant: what has been removed for that reason comes anew, with
//! versions of its own, when the upstream is there again.

use tiderace_base::Now;

use super::sweeps::{Sweep, Why};
use crate::deputy_side::DeputySide;

impl DeputySide<'_> {
    /// Begins to remove the topics of an upstream whose absence has lasted too long.
    pub(super) fn give_up_away(&mut self, now: Now, at: usize) {
        let upstreams = &self.home.options.upstreams;
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(upstream) = upstreams.get(usize::from(deputy.upstream)) else { return };
        let Some(most) = upstream.remove_after else { return };
        let is_over = deputy.link.is_none() && now.time.since(deputy.away) >= most;
        if is_over && !std::mem::replace(&mut deputy.is_given_up, true) {
            let below = upstream.topics.clone();
            deputy.sweeps.push(Sweep { below, after: None, why: Why::Away });
        }
    }
}
