//! Topics of other nodes: what this one does not do with them, and what it says instead.
//!
//! Relies on the patterns of the configuration. Invariant: a topic of an upstream is changed there alone.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Operation, Position, Subscribe, Target};

use crate::places::Place;
use crate::{BrokerOptions, UpstreamTopics};

impl BrokerOptions {
    /// Whether all topics of a subscription come from other nodes, so that nothing of them is of this node's life.
    pub(crate) fn come_from_elsewhere(&self, subscribe: &Subscribe) -> bool {
        let has = |upstream: &UpstreamTopics, target: &Target| match target {
            Target::Exact(Destination { kind: Kind::Topic, path }) => upstream.has(path),
            Target::Pattern(Kind::Topic, pattern) => upstream.has_all(pattern),
            Target::Exact(_) | Target::Pattern(..) => false,
        };
        let upstreams = &self.upstreams;
        let comes = |target| upstreams.iter().any(|upstream| has(upstream, target));
        !upstreams.is_empty() && subscribe.targets.iter().all(comes)
    }

    /// What somebody who comes back tells a home that stands in for homes elsewhere.
    pub(crate) fn since_for(&self, subscribe: &Subscribe, home: Place) -> Option<Arc<Position>> {
        let stands_in = |upstream: &UpstreamTopics| Place::here(upstream.shard) == home;
        let since = subscribe.since.as_ref()?;
        self.upstreams.iter().any(stands_in).then(|| Arc::new(since.clone()))
    }

    /// Whether messages to a destination are numbered by this node.
    ///
    /// # Errors
    /// Says where to publish instead.
    #[inline]
    pub(crate) fn is_published_here(&self, destination: &Destination) -> Result<(), Close> {
        if self.upstreams.is_empty() || destination.kind != Kind::Topic {
            return Ok(());
        }
        self.is_here(&destination.path)
    }

    #[cold]
    fn is_here(&self, path: &Path) -> Result<(), Close> {
        self.upstream_of(path).map_or(Ok(()), |upstream| Err(elsewhere(path.as_str(), upstream)))
    }

    /// Whether an operation concerns no topic of another node, but for reading what is all known here.
    ///
    /// # Errors
    /// Says where to ask instead.
    pub(crate) fn is_operated_here(&self, operation: &Operation) -> Result<(), Close> {
        if self.upstreams.is_empty() {
            return Ok(());
        }
        let (selector, reads) = match operation {
            Operation::Create { path, .. }
            | Operation::Amend { path, .. }
            | Operation::Abandon { path }
            | Operation::Claim { path }
            | Operation::Release { path } => return self.is_here(path),
            Operation::Update(update) => return self.is_here(&update.path),
            Operation::History(query) => return self.is_here(&query.path),
            Operation::Will(Some(will)) => return self.is_published_here(will.destination()),
            Operation::Fetch(fetch) => (&fetch.selector, true),
            Operation::Remove { selector } => (selector, false),
            _ => return Ok(()),
        };
        let has = |upstream: &UpstreamTopics| {
            let of = |pattern| upstream.topics_among(pattern).next().is_some();
            !(reads && upstream.eager) && selector.iter().any(of)
        };
        let named = || selector.first().map_or("", |first| first.as_str());
        match self.upstreams.iter().find(|upstream| has(upstream)) {
            Some(upstream) => Err(elsewhere(named(), upstream)),
            None => Ok(()),
        }
    }
}

fn elsewhere(name: &str, upstream: &UpstreamTopics) -> Close {
    let UpstreamTopics { name: upstream, .. } = upstream;
    let reason = format!(
        "topic {name} comes from the upstream {upstream}, and this server only passes it on; \
         publish and operate there, and subscribe here"
    );
    Close::new(CloseCode::TopicElsewhere, reason)
}
