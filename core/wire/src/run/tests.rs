//! Runs give back what was put in, and count what they keep.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{Command, Commands, Kind};
use proptest::prelude::*;

#[test]
fn a_body_that_is_taken_over_gives_the_same_run() {
    let destination = || Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
    let long = "k:v\\n".repeat(200);
    for properties in ["", "k:v\n", "k:\\c\n", &long] {
        for (flags, expires_ms) in
            [(Flags::RETAIN, None), (Flags::from_bits(u16::MAX), None), (Flags::NONE, Some(7))]
        {
            for (length, spare) in [(0, 0), (11, 0), (11, 2_000), (70, 58), (100_000, 10_000)] {
                let meta = Meta { flags, expires_ms };
                let mut body = Vec::with_capacity(length + spare);
                body.resize(length, b'x');
                let buffer = body.as_ptr();
                let properties = properties.as_bytes();
                let copied = Run::single(destination(), Time::ZERO, properties, &body, meta);
                let taken = Run::single_owned(destination(), Time::ZERO, properties, body, meta);
                assert_eq!(format!("{taken:?}"), format!("{copied:?}"));
                if length == 100_000 && expires_ms.is_none() {
                    assert_eq!(taken.data.as_ptr(), buffer, "nothing is copied");
                }
                if spare == 2_000 {
                    assert_ne!(taken.data.as_ptr(), buffer, "nothing is kept that is not counted");
                }
            }
        }
    }
}

#[test]
fn a_body_in_a_file_is_never_copied() {
    let destination = || Destination { kind: Kind::Queue, path: Path::parse("a").unwrap() };
    let file = Bytes::from(vec![b'x'; 300_000]);
    for (flags, expires_ms) in [(Flags::GROUPED, None), (Flags::NONE, Some(7))] {
        let meta = Meta { flags, expires_ms };
        let mut builder = RunBuilder::new(destination(), Time::ZERO);
        properties::append(builder.properties(), "k", "v");
        builder.finish_in_file(file.slice(10..), meta);
        assert!(!builder.has_room());
        let mut run = builder.build();
        run.number(ShardId(3), 100);
        run.set_queue_version(7);
        assert!(run.bytes() < 200, "only properties count");
        assert!(run.bytes_of(0, 1) < 20);
        assert_eq!((run.len(), run.marks().contains(flags)), (1, true));
        let copy = run.copy_of(&run.message(0).unwrap());
        let in_memory = run.clone().into_memory();
        assert!(in_memory.body_in_file().is_none() && in_memory.bytes() > 299_990);
        for run in [&run, &copy, &in_memory] {
            let message = run.message(0).unwrap();
            let in_file = run.body_in_file().is_some();
            assert_eq!(message.body.as_ptr() == file.slice(10..).as_ptr(), in_file);
            assert_eq!((message.body.len(), message.expires_ms), (299_990, expires_ms));
            assert_eq!(properties::find(message.properties, "k").as_deref(), Some("v"));
            assert_eq!((message.sequence, run.queue_version()), (100, 7));
            assert!(run.message(1).is_none());
        }
        let mut others = RunBuilder::new(destination(), Time::ZERO);
        assert!(others.takes(&run));
        others.finish(b"y", Meta::default());
        assert!(!others.takes(&run) && others.has_room());
        let shared = crate::SharedRun::new(std::sync::Arc::new(run));
        assert_eq!(shared.body_bytes(0).unwrap().as_ptr(), file.slice(10..).as_ptr());
    }
}

proptest! {
    #[test]
    fn gives_back_what_was_put_in(
        rows in proptest::collection::vec(
            (".{0,20}", proptest::collection::vec(any::<u8>(), 0..50), any::<Option<u64>>(), any::<bool>()), 1..20),
        marks in 0u16..64,
        before in 0u64..7_000,
    ) {
        let destination = Destination { kind: Kind::Topic, path: Path::parse("a").unwrap() };
        let mut builder = RunBuilder::new(destination, Time::ZERO);
        for (text, body, expires_ms, abandoned) in &rows {
            if *abandoned {
                builder.properties().extend_from_slice(b"never finished");
            }
            properties::append(builder.properties(), "k", text);
            builder.finish(body, Meta { flags: Flags::RETAIN | Flags::from_bits(marks), expires_ms: *expires_ms });
        }
        let mut run = builder.build();
        run.number(ShardId(3), 100);
        run.set_version(7_000);
        prop_assert_eq!(run.follows(), None);
        run.set_follows(before);
        prop_assert_eq!(run.follows(), Some(before).filter(|before| *before < 6_999));
        prop_assert_eq!(run.home(), ShardId(3));
        let mut copy = Run::single(run.destination().clone(), Time::ZERO, b"", b"x", Meta::default());
        copy.number_as(&run, 0);
        prop_assert_eq!((copy.first(), copy.version(), copy.follows()), (100, 7_000, run.follows()));
        prop_assert!(!copy.is_value(0));
        run.set_values();
        copy.number_as(&run, 3);
        prop_assert_eq!((copy.first(), copy.version(), copy.follows()), (103, 7_003, None));
        prop_assert!(copy.is_value(0));
        run.share_path(&Path::parse("a").unwrap());
        prop_assert_eq!(run.len(), rows.len());
        for (index, (message, row)) in run.messages().zip(&rows).enumerate() {
            let found = properties::find(message.properties, "k");
            prop_assert_eq!(found.as_deref(), Some(&*row.0));
            prop_assert_eq!(message.body, &row.1[..]);
            prop_assert_eq!(message.expires_ms, row.2);
            prop_assert_eq!(message.sequence, 100 + index as u64);
            prop_assert!(message.flags.contains(Flags::RETAIN));
        }
        let total: usize = (0..rows.len()).map(|at| run.bytes_of(at, at + 1)).sum();
        prop_assert!(total <= run.bytes());
        prop_assert_eq!(run.bytes_of(0, rows.len()), total);
        let run = std::sync::Arc::new(run);
        let shared = crate::SharedRun::new(run.clone());
        for (index, row) in rows.iter().enumerate() {
            let body = shared.body_bytes(index).unwrap();
            prop_assert_eq!(&body[..], &row.1[..]);
            let own = run.message(index).unwrap().body;
            prop_assert!(own.is_empty() || own.as_ptr() == body.as_ptr(), "nothing is copied");
        }
        prop_assert_eq!(shared.body_bytes(rows.len()), None);
    }
}

#[test]
fn a_buffer_that_queues_share_is_there_and_counts_once() {
    let memory = tiderace_base::Memory::new(1 << 20);
    let destination =
        |path: &str| Destination { kind: Kind::Queue, path: Path::parse(path).unwrap() };
    for (messages, expires_ms) in [(1, None), (1, Some(7)), (3, None), (3, Some(7))] {
        let mut builder = RunBuilder::new(destination("first"), Time::ZERO);
        for number in 0..messages {
            properties::append(builder.properties(), "k", &number.to_string());
            builder.finish(&[b'x'; 500], Meta { flags: Flags::PERSISTENT, expires_ms });
        }
        let mut run = builder.build();
        let (plain, alone) = (run.clone(), run.bytes());
        run.share(|bytes| memory.charge_body(bytes));
        run.share(|_| unreachable!("it is shared already"));
        let body = memory.used_for(tiderace_base::MemoryUse::Queues);
        assert_eq!(
            (memory.used(), body),
            (body, messages * 500 + alone - run.bytes_beside() - messages * 500)
        );
        let mut others: Vec<Run> = (0..10).map(|_| run.shared_with(destination("other"))).collect();
        for (other, number) in others.iter_mut().zip(5..) {
            other.number(ShardId(1), number);
            other.set_queue_version(number * 2);
            assert_eq!(
                (other.first(), other.queue_version(), run.first()),
                (number, number * 2, 0)
            );
            assert_eq!(other.destination().path.as_str(), "other");
            assert_eq!((other.len(), other.bytes()), (plain.len(), alone));
            assert_eq!(other.bytes_of(0, messages), plain.bytes_of(0, messages));
            assert!(other.marks() == plain.marks() && !other.is_stored());
            for (left, right) in other.messages().zip(plain.messages()) {
                assert_eq!((left.properties, left.body), (right.properties, right.body));
                assert_eq!((left.flags, left.expires_ms), (right.flags, right.expires_ms));
            }
            let (left, right) = (other.message(0).unwrap(), run.message(0).unwrap());
            assert_eq!(left.body.as_ptr(), right.body.as_ptr(), "nothing is copied");
            assert!(Arc::ptr_eq(other.shared().unwrap(), run.shared().unwrap()));
        }
        let copy = run.copy_of(&run.message(0).unwrap());
        assert!(copy.shared().is_none() && memory.used() == body, "a copy is nobody else's");
        drop(run);
        is_for_any_shard(&others);
        others.truncate(1);
        assert_eq!(memory.used(), body, "one is left");
        drop(others);
        assert_eq!((memory.used(), memory.bodies()), (0, 0));
    }
}

fn is_for_any_shard(_: &impl Send) {}

#[test]
fn messages_of_different_priorities_share_no_run_of_a_queue() {
    let destination = Destination { kind: Kind::Queue, path: Path::parse("a").unwrap() };
    let mut commands = Commands::new();
    let said = [Some(9), Some(9), None, None, Some(4), Some(0), Some(9)];
    for priority in said {
        let flags = priority.map_or(Flags::NONE, Flags::of_priority);
        commands.message(&destination);
        commands.publish(b"x", Meta { flags, expires_ms: None }, None);
    }
    let runs = commands.drain().map(|command| match command {
        Command::Publish { run, .. } => (run.len(), run.priority()),
        other => panic!("{other:?}"),
    });
    let runs: Vec<_> = runs.collect();
    assert_eq!(runs, [(2, 9), (2, 4), (1, 4), (1, 0), (1, 9)]);
}
