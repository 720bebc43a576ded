//! Moves of messages that are in the store, and crashes in between.

use super::*;
use crate::support::destination;
use crate::support::keeping::Keeping;
use std::collections::BTreeMap;
use tiderace_wire::Flags;

/// As many as may be on their way between two homes for one move.
const UNDER_WAY_MAX: usize = 256;

fn begin(seed: u64, shards: usize, keeping: &mut Keeping) -> World {
    let mut options = BrokerOptions { shards, epoch: seed, ..BrokerOptions::default() };
    options.queue_default.bytes_max = if seed.is_multiple_of(4) { 30_000 } else { 1 << 30 };
    options.queue_default.redeliveries_max = 1;
    let mut world = World::new(seed, options);
    keeping.restore(&mut world);
    world
}

/// Numbered messages, most of them persistent; which.
fn fill_both(world: &mut World, client: usize, queue: &str, from: usize) -> Vec<usize> {
    let mut persistent = Vec::new();
    let all: Vec<usize> = (from..from + 700).collect();
    for some in all.chunks(50) {
        let messages: Vec<Outgoing> = some
            .iter()
            .map(|number| {
                let is_kept = !world.random.one_in(6);
                persistent.extend(is_kept.then_some(*number));
                let flags = if is_kept { Flags::PERSISTENT } else { Flags::NONE };
                Outgoing { flags, ..coloured(number.to_string(), number % 3 == 0) }
            })
            .collect();
        world.publish_all(client, &format!("queue:{queue}"), &messages);
    }
    world.deliver_envelopes();
    persistent
}

#[test]
fn a_crash_within_a_move_loses_nothing_and_doubles_nothing_at_one_home() {
    for_seeds(0..300, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut keeping = Keeping::default();
        let mut world = begin(seed, shards, &mut keeping);
        let ann = connect(&mut world, "ann");
        let [from, to] = ["from", "to"].map(|name| {
            let home = world.random.below(shards);
            path_at(name, home, shards)
        });
        let is_one_home = destination(&format!("queue:{from}")).home(shards)
            == destination(&format!("queue:{to}")).home(shards);
        let persistent = fill_both(&mut world, ann, &from, 0);
        keeping.finish(&mut world);
        assert_eq!(keeping.queued(), persistent.len());
        let mut asked = vec![ask(&mut world, ann, move_by(moving(&from, &to)))];
        for _ in 0..world.random.below(120) {
            let shard = world.random.below(shards);
            match world.random.below(12) {
                // What goes back at once before the store has refused it may be there twice, as what is consumed at once.
                0 if seed.is_multiple_of(5) => keeping.full = !keeping.full,
                1 if !seed.is_multiple_of(5) => {
                    asked.push(ask(&mut world, ann, move_by(moving(&to, &from))));
                }
                2..=4 => keeping.take(&mut world, shard),
                5 => drop(keeping.answer(&mut world, shard)),
                6 => drop(keeping.give_loaded(&mut world, shard)),
                7 => world.advance(Span::from_millis(100)),
                _ => drop(world.deliver_envelope()),
            }
        }
        let crashes = !world.random.one_in(4);
        if crashes {
            keeping.crash(&mut world);
            keeping.full = false;
            world = begin(seed + 1_000, shards, &mut keeping);
        } else {
            keeping.full = false;
            for _ in 0..6 {
                keeping.settle_down(&mut world);
                world.advance(Span::from_secs(2));
            }
            for token in asked {
                assert!(answer(&world, ann, token).is_some(), "every move is answered");
            }
        }
        let stored = keeping.queued();
        let eve = connect(&mut world, "eve");
        let mut got: BTreeMap<usize, usize> = BTreeMap::new();
        for (key, queue) in (0..).zip([&from, &to]) {
            world.subscribe(eve, key, Wish::to(&format!("queue:{queue}")));
            // Most of it may be in the store alone.
            keeping.settle_down(&mut world);
            world.unsubscribe(eve, key);
            world.quiesce();
            for message in std::mem::take(&mut world.clients[eve].received) {
                *got.entry(message.body.parse().unwrap()).or_default() += 1;
            }
        }
        for number in &persistent {
            assert!(got.contains_key(number), "{number} is lost");
        }
        let doubled = got.values().filter(|times| **times > 1).count();
        match is_one_home || !crashes {
            true => assert_eq!(doubled, 0),
            false => assert!(doubled <= UNDER_WAY_MAX, "{doubled} are there twice"),
        }
        if !crashes {
            assert_eq!(got.len(), 700);
            assert_eq!(stored, persistent.len(), "each is stored once");
        }
        keeping.finish(&mut world);
        assert_eq!(keeping.queued(), 0, "all that was consumed is settled");
    });
}

/// A queue at the first shard of two, whose dead letters go to the second.
fn doomed() -> String {
    (0..)
        .map(|number| format!("doomed{number}"))
        .find(|path| {
            let home = |path: &str| destination(&format!("queue:{path}")).home(2).index();
            home(path) == 0 && home(&format!("dlq/{path}")) == 1
        })
        .unwrap()
}

#[test]
fn a_dead_letter_whose_place_is_lost_is_where_it_lay() {
    for_seeds(0..30, |seed| {
        let mut keeping = Keeping::default();
        let mut world = begin(4 * seed + 1, 2, &mut keeping);
        let ann = world.connect(0, "ann");
        let queue = doomed();
        for number in 0..5 {
            let message =
                Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(number.to_string()) };
            world.publish_all(ann, &format!("queue:{queue}"), &[message]);
        }
        keeping.finish(&mut world);
        world.subscribe(ann, 0, Wish { explicit: true, ..Wish::to(&format!("queue:{queue}")) });
        let mut seen = 0;
        let is_lost_before = world.random.one_in(3);
        if is_lost_before {
            world.lose(1);
        }
        // Each twice, and once more when it has come back.
        let mut rejected = 0;
        while rejected < 10 {
            while world.pull(ann) > 0 {}
            for at in seen..world.clients[ann].received.len() {
                let message = world.clients[ann].received[at].clone();
                world.settle(ann, &message, Outcome::Reject);
                rejected += 1;
            }
            seen = world.clients[ann].received.len().min(rejected);
            if is_lost_before {
                world.deliver_envelopes();
            }
        }
        if !is_lost_before {
            for _ in 0..world.random.below(6) {
                world.deliver_envelope();
            }
            world.lose(1);
        }
        world.deliver_envelopes();
        world.drain(ann);
        let back = world.clients[ann].received[seen..].to_vec();
        let bodies: BTreeSet<&str> = back.iter().map(|message| &*message.body).collect();
        let told = 5 - bodies.len();
        assert!(told == 0 || !is_lost_before, "all are back: {bodies:?}");
        for message in &back {
            world.settle(ann, message, Outcome::Accept);
        }
        world.unsubscribe(ann, 0);
        world.deliver_envelopes();
        for _ in 0..4 {
            keeping.finish(&mut world);
            world.advance(Span::from_secs(40));
            world.deliver_envelopes();
        }
        keeping.finish(&mut world);
        assert!(world.unanswered(ann).is_empty(), "who rejects is answered, whatever is lost");
        assert_eq!(world.metrics().queues, 0, "nothing keeps the queue");
        assert_eq!(keeping.queued(), 0);
    });
}
