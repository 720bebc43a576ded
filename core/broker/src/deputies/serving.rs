//! Clients of this node that serve what callers at an upstream call.
//!
//! The upstream is told what they serve, by name and by pattern, and gives the session to it their calls, which it makes as
//! any session does: they go to this node's clients alone (`calling.rs`). Relies on [`Serves`](super::serves::Serves) for what
//! has been said. Invariant: what is said to serve is among the services of that upstream.

use tiderace_base::Close;
use tiderace_topics::Pattern;
use tiderace_wire::{Kind, Target};

use crate::UpstreamTopics;
use crate::deputy_side::DeputySide;
use crate::messages::LocalMessage;

impl DeputySide<'_> {
    /// Housekeeping: tells an upstream what is served here by now.
    pub(super) fn serve_at_upstream(&mut self, at: usize) {
        let services = self.home.home.services();
        let changes = services.changes();
        let Some(deputy) = self.deputies.list.get(at) else { return };
        let (Some(session), true) = (deputy.link, deputy.calls.are_taken()) else { return };
        let Some(upstream) = self.home.options.upstreams.get(usize::from(deputy.upstream)) else {
            return;
        };
        if upstream.services.is_empty() || !deputy.serves.are_old(changes) {
            return;
        }
        let wanted = services.targets().flat_map(|target| upstream.served_among(&target)).collect();
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        for said in deputy.serves.compare(changes, wanted) {
            let asked = Box::new(said);
            self.home.loopback.hand_on(LocalMessage::Upstream { session, asked });
        }
    }

    /// The upstream has answered.
    pub(super) fn serving(&mut self, at: usize, key: u32, result: Result<bool, Close>) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        if result.is_err() {
            self.home.metrics.upstream_serves_refused += 1;
        }
        deputy.serves.answered(key, result.is_err(), result.unwrap_or(false));
    }
}

impl UpstreamTopics {
    /// What it is to be told of somebody who serves that: all of it if all of it is its own, and else those of its own
    /// patterns of which everything is served.
    fn served_among(&self, target: &Target) -> Vec<Target> {
        let of = |pattern: &Pattern| match pattern.as_path() {
            Some(path) => Target::Exact(tiderace_wire::Destination { kind: Kind::Service, path }),
            None => Target::Pattern(Kind::Service, pattern.clone()),
        };
        let own = self.services.iter();
        match target {
            Target::Exact(destination) => {
                let path = &destination.path;
                let has = own.into_iter().any(|own| tiderace_queues::reaches(own, path));
                if has { vec![target.clone()] } else { Vec::new() }
            }
            Target::Pattern(_, pattern) if own.clone().any(|own| own.contains(pattern)) => {
                vec![target.clone()]
            }
            Target::Pattern(_, pattern) => {
                own.filter(|own| pattern.contains(own)).map(of).collect()
            }
        }
    }
}
