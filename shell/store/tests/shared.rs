//! Messages that many streams have are in the log once, for as long as one of them needs them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::segments::segments;
use tiderace_store::{
    Batch, Declaration, LoadRequest, Mark, Options, Outcome, Recovered, Store, StreamId, StreamKind,
};

const STREAMS: u64 = 1000;

fn open(disk: &SimulatedDisk) -> (Store<SimulatedDisk>, Recovered) {
    let (segment_bytes, queue_bytes_max) = (64 << 10, 100_000);
    let options =
        Options { segment_bytes, reserve_bytes: 0, queue_bytes_max, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap()
}

fn commit(store: &mut Store<SimulatedDisk>, write: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    write(&mut batch);
    let (outcomes, problem) = store.commit(vec![batch]);
    assert!(problem.is_none() && outcomes == [Outcome::Committed], "{outcomes:?} {problem:?}");
    store.settle();
}

fn declare(batch: &mut Batch, stream: u64) {
    let (path, kind, mark) = (format!("dsub/{stream}"), StreamKind::Queue, Mark::default());
    let declaration = Declaration { stream: StreamId(stream), kind, mark, path: &path, spec: b"" };
    batch.declare(&declaration).unwrap();
}

/// All streams have messages from 1 to this number, of a thousand bytes each.
fn written(messages: u64) -> (SimulatedDisk, Store<SimulatedDisk>) {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk);
    commit(&mut store, |batch| (1..=STREAMS).for_each(|stream| declare(batch, stream)));
    for number in 1..=messages {
        let owners: Vec<_> = (1..=STREAMS).map(|stream| (StreamId(stream), number)).collect();
        commit(&mut store, |batch| batch.put_shared(&owners, 1, &[number as u8; 1000]).unwrap());
    }
    (disk, store)
}

fn load(store: &mut Store<SimulatedDisk>, stream: u64) -> Vec<(u64, u8, usize)> {
    let (stream, last, bytes_max) = (StreamId(stream), u64::MAX, 16 << 20);
    let request = LoadRequest { ticket: 1, stream, beside: None, first: 1, last, bytes_max };
    let loaded = store.load(&request);
    assert_eq!((&loaded.damaged[..], loaded.next), (&[][..], None));
    loaded.messages.iter().map(|it| (it.sequence, it.bytes[0], it.bytes.len())).collect()
}

fn settle_all_but(store: &mut Store<SimulatedDisk>, left: &[u64], up_to: u64) {
    commit(store, |batch| {
        for stream in (1..=STREAMS).filter(|stream| !left.contains(stream)) {
            batch.settle(StreamId(stream), &[(1, up_to)]).unwrap();
        }
    });
}

#[test]
fn a_message_of_a_thousand_queues_is_written_once() {
    let (_, store) = written(0);
    let (_, empty) = store.size();
    let (disk, mut store) = written(20);
    let (_, live) = store.size();
    let each = (live - empty) as f64 / (20 * STREAMS) as f64;
    assert!(each < 4.0, "{each} bytes for each message and queue");
    for stream in [1, 500, STREAMS] {
        let expected: Vec<_> = (1..=20).map(|number| (number, number as u8, 1000)).collect();
        assert_eq!(load(&mut store, stream), expected);
    }
    assert!(!store.are_queues_full(), "the body counts once");
    drop(store);
    let (mut store, recovered) = open(&disk);
    assert_eq!(recovered.streams.len(), STREAMS as usize);
    for stream in &recovered.streams {
        // As much as each would have by itself: what a queue may have on disk goes by that.
        assert_eq!((stream.stored[0].first, stream.stored[0].last), (1, 20));
        assert!((20_000..20_600).contains(&stream.stored[0].bytes), "{:?}", stream.stored);
    }
    assert_eq!(load(&mut store, 77).len(), 20);
}

#[test]
fn cleaning_copies_it_for_those_who_need_it_and_then_not_at_all() {
    let (disk, mut store) = written(100);
    settle_all_but(&mut store, &[3, 700], 100);
    let (_, live) = store.size();
    store.compact(|_, _| {}).unwrap();
    let (bytes, live_after) = store.size();
    assert!(live_after < 210_000 && live_after <= live, "{live} {live_after}");
    assert!(bytes < live_after + 70_000, "lists are as long as those who need it are many");
    assert_eq!(load(&mut store, 3).len(), 100);
    commit(&mut store, |batch| batch.drop_stream(StreamId(700)).unwrap());
    store.compact(|_, _| {}).unwrap();
    assert_eq!((load(&mut store, 3).len(), load(&mut store, 700).len()), (100, 0));
    drop(store);
    let (mut store, _) = open(&disk);
    assert_eq!((load(&mut store, 3).len(), load(&mut store, 4).len()), (100, 0));
    settle_all_but(&mut store, &[], 100);
    store.compact(|_, _| {}).unwrap();
    let (_, live) = store.size();
    assert!(live < 60_000, "declarations alone: {live}");
    drop(store);
    let (_, recovered) = open(&disk);
    assert!(recovered.streams.iter().all(|stream| stream.stored.is_empty()));
    assert!(segments(&disk).len() < 4);
}

#[test]
fn a_stream_that_is_not_declared_gets_nothing_and_neither_do_the_others() {
    let (_, mut store) = written(1);
    let mut batch = Batch::new();
    let owners = [(StreamId(1), 2), (StreamId(STREAMS + 1), 2)];
    batch.put_shared(&owners, 1, b"x").unwrap();
    let (outcomes, problem) = store.commit(vec![batch]);
    assert!(problem.is_none() && outcomes == [Outcome::Undeclared]);
    assert_eq!(load(&mut store, 1).len(), 1);
    commit(&mut store, |batch| {
        declare(batch, STREAMS + 1);
        batch.put_shared(&owners, 1, b"x").unwrap();
    });
    assert_eq!((load(&mut store, 1).len(), load(&mut store, STREAMS + 1).len()), (2, 1));
}

#[test]
fn what_need_not_survive_is_shared_as_well_and_gone_after_a_restart() {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk);
    let streams = (1..=10).map(StreamId::volatile);
    let owners: Vec<_> = streams.map(|stream| (stream, 5)).collect();
    commit(&mut store, |batch| batch.put_shared(&owners, 1, b"x").unwrap());
    assert!(!store.is_dirty(), "nobody waits for a sync because of it");
    assert_eq!(load(&mut store, StreamId::volatile(7).0), [(5, b'x', 1)]);
    drop(store);
    let (_, recovered) = open(&disk);
    assert!(recovered.streams.is_empty());
    assert_eq!(recovered.report.volatile_records, 1);
}
