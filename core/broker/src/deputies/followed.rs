//! What views of this node follow at upstreams, as it was told last.
//!
//! Bookkeeping only. Invariant: it is what the views of one generation follow.

use std::sync::Arc;

use tiderace_topics::Pattern;

use crate::collections::Set;

/// A pattern that a view follows, and the upstream whose topics alone it follows.
pub(crate) type Source = (Pattern, Option<Arc<str>>);

/// What the views followed when they were looked at last.
#[derive(Debug, Default)]
pub(super) struct Followed {
    /// How often the views had changed by then.
    pub(super) generation: u32,
    pub(super) sources: Set<Source>,
}
