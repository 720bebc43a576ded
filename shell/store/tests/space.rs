//! The log stays in proportion to what is needed, and a full disk refuses without losing or inventing.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::path::Path;

use crate::common::Numbers;
use crate::common::disk::SimulatedDisk;
use crate::common::model::Model;
use tiderace_base::SampleValue;
use tiderace_store::{
    Batch, CommitError, Declaration, Mark, Options, Outcome, Put, Recovered, Store, StreamId,
    StreamKind,
};

const SEGMENT: u32 = 4096;

fn open(disk: &SimulatedDisk, reserve_bytes: u32) -> (Store<SimulatedDisk>, Recovered) {
    let options = Options { segment_bytes: SEGMENT, reserve_bytes, ..Options::default() };
    Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap()
}

fn metric(store: &Store<SimulatedDisk>, name: &str) -> u64 {
    let found = store.metrics().samples().find(|sample| sample.row.name == name);
    match found.unwrap().value {
        SampleValue::Number(value) => value,
        other => panic!("{name}: {other:?}"),
    }
}

fn put(batch: &mut Batch, stream: u64, sequence: u64, bytes: &[u8]) {
    let stream = StreamId(stream);
    if sequence == 1 {
        let (kind, mark) = (StreamKind::Topic, Mark::default());
        let path = format!("topic/{}", stream.0);
        batch.declare(&Declaration { stream, kind, mark, path: &path, spec: b"" }).unwrap();
    }
    let put = Put {
        stream,
        sequence,
        count: 1,
        version: sequence,
        keep_from: sequence,
        bytes,
        body: None,
    };
    batch.put(&put).unwrap();
}

/// Some topics change often, most never: each step says how often which changes.
fn amplification(topics: u64, busy: u64, steps: u64) {
    let disk = SimulatedDisk::new(1);
    let (mut store, _) = open(&disk, 0);
    let mut numbers = Numbers(1);
    let mut sequences = vec![0; topics as usize];
    let mut worst = 0.0f64;
    for step in 0..topics + steps {
        let topic = if step < topics { step } else { numbers.below(busy) };
        sequences[topic as usize] += 1;
        let mut batch = Batch::new();
        let bytes = vec![7; 20 + numbers.below(150) as usize];
        put(&mut batch, topic + 1, sequences[topic as usize], &bytes);
        let written = batch.bytes();
        assert!(store.commit(vec![batch]).1.is_none());
        store.settle();
        if store.is_cleaning_due() {
            store.clean(4 * written).unwrap();
        }
        let live = metric(&store, "tiderace_store_live_bytes");
        let total = metric(&store, "tiderace_store_bytes");
        let slack = 4 * u64::from(SEGMENT);
        assert!(total <= 3 * live + slack, "step {step}: {total} bytes for {live}");
        worst = worst.max((total.saturating_sub(slack)) as f64 / live as f64);
    }
    drop(store);
    let (_, recovered) = open(&disk, 0);
    assert_eq!(recovered.streams.len(), topics as usize);
    for stream in &recovered.streams {
        assert_eq!(stream.messages.len(), 1);
        assert_eq!(stream.messages[0].sequence, sequences[stream.stream.0 as usize - 1]);
    }
    assert!(worst > 1.0, "the test does not reach the bound it is about: {worst}");
}

#[test]
fn the_log_is_at_most_three_times_as_long_as_what_is_needed() {
    amplification(300, 300, 6000);
    amplification(1000, 10, 6000);
}

#[test]
fn removals_give_room_back_without_further_writes() {
    let disk = SimulatedDisk::new(2);
    let (mut store, _) = open(&disk, 0);
    let mut last = Batch::new();
    for topic in 1..=500 {
        let mut batch = Batch::new();
        put(&mut batch, topic, 1, &[1; 100]);
        store.commit(vec![batch]);
        last.drop_stream(StreamId(topic)).unwrap();
    }
    assert!(disk.used() > 50_000);
    store.commit(vec![last]);
    store.settle();
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    assert!(disk.used() <= 4 * SEGMENT as usize, "{} bytes left", disk.used());
    drop(store);
    let (_, recovered) = open(&disk, 0);
    assert!(recovered.streams.is_empty());
}

#[test]
fn a_full_disk_refuses_and_what_it_refused_never_comes_back() {
    for seed in 0..200 {
        let disk = SimulatedDisk::new(seed);
        let (mut store, _) = open(&disk, 0);
        let mut numbers = Numbers(seed);
        disk.limit(Some(6000 + numbers.below(6000) as usize));
        let mut model = Model::default();
        let mut refused = 0;
        let ids = store.stream_ids();
        for _ in 0..150 {
            let mut next = model.clone();
            let batch = next.batch(&mut numbers, || ids.next_stream());
            let (outcomes, problem) = store.commit(vec![batch]);
            match outcomes[0] {
                Outcome::Committed => model = next,
                Outcome::Full => {
                    assert!(matches!(problem, Some(CommitError::Full(_))));
                    refused += 1;
                }
                outcome => panic!("seed {seed}: {outcome:?}, {problem:?}"),
            }
            if store.is_cleaning_due() {
                let cleaned = store.clean(600);
                let is_full = |error: &String| error.starts_with("there is no room");
                assert!(!cleaned.as_ref().is_err_and(|error| !is_full(error)), "{cleaned:?}");
            }
            if numbers.chance(2) {
                disk.limit(None);
            }
        }
        drop(store);
        disk.lose_power();
        disk.limit(None);
        let (mut store, recovered) = open(&disk, 0);
        let found = Model::of(&mut store, &recovered).unwrap();
        assert!(found == model, "seed {seed}, {refused} refused: {}", model.difference(&found));
    }
}

#[test]
fn of_a_write_that_fails_half_way_nothing_comes_back_unasked() {
    for seed in 0..500 {
        let disk = SimulatedDisk::new(seed);
        let (mut store, _) = open(&disk, 0);
        let mut numbers = Numbers(seed);
        disk.limit(Some(1000 + numbers.below(6000) as usize));
        let mut kept = Vec::new();
        let mut is_full = false;
        for round in 0.. {
            let name = |index: usize| format!("{round:04}-{index}");
            let batches = (0..4).map(|index| {
                let mut batch = Batch::new();
                batch.set(&name(index), &vec![1; numbers.below(120) as usize]).unwrap();
                batch
            });
            let (outcomes, _) = store.commit(batches.collect());
            for (index, outcome) in outcomes.iter().enumerate() {
                match outcome {
                    Outcome::Committed => kept.push(name(index)),
                    Outcome::Full => is_full = true,
                    outcome => panic!("seed {seed}: {outcome:?}"),
                }
            }
            if is_full {
                break;
            }
        }
        drop(store);
        disk.lose_power();
        disk.limit(None);
        let (_, recovered) = open(&disk, 0);
        let found: Vec<&str> = recovered.values.iter().map(|(name, _)| &**name).collect();
        assert_eq!(found, kept, "seed {seed}");
    }
}

#[test]
fn messages_of_a_stream_whose_declaration_was_refused_are_refused_too() {
    let disk = SimulatedDisk::new(4);
    let (mut store, _) = open(&disk, 0);
    let declared = |stream, bytes: &[u8]| {
        let mut batch = Batch::new();
        put(&mut batch, stream, 1, bytes);
        batch
    };
    let further = |stream, sequence| {
        let mut batch = Batch::new();
        put(&mut batch, stream, sequence, b"small");
        batch
    };
    disk.limit(Some(2000));
    // The first does not fit. The second would, but nobody could name its stream.
    let batches = vec![declared(1, &[1; 3000]), further(1, 2), declared(2, b""), further(2, 2)];
    let (outcomes, _) = store.commit(batches);
    let expected = [Outcome::Full, Outcome::Undeclared, Outcome::Committed, Outcome::Committed];
    assert_eq!(outcomes, expected);
    disk.limit(None);
    assert_eq!(store.commit(vec![further(1, 3)]).0, [Outcome::Undeclared]);
    let batches = vec![declared(1, b""), further(1, 2)];
    assert_eq!(store.commit(batches).0, [Outcome::Committed; 2]);
    let mut gone = Batch::new();
    gone.drop_stream(StreamId(2)).unwrap();
    let outcomes = store.commit(vec![gone, further(2, 3)]).0;
    assert_eq!(outcomes, [Outcome::Committed, Outcome::Undeclared]);
    drop(store);
    let (_, recovered) = open(&disk, 0);
    assert_eq!(recovered.streams.len(), 1);
    assert_eq!(recovered.streams[0].mark.sequence, 2);
}

#[test]
fn removals_find_room_on_a_full_disk_and_make_some() {
    let disk = SimulatedDisk::new(3);
    let (mut store, _) = open(&disk, 3 * SEGMENT);
    disk.limit(Some(20 * SEGMENT as usize));
    let mut topics = 0;
    loop {
        let mut batch = Batch::new();
        put(&mut batch, topics + 1, 1, &[1; 200]);
        let (outcomes, _) = store.commit(vec![batch]);
        if outcomes[0] == Outcome::Full {
            break;
        }
        topics += 1;
    }
    assert_eq!(metric(&store, "tiderace_store_full"), 1);
    for topic in 1..=topics / 2 {
        let mut batch = Batch::new();
        batch.drop_stream(StreamId(topic)).unwrap();
        assert_eq!(store.commit(vec![batch]).0, [Outcome::Committed], "topic {topic}");
    }
    assert!(!disk.list().contains(&"reserve".to_owned()), "the removals needed it");
    let mut batch = Batch::new();
    put(&mut batch, topics, 2, b"");
    assert_eq!(store.commit(vec![batch]).0, [Outcome::Full], "not before the reserve is back");
    store.settle();
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    store.find_room();
    assert!(disk.list().contains(&"reserve".to_owned()));
    let mut batch = Batch::new();
    put(&mut batch, topics, 2, b"new");
    assert_eq!(store.commit(vec![batch]).0, [Outcome::Committed]);
    assert_eq!(metric(&store, "tiderace_store_full"), 0);
    drop(store);
    disk.limit(None);
    let (_, recovered) = open(&disk, 3 * SEGMENT);
    assert_eq!(recovered.streams.len() as u64, topics - topics / 2);
    assert_eq!(&recovered.streams.last().unwrap().messages[0].bytes[..], b"new");
}

#[test]
fn a_segment_is_ended_where_there_is_no_room_for_its_summary() {
    let disk = SimulatedDisk::new(5);
    let (mut store, _) = open(&disk, 0);
    let names = || disk.list().iter().filter(|name| name.ends_with(".log")).count();
    let mut topics = 0;
    // Until the batch below does not fit into the segment.
    while disk.content("0000000001.log").len() < SEGMENT as usize - 100 {
        let mut batch = Batch::new();
        put(&mut batch, topics + 1, 1, b"");
        assert!(store.commit(vec![batch]).1.is_none());
        topics += 1;
    }
    assert_eq!(names(), 1, "the batch begins the second");
    // Room for a header, an end and the batch: the summary is longer.
    disk.limit(Some(disk.used() + 350));
    let mut batch = Batch::new();
    for topic in 1..=20 {
        batch.drop_stream(StreamId(topic)).unwrap();
    }
    let (outcomes, problem) = store.commit(vec![batch]);
    assert_eq!(outcomes, [Outcome::Committed], "{problem:?}");
    assert_eq!(names(), 2);
    drop(store);
    disk.limit(None);
    let (_, recovered) = open(&disk, 0);
    assert_eq!((recovered.streams.len() as u64, recovered.report.summaries), (topics - 20, 0));
}

/// Too many open files: of the process, of all processes.
const TOO_MANY_FILES: [i32; 2] = [24, 23];

#[test]
fn a_segment_that_cannot_be_begun_now_refuses_and_does_not_break_the_store() {
    for error in TOO_MANY_FILES {
        let disk = SimulatedDisk::new(6);
        let (mut store, _) = open(&disk, 0);
        let long = |name: &str| {
            let mut batch = Batch::new();
            batch.set(name, &vec![1; SEGMENT as usize]).unwrap();
            batch
        };
        assert_eq!(store.commit(vec![long("a")]).0, [Outcome::Committed]);
        disk.fail_opens(Some(error));
        let (outcomes, problem) = store.commit(vec![long("b")]);
        assert_eq!(outcomes, [Outcome::Full], "{problem:?}");
        disk.fail_opens(None);
        assert_eq!(store.commit(vec![long("c")]).0, [Outcome::Committed]);
        drop(store);
        let (_, recovered) = open(&disk, 0);
        let found: Vec<&str> = recovered.values.iter().map(|(name, _)| &**name).collect();
        assert_eq!(found, ["a", "c"]);
    }
}

#[test]
fn cleaning_goes_on_when_files_can_be_opened_again() {
    let disk = SimulatedDisk::new(7);
    let (mut store, _) = open(&disk, 0);
    for step in 0..200 {
        let mut batch = Batch::new();
        put(&mut batch, step % 2 + 1, step / 2 + 1, &[7; 100]);
        assert!(store.commit(vec![batch]).1.is_none());
        let mut batch = Batch::new();
        batch.set(&format!("{step}"), &[7; 20]).unwrap();
        assert!(store.commit(vec![batch]).1.is_none());
    }
    store.settle();
    let before = disk.used();
    assert!(store.is_cleaning_due());
    disk.fail_opens(Some(TOO_MANY_FILES[0]));
    store.clean(1000).unwrap_err();
    assert!(store.is_cleaning_due(), "it is tried again");
    disk.fail_opens(None);
    while store.is_cleaning_due() {
        store.clean(1000).unwrap();
    }
    assert!(disk.used() < before * 2 / 3, "{before} {}", disk.used());
}

#[test]
fn a_batch_that_lacks_a_record_is_refused_as_a_whole_and_no_other_is() {
    let disk = SimulatedDisk::new(8);
    let (mut store, _) = open(&disk, 0);
    let mut small = Batch::new();
    put(&mut small, 1, 1, b"small");
    let mut lacking = Batch::new();
    put(&mut lacking, 2, 1, b"beside");
    let (stream, sequence, version) = (StreamId(2), 2, 2);
    // None of these bytes is touched.
    let bytes = &vec![0; 1200 << 20];
    let too_large = Put { stream, sequence, count: 1, version, keep_from: 0, bytes, body: None };
    assert!(lacking.put(&too_large).is_err());
    let mut behind = Batch::new();
    put(&mut behind, 3, 1, b"behind");
    let (outcomes, problem) = store.commit(vec![small, lacking, behind]);
    assert_eq!(outcomes, [Outcome::Committed, Outcome::TooLarge, Outcome::Committed]);
    assert!(problem.is_none());
    drop(store);
    let (_, recovered) = open(&disk, 0);
    let streams: Vec<u64> = recovered.streams.iter().map(|stream| stream.stream.0).collect();
    assert_eq!(streams, [1, 3]);
}
