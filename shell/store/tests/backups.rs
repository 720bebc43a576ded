//! Backups of a store that is written to: each is what the store was at one moment, with all that was acknowledged before.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use crate::check::{archive_of, repaired};
use crate::common::{Numbers, seeds};
use tiderace_store::{
    ArchiveError, BackupArchive, BackupError, Batch, Committer, Declaration, Header, InspectError,
    Look, Mark, Notice, OpenError, Options, Outcome, Put, RefusedReason, Store, StreamId,
    StreamKind, Submitter, Sync, TransferError, check_backup, inspect, restore,
};

/// Messages of the queue that are there at a time.
const KEPT: u64 = 50;
const QUEUE: StreamId = StreamId(1);
const TOPIC: StreamId = StreamId(2);

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("tiderace-backups-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn options() -> Options {
    Options { segment_bytes: 4096, reserve_bytes: 0, sync: Sync::Never, ..Options::default() }
}

/// The batch with that number: a message for each stream, and the end of an old one.
fn batch(number: u64, numbers: &mut Numbers) -> Batch {
    let mut batch = Batch::new();
    if number == 1 {
        for (stream, kind) in [(QUEUE, StreamKind::Queue), (TOPIC, StreamKind::Topic)] {
            let (path, mark) = (format!("path/{}", stream.0), Mark::default());
            batch.declare(&Declaration { stream, kind, mark, path: &path, spec: b"" }).unwrap();
        }
    }
    let bytes = vec![number as u8; 1 + numbers.below(200) as usize];
    for (stream, keep_from) in [(QUEUE, 0), (TOPIC, number)] {
        let (sequence, version, count, body) = (number, number, 1, None);
        let put = Put { stream, sequence, count, version, keep_from, bytes: &bytes, body };
        batch.put(&put).unwrap();
    }
    if number > KEPT {
        batch.settle(QUEUE, &[(number - KEPT, number - KEPT)]).unwrap();
    }
    batch
}

/// A store that somebody writes to until it is told to stop.
struct Load {
    committer: Option<Committer>,
    writer: Option<thread::JoinHandle<()>>,
    /// The highest number of a batch that was handed over, and that was acknowledged.
    sent: Arc<AtomicU64>,
    acknowledged: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
}

impl Load {
    fn begin(folder: &Path, seed: u64) -> Load {
        let (store, _) = Store::open(folder, options()).unwrap();
        let (sent, acknowledged) = (Arc::<AtomicU64>::default(), Arc::<AtomicU64>::default());
        let heard = Arc::clone(&acknowledged);
        let committer = Committer::start(store, move |notice| {
            let Notice::Done(all) = notice else { return };
            for done in all {
                assert_eq!(done.outcome, Outcome::Committed);
                heard.store(done.ticket, Ordering::SeqCst);
            }
        });
        let committer = committer.unwrap();
        let is_over = Arc::<AtomicBool>::default();
        let (submitter, over) = (committer.submitter(0), Arc::clone(&is_over));
        let numbers = (Arc::clone(&sent), Arc::clone(&acknowledged));
        let writer = thread::spawn(move || write(&submitter, seed, &over, &numbers));
        let (committer, writer) = (Some(committer), Some(writer));
        Load { committer, writer, sent, acknowledged, is_over }
    }

    /// Waits until so many more batches have been acknowledged.
    fn wait(&self, more: u64) {
        let until = self.acknowledged.load(Ordering::SeqCst) + more;
        while self.acknowledged.load(Ordering::SeqCst) < until {
            thread::yield_now();
        }
    }

    fn stop_writing(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
    }

    fn end(mut self) {
        self.stop_writing();
        drop(self.committer.take());
    }
}

/// Batches that are not acknowledged yet, at most: what is written between two segments stays small.
const UNDER_WAY_MAX: u64 = 32;

fn write(
    submitter: &Submitter,
    seed: u64,
    is_over: &AtomicBool,
    (sent, acknowledged): &(Arc<AtomicU64>, Arc<AtomicU64>),
) {
    let mut numbers = Numbers(seed);
    for number in 1.. {
        while acknowledged.load(Ordering::SeqCst) + UNDER_WAY_MAX < number {
            thread::yield_now();
        }
        let mut next = batch(number, &mut numbers);
        sent.store(number, Ordering::SeqCst);
        while let Err(refused) = submitter.try_submit(number, next) {
            assert_eq!(refused.reason, RefusedReason::Waiting);
            next = refused.batch;
            thread::yield_now();
        }
        if is_over.load(Ordering::SeqCst) {
            return;
        }
    }
}

/// Everything of an archive, in pieces of different lengths.
fn read(archive: &mut BackupArchive, numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let length = 1 + numbers.below(20_000) as usize;
        let piece = archive.read(length).unwrap();
        assert!(piece.len() == length || bytes.len() + piece.len() == archive.bytes() as usize);
        if piece.is_empty() {
            return bytes;
        }
        bytes.extend(piece);
    }
}

/// The number of the batch whose moment the store in a directory is.
fn moment(directory: &Path) -> u64 {
    let found = inspect(directory, Look::AtAll).unwrap().recovered;
    assert!(found.report.damage.is_empty(), "{:?}", found.report.damage);
    let of = |id| found.streams.iter().find(|stream| stream.stream == id).unwrap();
    let number = of(QUEUE).mark.sequence;
    let (first, last) = (number.saturating_sub(KEPT) + 1, number);
    let stored: Vec<u64> =
        of(QUEUE).stored.iter().flat_map(|range| range.first..=range.last).collect();
    assert_eq!(stored, (first..=last).collect::<Vec<_>>());
    let values: Vec<u64> = of(TOPIC).messages.iter().map(|it| it.sequence).collect();
    assert_eq!(values, [number], "of one moment");
    number
}

fn restored(folder: &Folder, number: u64) -> PathBuf {
    folder.0.join(format!("restored-{number}"))
}

#[test]
fn a_backup_is_one_moment_with_all_that_was_acknowledged_before() {
    for seed in seeds(3) {
        let folder = Folder::new("moments");
        let mut load = Load::begin(&folder.store(), seed);
        let backups = load.committer.as_ref().unwrap().backups();
        let mut numbers = Numbers(seed);
        for round in 0..6 {
            load.wait(1 + numbers.below(300));
            let acknowledged = load.acknowledged.load(Ordering::SeqCst);
            let snapshot = backups.begin().unwrap();
            let sent = load.sent.load(Ordering::SeqCst);
            assert!(matches!(backups.begin(), Err(BackupError::Busy)), "one at a time");
            assert!(backups.look().unwrap().segments() > 0);
            let mut archive = BackupArchive::new(snapshot, "1.2.3", 77);
            // Meanwhile much is removed, or would be.
            load.wait(200);
            let bytes = read(&mut archive, &mut numbers);
            assert_eq!(bytes.len() as u64, archive.bytes());
            drop(archive);
            let directory = restored(&folder, round);
            let contents = restore(&bytes[..], &directory).unwrap();
            assert_eq!((&*contents.version, contents.time_ms), ("1.2.3", 77));
            let number = moment(&directory);
            assert!((acknowledged..=sent).contains(&number), "{acknowledged} {number} {sent}");
            // A server starts with it, and goes on.
            let (mut store, recovered) = Store::open(&directory, options()).unwrap();
            assert_eq!(recovered.report.cut, 0);
            let (outcomes, problem) = store.commit(vec![batch(number + 1, &mut numbers)]);
            assert!(problem.is_none() && outcomes == [Outcome::Committed]);
            store.close().unwrap();
            assert_eq!(moment(&directory), number + 1);
        }
        // What was held is removed afterwards.
        load.stop_writing();
        let segments = || fs::read_dir(folder.store()).unwrap().count();
        while segments() > 20 {
            thread::yield_now();
        }
        load.end();
        moment(&folder.store());
    }
}

#[test]
fn nothing_is_removed_during_a_backup_and_much_is_when_it_is_dropped() {
    let folder = Folder::new("held");
    let load = Load::begin(&folder.store(), 1);
    load.wait(100);
    let snapshot = load.committer.as_ref().unwrap().backups().begin().unwrap();
    let first = folder.store().join("0000000001.log");
    let had_first = first.exists();
    let oldest = fs::read_dir(folder.store()).unwrap().map(|it| it.unwrap().file_name());
    let oldest = oldest.filter(|name| name.to_str().unwrap().ends_with(".log")).min().unwrap();
    load.wait(3000);
    assert!(folder.store().join(&oldest).exists());
    drop(snapshot);
    while folder.store().join(&oldest).exists() {
        thread::yield_now();
    }
    assert!(!had_first || !first.exists());
    load.end();
}

/// An archive of a store with a few messages.
fn small(folder: &Folder) -> Vec<u8> {
    let (mut store, _) = Store::open(&folder.store(), options()).unwrap();
    let mut numbers = Numbers(3);
    for number in 1..=20 {
        assert!(store.commit(vec![batch(number, &mut numbers)]).1.is_none());
        store.settle();
    }
    let committer = Committer::start(store, |_| {}).unwrap();
    let snapshot = committer.backups().begin().unwrap();
    assert!(snapshot.segments() > 1);
    let mut archive = BackupArchive::new(snapshot, "0", 0);
    let bytes = read(&mut archive, &mut numbers);
    drop(archive);
    bytes
}

fn archive_error(error: TransferError) -> ArchiveError {
    match error {
        TransferError::Archive(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn whatever_happens_to_a_backup_is_noticed_and_leaves_nothing() {
    let folder = Folder::new("damage");
    let bytes = small(&folder);
    let to = folder.0.join("to");
    let refused = |bytes: &[u8]| {
        let error = restore(bytes, &to).unwrap_err();
        assert_eq!(folder.names(), ["store"]);
        assert!(check_backup(bytes, &to).is_err());
        archive_error(error)
    };
    // Cut anywhere: at each block, and at odd places. The zeros at the end can be missing.
    let whole = bytes.len() - 1024;
    for length in (0..whole).step_by(512).chain((1..whole).step_by(997)) {
        let error = refused(&bytes[..length]);
        let is_told = matches!(error, ArchiveError::Short(_) | ArchiveError::Foreign);
        assert!(is_told, "{length}: {error}");
    }
    // Bits that are flipped in contents; in heads they change what `tar` reads, or nothing that counts.
    let mut numbers = Numbers(7);
    let mut noticed = 0;
    for _ in 0..400 {
        let mut flipped = bytes.clone();
        let bit = numbers.below(whole as u64 * 8) as usize;
        flipped[bit / 8] ^= 1 << (bit % 8);
        match check_backup(&flipped[..], &to) {
            Err(_) => noticed += 1,
            Ok(_) => {
                // Then all that counts is what it was: the head's own checksum covers the rest.
                restore(&flipped[..], &to).unwrap();
                assert_eq!(moment(&to), 20);
                fs::remove_dir_all(&to).unwrap();
            }
        }
    }
    assert!(noticed > 300, "{noticed}");
    let longer = [&bytes[..], b"x"].concat();
    assert!(matches!(refused(&longer), ArchiveError::Longer));
    let zeros = [&bytes[..], &[0; 9000]].concat();
    restore(&zeros[..], &to).unwrap();
    assert_eq!(moment(&to), 20);
}

#[test]
fn hostile_archives_make_nothing() {
    let folder = Folder::new("hostile");
    let to = folder.0.join("to");
    let about = (&b"tiderace-backup"[..], &b"tiderace-backup\nform 1\nsegments 1\nbodies 0\n"[..]);
    let log = (&b"0000000001.log"[..], &b"x"[..]);
    let refused = |bytes: &[u8]| {
        let error = archive_error(restore(bytes, &to).unwrap_err());
        assert!(folder.names().is_empty(), "{error}: {:?}", folder.names());
        error
    };
    for name in [
        "../0000000001.log",
        "/0000000001.log",
        "a/0000000001.log",
        "./0000000001.log",
        "lock",
        "..",
        "",
        "0000000001.log/",
        "0000000001.log\n",
        "1.log",
        "0000000001.log.new",
        "high-water",
        "tiderace.toml",
        "0000000001.LOG",
        "\u{202e}gol.1000000000",
    ] {
        let error = refused(&archive_of(&[about, (name.as_bytes(), b"x")]));
        assert!(matches!(error, ArchiveError::Unexpected(_)), "{name}: {error}");
        assert!(!error.to_string().contains('\n') && error.to_string().len() < 400);
    }
    let error = refused(&archive_of(&[about, (&[0xff; 99], b"x")]));
    assert!(matches!(error, ArchiveError::Unexpected(_)), "{error}");
    // Not first, missing, twice, more than is promised.
    for (members, says) in [
        (&[][..], "not what"),
        (&[log, about], "not what"),
        (&[about], "lacks"),
        (&[about, log, log], "twice"),
        (&[about, about, log], "twice"),
        (&[about, log, (b"0000000002.log", b"x")], "lacks"),
        (&[about, log, (b"0000000001.body", b"x")], "lacks"),
    ] {
        let error = refused(&archive_of(members));
        assert!(error.to_string().contains(says), "{says}: {error}");
    }
    // Another kind of file than a plain one: a link to elsewhere, a directory, a device.
    for kind in *b"123456xgLKSV" {
        let mut bytes = archive_of(&[about, log]);
        let head = 1024 + 156;
        bytes[head] = kind;
        let error = refused(&repaired(bytes));
        assert!(matches!(error, ArchiveError::Unexpected(_)), "{kind}: {error}");
    }
    // A length that nothing stands behind.
    let mut bytes = archive_of(&[about, log]);
    bytes[1024 + 124..1024 + 136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    let error = refused(&repaired(bytes));
    assert!(matches!(error, ArchiveError::Short(_)), "{error}");
    // A whole archive of something that is no log.
    let error = restore(&archive_of(&[about, log])[..], &to).unwrap_err();
    assert!(matches!(error, TransferError::DamagedBackup(_)), "{error}");
    assert!(folder.names().is_empty());
}

#[test]
fn a_newer_form_is_refused_and_says_so() {
    let folder = Folder::new("newer");
    let about = (&b"tiderace-backup"[..], &b"tiderace-backup\nform 2\nwhatever\n"[..]);
    let error = restore(&archive_of(&[about])[..], &folder.0.join("to")).unwrap_err();
    let says = "the backup has form 2, which is that of a newer version of tiderace; this one reads forms up to 1: \
                restore it with that version";
    assert_eq!(error.to_string(), says);
    // The same for a log of a newer form in a backup of one that is known.
    let header = Header { form: 9, salt: 1, number: 1, oldest: 1 }.encode();
    let about = &b"tiderace-backup\nform 1\nsegments 1\nbodies 0\n"[..];
    let bytes = archive_of(&[(b"tiderace-backup", about), (b"0000000001.log", &header)]);
    let error = restore(&bytes[..], &folder.0.join("to")).unwrap_err();
    let is_told = matches!(
        &error,
        TransferError::Inspect(InspectError::Open(OpenError::TooNew { form: 9, .. }))
    );
    assert!(is_told, "{error}");
    assert!(folder.names().is_empty());
}

#[test]
fn only_an_empty_or_new_directory_gets_a_store() {
    let folder = Folder::new("targets");
    let bytes = small(&folder);
    let (used, empty) = (folder.0.join("used"), folder.0.join("empty"));
    fs::create_dir_all(&used).unwrap();
    File::create(used.join("something")).unwrap();
    fs::create_dir_all(&empty).unwrap();
    let error = restore(&bytes[..], &used).unwrap_err();
    assert!(matches!(error, TransferError::NotEmpty { .. }), "{error}");
    assert!(matches!(check_backup(&bytes[..], &used), Err(TransferError::NotEmpty { .. })));
    restore(&bytes[..], &empty).unwrap();
    assert_eq!(moment(&empty), 20);
    // What a restore that was killed has left is not taken for one's own.
    let other = folder.0.join("other");
    fs::create_dir_all(folder.0.join("other.restore")).unwrap();
    let error = restore(&bytes[..], &other).unwrap_err();
    assert!(matches!(error, TransferError::Unfinished { .. }), "{error}");
    assert!(!other.exists() && folder.0.join("other.restore").exists());
    let file = folder.0.join("file");
    File::create(&file).unwrap();
    restore(&bytes[..], &file).unwrap_err();
}

#[test]
fn a_store_that_has_stopped_gives_no_backup() {
    let folder = Folder::new("stopped");
    let (store, _) = Store::open(&folder.store(), options()).unwrap();
    let committer = Committer::start(store, |_| {}).unwrap();
    let backups = committer.backups();
    drop(committer);
    assert!(matches!(backups.begin(), Err(BackupError::Stopped)));
}
