//! Values that a home gives to subscriptions, page by page or since they may see them from now on.
//!
//! Relies on [`Snapshots`](super::snapshots::Snapshots) for what has been given. Invariant: as there.

use tiderace_base::Now;
use tiderace_topics::Path;

use super::Home;
use super::snapshots::{NewSnapshot, Page, Topics};
use crate::BrokerOptions;
use crate::messages::{SnapshotPage, SubscribeRequestId};
use crate::topic::Topic;

impl Home {
    /// A snapshot begins: its first page.
    pub(crate) fn begin_snapshot(
        &mut self,
        now: Now,
        new: NewSnapshot<'_>,
        from: Topics<'_>,
    ) -> Page {
        self.snapshots.begin(now, new, from, &self.topics)
    }

    /// A subscriber's shard has room for another page of so many bytes; it is given in its turn.
    pub(crate) fn request_page(&mut self, request: SubscribeRequestId, bytes: u32) {
        self.requested_pages.push_back((request, bytes));
    }

    /// Whether pages are to be given.
    pub(crate) fn has_requested_pages(&self) -> bool {
        !self.requested_pages.is_empty()
    }

    /// The page that is to be given next.
    pub(crate) fn next_requested_page(&mut self) -> Option<(SubscribeRequestId, u32)> {
        self.requested_pages.pop_front()
    }

    /// A snapshot is not wanted any more.
    pub(crate) fn end_snapshot(&mut self, request: &SubscribeRequestId) {
        self.snapshots.end(request);
    }

    /// Snapshots that have not been given completely.
    pub(crate) fn snapshots_open(&self) -> usize {
        self.snapshots.len()
    }

    /// Whether a snapshot may not have given yet what a topic held when its last number was this.
    #[inline]
    pub(crate) fn owes_pages(&self, last: u64) -> bool {
        self.snapshots.may_lack(last)
    }

    /// Values that are to be sent before something newer of a topic; see [`Snapshots::before_change`].
    pub(crate) fn before_change(
        &self,
        now: Now,
        topic: &Topic,
        before: (u64, bool),
        options: &BrokerOptions,
    ) -> Vec<(SubscribeRequestId, SnapshotPage)> {
        self.snapshots.before_change(now, self.topics.at(topic), before, options)
    }

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
