//! The thread: every ticket is answered once and in order, whatever the disk does, and what waits is bounded.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::common::disk::SimulatedDisk;
use tiderace_base::{Sample, SampleValue};
use tiderace_store::{
    Batch, Committer, Declaration, Done, LoadRequest, Loaded, Mark, Notice, Options, Outcome, Put,
    RefusedReason, Store, StreamId, StreamKind, Submitter, Sync,
};

fn store(disk: &SimulatedDisk, sync: Sync) -> Store<SimulatedDisk> {
    let options = Options {
        sync,
        segment_bytes: 4096,
        reserve_bytes: 0,
        waiting_bytes_max: 4096,
        ..Options::default()
    };
    Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap().0
}

/// The messages that a disk holds after the power was lost.
fn survivors(disk: &SimulatedDisk) -> u64 {
    disk.lose_power();
    let opened = Store::open_on(disk.clone(), Path::new("simulated"), Options::default());
    let ranges = opened.unwrap().1.streams.into_iter().flat_map(|stream| stream.stored);
    ranges.map(|range| range.count()).sum()
}

fn batch(stream: u64, sequence: u64) -> Batch {
    let stream = StreamId(stream);
    let mut batch = Batch::new();
    if sequence == 1 {
        let (kind, mark) = (StreamKind::Queue, Mark::default());
        batch.declare(&Declaration { stream, kind, mark, path: "a", spec: b"" }).unwrap();
    }
    let bytes = &[1; 100];
    let put =
        Put { stream, sequence, count: 1, version: sequence, keep_from: 0, bytes, body: None };
    batch.put(&put).unwrap();
    batch
}

#[derive(Debug, PartialEq)]
enum Heard {
    Done(Done),
    Loaded(Loaded),
    Trouble(String, bool),
    QueuesFull(bool),
}

/// Where a thread waits before each answer: it says that it is there, and is let go on.
struct Gate {
    reached: Sender<()>,
    opened: Receiver<()>,
    /// Whose answers: those of the committer, or those of the reader.
    is_readers: bool,
}

impl Gate {
    fn pass(&self) {
        let _ = self.reached.send(());
        let _ = self.opened.recv();
    }
}

/// A committer, and what it says.
fn start(store: Store<SimulatedDisk>, gate: Option<Gate>) -> (Committer, Receiver<Heard>) {
    let (heard, hearing) = channel();
    let pass = move |is_reader| {
        if let Some(gate) = gate.as_ref().filter(|gate| gate.is_readers == is_reader) {
            gate.pass();
        }
    };
    let committer = Committer::start(store, move |notice| match notice {
        Notice::Done(done) => {
            pass(false);
            done.iter().for_each(|done| heard.send(Heard::Done(*done)).unwrap());
        }
        Notice::Loaded(loaded) => {
            pass(true);
            heard.send(Heard::Loaded(loaded)).unwrap();
        }
        Notice::Trouble { what, is_fatal } => {
            heard.send(Heard::Trouble(what.to_owned(), is_fatal)).unwrap();
        }
        Notice::QueuesFull(are_full) => heard.send(Heard::QueuesFull(are_full)).unwrap(),
        Notice::RoomAgain | Notice::BodiesRefused { .. } => {}
    });
    (committer.unwrap(), hearing)
}

#[test]
fn tickets_of_each_shard_are_answered_in_their_order() {
    for sync in [Sync::Always, Sync::Never, Sync::Interval(Duration::from_millis(1))] {
        let disk = SimulatedDisk::new(1);
        let (committer, hearing) = start(store(&disk, sync), None);
        let submitters = [committer.submitter(0), committer.submitter(1)];
        let mut answered = [0, 0];
        let mut submitted = [0, 0];
        while answered[0] + answered[1] < 400 {
            for (shard, submitter) in submitters.iter().enumerate() {
                while submitted[shard] < 200 {
                    let ticket = submitted[shard] + 1;
                    let batch = batch(shard as u64 + 1, ticket);
                    match submitter.try_submit(ticket, batch) {
                        Ok(()) => submitted[shard] = ticket,
                        Err(refused) => {
                            assert_eq!(refused.reason, RefusedReason::Waiting);
                            assert!(!refused.batch.is_empty());
                            break;
                        }
                    }
                }
            }
            let Heard::Done(done) = hearing.recv().unwrap() else { panic!() };
            answered[usize::from(done.shard)] += 1;
            assert_eq!(done.ticket, answered[usize::from(done.shard)]);
            assert_eq!(done.outcome, Outcome::Committed);
        }
        // Dropping it syncs what is left, whatever the acknowledgements waited for.
        drop(committer);
        assert_eq!(survivors(&disk), 400);
    }
}

/// A batch by which nobody is answered.
fn settling(sequence: u64) -> Batch {
    let mut batch = Batch::new();
    batch.settle(StreamId(1), &[(sequence, sequence)]).unwrap();
    batch.allow_delay();
    batch
}

#[test]
fn batches_that_nobody_waits_for_share_the_sync_of_those_that_follow() {
    const ROUNDS: u64 = 50;
    let disk = SimulatedDisk::new(1);
    let store = store(&disk, Sync::Always);
    let metrics = store.metrics();
    let (committer, hearing) = start(store, None);
    let submitter = committer.submitter(0);
    let done = |ticket| Heard::Done(Done { shard: 0, ticket, outcome: Outcome::Committed });
    submitter.try_submit(1, batch(1, 1)).unwrap();
    assert_eq!(hearing.recv().unwrap(), done(1));
    let mut held = 0;
    for sequence in 1..ROUNDS {
        submitter.try_submit(sequence * 2, settling(sequence)).unwrap();
        // When this is answered the thread has the batch before it.
        submitter.load(request(1, 1, 0)).unwrap();
        let heard = hearing.recv().unwrap();
        let is_held = matches!(heard, Heard::Loaded(_));
        submitter.try_submit(sequence * 2 + 1, batch(1, sequence + 1)).unwrap();
        let mut heard = vec![heard, hearing.recv().unwrap(), hearing.recv().unwrap()];
        heard.retain(|heard| !matches!(heard, Heard::Loaded(_)));
        assert_eq!(heard, [done(sequence * 2), done(sequence * 2 + 1)]);
        held += u64::from(is_held);
    }
    // One that stays alone is committed as well.
    submitter.try_submit(ROUNDS * 2, settling(ROUNDS)).unwrap();
    assert_eq!(hearing.recv().unwrap(), done(ROUNDS * 2));
    let is_commits = |sample: &Sample<'_>| sample.row.name == "tiderace_store_commits_total";
    let commits = metrics.samples().find(is_commits).unwrap().value;
    let SampleValue::Number(commits) = commits else { panic!() };
    // The processor may have been with others for longer than a batch is held back, now and then.
    assert!(held > ROUNDS / 2, "{held} of {ROUNDS} were held back");
    assert!(commits < ROUNDS * 3 / 2, "{commits} commits for {ROUNDS} that were awaited");
    drop(committer);
    assert_eq!(survivors(&disk), 0);
}

#[test]
fn what_waits_is_bounded_and_a_large_batch_goes_alone() {
    // Declared first, so that the gate opens before the committer waits for its thread, whatever fails.
    let committer;
    let hearing;
    let (open, opened) = channel();
    let (reached, at_gate) = channel();
    let gate = Gate { reached, opened, is_readers: false };
    (committer, hearing) = start(store(&SimulatedDisk::new(1), Sync::Always), Some(gate));
    let submitter = committer.submitter(0);
    // A ticket's room is given back before its answer, at which the gate then holds the thread.
    let held = || {
        at_gate.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(submitter.waiting_bytes(), 0);
    };
    submitter.try_submit(1, batch(1, 1)).unwrap();
    held();
    let mut large = Batch::new();
    large.set("large", &[1; 10_000]).unwrap();
    submitter.try_submit(2, large).unwrap();
    let refused = submitter.try_submit(3, batch(1, 2)).unwrap_err();
    assert_eq!((refused.reason, refused.batch.is_empty()), (RefusedReason::Waiting, false));
    open.send(()).unwrap();
    let Heard::Done(done) = hearing.recv().unwrap() else { panic!() };
    assert_eq!((done.ticket, done.outcome), (1, Outcome::Committed));
    held();
    let mut taken = 0;
    while submitter.try_submit(3 + taken, batch(1, 2 + taken)).is_ok() {
        taken += 1;
    }
    assert!((5..12).contains(&taken), "{taken} batches of some 400 bytes in 4096");
    open.send(()).unwrap();
    let Heard::Done(done) = hearing.recv().unwrap() else { panic!() };
    // The submitter that hears of a ticket finds its room.
    assert_eq!((done.ticket, done.outcome), (2, Outcome::Committed));
    held();
    submitter.try_submit(3 + taken, batch(1, 2 + taken)).unwrap();
    taken += 1;
    drop(open);
    drop(committer);
    assert_eq!(hearing.iter().count() as u64, taken);
    let refused = submitter.try_submit(99, batch(1, 99)).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::Stopped);
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged_any_more() {
    let disk = SimulatedDisk::new(1);
    let store = store(&disk, Sync::Always);
    disk.fail_sync_after(Some(1));
    let (committer, hearing) = start(store, None);
    let submitter = committer.submitter(0);
    let mut outcomes = Vec::new();
    let mut troubles = Vec::new();
    for ticket in 1..=4 {
        submitter.try_submit(ticket, batch(1, ticket)).unwrap();
        loop {
            match hearing.recv().unwrap() {
                Heard::Done(done) => {
                    outcomes.push(done.outcome);
                    break;
                }
                Heard::Trouble(what, is_fatal) => troubles.push((what, is_fatal)),
                Heard::Loaded(_) | Heard::QueuesFull(_) => panic!("nobody asked"),
            }
        }
    }
    drop(committer);
    assert_eq!(outcomes[0], Outcome::Committed);
    assert!(outcomes[1..].iter().all(|outcome| *outcome == Outcome::Broken), "{outcomes:?}");
    assert!(troubles.iter().any(|(what, is_fatal)| *is_fatal && what.contains("the device")));
    assert_eq!(survivors(&disk), 1);
}

fn request(ticket: u64, stream: u64, bytes_max: usize) -> LoadRequest {
    LoadRequest {
        ticket,
        stream: StreamId(stream),
        beside: None,
        first: 1,
        last: u64::MAX,
        bytes_max,
    }
}

#[test]
fn what_was_committed_is_loaded_between_commits() {
    let disk = SimulatedDisk::new(1);
    let (committer, hearing) = start(store(&disk, Sync::Always), None);
    let submitter = committer.submitter(3);
    submitter.try_submit(1, batch(1, 1)).unwrap();
    assert!(matches!(hearing.recv().unwrap(), Heard::Done(_)));
    for ticket in 2..50 {
        submitter.load(request(ticket, 1, 1 << 20)).unwrap();
        submitter.load(request(ticket + 100, 2, 1 << 20)).unwrap();
        submitter.try_submit(ticket, batch(1, ticket)).unwrap();
        let (mut answers, mut is_done) = (Vec::new(), false);
        while answers.len() < 2 || !is_done {
            match hearing.recv().unwrap() {
                Heard::Loaded(loaded) => answers.push(loaded),
                Heard::Done(done) => {
                    assert_eq!(done.outcome, Outcome::Committed);
                    is_done = true;
                }
                other => panic!("{other:?}"),
            }
        }
        // What was answered before is there. A stream that does not exist is empty.
        let [loaded, unknown] = &answers[..] else { panic!() };
        assert_eq!((loaded.shard, loaded.ticket, loaded.next), (3, ticket, None));
        assert_eq!(loaded.messages.len() as u64, ticket - 1);
        assert!(loaded.messages.iter().all(|message| message.bytes[..] == [1; 100]));
        assert_eq!((unknown.ticket, unknown.messages.len()), (ticket + 100, 0));
    }
    drop(committer);
    assert_eq!(submitter.load(request(99, 1, 1)), Err(RefusedReason::Stopped));
}

#[test]
fn what_is_asked_for_is_bounded_and_all_of_it_is_answered_before_the_end() {
    let committer;
    let hearing;
    let (open, opened) = channel();
    let (reached, at_gate) = channel();
    let gate = Gate { reached, opened, is_readers: false };
    (committer, hearing) = start(store(&SimulatedDisk::new(1), Sync::Always), Some(gate));
    let (submitter, other) = (committer.submitter(0), committer.submitter(1));
    submitter.try_submit(1, batch(1, 1)).unwrap();
    // Nothing is taken up while the committer stands at the gate.
    at_gate.recv_timeout(Duration::from_secs(60)).unwrap();
    let mut taken = 0;
    while submitter.load(request(taken, 1, 1 << 20)).is_ok() {
        taken += 1;
    }
    assert!((10..20).contains(&taken), "{taken}");
    assert_eq!(submitter.load(request(taken, 1, 1 << 20)), Err(RefusedReason::Waiting));
    assert_eq!(other.load(request(9, 1, usize::MAX)), Ok(()), "a large one goes alone");
    assert_eq!(other.load(request(10, 1, 1)), Err(RefusedReason::Waiting));
    drop(open);
    drop(committer);
    let loaded = hearing.iter().filter_map(|heard| match heard {
        Heard::Loaded(loaded) => Some(loaded),
        _ => None,
    });
    let loaded: Vec<Loaded> = loaded.collect();
    let mine = loaded.iter().filter(|loaded| loaded.shard == 0);
    assert!(mine.map(|loaded| loaded.ticket).eq(0..taken));
    assert_eq!(loaded.len() as u64, taken + 1);
    assert!(loaded.iter().all(|loaded| loaded.messages.len() == 1));
}

/// A queue of which each record has a segment of its own.
fn store_of_segments(disk: &SimulatedDisk) -> Store<SimulatedDisk> {
    let mut store = store(disk, Sync::Never);
    for sequence in 1..=300 {
        let mut large = batch(1, sequence);
        large.set("filling", &[2; 4000]).unwrap();
        assert!(store.commit(vec![large]).1.is_none());
    }
    store
}

/// Asks for all of that queue, two messages at a time.
fn ask_for_all(submitter: &Submitter) {
    for ticket in 0..150 {
        let first = 2 * ticket + 1;
        let request = request(ticket, 1, 4 << 10);
        submitter.load(LoadRequest { first, last: first + 1, ..request }).unwrap();
    }
}

/// Waits until a committer has taken what it was told until now, whose reader stands at its gate.
fn wait_until_taken(submitter: &Submitter) {
    submitter.try_submit(1, batch(3, 1)).unwrap();
    while submitter.waiting_bytes() > 0 {
        std::thread::yield_now();
    }
}

#[test]
fn loads_that_wait_hold_no_files() {
    let committer;
    let hearing;
    let (open, opened) = channel();
    let (reached, at_gate) = channel();
    let gate = Gate { reached, opened, is_readers: true };
    let disk = SimulatedDisk::new(1);
    let store = store_of_segments(&disk);
    let before = disk.open_files();
    (committer, hearing) = start(store, Some(gate));
    ask_for_all(&committer.submitter(0));
    at_gate.recv_timeout(Duration::from_secs(60)).unwrap();
    wait_until_taken(&committer.submitter(1));
    assert!(disk.open_files() <= before + 40, "{} files", disk.open_files() - before);
    drop(open);
    drop(committer);
    let loaded = hearing.iter().filter_map(|heard| match heard {
        Heard::Loaded(loaded) => Some((loaded.ticket, loaded.messages.len(), loaded.next)),
        _ => None,
    });
    assert!(loaded.eq((0..150).map(|ticket| (ticket, 2, None))));
}

#[test]
fn a_load_counts_as_what_it_has_found() {
    let committer;
    let hearing;
    let (open, opened) = channel();
    let (reached, at_gate) = channel();
    let gate = Gate { reached, opened, is_readers: true };
    let mut store = store_of_segments(&SimulatedDisk::new(1));
    let mut huge = batch(2, 1);
    let (stream, version, bytes) = (StreamId(2), 2, &vec![3; 20 << 20]);
    huge.put(&Put { stream, sequence: 2, count: 1, version, keep_from: 0, bytes, body: None })
        .unwrap();
    assert!(store.commit(vec![huge]).1.is_none());
    (committer, hearing) = start(store, Some(gate));
    let other = committer.submitter(1);
    ask_for_all(&committer.submitter(0));
    let wait = || at_gate.recv_timeout(Duration::from_secs(60)).unwrap();
    wait();
    // Of a request for next to nothing that finds a large record the whole record is counted.
    other.load(LoadRequest { first: 2, ..request(1, 2, 0) }).unwrap();
    assert_eq!(other.load(request(2, 1, 0)), Ok(()), "before its turn nothing is known of it");
    for _ in 1..150 {
        open.send(()).unwrap();
        wait();
    }
    wait_until_taken(&other);
    assert_eq!(other.load(request(3, 1, 0)), Err(RefusedReason::Waiting));
    drop(open);
    drop(committer);
    let huge = hearing.iter().find_map(|heard| match heard {
        Heard::Loaded(loaded) if loaded.stream == StreamId(2) => Some(loaded),
        _ => None,
    });
    assert_eq!(huge.unwrap().messages[0].bytes.len(), 20 << 20);
}

#[test]
fn it_is_said_when_queues_have_filled_their_share_and_when_there_is_room_again() {
    let disk = SimulatedDisk::new(1);
    let options = Options {
        segment_bytes: 4096,
        reserve_bytes: 0,
        queue_bytes_max: 5000,
        ..Options::default()
    };
    let store = Store::open_on(disk.clone(), Path::new("simulated"), options).unwrap().0;
    let (committer, hearing) = start(store, None);
    let submitter = committer.submitter(0);
    let mut ticket = 0;
    let mut commit = |batch| {
        ticket += 1;
        submitter.try_submit(ticket, batch).unwrap();
        let Heard::Done(done) = hearing.recv().unwrap() else { panic!() };
        assert_eq!((done.ticket, done.outcome), (ticket, Outcome::Committed));
    };
    // Values are not counted.
    let mut values = Batch::new();
    values.set("large", &[1; 8000]).unwrap();
    commit(values);
    for sequence in 1..=40 {
        commit(batch(1, sequence));
    }
    // Some 115 bytes each: the share is filled by now, and what was under way is committed all the same.
    commit(batch(1, 41));
    let mut told = 0;
    for sequence in 42..=60 {
        submitter.try_submit(100 + sequence, batch(1, sequence)).unwrap();
        told += usize::from(matches!(hearing.recv().unwrap(), Heard::QueuesFull(true)));
    }
    assert_eq!(told, 1);
    let mut settled = Batch::new();
    settled.settle(StreamId(1), &[(1, 58)]).unwrap();
    submitter.try_submit(1000, settled).unwrap();
    drop(committer);
    let last = hearing.iter().filter(|heard| matches!(heard, Heard::QueuesFull(_))).last();
    assert_eq!(last, Some(Heard::QueuesFull(false)));
    // What is there is known at the next start.
    let filled = Options { queue_bytes_max: 100, ..options };
    let store = Store::open_on(disk, Path::new("simulated"), filled).unwrap().0;
    assert!(store.are_queues_full());
    let (_committer, hearing) = start(store, None);
    assert_eq!(hearing.recv().unwrap(), Heard::QueuesFull(true));
}
