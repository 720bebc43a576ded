//! What the queues of one home say of the accounts of their owners.
//!
//! Relies on the queues. Invariant: other homes are known by their places.

use std::sync::Arc;

use tiderace_queues::{OverQuota, QueueOptions, Refusal};
use tiderace_topics::Path;

use super::{QueueHome, number_of};
use crate::BrokerOptions;
use crate::maker::Maker;
use crate::places::Place;

impl QueueHome {
    /// How many principals have queues here, and how many of them all the bytes that they may.
    pub(crate) fn owners(&self) -> (usize, usize) {
        self.queues.owners()
    }

    /// What other homes are to be told: who has how many bytes in queues here.
    pub(crate) fn account_news(&mut self) -> Vec<(Arc<str>, u64)> {
        self.queues.account_news()
    }

    /// Another home says how many bytes somebody has in queues there.
    pub(crate) fn note_elsewhere(&mut self, from: Place, owner: &Arc<str>, bytes: u64) {
        self.queues.note_elsewhere(number_of(from), owner, bytes);
    }

    /// Why somebody may make no queue.
    pub(crate) fn refuses_queue(
        &self,
        path: &Path,
        maker: Maker<'_>,
        options: &BrokerOptions,
    ) -> Option<OverQuota> {
        self.queues.refuses_queue(&options.queue_of(path, maker), 0)
    }

    /// For which queue an owner would have more than it may if all these came together.
    pub(crate) fn refuses_together<'a>(
        &self,
        parts: impl Iterator<Item = (&'a Path, usize, usize)>,
        options: impl Fn(&'a Path) -> QueueOptions,
    ) -> Option<(&'a Path, OverQuota)> {
        self.queues.refuses_together(parts, options)
    }

    /// Why a queue, or its owner, refuses so many more messages with so many bytes, if it does.
    #[inline]
    pub(crate) fn refusal(
        &self,
        path: &Path,
        (more, are_alone): ((usize, usize), bool),
        maker: Maker<'_>,
        options: &BrokerOptions,
    ) -> Option<Refusal> {
        self.queues.refusal(path, more, are_alone, |path| options.queue_of(path, maker))
    }

    /// The same for what lies in another queue of that owner.
    pub(crate) fn refusal_of_moved(
        &self,
        path: &Path,
        more: (usize, usize),
        owner: Option<&Arc<str>>,
        options: impl FnOnce(&Path) -> QueueOptions,
    ) -> Option<Refusal> {
        self.queues.refusal_of_moved(path, more, owner, options)
    }
}
