//! What is exported and imported is exactly what was there; compacting gives room back and changes nothing else.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::{Numbers, seeds};
use tiderace_store::{
    Batch, Declaration, InspectError, LoadRequest, Look, Mark, OpenError, Options, PortableError,
    Put, Record, Seed, Store, StreamId, StreamKind, Sync, TransferError, Transferred, compact,
    export, import, inspect,
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
fn a_deep_queue_is_taken_out_and_put_back_in_parts() {
    let folder = Folder::new("transfer-deep");
    let (from, to) = (folder.0.join("from"), folder.0.join("to"));
    let large = Options { segment_bytes: 1 << 20, ..options() };
    let (mut store, _) = Store::open(&from, large).unwrap();
    for number in 1..=150u64 {
        let mut batch = Batch::new();
        let (stream, kind, mark) = (StreamId(1), StreamKind::Queue, Mark::default());
        if number == 1 {
            let declaration = Declaration { stream, kind, mark, path: "deep", spec: b"" };
            batch.declare(&declaration).unwrap();
        }
        let (sequence, count, version, keep_from) = (2 * number, 2, 2 * number + 1, 0);
        let bytes = &vec![number as u8; 100_000];
        batch.put(&Put { stream, sequence, count, version, keep_from, bytes, body: None }).unwrap();
        // Parts begin and end at records of which something is gone, too.
        batch.settle(stream, &[(sequence, sequence)]).unwrap();
        assert!(store.commit(vec![batch]).1.is_none());
    }
    store.close().unwrap();
    let (mut bytes, mut told) = (Vec::new(), Vec::new());
    let done = export(&from, &mut bytes, |done, total| {
        assert_eq!(total, 150);
        told.push(done);
    });
    let done = done.unwrap();
    assert_eq!((done.messages, done.streams), (150, 1));
    assert!(told.windows(2).all(|pair| pair[0] <= pair[1]), "{told:?}");
    told.dedup();
    assert!(told.len() > 2 && told[0] < 60, "what is in memory at once is bounded: {told:?}");
    let mut told = Vec::new();
    assert_eq!(import(&bytes[..], &to, |bytes| told.push(bytes)).unwrap(), done);
    assert!(told.len() > 2 && told[0] < 6_000_000, "{told:?}");
    assert_eq!(exported(&to).unwrap().0, bytes);
    let (mut store, recovered) = Store::open(&to, large).unwrap();
    let [stream] = &recovered.streams[..] else { panic!() };
    assert_eq!((&*stream.path, stream.mark.sequence), ("deep", 301));
    for number in 1..=150 {
        let (ticket, stream, first, bytes_max) = (0, StreamId(1), 2 * number + 1, 0);
        let loaded = store.load(&LoadRequest {
            ticket,
            stream,
            beside: None,
            first,
            last: first,
            bytes_max,
        });
        let [found] = &loaded.messages[..] else { panic!("{number}: {loaded:?}") };
        assert_eq!((found.sequence, found.count), (2 * number, 2));
        assert_eq!(found.gone, [(2 * number, 2 * number)]);
        assert!(found.bytes[..] == vec![number as u8; 100_000], "{number}");
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

/// The frames of an exported file: payloads, and whether each is joined with the next.
type Frames = Vec<(Vec<u8>, bool)>;

const FILE_START: &[u8] = b"tdrstore\x01\0\0\0";

fn frames_of(file: &[u8]) -> Frames {
    let (mut frames, mut at) = (Vec::new(), FILE_START.len());
    while at < file.len() {
        let word = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        let (length, more) = ((word & !(1 << 31)) as usize, word >> 31 == 1);
        frames.push((file[at + 8..at + 8 + length].to_vec(), more));
        at += 8 + length;
    }
    frames.pop().unwrap();
    frames
}

/// A file with these frames whose checksums and whose end fit.
fn file_of(frames: &Frames) -> Vec<u8> {
    let mut file = FILE_START.to_vec();
    let seed = Seed::new(u64::from_le_bytes(*b"tdrstore"), 1);
    for (payload, more) in frames {
        seed.frame(payload, *more, &mut file);
    }
    let end = [&[255][..], &(frames.len() as u64).to_le_bytes()].concat();
    seed.frame(&end, false, &mut file);
    file
}

fn encoded(record: Record<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    record.encode(&mut bytes);
    bytes
}

fn settle(stream: u64, ranges: &[u8]) -> Vec<u8> {
    // The kind is taken from a record that a batch has.
    let mut bytes = encoded(Record::Trim { stream: StreamId(stream), up_to: 0 });
    bytes[0] += 1;
    bytes.truncate(2);
    bytes.extend_from_slice(ranges);
    assert!(matches!(Record::decode(&bytes), Some(Record::Settle { .. })), "{bytes:?}");
    bytes
}

#[test]
fn what_no_export_writes_is_refused_record_by_record() {
    let folder = Folder::new("transfer-hostile");
    let to = folder.0.join("to");
    let declare = |number: u64| {
        let (stream, kind) = (StreamId(number), StreamKind::Queue);
        let mark = Mark { sequence: 100, version: 100 };
        encoded(Record::Declare(Declaration { stream, kind, mark, path: "a", spec: b"" }))
    };
    let put = |stream: u64, sequence, count, keep_from| {
        let (stream, version, bytes) = (StreamId(stream), 7, &b"body"[..]);
        encoded(Record::Put(Put { stream, sequence, count, version, keep_from, bytes, body: None }))
    };
    let set = |name| encoded(Record::Set { name, value: b"" });
    let (alone, joined) = (false, true);
    let whole = vec![
        (set("a"), alone),
        (set("b"), alone),
        (declare(1), alone),
        (put(1, 3, 5, 0), joined),
        (settle(1, &[4, 1]), alone),
        (put(1, 100, 1, 0), alone),
        (declare(4), alone),
    ];
    let done = import(&file_of(&whole)[..], &to, |_| {}).unwrap();
    assert_eq!((done.values, done.streams, done.messages), (2, 2, 4));
    fs::remove_dir_all(&to).unwrap();
    // What stands there instead of which record.
    let hostile: Vec<(usize, Vec<u8>, bool)> = vec![
        (0, set("b"), alone),
        (1, set("b"), joined),
        (2, declare(1), joined),
        (2, declare(0), alone),
        (2, declare(1 << 62), alone),
        (2, declare((1 << 63) - 1), alone),
        (2, declare(1 << 63), alone),
        (2, declare(2), alone),
        (3, put(1, 3, 5, 3), joined),
        (3, put(1, 3, 5, 0), alone),
        (3, put(1, 99, 5, 0), joined),
        (4, settle(1, &[0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]), alone),
        (4, settle(1, &[4, 1]), joined),
        (4, settle(1, &[2, 1]), alone),
        (4, settle(1, &[3, 4]), alone),
        (4, settle(1, &[3, 0, 1, 0]), alone),
        (4, settle(4, &[4, 1]), alone),
        (4, settle(1, &[]), alone),
        (4, put(1, 10, 1, 0), joined),
        (5, put(1, 7, 1, 0), alone),
        (5, put(1, 100, 2, 0), alone),
        (5, put(4, 100, 1, 0), alone),
        (5, settle(1, &[3, 0]), alone),
        (5, put(1, 100, 1, 0), joined),
        (6, declare(1), alone),
        (6, set("c"), alone),
        (6, put(1, 101, 1, 0), alone),
        (6, put(1, 100, 1, 0), joined),
        (6, encoded(Record::Drop { stream: StreamId(1) }), alone),
        (6, encoded(Record::Trim { stream: StreamId(1), up_to: 9 }), alone),
    ];
    for (at, payload, more) in hostile {
        let mut frames = whole.clone();
        frames[at] = (payload, more);
        let error = import(&file_of(&frames)[..], &to, |_| {}).unwrap_err();
        assert!(
            matches!(error, TransferError::Unexpected { .. }),
            "{at} {:?}: {error}",
            frames[at]
        );
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0, "nothing is left");
    }
    let mut longer = file_of(&whole);
    longer.push(0);
    let error = import(&longer[..], &to, |_| {}).unwrap_err();
    assert!(matches!(error, TransferError::Portable(PortableError::Longer(7))), "{error}");
}

#[test]
fn what_is_imported_is_exported_as_the_same_bytes_whatever_was_changed() {
    let folder = Folder::new("transfer-changed");
    let (from, to) = (folder.0.join("from"), folder.0.join("to"));
    fill(&from, 5, 60);
    let whole = frames_of(&exported(&from).unwrap().0);
    let is_declare =
        |frame: &(Vec<u8>, bool)| matches!(Record::decode(&frame.0), Some(Record::Declare(_)));
    let (mut taken, mut refused) = (0, 0);
    for seed in seeds(150) {
        let mut numbers = Numbers(seed);
        let mut frames = whole.clone();
        let at = numbers.below(frames.len() as u64) as usize;
        let other = numbers.below(frames.len() as u64) as usize;
        match numbers.below(5) {
            0 => frames.swap(at, other),
            1 => _ = frames.remove(at),
            2 => frames.insert(other, whole[at].clone()),
            3 => frames[at].1 ^= true,
            _ => {
                let payload = &mut frames[at].0;
                let byte = numbers.below(payload.len().min(12) as u64) as usize;
                payload[byte] ^= 1 << numbers.below(8);
                if let Some(record) = Record::decode(&payload.clone()) {
                    *payload = encoded(record);
                }
            }
        }
        let file = file_of(&frames);
        match import(&file[..], &to, |_| {}) {
            Ok(done) => {
                let (again, exported) = exported(&to).unwrap();
                // A stream's mark goes on to the version of its last message.
                let mut again = frames_of(&again);
                assert_eq!(again.len(), frames.len(), "seed {seed}");
                again.retain(|frame| !is_declare(frame));
                assert!(again.iter().eq(frames.iter().filter(|it| !is_declare(it))), "seed {seed}");
                assert_eq!(
                    (done.streams, done.messages, done.values),
                    (exported.streams, exported.messages, exported.values),
                    "seed {seed}"
                );
                fs::remove_dir_all(&to).unwrap();
                taken += 1;
            }
            Err(error) => {
                let is_form =
                    matches!(error, TransferError::Unexpected { .. } | TransferError::Portable(_));
                assert!(is_form, "seed {seed}: {error}");
                refused += 1;
            }
        }
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "seed {seed}: nothing is left");
    }
    assert!(taken > 10 && refused > 50, "{taken} {refused}");
}

#[test]
fn an_import_leaves_what_another_has_made() {
    let folder = Folder::new("transfer-again");
    let (from, to) = (folder.0.join("from"), folder.0.join("to"));
    fill(&from, 1, 40);
    let (bytes, _) = exported(&from).unwrap();
    // One that was stopped, and one that is going on.
    let unfinished = folder.0.join("to.import");
    fill(&unfinished, 2, 40);
    let before = folder.files("to.import");
    let error = import(&bytes[..], &to, |_| {}).unwrap_err();
    assert!(matches!(&error, TransferError::Unfinished { directory } if *directory == unfinished));
    let (store, _) = Store::open(&unfinished, options()).unwrap();
    let error = import(&bytes[..], &to, |_| {}).unwrap_err();
    assert!(error.to_string().contains("to.import is there already"), "{error}");
    drop(store);
    assert!(!to.exists());
    assert!(before.keys().eq(folder.files("to.import").keys()), "it is as it was");
    fs::remove_dir_all(&unfinished).unwrap();
    import(&bytes[..], &to, |_| {}).unwrap();
    assert_eq!(exported(&to).unwrap().0, bytes);
}

#[cfg(target_os = "linux")]
#[test]
fn a_mount_point_is_refused_before_anything_is_read() {
    let error = import(&b""[..], Path::new("/proc"), |_| {}).unwrap_err();
    assert!(matches!(error, TransferError::MountPoint { .. }), "{error}");
    assert!(error.to_string().contains("a new directory inside it"), "{error}");
}

#[test]
fn a_damaged_topic_of_a_copy_without_a_mark_of_its_end_is_reported_as_damaged() {
    let folder = Folder::new("transfer-copy");
    let from = folder.0.join("from");
    let (mut store, _) = Store::open(&from, options()).unwrap();
    let mut batch = Batch::new();
    let (stream, kind, mark) = (StreamId(1), StreamKind::Topic, Mark::default());
    batch.declare(&Declaration { stream, kind, mark, path: "a", spec: b"" }).unwrap();
    let (sequence, count, version, keep_from) = (1, 1, 1, 0);
    let put = Put { stream, sequence, count, version, keep_from, bytes: &[7; 1000], body: None };
    batch.put(&put).unwrap();
    store.commit(vec![batch]);
    // Behind it, so that it lies in a segment that has a summary.
    for _ in 0..10 {
        let mut batch = Batch::new();
        batch.set("value", &[8; 1000]).unwrap();
        store.commit(vec![batch]);
    }
    store.close().unwrap();
    let name = "0000000001.log";
    let mut content = folder.files("from")[name].clone();
    let at = content.windows(9).position(|part| part == [7; 9]).unwrap();
    content[at] ^= 1;
    fs::write(from.join(name), content).unwrap();
    for file in folder.files("from").into_keys().filter(|file| !file.ends_with(".log")) {
        fs::remove_file(from.join(file)).unwrap();
    }
    let error = exported(&from).unwrap_err();
    assert!(matches!(&error, TransferError::Damaged(damage) if damage.file == name), "{error}");
    let found = inspect(&from, Look::AtSummaries).unwrap();
    assert_eq!(found.recovered.report.damage.len(), 1);
}
