//! Browsers over one to three shards: each is shown its queue in order and then told of the end, whatever lies between it
//! and the home, and however deep the queue is; nothing is taken by it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::field_reassign_with_default
)]

use crate::queue_operations::{RED, pause, rule, show};
use crate::support::asking::{connect, tell};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Rules};
use tiderace_wire::{Browsing, Flags, Outcome, QueueStart};

const QUEUE: &str = "queue:jobs/a";
const MEMORY: usize = 20_000;
const BODY: usize = 200;

fn to_end() -> Wish {
    Wish { browsing: Some(Browsing::ToEnd), ..Wish::to(QUEUE) }
}

fn following() -> Wish {
    Wish { browsing: Some(Browsing::Following), ..Wish::to(QUEUE) }
}

fn sharded(seed: u64) -> World {
    let options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    World::new(seed, options)
}

/// Every third message is red; its body begins with its number.
fn message(number: usize, flags: Flags) -> Outgoing {
    let colour = if number.is_multiple_of(3) { "red" } else { "blue" };
    let body = format!("{number:0width$}", width = BODY);
    Outgoing { flags, properties: format!("colour:{colour}\n"), ..Outgoing::new(body) }
}

fn fill(world: &mut World, client: usize, range: std::ops::Range<usize>) {
    let run: Vec<Outgoing> = range.map(|number| message(number, Flags::NONE)).collect();
    world.publish_all(client, QUEUE, &run);
}

fn numbers(world: &World, client: usize) -> Vec<usize> {
    world.clients[client].received.iter().map(|it| it.body.parse().unwrap()).collect()
}

#[test]
fn a_browser_sees_all_of_its_queue_and_then_the_end() {
    for_seeds(0..60, |seed| {
        let mut world = sharded(seed);
        let shards = world.brokers.len();
        let publisher = world.connect(seed as usize % shards, "ann");
        fill(&mut world, publisher, 0..50);
        world.quiesce();
        let mut browsers = Vec::new();
        for shard in 0..shards {
            let explicit = seed % 2 == 0;
            let window = Some(1 + (seed % 7) as u32);
            let client = world.connect(shard, "bob");
            world.subscribe(client, 3, Wish { window, explicit, ..to_end() });
            browsers.push((client, explicit));
        }
        // What comes later is not shown, if it comes behind them.
        world.deliver_envelopes();
        fill(&mut world, publisher, 50..60);
        for _ in 0..60 {
            world.quiesce();
            for (client, _) in browsers.iter().filter(|(_, explicit)| *explicit) {
                for message in world.clients[*client].received.clone() {
                    world.settle(*client, &message, Outcome::Reject);
                }
            }
        }
        for (client, _) in &browsers {
            assert_eq!(numbers(&world, *client), (0..50).collect::<Vec<_>>());
            assert_eq!(world.clients[*client].browsed, [(3, 50)], "the end comes behind it all");
            assert!(world.clients[*client].received.iter().all(|it| it.redeliveries == 0));
        }
        let consumer = world.connect(0, "cid");
        world.subscribe(consumer, 0, Wish { window: Some(9), ..Wish::to(QUEUE) });
        world.quiesce();
        assert_eq!(numbers(&world, consumer), (0..60).collect::<Vec<_>>());
        world.end();
    });
}

#[test]
fn one_that_follows_is_shown_what_others_take_until_it_ends() {
    for_seeds(0..30, |seed| {
        let mut world = sharded(seed);
        let shards = world.brokers.len();
        let (publisher, consumer) = (world.connect(0, "ann"), world.connect(shards - 1, "cid"));
        let browser = world.connect(seed as usize % shards, "bob");
        world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
        let token = world.subscribe(browser, 0, following());
        world.quiesce();
        assert!(world.is_confirmed(browser, token));
        for first in (0..100).step_by(10) {
            fill(&mut world, publisher, first..first + 10);
            world.quiesce();
        }
        for client in [browser, consumer] {
            assert_eq!(numbers(&world, client), (0..100).collect::<Vec<_>>());
        }
        world.unsubscribe(browser, 0);
        fill(&mut world, publisher, 100..110);
        world.quiesce();
        assert_eq!(
            (numbers(&world, browser).len(), &*world.clients[browser].browsed),
            (100, &[][..])
        );
        // Its key serves again, for one that sees what is there.
        world.subscribe(browser, 0, to_end());
        world.quiesce();
        assert_eq!(world.clients[browser].browsed, [(0, 100)], "there is nothing any more");
        assert_eq!(world.metrics().queue_messages, 0);
        world.advance(Span::from_secs(31));
        world.advance(Span::from_secs(31));
        world.end();
    });
}

/// What is on its way when a browser ends is for nobody, also if its key serves again.
#[test]
fn the_end_of_one_is_not_told_to_the_next_of_its_key() {
    for_seeds(0..300, |seed| {
        let mut world = sharded(seed);
        let shards = world.brokers.len();
        let (ann, bob) = (world.connect(0, "ann"), world.connect(shards - 1, "bob"));
        for number in 0..20 {
            for queue in ["a", "b"] {
                world.publish(ann, &format!("queue:jobs/{queue}"), &format!("{queue}{number}"));
            }
        }
        world.quiesce();
        world.subscribe(bob, 0, Wish { window: Some(1 + (seed % 30) as u32), ..to_end() });
        for _ in 0..seed % 23 {
            world.deliver_envelope();
            world.pull(bob);
        }
        world.unsubscribe(bob, 0);
        world.subscribe(bob, 0, Wish { targets: vec!["queue:jobs/b".to_owned()], ..to_end() });
        world.quiesce();
        let client = &world.clients[bob];
        let shown: Vec<&str> = client.received.iter().map(|it| &*it.body).collect();
        let first = shown.iter().position(|body| body.starts_with('b')).unwrap();
        let expected: Vec<String> = (0..20).map(|number| format!("b{number}")).collect();
        assert_eq!(shown[first..], expected, "after {} of the other", first);
        let ends: Vec<usize> = client.browsed.iter().map(|(_, count)| *count).collect();
        match ends[..] {
            [last] => assert_eq!(last, first + 20),
            [before, last] => assert_eq!((before, first, last), (20, 20, 40)),
            _ => panic!("{ends:?}"),
        }
        world.end();
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_reading_takes_the_right_to_receive() {
    let mut options = BrokerOptions::default();
    options.rules = Rules::new(vec![
        rule(&[Action::Send], "ann", "**"),
        rule(&[Action::Browse], "ann", "**"),
        rule(&[Action::Receive], "bob", "jobs/**"),
    ]);
    let mut world = World::new(3, options);
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    fill(&mut world, ann, 0..3);
    let wishes = [
        (ann, to_end(), Some(CloseCode::NotAuthorised)),
        (bob, to_end(), None),
        (bob, following(), None),
        (bob, Wish { selector: Some(RED), ..following() }, None),
        (bob, Wish { exclusive: true, ..to_end() }, Some(CloseCode::BadHeader)),
        (
            bob,
            Wish { targets: vec!["queue:jobs/*".to_owned()], ..to_end() },
            Some(CloseCode::BadDestination),
        ),
        (
            bob,
            Wish { targets: vec!["topic:jobs/a".to_owned()], ..to_end() },
            Some(CloseCode::BadDestination),
        ),
        (
            bob,
            Wish { targets: vec!["service:jobs/a".to_owned()], ..to_end() },
            Some(CloseCode::BadDestination),
        ),
        (
            bob,
            Wish { targets: vec![QUEUE.to_owned(), "queue:jobs/b".to_owned()], ..to_end() },
            Some(CloseCode::BadDestination),
        ),
        (
            bob,
            Wish { start: Some(QueueStart::Next), ..Wish::to("queue:jobs/*") },
            Some(CloseCode::BadDestination),
        ),
    ];
    for ((client, wish, expected), key) in wishes.into_iter().zip(0..) {
        let before = world.clients[client].refused.len();
        world.subscribe(client, key, wish.clone());
        world.quiesce();
        let refused = world.clients[client].refused.get(before).map(|(_, code)| *code);
        assert_eq!(refused, expected, "{wish:?}");
    }
    assert_eq!(world.metrics().queue_messages, 3);
    world.end();
}

#[test]
fn a_browser_is_no_consumer_and_a_paused_queue_shows_itself() {
    let mut world = sharded(2);
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    fill(&mut world, ann, 0..5);
    world.quiesce();
    tell(&mut world, ann, pause("jobs/a", true)).unwrap();
    world.subscribe(bob, 0, following());
    world.quiesce();
    assert_eq!(numbers(&world, bob), [0, 1, 2, 3, 4]);
    let entry = show(&mut world, ann, "jobs/a").unwrap().entry;
    assert_eq!((entry.messages, entry.in_flight, entry.consumers, entry.browsers), (5, 0, 0, 1));
    world.unsubscribe(bob, 0);
    world.quiesce();
    assert_eq!(show(&mut world, ann, "jobs/a").unwrap().entry.browsers, 0);
}

#[test]
fn a_client_that_does_not_read_gets_no_more_than_its_window() {
    let mut world = sharded(1);
    let ann = world.connect(0, "ann");
    let bob = world.connect(world.brokers.len() - 1, "bob");
    for first in (0..5_000).step_by(10) {
        fill(&mut world, ann, first..first + 10);
        world.quiesce();
    }
    world.subscribe(bob, 0, Wish { window: Some(0), ..to_end() });
    world.deliver_envelopes();
    let waiting = world.metrics().backlog_bytes;
    assert!((200_000..400_000).contains(&waiting), "{waiting} bytes wait for it");
    world.quiesce();
    assert_eq!(numbers(&world, bob), (0..5_000).collect::<Vec<_>>());
    assert_eq!(world.clients[bob].browsed, [(0, 5_000)]);
}

fn begin(keeping: &mut Keeping) -> World {
    let mut options = BrokerOptions::default();
    options.queue_default.bytes_max = MEMORY;
    let mut world = World::new(7, options);
    keeping.restore(&mut world);
    world
}

fn fill_deep(world: &mut World, keeping: &mut Keeping, client: usize, count: usize) {
    for first in (0..count).step_by(10) {
        let flags = if first % 20 == 0 { Flags::PERSISTENT } else { Flags::NONE };
        let run: Vec<Outgoing> = (first..first + 10).map(|it| message(it, flags)).collect();
        world.publish_all(client, QUEUE, &run);
        world.quiesce();
        keeping.finish(world);
    }
}

/// Lets everybody go on while the queue's memory stays bounded.
fn go_on(world: &mut World, keeping: &mut Keeping) {
    for _ in 0..10_000 {
        world.quiesce();
        keeping.take(world, 0);
        let gave = keeping.give_loaded(world, 0);
        let answered = keeping.answer(world, 0);
        let bytes = world.metrics().queue_bytes as usize;
        assert!(bytes <= 2 * MEMORY, "{bytes} bytes are in memory");
        if !(gave || answered || world.has_envelopes()) {
            return world.quiesce();
        }
    }
    panic!("it goes on for ever");
}

#[test]
fn a_deep_queue_is_shown_from_the_store_and_stays_there() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let (ann, bob, cid) =
        (world.connect(0, "ann"), world.connect(0, "bob"), world.connect(0, "cid"));
    fill_deep(&mut world, &mut keeping, ann, 3_000);
    let before = world.metrics();
    world.subscribe(bob, 0, to_end());
    world.subscribe(cid, 1, Wish { selector: Some(RED), ..following() });
    go_on(&mut world, &mut keeping);
    assert_eq!(numbers(&world, bob), (0..3_000).collect::<Vec<_>>());
    assert_eq!(world.clients[bob].browsed, [(0, 3_000)]);
    let red = (0..3_000).filter(|it: &usize| it.is_multiple_of(3));
    assert_eq!(numbers(&world, cid), red.collect::<Vec<_>>());
    let after = world.metrics();
    assert_eq!((after.queue_messages, after.queue_swapped), (3_000, before.queue_swapped));
    assert_eq!(after.queue_bytes, before.queue_bytes, "nothing has come into its memory");
    // In the next life there are those that were to survive.
    keeping.crash(&mut world);
    let mut world = begin(&mut keeping);
    let bob = world.connect(0, "bob");
    world.subscribe(bob, 0, to_end());
    go_on(&mut world, &mut keeping);
    let kept = (0..3_000).filter(|it: &usize| (it / 10).is_multiple_of(2));
    assert_eq!(numbers(&world, bob), kept.collect::<Vec<_>>());
    assert_eq!(world.clients[bob].browsed.len(), 1);
}

#[test]
fn a_browser_of_a_deep_queue_that_is_drained_meanwhile_ends_and_loses_nobody_anything() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let (ann, bob, cid) =
        (world.connect(0, "ann"), world.connect(0, "bob"), world.connect(0, "cid"));
    fill_deep(&mut world, &mut keeping, ann, 2_000);
    world.subscribe(cid, 0, Wish { window: Some(10), ..Wish::to(QUEUE) });
    world.subscribe(bob, 0, Wish { window: Some(5), ..to_end() });
    go_on(&mut world, &mut keeping);
    assert_eq!(numbers(&world, cid), (0..2_000).collect::<Vec<_>>());
    let seen = numbers(&world, bob);
    assert!(seen.is_sorted() && seen.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!(world.clients[bob].browsed, [(0, seen.len())]);
    assert_eq!(world.metrics().queue_messages, 0);
    assert_eq!(keeping.messages(), 0, "the store has nothing left");
}

/// The version of each message in its queue, as it was received.
fn versions(world: &World, client: usize) -> Vec<(usize, u64)> {
    let received = world.clients[client].received.iter();
    received.map(|it| (it.body.parse().unwrap(), it.queue_version)).collect()
}

#[test]
fn what_a_message_counts_in_its_queue_survives_restarts_and_is_given_once() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    for first in (0..100).step_by(10) {
        let run: Vec<Outgoing> =
            (first..first + 10).map(|it| message(it, Flags::PERSISTENT)).collect();
        world.publish_all(ann, QUEUE, &run);
        keeping.settle_down(&mut world);
    }
    world.subscribe(bob, 0, to_end());
    keeping.settle_down(&mut world);
    let before = versions(&world, bob);
    assert!(before.len() == 100 && before.windows(2).all(|pair| pair[0].1 < pair[1].1));
    let taker = world.connect(0, "cid");
    let wish = Wish { explicit: true, window: Some(30), ..Wish::to(QUEUE) };
    world.subscribe(taker, 0, wish.clone());
    keeping.settle_down(&mut world);
    for message in world.clients[taker].received.clone() {
        world.settle(taker, &message, Outcome::Accept);
    }
    keeping.settle_down(&mut world);
    keeping.crash(&mut world);

    let mut world = begin(&mut keeping);
    let (ann, bob, cid) =
        (world.connect(0, "ann"), world.connect(0, "bob"), world.connect(0, "cid"));
    world.subscribe(bob, 0, to_end());
    keeping.settle_down(&mut world);
    assert_eq!(versions(&world, bob), before[30..], "the others have their versions");
    let start = Some(QueueStart::Version(before[60].1));
    world.subscribe(cid, 0, Wish { start, window: Some(5), ..Wish::to(QUEUE) });
    let news = world.connect(0, "dan");
    world.subscribe(news, 0, Wish { start: Some(QueueStart::Next), ..following() });
    keeping.settle_down(&mut world);
    assert_eq!(versions(&world, cid), before[60..]);
    assert_eq!(world.metrics().queue_messages, 30, "those before it wait for somebody else");
    world.subscribe(ann, 0, Wish { window: Some(5), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    assert_eq!(versions(&world, ann), before[30..60]);
    world.publish(ann, QUEUE, "100");
    keeping.settle_down(&mut world);
    assert_eq!(numbers(&world, news), [100]);
    let last = versions(&world, news)[0].1;
    assert!(last > before[99].1);

    // The queue goes for being idle, and its versions do not come again, also in the next life.
    world.end();
    world.advance(Span::from_secs(60));
    world.advance(Span::from_secs(60));
    keeping.finish(&mut world);
    assert_eq!(keeping.streams(), 0);
    keeping.crash(&mut world);
    let mut world = begin(&mut keeping);
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.publish(ann, QUEUE, "101");
    let start = Some(QueueStart::Version(last + 1));
    world.subscribe(bob, 0, Wish { start, ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    assert_eq!(
        numbers(&world, bob),
        [101],
        "who goes on behind the last that it had misses nothing"
    );
}
