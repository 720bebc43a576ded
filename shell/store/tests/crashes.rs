//! Whatever a crash leaves of the writes that were not synced: after it, all batches that were acknowledged
//! are there, in order, whole, and nothing else is but batches that were under way.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::{Numbers, seeds};
use tiderace_store::{Body, Disk, DiskFile, OpenError, Options, Outcome, Store, Sync};

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

/// Makes a file with a body in it, as a body is kept before the record that names it is written.
fn make_body(disk: &mut SimulatedDisk, number: u64, bytes: &[u8]) -> Option<Body> {
    let mut file = disk.create(&format!("{number:010}.body")).ok()?;
    file.append(&[b"head", bytes]).ok()?;
    file.sync().ok()?;
    disk.sync_names().ok()?;
    let (offset, length, checksum) = (4, bytes.len() as u64, crc32c::crc32c(bytes));
    Some(Body { file: number, offset, length, checksum })
}

fn body_files(disk: &SimulatedDisk) -> BTreeSet<u64> {
    let names = disk.list().into_iter();
    names.filter_map(|name| name.strip_suffix(".body")?.parse().ok()).collect()
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
    (next_body, removed_bodies): (&mut u64, &mut usize),
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
    if !disk.is_dead() {
        assert_eq!(body_files(disk), found.body_files(), "seed {seed}");
    }
    expected.check(found, seed);
    let ids = store.stream_ids();
    let mut files = disk.clone();
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
            let mut make = |bytes: &[u8]| {
                *next_body += 1;
                make_body(&mut files, *next_body, bytes)
            };
            let batch = next.batch_with_bodies(numbers, || ids.next_stream(), &mut make);
            batches.push(batch);
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
            let before = body_files(disk).len();
            let removed = store.remove_bodies();
            assert!(removed.is_ok() || disk.is_dead() || store.metrics().is_broken());
            let left = body_files(disk);
            *removed_bodies += before - left.len();
            assert!(expected.now().body_files().is_subset(&left), "seed {seed}");
            // What was removed must not come back.
            if removed.is_ok_and(|removed| !removed.is_empty()) {
                expected.certain = expected.states.len() - 1;
            }
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
    let mut removed = 0;
    for seed in seeds(1500) {
        let (mut numbers, mut next_body) = (Numbers(seed), 0);
        let disk = SimulatedDisk::new(seed ^ 0x5eed);
        let mut expected = Expected { states: vec![Model::default()], certain: 0 };
        for _ in 0..4 {
            let operations = numbers.below(300);
            disk.die_after(Some(operations));
            let failing = numbers.chance(15).then(|| numbers.below(40));
            disk.fail_sync_after(failing);
            let bodies = (&mut next_body, &mut removed);
            live(&disk, sync, &mut expected, &mut numbers, bodies, seed);
            disk.die_after(None);
            disk.fail_sync_after(None);
            if ends[numbers.below(ends.len() as u64) as usize] == End::PowerLoss {
                disk.lose_power();
            }
        }
        let opened = Store::open_on(disk.clone(), Path::new("simulated"), options(sync));
        let (mut store, recovered) = opened.unwrap();
        let found = Model::of(&mut store, &recovered).unwrap();
        assert_eq!(body_files(&disk), found.body_files(), "seed {seed}");
        expected.check(found, seed);
    }
    assert!(removed > 100, "files of bodies were removed while the store was open: {removed}");
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
