//! Topics of other nodes: what this one passes on to them, what it does not do with them, and what it says instead.
//!
//! Relies on the patterns of the configuration. Invariant: a topic of an upstream is changed there alone.

use std::sync::Arc;

use tiderace_base::{Close, CloseCode};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, EndPrincipal, Kind, Operation, Position, Subscribe, Target};

use crate::places::Place;
use crate::relay::belongs_to_session;
use crate::{BrokerOptions, Principal, UpstreamTopics};

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

    /// Whether messages to a destination are numbered by this node, or passed on to an upstream.
    ///
    /// # Errors
    /// Says where to publish instead.
    #[inline]
    pub(crate) fn is_published_here(&self, destination: &Destination) -> Result<(), Close> {
        if self.upstreams.is_empty() || destination.kind != Kind::Topic {
            return Ok(());
        }
        self.changed_at(&destination.path).map(|_| ())
    }

    /// Who stands in for the upstream to which messages to a destination are passed on, if they are.
    #[inline]
    pub(crate) fn relayed_to(&self, destination: &Destination) -> Option<Place> {
        if self.upstreams.is_empty() {
            return None;
        }
        match destination.kind {
            Kind::Topic => self.changed_at(&destination.path).ok().flatten(),
            Kind::Queue => {
                let upstream = self.upstream_of_queue(&destination.path)?;
                Some(Place::here(upstream.shard))
            }
            Kind::Service => None,
        }
    }

    /// Who stands in for the upstream that changes a topic; absent for a topic of this node.
    #[cold]
    fn changed_at(&self, path: &Path) -> Result<Option<Place>, Close> {
        match self.upstream_of(path) {
            None => Ok(None),
            Some(upstream) if upstream.write => Ok(Some(Place::here(upstream.shard))),
            Some(upstream) => Err(elsewhere(path.as_str(), upstream)),
        }
    }

    /// The upstream whose own all topics of a pattern are, if it takes requests; with its place in the configuration.
    pub(crate) fn writing_upstream(&self, pattern: &Pattern) -> Option<(usize, &UpstreamTopics)> {
        let mut upstreams = self.upstreams.iter().enumerate();
        upstreams.find(|(_, upstream)| upstream.write && upstream.has_all(pattern))
    }

    /// Who stands in for the upstream that does an operation, and what that is told of who asks; absent if it is done here,
    /// for it concerns no topic or queue of another node, or only reads what is all known here. `is_held` says whether the session
    /// has something by it until it ends.
    ///
    /// # Errors
    /// Says where to ask instead.
    pub(crate) fn operated_at(
        &self,
        principal: &Principal,
        operation: &Operation,
        is_held: bool,
    ) -> Result<Option<(Place, EndPrincipal)>, Close> {
        let is_of_session = is_held || !operation.is_relayed();
        if principal.relayed_by.is_some() && is_of_session {
            return Err(belongs_to_session());
        }
        match self.home_of_operation(operation)? {
            Some(_) if is_held => Err(belongs_to_session()),
            Some(home) => Ok(Some((home, principal.to_end_principal()?))),
            None => Ok(None),
        }
    }

    fn home_of_operation(&self, operation: &Operation) -> Result<Option<Place>, Close> {
        if self.upstreams.is_empty() {
            return Ok(None);
        }
        let (selector, reads) = match operation {
            Operation::Create { path, .. }
            | Operation::Amend { path, .. }
            | Operation::Abandon { path }
            | Operation::Claim { path }
            | Operation::Release { path } => return self.relayed_at(path, operation),
            Operation::Update(update) => return self.relayed_at(&update.path, operation),
            Operation::History(query) => return self.relayed_at(&query.path, operation),
            // It is passed on when it is published.
            Operation::Will(Some(will)) => {
                return self.is_published_here(will.destination()).map(|()| None);
            }
            Operation::Fetch(fetch) => (&fetch.selector, true),
            Operation::Remove { selector } => (selector, false),
            _ => return self.operated_on_queue(operation),
        };
        let has = |upstream: &UpstreamTopics| {
            let of = |pattern| upstream.topics_among(pattern).next().is_some();
            !(reads && upstream.eager) && selector.iter().any(of)
        };
        let named = || selector.first().map_or("", |first| first.as_str());
        match self.upstreams.iter().find(|upstream| has(upstream)) {
            // What is partly here and partly there is not removed as a whole by anybody.
            Some(upstream)
                if operation.is_relayed()
                    && upstream.write
                    && selector.iter().all(|pattern| {
                        let own = self.writing_upstream(pattern);
                        own.is_some_and(|(_, own)| std::ptr::eq(own, upstream))
                    }) =>
            {
                Ok(Some(Place::here(upstream.shard)))
            }
            Some(upstream) => Err(elsewhere(named(), upstream)),
            None => Ok(None),
        }
    }

    /// The same of an operation on one topic.
    fn relayed_at(&self, path: &Path, operation: &Operation) -> Result<Option<Place>, Close> {
        match (self.upstream_of(path), operation.is_relayed()) {
            (None, _) => Ok(None),
            (Some(upstream), true) if upstream.write => Ok(Some(Place::here(upstream.shard))),
            (Some(upstream), false) if upstream.write && is_of_session(operation) => {
                Err(belongs_to_session())
            }
            (Some(upstream), _) => Err(elsewhere(path.as_str(), upstream)),
        }
    }
}

fn is_of_session(operation: &Operation) -> bool {
    !matches!(operation, Operation::History(_))
}

fn elsewhere(name: &str, upstream: &UpstreamTopics) -> Close {
    let UpstreamTopics { name: upstream, .. } = upstream;
    let reason = format!(
        "topic {name} comes from the upstream {upstream}, and this server only passes it on; \
         publish and operate there, and subscribe here"
    );
    Close::new(CloseCode::TopicElsewhere, reason)
}
