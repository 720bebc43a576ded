//! Sweeps of a deputy's topics that are under way.
//!
//! Bookkeeping only. Invariant: a sweep looks at each topic once.

use tiderace_topics::{Path, Pattern};

use super::subscriptions::Brought;

/// A sweep under way.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) below: Vec<Pattern>,
    pub(super) after: Option<Path>,
    pub(super) why: Why,
}

/// Which topics are looked for.
#[derive(Debug)]
pub(super) enum Why {
    /// A subscription that has brought these has not brought others, of which nothing has come behind a number of this home.
    NotBrought { until: u64, brought: Brought },
    /// No subscription brings them any more.
    NotCovered,
    /// The upstream does not give them any longer: it has refused the subscription with that key.
    Refused(u32),
    /// The upstream has begun anew when the last number of this home was that.
    BegunAnew { until: u64 },
    /// The upstream has been away for long.
    Away,
}
