//! Queues that order by priority: the most urgent messages come first, in memory and from a store however deep the queue is,
//! after failures, moves and restarts; what operations and browsers see of them; and queues that do not order by it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::queue_operations::{bodies, move_by, moved, moving, peeking, purged};
use crate::support::asking::{answer, ask, connect, path, tell};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds, property};
use tiderace_base::{Now, Span};
use tiderace_broker::BrokerOptions;
use tiderace_queues::FullPolicy;
use tiderace_wire::{
    Browsing, Flags, MoveMessages, Operation, OperationResult, Outcome, Peek, QueueFields,
    number_of,
};

const QUEUE: &str = "queue:jobs/a";
const MEMORY: usize = 20_000;

fn begin(seed: u64, keeping: &mut Keeping, change: impl FnOnce(&mut BrokerOptions)) -> World {
    let mut options =
        BrokerOptions { epoch: seed, shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    options.queue_default.policy.priorities = true;
    change(&mut options);
    let mut world = World::new(seed, options);
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    world
}

fn in_memory(seed: u64) -> World {
    let mut options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    options.queue_default.policy.priorities = true;
    World::new(seed, options)
}

fn urgent(priority: u8, body: &str, flags: Flags) -> Outgoing {
    let properties = format!("priority:{priority}\n");
    let flags = flags | QueueFields::marks(properties.as_bytes());
    Outgoing { flags, properties, ..Outgoing::new(body) }
}

/// Messages whose bodies are their priority and a letter.
fn told(all: &str, flags: Flags) -> Vec<Outgoing> {
    let message = |body: &str| urgent(body.as_bytes()[0] - b'0', body, flags);
    all.split(' ').map(message).collect()
}

fn received(world: &World, client: usize) -> String {
    let bodies = world.clients[client].received.iter().map(|it| it.body.as_str());
    bodies.collect::<Vec<_>>().join(" ")
}

/// An operation of the first client, for which the store may be asked.
fn asked(world: &mut World, keeping: &mut Keeping, operation: Operation) -> OperationResult {
    let token = ask(world, 0, operation);
    keeping.settle_down(world);
    answer(world, 0, token).unwrap().unwrap()
}

/// Priorities and positions of what is shown of the queue, page by page.
fn pages(world: &mut World, keeping: &mut Keeping) -> Vec<(u8, u64)> {
    let (mut seen, mut from) = (Vec::new(), Some(0));
    while let Some(next) = from {
        let peek = Peek { from: next, limit: 7, ..peeking("jobs/a") };
        let found = asked(world, keeping, Operation::Peek(Box::new(peek)));
        let OperationResult::Messages(found) = found else { panic!("{found:?}") };
        seen.extend(found.messages.iter().map(|it| (it.run.priority(), it.position)));
        from = found.next;
    }
    seen
}

#[test]
fn the_most_urgent_come_first_and_others_in_their_order() {
    for_seeds(0..30, |seed| {
        let mut world = in_memory(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let mut all = told("4a 9a 0a 4b 9b 5a 0b", Flags::NONE);
        all.push(Outgoing::new("none"));
        world.publish_all(ann, QUEUE, &all);
        world.quiesce();
        world.subscribe(bob, 0, Wish { window: Some(3), ..Wish::to(QUEUE) });
        world.quiesce();
        assert_eq!(received(&world, bob), "9a 9b 5a 4a 4b none 0a 0b");
        let said = |message| property(message, "priority");
        let said: Vec<_> = world.clients[bob].received.iter().map(said).collect();
        assert_eq!(said[0].as_deref(), Some("9"));
        assert_eq!(said[5], None);
    });
}

#[test]
fn a_queue_that_does_not_order_by_it_carries_the_property_alone() {
    let mut world = World::new(1, BrokerOptions::default());
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    world.publish_all(ann, QUEUE, &told("4a 9a 0a 4b", Flags::NONE));
    world.subscribe(bob, 0, Wish::to(QUEUE));
    world.quiesce();
    assert_eq!(received(&world, bob), "4a 9a 0a 4b");
    let numbers: Vec<u64> = world.clients[bob].received.iter().map(|it| it.queue_version).collect();
    assert_eq!(numbers, [1, 2, 3, 4], "versions are numbers there");
    assert_eq!(property(&world.clients[bob].received[1], "priority").as_deref(), Some("9"));
}

#[test]
fn what_comes_back_is_at_its_place_and_what_is_urgent_overtakes_it() {
    let mut world = in_memory(0);
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    world.subscribe(bob, 0, Wish { window: Some(1), explicit: true, ..Wish::to(QUEUE) });
    world.publish_all(ann, QUEUE, &told("5a 5b 4a", Flags::NONE));
    world.quiesce();
    let first = world.clients[bob].received[0].clone();
    world.publish_all(ann, QUEUE, &told("4b 7a", Flags::NONE));
    world.quiesce();
    // It comes back before all but the one that has come meanwhile and is more urgent.
    world.settle(bob, &first, Outcome::Reject);
    for _ in 0..6 {
        world.quiesce();
        let last = world.clients[bob].received.last().unwrap().clone();
        world.settle(bob, &last, Outcome::Accept);
    }
    world.quiesce();
    assert_eq!(received(&world, bob), "5a 7a 5a 5b 4a 4b");
}

#[test]
fn dead_letters_and_what_is_moved_keep_their_priority() {
    let mut world = World::new(0, {
        let mut options = BrokerOptions::default();
        options.queue_default.policy.priorities = true;
        options.queue_default.redeliveries_max = 1;
        options
    });
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    world.subscribe(bob, 0, Wish { window: Some(1), explicit: true, ..Wish::to(QUEUE) });
    world.publish_all(ann, QUEUE, &told("2a 1a 8a 1b", Flags::NONE));
    for _ in 0..8 {
        world.quiesce();
        let last = world.clients[bob].received.last().unwrap().clone();
        world.settle(bob, &last, Outcome::Reject);
    }
    world.quiesce();
    let dead = bodies(&mut world, ann, peeking("dlq/jobs/a"));
    assert_eq!(dead, ["8a", "2a", "1a", "1b"]);
    let asked = move_by(moving("dlq/jobs/a", "jobs/b"));
    assert_eq!(moved(tell(&mut world, ann, asked)).messages, 4);
    world.publish_all(ann, "queue:jobs/b", &told("8b 0a", Flags::NONE));
    world.quiesce();
    let there = bodies(&mut world, ann, peeking("jobs/b"));
    assert_eq!(there, ["8a", "8b", "2a", "1a", "1b", "0a"]);
}

#[test]
fn pages_go_through_all_priorities_and_what_comes_later_is_neither_purged_nor_moved() {
    let mut keeping = Keeping::default();
    let mut world = begin(0, &mut keeping, |options| options.queue_default.bytes_max = 200);
    let ann = connect(&mut world, "ann");
    for first in 0..40 {
        let all = format!("4-{first} 9-{first} 0-{first}");
        world.publish_all(ann, QUEUE, &told(&all, Flags::PERSISTENT));
        keeping.settle_down(&mut world);
    }
    assert!(world.metrics().queue_swapped > 100);
    let seen = pages(&mut world, &mut keeping);
    let expected = [(9, 2), (4, 1), (0, 3)].into_iter();
    let expected: Vec<(u8, u64)> = expected
        .flat_map(|(priority, first)| (0..40).map(move |turn| (priority, first + 3 * turn)))
        .collect();
    assert_eq!(seen, expected);
    // What is most urgent has come last.
    world.publish_all(ann, QUEUE, &told("9-x 5-x", Flags::PERSISTENT));
    keeping.settle_down(&mut world);
    let part = MoveMessages { up_to: Some(60), ..moving("jobs/a", "jobs/b") };
    assert_eq!(moved(Ok(asked(&mut world, &mut keeping, move_by(part)))).messages, 60);
    let part = Operation::Purge { path: path("jobs/a"), selector: None, up_to: Some(120) };
    assert_eq!(purged(Ok(asked(&mut world, &mut keeping, part))), 60);
    let left = pages(&mut world, &mut keeping);
    assert_eq!(left, [(9, 121), (5, 122)]);
}

#[test]
fn an_urgent_message_behind_very_many_others_on_the_disk_comes_first_and_nothing_else_is_read() {
    for is_restarted in [false, true] {
        let mut keeping = Keeping::default();
        let small = |options: &mut BrokerOptions| options.queue_default.bytes_max = MEMORY;
        let mut world = begin(0, &mut keeping, small);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let body = "x".repeat(200);
        for _ in 0..500 {
            let run: Vec<_> = (0..10).map(|_| urgent(4, &body, Flags::PERSISTENT)).collect();
            world.publish_all(ann, QUEUE, &run);
            keeping.settle_down(&mut world);
            assert!(world.metrics().queue_bytes as usize <= 2 * MEMORY);
        }
        for all in ["8a", "9a 8b", "9b 5a"] {
            world.publish_all(ann, QUEUE, &told(all, Flags::PERSISTENT));
            keeping.settle_down(&mut world);
        }
        assert_eq!(keeping.loads, 0);
        if is_restarted {
            keeping.crash(&mut world);
            world = begin(0, &mut keeping, small);
            assert_eq!(world.metrics().queue_swapped, 5_005);
        }
        let bob = if is_restarted { connect(&mut world, "bob") } else { bob };
        world.subscribe(bob, 0, Wish { window: Some(5), explicit: true, ..Wish::to(QUEUE) });
        keeping.settle_down(&mut world);
        assert_eq!(received(&world, bob), "9a 9b 8a 8b 5a", "restarted: {is_restarted}");
        let (loads, records) = (keeping.loads, keeping.records_read);
        assert!(loads <= 6 && records <= 12, "{loads} loads of {records} records");
        // It goes on with the others, and what is urgent overtakes them all the same.
        let ann = if is_restarted { connect(&mut world, "ann") } else { ann };
        let mut settled = 0;
        while settled < 5_006 {
            if settled == 1_000 {
                world.publish_all(ann, QUEUE, &told("9c", Flags::PERSISTENT));
                keeping.settle_down(&mut world);
            }
            let all = world.clients[bob].received.clone();
            assert!(all.len() > settled, "it goes on behind {settled}");
            for message in &all[settled..] {
                world.settle(bob, message, Outcome::Accept);
            }
            keeping.settle_down(&mut world);
            settled = all.len();
            assert!(world.metrics().queue_bytes as usize <= 2 * MEMORY);
        }
        let place = world.clients[bob].received.iter().position(|it| it.body == "9c").unwrap();
        assert!((1_000..=1_010).contains(&place), "{place}");
        assert_eq!(keeping.queued(), 0, "all is settled in the store");
    }
}

#[test]
fn a_full_queue_drops_what_is_least_urgent_and_has_waited_longest() {
    for has_store in [false, true] {
        let mut keeping = Keeping::default();
        let change = |options: &mut BrokerOptions| {
            options.queue_default.policy.full = FullPolicy::DropHead;
            options.queue_default.policy.messages_max = 4;
            options.queue_default.bytes_max = if has_store { 100 } else { 1 << 20 };
        };
        let mut world = begin(0, &mut keeping, change);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        for one in "4a 0a 9a 0b 4b 9b 0c 9c 9d 9e".split(' ') {
            world.publish_all(ann, QUEUE, &told(one, Flags::PERSISTENT));
            keeping.settle_down(&mut world);
        }
        world.subscribe(bob, 0, Wish::to(QUEUE));
        keeping.settle_down(&mut world);
        assert_eq!(received(&world, bob), "9b 9c 9d 9e", "store: {has_store}");
        assert_eq!(keeping.queued(), 0);
    }
}

#[test]
fn browsers_are_shown_the_most_urgent_first_and_followers_what_comes_meanwhile() {
    for_seeds(0..20, |seed| {
        let mut keeping = Keeping::default();
        let bytes_max = [200, 1 << 20][(seed % 2) as usize];
        let mut world =
            begin(seed, &mut keeping, |options| options.queue_default.bytes_max = bytes_max);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        for all in ["4a 9a", "0a 4b", "9b 4c"] {
            world.publish_all(ann, QUEUE, &told(all, Flags::PERSISTENT));
            keeping.settle_down(&mut world);
        }
        let browse = |browsing| Wish { browsing: Some(browsing), ..Wish::to(QUEUE) };
        world.subscribe(bob, 0, browse(Browsing::ToEnd));
        keeping.settle_down(&mut world);
        assert_eq!(received(&world, bob), "9a 9b 4a 4b 4c 0a");
        assert_eq!(world.clients[bob].browsed, [(0, 6)]);
        let cid = connect(&mut world, "cid");
        world.subscribe(cid, 0, browse(Browsing::Following));
        keeping.settle_down(&mut world);
        for one in ["9c", "0b", "5a"] {
            world.publish_all(ann, QUEUE, &told(one, Flags::PERSISTENT));
            keeping.settle_down(&mut world);
        }
        assert_eq!(received(&world, cid), "9a 9b 4a 4b 4c 0a 9c 0b 5a");
        let numbers: Vec<u64> =
            world.clients[cid].received.iter().map(|it| number_of(it.queue_version)).collect();
        assert_eq!(numbers, [2, 5, 1, 4, 6, 3, 7, 8, 9], "numbers are in the order of coming");
    });
}

#[test]
fn delayed_messages_groups_and_selectors_keep_to_the_order() {
    let mut world = in_memory(0);
    world.now = Now { wall_ms: 1_000, ..world.now };
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    let late = Outgoing {
        properties: "priority:9\ndeliver-at:1500\n".into(),
        flags: QueueFields::marks(b"priority:9\n") | Flags::DELAYED,
        ..Outgoing::new("late")
    };
    let grouped = |priority: u8, body: &str, group: &str| {
        let properties = format!("priority:{priority}\nmessage_group:{group}\n");
        let flags = QueueFields::marks(properties.as_bytes());
        Outgoing { properties, flags, ..Outgoing::new(body) }
    };
    let all = [
        grouped(1, "1", "a"),
        grouped(1, "2", "b"),
        late,
        grouped(6, "3", "a"),
        grouped(6, "4", "a"),
        grouped(7, "5", "b"),
    ];
    world.publish_all(ann, QUEUE, &all);
    world.quiesce();
    let wish = || Wish { window: Some(1), explicit: true, ..Wish::to(QUEUE) };
    let high = Wish { selector: Some("priority = '6'"), ..wish() };
    world.subscribe(bob, 0, high);
    world.quiesce();
    assert_eq!(received(&world, bob), "3");
    let first = world.clients[bob].received[0].clone();
    world.settle(bob, &first, Outcome::Accept);
    world.quiesce();
    assert_eq!(received(&world, bob), "3 4");
    let second = world.clients[bob].received[1].clone();
    world.settle(bob, &second, Outcome::Accept);
    world.advance(Span::from_millis(600));
    world.quiesce();
    let cid = connect(&mut world, "cid");
    world.subscribe(cid, 0, wish());
    for _ in 0..5 {
        world.quiesce();
        if let Some(last) = world.clients[cid].received.last().cloned() {
            world.settle(cid, &last, Outcome::Accept);
        }
    }
    assert_eq!(received(&world, cid), "late 5 1 2");
}

/// From life to life the queue is configured anew.
#[test]
fn what_was_there_comes_first_when_a_queue_begins_or_ceases_to_order_by_priority() {
    let mut keeping = Keeping::default();
    for (life, (priorities, all)) in
        [(false, "4a 9a"), (true, "0a 9b 4b"), (false, "9c 0c"), (true, "9d 8d")]
            .into_iter()
            .enumerate()
    {
        let mut world = begin(life as u64 * 3, &mut keeping, |options| {
            options.queue_default.policy.priorities = priorities;
        });
        let ann = connect(&mut world, "ann");
        world.publish_all(ann, QUEUE, &told(all, Flags::PERSISTENT));
        keeping.settle_down(&mut world);
        keeping.crash(&mut world);
    }
    let mut world = begin(12, &mut keeping, |_| {});
    let bob = connect(&mut world, "bob");
    world.subscribe(bob, 0, Wish::to(QUEUE));
    keeping.settle_down(&mut world);
    // What came while it did not order is behind what was there, in the rank that was last: that of `0a`.
    assert_eq!(received(&world, bob), "4a 9a 9b 9d 8d 4b 0a 9c 0c");
    assert_eq!(keeping.queued(), 0);
}
