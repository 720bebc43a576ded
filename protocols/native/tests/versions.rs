//! Versions (section 6): whatever is left out on the way, a client computes those that the home gave.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::Arc;

use crate::support::{self, Rig, run, topic};
use proptest::prelude::*;
use tiderace_native::NativeOptions;
use tiderace_native::codec::{Messages, ServerMessage, Updates, Version, flag, subscribe as flags};
use tiderace_wire::{Confirm, Framing, Kind, Reply, SharedRun};

/// What a client makes of what is said: the topic, its version, and from which version on it follows.
#[derive(Default)]
struct Reader {
    announced: HashMap<u32, String>,
    last: HashMap<String, u64>,
    follows: HashMap<String, u64>,
    read: Vec<(String, u64)>,
    /// By topic and version: how many messages were missed before it.
    missed: Vec<u64>,
}

impl Reader {
    fn topic(&self, flags: u8, id: u32) -> String {
        if flags & flag::ANNOUNCED == 0 { "fx/a".to_owned() } else { self.announced[&id].clone() }
    }

    fn read(&mut self, rig: &mut Rig) {
        for frame in rig.frames() {
            for message in Messages::new(&frame) {
                let (kind, payload) = message.unwrap();
                match ServerMessage::read(kind, payload).unwrap() {
                    ServerMessage::Topic { topic, path, .. } => {
                        self.announced.insert(topic, path.to_owned());
                    }
                    ServerMessage::Follows { flags, id, version } => {
                        self.follows.insert(self.topic(flags, id), version);
                    }
                    ServerMessage::Updates(entries) => self.updates(Updates::new(entries)),
                    other => panic!("{other:?}"),
                }
            }
        }
    }

    fn updates(&mut self, updates: Updates<'_>) {
        for update in updates {
            let update = update.unwrap();
            let path = self.topic(update.flags, update.id);
            let last = self.last.get(&path).copied();
            let version = match (update.version, last) {
                (Version::Full(version), _) => version,
                (low, Some(last)) => low.after(last),
                (Version::Low(_), None) => panic!("{path} begins without a version"),
            };
            let before = self.follows.remove(&path).unwrap_or(version - 1);
            self.missed.push(last.map_or(0, |last| before.saturating_sub(last)));
            self.last.insert(path.clone(), version);
            self.read.push((path, version));
        }
    }
}

/// One thing that happens to a topic before its next delivery.
#[derive(Clone, Copy, Debug)]
struct Step {
    topic: usize,
    /// Versions that this client does not get.
    lost: u64,
    /// Numbers that no message has.
    unused: u64,
    /// Messages of the run, and those of them that are delivered.
    part: (usize, usize, usize),
}

fn step() -> impl Strategy<Value = Step> {
    let amount = || {
        prop_oneof![
            6 => Just(0u64),
            2 => 1u64..200,
            1 => Just(1 << 20),
            1 => (1u64..40).prop_map(|times| times << 16),
            1 => (1u64..40).prop_map(|times| (times << 16) - 1),
            1 => any::<u32>().prop_map(u64::from),
        ]
    };
    let part = (1usize..5).prop_flat_map(|len| {
        (0..len).prop_flat_map(move |from| (Just(len), Just(from), from + 1..=len))
    });
    (0usize..3, amount(), amount(), part).prop_map(|(topic, lost, unused, part)| Step {
        topic,
        lost,
        unused,
        part,
    })
}

proptest! {
    #[test]
    fn the_clients_versions_are_the_homes(
        steps in proptest::collection::vec(step(), 1..60),
        by_pattern: bool,
        deltas: bool,
        topics_max in 1usize..5,
    ) {
        let options = NativeOptions { topics_max, ..NativeOptions::default() };
        let mut rig = Rig::with(options, Framing::Messages(&support::MESSAGES));
        let wish = if deltas { flags::DELTAS } else { 0 };
        if by_pattern {
            rig.subscribe(1, 3, wish | flags::PATTERN, "fx/*");
        } else {
            rig.subscribe(1, 3, wish, "fx/a");
        }
        let mut next = [1u64; 3];
        let mut previous: [Option<Arc<tiderace_wire::Run>>; 3] = [None, None, None];
        let (mut number, mut wanted, mut missed) = (1, Vec::new(), Vec::new());
        let mut had: [Option<u64>; 3] = [None; 3];
        for step in steps {
            let at = if by_pattern { step.topic } else { 0 };
            let path = ["fx/a", "fx/b", "fx/c"][at];
            let before = next[at] + step.lost - 1;
            let version = before + step.unused + 1;
            let (len, from, to) = step.part;
            let bodies: Vec<Vec<u8>> =
                (0..len as u64).map(|index| format!("a value of some length, {}", version + index).into()).collect();
            let bodies: Vec<&[u8]> = bodies.iter().map(Vec::as_slice).collect();
            let mut made = run(Kind::Topic, path, number, version, &bodies);
            made.set_follows(before);
            number += len as u64;
            next[at] = version + len as u64;
            let shared = SharedRun::after(Arc::new(made), previous[at].take());
            rig.deliver_part(3, &shared, from, to);
            previous[at] = Some(shared.run_arc().clone());
            for index in from..to {
                let given = version + index as u64;
                // Where the jump itself was left out, all that can be said is how far the versions are apart.
                let expected = match (had[at], index) {
                    (None, _) => 0,
                    (Some(last), 0) => before - last,
                    (Some(last), _) => given - last - 1,
                };
                wanted.push((path.to_owned(), given));
                missed.push(expected);
                had[at] = Some(given);
            }
        }
        rig.flush();
        let mut reader = Reader::default();
        reader.read(&mut rig);
        prop_assert_eq!(&reader.read, &wanted);
        prop_assert_eq!(&reader.missed, &missed);
    }
}

#[test]
fn only_versions_that_follow_are_told_by_sixteen_bits() {
    let mut rig = Rig::new();
    rig.subscribe(1, 0, 0, "fx/a");
    for version in [63, 64, 65, 67, 68, 68 + 65_536] {
        rig.deliver(0, &topic("fx/a", version, version, &[b"x"]));
    }
    rig.flush();
    let mut told = Vec::new();
    for frame in rig.frames() {
        for message in Messages::new(&frame) {
            let (kind, payload) = message.unwrap();
            let ServerMessage::Updates(entries) = ServerMessage::read(kind, payload).unwrap()
            else {
                continue;
            };
            told.extend(Updates::new(entries).map(|update| update.unwrap().version));
        }
    }
    let (full, low) = (Version::Full, Version::Low);
    assert_eq!(told, [full(63), low(64), low(65), full(67), low(68), full(68 + 65_536)]);
}

#[test]
fn the_ok_stands_behind_the_values_if_that_is_asked_for() {
    let mut rig = Rig::new();
    let wish = flags::SNAPSHOT | flags::VALUES | flags::OK_LAST | flags::PATTERN;
    rig.send(&tiderace_native::codec::ClientMessage::Subscribe(support::subscribe(
        1, 0, wish, "fx/*",
    )));
    rig.received();
    let mut value = run(Kind::Topic, "fx/a", 1, 1, &[b"x"]);
    value.set_values();
    rig.reply(Reply::Confirmed(Confirm::one(1)));
    assert!(rig.received().is_empty(), "its values may still wait");
    assert!(rig.session.wants_write());
    rig.deliver(0, &SharedRun::new(Arc::new(value)));
    rig.deliver(0, &topic("fx/b", 2, 1, &[b"no value, only a message"]));
    rig.flush();
    rig.poll_write();
    let received = rig.received();
    assert!(!rig.session.wants_write());
    let ok = received.iter().position(|said| said.starts_with("Ok")).unwrap();
    assert_eq!(ok, received.len() - 1, "{received:?}");
    // VALUE says which of them is a current value.
    let updates: Vec<_> = received.iter().filter(|said| said.starts_with("Updates")).collect();
    assert!(
        updates[0].starts_with("Updates 88:0") && updates[1].starts_with("Updates 8:1"),
        "{received:?}"
    );
}
