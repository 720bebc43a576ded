//! Removals of topics that take more than one turn.
//!
//! Bookkeeping only. Invariant: a removal looks at each topic once.

use tiderace_base::{Close, Key};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::OperationResult;

use crate::directory::Directory;
use crate::home::home_topics::TopicAtHome;
use crate::price::REMOVAL_SLICE;
use crate::requester::{Operated, Requester};

/// A removal under way.
#[derive(Debug)]
pub(crate) struct Removal {
    requester: Requester,
    selector: Vec<Pattern>,
    /// The last path that was looked at.
    after: Option<Path>,
    removed: u64,
    refused: Option<Close>,
    /// The record that says that the last of the topics is gone; zero if none was in the store.
    record: u64,
}

impl Removal {
    pub(crate) fn new(requester: Requester, selector: Vec<Pattern>) -> Removal {
        Removal { requester, selector, after: None, removed: 0, refused: None, record: 0 }
    }

    /// Who asked for it.
    pub(crate) fn requester(&self) -> &Requester {
        &self.requester
    }

    /// Patterns of which a topic that goes fits one.
    pub(crate) fn patterns(&self) -> usize {
        self.selector.len()
    }

    /// Whether it is for a topic.
    pub(crate) fn names(&self, topic: TopicAtHome<'_>) -> bool {
        topic.is_named(&self.selector)
    }

    /// The topics to look at next.
    pub(crate) fn next_slice(&mut self, directory: &Directory) -> Vec<Key> {
        let after = self.after.take();
        let walk = directory.walk_some(&self.selector, after.as_ref().map(Path::as_str));
        let slice: Vec<Key> = walk.map(|(key, _)| key).take(REMOVAL_SLICE).collect();
        let last = slice.last().filter(|_| slice.len() == REMOVAL_SLICE);
        self.after = last.and_then(|key| directory.get(*key)).map(|topic| topic.path.clone());
        slice
    }

    /// Whether there are more.
    pub(crate) fn has_more(&self) -> bool {
        self.after.is_some()
    }

    /// One topic may not be removed.
    pub(crate) fn note_refused(&mut self, close: Close) {
        self.refused = Some(close);
    }

    /// So many were removed, the last by this record.
    pub(crate) fn note_removed(&mut self, topics: u64, record: u64) {
        self.removed += topics;
        self.record = self.record.max(record);
    }

    /// What is answered when all is done, and the record that this waits for.
    pub(crate) fn result(&mut self) -> (u64, Operated) {
        let refused = self.refused.take().filter(|_| self.removed == 0);
        let result = match refused {
            Some(close) => Err(close),
            None => Ok(OperationResult::Removed { topics: self.removed }),
        };
        (self.record, result)
    }
}
