//! The last lines of the record, in memory.
//!
//! What was done and what was not are kept apart, so that no number of refusals pushes out what has happened. Relies on numbers that
//! rise by one. Invariants: each of the two has no more than [`ENTRIES_MAX`] lines and [`BYTES_MAX`] bytes; a page has no more than
//! [`PAGE_BYTES`].

use std::collections::VecDeque;
use std::sync::Arc;

use tiderace_wire::{AuditEntry, AuditOutcome, AuditPage, AuditQuery};

/// Lines of what was done, and as many of what was not.
pub(super) const ENTRIES_MAX: usize = 1_000;
/// Their bytes, each.
pub(super) const BYTES_MAX: usize = 512 << 10;
/// Bytes of a page, about.
const PAGE_BYTES: usize = 256 << 10;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Kept {
    done: Lines,
    others: Lines,
}

#[derive(Debug, Default)]
struct Lines {
    entries: VecDeque<Arc<AuditEntry>>,
    bytes: usize,
}

impl Lines {
    fn add(&mut self, entry: Arc<AuditEntry>) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
        while self.entries.len() > ENTRIES_MAX || self.bytes > BYTES_MAX {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// Those with a number behind that one, in order.
    fn behind(&self, number: u64) -> impl DoubleEndedIterator<Item = &Arc<AuditEntry>> {
        let first = self.entries.partition_point(|entry| entry.number <= number);
        self.entries.range(first..)
    }
}

impl Kept {
    /// Keeps a line, and as many before it as there is room for.
    pub(super) fn add(&mut self, entry: Arc<AuditEntry>) {
        match entry.record.outcome {
            AuditOutcome::Done(_) => self.done.add(entry),
            _ => self.others.add(entry),
        }
    }

    /// A page: behind a number the first lines, otherwise the last; the record began at that time, and `last` is the number of
    /// the newest line that was ever kept.
    pub(super) fn page(&self, (since_ms, last): (u64, u64), query: &AuditQuery) -> AuditPage {
        // Who has come further than the server asks of an earlier life of it, and begins anew.
        let after = query.after.filter(|after| *after <= last).unwrap_or(0);
        let behind = merged(self.done.behind(after), self.others.behind(after));
        let missed = (last - after) - behind.len() as u64;
        let wanted = behind.into_iter().filter(|entry| query.wants(entry));
        match query.after {
            Some(_) => {
                let (entries, more) = taken(wanted, query.entries_max());
                let newest = entries.last().map(|entry| entry.number).filter(|_| more);
                AuditPage { next: newest.unwrap_or(last), more, missed, since_ms, entries }
            }
            None => {
                let (mut entries, _) = taken(wanted.rev(), query.entries_max());
                entries.reverse();
                AuditPage { next: last, more: false, missed, since_ms, entries }
            }
        }
    }
}

/// Both in the order of their numbers.
fn merged<'a>(
    done: impl Iterator<Item = &'a Arc<AuditEntry>>,
    others: impl Iterator<Item = &'a Arc<AuditEntry>>,
) -> Vec<&'a Arc<AuditEntry>> {
    let mut all: Vec<&Arc<AuditEntry>> = done.chain(others).collect();
    // Two stretches that are in order already.
    all.sort_by_key(|entry| entry.number);
    all
}

/// As many as fit into a page, and whether there are more.
fn taken<'a>(
    mut entries: impl Iterator<Item = &'a Arc<AuditEntry>>,
    most: usize,
) -> (Vec<Arc<AuditEntry>>, bool) {
    let (mut page, mut bytes) = (Vec::new(), 0);
    for entry in entries.by_ref() {
        if page.len() == most || bytes > PAGE_BYTES {
            return (page, true);
        }
        bytes += entry.bytes();
        page.push(entry.clone());
    }
    (page, false)
}

#[cfg(test)]
mod tests {
    use tiderace_wire::AuditRecord;

    use super::*;

    fn entry(number: u64, is_done: bool, on: &str) -> Arc<AuditEntry> {
        let refused = AuditOutcome::Refused { code: "not-authorised", reason: "no".into() };
        let outcome = if is_done { AuditOutcome::Done("{}".into()) } else { refused };
        let who = if number.is_multiple_of(2) { "ann" } else { "oli" }.into();
        let (via, from, on) = (None, None, on.into());
        let record = AuditRecord { who, via, from, verb: "kick", on, outcome };
        Arc::new(AuditEntry { number, time_ms: 0, record })
    }

    fn numbers(page: &AuditPage) -> Vec<u64> {
        page.entries.iter().map(|entry| entry.number).collect()
    }

    fn query(after: Option<u64>, limit: u32) -> AuditQuery {
        AuditQuery { after, limit, ..AuditQuery::default() }
    }

    #[test]
    fn pages_go_on_behind_a_number_or_show_the_last() {
        let mut kept = Kept::default();
        let empty = AuditPage { since_ms: 7, ..AuditPage::default() };
        assert_eq!(kept.page((7, 0), &query(None, 0)), empty);
        (1..=10).for_each(|number| kept.add(entry(number, number % 3 > 0, "")));
        let page = |after, limit| kept.page((7, 10), &query(after, limit));
        let last = page(None, 3);
        assert_eq!((numbers(&last), last.next, last.more), (vec![8, 9, 10], 10, false));
        let first = page(Some(0), 4);
        assert_eq!((numbers(&first), first.next, first.more), (vec![1, 2, 3, 4], 4, true));
        let rest = page(Some(first.next), 100);
        assert_eq!((rest.entries.len(), rest.next, rest.more, rest.missed), (6, 10, false, 0));
        // Who has more than there is begins anew, as behind a restart.
        let ahead = page(Some(99), 100);
        assert_eq!((numbers(&ahead).len(), ahead.next, ahead.missed), (10, 10, 0));
        let anns = AuditQuery { who: Some("ann".into()), ..query(Some(0), 2) };
        let anns = kept.page((7, 10), &anns);
        assert_eq!((numbers(&anns), anns.next, anns.more), (vec![2, 4], 4, true));
    }

    #[test]
    fn refusals_push_out_nothing_that_was_done_and_what_is_gone_is_counted() {
        let mut kept = Kept::default();
        (1..=10).for_each(|number| kept.add(entry(number, true, "")));
        (11..=5_000).for_each(|number| kept.add(entry(number, false, "")));
        let all = kept.page((7, 5_000), &query(Some(0), 500));
        assert_eq!(numbers(&all)[..11], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 4_001]);
        assert_eq!(all.missed, 5_000 - 10 - ENTRIES_MAX as u64);
        assert_eq!(kept.page((7, 5_000), &query(Some(4_500), 500)).missed, 0);
        assert_eq!(kept.page((7, 5_000), &query(Some(4_000), 500)).missed, 0);
        assert_eq!(kept.page((7, 5_000), &query(Some(3_990), 500)).missed, 10);
    }

    #[test]
    fn long_lines_are_fewer_and_pages_of_them_shorter() {
        let (mut kept, long) = (Kept::default(), "x".repeat(2_000));
        (1..=2_000).for_each(|number| kept.add(entry(number, true, &long)));
        assert!(kept.done.bytes <= BYTES_MAX && kept.done.entries.len() > 200);
        let mut page = kept.page((7, 2_000), &query(Some(0), 500));
        let (mut count, mut pages) = (page.entries.len(), 1);
        while page.more {
            page = kept.page((7, 2_000), &query(Some(page.next), 500));
            (count, pages) = (count + page.entries.len(), pages + 1);
        }
        assert_eq!((count, pages), (kept.done.entries.len(), 2));
    }
}
