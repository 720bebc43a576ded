//! Messages that are read back are those that were put, whatever was cleaned, settled or damaged meanwhile.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;

use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use crate::common::{Numbers, seeds};
use tiderace_store::{
    Batch, DamageKind, Declaration, LoadRequest, Mark, Options, Put, Store, StreamId, StreamKind,
};

fn open(disk: &SimulatedDisk) -> Store<SimulatedDisk> {
    let options = Options { segment_bytes: 4096, reserve_bytes: 0, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap().0
}

fn commit(store: &mut Store<SimulatedDisk>, batch: Batch) {
    let (_, problem) = store.commit(vec![batch]);
    assert!(problem.is_none());
}

/// A queue with messages of 200 bytes each in a record, and records of a topic between them.
fn queue(store: &mut Store<SimulatedDisk>, messages: u64) {
    let mut batch = Batch::new();
    for (stream, kind) in [(1, StreamKind::Queue), (2, StreamKind::Topic)] {
        let (stream, mark, path) = (StreamId(stream), Mark::default(), "a");
        batch.declare(&Declaration { stream, kind, mark, path, spec: b"" }).unwrap();
    }
    commit(store, batch);
    for sequence in 1..=messages {
        let mut batch = Batch::new();
        for (stream, keep_from) in [(1, 0), (2, sequence)] {
            let bytes = &[sequence as u8; 200];
            let (stream, version, count) = (StreamId(stream), sequence, 1);
            batch
                .put(&Put { stream, sequence, count, version, keep_from, bytes, body: None })
                .unwrap();
        }
        commit(store, batch);
    }
}

fn all(bytes_max: usize) -> LoadRequest {
    LoadRequest {
        ticket: 7,
        stream: StreamId(1),
        beside: None,
        first: 1,
        last: u64::MAX,
        bytes_max,
    }
}

#[test]
fn any_part_of_any_stream_is_what_was_put() {
    for seed in seeds(300) {
        let disk = SimulatedDisk::new(seed);
        let (mut store, mut model) = (open(&disk), Model::default());
        let mut numbers = Numbers(seed);
        let ids = store.stream_ids();
        let mut pending = Vec::new();
        for _ in 0..80 {
            commit(&mut store, model.batch(&mut numbers, || ids.next_stream()));
            if store.is_cleaning_due() {
                store.clean(1 + numbers.below(3000) as usize).unwrap();
            }
            let request = model.load_request(&mut numbers);
            let load = store.begin_load(0, &request);
            if numbers.chance(50) {
                // What was found stays readable, whatever happens until it is read.
                pending.push((request, load, model.clone()));
            } else {
                let loaded = load.read();
                model.check_loaded(&request, &loaded, seed);
                assert_eq!(loaded.damaged, []);
            }
        }
        for (request, load, model) in pending {
            let loaded = load.read();
            model.check_loaded(&request, &loaded, seed);
            assert_eq!(loaded.damaged, []);
        }
    }
}

#[test]
fn a_load_goes_on_where_the_one_before_ended() {
    let mut store = open(&SimulatedDisk::new(1));
    queue(&mut store, 100);
    let mut batch = Batch::new();
    batch.settle(StreamId(1), &[(3, 3), (40, 60)]).unwrap();
    commit(&mut store, batch);
    let (mut first, mut found, mut parts) = (1, Vec::new(), 0);
    loop {
        let loaded = store.load(&LoadRequest { first, ..all(1000) });
        assert!((1..=4).contains(&loaded.messages.len()), "{}", loaded.messages.len());
        found.extend(loaded.messages);
        parts += 1;
        let Some(next) = loaded.next else { break };
        first = next;
    }
    assert!(parts > 15);
    let expected = (1..=100).filter(|number| *number != 3 && !(40..=60).contains(number));
    assert!(found.iter().map(|messages| messages.sequence).eq(expected));
    assert!(found.iter().all(|messages| messages.bytes[..] == [messages.sequence as u8; 200]));
    let one = store.load(&LoadRequest { first: 90, last: 90, ..all(0) });
    assert_eq!((one.messages.len(), one.messages[0].sequence, one.next), (1, 90, None));
}

#[test]
fn two_streams_are_given_in_one_order_and_no_record_is_read_twice() {
    let mut store = open(&SimulatedDisk::new(1));
    let mut batch = Batch::new();
    for stream in [1, 2] {
        let (stream, kind, mark, path) =
            (StreamId(stream), StreamKind::Queue, Mark::default(), "a");
        batch.declare(&Declaration { stream, kind, mark, path, spec: b"" }).unwrap();
    }
    commit(&mut store, batch);
    // The second has every seventh record, and all of a while.
    let stream_of =
        |it: u64| StreamId(1 + u64::from(it.is_multiple_of(7) || (150..170).contains(&it)));
    for sequence in 1..=300 {
        let (stream, version, count, keep_from) = (stream_of(sequence), sequence, 1, 0);
        let bytes = &[sequence as u8; 200];
        let mut batch = Batch::new();
        batch.put(&Put { stream, sequence, count, version, keep_from, bytes, body: None }).unwrap();
        commit(&mut store, batch);
    }
    for bytes_max in [0, 1_000, 5_000, 1 << 20] {
        let request = LoadRequest { beside: Some(StreamId(2)), ..all(bytes_max) };
        let (mut first, mut found) = (1, Vec::new());
        loop {
            let loaded = store.load(&LoadRequest { first, ..request });
            assert_eq!(loaded.damaged, []);
            found.extend(loaded.messages);
            let Some(next) = loaded.next else { break };
            assert!(next > first);
            first = next;
        }
        assert!(found.iter().map(|messages| messages.sequence).eq(1..=300), "{bytes_max}");
        assert!(found.iter().all(|messages| messages.bytes[..] == [messages.sequence as u8; 200]));
    }
    let both = LoadRequest { stream: StreamId(3), beside: Some(StreamId(2)), ..all(1 << 20) };
    let one = LoadRequest { stream: StreamId(2), ..all(1 << 20) };
    assert_eq!(store.load(&both).messages, store.load(&one).messages, "one need not be there");
}

#[test]
fn what_is_damaged_is_told_with_its_place_and_what_follows_is_given() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    queue(&mut store, 40);
    let whole = store.load(&all(1 << 20));
    for name in disk.list().into_iter().filter(|name| name.ends_with(".log")) {
        let content = disk.content(&name);
        for at in (40..content.len()).step_by(29) {
            let mut damaged = content.clone();
            damaged[at] ^= 4;
            disk.replace(&name, damaged);
            let loaded = store.load(&all(1 << 20));
            assert!(loaded.damaged.len() <= 1, "{name} at {at}");
            assert_eq!(loaded.messages.len() + loaded.damaged.len(), 40);
            for damaged in &loaded.damaged {
                let (damage, end) = (&damaged.damage, damaged.damage.offset + damaged.damage.bytes);
                assert_eq!(damage.file, name);
                assert!((damage.offset..end).contains(&(at as u64)), "{at}: {damage}");
                assert!(matches!(damage.what, DamageKind::Record(_)));
                assert!(loaded.messages.iter().all(|other| other.sequence != damaged.sequence));
            }
            let found = |sequence| whole.messages.iter().find(|it| it.sequence == sequence);
            assert!(loaded.messages.iter().all(|other| found(other.sequence) == Some(other)));
        }
        // A file that ends too early takes only what lay behind its end.
        disk.replace(&name, content[..content.len() / 2].to_vec());
        let loaded = store.load(&all(1 << 20));
        assert_eq!(loaded.messages.len() + loaded.damaged.len(), 40);
        let unreadable = |what| matches!(what, DamageKind::Unreadable(_));
        assert!(loaded.damaged.iter().all(|damaged| unreadable(damaged.damage.what)));
        disk.replace(&name, content);
    }
    assert_eq!(store.load(&all(1 << 20)), whole);
}

#[test]
fn loads_read_on_while_their_segments_are_removed() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    queue(&mut store, 100);
    let expected = store.load(&all(1 << 20));
    let pending: Vec<_> = (0..10).map(|_| store.begin_load(0, &all(1 << 20))).collect();
    let before = disk.list();
    let mut batch = Batch::new();
    batch.settle(StreamId(1), &[(1, 95)]).unwrap();
    commit(&mut store, batch);
    store.settle();
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    assert!(disk.list().len() * 2 < before.len(), "{:?}", disk.list());
    for load in pending {
        assert_eq!(load.read(), expected);
    }
    assert_eq!(store.load(&all(1 << 20)).messages.len(), 5);
}

/// Errors of the operating system that say nothing of the bytes: too many open files of the process and of all, no
/// memory, no permission.
const PASSING: [i32; 4] = [24, 23, 12, 13];
/// The device does not give the bytes.
const LASTING: i32 = 5;

#[test]
fn what_only_cannot_be_read_now_is_no_damage_and_is_asked_for_again() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    queue(&mut store, 100);
    let whole = store.load(&all(1 << 20));
    for error in PASSING {
        // The files of the first segments are open then.
        store.load(&LoadRequest { last: 30, ..all(1 << 20) });
        disk.fail_opens(Some(error));
        let mut delayed = store.load(&all(1 << 20));
        assert!(delayed.delayed.is_some(), "{error}");
        assert_eq!(delayed.damaged, []);
        assert!((30..90).contains(&delayed.messages.len()), "{}", delayed.messages.len());
        disk.fail_opens(None);
        let next = delayed.next.unwrap();
        let rest = store.load(&LoadRequest { first: next, ..all(1 << 20) });
        delayed.messages.extend(rest.messages);
        assert_eq!((delayed.messages, rest.next), (whole.messages.clone(), None), "{error}");

        let pending = store.begin_load(0, &LoadRequest { first: 5, ..all(1 << 20) });
        disk.fail_reads(Some(error));
        let delayed = pending.read();
        disk.fail_reads(None);
        assert!(delayed.delayed.is_some(), "{error}");
        assert_eq!((delayed.messages, delayed.damaged, delayed.next), (vec![], vec![], Some(5)));
    }
    disk.fail_reads(Some(LASTING));
    let damaged = store.load(&all(1 << 20));
    assert_eq!((damaged.messages.len(), damaged.damaged.len()), (0, 100));
    assert_eq!((damaged.next, damaged.delayed), (None, None));
    disk.fail_reads(None);
    assert_eq!(store.load(&all(1 << 20)), whole);
}

#[test]
fn a_load_opens_a_bounded_number_of_files() {
    let disk = SimulatedDisk::new(1);
    let mut store = open(&disk);
    queue(&mut store, 1000);
    let segments = disk.list().len();
    let before = disk.open_files();
    let (mut first, mut found) = (1, 0);
    let mut parts = 0;
    loop {
        let pending = store.begin_load(0, &LoadRequest { first, ..all(1 << 20) });
        assert!(disk.open_files() <= before + 24, "{} of {segments}", disk.open_files());
        let loaded = pending.read();
        found += loaded.messages.len();
        parts += 1;
        let Some(next) = loaded.next else { break };
        assert!(next > first);
        first = next;
    }
    assert_eq!(found, 1000);
    assert!(segments / parts > 8, "{segments} segments in {parts} parts");
}
