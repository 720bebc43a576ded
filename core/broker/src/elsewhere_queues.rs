//! Queues of other nodes: which they are, and what is passed on of what is asked of them.
//!
//! Relies on the patterns of the configuration. Invariants: a queue of an upstream is never made here; a subscription is to
//! queues of one node alone, since its prefetch is one.

use tiderace_base::{Close, CloseCode};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Destination, Kind, Operation, QueueQuery, Target, is_durable, is_temporary};

use crate::authorise::is_reserved;
use crate::places::{Place, PlaceSet};
use crate::relay::belongs_to_session;
use crate::subscription::Subscription;
use crate::{BrokerOptions, Principal, UpstreamTopics};

impl UpstreamTopics {
    /// Whether a queue lives there.
    fn has_queue(&self, path: &Path) -> bool {
        self.queues.iter().any(|pattern| pattern.matches(path))
    }

    fn has_all_queues(&self, pattern: &Pattern) -> bool {
        self.queues.iter().any(|own| own.contains(pattern))
    }

    fn has_some_queues(&self, pattern: &Pattern) -> bool {
        let is_own = pattern.as_str().starts_with('$') || pattern.as_str().starts_with("dsub/");
        !is_own && self.queues.iter().any(|own| own.overlaps(pattern))
    }
}

impl BrokerOptions {
    /// The upstream where a queue lives, if it lives at one.
    #[inline]
    pub(crate) fn upstream_of_queue(&self, path: &Path) -> Option<&UpstreamTopics> {
        match self.upstreams.is_empty() {
            true => None,
            false => self.find_upstream_of_queue(path),
        }
    }

    #[cold]
    fn find_upstream_of_queue(&self, path: &Path) -> Option<&UpstreamTopics> {
        let is_own = is_reserved(path) || is_temporary(path) || is_durable(path);
        self.upstreams.iter().find(|upstream| !is_own && upstream.has_queue(path))
    }

    /// The home of a queue, or who stands in for it.
    #[inline]
    pub(crate) fn home_of_queue(&self, path: &Path) -> Place {
        match self.upstream_of_queue(path) {
            Some(upstream) => Place::here(upstream.shard),
            None => self.home_of(path),
        }
    }

    /// The home of a destination of any kind, or who stands in for it.
    #[inline]
    pub(crate) fn home_of_destination(&self, destination: &Destination) -> Place {
        match destination.kind {
            Kind::Queue => self.home_of_queue(&destination.path),
            Kind::Service => self.home_of_service(&destination.path),
            Kind::Topic => self.home_of(&destination.path),
        }
    }

    /// The homes of the queues and services of a target, or who stands in for them.
    pub(crate) fn serving_homes(&self, target: &Target) -> PlaceSet {
        let (Target::Exact(Destination { kind, .. }) | Target::Pattern(kind, _)) = target;
        match kind {
            Kind::Topic => PlaceSet::EMPTY,
            Kind::Queue | Kind::Service => self.homes_of_target(target),
        }
    }

    /// The same of a destination of any kind.
    pub(crate) fn homes_of_target(&self, target: &Target) -> PlaceSet {
        match (target, self.upstream_of_queues(target)) {
            (Target::Exact(destination), _) => PlaceSet::of(self.home_of_destination(destination)),
            (Target::Pattern(..), Some(upstream)) => PlaceSet::of(Place::here(upstream.shard)),
            (Target::Pattern(..), None) => PlaceSet::all(self.shards),
        }
    }

    /// The upstream where all queues of a target live, if they live at one.
    pub(crate) fn upstream_of_queues(&self, target: &Target) -> Option<&UpstreamTopics> {
        match target {
            Target::Exact(Destination { kind: Kind::Queue, path }) => self.upstream_of_queue(path),
            Target::Pattern(Kind::Queue, pattern) => {
                let is_own = pattern.as_str().starts_with("dsub/");
                self.upstreams.iter().find(|upstream| !is_own && upstream.has_all_queues(pattern))
            }
            Target::Exact(_) | Target::Pattern(..) => None,
        }
    }

    /// Whether the queues of a subscription live at one node, which can be told who wants them.
    ///
    /// # Errors
    /// Says what is in the way.
    pub(crate) fn check_elsewhere(
        &self,
        targets: &[Target],
        principal: &Principal,
    ) -> Result<(), Close> {
        if self.upstreams.is_empty() {
            return Ok(());
        }
        let Some(upstream) = targets.iter().find_map(|target| self.upstream_of_queues(target))
        else {
            return targets.iter().try_for_each(|target| self.check_queues_here(target));
        };
        match targets {
            [_] => principal.to_end_principal().map(|_| ()),
            _ => Err(apart(&upstream.name)),
        }
    }

    fn check_queues_here(&self, target: &Target) -> Result<(), Close> {
        let Target::Pattern(Kind::Queue, pattern) = target else { return Ok(()) };
        let some = self.upstreams.iter().find(|upstream| upstream.has_some_queues(pattern));
        some.map_or(Ok(()), |upstream| Err(apart(&upstream.name)))
    }

    /// Who stands in for the upstream that does an operation on a queue; absent if it concerns no queue of another node.
    ///
    /// # Errors
    /// Says where to ask instead.
    pub(crate) fn operated_on_queue(&self, operation: &Operation) -> Result<Option<Place>, Close> {
        let (path, other) = match operation {
            Operation::Queue(QueueQuery { path, .. })
            | Operation::Purge { path, .. }
            | Operation::PauseQueue { path, .. }
            | Operation::DeleteSubscription { queue: path } => (path, None),
            Operation::Peek(peek) => (&peek.path, None),
            Operation::CreateSubscription(about) => (&about.queue, None),
            Operation::Move(asked) => (&asked.from, asked.to.as_ref()),
            _ => return Ok(None),
        };
        let upstream = self.upstream_of_queue(path);
        if let Some(other) = other {
            let to = self.upstream_of_queue(other);
            let is_same = match (upstream, to) {
                (Some(from), Some(to)) => std::ptr::eq(from, to),
                (None, None) => true,
                _ => false,
            };
            if let Some(far) = to.or(upstream).filter(|_| !is_same) {
                let (path, name) = (path.as_str(), &far.name);
                let reason = format!(
                    "{path} and {other} are queues of two servers, one of them the upstream {name}, and messages do not \
                     move between servers; consume from the one and send to the other"
                );
                return Err(Close::new(CloseCode::QueueElsewhere, reason));
            }
        }
        match upstream {
            Some(upstream) if operation.is_relayed() => Ok(Some(Place::here(upstream.shard))),
            Some(upstream) => Err(queue_elsewhere(path.as_str(), &upstream.name)),
            None => Ok(None),
        }
    }
}

impl BrokerOptions {
    /// Why a transaction does not publish to a destination of another node.
    pub(crate) fn not_sent_together(&self, destination: &Destination) -> Close {
        match self.upstream_of_queue(&destination.path) {
            Some(upstream) if destination.kind == Kind::Queue => {
                queue_elsewhere(destination.path.as_str(), &upstream.name)
            }
            _ => belongs_to_session(),
        }
    }

    /// Why a transaction does not settle messages of a subscription, if it is to queues of another node.
    pub(crate) fn not_settled_together(
        &self,
        subscription: Option<&Subscription>,
    ) -> Option<Close> {
        let mut targets = subscription?.targets.as_slice().iter();
        targets.find_map(|listening| {
            let upstream = self.upstream_of_queues(&listening.target)?;
            Some(queue_elsewhere(listening.target.name(), &upstream.name))
        })
    }
}

/// What is asked of a queue of another node is not passed on.
pub(crate) fn queue_elsewhere(queue: &str, upstream: &str) -> Close {
    let reason = format!(
        "queue {queue} lives at the upstream {upstream}, and this is not passed on to it; connect to that server for it"
    );
    Close::new(CloseCode::QueueElsewhere, reason)
}

fn apart(upstream: &str) -> Close {
    let reason = format!(
        "some of these queues live at the upstream {upstream} and some elsewhere; subscribe to those of each server apart, \
         and to several of one server by one pattern"
    );
    Close::new(CloseCode::QueueElsewhere, reason)
}
