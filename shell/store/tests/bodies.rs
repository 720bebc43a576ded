//! Bodies that lie in files: kept before their records are, there as long as a record names them, and never given damaged.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, openat};
use tiderace_base::SampleValue;
use tiderace_bodies::{BodyFile, BodyPart, Maps};
use tiderace_store::{
    Batch, Committer, DamageKind, Declaration, LoadRequest, Loaded, Look, Mark, Notice, OpenError,
    Options, Outcome, Put, Recovered, RecoveredMessages, Store, StreamId, StreamKind, Submitter,
    Sync, TransferError, export, import, inspect,
};

/// A folder of a test, which is removed.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        let name = format!("tiderace-store-bodies-{}-{name}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(&folder.0).unwrap();
        folder
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    /// The files with bodies.
    pub(crate) fn bodies(&self) -> Vec<PathBuf> {
        let found = fs::read_dir(self.store()).unwrap().map(|entry| entry.unwrap().path());
        let mut found: Vec<_> =
            found.filter(|it| it.extension().is_some_and(|it| it == "body")).collect();
        found.sort();
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) fn content(seed: u8, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| seed ^ (at * 7 % 251) as u8).collect()
}

/// A body in a file that has no name and can be given one, behind some bytes that are not of it.
pub(crate) fn body(folder: &Folder, maps: &Maps, content: &[u8]) -> BodyPart {
    let flags = OFlags::RDWR | OFlags::TMPFILE;
    let file = openat(CWD, &folder.0, flags, Mode::RUSR | Mode::WUSR).unwrap();
    body_in(file.into(), maps, content)
}

/// The same in a file that had a name, and can be given no other.
pub(crate) fn body_that_had_a_name(folder: &Folder, maps: &Maps, content: &[u8]) -> BodyPart {
    let path = folder.0.join("arriving");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    body_in(file, maps, content)
}

fn body_in(mut file: File, maps: &Maps, content: &[u8]) -> BodyPart {
    file.write_all(&[b"head", content].concat()).unwrap();
    let length = content.len() as u64;
    let file = Arc::new(BodyFile::new(file, length + 4, None));
    let bytes = maps.map(&file, 4, length).unwrap();
    maps.find(&bytes).unwrap()
}

pub(crate) fn put(stream: u64, sequence: u64) -> Put<'static> {
    let stream = StreamId(stream);
    Put { stream, sequence, count: 1, version: sequence, keep_from: 0, bytes: b"head", body: None }
}

pub(crate) fn declare(batch: &mut Batch, stream: u64, kind: StreamKind) {
    let (path, mark) = (format!("path/{stream}"), Mark::default());
    let stream = StreamId(stream);
    batch.declare(&Declaration { stream, kind, mark, path: &path, spec: b"" }).unwrap();
}

/// A store that works, and what it says.
pub(crate) struct Life {
    pub(crate) committer: Option<Committer>,
    pub(crate) submitter: Submitter,
    done: Receiver<(u64, Outcome)>,
    loaded: Receiver<Loaded>,
    /// The numbers of records that were left out.
    pub(crate) refused: Receiver<u64>,
    recovered: Recovered,
}

impl Life {
    pub(crate) fn begin(folder: &Folder) -> Life {
        Life::begin_with(folder, Sync::Always)
    }

    fn begin_with(folder: &Folder, sync: Sync) -> Life {
        Life::begin_as(folder, Options { sync, ..Options::default() })
    }

    fn begin_as(folder: &Folder, options: Options) -> Life {
        let (store, recovered) = Store::open(&folder.store(), options).unwrap();
        let ((tell_done, done), (tell_loaded, loaded)) = (channel(), channel());
        let (tell_refused, refused) = channel();
        let committer = Committer::start(store, move |notice| match notice {
            Notice::Done(all) => {
                all.iter().for_each(|it| tell_done.send((it.ticket, it.outcome)).unwrap_or(()));
            }
            Notice::Loaded(loaded) => tell_loaded.send(loaded).unwrap_or(()),
            Notice::BodiesRefused { records, .. } => {
                records.iter().for_each(|it| tell_refused.send(*it).unwrap_or(()));
            }
            _ => {}
        });
        let committer = committer.unwrap();
        let submitter = committer.submitter(0);
        Life { committer: Some(committer), submitter, done, loaded, refused, recovered }
    }

    pub(crate) fn commit(&self, ticket: u64, batch: Batch) {
        self.submitter.try_submit(ticket, batch).unwrap();
        assert_eq!(self.done.recv().unwrap(), (ticket, Outcome::Committed));
    }

    fn load(&self, stream: u64) -> Loaded {
        let (ticket, first, last, bytes_max) = (7, 1, u64::MAX, 1 << 20);
        let stream = StreamId(stream);
        let request = LoadRequest { ticket, stream, beside: None, first, last, bytes_max };
        self.submitter.load(request).unwrap();
        self.loaded.recv().unwrap()
    }

    /// All messages of a stream, one load after the other: a large body comes alone.
    pub(crate) fn load_all(&self, stream: u64) -> Vec<RecoveredMessages> {
        let (mut found, mut next) = (Vec::new(), Some(1));
        while let Some(first) = next {
            let (ticket, last, bytes_max) = (7, u64::MAX, 1 << 20);
            let stream = StreamId(stream);
            let request = LoadRequest { ticket, stream, beside: None, first, last, bytes_max };
            self.submitter.load(request).unwrap();
            let loaded = self.loaded.recv().unwrap();
            assert!(loaded.damaged.is_empty());
            found.extend(loaded.messages);
            next = loaded.next;
        }
        found
    }

    /// Ends it; all that waits is done.
    pub(crate) fn end(mut self) {
        drop(self.committer.take());
    }
}

pub(crate) fn settle(stream: u64, sequence: u64) -> Batch {
    let mut batch = Batch::new();
    batch.settle(StreamId(stream), &[(sequence, sequence)]).unwrap();
    batch
}

/// Waits until so many files are left.
pub(crate) fn left(folder: &Folder, count: usize) {
    while folder.bodies().len() != count {
        std::thread::yield_now();
    }
}

#[test]
fn a_file_is_there_as_long_as_a_record_names_it() {
    let (folder, maps) = (Folder::new("shared"), Maps::open().unwrap());
    let bytes = content(1, 300_000);
    let life = Life::begin(&folder);
    let part = body(&folder, &maps, &bytes);
    let mut batch = Batch::new();
    for stream in [1, 2] {
        declare(&mut batch, stream, StreamKind::Queue);
        batch.put_with_body(0, &put(stream, 1), part.clone()).unwrap();
    }
    life.commit(1, batch);
    assert_eq!(folder.bodies().len(), 1);
    life.commit(2, settle(1, 1));
    // Somebody who has the bytes yet puts them again.
    let mut again = Batch::new();
    again.put_with_body(0, &put(1, 2), part.clone()).unwrap();
    life.commit(3, again);
    life.commit(4, settle(2, 1));
    assert_eq!(folder.bodies().len(), 1);
    life.end();
    let life = Life::begin(&folder);
    let loaded = life.load(1);
    assert!(loaded.damaged.is_empty());
    let open = loaded.messages[0].body.clone().unwrap();
    let mapped = maps.map(&open.file.clone().unwrap(), open.place.offset, open.place.length);
    let mapped = mapped.unwrap();
    assert!(mapped == bytes);
    // It moves to another stream by its bytes, and keeps its file.
    let mut moved = Batch::new();
    moved.put_with_body(0, &put(2, 2), maps.find(&mapped).unwrap()).unwrap();
    moved.settle(StreamId(1), &[(2, 2)]).unwrap();
    let name = folder.bodies();
    life.commit(1, moved);
    assert_eq!(folder.bodies(), name);
    let loaded = life.load(2);
    assert!(loaded.damaged.is_empty() && loaded.messages[0].body.as_ref() == Some(&open));
    life.commit(2, settle(2, 2));
    left(&folder, 0);
    // Its bytes stay with who has them, who can have them kept anew.
    let mut last = Batch::new();
    last.put_with_body(0, &put(2, 3), maps.find(&mapped).unwrap()).unwrap();
    life.commit(3, last);
    assert_eq!(folder.bodies().len(), 1);
    assert_ne!(folder.bodies(), name, "no number is given twice");
    life.end();
    let life = Life::begin(&folder);
    assert_eq!(life.load(2).messages.len(), 1);
    life.end();
}

#[test]
fn a_file_is_removed_without_a_commit_that_waits_for_the_disk() {
    for sync in [Sync::Never, Sync::Interval(Duration::from_secs(3600))] {
        let (folder, maps) = (Folder::new("lazy"), Maps::open().unwrap());
        let life = Life::begin_with(&folder, sync);
        let mut batch = Batch::new();
        declare(&mut batch, 1, StreamKind::Queue);
        for sequence in 1..=3 {
            let part = body(&folder, &maps, &content(sequence as u8, 300_000));
            batch.put_with_body(sequence, &put(1, sequence), part).unwrap();
        }
        life.commit(1, batch);
        for sequence in 1..=3 {
            life.commit(1 + sequence, settle(1, sequence));
        }
        if sync == Sync::Never {
            left(&folder, 0);
        }
        let metrics = life.committer.as_ref().unwrap().metrics();
        let waited = |name| metrics.samples().find(|it| it.row.name == name).unwrap().value;
        let none = SampleValue::Decimal(0.0);
        assert_eq!(waited("tiderace_store_sync_seconds_total"), none, "{sync:?}");
        life.end();
        left(&folder, 0);
        assert!(Life::begin(&folder).recovered.streams[0].stored.is_empty());
    }
}

#[test]
fn batches_behind_one_with_a_body_stay_behind_it() {
    let (folder, maps) = (Folder::new("order"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let mut first = Batch::new();
    declare(&mut first, 1, StreamKind::Queue);
    let part = body_that_had_a_name(&folder, &maps, &content(2, 5_000_000));
    first.put_with_body(0, &put(1, 1), part).unwrap();
    life.submitter.try_submit(1, first).unwrap();
    for ticket in 2..200 {
        let mut batch = settle(1, ticket - 1);
        batch.put(&put(1, ticket)).unwrap();
        life.submitter.try_submit(ticket, batch).unwrap();
    }
    for ticket in 1..200 {
        assert_eq!(life.done.recv().unwrap(), (ticket, Outcome::Committed));
    }
    left(&folder, 0);
    life.end();
    assert_eq!(Life::begin(&folder).recovered.streams[0].stored[0].first, 199);
}

/// Something that stands where the next files of bodies would, so that none of these can be made.
fn block(folder: &Folder, files: std::ops::Range<u64>) {
    for file in files {
        let name = folder.store().join(format!("{file:010}.body"));
        fs::create_dir_all(name.join("in the way")).unwrap();
    }
}

#[test]
fn a_body_that_cannot_be_kept_is_left_out_and_all_else_is_there() {
    let (folder, maps) = (Folder::new("refused"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    block(&folder, 1..3);
    let lost = body(&folder, &maps, &content(3, 100_000));
    let copied = body_that_had_a_name(&folder, &maps, &content(4, 100_000));
    let kept = body(&folder, &maps, &content(5, 100_000));
    let mut batch = Batch::new();
    for stream in [1, 2] {
        declare(&mut batch, stream, StreamKind::Queue);
    }
    batch.put(&put(1, 1)).unwrap();
    batch.put(&put(2, 1)).unwrap();
    batch.put_with_body(12, &put(1, 2), lost.clone()).unwrap();
    // What moves by that stays where it is, and all else that is settled goes.
    batch.settle_with_body(StreamId(2), &[(1, 1)]).unwrap();
    batch.settle(StreamId(1), &[(1, 1)]).unwrap();
    batch.put(&put(1, 3)).unwrap();
    batch.put_with_body(15, &put(1, 4), copied).unwrap();
    batch.put_with_body(16, &put(1, 5), kept).unwrap();
    // What several have in common is tried once.
    batch.put_with_body(17, &put(2, 2), lost.clone()).unwrap();
    life.commit(1, batch);
    assert_eq!(life.refused.try_iter().collect::<Vec<_>>(), [12, 15, 17]);
    // Nothing but bodies that are left out: the submitter goes on.
    block(&folder, 4..5);
    let mut batch = Batch::new();
    batch.put_with_body(18, &put(1, 6), lost.clone()).unwrap();
    life.commit(2, batch);
    assert_eq!(life.refused.recv().unwrap(), 18);
    let mut batch = Batch::new();
    batch.put_with_body(19, &put(1, 7), lost).unwrap();
    batch.settle_with_body(StreamId(2), &[(1, 1)]).unwrap();
    life.commit(3, batch);
    assert!(life.refused.try_recv().is_err());
    let found = |life: &Life, stream| {
        let loaded = life.load_all(stream);
        loaded.iter().map(|it| (it.sequence, it.body.is_some())).collect::<Vec<_>>()
    };
    assert_eq!(found(&life, 1), [(3, false), (5, true), (7, true)]);
    assert!(found(&life, 2).is_empty());
    life.end();
    for file in [1, 2, 4] {
        fs::remove_dir_all(folder.store().join(format!("{file:010}.body"))).unwrap();
    }
    let life = Life::begin(&folder);
    assert_eq!(found(&life, 1), [(3, false), (5, true), (7, true)]);
    assert!(found(&life, 2).is_empty());
    life.end();
}

#[test]
fn what_is_left_out_gives_back_all_the_room_that_it_took() {
    let (folder, maps) = (Folder::new("room"), Maps::open().unwrap());
    let options = Options { waiting_bytes_max: 1_000, ..Options::default() };
    let life = Life::begin_as(&folder, options);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    life.commit(1, batch);
    block(&folder, 1..40);
    let lost = body(&folder, &maps, &content(3, 100_000));
    for ticket in 2..40 {
        let mut batch = Batch::new();
        batch.put_with_body(ticket, &put(1, ticket), lost.clone()).unwrap();
        batch.put(&put(1, ticket)).unwrap();
        life.commit(ticket, batch);
        assert_eq!(life.refused.recv().unwrap(), ticket);
        assert_eq!(life.submitter.waiting_bytes(), 0);
    }
    life.end();
}

/// A store with two bodies of a queue and one of a topic.
fn filled(folder: &Folder) {
    let maps = Maps::open().unwrap();
    let life = Life::begin(folder);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    declare(&mut batch, 2, StreamKind::Topic);
    for (stream, sequence, seed) in [(1, 1, 4), (1, 2, 5), (2, 1, 6)] {
        let part = body(folder, &maps, &content(seed, 2_500_000));
        batch.put_with_body(0, &put(stream, sequence), part).unwrap();
    }
    life.commit(1, batch);
    life.end();
}

fn change(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    bytes[1_000_000] ^= 1;
    fs::write(file, bytes).unwrap();
}

fn open(folder: &Folder, accept_damage: bool) -> Result<(Store, Recovered), OpenError> {
    Store::open(&folder.store(), Options { accept_damage, ..Options::default() })
}

#[test]
fn damage_is_told_with_the_message_that_is_lost() {
    let folder = Folder::new("damage");
    filled(&folder);
    let files = folder.bodies();
    change(&files[1]);
    // A server starts, for it reads no messages of queues; what is damaged it does not give.
    let life = Life::begin(&folder);
    let loaded = life.load(1);
    assert_eq!((loaded.messages.len(), loaded.damaged.len()), (1, 0), "one large body at a time");
    let (ticket, first, last, bytes_max) = (8, 2, u64::MAX, 1 << 20);
    let request = LoadRequest { ticket, stream: StreamId(1), beside: None, first, last, bytes_max };
    life.submitter.load(request).unwrap();
    let damaged = life.loaded.recv().unwrap().damaged;
    assert_eq!((damaged[0].sequence, damaged[0].damage.what), (2, DamageKind::Body));
    life.end();
    let found = inspect(&folder.store(), Look::AtSummaries).unwrap();
    assert_eq!((found.bodies, found.recovered.report.damage.len()), ((3, 3 * 2_500_004), 0));
    let found = inspect(&folder.store(), Look::AtAll).unwrap();
    let damage = &found.recovered.report.damage;
    assert_eq!((damage.len(), damage[0].what), (1, DamageKind::Body));
    assert!(files[1].ends_with(&damage[0].file));
    assert_eq!(found.recovered.paths_of(&damage[0]), ["path/1"]);
    let exported = export(&folder.store(), std::io::sink(), |_, _| {});
    assert!(matches!(exported, Err(TransferError::Damaged(_))), "{exported:?}");
    // That of a topic, and a file that is missing or short, are noticed at the start.
    for file in [&files[2], &files[0]] {
        let before = fs::read(file).unwrap();
        match file == &files[2] {
            true => change(file),
            false => fs::write(file, &before[..1_000_000]).unwrap(),
        }
        let error = open(&folder, false).unwrap_err();
        assert!(matches!(error, OpenError::Damaged { .. }), "{error}");
        fs::write(file, before).unwrap();
    }
    fs::remove_file(&files[0]).unwrap();
    let error = open(&folder, false).unwrap_err();
    let OpenError::Damaged { damage, .. } = error else { panic!("{error}") };
    assert_eq!(damage.what, DamageKind::Missing);
    // Accepted, it costs these messages, and what is left of them is kept aside.
    let (_, recovered) = open(&folder, true).unwrap();
    assert_eq!(recovered.report.damage.len(), 2);
    let aside: Vec<_> = recovered.report.set_aside.iter().map(|it| it.file.clone()).collect();
    assert_eq!(aside, [format!("{}.damaged", files[1].file_name().unwrap().to_str().unwrap())]);
    assert_eq!(folder.bodies(), files[2..]);
    let (_, recovered) = open(&folder, false).unwrap();
    assert!(recovered.report.damage.is_empty() && recovered.streams[0].stored.is_empty());
    assert_eq!(recovered.streams[1].messages.len(), 1);
}

#[test]
fn what_no_record_names_is_removed_when_the_store_is_opened() {
    let folder = Folder::new("unneeded");
    filled(&folder);
    let files = folder.bodies();
    fs::write(folder.store().join("0000000009.body"), b"left by a crash").unwrap();
    fs::write(folder.store().join("notes.body"), b"not ours").unwrap();
    let life = Life::begin(&folder);
    assert_eq!(folder.bodies(), [&files[..], &[folder.store().join("notes.body")]].concat());
    let maps = Maps::open().unwrap();
    let mut batch = Batch::new();
    batch.put_with_body(0, &put(1, 3), body(&folder, &maps, &content(9, 1000))).unwrap();
    life.commit(1, batch);
    assert!(folder.store().join("0000000010.body").exists());
    life.end();
}

#[test]
fn bodies_whose_log_is_gone_are_kept() {
    let folder = Folder::new("no-log");
    filled(&folder);
    let files = folder.bodies();
    for entry in fs::read_dir(folder.store()).unwrap() {
        let path = entry.unwrap().path();
        if !files.contains(&path) && path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    let (_, recovered) = open(&folder, false).unwrap();
    assert_eq!(recovered.report.set_aside.len(), files.len());
    assert!(
        files.iter().all(|file| !file.exists() && file.with_extension("body.damaged").exists())
    );
}

#[test]
fn bodies_go_out_and_come_in_as_they_are_and_shared_ones_once() {
    let folder = Folder::new("transfer");
    filled(&folder);
    let maps = Maps::open().unwrap();
    let life = Life::begin(&folder);
    let open = life.load(1).messages[0].body.clone().unwrap();
    let mapped = maps.map(&open.file.unwrap(), open.place.offset, open.place.length).unwrap();
    let mut batch = Batch::new();
    batch.put_with_body(0, &put(1, 3), maps.find(&mapped).unwrap()).unwrap();
    life.commit(1, batch);
    life.end();
    let mut exported = Vec::new();
    let done = export(&folder.store(), &mut exported, |_, _| {}).unwrap();
    assert_eq!((done.messages, done.bytes), (4, exported.len() as u64));
    assert!((7_500_000..7_510_000).contains(&exported.len()), "{}", exported.len());
    let there = Folder::new("imported");
    let done = import(&exported[..], &there.store(), |_| {}).unwrap();
    assert_eq!((done.messages, done.streams), (4, 2));
    assert!(inspect(&there.store(), Look::AtAll).unwrap().recovered.report.damage.is_empty());
    let found: Vec<_> = there.bodies().iter().map(|it| fs::read(it).unwrap()).collect();
    // In the order of their messages.
    assert!(found == [4, 5, 6].map(|seed| content(seed, 2_500_000)));
    let mut again = Vec::new();
    export(&there.store(), &mut again, |_, _| {}).unwrap();
    assert!(exported == again);
    for at in (0..exported.len()).step_by(exported.len() / 37) {
        let mut changed = exported.clone();
        changed[at] ^= 4;
        let refused = Folder::new("changed");
        assert!(import(&changed[..], &refused.store(), |_| {}).is_err(), "{at}");
        assert!(import(&exported[..at], &refused.store(), |_| {}).is_err(), "{at}");
        assert!(!refused.store().exists());
    }
}
