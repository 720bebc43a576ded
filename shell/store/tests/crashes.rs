//! Whatever a crash leaves of the writes that were not synced: after it, all batches that were acknowledged
//! are there, in order, whole, and nothing else is but batches that were under way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::{Numbers, seeds};
use tiderace_store::{OpenError, Options, Outcome, Store, Sync};

fn options(sync: Sync) -> Options {
    Options { sync, segment_bytes: 1024, reserve_bytes: 0, ..Options::default() }
}

/// What the store may hold: the state after each batch since the last one that is certain.
struct Expected {
    states: Vec<Model>,
    /// This one at least.
    certain: usize,
}

impl Expected {
    fn check(&mut self, found: Model, seed: u64) {
        if !self.states.iter().skip(self.certain).any(|state| *state == found) {
            let known = self.states.iter().position(|state| *state == found);
            panic!(
                "seed {seed}: of {} states, {} certain, found {known:?}\n{}",
                self.states.len(),
                self.certain,
                self.states[self.certain].difference(&found)
            );
        }
        *self = Expected { states: vec![found], certain: 0 };
    }

    fn now(&self) -> &Model {
        self.states.last().unwrap()
    }
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    /// The process ends; the operating system writes on.
    Kill,
    PowerLoss,
}

/// One life of the server on that disk. Says whether the store was opened.
fn live(
    disk: &SimulatedDisk,
    sync: Sync,
    expected: &mut Expected,
    numbers: &mut Numbers,
    seed: u64,
) {
    let opened = Store::open_on(disk.clone(), Path::new("simulated"), options(sync));
    let Ok((mut store, recovered)) = opened else {
        // Only the device may be the reason.
        let error = opened.map(|_| ()).unwrap_err();
        assert!(matches!(error, OpenError::System { .. }), "seed {seed}: {error}");
        return;
    };
    let Some(found) = Model::of(&mut store, &recovered) else {
        assert!(disk.is_dead(), "seed {seed}");
        return;
    };
    expected.check(found, seed);
    let ids = store.stream_ids();
    for _ in 0..numbers.below(60) {
        if store.is_cleaning_due() && numbers.chance(70) {
            let cleaned = store.clean(1 + numbers.below(800) as usize);
            // After a sync that failed nothing is cleaned any more.
            let is_broken = store.metrics().is_broken();
            assert!(cleaned.is_ok() || disk.is_dead() || is_broken, "seed {seed}: {cleaned:?}");
            continue;
        }
        let mut batches = Vec::new();
        for _ in 0..1 + numbers.below(3) {
            let mut next = expected.now().clone();
            batches.push(next.batch(numbers, || ids.next_stream()));
            expected.states.push(next);
        }
        let (outcomes, problem) = store.commit(batches);
        if problem.is_some() {
            assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Broken));
            break;
        }
        if sync == Sync::Always || (numbers.chance(20) && store.sync().is_ok()) {
            expected.certain = expected.states.len() - 1;
        }
        if numbers.chance(50) {
            store.settle();
        }
        if numbers.chance(30) {
            let request = expected.now().load_request(numbers);
            let loaded = store.load(&request);
            expected.now().check_loaded(&request, &loaded, seed);
            assert!(loaded.damaged.is_empty() || disk.is_dead(), "seed {seed}: {loaded:?}");
        }
    }
    if numbers.chance(10) && store.close().is_ok() {
        expected.certain = expected.states.len() - 1;
    }
}

fn crashes(sync: Sync, ends: &[End]) {
    for seed in seeds(1500) {
        let mut numbers = Numbers(seed);
        let disk = SimulatedDisk::new(seed ^ 0x5eed);
        let mut expected = Expected { states: vec![Model::default()], certain: 0 };
        for _ in 0..4 {
            let operations = numbers.below(300);
            disk.die_after(Some(operations));
            let failing = numbers.chance(15).then(|| numbers.below(40));
            disk.fail_sync_after(failing);
            live(&disk, sync, &mut expected, &mut numbers, seed);
            disk.die_after(None);
            disk.fail_sync_after(None);
            if ends[numbers.below(ends.len() as u64) as usize] == End::PowerLoss {
                disk.lose_power();
            }
        }
        let opened = Store::open_on(disk, Path::new("simulated"), options(sync));
        let (mut store, recovered) = opened.unwrap();
        expected.check(Model::of(&mut store, &recovered).unwrap(), seed);
    }
}

#[test]
fn what_was_acknowledged_survives_the_loss_of_power() {
    crashes(Sync::Always, &[End::PowerLoss]);
}

#[test]
fn what_was_acknowledged_survives_kills_and_losses_in_any_order() {
    crashes(Sync::Always, &[End::PowerLoss, End::Kill]);
}

#[test]
fn without_syncs_a_prefix_survives() {
    crashes(Sync::Never, &[End::PowerLoss, End::Kill]);
}
