//! Which home a service has: that of its name, or the shard that stands in for an upstream which serves it.
//!
//! Relies on the patterns of the configuration. Invariant: all calls of a service, and all who serve it by its name, go to
//! the same shard.

use tiderace_queues::{is_private, reaches};
use tiderace_topics::{Path, Pattern};

use crate::BrokerOptions;
use crate::authorise::is_reserved;
use crate::places::Place;

impl BrokerOptions {
    /// The home of a service.
    #[inline]
    pub(crate) fn home_of_service(&self, path: &Path) -> Place {
        if let Some(at) = self.upstream_serving(path)
            && let Some(upstream) = self.upstreams.get(at)
        {
            return Place::here(upstream.shard);
        }
        self.home_of(path)
    }

    /// The place of the upstream whose services one is among, if it is one's.
    #[inline]
    pub(crate) fn upstream_serving(&self, path: &Path) -> Option<usize> {
        if self.upstreams.is_empty() { None } else { self.serving_one_of(path) }
    }

    #[cold]
    fn serving_one_of(&self, path: &Path) -> Option<usize> {
        let has = |pattern: &Pattern| reaches(pattern, path);
        let is_own = is_reserved(path) || is_private(path);
        self.upstreams.iter().position(|upstream| !is_own && upstream.services.iter().any(has))
    }
}
