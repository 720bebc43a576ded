//! Queues that outgrow memory: what is in memory is bounded however deep a queue is, nothing is lost or repeated on the
//! way to the store and back, and a search in a deep queue holds nobody up.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::queue_operations::{RED, move_by, moving, peeking, purge, selector, show};
use crate::support::asking::{answer, ask};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World};
use tiderace_base::{CloseCode, Now, Span};
use tiderace_broker::BrokerOptions;
use tiderace_wire::{
    Flags, MoveMessages, Operation, OperationResult, Outcome, Peek, PeekedMessages,
};

const QUEUE: &str = "queue:jobs/a";
const MEMORY: usize = 20_000;
/// Bytes of a body.
const BODY: usize = 200;

fn begin(keeping: &mut Keeping) -> World {
    let mut options = BrokerOptions::default();
    options.queue_default.bytes_max = MEMORY;
    let mut world = World::new(7, options);
    world.now = Now { wall_ms: 1_700_000_000_000, ..world.now };
    keeping.restore(&mut world);
    world
}

/// Every third message is red; its body begins with its number.
fn message(number: usize, flags: Flags) -> Outgoing {
    let colour = if number.is_multiple_of(3) { "red" } else { "blue" };
    let body = format!("{number:0width$}", width = BODY);
    Outgoing { flags, properties: format!("colour:{colour}\n"), ..Outgoing::new(body) }
}

fn number(body: &str) -> usize {
    body.parse().unwrap()
}

/// Fills the queue, in runs of ten that are persistent, or not, or both by turns.
fn fill(world: &mut World, keeping: &mut Keeping, client: usize, count: usize, kinds: &[Flags]) {
    for first in (0..count).step_by(10) {
        let flags = kinds[first / 10 % kinds.len()];
        let run: Vec<Outgoing> = (first..first + 10).map(|it| message(it, flags)).collect();
        assert!(!world.clients[client].paused, "the disk has room");
        let token = world.publish_all(client, QUEUE, &run);
        world.quiesce();
        let bytes = world.metrics().queue_bytes as usize;
        assert!(bytes <= 2 * MEMORY, "{bytes} bytes are in memory");
        keeping.finish(world);
        assert!(world.is_confirmed(client, token));
    }
}

fn numbers(world: &World, client: usize) -> Vec<usize> {
    world.clients[client].received.iter().map(|message| number(&message.body)).collect()
}

const BOTH: &[Flags] = &[Flags::PERSISTENT, Flags::NONE];

#[test]
fn a_deep_queue_takes_no_more_memory_and_comes_back_in_order() {
    for kinds in [BOTH, &[Flags::PERSISTENT][..], &[Flags::NONE][..]] {
        let mut keeping = Keeping::default();
        let mut world = begin(&mut keeping);
        let (client, consumer) = (world.connect(0, "ann"), world.connect(0, "bob"));
        fill(&mut world, &mut keeping, client, 3_000, kinds);
        let metrics = world.metrics();
        assert_eq!(metrics.queue_messages, 3_000);
        assert!(
            metrics.queue_swapped > 2_800 && metrics.queue_swapped_bytes as usize > 2_800 * BODY
        );
        assert_eq!(keeping.loads, 0, "nobody wants them");
        world.subscribe(consumer, 0, Wish { window: Some(7), explicit: true, ..Wish::to(QUEUE) });
        let mut settled = 0;
        while settled < 3_000 {
            keeping.settle_down(&mut world);
            let bytes = world.metrics().queue_bytes as usize;
            assert!(bytes <= 2 * MEMORY, "{bytes} bytes are in memory");
            let received = world.clients[consumer].received.clone();
            assert!(received.len() > settled, "it goes on");
            for message in &received[settled..] {
                world.settle(consumer, message, Outcome::Accept);
            }
            settled = received.len();
        }
        keeping.settle_down(&mut world);
        assert_eq!(numbers(&world, consumer), (0..3_000).collect::<Vec<_>>());
        let metrics = world.metrics();
        assert_eq!((metrics.queue_messages, metrics.queue_bytes), (0, 0));
        assert_eq!((metrics.queue_swapped, metrics.queue_swapped_bytes), (0, 0));
        assert_eq!(keeping.messages(), 0, "the store has nothing left");
        assert!(keeping.loads < 1_500, "{} loads", keeping.loads);
        assert!(keeping.records_read <= 300, "{} records are read", keeping.records_read);
        world.end();
        world.advance(Span::from_secs(60));
        world.advance(Span::from_secs(60));
        keeping.finish(&mut world);
        assert_eq!(keeping.streams(), 0);
    }
}

#[test]
fn consumers_that_keep_up_never_touch_the_disk() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let (client, consumer) = (world.connect(0, "ann"), world.connect(0, "bob"));
    world.subscribe(consumer, 0, Wish { window: Some(20), ..Wish::to(QUEUE) });
    world.quiesce();
    for first in (0..5_000).step_by(10) {
        let run: Vec<Outgoing> = (first..first + 10).map(|it| message(it, Flags::NONE)).collect();
        world.publish_all(client, QUEUE, &run);
        world.quiesce();
        keeping.finish(&mut world);
    }
    assert_eq!(numbers(&world, consumer).len(), 5_000);
    assert_eq!((keeping.loads, keeping.puts), (0, 0));
}

#[test]
fn after_a_restart_no_message_is_read_until_somebody_wants_it() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    fill(&mut world, &mut keeping, client, 2_000, BOTH);
    keeping.crash(&mut world);
    let mut world = begin(&mut keeping);
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.queue_swapped), (1_000, 1_000));
    assert_eq!((metrics.queue_bytes, keeping.loads), (0, 0));
    let consumer = world.connect(0, "bob");
    world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    let expected: Vec<usize> =
        (0usize..2_000).filter(|number| (number / 10).is_multiple_of(2)).collect();
    assert_eq!(numbers(&world, consumer), expected);
    assert_eq!(keeping.messages(), 0);
}

/// Messages that are not persistent lie in records of an earlier life if they came together with persistent ones.
#[test]
fn what_was_stored_only_because_it_came_with_others_does_not_come_back() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    let mixed = |first: usize| -> Vec<Outgoing> {
        let flags = |it: usize| if it.is_multiple_of(2) { Flags::PERSISTENT } else { Flags::NONE };
        (first..first + 10).map(|it| message(it, flags(it))).collect()
    };
    for first in (0..1_000).step_by(10) {
        world.publish_all(client, QUEUE, &mixed(first));
        keeping.finish(&mut world);
    }
    let consumer = world.connect(0, "bob");
    let wish = Wish { window: Some(10), explicit: true, ..Wish::to(QUEUE) };
    world.subscribe(consumer, 0, wish.clone());
    keeping.settle_down(&mut world);
    assert_eq!(
        numbers(&world, consumer),
        (0..10).collect::<Vec<_>>(),
        "in this life they are there"
    );
    keeping.crash(&mut world);
    let mut world = begin(&mut keeping);
    let consumer = world.connect(0, "bob");
    world.subscribe(consumer, 0, Wish { explicit: false, ..wish });
    keeping.settle_down(&mut world);
    assert_eq!(numbers(&world, consumer), (0..1_000).step_by(2).collect::<Vec<_>>());
    assert_eq!((keeping.messages(), world.metrics().queue_messages), (0, 0));
    assert_eq!(world.metrics().queue_unreadable, 0);
}

#[test]
fn a_selector_over_a_deep_queue_holds_nobody_up() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    fill(&mut world, &mut keeping, client, 3_000, BOTH);
    let (picky, plain) = (world.connect(0, "bob"), world.connect(0, "cid"));
    let last = format!("{:0width$}", 2_999, width = BODY);
    let outgoing = Outgoing { properties: "colour:green\n".to_owned(), ..Outgoing::new(last) };
    world.publish_all(client, QUEUE, &[outgoing]);
    keeping.finish(&mut world);
    let green = Wish { selector: Some("colour = 'green'"), window: Some(5), ..Wish::to(QUEUE) };
    world.subscribe(picky, 0, green);
    world.quiesce();
    keeping.take(&mut world, 0);
    assert!(keeping.loads > 0, "it looks into the store");
    world.subscribe(plain, 0, Wish { window: Some(10), ..Wish::to(QUEUE) });
    // With each part that the store gives for the search the other one gets as much.
    let (mut rounds, mut before) = (0u32, 0);
    while numbers(&world, picky).is_empty() {
        world.quiesce();
        keeping.take(&mut world, 0);
        keeping.give_loaded(&mut world, 0);
        world.quiesce();
        rounds += 1;
        if rounds.is_multiple_of(4) {
            let got = numbers(&world, plain).len();
            assert!(got > before || got == 3_000, "{got} after {rounds}");
            before = got;
        }
        assert!(rounds < 5_000);
    }
    keeping.settle_down(&mut world);
    assert_eq!(numbers(&world, plain), (0..3_000).collect::<Vec<_>>());
    assert_eq!(numbers(&world, picky).len(), 1);
    assert_eq!(keeping.messages(), 0);
}

fn told(
    world: &mut World,
    keeping: &mut Keeping,
    client: usize,
    operation: Operation,
) -> Result<OperationResult, CloseCode> {
    let token = ask(world, client, operation);
    keeping.settle_down(world);
    answer(world, client, token).expect("every operation is answered")
}

fn peeked(world: &mut World, keeping: &mut Keeping, client: usize, peek: Peek) -> PeekedMessages {
    match told(world, keeping, client, Operation::Peek(Box::new(peek))) {
        Ok(OperationResult::Messages(page)) => *page,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_of_a_deep_queue_show_everything_in_order_and_leave_it_there() {
    for (selector_text, expected) in [(None, 1..1_000), (Some(RED), 1..1_000)] {
        let mut keeping = Keeping::default();
        let mut world = begin(&mut keeping);
        let client = world.connect(0, "ann");
        fill(&mut world, &mut keeping, client, 1_000, BOTH);
        let (mut from, mut shown, mut pages) = (0, Vec::new(), 0);
        loop {
            let peek = Peek {
                from,
                limit: 50,
                selector: selector_text.and_then(selector),
                ..peeking("jobs/a")
            };
            let page = peeked(&mut world, &mut keeping, client, peek);
            shown.extend(page.messages.iter().map(|it| {
                let body = it.run.message(it.place).unwrap().body;
                number(std::str::from_utf8(body).unwrap())
            }));
            assert!(world.metrics().queue_bytes as usize <= 2 * MEMORY);
            pages += 1;
            assert!(pages < 500);
            let Some(next) = page.next else { break };
            assert!(next > from);
            from = next;
        }
        let is_red = |number: &usize| number.is_multiple_of(3) || selector_text.is_none();
        assert_eq!(shown, (0..expected.end).filter(is_red).collect::<Vec<_>>());
        assert_eq!(world.metrics().queue_messages, 1_000);
        let consumer = world.connect(0, "bob");
        world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
        keeping.settle_down(&mut world);
        assert_eq!(numbers(&world, consumer), (0..1_000).collect::<Vec<_>>());
        assert_eq!(keeping.messages(), 0);
    }
}

#[test]
fn a_purge_reads_nothing_and_one_with_a_selector_leaves_the_others() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    fill(&mut world, &mut keeping, client, 1_000, BOTH);
    let entry = show(&mut world, client, "jobs/a").unwrap().entry;
    assert!(entry.swapped > 800 && entry.swapped_bytes > 800 * BODY as u64);
    assert!(entry.bytes > entry.swapped_bytes && entry.messages == 1_000);
    let red = told(&mut world, &mut keeping, client, purge("jobs/a", selector(RED))).unwrap();
    assert!(matches!(red, OperationResult::Purged { messages: 334, .. }), "{red:?}");
    assert_eq!(world.metrics().queue_messages, 666);
    let loads = keeping.loads;
    let all = told(&mut world, &mut keeping, client, purge("jobs/a", None)).unwrap();
    assert!(matches!(all, OperationResult::Purged { messages: 666, .. }), "{all:?}");
    assert_eq!(keeping.loads, loads, "no message is read to be removed");
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.queue_bytes, metrics.queue_swapped), (0, 0, 0));
    assert_eq!(keeping.messages(), 0);
}

#[test]
fn messages_are_moved_out_of_the_depth_of_a_queue() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    fill(&mut world, &mut keeping, client, 1_000, BOTH);
    let asked = MoveMessages { selector: selector(RED), ..moving("jobs/a", "jobs/b") };
    let moved = told(&mut world, &mut keeping, client, move_by(asked)).unwrap();
    let OperationResult::Moved(moved) = moved else { panic!("{moved:?}") };
    assert_eq!((moved.messages, moved.kept), (334, 0));
    let (rest, red) = (world.connect(0, "bob"), world.connect(0, "cid"));
    world.subscribe(rest, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
    world.subscribe(red, 0, Wish { window: Some(50), ..Wish::to("queue:jobs/b") });
    keeping.settle_down(&mut world);
    let is_red = |number: &usize| number.is_multiple_of(3);
    assert_eq!(numbers(&world, red), (0..1_000).filter(is_red).collect::<Vec<_>>());
    assert_eq!(numbers(&world, rest), (0..1_000).filter(|it| !is_red(it)).collect::<Vec<_>>());
    assert_eq!(keeping.messages(), 0);
}

#[test]
fn damage_is_counted_and_what_lies_behind_it_comes() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    fill(&mut world, &mut keeping, client, 1_000, &[Flags::PERSISTENT]);
    keeping.crash(&mut world);
    let mut world = begin(&mut keeping);
    let damaged = keeping.damage(30);
    let consumer = world.connect(0, "bob");
    world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    let received = numbers(&world, consumer);
    assert!(received.is_sorted());
    assert_eq!(received.len(), 1_000 - damaged);
    let metrics = world.metrics();
    assert_eq!((metrics.queue_unreadable, metrics.queue_messages), (damaged as u64, 0));
    assert_eq!(keeping.queued(), damaged, "it stays in the store");
    world.end();
    world.advance(Span::from_secs(60));
    world.advance(Span::from_secs(60));
    keeping.finish(&mut world);
    assert_eq!(keeping.queued(), damaged, "the queue is not removed");
}

#[test]
fn messages_in_the_store_expire_although_nobody_asks_for_them() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    let client = world.connect(0, "ann");
    let expires_ms = Some(world.now.wall_ms + 5_000);
    for first in (0usize..500).step_by(10) {
        let run: Vec<Outgoing> = (first..first + 10)
            .map(|it| Outgoing {
                expires_ms: expires_ms.filter(|_| it.is_multiple_of(2)),
                ..message(it, BOTH[it / 10 % 2])
            })
            .collect();
        world.publish_all(client, QUEUE, &run);
        keeping.finish(&mut world);
    }
    assert_eq!(world.metrics().queue_messages, 500);
    assert!(world.metrics().queue_swapped > 300);
    for _ in 0..600 {
        world.advance(Span::from_millis(250));
        keeping.settle_down(&mut world);
    }
    let metrics = world.metrics();
    assert_eq!((metrics.queue_messages, metrics.dropped_expired), (250, 250));
    let consumer = world.connect(0, "bob");
    world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    assert_eq!(numbers(&world, consumer), (1..500).step_by(2).collect::<Vec<_>>());
    assert_eq!(keeping.messages(), 0);
}

#[test]
fn while_the_store_is_full_publishers_wait_and_nothing_is_lost() {
    let mut keeping = Keeping::default();
    let mut world = begin(&mut keeping);
    keeping.full = true;
    let (client, consumer) = (world.connect(0, "ann"), world.connect(0, "bob"));
    let mut sent = 0;
    while !world.clients[client].paused {
        let run: Vec<Outgoing> = (sent..sent + 10).map(|it| message(it, Flags::NONE)).collect();
        world.publish_all(client, QUEUE, &run);
        world.quiesce();
        keeping.finish(&mut world);
        sent += 10;
        assert!(sent < 1_000, "memory is bounded");
    }
    assert!(world.metrics().queue_bytes as usize <= 2 * MEMORY + 10 * 2 * BODY);
    world.subscribe(consumer, 0, Wish { window: Some(50), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    assert_eq!(numbers(&world, consumer), (0..sent).collect::<Vec<_>>());
    assert!(!world.clients[client].paused);
}

#[test]
fn publishers_wait_when_a_queue_has_used_up_its_part_of_the_disk() {
    let mut keeping = Keeping::default();
    let mut options = BrokerOptions::default();
    (options.queue_default.bytes_max, options.queue_default.disk_bytes_max) = (MEMORY, 50_000);
    let mut world = World::new(7, options);
    keeping.restore(&mut world);
    let (client, consumer) = (world.connect(0, "ann"), world.connect(0, "bob"));
    let mut sent = 0;
    while !world.clients[client].paused {
        let run: Vec<Outgoing> =
            (sent..sent + 10).map(|it| message(it, BOTH[it / 10 % 2])).collect();
        world.publish_all(client, QUEUE, &run);
        world.quiesce();
        keeping.finish(&mut world);
        sent += 10;
        assert!(sent < 1_000, "the disk is bounded");
    }
    let swapped = world.metrics().queue_swapped_bytes;
    assert!((50_000..60_000).contains(&swapped), "{swapped}");
    world.subscribe(consumer, 0, Wish { window: Some(20), ..Wish::to(QUEUE) });
    keeping.settle_down(&mut world);
    assert!(!world.clients[client].paused);
    assert_eq!(numbers(&world, consumer), (0..sent).collect::<Vec<_>>());
}
