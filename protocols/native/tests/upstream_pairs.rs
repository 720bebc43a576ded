//! A node beside its upstream, byte for byte: the server's session with its broker on one side, the client's on the other,
//! and what travels between them divided anyhow.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use tiderace_base::{Now, Span, Time};
use tiderace_broker::BrokerOptions;
use tiderace_native::codec::{
    ClientMessage, Destination, Messages, Publish, ServerMessage, Updates, flag,
};
use tiderace_native::{NativeOptions, UpstreamOptions, protocol};
use tiderace_testkit::{Connection, World};
use tiderace_wire::{Framing, FromUpstream, Kind, Numbering, Position, Protocol, Run};

use crate::support::edge::Edge;
use crate::support::{MESSAGES, hello, split};

/// What a client of the upstream does.
#[derive(Clone, Debug)]
enum Step {
    /// Publishes some values of one topic, which differ little; the second bit says whether they are retained.
    Publish { topic: usize, count: usize, retain: bool, properties: bool },
    /// Removes the value of a topic.
    Remove { topic: usize },
    /// Lets what has been said reach the other side.
    Pass,
}

const TOPICS: [&str; 4] = ["fx/a", "fx/b", "fx/c", "single"];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..TOPICS.len(), 1usize..5, any::<bool>(), any::<bool>()).prop_map(
            |(topic, count, retain, properties)| Step::Publish { topic, count, retain, properties }
        ),
        1 => (0..TOPICS.len()).prop_map(|topic| Step::Remove { topic }),
        3 => Just(Step::Pass),
    ]
}

/// A message as its publisher knows it: body, whether it has properties, and what it does to the value.
type Known = (Vec<u8>, bool, char);

/// The upstream, one who publishes there, and the node.
struct Pair {
    world: World,
    native: Protocol,
    publisher: Connection,
    server: Connection,
    edge: Edge,
    /// How transport messages are divided: by the bits of this, one after the other.
    division: u64,
    published: BTreeMap<&'static str, Vec<Known>>,
    serial: usize,
    deltas: usize,
}

impl Pair {
    fn new(options: NativeOptions, division: u64) -> Pair {
        let now = Now { time: Time::from_nanos(1_000), wall_ms: 1_000_000 };
        let broker = BrokerOptions { shards: 3, epoch: 300, ..BrokerOptions::default() };
        let mut world = World::new(now, broker, None);
        let native = protocol(Arc::new(options), Arc::from([]));
        let mut publisher = open(&mut world, &native, 1);
        let mut bytes = Vec::new();
        hello().write(&mut bytes);
        publisher.message(&mut world, false, &bytes);
        let server = open(&mut world, &native, 0);
        let edge = Edge::new(UpstreamOptions::default());
        let (published, serial, deltas) = (BTreeMap::new(), 0, 0);
        Pair { world, native, publisher, server, edge, division, published, serial, deltas }
    }

    /// The connection breaks, and is made anew.
    fn reconnect(&mut self) {
        self.server.shut_down(&mut self.world);
        self.server = open(&mut self.world, &self.native, 2);
        self.edge = Edge::new(UpstreamOptions::default());
        self.pass();
    }

    fn publish(&mut self, topic: &'static str, marks: u8, has_properties: bool) {
        self.serial += 1;
        let serial = self.serial;
        let text = format!("{{\"serial\":{serial:05},\"name\":\"a value that stays as it is\"}}");
        let body = if marks & flag::REMOVE == 0 { text.into_bytes() } else { Vec::new() };
        let properties: &[u8] = if has_properties { b"k\\c:v\n" } else { b"" };
        let publish = Publish {
            request: 0,
            flags: marks | 1,
            destination: Destination::Path(Kind::Topic, topic),
            expires_ms: None,
            properties,
            body: &body,
        };
        let mut bytes = Vec::new();
        ClientMessage::Publish(publish).write(&mut bytes);
        self.publisher.message(&mut self.world, false, &bytes);
        let what = match marks {
            flag::REMOVE => '-',
            flag::RETAIN => '+',
            _ => '.',
        };
        self.published.entry(topic).or_default().push((body, has_properties, what));
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Publish { topic, count, retain, properties } => {
                let marks = if retain { flag::RETAIN } else { 0 };
                (0..count).for_each(|_| self.publish(TOPICS[topic], marks, properties));
                self.server.run(&mut self.world);
            }
            Step::Remove { topic } => {
                self.publish(TOPICS[topic], flag::REMOVE, false);
                self.server.run(&mut self.world);
            }
            Step::Pass => self.pass(),
        }
    }

    /// Carries what both have said until nobody says anything more.
    fn pass(&mut self) {
        loop {
            let (up, down) = (self.edge.frames(), split(&self.server.take_output()));
            if up.is_empty() && down.is_empty() {
                break;
            }
            for frame in divided(&up, &mut self.division) {
                self.server.message(&mut self.world, false, &frame);
            }
            self.server.run(&mut self.world);
            for frame in divided(&down, &mut self.division) {
                self.deltas += deltas_in(&frame);
                self.edge.hear(&frame);
            }
        }
        assert_eq!((self.server.end(), &self.edge.end), (None, &None));
    }
}

fn open(world: &mut World, native: &Protocol, shard: usize) -> Connection {
    Connection::open(world, shard, Framing::Messages(&MESSAGES), |opening| (native.open)(opening))
}

/// The same messages in other transport messages: joined, or each alone.
fn divided(frames: &[Vec<u8>], division: &mut u64) -> Vec<Vec<u8>> {
    let mut made: Vec<Vec<u8>> = vec![Vec::new()];
    for frame in frames {
        let mut rest = &frame[..];
        let mut messages = Messages::new(frame);
        while let Some(message) = messages.next() {
            message.unwrap();
            let (message, more) = rest.split_at(rest.len() - messages.rest().len());
            rest = more;
            *division = division.rotate_left(1);
            if *division & 1 == 1 {
                made.push(Vec::new());
            }
            made.last_mut().unwrap().extend_from_slice(message);
        }
    }
    made.retain(|frame| !frame.is_empty());
    made
}

fn deltas_in(frame: &[u8]) -> usize {
    let messages = Messages::new(frame).map(|message| {
        let (kind, payload) = message.unwrap();
        ServerMessage::read(kind, payload).unwrap()
    });
    let updates = messages.filter_map(|message| match message {
        ServerMessage::Updates(entries) => Some(Updates::numbered(entries)),
        _ => None,
    });
    updates.flatten().filter(|update| update.unwrap().flags & flag::DELTA != 0).count()
}

/// What a node knows of what came.
#[derive(Default)]
struct Got {
    messages: BTreeMap<String, BTreeMap<u64, Known>>,
    /// All numbers that came.
    numbers: BTreeSet<(Numbering, u64)>,
    /// Up to where everything has come, as it was told.
    reached: BTreeMap<Numbering, u64>,
    later: BTreeMap<Numbering, u64>,
    complete: BTreeSet<u32>,
    recovered: Vec<bool>,
    joined: BTreeSet<String>,
}

impl Got {
    fn take(&mut self, edge: &mut Edge) {
        for told in edge.told() {
            match told {
                FromUpstream::Up { .. }
                | FromUpstream::Requests { taken: true, .. }
                | FromUpstream::Calls { taken: true } => {}
                FromUpstream::Messages { key, run } => self.run(key.0, &run),
                FromUpstream::Joined { path, .. } => {
                    self.joined.insert(path.to_string());
                }
                FromUpstream::Reached { numbering, sequence } => self.reach(numbering, sequence),
                FromUpstream::Recovered { complete, .. } => self.recovered.push(complete),
                FromUpstream::Complete { key } => {
                    self.complete.insert(key.0);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn run(&mut self, key: u32, run: &Run) {
        let path = run.destination().path.to_string();
        assert!(self.joined.contains(&path), "{path} comes before it has joined");
        let upstream = *run.upstream().unwrap();
        for (index, message) in run.messages().enumerate() {
            let number = upstream.first + index as u64;
            let reached = *self.reached.get(&upstream.numbering).unwrap_or(&0);
            let is_new = self.numbers.insert((upstream.numbering, number));
            assert!(is_new, "number {number} comes twice");
            // Only values of a subscription that begins are older than what is reached.
            let is_value = self.recovered.is_empty() && !self.complete.contains(&key);
            assert!(is_value || number > reached, "{number} comes behind {reached}");
            let what = match (
                message.flags.contains(tiderace_wire::Flags::RETAIN_REMOVE),
                run.is_value(index),
            ) {
                (true, _) => '-',
                (false, true) => '+',
                (false, false) => '.',
            };
            let has_properties = message.properties.ends_with(b"k\\c:v\n");
            let known = (message.body.to_vec(), has_properties, what);
            let version = run.version() + index as u64;
            self.messages.entry(path.clone()).or_default().insert(version, known);
        }
        self.reach(upstream.numbering, upstream.reached);
    }

    /// While what was missed is on its way, what is reached is so for the subscriptions alone that the upstream knows of
    /// already: it counts once all have been answered.
    fn reach(&mut self, numbering: Numbering, number: u64) {
        let is_recovering = !self.recovered.is_empty() && self.complete.len() < 2;
        let all = if is_recovering { &mut self.later } else { &mut self.reached };
        if number > 0 {
            let known = all.entry(numbering).or_default();
            *known = number.max(*known);
        }
        if !is_recovering {
            for (numbering, number) in std::mem::take(&mut self.later) {
                self.reach(numbering, number);
            }
        }
    }

    fn position(&self) -> Position {
        let mut position = Position::new(300);
        self.reached
            .iter()
            .for_each(|(numbering, number)| position.advance_to(*numbering, *number));
        position
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Everything that is published after the subscriptions listen comes once, as it was, in its order, with numbers that
    /// say what has come; also what was missed in between.
    #[test]
    fn what_is_published_comes(
        before in proptest::collection::vec(step(), 0..8),
        live in proptest::collection::vec(step(), 0..30),
        missed in proptest::collection::vec(step(), 0..12),
        after in proptest::collection::vec(step(), 0..12),
        division: u64,
        topics_max in 1usize..5,
    ) {
        let options = NativeOptions { edge_topics_max: topics_max, ..NativeOptions::default() };
        let mut pair = Pair::new(options, division);
        before.iter().for_each(|step| pair.take(step));
        let values: BTreeMap<&str, usize> =
            pair.published.iter().map(|(topic, all)| (*topic, all.len())).collect();
        pair.pass();
        pair.edge.subscribe(0, "fx/*", None);
        pair.edge.subscribe(1, "single", None);
        pair.pass();
        let mut got = Got::default();
        got.take(&mut pair.edge);
        prop_assert_eq!(got.complete.len(), 2);
        live.iter().for_each(|step| pair.take(step));
        pair.pass();
        got.take(&mut pair.edge);
        check(&pair, &got, &values);
        // A break, and what is missed.
        missed.iter().filter(|step| !matches!(step, Step::Pass)).for_each(|step| pair.take(step));
        pair.reconnect();
        let since = got.position();
        pair.edge.subscribe(0, "fx/*", Some(since.clone()));
        pair.edge.subscribe(1, "single", Some(since));
        pair.pass();
        got.complete.clear();
        got.take(&mut pair.edge);
        prop_assert_eq!((&got.recovered[..], got.complete.len()), (&[true, true][..], 2));
        after.iter().for_each(|step| pair.take(step));
        pair.pass();
        got.take(&mut pair.edge);
        check(&pair, &got, &values);
    }
}

/// Of each topic the value of before, which may be older than what came last then, and everything since.
fn check(pair: &Pair, got: &Got, before: &BTreeMap<&str, usize>) {
    let nothing = BTreeMap::new();
    for (topic, published) in &pair.published {
        let told = got.messages.get(*topic).unwrap_or(&nothing);
        let before = before.get(topic).copied().unwrap_or(0);
        let since = &published[before..];
        let values = told.len().saturating_sub(since.len());
        let first = told.keys().nth(values).copied().unwrap_or(0);
        let came: Vec<(u64, &Known)> =
            told.iter().skip(values).map(|(version, known)| (*version, known)).collect();
        let expected: Vec<(u64, &Known)> = (first..).zip(since).collect();
        assert!(came == expected, "{topic}: {} of {}", came.len(), expected.len());
        assert!(values <= 1, "{topic}: one value at most");
        for value in told.values().take(values) {
            let is_value = value.2 == '+' && published[..before].contains(value);
            assert!(is_value, "{topic}: what it has before is its value");
        }
    }
}

#[test]
fn deltas_are_what_bodies_would_be() {
    let mut pair = Pair::new(NativeOptions::default(), 0x5a5a);
    pair.pass();
    pair.edge.subscribe(0, "fx/*", None);
    pair.edge.subscribe(1, "single", None);
    pair.pass();
    for round in 0..50 {
        for topic in TOPICS {
            pair.publish(topic, if round % 3 == 0 { flag::RETAIN } else { 0 }, round % 5 == 0);
        }
        pair.server.run(&mut pair.world);
        pair.pass();
    }
    assert!(pair.deltas >= 4 * 40, "{} deltas", pair.deltas);
    let mut got = Got::default();
    got.take(&mut pair.edge);
    check(&pair, &got, &BTreeMap::new());
    // It is alive, and silent from here on.
    pair.server.wait(&mut pair.world, Span::from_secs(1));
    assert!(pair.edge.told().is_empty());
}

#[test]
fn an_end_and_a_new_beginning() {
    let mut pair = Pair::new(NativeOptions::default(), 7);
    pair.pass();
    pair.publish("fx/a", flag::RETAIN, false);
    pair.edge.subscribe(0, "fx/*", None);
    pair.pass();
    pair.publish("fx/a", flag::RETAIN, false);
    pair.server.run(&mut pair.world);
    // On their way when the end is asked for.
    pair.edge.unsubscribe(0);
    pair.edge.subscribe(0, "single", None);
    pair.publish("single", flag::RETAIN, true);
    pair.pass();
    let told = pair.edge.told();
    let paths: Vec<String> = told
        .iter()
        .filter_map(|told| match told {
            FromUpstream::Messages { run, .. } => Some(run.destination().path.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(paths, ["fx/a", "single"], "{told:?}");
    assert!(matches!(told.last(), Some(FromUpstream::Complete { .. })), "{told:?}");
}
