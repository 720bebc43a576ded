//! Walks over all sessions of the node that somebody has asked for, and how far each of them has come on one shard.
//!
//! ```text
//!   session asks ─▶ job ─▶ a walk on each shard, some places a turn ─▶ its part ─▶ the last one answers
//! ```
//! Relies on the caller to look at the places. Invariants: a turn looks at no more places than one slice has, however many
//! walks there are; of each walk a shard keeps no more than a page; a job is answered once.

use std::collections::{BinaryHeap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use tiderace_base::{Close, Key, SessionId};
use tiderace_broker::Operated;
use tiderace_wire::{
    BlockResult, Kick, OperationResult, SessionFilter, SessionPage, SessionQuery, SessionRank,
};

/// What is to be done with sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SessionWork {
    /// A page of them is to be listed.
    List(SessionQuery),
    /// They are to end.
    Kick(Kick),
    /// They are to end, since who has them is kept out from now on.
    Block(Box<BlockWork>),
}

/// What a block does with the sessions that are there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BlockWork {
    /// Those of whom it keeps out.
    pub(crate) filter: SessionFilter,
    /// What their clients are told.
    pub(crate) close: Close,
    /// Until when it lasts, in milliseconds since 1970.
    pub(crate) until_ms: u64,
    /// Whether they are only to be counted.
    pub(crate) dry_run: bool,
}

impl SessionWork {
    /// Which sessions are meant.
    pub(crate) fn filter(&self) -> &SessionFilter {
        match self {
            SessionWork::List(query) => &query.filter,
            SessionWork::Kick(kick) => &kick.filter,
            SessionWork::Block(work) => &work.filter,
        }
    }

    /// With which words the sessions that are meant end, if they do; none if they are only to be counted.
    pub(crate) fn end(&self) -> Option<Close> {
        match self {
            SessionWork::Kick(kick) if !kick.dry_run => Some(kick.close()),
            SessionWork::Block(work) if !work.dry_run => Some(work.close.clone()),
            _ => None,
        }
    }
}

/// Tells who has asked what came of it.
pub(crate) type Answer = Box<dyn FnOnce(Operated) + Send>;

/// One walk over all sessions, as all shards share it.
pub(crate) struct SessionJob {
    pub(crate) what: SessionWork,
    /// The session that has asked.
    pub(crate) asking: SessionId,
    shards: usize,
    outcome: Mutex<Outcome>,
    /// Counts the jobs that are open.
    _open: Arc<()>,
}

struct Outcome {
    parts: Vec<Part>,
    answer: Option<Answer>,
}

/// What one shard has found.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) page: SessionPage,
}

impl SessionJob {
    /// One for so many shards, which the caller tells; it is counted by `open`.
    pub(crate) fn new(
        what: SessionWork,
        asking: SessionId,
        shards: usize,
        answer: Answer,
        open: Arc<()>,
    ) -> SessionJob {
        let outcome = Mutex::new(Outcome { parts: Vec::new(), answer: Some(answer) });
        SessionJob { what, asking, shards, outcome, _open: open }
    }

    /// A shard has walked to its end. The last of them answers who has asked.
    pub(crate) fn give(&self, part: Part) {
        let mut outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        outcome.parts.push(part);
        if outcome.parts.len() < self.shards {
            return;
        }
        let (parts, answer) = (std::mem::take(&mut outcome.parts), outcome.answer.take());
        drop(outcome);
        if let Some(answer) = answer {
            answer(Ok(self.what.outcome(parts)));
        }
    }
}

impl SessionWork {
    /// What has come of it on all shards.
    fn outcome(&self, parts: Vec<Part>) -> OperationResult {
        match self {
            SessionWork::List(query) => {
                let pages = parts.into_iter().map(|part| part.page).collect();
                OperationResult::Sessions(Box::new(SessionPage::merge(query, pages)))
            }
            SessionWork::Kick(kick) => {
                let sessions = parts.iter().map(|part| part.page.matched).sum();
                OperationResult::Kicked { sessions, dry_run: kick.dry_run }
            }
            SessionWork::Block(work) => {
                let sessions = parts.iter().map(|part| part.page.matched).sum();
                let BlockWork { until_ms, dry_run, .. } = **work;
                let result = BlockResult::Blocked { sessions, until_ms, dry_run };
                OperationResult::Blocks(Box::new(result))
            }
        }
    }
}

/// How far a walk has come on a shard.
pub(crate) struct Walk {
    pub(crate) job: Arc<SessionJob>,
    /// The next place to look at.
    next: u32,
    /// Sessions that are meant.
    pub(crate) matched: u64,
    /// The first of them in the order that is wanted, as many as a page has.
    found: BinaryHeap<(SessionRank, Key)>,
    /// Whether there are more than these.
    pub(crate) has_more: bool,
}

impl Walk {
    pub(crate) fn new(job: Arc<SessionJob>) -> Walk {
        Walk { job, next: 0, matched: 0, found: BinaryHeap::new(), has_more: false }
    }

    /// The next place to look at, of so many.
    pub(crate) fn next(&mut self, places: u32) -> Option<u32> {
        let next = (self.next < places).then_some(self.next);
        self.next += u32::from(next.is_some());
        next
    }

    /// Whether all of so many places have been looked at.
    pub(crate) fn is_over(&self, places: u32) -> bool {
        self.next >= places
    }

    /// A session belongs to the list; it is kept if it is among the first `most`.
    pub(crate) fn keep(&mut self, rank: SessionRank, key: Key, most: usize) {
        let found = (rank, key);
        if self.found.len() < most {
            return self.found.push(found);
        }
        self.has_more = true;
        // Places are mostly in the order of ids, so that by ids nearly none is pushed that does not stay.
        if let Some(mut last) = self.found.peek_mut()
            && found < *last
        {
            *last = found;
        }
    }

    /// The sessions that were kept, in order.
    pub(crate) fn take_found(&mut self) -> Vec<(SessionRank, Key)> {
        std::mem::take(&mut self.found).into_sorted_vec()
    }
}

/// The walks of one shard, one after the other.
#[derive(Default)]
pub(crate) struct SessionWalks(VecDeque<Walk>);

impl SessionWalks {
    /// Whether a shard has something to do for them.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn begin(&mut self, job: Arc<SessionJob>) {
        self.0.push_back(Walk::new(job));
    }

    /// Hands the first one out; what is not put back is over.
    pub(crate) fn take(&mut self) -> Option<Walk> {
        self.0.pop_front()
    }

    /// It has not come to its end. Others come first, so that a long one holds up none.
    pub(crate) fn put_back(&mut self, walk: Walk) {
        self.0.push_back(walk);
    }
}
