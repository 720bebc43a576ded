//! What views of this node make of an upstream's topics: the deputy asks for these as for what sessions listen to.
//!
//! Relies on the set of views of this shard, which is that of all. Invariant: what views follow or insert is asked of the
//! upstream as long as they do, and answered to nobody.

use tiderace_base::Now;
use tiderace_topics::{Path, Pattern};

use super::followed::Source;
use crate::collections::Set;
use crate::deputy_side::DeputySide;

impl DeputySide<'_> {
    /// Views follow these from now on, and nothing else.
    pub(crate) fn follow(&mut self, now: Now, wanted: Set<Source>) {
        let before = std::mem::take(&mut self.deputies.followed.sources);
        // What begins comes first: a pattern that two views share is not given up in between.
        for source in wanted.difference(&before) {
            self.need(now, source, true);
        }
        for source in before.difference(&wanted) {
            self.need(now, source, false);
        }
        self.deputies.followed.sources = wanted;
    }

    /// A topic is inserted by views of a shard, or no more.
    pub(crate) fn insert(&mut self, now: Now, path: &Path, on: bool) {
        if let Ok(pattern) = Pattern::parse(path.as_str()) {
            self.need(now, &(pattern, None), on);
        }
    }

    fn need(&mut self, now: Now, (pattern, name): &Source, on: bool) {
        for at in 0..self.deputies.list.len() {
            let upstreams = &self.home.options.upstreams;
            let Some(deputy) = self.deputies.list.get_mut(at) else { continue };
            let Some(upstream) = upstreams.get(usize::from(deputy.upstream)) else { continue };
            if name.as_ref().is_some_and(|name| *name != upstream.name) {
                continue;
            }
            let targets = upstream.targets_for(pattern);
            if !targets.is_empty() {
                deputy.note_pattern(now.time, pattern, targets, on);
                self.ask_upstream(at);
            }
        }
    }
}
