//! What becomes of messages that are in the store.

use super::*;
use crate::support::destination;
use crate::support::keeping::Keeping;
use tiderace_wire::Flags;

fn begin(seed: u64, shards: usize, keeping: &mut Keeping) -> World {
    let mut options = BrokerOptions { shards, epoch: seed, ..BrokerOptions::default() };
    options.queue_default.bytes_max = if seed.is_multiple_of(4) { 30_000 } else { 1 << 30 };
    options.queue_default.redeliveries_max = 1;
    let mut world = World::new(seed, options);
    keeping.restore(&mut world);
    world
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
        assert_eq!(world.metrics().queues, 0, "nothing keeps the queue");
        assert_eq!(keeping.queued(), 0);
    });
}
