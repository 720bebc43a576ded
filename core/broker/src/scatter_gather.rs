//! What is known of an operation that several homes have a part in, until all of them have answered.
//!
//! Invariant: what was allowed is done at every home, and how much that was is said, whatever the others have refused.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Operation, OperationResult, Page, TopicDetails};

use crate::fetch::merge_pages;
use crate::places::{Place, PlaceSet};
use crate::requester::Operated;

/// Answers of several homes that are awaited.
#[derive(Debug)]
pub(crate) struct ScatterGather {
    /// The homes that have not answered.
    pub(crate) waiting: PlaceSet,
    limit: usize,
    depth: u32,
    pages: Vec<Page>,
    removed: u64,
    /// What is known of the one topic that was asked for.
    topic: Option<TopicDetails>,
    refused: Option<Close>,
}

impl ScatterGather {
    /// For an operation that those homes are asked to do.
    pub(crate) fn new(waiting: PlaceSet, operation: &Operation) -> ScatterGather {
        let (limit, depth) = match operation {
            Operation::Fetch(fetch) => (fetch.limit as usize, fetch.depth),
            _ => (0, 0),
        };
        ScatterGather {
            waiting,
            limit,
            depth,
            pages: Vec::new(),
            removed: 0,
            topic: None,
            refused: None,
        }
    }

    /// The answer of a home has come; whether it was the last one.
    pub(crate) fn take_in(&mut self, from: Place, result: Operated) -> bool {
        self.waiting.remove(from);
        match result {
            Ok(OperationResult::Page(page)) => self.pages.push(*page),
            Ok(OperationResult::Topic(part)) => match &mut self.topic {
                Some(topic) => topic.merge(*part),
                topic => *topic = Some(*part),
            },
            Ok(OperationResult::Removed { topics }) => self.removed += topics,
            Ok(_) => {}
            // What was not allowed is no news beside what has failed.
            Err(close) if self.refused.as_ref().is_none_or(is_denial) => {
                self.refused = Some(close);
            }
            Err(_) => {}
        }
        self.waiting.is_empty()
    }

    /// What came of the operation as a whole.
    pub(crate) fn into_result(self) -> Operated {
        match self {
            // At one home as at several: what was allowed is done, and how much that was is said.
            ScatterGather { refused: Some(close), removed, .. }
                if removed == 0 || !is_denial(&close) =>
            {
                Err(close)
            }
            ScatterGather { topic: Some(topic), .. } => Ok(OperationResult::Topic(Box::new(topic))),
            ScatterGather { pages, removed, .. } if pages.is_empty() => {
                Ok(OperationResult::Removed { topics: removed })
            }
            ScatterGather { pages, limit, depth, .. } => {
                Ok(OperationResult::Page(Box::new(merge_pages(pages, limit, depth))))
            }
        }
    }
}

/// Whether that says that something is not allowed.
fn is_denial(close: &Close) -> bool {
    matches!(close.code, CloseCode::NotAuthorised | CloseCode::TopicReadOnly)
}
