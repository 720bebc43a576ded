//! The nodes from which this one has the topics that it passes on.
//!
//! An edge learns them from its upstreams and tells them to edges of its own, so that a node finds its own name among them
//! if edges form a circle, however many there are. Invariant: what an upstream has said counts as long as its connection
//! lives.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

/// Where the node keeps what its upstreams say of the nodes above, for all sessions. Connections to upstreams write there and
/// those of edges read; both are few, and do so a few times a minute.
pub trait NodesAbove: Debug + Send + Sync {
    /// What is above this node, through all of its upstreams.
    fn all(&self) -> Above;

    /// An upstream, by its place in the configuration, and what is above it.
    fn note(&self, upstream: u16, above: Above);

    /// The connection to an upstream has ended.
    fn forget(&self, upstream: u16);
}

/// What is above a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Above {
    /// The connections on the longest way up to a node that has no upstream.
    pub hops: u64,
    /// The names of the nodes, each once.
    pub names: BTreeSet<String>,
}

impl Above {
    /// This as well as another.
    #[must_use]
    pub fn with(mut self, other: &Above) -> Above {
        self.hops = self.hops.max(other.hops);
        self.names.extend(other.names.iter().cloned());
        self
    }
}

/// Of a node that has no upstreams.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoUpstreams;

impl NodesAbove for NoUpstreams {
    fn all(&self) -> Above {
        Above::default()
    }

    fn note(&self, _upstream: u16, _above: Above) {}

    fn forget(&self, _upstream: u16) {}
}

/// What one upstream has said of the nodes above; forgotten with the connection.
pub(crate) struct UpstreamAbove {
    nodes: Arc<dyn NodesAbove>,
    upstream: u16,
}

impl UpstreamAbove {
    /// That upstream has said nothing yet.
    pub(crate) fn new(nodes: Arc<dyn NodesAbove>, upstream: u16) -> UpstreamAbove {
        UpstreamAbove { nodes, upstream }
    }

    /// The upstream and what is above it.
    pub(crate) fn note(&self, above: Above) {
        self.nodes.note(self.upstream, above);
    }
}

impl Drop for UpstreamAbove {
    fn drop(&mut self) {
        self.nodes.forget(self.upstream);
    }
}
