//! Of a log that is damaged only what cannot be read is left out; it is told, and the bytes are set aside.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::segments::{segments, summary_of, without_summaries};
use tiderace_store::{
    Batch, DamageKind, Declaration, Header, LoadRequest, LostRecord, Mark, OpenError, Options, Put,
    Record, Recovered, Seed, SetAside, Store, StreamId, StreamKind, scan,
};

fn open(
    disk: &SimulatedDisk,
    accept_damage: bool,
) -> Result<(Store<SimulatedDisk>, Recovered), OpenError> {
    let options =
        Options { segment_bytes: 4096, reserve_bytes: 0, accept_damage, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options)
}

/// Commits of three batches each, of which each has messages of two queues and a value.
fn written() -> SimulatedDisk {
    written_and(true)
}

fn written_and(is_closed: bool) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, false).unwrap();
    let mut batch = Batch::new();
    for stream in [StreamId(1), StreamId(2)] {
        let (kind, mark, path) = (StreamKind::Queue, Mark::default(), "a");
        batch.declare(&Declaration { stream, kind, mark, path, spec: b"" }).unwrap();
    }
    assert!(store.commit(vec![batch]).1.is_none());
    for commit in 0..12u64 {
        let batches = (1..=3).map(|number| {
            let number = 2 * (3 * commit + number) - 1;
            let mut batch = Batch::new();
            if number % 3 == 0 {
                let owners = [(StreamId(1), number), (StreamId(2), number)];
                batch.put_shared(&owners, 2, &[number as u8; 60]).unwrap();
            }
            for stream in [StreamId(1), StreamId(2)].into_iter().filter(|_| number % 3 != 0) {
                let bytes = &[number as u8; 60];
                let (sequence, count, version, keep_from) = (number, 2, number + 1, 0);
                batch
                    .put(&Put { stream, sequence, count, version, keep_from, bytes, body: None })
                    .unwrap();
            }
            batch.set(&format!("value-{number}"), &[number as u8; 30]).unwrap();
            batch
        });
        assert!(store.commit(batches.collect()).1.is_none());
    }
    if is_closed {
        store.close().unwrap();
    }
    disk
}

/// All messages by stream and number, and all values.
type Contents = (BTreeMap<(u64, u64), Vec<u8>>, BTreeMap<String, Vec<u8>>);

fn contents(store: &mut Store<SimulatedDisk>, recovered: &Recovered) -> Contents {
    let mut messages = BTreeMap::new();
    for stream in &recovered.streams {
        let mut next = Some(1);
        while let Some(first) = next {
            let (ticket, stream, last, bytes_max) = (0, stream.stream, u64::MAX, 1 << 20);
            let loaded =
                store.load(&LoadRequest { ticket, stream, beside: None, first, last, bytes_max });
            assert_eq!(loaded.damaged, []);
            for found in loaded.messages {
                messages.insert((stream.0, found.sequence), found.bytes.to_vec());
            }
            next = loaded.next;
        }
    }
    let values = recovered.values.iter().map(|(name, value)| (name.to_string(), value.to_vec()));
    (messages, values.collect())
}

/// Where each record of a segment lies, and what is lost with it.
fn records(segment: &[u8]) -> Vec<(usize, usize, LostRecord)> {
    let header = Header::decode(segment).unwrap();
    let (mut found, seed) = (Vec::new(), Seed::new(header.salt, header.number));
    scan(segment, 32, seed, |offset, frame, record| {
        let is_kept = matches!(record, Record::Put(_) | Record::PutShared(_) | Record::Set { .. });
        if is_kept {
            found.push((offset as usize, frame.bytes(), LostRecord::of(&record)));
        }
    });
    found
}

#[test]
fn one_record_that_is_damaged_takes_no_other_with_it() {
    let disk = written();
    let (mut store, recovered) = open(&disk, false).unwrap();
    let whole = contents(&mut store, &recovered);
    drop(store);
    assert_eq!((whole.0.len(), whole.1.len()), (72, 36));
    let mut told_for_certain = 0;
    for disk in [disk.copy(), without_summaries(&disk)] {
        for name in segments(&disk) {
            let content = disk.content(&name);
            for (offset, bytes, lost) in records(&content) {
                // Its length, its checksum, its kind, what it says, its last byte.
                for at in [0, 1, 3, 5, 8, 10, bytes - 1] {
                    let damaged = disk.copy();
                    let mut damaged_content = content.clone();
                    damaged_content[offset + at] ^= 1 << (at % 7);
                    damaged.replace(&name, damaged_content.clone());
                    let place = format!("{name} at {offset}+{at}: {lost:?}");
                    assert!(
                        open(&damaged, false).is_err()
                            || matches!(
                                lost,
                                LostRecord::Messages { .. } | LostRecord::Shared { .. }
                            ),
                        "{place}"
                    );
                    let (mut store, recovered) = open(&damaged, true).unwrap();
                    let found = contents(&mut store, &recovered);
                    let mut expected = whole.clone();
                    match &lost {
                        LostRecord::Messages { stream, first, .. } => {
                            expected.0.remove(&(stream.0, *first)).unwrap();
                        }
                        LostRecord::Shared { owners, count: 2 } => {
                            for (stream, first) in owners {
                                expected.0.remove(&(stream.0, *first)).unwrap();
                            }
                            let told = recovered.report.damage[0].lost.as_ref();
                            let told = told.map(LostRecord::streams).unwrap_or_default();
                            assert!(at > 7 || told == [StreamId(1), StreamId(2)], "{place}");
                        }
                        LostRecord::Value { name } => _ = expected.1.remove(&**name).unwrap(),
                        other => panic!("{other:?}"),
                    }
                    assert!(found == expected, "{place}: {:?}", recovered.report.damage);
                    let [damage] = &recovered.report.damage[..] else {
                        panic!("{place}: {:?}", recovered.report.damage)
                    };
                    assert_eq!((&damage.file, damage.offset), (&name, offset as u64), "{place}");
                    assert_eq!(damage.bytes, bytes as u64, "{place}");
                    assert!(matches!(damage.what, DamageKind::Record(_)));
                    let aside = format!("{name}.{offset}.damaged");
                    let told = SetAside { file: aside.clone(), bytes: bytes as u64 };
                    assert_eq!(recovered.report.set_aside, [told]);
                    let damaged_bytes = &damaged_content[offset..offset + bytes];
                    assert_eq!(damaged.content(&aside), damaged_bytes, "{place}");
                    assert!(!damaged.list().contains(&name), "{place}: nothing else is kept");
                    let perhaps = LostRecord::Perhaps(Box::new(lost.clone()));
                    match damage.lost.as_ref() {
                        Some(told) if summary_of(&disk.content(&name)).is_some() => {
                            assert_eq!(*told, lost, "{place}");
                            told_for_certain += 1;
                        }
                        told if at < 8 => assert_eq!(told, Some(&perhaps), "{place}"),
                        // The record itself says it, as far as it can be read.
                        _ => {}
                    }
                    drop(store);
                    let (mut store, recovered) = open(&damaged, false).unwrap();
                    assert_eq!(contents(&mut store, &recovered), expected, "{place}");
                }
            }
        }
    }
    assert!(told_for_certain > 250, "{told_for_certain}");
}

#[test]
fn copies_of_damaged_bytes_are_bounded_and_what_is_not_copied_is_counted() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, false).unwrap();
    for name in ["a", "b", "c", "d"] {
        let mut batch = Batch::new();
        batch.set(name, &vec![7; 30 << 20]).unwrap();
        assert!(store.commit(vec![batch]).1.is_none());
    }
    store.close().unwrap();
    for name in segments(&disk) {
        let mut content = disk.content(&name);
        if content.len() > 30 << 20 {
            content[20 << 20] ^= 1;
            disk.replace(&name, content);
        }
    }
    let (_, recovered) = open(&disk, true).unwrap();
    assert_eq!(recovered.report.damage.len(), 4);
    assert_eq!(recovered.report.set_aside.len(), 2);
    assert!((60 << 20..61 << 20).contains(&recovered.report.not_set_aside));
    assert!(disk.used() < 61 << 20, "{}", disk.used());
}

#[test]
fn of_a_segment_with_blocks_that_the_device_does_not_give_the_others_are_read() {
    let disk = written();
    let (mut store, recovered) = open(&disk, false).unwrap();
    let whole = contents(&mut store, &recovered);
    let mut batch = Batch::new();
    batch.set("long", &[9; 20_000]).unwrap();
    assert!(store.commit(vec![batch]).1.is_none());
    store.close().unwrap();
    let name = segments(&disk).into_iter().find(|name| disk.content(name).len() > 20_000).unwrap();
    disk.fail_block(Some((&name, 9000)));
    let error = open(&disk, false).map(drop).unwrap_err();
    assert!(matches!(&error, OpenError::Damaged { damage, .. } if damage.file == name), "{error}");
    let (mut store, recovered) = open(&disk, true).unwrap();
    assert_eq!(contents(&mut store, &recovered), whole, "and the long value is lost");
    let damage = &recovered.report.damage;
    let unreadable = damage.iter().find(|it| matches!(it.what, DamageKind::Unreadable(_))).unwrap();
    assert_eq!((unreadable.offset, unreadable.bytes), (8192, 4096));
    let aside = recovered.report.set_aside.iter().map(|aside| &aside.file[..]);
    assert!(
        aside.eq([&format!("{name}.damaged")[..]]),
        "the file is kept: it may be read elsewhere"
    );
}

#[test]
fn what_is_torn_behind_damage_is_no_damage() {
    // Killed: no later mark of the log proves the last commit, the mark beside it does.
    let disk = written_and(false);
    let name = segments(&disk).pop().unwrap();
    let mut content = disk.content(&name);
    let (offset, bytes, lost) = records(&content).pop().unwrap();
    content[offset + bytes - 1] ^= 1;
    content.extend_from_slice(b"torn end");
    disk.replace(&name, content);
    assert!(matches!(open(&disk, false), Err(OpenError::Damaged { .. })));
    let (_, recovered) = open(&disk, true).unwrap();
    let [damage] = &recovered.report.damage[..] else { panic!("{:?}", recovered.report.damage) };
    assert_eq!((damage.offset, damage.bytes), (offset as u64, bytes as u64));
    assert_eq!(damage.lost, Some(LostRecord::Perhaps(Box::new(lost))));
}
