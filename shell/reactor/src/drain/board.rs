//! What all shards and other threads know of the node's drain.
//!
//! Beginnings and ends are decided under a lock, and shards are told under it, so that all of them hear of them in
//! the same order. Invariants: one drain at a time; a phase only changes while its plan is there.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tiderace_base::{Close, CloseCode, SessionId, Span};
use tiderace_wire::{DrainPhase, DrainRequest, DrainStatus};

/// What shards are told of a drain.
#[derive(Clone, Debug)]
pub(crate) struct DrainPlan {
    pub(crate) request: DrainRequest,
    /// The session that asked for it, by its link: it stays until it leaves by itself.
    pub(crate) kept: Option<(u32, SessionId)>,
    /// Whether the node ends with it.
    pub(crate) is_final: bool,
}

/// How the drain of a node stands.
#[derive(Debug, Default)]
pub(crate) struct DrainBoard {
    phase: AtomicU8,
    elapsed_ms: AtomicU64,
    /// Listeners that are closed.
    closed: AtomicU64,
    /// Cancellations that the shard with the listeners has not acted upon.
    cancellations: AtomicU64,
    /// Whether the session that asked for it is still there.
    is_kept_there: AtomicBool,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Inner {
    plan: Option<DrainPlan>,
    connections_at_begin: u64,
    goodbyes_before: u64,
}

impl DrainBoard {
    pub(crate) fn phase(&self) -> DrainPhase {
        DrainPhase::numbered(self.phase.load(Ordering::Acquire))
    }

    /// How long ago the drain was asked for.
    pub(crate) fn note_elapsed(&self, elapsed: Span) {
        self.elapsed_ms.store(elapsed.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the session that asked for it is there.
    pub(crate) fn note_kept(&self, is_there: bool) {
        self.is_kept_there.store(is_there, Ordering::Relaxed);
    }

    pub(crate) fn is_kept_there(&self) -> bool {
        self.is_kept_there.load(Ordering::Relaxed)
    }

    /// So many listeners are closed now.
    pub(crate) fn note_closed(&self, count: usize) {
        self.closed.store(count as u64, Ordering::Relaxed);
    }

    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// The shard with the listeners has acted upon a cancellation: those that it could open are open.
    pub(crate) fn note_cancelled(&self) {
        self.cancellations.fetch_sub(1, Ordering::Release);
    }

    /// Whether listeners are to open again and are not all open.
    fn is_opening(&self) -> bool {
        let is_asked = self.cancellations.load(Ordering::Acquire) > 0;
        self.phase() == DrainPhase::Serving && (is_asked || self.closed() > 0)
    }

    /// Begins a drain, or makes one that is under way the last thing that the node does. So many goodbyes have been
    /// said before; `tell` tells the shards.
    ///
    /// # Errors
    /// When one is under way that this is not to replace.
    pub(crate) fn begin(
        &self,
        plan: DrainPlan,
        goodbyes: u64,
        tell: impl FnOnce(&DrainPlan),
    ) -> Result<(), Close> {
        let mut inner = self.lock();
        match &inner.plan {
            None => {
                self.note_elapsed(Span::ZERO);
                inner.goodbyes_before = goodbyes;
                self.enter(DrainPhase::Announced);
            }
            Some(present) if plan.is_final && !present.is_final => {}
            Some(_) => return Err(bad("a drain is under way already: wait for it, or cancel it")),
        }
        self.note_kept(plan.kept.is_some());
        tell(&plan);
        inner.plan = Some(plan);
        Ok(())
    }

    /// Ends a drain.
    ///
    /// # Errors
    /// When there is none, or none that can be taken back.
    pub(crate) fn cancel(&self, tell: impl FnOnce()) -> Result<(), Close> {
        let mut inner = self.lock();
        match &inner.plan {
            None => return Err(bad("no drain is under way")),
            Some(plan) if plan.is_final => {
                return Err(bad(
                    "the server stops at the end of this drain, which cannot be undone",
                ));
            }
            Some(_) => {}
        }
        inner.plan = None;
        self.note_kept(false);
        self.cancellations.fetch_add(1, Ordering::Relaxed);
        self.enter(DrainPhase::Serving);
        tell();
        Ok(())
    }

    /// Listeners are closed, and so many connections are to go: whether that is news.
    pub(crate) fn close(&self, connections: u64) -> bool {
        let mut inner = self.lock();
        let is_news = inner.plan.is_some() && self.phase() == DrainPhase::Announced;
        if is_news {
            inner.connections_at_begin = connections;
            self.enter(DrainPhase::Draining);
        }
        is_news
    }

    /// All have left: if that is news, how many have been told, of all that ever were, and whether the node stops.
    pub(crate) fn finish(&self, goodbyes: u64) -> Option<(u64, bool)> {
        let inner = self.lock();
        let plan = inner.plan.as_ref().filter(|_| self.phase() == DrainPhase::Draining)?;
        self.enter(DrainPhase::Drained);
        let said = goodbyes.wrapping_sub(inner.goodbyes_before);
        Some((said, plan.is_final || plan.request.exit))
    }

    /// How it stands, if so many connections are to go and so many goodbyes have ever been said.
    pub(crate) fn status(&self, connections: u64, goodbyes: u64) -> DrainStatus {
        let inner = self.lock();
        let (phase, is_opening) = (self.phase(), self.is_opening());
        let status = DrainStatus { phase, connections, is_opening, ..DrainStatus::default() };
        let Some(plan) = &inner.plan else { return status };
        let is_begun = status.phase > DrainPhase::Announced;
        DrainStatus {
            request: plan.request.clone(),
            elapsed: Span::from_millis(self.elapsed_ms.load(Ordering::Relaxed)),
            connections_at_begin: if is_begun { inner.connections_at_begin } else { connections },
            goodbyes: goodbyes.wrapping_sub(inner.goodbyes_before),
            is_final: plan.is_final,
            ..status
        }
    }

    /// Waits until all have left in a drain after which the node is to stop.
    pub(crate) fn wait_for_exit(&self) {
        let is_serving = |inner: &mut Inner| {
            let exits = inner.plan.as_ref().is_some_and(|plan| plan.request.exit);
            !exits || self.phase() != DrainPhase::Drained
        };
        drop(self.changed.wait_while(self.lock(), is_serving));
    }

    /// Waits until all have left, for so long at most.
    pub(crate) fn wait_drained(&self, most: Span) {
        let has_some = |_: &mut Inner| self.phase() != DrainPhase::Drained;
        drop(self.changed.wait_timeout_while(self.lock(), most, has_some));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, phase: DrainPhase) {
        self.phase.store(phase as u8, Ordering::Release);
        self.changed.notify_all();
    }
}

fn bad(sentence: &'static str) -> Close {
    Close::new(CloseCode::BadOperation, sentence)
}
