//! Backups of a store with large messages: their bodies are in them, and stand in nobody's way meanwhile.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::fs::{self, File};
use std::io::Write;
use std::sync::{Arc, Weak};

use rustix::fs::{CWD, Mode, OFlags, openat, statvfs};
use tiderace_bodies::{BodyFile, BodyPart, Maps};
use tiderace_store::{BackupArchive, BackupError, Batch, Options, Store, StreamKind, restore};

use crate::bodies::{
    Folder, Life, body, body_that_had_a_name, content, declare, left, put, settle,
};

#[test]
fn a_backup_has_the_bodies_that_are_needed_and_keeps_them_until_it_is_over() {
    let (folder, maps) = (Folder::new("backup"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    for sequence in 1..=3 {
        let part = body(&folder, &maps, &content(sequence as u8, 300_000));
        batch.put_with_body(sequence, &put(1, sequence), part).unwrap();
    }
    life.commit(1, batch);
    life.commit(2, settle(1, 1));
    left(&folder, 2);
    let snapshot = life.committer.as_ref().unwrap().backups().begin().unwrap();
    assert_eq!(snapshot.bodies(), 2);
    life.commit(3, settle(1, 2));
    let mut later = Batch::new();
    let part = body(&folder, &maps, &content(4, 300_000));
    later.put_with_body(4, &put(1, 4), part).unwrap();
    life.commit(4, later);
    let (mut archive, mut bytes) = (BackupArchive::new(snapshot, "0", 0), Vec::new());
    while let piece = archive.read(100_000).unwrap()
        && !piece.is_empty()
    {
        bytes.extend(piece);
    }
    assert_eq!(folder.bodies().len(), 3, "what nobody needs any more is there until it is over");
    drop(archive);
    left(&folder, 2);
    life.end();
    let restored = Folder::new("restored");
    restore(&bytes[..], &restored.store()).unwrap();
    assert_eq!(restored.bodies().len(), 2);
    let life = Life::begin(&restored);
    let found = life.load_all(1);
    assert_eq!(found.iter().map(|it| it.sequence).collect::<Vec<_>>(), [2, 3]);
    for messages in &found {
        let open = messages.body.clone().unwrap();
        let bytes = maps.map(&open.file.clone().unwrap(), open.place.offset, open.place.length);
        assert!(bytes.unwrap() == content(messages.sequence as u8, 300_000));
    }
    life.end();
}

#[test]
fn very_many_bodies_that_a_backup_has_kept_go_when_it_is_over() {
    let (folder, maps) = (Folder::new("many-kept"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    for sequence in 1..=200 {
        let part = body(&folder, &maps, &content(1, 1000));
        batch.put_with_body(sequence, &put(1, sequence), part).unwrap();
    }
    life.commit(1, batch);
    let snapshot = life.committer.as_ref().unwrap().backups().begin().unwrap();
    for sequence in 1..=200 {
        life.commit(1 + sequence, settle(1, sequence));
    }
    assert_eq!(folder.bodies().len(), 200);
    // Nothing else wakes the thread that removes them.
    drop(snapshot);
    left(&folder, 0);
    life.end();
}

/// A body whose bytes are counted until that goes.
fn counted_body(folder: &Folder, maps: &Maps, content: &[u8]) -> (BodyPart, Weak<u8>) {
    let mut file = File::from(
        openat(CWD, &folder.0, OFlags::RDWR | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR).unwrap(),
    );
    file.write_all(content).unwrap();
    let (charge, length) = (Arc::new(7), content.len() as u64);
    let counted = Arc::downgrade(&charge);
    let file = Arc::new(BodyFile::new(file, length, Some(charge)));
    let bytes = maps.map(&file, 0, length).unwrap();
    (maps.find(&bytes).unwrap(), counted)
}

#[test]
fn what_only_a_backup_keeps_is_counted_no_more() {
    let (folder, maps) = (Folder::new("discharged"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let (before, counted_before) = counted_body(&folder, &maps, &content(1, 300_000));
    let (part, counted) = counted_body(&folder, &maps, &content(2, 300_000));
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    batch.put_with_body(0, &put(1, 1), before).unwrap();
    life.commit(1, batch);
    let snapshot = life.committer.as_ref().unwrap().backups().begin().unwrap();
    let mut batch = Batch::new();
    batch.put_with_body(0, &put(1, 2), part.clone()).unwrap();
    life.commit(2, batch);
    assert!(counted_before.strong_count() > 0, "a record names it");
    for sequence in [1, 2] {
        life.commit(2 + sequence, settle(1, sequence));
    }
    while counted_before.strong_count() > 0 || counted.strong_count() > 1 {
        std::thread::yield_now();
    }
    // Somebody who has the bytes yet puts them again: they count again, without the file of who sent them first.
    let sent = Arc::downgrade(&part.file);
    let mut again = Batch::new();
    again.put_with_body(0, &put(1, 3), part).unwrap();
    life.commit(5, again);
    // A thread of its own unmaps, and has the file until then.
    while sent.strong_count() > 0 {
        std::thread::yield_now();
    }
    assert_eq!((folder.bodies().len(), counted.strong_count()), (2, 1));
    drop(snapshot);
    left(&folder, 1);
    life.commit(6, settle(1, 3));
    left(&folder, 0);
    assert_eq!(counted.strong_count(), 0);
    life.end();
}

#[test]
fn a_backup_is_given_up_for_a_body_that_the_disk_has_no_room_for() {
    let (folder, maps) = (Folder::new("no-room"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    let part = body(&folder, &maps, &content(1, 300_000));
    batch.put_with_body(0, &put(1, 1), part).unwrap();
    life.commit(1, batch);
    let snapshot = life.committer.as_ref().unwrap().backups().begin().unwrap();
    let mut archive = BackupArchive::new(snapshot, "0", 0);
    archive.read(600).unwrap();
    life.commit(2, settle(1, 1));
    assert_eq!(folder.bodies().len(), 1);
    // Larger than what is free, and nothing on the disk.
    let disk = statvfs(&folder.0).unwrap();
    let length = disk.f_bavail * disk.f_frsize + (1 << 30);
    let path = folder.0.join("arriving");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    fs::remove_file(&path).unwrap();
    file.set_len(length).unwrap();
    let file = Arc::new(BodyFile::new(file, length, None));
    let bytes = maps.map(&file, 0, length).unwrap();
    let mut batch = Batch::new();
    batch.put_with_body(9, &put(1, 2), maps.find(&bytes).unwrap()).unwrap();
    life.commit(3, batch);
    assert_eq!(life.refused.recv().unwrap(), 9);
    left(&folder, 0);
    assert!(matches!(archive.read(600), Err(BackupError::GivenUp)));
    life.end();
}

#[test]
fn a_backup_has_what_was_handed_over_before_it() {
    let (folder, maps) = (Folder::new("behind"), Maps::open().unwrap());
    let life = Life::begin(&folder);
    let mut batch = Batch::new();
    declare(&mut batch, 1, StreamKind::Queue);
    batch.put(&put(1, 1)).unwrap();
    life.commit(1, batch);
    let backups = life.committer.as_ref().unwrap().backups();
    for ticket in 2..20 {
        // One of them waits for its body, and what settles it behind it.
        let (mut batch, mut settled) = (Batch::new(), settle(1, ticket - 1));
        if ticket % 2 == 0 {
            let part = body_that_had_a_name(&folder, &maps, &content(2, 500_000));
            batch.put_with_body(0, &put(1, ticket), part).unwrap();
            life.submitter.try_submit(ticket, batch).unwrap();
        } else {
            settled.put(&put(1, ticket)).unwrap();
        }
        life.submitter.try_submit(100 + ticket, settled).unwrap();
        let mut archive = BackupArchive::new(backups.begin().unwrap(), "0", 0);
        let bytes = archive.read(1 << 30).unwrap();
        drop(archive);
        let restored = folder.0.join(format!("restored-{ticket}"));
        restore(&bytes[..], &restored).unwrap();
        let (_, recovered) = Store::open(&restored, Options::default()).unwrap();
        let stored = &recovered.streams[0].stored;
        let ranges: Vec<_> = stored.iter().map(|it| (it.first, it.last)).collect();
        assert_eq!(ranges, [(ticket, ticket)]);
    }
    life.end();
}
