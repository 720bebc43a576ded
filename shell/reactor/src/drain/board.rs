//! What all shards and other threads know of the node's drain.
//!
//! Beginnings and ends are decided under a lock, and shards are told under it, so that all of them hear of them in
//! the same order. Each beginning and each end has a number, so that what a shard says of an earlier drain changes
//! nothing. Invariants: one drain at a time; the node serves only when all listeners are open.

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
    /// Listeners that are closed; the shard that has them says so.
    closed: AtomicU64,
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
    /// How often a drain has begun or ended.
    number: u64,
    /// The node stops: no drain begins, and none ends.
    is_stopping: bool,
}

impl DrainBoard {
    pub(crate) fn phase(&self) -> DrainPhase {
        DrainPhase::numbered(self.phase.load(Ordering::Acquire))
    }

    /// How long ago the drain was asked for.
    pub(crate) fn note_elapsed(&self, elapsed: Span) {
        self.elapsed_ms.store(elapsed.as_millis() as u64, Ordering::Relaxed);
    }

    /// Whether the session that asked for the drain of that number is there.
    pub(crate) fn note_kept(&self, is_there: bool, number: u64) {
        let inner = self.lock();
        let keeps = inner.plan.as_ref().is_some_and(|plan| plan.kept.is_some());
        if inner.number == number && keeps {
            self.is_kept_there.store(is_there, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_kept_there(&self) -> bool {
        self.is_kept_there.load(Ordering::Relaxed)
    }

    /// So many listeners are closed, as far as the shard that has them has acted upon beginnings and ends, of which
    /// this is the last.
    pub(crate) fn note_closed(&self, count: usize, number: u64) {
        let inner = self.lock();
        self.closed.store(count as u64, Ordering::Relaxed);
        if count == 0 && self.phase() == DrainPhase::Opening && inner.number == number {
            self.enter(DrainPhase::Serving);
        }
    }

    /// The node stops: from now on no drain begins, and none is taken back.
    pub(crate) fn stop(&self) {
        self.lock().is_stopping = true;
    }

    pub(crate) fn closed(&self) -> u64 {
        self.closed.load(Ordering::Relaxed)
    }

    /// Begins a drain, or makes one that is under way the last thing that the node does. So many goodbyes have been
    /// said before; `tell` tells the shards, with its number.
    ///
    /// # Errors
    /// When one is under way that this is not to replace, or the node stops.
    pub(crate) fn begin(
        &self,
        plan: DrainPlan,
        goodbyes: u64,
        tell: impl FnOnce(&DrainPlan, u64),
    ) -> Result<(), Close> {
        let mut inner = self.lock();
        if inner.is_stopping {
            return Err(bad(STOPPING));
        }
        match &inner.plan {
            None => {
                inner.number += 1;
                self.note_elapsed(Span::ZERO);
                inner.goodbyes_before = goodbyes;
                self.enter(DrainPhase::Announced);
            }
            Some(present) if plan.is_final && !present.is_final => {}
            Some(_) => return Err(bad("a drain is under way already: wait for it, or cancel it")),
        }
        self.is_kept_there.store(plan.kept.is_some(), Ordering::Relaxed);
        tell(&plan, inner.number);
        inner.plan = Some(plan);
        Ok(())
    }

    /// Ends a drain; `tell` tells the shards by which number. Does nothing while listeners open after one.
    ///
    /// # Errors
    /// When there is none, or none that can be taken back.
    pub(crate) fn cancel(&self, tell: impl FnOnce(u64)) -> Result<(), Close> {
        let mut inner = self.lock();
        // A drain after which the node stops has told it to when all have left.
        let exits = inner.plan.as_ref().is_some_and(|plan| plan.request.exit);
        if inner.is_stopping || (exits && self.phase() == DrainPhase::Drained) {
            return Err(bad(STOPPING));
        }
        match &inner.plan {
            // It was taken back before: who asks again waits for the listeners as well.
            None if self.phase() == DrainPhase::Opening => return Ok(()),
            None => return Err(bad("no drain is under way")),
            Some(plan) if plan.is_final => {
                return Err(bad(
                    "the server stops at the end of this drain, which cannot be undone",
                ));
            }
            Some(_) => {}
        }
        inner.plan = None;
        self.is_kept_there.store(false, Ordering::Relaxed);
        inner.number += 1;
        self.enter(DrainPhase::Opening);
        tell(inner.number);
        Ok(())
    }

    /// Listeners are closed by the drain of that number, and so many connections are to go: whether that is news.
    pub(crate) fn close(&self, connections: u64, number: u64) -> bool {
        let mut inner = self.lock();
        let is_news = inner.number == number && self.phase() == DrainPhase::Announced;
        if is_news {
            inner.connections_at_begin = connections;
            self.enter(DrainPhase::Draining);
        }
        is_news
    }

    /// All have left by the drain of that number: if that is news, how many have been told, of all that ever were, and
    /// whether the node stops.
    pub(crate) fn finish(&self, goodbyes: u64, number: u64) -> Option<(u64, bool)> {
        let inner = self.lock();
        let is_due = inner.number == number && self.phase() == DrainPhase::Draining;
        let plan = inner.plan.as_ref().filter(|_| is_due)?;
        self.enter(DrainPhase::Drained);
        let said = goodbyes.wrapping_sub(inner.goodbyes_before);
        Some((said, plan.is_final || plan.request.exit))
    }

    /// How it stands, if so many connections are to go and so many goodbyes have ever been said.
    pub(crate) fn status(&self, connections: u64, goodbyes: u64) -> DrainStatus {
        let inner = self.lock();
        let status = DrainStatus { phase: self.phase(), connections, ..DrainStatus::default() };
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

const STOPPING: &str = "the server is stopping";

fn bad(sentence: &'static str) -> Close {
    Close::new(CloseCode::BadOperation, sentence)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tiderace_base::ShardId;

    use super::*;

    fn begin(board: &DrainBoard) -> u64 {
        let request = DrainRequest::default();
        begin_with(board, DrainPlan { request, kept: None, is_final: false })
    }

    fn begin_with(board: &DrainBoard, plan: DrainPlan) -> u64 {
        let mut told = 0;
        board.begin(plan, 0, |_, number| told = number).unwrap();
        told
    }

    fn cancel(board: &DrainBoard) -> u64 {
        let mut told = 0;
        board.cancel(|number| told = number).unwrap();
        told
    }

    #[test]
    fn what_is_said_of_an_earlier_drain_changes_nothing() {
        let board = DrainBoard::default();
        let (first, first_end, second) = (begin(&board), cancel(&board), begin(&board));
        assert!(!board.close(9, first) && board.finish(0, first).is_none());
        board.note_closed(0, first_end);
        assert_eq!(board.phase(), DrainPhase::Announced);
        assert!(board.close(9, second) && board.finish(0, first).is_none());
        let second_end = cancel(&board);
        for number in [first, first_end, second] {
            board.note_closed(0, number);
            assert_eq!(board.phase(), DrainPhase::Opening);
        }
        board.note_closed(0, second_end);
        assert_eq!(board.phase(), DrainPhase::Serving);
    }

    #[test]
    fn a_node_serves_when_all_its_listeners_are_open() {
        let board = DrainBoard::default();
        begin(&board);
        let end = cancel(&board);
        board.note_closed(1, end);
        assert_eq!((board.phase(), cancel(&board)), (DrainPhase::Opening, 0));
        board.note_closed(0, end);
        assert_eq!(board.phase(), DrainPhase::Serving);
        assert!(board.cancel(|_| ()).is_err());
    }

    #[test]
    fn no_drain_begins_or_is_taken_back_while_the_node_stops() {
        let board = DrainBoard::default();
        begin(&board);
        board.stop();
        assert!(board.cancel(|_| ()).is_err());
        assert_eq!(board.phase(), DrainPhase::Announced);

        // Nobody is to wait for listeners that will not open.
        let board = DrainBoard::default();
        begin(&board);
        cancel(&board);
        board.stop();
        assert!(board.cancel(|_| ()).is_err());

        let board = DrainBoard::default();
        board.stop();
        let plan = DrainPlan { request: DrainRequest::default(), kept: None, is_final: true };
        assert!(board.begin(plan, 0, |_, _| ()).is_err());
    }

    #[test]
    fn a_drain_after_which_the_node_stops_cannot_be_taken_back_when_all_have_left() {
        let board = DrainBoard::default();
        let request = DrainRequest { exit: true, ..DrainRequest::default() };
        let number = begin_with(&board, DrainPlan { request, kept: None, is_final: false });
        assert!(board.close(1, number));
        assert_eq!(board.finish(1, number), Some((1, true)));
        assert!(board.cancel(|_| ()).is_err());
        assert_eq!(board.phase(), DrainPhase::Drained);
    }

    #[test]
    fn only_the_shard_of_a_session_that_is_kept_now_says_whether_it_is_there() {
        let board = DrainBoard::default();
        let kept = Some((1, SessionId { shard: ShardId(1), slot: 0, generation: 0 }));
        let keeps = |kept| DrainPlan { request: DrainRequest::default(), kept, is_final: false };
        let first = begin_with(&board, keeps(kept));
        board.note_kept(false, first);
        assert!(!board.is_kept_there());
        board.note_kept(true, first);
        assert!(board.is_kept_there());
        cancel(&board);
        board.note_kept(true, first);
        assert!(!board.is_kept_there());
        let second = begin_with(&board, keeps(kept));
        board.note_kept(false, first);
        assert!(board.is_kept_there());
        // What ends with the node keeps nobody, and has the number of what it replaces.
        let last = begin_with(&board, DrainPlan { is_final: true, ..keeps(None) });
        board.note_kept(true, second);
        assert_eq!((board.is_kept_there(), last), (false, second));
    }
}
