//! A directory that is removed or replaced while it is open: nothing is acknowledged that the next start would not
//! find.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::disk::SimulatedDisk;
use tiderace_store::{
    Batch, CommitError, DamageKind, Declaration, LoadRequest, Look, Mark, Options, Outcome, Put,
    Store, StreamId, StreamKind, Sync, inspect,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A message of the stream's, declared with the first.
fn batch(number: u64) -> Batch {
    let mut batch = Batch::new();
    let stream = StreamId(1);
    if number == 1 {
        let (kind, mark) = (StreamKind::Topic, Mark::default());
        batch.declare(&Declaration { stream, kind, mark, path: "fx/1", spec: b"{}" }).unwrap();
    }
    let bytes = &[b'x'; 400];
    let (sequence, version, keep_from) = (number, number, 1);
    batch.put(&Put { stream, sequence, count: 1, version, keep_from, bytes, body: None }).unwrap();
    batch
}

fn options(sync: Sync) -> Options {
    Options { sync, segment_bytes: 1024, reserve_bytes: 0, ..Options::default() }
}

/// A store of several segments.
fn filled(folder: &Path, sync: Sync) -> Store {
    let (mut store, _) = Store::open(folder, options(sync)).unwrap();
    for number in 1..=8 {
        let (outcomes, problem) = store.commit(vec![batch(number)]);
        assert_eq!(outcomes, [Outcome::Committed], "{problem:?}");
    }
    store
}

#[test]
fn the_next_acknowledgement_is_refused_whatever_was_taken_away() {
    type Sabotage = fn(&Path);
    let sabotages: [(&str, Sabotage); 7] = [
        ("removed", |path| fs::remove_dir_all(path).unwrap()),
        ("moved", |path| {
            let moved = path.with_extension("moved");
            fs::rename(path, &moved).unwrap();
            fs::remove_dir_all(moved).unwrap();
        }),
        ("replaced", |path| {
            fs::remove_dir_all(path).unwrap();
            fs::create_dir(path).unwrap();
        }),
        ("the lock", |path| fs::remove_file(path.join("lock")).unwrap()),
        ("the first segment", |path| fs::remove_file(path.join("0000000001.log")).unwrap()),
        ("the last segment", |path| {
            let mut names: Vec<PathBuf> =
                fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
            names.retain(|name| name.extension().is_some_and(|it| it == "log"));
            fs::remove_file(names.iter().max().unwrap()).unwrap();
        }),
        ("a segment by another of its name", |path| {
            let name = path.join("0000000002.log");
            fs::copy(&name, path.join("copy")).unwrap();
            fs::rename(path.join("copy"), name).unwrap();
        }),
    ];
    for sync in [Sync::Always, Sync::Never] {
        for (what, sabotage) in sabotages {
            let folder = Folder::new("removed");
            let mut store = filled(&folder.0, sync);
            sabotage(&folder.0);
            let (outcomes, problem) = store.commit(vec![batch(9)]);
            assert_eq!(outcomes, [Outcome::Broken], "{what}");
            let Some(CommitError::Broken { error, .. }) = problem else { panic!("{what}") };
            let error = error.to_string();
            assert!(error.contains("was removed") || error.contains("was replaced"), "{error}");
            // And for good.
            assert_eq!(store.commit(vec![batch(9)]).0, [Outcome::Broken], "{what}");
            let broken = store.metrics();
            assert!(broken.is_broken(), "{what}: /readyz tells");
        }
    }
}

#[test]
fn a_segment_that_was_replaced_is_not_read_and_reading_does_not_hide_it() {
    let folder = Folder::new("replaced");
    let mut store = filled(&folder.0, Sync::Always);
    let (ticket, stream, first, last, bytes_max) = (1, StreamId(1), 1, 8, 1 << 20);
    let request = LoadRequest { ticket, stream, beside: None, first, last, bytes_max };
    let name = folder.0.join("0000000002.log");
    fs::copy(&name, folder.0.join("copy")).unwrap();
    fs::rename(folder.0.join("copy"), name).unwrap();
    let loaded = store.load(&request);
    assert!(!loaded.messages.is_empty() && !loaded.damaged.is_empty());
    assert!(loaded.damaged.iter().all(|damaged| {
        damaged.damage.file == "0000000002.log"
            && matches!(damaged.damage.what, DamageKind::Unreadable(_))
    }));
    assert_eq!(store.commit(vec![batch(9)]).0, [Outcome::Broken]);
}

#[test]
fn what_others_do_in_the_directory_disturbs_nothing() {
    let folder = Folder::new("others");
    let mut store = filled(&folder.0, Sync::Always);
    fs::write(folder.0.join("a note"), "x").unwrap();
    fs::remove_file(folder.0.join("a note")).unwrap();
    fs::remove_file(folder.0.join("high-water")).unwrap();
    for number in 9..=20 {
        assert_eq!(store.commit(vec![batch(number)]).0, [Outcome::Committed]);
    }
    store.close().unwrap();
    let found = inspect(&folder.0, Look::AtAll).unwrap();
    assert!(found.recovered.report.damage.is_empty());
    assert_eq!(found.recovered.streams[0].mark.version, 20);
}

#[test]
fn a_removal_between_write_and_acknowledgement_is_noticed() {
    let disk = SimulatedDisk::new(1);
    let path = Path::new("simulated");
    let (mut store, _) = Store::open_on(disk.clone(), path, options(Sync::Always)).unwrap();
    assert_eq!(store.commit(vec![batch(1)]).0, [Outcome::Committed]);
    disk.vanish_after_write();
    assert_eq!(store.commit(vec![batch(2)]).0, [Outcome::Broken]);
}

#[test]
fn check_notices_a_last_segment_that_was_cut_short() {
    let folder = Folder::new("short");
    filled(&folder.0, Sync::Always).close().unwrap();
    let last = inspect(&folder.0, Look::AtAll).unwrap().segments.pop().unwrap();
    let file = fs::OpenOptions::new().write(true).open(folder.0.join(&last.file)).unwrap();
    for length in (0..last.bytes).rev().step_by(50) {
        file.set_len(length).unwrap();
        let found = inspect(&folder.0, Look::AtAll).unwrap();
        assert_eq!(found.recovered.report.damage[0].file, last.file, "{length}");
    }
}
