//! Bytes that change on the disk are noticed, or do no harm; and what is left can be kept.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use crate::common::Numbers;
use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::segments::{segments, without_summaries};
use tiderace_store::{Disk, DiskFile, Header, OpenError, Options, Recovered, SetAside, Store};

fn open(
    disk: &SimulatedDisk,
    accept_damage: bool,
) -> Result<(Store<SimulatedDisk>, Recovered), OpenError> {
    let options =
        Options { segment_bytes: 1024, reserve_bytes: 0, accept_damage, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options)
}

/// A log of several segments, and the states it went through.
fn written(seed: u64, is_closed: bool) -> (SimulatedDisk, Vec<Model>) {
    let disk = SimulatedDisk::new(seed);
    let (mut store, _) = open(&disk, false).unwrap();
    let mut numbers = Numbers(seed);
    let mut states = vec![Model::default()];
    let ids = store.stream_ids();
    for _ in 0..40 {
        let mut next = states.last().unwrap().clone();
        let (_, problem) = store.commit(vec![next.batch(&mut numbers, || ids.next_stream())]);
        assert!(problem.is_none());
        states.push(next);
        if store.is_cleaning_due() && numbers.chance(30) {
            store.clean(300).unwrap();
        }
    }
    if is_closed {
        store.close().unwrap();
    }
    (disk, states)
}

/// Flips one bit of each byte of each file, another one each time.
fn flipped(disk: &SimulatedDisk) -> impl Iterator<Item = (SimulatedDisk, String)> {
    segments(disk).into_iter().flat_map(|name| {
        let content = disk.content(&name);
        let disk = disk.copy();
        (0..content.len()).map(move |at| {
            let (damaged, mut content) = (disk.copy(), content.clone());
            content[at] ^= 1 << (at * 5 % 8);
            damaged.replace(&name, content);
            (damaged, format!("{name} at {at}"))
        })
    })
}

/// Whether each flipped bit is noticed, at the latest when messages of queues are read. Says how many do no harm.
fn check_flipped(disk: &SimulatedDisk, states: &[Model]) -> u32 {
    let mut harmless = 0;
    for (damaged, place) in flipped(disk) {
        match open(&damaged, false) {
            Err(OpenError::Damaged { .. }) => {}
            Err(error) => panic!("{place}: {error}"),
            Ok((mut store, recovered)) => {
                let Some(found) = Model::of(&mut store, &recovered) else { continue };
                assert!(states.contains(&found), "{place}");
                harmless += 1;
            }
        }
    }
    harmless
}

#[test]
fn every_flipped_bit_of_a_closed_log_is_noticed_or_harmless() {
    let (disk, states) = written(1, true);
    assert!(segments(&disk).len() > 3);
    let last = &states[states.len() - 1..];
    // Of what is not needed any more nothing is read.
    check_flipped(&disk, last);
    // If everything is read: the mark at the very end, which proves the others.
    let harmless = check_flipped(&without_summaries(&disk), last);
    assert!(harmless <= 32, "{harmless}");
}

#[test]
fn without_its_mark_at_most_the_last_commit_can_be_taken_for_torn() {
    let (disk, states) = written(2, false);
    tiderace_store::Disk::remove(&mut disk.clone(), "high-water").unwrap();
    check_flipped(&disk, &states[states.len() - 2..]);
    check_flipped(&without_summaries(&disk), &states[states.len() - 2..]);
}

#[test]
fn damage_that_is_accepted_is_told_once_and_what_is_left_stays() {
    let (disk, states) = written(3, true);
    let whole = states.last().unwrap();
    let mut complete = 0;
    for (damaged, place) in flipped(&disk).step_by(7) {
        if open(&damaged, false).is_ok() {
            continue;
        }
        let (mut store, recovered) = open(&damaged, true).unwrap();
        assert!(!recovered.report.damage.is_empty(), "{place}");
        let aside = recovered.report.set_aside.clone();
        assert!(!aside.is_empty(), "{place}: {:?}", recovered.report.damage);
        let left = Model::of(&mut store, &recovered).unwrap();
        complete += usize::from(left == *whole);
        drop(store);
        damaged.lose_power();
        let (mut store, recovered) =
            open(&damaged, false).unwrap_or_else(|error| panic!("{place}: {error}"));
        assert_eq!(Model::of(&mut store, &recovered).unwrap(), left, "{place}");
        let ids = store.stream_ids();
        let mut next = left;
        let (_, problem) = store.commit(vec![next.batch(&mut Numbers(9), || ids.next_stream())]);
        assert!(problem.is_none());
        drop(store);
        let (mut store, recovered) = open(&damaged, false).unwrap();
        assert_eq!(Model::of(&mut store, &recovered).unwrap(), next, "{place}");
        for SetAside { file, bytes } in aside {
            assert_eq!(damaged.content(&file).len() as u64, bytes, "{place}: {file}");
        }
    }
    assert!(complete > 0, "damage to what was superseded loses nothing");
}

#[test]
fn missing_and_shortened_and_exchanged_files_are_noticed() {
    let (disk, _) = written(4, true);
    let names = segments(&disk);
    for (index, name) in names.iter().enumerate() {
        let damaged = disk.copy();
        damaged.replace(name, disk.content(&names[(index + 1) % names.len()]));
        assert!(
            matches!(open(&damaged, false), Err(OpenError::Damaged { .. })),
            "{name} exchanged"
        );
        open(&damaged, true).unwrap();

        let damaged = disk.copy();
        tiderace_store::Disk::remove(&mut damaged.clone(), name).unwrap();
        assert!(matches!(open(&damaged, false), Err(OpenError::Damaged { .. })), "{name} missing");
        open(&damaged, true).unwrap();

        if index + 1 < names.len() {
            let content = disk.content(name);
            for length in 0..content.len() {
                let damaged = disk.copy();
                damaged.replace(name, content[..length].to_vec());
                let opened = open(&damaged, false);
                assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{name} at {length}");
            }
        }
    }
}

#[test]
fn a_last_segment_that_was_cut_short_is_noticed() {
    for is_closed in [true, false] {
        let (disk, states) = written(6, is_closed);
        let last = segments(&disk).pop().unwrap();
        let content = disk.content(&last);
        for length in 0..content.len() {
            let damaged = disk.copy();
            damaged.replace(&last, content[..length].to_vec());
            let opened = open(&damaged, false).map(drop);
            assert!(matches!(opened, Err(OpenError::Damaged { .. })), "{is_closed} {length}");
            // It is told once, and writing goes on.
            drop(open(&damaged, true).unwrap());
            damaged.lose_power();
            open(&damaged, false).unwrap_or_else(|error| panic!("{is_closed} {length}: {error}"));
        }
        let (mut store, recovered) = open(&disk, false).unwrap();
        assert_eq!(Model::of(&mut store, &recovered).unwrap(), *states.last().unwrap());
    }
}

#[test]
fn after_a_kill_every_flipped_bit_of_what_was_synced_is_noticed_or_harmless() {
    let (disk, states) = written(7, false);
    check_flipped(&disk, &states[states.len() - 1..]);
    check_flipped(&without_summaries(&disk), &states[states.len() - 1..]);
}

#[test]
fn a_log_without_any_segment_is_no_new_store_if_there_was_one() {
    let (disk, _) = written(8, true);
    for name in segments(&disk) {
        tiderace_store::Disk::remove(&mut disk.clone(), &name).unwrap();
    }
    assert!(matches!(open(&disk, false), Err(OpenError::Damaged { .. })));
    drop(open(&disk, true).unwrap());
    open(&disk, false).unwrap();
}

#[test]
fn a_mark_that_is_gone_or_damaged_or_of_an_earlier_version_keeps_nobody_from_starting() {
    let (disk, states) = written(9, true);
    let marks = disk.content("high-water");
    for content in [vec![0; 64], marks[..10].to_vec(), vec![0xa7; 64]] {
        let other = disk.copy();
        other.replace("high-water", content);
        let (mut store, recovered) = open(&other, false).unwrap();
        assert_eq!(Model::of(&mut store, &recovered).unwrap(), *states.last().unwrap());
        assert!(other.content("high-water").len() >= 64, "there is one again");
    }
    tiderace_store::Disk::remove(&mut disk.clone(), "high-water").unwrap();
    open(&disk, false).unwrap();
}

#[test]
fn a_segment_of_another_store_is_noticed() {
    let (disk, _) = written(5, true);
    let (other, _) = written(5, true);
    let name = &segments(&disk)[1];
    disk.replace(name, other.content(name));
    let error = open(&disk, false).unwrap_err().to_string();
    assert!(error.contains("another store"), "{error}");
    assert!(error.contains(name) && error.contains("store.accept_damage"), "{error}");
}

#[test]
fn a_segment_of_another_store_takes_nothing_with_it() {
    let (disk, states) = written(1, true);
    let before = segments(&disk);
    let header = Header { form: 2, salt: 1, number: 99, oldest: 99 };
    let mut stray = disk.clone().create("0000000099.log").unwrap();
    stray.append(&[&header.encode()]).unwrap();
    let error = open(&disk, false).map(drop).unwrap_err();
    assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
    assert!(before.iter().all(|name| segments(&disk).contains(name)), "nothing is removed");
    let (mut store, recovered) = open(&disk, true).unwrap();
    let found = Model::of(&mut store, &recovered).unwrap();
    let expected = states.last().unwrap();
    assert!(found == *expected, "{}", expected.difference(&found));
}
