//! What is known of an operation that several homes have a part in, until all of them have answered.
//!
//! Invariant: what was allowed is done at every home, and how much that was is said, whatever the others have refused.

use tiderace_base::{Close, CloseCode};
use tiderace_wire::{Operation, OperationResult, TopicDetails};

use crate::page_rounds::PageRounds;
use crate::places::{Place, PlaceSet};
use crate::requester::Operated;

/// Answers of several homes that are awaited.
#[derive(Debug)]
pub(crate) struct ScatterGather {
    /// The homes that are asked.
    homes: PlaceSet,
    /// Those of them that have not answered.
    pub(crate) waiting: PlaceSet,
    /// What is known of the page that was asked for.
    page: Option<Box<PageRounds>>,
    removed: u64,
    /// What is known of the one topic that was asked for.
    topic: Option<TopicDetails>,
    refused: Option<Close>,
}

impl ScatterGather {
    /// For an operation that those homes are asked to do.
    pub(crate) fn new(homes: PlaceSet, operation: &Operation) -> ScatterGather {
        let page = match operation {
            Operation::Fetch(fetch) => Some(Box::new(PageRounds::new(fetch))),
            _ => None,
        };
        ScatterGather { homes, waiting: homes, page, removed: 0, topic: None, refused: None }
    }

    /// What each home is asked for in the present round, if the operation is done in rounds.
    pub(crate) fn slice(&self) -> Option<Operation> {
        self.page.as_ref().map(|page| Operation::Fetch(page.slice()))
    }

    /// The answer of a home has come; whether it was the last one.
    pub(crate) fn take_in(&mut self, from: Place, result: Operated) -> bool {
        self.waiting.remove(from);
        match result {
            Ok(OperationResult::Page(slice)) => {
                if let Some(page) = &mut self.page {
                    page.take_in(*slice);
                }
            }
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

    /// All homes have answered: what they are asked for next, unless that was all.
    pub(crate) fn next_round(&mut self) -> Option<(PlaceSet, Operation)> {
        let page = self.page.as_mut().filter(|_| self.refused.is_none())?;
        if !page.end_round() {
            return None;
        }
        self.waiting = self.homes;
        Some((self.homes, self.slice()?))
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
            ScatterGather { page: Some(page), .. } => {
                Ok(OperationResult::Page(Box::new(page.into_page())))
            }
            ScatterGather { removed, .. } => Ok(OperationResult::Removed { topics: removed }),
        }
    }
}

/// Whether that says that something is not allowed.
fn is_denial(close: &Close) -> bool {
    matches!(close.code, CloseCode::NotAuthorised | CloseCode::TopicReadOnly)
}
