//! What clients have missed that this node has not kept, from the upstream.
//!
//! Who asks within one tick for the same topics shares one subscription there, which begins where the first of them left
//! off and ends when what was missed has come. Invariants: what is brought so is given to those who lack it and to nobody
//! else; when it has come, the subscriptions that go on have brought everything up to there as well, so that what they
//! bring from then on is newer.

use std::sync::Arc;

use tiderace_base::{Now, ShardId};
use tiderace_wire::{Run, SubscriptionKey, Target, ToUpstream};

use super::coming_back::unknown;
use super::held::What;
use crate::deputy_side::DeputySide;
use crate::effects::Effects;
use crate::messages::{Answer, Ask, LocalMessage, Missed};
use crate::places::Place;

impl DeputySide<'_> {
    /// A client has missed something that the upstream may know.
    pub(super) fn ask_for_missed(&mut self, at: usize, target: Target, ask: (Place, What, Ask)) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(since) = &ask.2.since else { return };
        let since = deputy.numberings.part_of(since, deputy.epoch);
        self.home.metrics.upstream_backfills += 1;
        deputy.backfills.add(target, since, ask);
    }

    /// Asks the upstream for what was collected.
    pub(super) fn begin_backfills(&mut self, at: usize) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let Some(session) = deputy.link else { return };
        for backfill in deputy.backfills.take_collected() {
            let key = deputy.subscriptions.take_for_backfill();
            let (target, since) = (backfill.target.clone(), Some(backfill.since.clone()));
            deputy.backfills.under_way.insert(key, backfill);
            let asked = ToUpstream::Subscribe { key: SubscriptionKey(key), target, since };
            self.home.loopback.hand_on(LocalMessage::Upstream { session, asked: Box::new(asked) });
        }
    }

    /// Messages have come; whether they are for clients that lack them.
    pub(super) fn collect(&mut self, at: usize, key: u32, run: &Run) -> bool {
        let most = self.home.options.backlog_bytes_high;
        let deputy = self.deputies.list.get_mut(at);
        deputy.is_some_and(|deputy| deputy.backfills.collect(key, run, most))
    }

    /// The upstream has brought everything, or nothing; whether that was for clients.
    pub(super) fn end_backfill(
        &mut self,
        now: Now,
        at: usize,
        key: u32,
        came: bool,
        effects: &mut Effects,
    ) -> bool {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return false };
        let Some(backfill) = deputy.backfills.end(key) else { return false };
        deputy.subscriptions.end_backfill(key);
        match came {
            true => self.end_at_upstream(at, key),
            false => deputy.subscriptions.ended(key),
        }
        if !came || !backfill.complete || backfill.is_too_much {
            for ask in backfill.asks {
                self.answer_incomplete(now, at, ask, effects);
            }
            return true;
        }
        let runs = numbered(self.home.shard, backfill.runs);
        for (from, _, ask) in backfill.asks {
            let Some(since) = &ask.since else { continue };
            let runs = runs.iter().flat_map(|run| unknown(run, since)).collect();
            let continues = Some(true);
            let missed = Missed { after: 0, complete: true, runs: Some(runs), continues };
            let answer = Answer {
                at: self.home.home.last_number(),
                room: ask.room,
                missed: Some(Box::new(missed)),
                ..Answer::default()
            };
            self.answer_with_marks(at, (from, &ask), answer, effects);
        }
        true
    }

    /// This node may not have a topic any more of which clients lack something: with what has come they would have a value
    /// that has been taken away here.
    pub(super) fn note_not_all(&mut self, at: usize, key: u32) {
        if let Some(deputy) = self.deputies.list.get_mut(at) {
            deputy.backfills.note_recovered(key, false);
        }
    }

    /// The upstream is away: those who wait for it get what there is.
    pub(super) fn give_up_backfills(&mut self, now: Now, at: usize, effects: &mut Effects) {
        let Some(deputy) = self.deputies.list.get_mut(at) else { return };
        let backfills = std::mem::take(&mut deputy.backfills);
        let under_way = backfills.under_way.into_values();
        for backfill in under_way.chain(backfills.collected) {
            for ask in backfill.asks {
                self.answer_incomplete(now, at, ask, effects);
            }
        }
    }
}

/// Gives messages numbers below all that this home gives.
fn numbered(shard: ShardId, runs: Vec<Run>) -> Vec<Arc<Run>> {
    let mut next = 1;
    let numbered = runs.into_iter().map(|mut run| {
        run.number(shard, next);
        next += run.len() as u64;
        Arc::new(run)
    });
    numbered.collect()
}
