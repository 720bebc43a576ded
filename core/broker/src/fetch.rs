//! Listing topics, in the order of their paths and a slice at a time.
//!
//! Each home makes a slice of its own topics, bounded by number and bytes; the asking session's shard
//! merges them, and puts slices together to a page ([`crate::page_rounds`]). With a depth, a branch stands for
//! all below it and what has so many levels; a caller that has listed one goes on behind all that it stands for.
//! Invariants: a slice ends with the last path up to which all homes have looked, so that the next slice begins there and
//! nothing is left out; that is a branch if it has been listed, so that none is listed twice.

use tiderace_base::Now;
use tiderace_topics::Path;
use tiderace_wire::{Fetch, Kind, Page, TopicEntry};

use crate::Action;
use crate::access::is_owned_by;
use crate::home::home_topics::TopicAtHome;
use crate::home_side::HomeSide;
use crate::requester::Requester;

/// Topics of one slice. Without values, a quarter of a millisecond where nothing of them is in the processor's caches.
pub(crate) const SLICE_TOPICS_MAX: usize = 128;
/// Bytes of the paths, values and specifications of one page, and of one slice; one topic alone may have more.
pub(crate) const PAGE_BYTES_MAX: usize = 1 << 20;
/// Topics that are looked at for one slice.
pub(crate) const LOOKED_AT_MAX: usize = 512;
/// What a topic counts for besides its path, value and specification.
const ENTRY_BYTES: usize = 64;

impl HomeSide<'_> {
    /// At a home: a slice of its topics.
    pub(crate) fn slice(&self, now: Now, requester: &Requester, fetch: &Fetch) -> Page {
        let limit = (fetch.limit as usize).clamp(1, SLICE_TOPICS_MAX);
        let mut page = Page::default();
        let mut bytes = 0;
        let mut looked_at = 0;
        let mut next = fetch.after.clone();
        let mut from = fetch.after.as_ref().map(|after| behind(after, fetch.depth));
        'walks: loop {
            let walk = self.directory.walk_some(&fetch.selector, from.as_deref());
            for (_, topic) in walk {
                let full = page.topics.len() == limit || bytes >= PAGE_BYTES_MAX;
                if full || looked_at == LOOKED_AT_MAX {
                    page.more = true;
                    break 'walks;
                }
                looked_at += 1;
                next = Some(topic.path.clone());
                let topic = self.home.at(topic);
                if !topic.is_named(&fetch.selector) || !self.may_see(requester, topic, fetch.values)
                {
                    continue;
                }
                let entry = match branch(topic.path(), fetch.depth) {
                    Some(path) => TopicEntry { path, spec: None, value: None, version: 0 },
                    None => entry(topic, now, (fetch.values, fetch.specs)),
                };
                bytes += bytes_of(&entry);
                let stands_for_all = levels(&entry.path) == fetch.depth as usize;
                page.topics.push(entry);
                if stands_for_all && let Some(listed) = page.topics.last() {
                    next = Some(listed.path.clone());
                    from = Some(behind(&listed.path, fetch.depth));
                    continue 'walks;
                }
            }
            break;
        }
        page.next = next.filter(|_| page.more);
        page
    }

    /// Who may subscribe to a topic sees it, and who may browse it does without its value.
    fn may_see(&self, requester: &Requester, topic: TopicAtHome<'_>, values: bool) -> bool {
        let (path, caller) = (topic.path(), requester.caller());
        let may = |action| self.options.may(caller, action, Kind::Topic, path);
        is_owned_by(topic.spec(), &requester.principal, path)
            || may(Action::Subscribe)
            || !values && may(Action::Browse)
    }
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

fn levels(path: &Path) -> usize {
    path.as_str().split('/').count()
}

/// Where a walk goes on that has come to a path: if that stands for all below it, behind these.
fn behind(path: &Path, depth: u32) -> String {
    let mut text = path.as_str().to_owned();
    if levels(path) == depth as usize {
        // In the order of paths, nothing but what is below stands between the path and this.
        text.push('\u{1}');
    }
    text
}

/// What is told of a topic; with its value and its specification if these are wanted.
pub(crate) fn entry(topic: TopicAtHome<'_>, now: Now, (values, specs): (bool, bool)) -> TopicEntry {
    TopicEntry {
        path: topic.path().clone(),
        spec: specs.then(|| topic.spec().clone()),
        value: if values { topic.value(now) } else { None },
        version: topic.home().map_or(0, |home| home.last_version()),
    }
}

/// What an entry takes of a page.
pub(crate) fn bytes_of(entry: &TopicEntry) -> usize {
    ENTRY_BYTES + entry.bytes()
}

/// Puts the slices of all homes together: in order, up to where each of them has looked.
pub(crate) fn merge_slices(slices: Vec<Page>, limit: usize, depth: u32) -> Page {
    let mut end = slices.iter().filter(|page| page.more).filter_map(|page| page.next.clone()).min();
    let mut topics: Vec<TopicEntry> = slices.into_iter().flat_map(|page| page.topics).collect();
    // Of a branch that several homes have, the topic of that path if there is one.
    let fullness = |entry: &TopicEntry| (entry.spec.is_some(), entry.version);
    topics.sort_by(|a, b| a.path.cmp(&b.path).then_with(|| fullness(b).cmp(&fullness(a))));
    topics.dedup_by(|later, first| later.path == first.path);
    // One home may have stopped below a branch that another has listed.
    let listed = end.as_ref().and_then(|end| branch(end, depth));
    if let Some(listed) = listed
        && topics.binary_search_by(|entry| entry.path.cmp(&listed)).is_ok()
    {
        end = Some(listed);
    }
    if let Some(end) = &end {
        topics.retain(|entry| entry.path <= *end);
    }
    let more = end.is_some() || topics.len() > limit;
    if topics.len() > limit {
        topics.truncate(limit);
        end = topics.last().map(|entry| entry.path.clone());
    }
    Page { more, next: end, topics }
}
