//! The record of changes: who has changed the server, or wanted to. Each is a line of the log and is kept in memory for a while.
//!
//! ```text
//!   shards, the control thread ─▶ record ─▶ bounds of what was not done ─▶ number ─▶ the last ones in memory ─▶ `audit`
//!                                              └─▶ one line for what was left out    └─▶ a line of the log
//! ```
//! Relies on the reactor for what is a change. Invariants: lines are numbered without gaps; nothing waits here for longer than it takes to
//! copy a page of pointers; what was not done pushes nothing out of memory that was.

mod kept;
mod refusals;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tiderace_base::{Sample, SampleValue, ShownPeer};
use tiderace_wire::{AuditEntry, AuditOutcome, AuditPage, AuditQuery, AuditRecord};
use tracing::{info, warn};

use crate::metrics::AUDIT_RECORDS;
use kept::Kept;
use refusals::Refusals;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct AuditLog {
    /// When it began, in milliseconds since 1970.
    since_ms: u64,
    book: Mutex<Book>,
    counts: Counts,
}

/// What is kept of it.
#[derive(Debug, Default)]
struct Book {
    /// The number of the last line.
    last: u64,
    kept: Kept,
    refusals: Refusals,
    /// The same for what was not answered, some of which may have been done: refusals take none of its lines.
    unanswered: Refusals,
}

/// Changes that were asked for, by what has come of them.
#[derive(Debug, Default)]
struct Counts {
    done: AtomicU64,
    refused: AtomicU64,
    unanswered: AtomicU64,
    left_out: AtomicU64,
}

/// When something was recorded.
#[derive(Clone, Copy, Debug)]
struct At {
    now: Instant,
    time_ms: u64,
}

impl At {
    fn now() -> At {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        At { now: Instant::now(), time_ms: u64::try_from(since.as_millis()).unwrap_or(u64::MAX) }
    }
}

impl Default for AuditLog {
    /// One that begins now.
    fn default() -> AuditLog {
        let since_ms = At::now().time_ms;
        AuditLog { since_ms, book: Mutex::default(), counts: Counts::default() }
    }
}

impl AuditLog {
    /// Records a change; whether somebody has to call [`AuditLog::tell_left_out`] by [`AuditLog::until`] who was not to before.
    pub(crate) fn record(&self, record: AuditRecord) -> bool {
        self.record_at(At::now(), record)
    }

    fn record_at(&self, at: At, record: AuditRecord) -> bool {
        self.tell_left_out_at(at);
        let mut book = self.book();
        if let Some(bound) = book.bound_of(&record.outcome)
            && !bound.admit(at.now, &record.who, record.verb)
        {
            self.count(&AuditOutcome::LeftOut(1));
            return bound.leave_out(&record.who, record.verb);
        }
        let entry = book.keep(at.time_ms, record);
        drop(book);
        self.count(&entry.record.outcome);
        log(&entry);
        false
    }

    /// When something is to be said of what was left out, if it is.
    pub(crate) fn until(&self) -> Option<Instant> {
        let book = self.book();
        book.refusals.until().into_iter().chain(book.unanswered.until()).min()
    }

    /// Says how much was left out in minutes that are over.
    pub(crate) fn tell_left_out(&self) {
        self.tell_left_out_at(At::now());
    }

    fn tell_left_out_at(&self, at: At) {
        loop {
            let mut book = self.book();
            let over = book.refusals.next_over(at.now);
            let over = over.or_else(|| book.unanswered.next_over(at.now));
            let Some((who, verb, count)) = over else { return };
            let (outcome, on) = (AuditOutcome::LeftOut(count), "".into());
            let record = AuditRecord { who, via: None, from: None, verb, on, outcome };
            let entry = book.keep(at.time_ms, record);
            drop(book);
            log(&entry);
        }
    }

    /// A part of what is kept.
    pub(crate) fn page(&self, query: &AuditQuery) -> AuditPage {
        let book = self.book();
        book.kept.page((self.since_ms, book.last), query)
    }

    /// The metric.
    pub(crate) fn samples(&self) -> [Sample<'static>; 4] {
        let sample = |outcome, count: &AtomicU64| Sample {
            row: &AUDIT_RECORDS,
            labels: vec![outcome],
            value: SampleValue::Number(count.load(Ordering::Relaxed)),
        };
        let Counts { done, refused, unanswered, left_out } = &self.counts;
        [
            sample("done", done),
            sample("refused", refused),
            sample("unanswered", unanswered),
            sample("left-out", left_out),
        ]
    }

    fn count(&self, outcome: &AuditOutcome) {
        let count = match outcome {
            AuditOutcome::Done(_) => &self.counts.done,
            AuditOutcome::Refused { .. } => &self.counts.refused,
            AuditOutcome::Unanswered => &self.counts.unanswered,
            AuditOutcome::LeftOut(_) => &self.counts.left_out,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// What bounds the lines of those with that outcome.
    fn bound_of(&mut self, outcome: &AuditOutcome) -> Option<&mut Refusals> {
        match outcome {
            AuditOutcome::Refused { .. } => Some(&mut self.refusals),
            AuditOutcome::Unanswered => Some(&mut self.unanswered),
            AuditOutcome::Done(_) | AuditOutcome::LeftOut(_) => None,
        }
    }

    fn keep(&mut self, time_ms: u64, record: AuditRecord) -> Arc<AuditEntry> {
        self.last += 1;
        let entry = AuditEntry { number: self.last, time_ms, record };
        let entry = Arc::new(entry);
        self.kept.add(entry.clone());
        entry
    }
}

/// Writes the line of the log.
fn log(entry: &AuditEntry) {
    let AuditEntry { number, record, .. } = entry;
    let AuditRecord { who, via, from, verb, on, outcome } = record;
    let from = from.map(|from| tracing::field::display(ShownPeer(from)));
    let (who, via) = (&**who, via.as_deref());
    let word = outcome.word();
    match outcome {
        AuditOutcome::Done(result) => info!(
            target: TARGET,
            event = "audit", number, who, via, from, verb, on, outcome = word, result = &**result
        ),
        AuditOutcome::Refused { code, reason } => warn!(
            target: TARGET,
            event = "audit", number, who, via, from, verb, on, outcome = word, code, reason = &**reason
        ),
        AuditOutcome::Unanswered => warn!(
            target: TARGET,
            event = "audit", number, who, via, from, verb, on, outcome = word
        ),
        AuditOutcome::LeftOut(count) => warn!(
            target: TARGET,
            event = "audit", number, who, verb, outcome = word, count
        ),
    }
}

/// By this the lines of the log are found.
const TARGET: &str = "tiderace::audit";
/// How long what was not done is counted together.
const WINDOW: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64, begun: Instant) -> At {
        At { now: begun + Duration::from_secs(second), time_ms: second * 1000 }
    }

    fn record(who: &str, verb: &'static str, is_done: bool) -> AuditRecord {
        let refused = AuditOutcome::Refused { code: "not-authorised", reason: "no".into() };
        let outcome = if is_done { AuditOutcome::Done("{}".into()) } else { refused };
        AuditRecord { who: who.into(), via: None, from: None, verb, on: "x".into(), outcome }
    }

    fn shown(log: &AuditLog) -> Vec<(u64, String, &'static str, AuditOutcome)> {
        let page = log.page(&AuditQuery { after: Some(0), limit: 500, ..AuditQuery::default() });
        let shown = |it: &Arc<AuditEntry>| {
            (it.number, it.record.who.to_string(), it.record.verb, it.record.outcome.clone())
        };
        page.entries.iter().map(shown).collect()
    }

    #[test]
    fn what_is_refused_again_and_again_has_some_lines_and_one_that_counts_the_rest() {
        let (log, begun) = (AuditLog::default(), Instant::now());
        let woken: Vec<bool> =
            (0..1000).map(|_| log.record_at(at(1, begun), record("eve", "kick", false))).collect();
        // Somebody has to look once the minute is over, and is told so once.
        assert_eq!(woken.iter().filter(|woken| **woken).count(), 1);
        assert_eq!(log.until(), Some(at(61, begun).now));
        // Others are recorded, and so is what is done, or may have been.
        let unanswered =
            AuditRecord { outcome: AuditOutcome::Unanswered, ..record("eve", "kick", true) };
        assert!(!log.record_at(at(2, begun), unanswered));
        assert!(!log.record_at(at(2, begun), record("ann", "kick", false)));
        assert!(!log.record_at(at(2, begun), record("eve", "purge", false)));
        assert!(!log.record_at(at(2, begun), record("eve", "kick", true)));
        let before = shown(&log);
        assert_eq!(before.len(), refusals::LINES_MAX as usize + 4);
        log.tell_left_out_at(at(60, begun));
        assert_eq!(shown(&log).len(), before.len(), "the minute is not over");
        log.tell_left_out_at(at(61, begun));
        let left_out = 1000 - u64::from(refusals::LINES_MAX);
        let (number, who, verb, outcome) = shown(&log).pop().unwrap();
        assert_eq!((number, &*who, verb), (before.len() as u64 + 1, "eve", "kick"));
        assert_eq!(outcome, AuditOutcome::LeftOut(left_out));
        assert_eq!(log.until(), None);
        // A new minute has lines of its own.
        assert!(!log.record_at(at(62, begun), record("eve", "kick", false)));
        assert_eq!(shown(&log).last().unwrap().0, before.len() as u64 + 2);
        let counted = |it: &Sample<'_>| match it.value {
            SampleValue::Number(count) => (it.labels[0].to_owned(), count),
            _ => unreachable!(),
        };
        let samples = log.samples().iter().map(counted).collect::<Vec<_>>();
        let refused = u64::from(refusals::LINES_MAX) + 3;
        let expected =
            [("done", 1), ("refused", refused), ("unanswered", 1), ("left-out", left_out)];
        assert_eq!(samples, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
