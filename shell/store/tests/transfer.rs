//! What is exported and imported is exactly what was there; compacting gives room back and changes nothing else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::{Numbers, seeds};
use tiderace_store::{
    InspectError, Look, OpenError, Options, PortableError, Store, Sync, TransferError, Transferred,
    compact, export, import, inspect,
};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("tiderace-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn files(&self, name: &str) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(self.0.join(name)).unwrap().map(Result::unwrap);
        let file = |entry: fs::DirEntry| {
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())
        };
        entries.map(file).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    let sync = Sync::Never;
    Options { segment_bytes: 4096, reserve_bytes: 0, sync, ..Options::default() }
}

/// A store with streams of both kinds, of which much is gone.
fn fill(folder: &Path, seed: u64, batches: u64) -> Model {
    let (mut store, _) = Store::open(folder, options()).unwrap();
    let (mut model, mut numbers) = (Model::default(), Numbers(seed));
    let ids = store.stream_ids();
    for _ in 0..batches {
        let batch = model.batch(&mut numbers, || ids.next_stream());
        assert!(store.commit(vec![batch]).1.is_none());
    }
    store.close().unwrap();
    model
}

fn exported(folder: &Path) -> Result<(Vec<u8>, Transferred), TransferError> {
    let mut bytes = Vec::new();
    let mut told = (0, 0);
    let done = export(folder, &mut bytes, |done, total| {
        assert!(told.0 <= done && done <= total, "{told:?} {done} {total}");
        told = (done, total);
    })?;
    assert_eq!((done.messages, done.bytes), (told.1, bytes.len() as u64));
    Ok((bytes, done))
}

#[test]
fn everything_comes_back_and_nothing_is_changed() {
    for seed in seeds(10) {
        let folder = Folder::new("transfer");
        let (from, to) = (folder.0.join("from"), folder.0.join("to"));
        let model = fill(&from, seed, 150);
        let before = folder.files("from");
        let (bytes, done) = exported(&from).unwrap();
        assert_eq!(folder.files("from"), before);
        let imported = import(&bytes[..], &to, |_| {}).unwrap();
        assert_eq!(imported, done);
        assert_eq!(done.streams, model.streams.len() as u64);
        let (mut store, recovered) = Store::open(&to, options()).unwrap();
        let found = Model::of(&mut store, &recovered).unwrap();
        assert!(found == model, "seed {seed}: {}", model.difference(&found));
        drop(store);
        let (one, other) = (
            inspect(&from, Look::AtAll).unwrap().recovered,
            inspect(&to, Look::AtAll).unwrap().recovered,
        );
        assert_eq!(one.streams.len(), other.streams.len());
        for (one, other) in one.streams.iter().zip(&other.streams) {
            assert_eq!(
                (&one.path, one.mark, &one.messages),
                (&other.path, other.mark, &other.messages)
            );
            let range = |it: &tiderace_store::StoredRange| (it.first, it.last);
            assert!(one.stored.iter().map(range).eq(other.stored.iter().map(range)));
        }
        assert_eq!(one.values, other.values);
        assert_eq!(exported(&to).unwrap().0, bytes, "the form depends on the contents alone");
    }
}

#[test]
fn what_is_not_whole_is_refused_and_leaves_nothing() {
    let folder = Folder::new("transfer-cut");
    let (from, to) = (folder.0.join("from"), folder.0.join("to"));
    fill(&from, 1, 40);
    let (bytes, _) = exported(&from).unwrap();
    for length in (0..bytes.len()).step_by(97) {
        assert!(import(&bytes[..length], &to, |_| {}).is_err(), "{length}");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "{length}: nothing is left");
    }
    let cut = import(&bytes[..bytes.len() - 1], &to, |_| {}).unwrap_err();
    assert!(matches!(cut, TransferError::Portable(PortableError::Short(_))), "{cut}");
    // An empty directory is taken, any other is not.
    fs::create_dir(&to).unwrap();
    import(&bytes[..], &to, |_| {}).unwrap();
    let before = folder.files("to");
    let error = import(&bytes[..], &to, |_| {}).unwrap_err();
    assert!(matches!(error, TransferError::NotEmpty { .. }), "{error}");
    assert_eq!(folder.files("to"), before);
}

#[test]
fn a_store_that_is_in_use_or_damaged_is_not_exported() {
    let folder = Folder::new("transfer-refused");
    let from = folder.0.join("from");
    let none = exported(&from).unwrap_err();
    assert!(matches!(none, TransferError::Inspect(_)), "{none}");
    fill(&from, 1, 60);
    let (store, _) = Store::open(&from, options()).unwrap();
    let error = exported(&from).unwrap_err();
    assert!(matches!(error, TransferError::Inspect(InspectError::InUse { .. })), "{error}");
    drop(store);
    let whole = exported(&from).unwrap().0;
    let name = folder.files("from").into_keys().find(|name| name.ends_with(".log")).unwrap();
    let content = folder.files("from")[&name].clone();
    for at in (0..content.len()).step_by(31) {
        let mut damaged = content.clone();
        damaged[at] ^= 1;
        fs::write(from.join(&name), damaged).unwrap();
        // Of what is not needed nothing is read.
        match exported(&from) {
            Ok((bytes, _)) => assert_eq!(bytes, whole, "{at}"),
            Err(TransferError::Damaged(damage)) => assert_eq!(damage.file, name),
            Err(error) => panic!("{at}: {error}"),
        }
    }
}

#[test]
fn compacting_gives_room_back_and_changes_nothing_else() {
    let folder = Folder::new("compact");
    let path = folder.0.join("store");
    let model = fill(&path, 3, 400);
    let (mut store, _) = Store::open(&path, options()).unwrap();
    let before = store.size();
    let mut told = Vec::new();
    store.compact(|done, total| told.push((done, total))).unwrap();
    let (total, live) = store.size();
    assert!(total < before.0 && total < live + live / 2 + 3 * 4096, "{before:?} {total} {live}");
    assert!(told.windows(2).all(|pair| pair[0].0 <= pair[1].0));
    let (done, all) = told[told.len() - 1];
    assert_eq!(done, all);
    let in_use = compact(&path, |_, _| {}).unwrap_err();
    assert!(matches!(in_use, TransferError::Open(OpenError::InUse { .. })), "{in_use}");
    store.close().unwrap();
    // Once more changes next to nothing; where there is no store none is made.
    let again = compact(&path, |_, _| {}).unwrap();
    assert!(again.bytes_after < again.bytes_before + 1000, "{again:?}");
    let none = compact(&folder.0, |_, _| {}).unwrap_err();
    assert!(matches!(none, TransferError::Inspect(InspectError::Absent { .. })), "{none}");
    let (mut store, recovered) = Store::open(&path, options()).unwrap();
    let found = Model::of(&mut store, &recovered).unwrap();
    assert!(found == model, "{}", model.difference(&found));
}

#[test]
fn a_crash_while_a_store_is_compacted_loses_nothing() {
    for seed in seeds(300) {
        let disk = SimulatedDisk::new(seed);
        let mut numbers = Numbers(seed);
        let open = || {
            let options = Options { segment_bytes: 1024, reserve_bytes: 0, ..Options::default() };
            Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap()
        };
        let (mut store, _) = open();
        let (mut model, ids) = (Model::default(), store.stream_ids());
        for _ in 0..60 {
            let batch = model.batch(&mut numbers, || ids.next_stream());
            assert!(store.commit(vec![batch]).1.is_none());
        }
        disk.die_after(Some(numbers.below(150)));
        if store.compact(|_, _| {}).is_ok() {
            let _ = store.close();
        } else {
            drop(store);
        }
        disk.die_after(None);
        disk.lose_power();
        let (mut store, recovered) = open();
        let found = Model::of(&mut store, &recovered).unwrap();
        assert!(found == model, "seed {seed}: {}", model.difference(&found));
    }
}
