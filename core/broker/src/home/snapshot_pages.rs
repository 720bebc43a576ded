//! Values that a home gives to subscriptions, page by page or since they may see them from now on.
//!
//! Relies on [`Snapshots`](super::snapshots::Snapshots) for what has been given. Invariant: as there.

use tiderace_base::Now;
use tiderace_topics::Path;

use super::Home;
use super::snapshots::{Page, Topics};
use crate::messages::{SnapshotPage, SubscribeRequestId};

impl Home {
    /// The next page of a snapshot.
    pub(crate) fn next_page(
        &mut self,
        now: Now,
        request: SubscribeRequestId,
        bytes: usize,
        from: Topics<'_>,
    ) -> Page {
        self.snapshots.next_page(now, request, bytes, from, &self.topics)
    }

    /// The values of topics that a subscription may see from now on; see [`Snapshots::shown_values`].
    pub(crate) fn shown_values(
        &self,
        now: Now,
        request: &SubscribeRequestId,
        of: (&[Path], u64),
        from: Topics<'_>,
    ) -> Option<SnapshotPage> {
        self.snapshots.shown_values(now, request, of, from, &self.topics)
    }
}
