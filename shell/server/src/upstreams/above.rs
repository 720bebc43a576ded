//! The nodes above this one, as its upstreams have told of them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tiderace_native::{Above, NodesAbove};

/// What each upstream has said, by its place in the configuration.
#[derive(Debug, Default)]
pub(crate) struct AboveByUpstream(Mutex<BTreeMap<u16, Above>>);

impl NodesAbove for AboveByUpstream {
    fn all(&self) -> Above {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().fold(Above::default(), Above::with)
    }

    fn note(&self, upstream: u16, above: Above) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(upstream, above);
    }

    fn forget(&self, upstream: u16) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&upstream);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn above(hops: u64, names: &[&str]) -> Above {
        Above { hops, names: names.iter().map(|name| (*name).to_owned()).collect() }
    }

    #[test]
    fn all_ways_up_count_while_their_connections_live() {
        let nodes = AboveByUpstream::default();
        assert_eq!(nodes.all(), above(0, &[]));
        nodes.note(0, above(2, &["b", "a"]));
        nodes.note(1, above(1, &["a"]));
        assert_eq!(nodes.all(), above(2, &["a", "b"]));
        nodes.note(0, above(1, &["c"]));
        assert_eq!(nodes.all(), above(1, &["a", "c"]));
        nodes.forget(0);
        assert_eq!(nodes.all(), above(1, &["a"]));
        nodes.forget(1);
        assert_eq!(nodes.all(), above(0, &[]));
    }
}
