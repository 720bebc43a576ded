//! Messages that need not survive cost no sync, are read back like others, and are gone at the next start.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use crate::common::disk::SimulatedDisk;
use tiderace_base::SampleValue;
use tiderace_store::{
    Batch, Declaration, LoadRequest, Mark, Options, Outcome, Put, Recovered, Store, StreamId,
    StreamKind,
};

fn open(disk: &SimulatedDisk) -> (Store<SimulatedDisk>, Recovered) {
    let options = Options { segment_bytes: 4096, reserve_bytes: 0, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap()
}

fn put(stream: StreamId, sequence: u64) -> Batch {
    let mut batch = Batch::new();
    let put = Put {
        stream,
        sequence,
        count: 1,
        version: sequence,
        keep_from: 0,
        bytes: &[5; 300],
        body: None,
    };
    batch.put(&put).unwrap();
    batch
}

fn syncs(store: &Store<SimulatedDisk>) -> u64 {
    let metrics = store.metrics();
    let sample = metrics.samples().find(|it| it.row.name == "tiderace_store_syncs_total").unwrap();
    match sample.value {
        SampleValue::Number(value) => value,
        other => panic!("{other:?}"),
    }
}

fn all(stream: StreamId) -> LoadRequest {
    LoadRequest { ticket: 1, stream, beside: None, first: 1, last: u64::MAX, bytes_max: 1 << 20 }
}

#[test]
fn they_are_not_synced_and_not_there_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk);
    let (kept, volatile) = (StreamId(1), StreamId::volatile(1));
    let mut batch = Batch::new();
    let (kind, mark, path) = (StreamKind::Queue, Mark::default(), "orders");
    batch.declare(&Declaration { stream: kept, kind, mark, path, spec: b"" }).unwrap();
    store.commit(vec![batch]);
    let before = syncs(&store);
    for sequence in 1..=5 {
        assert_eq!(store.commit(vec![put(volatile, sequence)]).0, [Outcome::Committed]);
    }
    let mut batch = Batch::new();
    batch.settle(volatile, &[(2, 3)]).unwrap();
    assert_eq!(store.commit(vec![batch]).0, [Outcome::Committed]);
    assert_eq!(syncs(&store), before, "no commit waits for the disk because of them");
    assert!(!store.is_dirty());
    let loaded = store.load(&all(volatile));
    let sequences: Vec<u64> = loaded.messages.iter().map(|it| it.sequence).collect();
    assert_eq!((sequences, loaded.next), (vec![1, 4, 5], None));
    // With one that has to survive they are synced like others.
    store.commit(vec![put(volatile, 6), put(kept, 1), put(volatile, 7)]);
    assert_eq!(syncs(&store), before + 1);
    store.commit((8..40).map(|sequence| put(volatile, sequence)).collect());
    store.commit(vec![put(kept, 2)]);
    store.close().unwrap();
    for round in 0..2 {
        let (mut store, recovered) = open(&disk);
        assert_eq!(recovered.streams.len(), 1);
        assert_eq!(recovered.streams[0].stored[0].last, 2 + round);
        let report = &recovered.report;
        assert_eq!(report.volatile_records, 40, "the settled ones and what settled them too");
        assert!(report.volatile_bytes > 39 * 300);
        assert_eq!(store.load(&all(volatile)).messages, []);
        // The same number again is another stream.
        store.commit(vec![put(kept, 3 + round)]);
    }
}

#[test]
fn cleaning_keeps_what_is_needed_and_gives_the_room_of_earlier_lives_back() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk);
    let volatile = store.stream_ids().next_volatile_stream();
    for sequence in 1..=100 {
        store.commit(vec![put(volatile, sequence)]);
    }
    let mut batch = Batch::new();
    batch.settle(volatile, &[(1, 3), (5, 90)]).unwrap();
    store.commit(vec![batch]);
    store.settle();
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    assert!(disk.used() < 20_000, "{}", disk.used());
    let loaded = store.load(&all(volatile));
    let expected = std::iter::once(4).chain(91..=100);
    assert!(loaded.messages.iter().map(|it| it.sequence).eq(expected));
    drop(store);
    let (mut store, _) = open(&disk);
    assert_eq!(store.stream_ids().next_volatile_stream(), volatile, "it may be used again");
    store.commit(vec![put(volatile, 91)]);
    store.settle();
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    assert!(disk.used() < 10_000, "{}", disk.used());
    assert_eq!(store.load(&all(volatile)).messages.len(), 1);
}
