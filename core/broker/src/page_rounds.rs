//! A page of topics, put together from what the homes list in several rounds.
//!
//! Each round asks all homes for a slice of the page, and the next goes on behind it. A home that has many topics makes one
//! slice in a turn for a session; where it has few, several rounds may fit into a turn's work budget.
//! Relies on [`crate::fetch`] for what a home lists. Invariants: a round begins behind all that was listed before, so that
//! nothing is listed twice or left out; what changes between two rounds is listed as it is then; all rounds ask the
//! same homes, so that a page lacks nothing of one that is lost meanwhile: it is refused; the number of rounds is bounded,
//! whatever the homes find.

use tiderace_wire::{Fetch, Page};

use crate::fetch::{PAGE_BYTES_MAX, SLICE_TOPICS_MAX, bytes_of, merge_slices};

/// Topics of one page, since the asking shard writes them down in one turn; for the same reason its bytes are bounded.
const PAGE_MAX: usize = 1_000;
/// Rounds of one page that may list fewer topics than were asked for, since homes have looked at as many as they may or have
/// found that many bytes.
const SPARSE_ROUNDS_MAX: usize = 16;

/// A page of which some rounds are done.
#[derive(Debug)]
pub(crate) struct PageRounds {
    fetch: Fetch,
    /// Topics of the whole page, at most.
    limit: usize,
    page: Page,
    bytes: usize,
    sparse: usize,
    /// What the homes have answered in this round.
    slices: Vec<Page>,
}

impl PageRounds {
    /// None is done.
    pub(crate) fn new(fetch: &Fetch) -> PageRounds {
        let limit = match fetch.limit as usize {
            0 => PAGE_MAX,
            wanted => wanted.min(PAGE_MAX),
        };
        let (fetch, page) = (fetch.clone(), Page::default());
        PageRounds { fetch, limit, page, bytes: 0, sparse: 0, slices: Vec::new() }
    }

    /// What each home is to list in this round.
    pub(crate) fn slice(&self) -> Box<Fetch> {
        Box::new(Fetch { limit: self.wanted() as u32, ..self.fetch.clone() })
    }

    /// Topics of this round, at most.
    fn wanted(&self) -> usize {
        (self.limit - self.page.topics.len()).min(SLICE_TOPICS_MAX)
    }

    /// A home has answered.
    pub(crate) fn take_in(&mut self, slice: Page) {
        self.slices.push(slice);
    }

    /// All homes have answered: what they listed comes into the page. Whether there is to be another round.
    pub(crate) fn end_round(&mut self) -> bool {
        let wanted = self.wanted();
        let slice = merge_slices(std::mem::take(&mut self.slices), wanted, self.fetch.depth);
        self.sparse += usize::from(slice.topics.len() < wanted);
        (self.page.more, self.page.next) = (slice.more, slice.next);
        for entry in slice.topics {
            if self.bytes >= PAGE_BYTES_MAX {
                self.page.more = true;
                self.page.next = self.page.topics.last().map(|last| last.path.clone());
                break;
            }
            self.bytes += bytes_of(&entry);
            self.page.topics.push(entry);
        }
        self.fetch.after.clone_from(&self.page.next);
        self.page.more
            && self.page.topics.len() < self.limit
            && self.bytes < PAGE_BYTES_MAX
            && self.sparse < SPARSE_ROUNDS_MAX
    }

    /// The page, when there is to be no other round.
    pub(crate) fn into_page(self) -> Page {
        self.page
    }
}
