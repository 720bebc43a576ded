//! Topics of other nodes: what this one does not do with them, and what it says instead.
//!
//! Relies on the patterns of the configuration. Invariant: a topic of an upstream is changed there alone.

use tiderace_base::{Close, CloseCode};
use tiderace_topics::Path;
use tiderace_wire::{Destination, Kind, Operation};

use crate::{BrokerOptions, UpstreamTopics};

impl BrokerOptions {
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
            let of = |pattern| upstream.topics.iter().any(|own| own.overlaps(pattern));
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
