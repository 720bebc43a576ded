//! Listing topics, in the order of their paths and a page at a time.
//!
//! Each home makes a page of its own topics, bounded by number and bytes; the asking session's shard
//! merges them. Invariant: a page ends with the last path up to which all homes have looked, so that
//! the next page begins there and nothing is left out.

use tiderace_base::Now;
use tiderace_topics::Path;
use tiderace_wire::{Fetch, Kind, Page, TopicEntry};

use crate::Action;
use crate::broker::Broker;
use crate::operate::Operator;
use crate::topic::Topic;

/// Topics of one page.
const PAGE_MAX: usize = 10_000;
/// Topics of one page if nobody says how many.
const PAGE_DEFAULT: usize = 1_000;
/// Bytes of the values of one page; one value alone may be larger.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// Topics that are looked at for one page.
const LOOKED_AT_MAX: usize = 8192;
/// What a topic counts for besides its value.
const ENTRY_BYTES: usize = 64;

impl Broker {
    /// At a home: a page of its topics.
    pub(crate) fn page(&self, now: Now, operator: &Operator, fetch: &Fetch) -> Page {
        let limit = page_size(fetch.limit as usize);
        let mut page = Page::default();
        let mut bytes = 0;
        let mut last: Option<&Topic> = None;
        let topics = self.names.walk_some(&fetch.selector, fetch.after.as_ref(), &self.topics);
        for (looked_at, (_, topic)) in topics.enumerate() {
            let full = page.topics.len() == limit || bytes >= PAGE_BYTES_MAX;
            if full || looked_at == LOOKED_AT_MAX {
                page.more = true;
                break;
            }
            last = Some(topic);
            if !topic.is_named(&fetch.selector) {
                continue;
            }
            let may = || {
                let own = topic.spec.owner.as_deref() == Some(&*operator.principal.name);
                let rules = &self.options.rules;
                let principal = &operator.principal;
                own && !principal.anonymous
                    || rules.authorise(principal, Action::Subscribe, Kind::Topic, &topic.path)
            };
            let branch = branch(&topic.path, fetch.depth);
            let listed = branch.as_ref() == page.topics.last().map(|entry| &entry.path);
            if branch.is_some() && listed || !may() {
                continue;
            }
            let entry = match branch {
                Some(path) => TopicEntry { path, spec: None, value: None, version: 0 },
                None => entry(topic, now, fetch),
            };
            bytes += ENTRY_BYTES + entry.value.as_ref().map_or(0, |run| run.bytes());
            page.topics.push(entry);
        }
        if page.more {
            page.next = last.map(|topic| topic.path.clone());
        }
        page
    }
}

/// How many topics a page has for whom so many are wanted; zero: as many as is usual.
fn page_size(wanted: usize) -> usize {
    if wanted == 0 { PAGE_DEFAULT } else { wanted.min(PAGE_MAX) }
}

/// The path that stands for one with more levels than are wanted.
fn branch(path: &Path, depth: u32) -> Option<Path> {
    let depth = depth as usize;
    if depth == 0 {
        return None;
    }
    let (end, _) = path.as_str().match_indices('/').nth(depth - 1)?;
    Path::parse(path.as_str().get(..end)?).ok()
}

fn entry(topic: &Topic, now: Now, fetch: &Fetch) -> TopicEntry {
    let home = topic.home.as_ref();
    TopicEntry {
        path: topic.path.clone(),
        spec: fetch.specs.then(|| topic.spec.clone()),
        value: if fetch.values { topic.value(now) } else { None },
        version: home.map_or(0, |home| home.next_version.saturating_sub(1)),
    }
}

/// Puts the pages of all homes together: in order, up to where each of them has looked.
pub(crate) fn merge_pages(pages: Vec<Page>, limit: usize) -> Page {
    let limit = page_size(limit);
    let end = pages.iter().filter(|page| page.more).filter_map(|page| page.next.clone()).min();
    let mut merged = Page { more: end.is_some(), next: end.clone(), topics: Vec::new() };
    for page in pages {
        merged.topics.extend(page.topics);
    }
    merged.topics.sort_by(|a, b| a.path.cmp(&b.path));
    // Of a branch that several homes have.
    merged.topics.dedup_by(|later, first| later.path == first.path && later.version == 0);
    if let Some(end) = &end {
        merged.topics.retain(|entry| entry.path <= *end);
    }
    if merged.topics.len() > limit {
        merged.topics.truncate(limit);
        merged.more = true;
        merged.next = merged.topics.last().map(|entry| entry.path.clone());
    }
    merged
}
