//! Opening by summaries gives exactly what opening by reading every record gives, and does not read messages of queues.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::segments::{segments, summary_of, with_damaged_summaries, without_summaries};
use crate::common::{Numbers, seeds};
use tiderace_base::SampleValue;
use tiderace_store::{
    Batch, Declaration, Header, LoadRequest, Mark, OpenError, Options, Put, Recovered, Report,
    Seed, Store, StreamId, StreamKind, Sync,
};

fn options(segment_bytes: u32) -> Options {
    let sync = Sync::Never;
    Options { segment_bytes, reserve_bytes: 0, sync, ..Options::default() }
}

fn open(disk: &SimulatedDisk, segment_bytes: u32) -> (Store<SimulatedDisk>, Recovered) {
    Store::open_on(disk.clone(), Path::new("simulated"), options(segment_bytes)).unwrap()
}

fn metric(store: &Store<SimulatedDisk>, name: &str) -> u64 {
    let found = store.metrics().samples().find(|sample| sample.row.name == name);
    match found.unwrap().value {
        SampleValue::Number(value) => value,
        other => panic!("{name}: {other:?}"),
    }
}

/// What opening has found; but for how it was found.
fn found(disk: &SimulatedDisk, segment_bytes: u32) -> (Model, Recovered, [u64; 2], u32) {
    let (mut store, recovered) = open(&disk.copy(), segment_bytes);
    let model = Model::of(&mut store, &recovered).unwrap();
    let live = ["tiderace_store_live_bytes", "tiderace_store_queue_bytes"];
    let live = live.map(|name| metric(&store, name));
    let summaries = recovered.report.summaries;
    let Report { segments, volatile_records, volatile_bytes, cut, .. } = recovered.report;
    let report = Report { segments, volatile_records, volatile_bytes, cut, ..Report::default() };
    (model, Recovered { report, ..recovered }, live, summaries)
}

#[test]
fn any_log_is_the_same_by_its_summaries_and_by_its_records() {
    let mut by_summaries = 0;
    for seed in seeds(200) {
        let disk = SimulatedDisk::new(seed);
        let mut numbers = Numbers(seed);
        let segment_bytes = 1024 << numbers.below(3);
        for _ in 0..4 {
            let (mut store, recovered) = open(&disk, segment_bytes);
            let mut model = Model::of(&mut store, &recovered).unwrap();
            let ids = store.stream_ids();
            disk.die_after(Some(numbers.below(300)));
            for _ in 0..80 {
                let batch = model.batch(&mut numbers, || ids.next_stream());
                if store.commit(vec![batch]).1.is_some() {
                    break;
                }
                if store.is_cleaning_due() {
                    let cleaned = store.clean(1 + numbers.below(800) as usize);
                    assert!(cleaned.is_ok() || disk.is_dead(), "seed {seed}: {cleaned:?}");
                }
            }
            drop(store);
            disk.die_after(None);
            if numbers.chance(50) {
                disk.lose_power();
            }
            // What a crash has left is settled first: the copies are opened once each.
            drop(open(&disk, segment_bytes));
            let (model, recovered, live, summaries) = found(&disk, segment_bytes);
            by_summaries += u64::from(summaries);
            let damaged = with_damaged_summaries(&disk, &mut numbers);
            for other in [without_summaries(&disk), damaged] {
                let scanned = found(&other, segment_bytes);
                assert!(scanned.0 == model, "seed {seed}: {}", model.difference(&scanned.0));
                assert_eq!(scanned.1.streams, recovered.streams, "seed {seed}");
                assert_eq!(scanned.1.values, recovered.values, "seed {seed}");
                assert_eq!(scanned.1.report, recovered.report, "seed {seed}");
                assert_eq!((scanned.2, scanned.3), (live, 0), "seed {seed}");
                // No summary is in the way of giving room back.
                let (mut store, _) = open(&other, segment_bytes);
                store.compact(|_, _| {}).unwrap();
                drop(store);
                let compacted = found(&other, segment_bytes).0;
                assert!(compacted == model, "seed {seed}: {}", model.difference(&compacted));
            }
        }
    }
    assert!(by_summaries > 1000, "{by_summaries}");
}

fn put(store: &mut Store<SimulatedDisk>, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        let mut batch = Batch::new();
        let (stream, path) = (StreamId(1), "orders");
        if number == 1 {
            let (kind, mark) = (StreamKind::Queue, Mark::default());
            batch.declare(&Declaration { stream, kind, mark, path, spec: b"spec" }).unwrap();
        }
        let (sequence, version, bytes) = (number, number, &[number as u8; 1000]);
        let put = Put { stream, sequence, count: 1, version, keep_from: 0, bytes, body: None };
        batch.put(&put).unwrap();
        assert!(store.commit(vec![batch]).1.is_none());
    }
}

#[test]
fn messages_of_queues_are_not_read_when_the_store_is_opened() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, 64 << 10);
    put(&mut store, 1..=2000);
    store.close().unwrap();
    let (_, recovered) = open(&disk, 64 << 10);
    let report = &recovered.report;
    assert_eq!(report.summaries + 1, report.segments);
    assert!(report.bytes < 200 << 10, "{} of {} bytes were read", report.bytes, disk.used());
    let stored = &recovered.streams[0].stored;
    assert_eq!((stored.len(), stored[0].first, stored[0].last), (1, 1, 2000));
    assert!((2_000_000..2_100_000).contains(&stored[0].bytes), "{}", stored[0].bytes);
}

/// The form that is written.
const FORM: u32 = 3;

/// Makes all segments those of an earlier version, of which the first knows no summaries.
fn make_old(disk: &SimulatedDisk, form: u32) {
    for name in segments(disk) {
        let mut content = disk.content(&name);
        let header = Header::decode(&content).unwrap();
        if let Some(summary) = summary_of(&content).filter(|_| form == 1) {
            content.truncate(summary.start);
            Seed::new(header.salt, header.number).frame(&[17], false, &mut content);
        }
        let header = Header { form, ..header }.encode();
        content[..header.len()].copy_from_slice(&header);
        disk.replace(&name, content);
    }
}

#[test]
fn a_store_of_an_earlier_form_is_read_and_gone_on_with_in_new_segments() {
    for form in 1..FORM {
        gone_on_with_behind(form);
    }
}

fn gone_on_with_behind(form: u32) {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, 64 << 10);
    put(&mut store, 1..=200);
    store.close().unwrap();
    make_old(&disk, form);
    let before: Vec<_> = segments(&disk).into_iter().map(|it| (disk.content(&it), it)).collect();
    let (mut store, recovered) = open(&disk, 64 << 10);
    assert_eq!(recovered.streams[0].stored[0].last, 200);
    assert_eq!(recovered.report.summaries > 0, form > 1);
    put(&mut store, 201..=300);
    store.close().unwrap();
    // An earlier version that is started again must find a form that it refuses, not records it does not know.
    let (last, others) = before.split_last().unwrap();
    for (content, name) in others {
        assert_eq!(disk.content(name), *content);
    }
    let ended = disk.content(&last.1);
    assert_eq!(ended[..last.0.len()], last.0);
    let has_summary = summary_of(&ended).is_some_and(|it| it.start == last.0.len());
    assert!(has_summary == (form > 1) && (has_summary || ended.len() == last.0.len() + 9));
    assert_eq!(Header::decode(&disk.content(segments(&disk).last().unwrap())).unwrap().form, FORM);
    let (mut store, recovered) = open(&disk, 64 << 10);
    assert_eq!(recovered.streams[0].stored[0].last, 300);
    assert!(recovered.report.summaries > 0);
    // Cleaning goes through both.
    let mut batch = Batch::new();
    batch.settle(StreamId(1), &[(1, 290)]).unwrap();
    assert!(store.commit(vec![batch]).1.is_none());
    store.settle();
    while store.is_cleaning_due() {
        store.clean(10_000).unwrap();
    }
    drop(store);
    let (_, recovered) = open(&disk, 64 << 10);
    let stored = &recovered.streams[0].stored;
    assert_eq!((stored[0].first, stored[0].last), (291, 300));
    assert!(segments(&disk).len() < 4);
}

#[test]
fn a_store_of_a_newer_form_is_refused_and_left_alone() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, 4096);
    put(&mut store, 1..=20);
    drop(store);
    let name = &segments(&disk)[2];
    let mut content = disk.content(name);
    let header = Header { form: FORM + 1, ..Header::decode(&content).unwrap() }.encode();
    content[..header.len()].copy_from_slice(&header);
    disk.replace(name, content);
    for accept_damage in [false, true] {
        let before: Vec<_> = disk.list().into_iter().map(|name| disk.content(&name)).collect();
        let options = Options { accept_damage, ..options(4096) };
        let opened = Store::open_on(disk.clone(), Path::new("simulated"), options);
        let error = opened.map(drop).unwrap_err();
        assert!(
            matches!(&error, OpenError::TooNew { form, file, .. } if file == name && *form == FORM + 1)
        );
        assert!(error.to_string().contains("newer version"), "{error}");
        let after: Vec<_> = disk.list().into_iter().map(|name| disk.content(&name)).collect();
        assert_eq!(before, after);
    }
}

#[test]
fn damage_that_opening_does_not_read_is_found_when_it_is_loaded() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, 64 << 10);
    put(&mut store, 1..=200);
    store.close().unwrap();
    let name = &segments(&disk)[0];
    let mut content = disk.content(name);
    let at = memchr(&content, &[7; 1000]) + 500;
    content[at] ^= 1;
    disk.replace(name, content);
    let (mut store, recovered) = open(&disk, 64 << 10);
    assert_eq!(recovered.streams[0].stored[0].last, 200);
    let (stream, first, last, bytes_max) = (StreamId(1), 1, 20, 1 << 20);
    let request = LoadRequest { ticket: 1, stream, beside: None, first, last, bytes_max };
    let loaded = store.load(&request);
    assert_eq!(loaded.messages.len(), 19);
    assert_eq!(loaded.damaged.len(), 1);
    assert_eq!((loaded.damaged[0].sequence, &loaded.damaged[0].damage.file), (7, name));
    // Who accepts damage has all of it looked for: what cannot be read is in nobody's way any more.
    drop(store);
    let accepting = Options { accept_damage: true, ..options(64 << 10) };
    let opened = Store::open_on(disk.clone(), Path::new("simulated"), accepting);
    let (store, recovered) = opened.unwrap();
    assert_eq!(recovered.report.damage.len(), 1);
    drop(store);
    let (mut store, recovered) = open(&disk, 64 << 10);
    assert_eq!(recovered.streams[0].stored[0].last, 6);
    let loaded = store.load(&LoadRequest { last: u64::MAX, ..request });
    assert_eq!((loaded.messages.len(), loaded.damaged.len()), (199, 0));
}

fn memchr(content: &[u8], wanted: &[u8]) -> usize {
    content.windows(wanted.len()).position(|part| part == wanted).unwrap()
}
