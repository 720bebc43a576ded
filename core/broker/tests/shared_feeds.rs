//! What many durable subscriptions get is there once, in memory and in the store, whatever becomes of it in each of them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use crate::support::asking::ask;
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::MemoryUse;
use tiderace_broker::BrokerOptions;
use tiderace_filter::Selector;
use tiderace_topics::Pattern;
use tiderace_wire::{DurableSubscription, Flags, Operation, Outcome, durable_queue};

const BODY: usize = 4_000;

fn options(shards: usize) -> BrokerOptions {
    BrokerOptions { shards, ..BrokerOptions::default() }
}

fn create(name: &str, selector: Option<&str>) -> Operation {
    Operation::CreateSubscription(Box::new(DurableSubscription {
        queue: durable_queue(name).unwrap(),
        topics: vec![Pattern::parse("x/*").unwrap()],
        selector: selector.map(|text| Selector::parse(text).unwrap()),
    }))
}

fn message(number: usize, flags: Flags) -> Outgoing {
    let mut message = Outgoing::new(format!("{number:0width$}", width = BODY));
    message.properties = format!("number:{number}\n");
    Outgoing { flags, ..message }
}

fn used(world: &World) -> usize {
    world.brokers.iter().map(|broker| broker.memory().used_for(MemoryUse::Queues)).sum()
}

/// What each subscription has got, by its name: the numbers in the order of delivery.
fn consume_all(
    world: &mut World,
    keeping: &mut Keeping,
    client: usize,
) -> BTreeMap<String, Vec<usize>> {
    world.subscribe(client, 1, Wish { explicit: true, ..Wish::to("queue:dsub/*") });
    let mut got: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    loop {
        keeping.settle_down(world);
        let received = std::mem::take(&mut world.clients[client].received);
        if received.is_empty() {
            return got;
        }
        for message in received {
            let name = message.path.strip_prefix("dsub/").unwrap().to_owned();
            got.entry(name).or_default().push(message.body.parse().unwrap());
            world.settle(client, &message, Outcome::Accept);
        }
    }
}

fn begin(keeping: &mut Keeping, options: BrokerOptions, queues: usize) -> (World, usize) {
    let mut world = World::new(1, options);
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    for number in 0..queues {
        ask(&mut world, client, create(&number.to_string(), None));
    }
    keeping.settle_down(&mut world);
    (world, client)
}

#[test]
fn a_message_takes_memory_once_and_is_one_record() {
    const QUEUES: usize = 300;
    for flags in [Flags::PERSISTENT, Flags::NONE] {
        let mut keeping = Keeping::default();
        let (mut world, client) = begin(&mut keeping, options(1), QUEUES);
        let before = used(&world);
        for number in 0..5 {
            world.publish_all(client, "topic:x/1", &[message(number, flags)]);
            keeping.settle_down(&mut world);
        }
        let more = used(&world) - before;
        assert!(more > 5 * BODY && more < 5 * (BODY + 200 * QUEUES), "{more}");
        let expected = if flags == Flags::NONE { (0, 0) } else { (5, 5 * QUEUES) };
        assert_eq!((keeping.puts, keeping.shared), expected);
        let got = consume_all(&mut world, &mut keeping, client);
        assert!(got.len() == QUEUES && got.values().all(|it| *it == [0, 1, 2, 3, 4]));
        assert_eq!((used(&world), keeping.queued()), (before, 0), "nothing is left");
        world.end();
    }
}

#[test]
fn what_need_not_survive_and_finds_no_room_in_memory_is_on_the_disk_once() {
    const QUEUES: usize = 50;
    let mut keeping = Keeping::default();
    let mut options = options(1);
    options.queue_default.bytes_max = 3 * BODY;
    let (mut world, client) = begin(&mut keeping, options, QUEUES);
    for number in 0..10 {
        world.publish_all(client, "topic:x/1", &[message(number, Flags::NONE)]);
        keeping.settle_down(&mut world);
    }
    assert!(keeping.puts >= 5 && keeping.shared == keeping.puts * QUEUES, "{}", keeping.puts);
    assert!(used(&world) < 5 * (BODY + 200 * QUEUES), "what left memory takes none of it");
    let got = consume_all(&mut world, &mut keeping, client);
    let all: Vec<usize> = (0..10).collect();
    assert!(got.len() == QUEUES && got.values().all(|numbers| *numbers == all), "{got:?}");
    assert_eq!((used(&world), keeping.messages()), (0, 0));
}

#[test]
fn those_that_want_the_same_of_a_run_share_it_whatever_their_selectors() {
    let mut keeping = Keeping::default();
    let (mut world, client) = begin(&mut keeping, options(1), 0);
    let selectors = [None, Some("number < '3'"), Some("number <> '7'"), Some("number = '1'")];
    for (number, selector) in selectors.iter().cycle().take(100).enumerate() {
        ask(&mut world, client, create(&number.to_string(), *selector));
    }
    keeping.settle_down(&mut world);
    let messages: Vec<Outgoing> = (0..4).map(|it| message(it, Flags::PERSISTENT)).collect();
    world.publish_all(client, "topic:x/1", &messages);
    keeping.settle_down(&mut world);
    // Two of the selectors want all of them.
    assert!(keeping.puts <= 9 && keeping.shared == 100, "{} {}", keeping.puts, keeping.shared);
    let got = consume_all(&mut world, &mut keeping, client);
    for (number, numbers) in got {
        let expected: &[usize] = match number.parse::<usize>().unwrap() % 4 {
            1 => &[0, 1, 2],
            3 => &[1],
            _ => &[0, 1, 2, 3],
        };
        assert_eq!(numbers, expected, "{number}");
    }
    assert_eq!(used(&world), 0);
}

/// One is removed, some lag, and all have so much that it is in the store alone, while they are fed and the store answers
/// late; then the server starts anew, with another number of shards.
#[test]
fn each_goes_its_own_way_with_what_it_shares_with_others() {
    for_seeds(0..12, |seed| {
        let mut keeping = Keeping::default();
        let shards = 1 + (seed % 3) as usize;
        let mut options = options(shards);
        options.queue_default.bytes_max = 30 * BODY;
        let mut world = World::new(seed, options.clone());
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        for number in 0..40 {
            ask(&mut world, client, create(&number.to_string(), None));
        }
        keeping.settle_down(&mut world);
        // These keep up with what is published.
        for number in 0..10u32 {
            let target = format!("queue:dsub/{number}");
            world.subscribe(client, 10 + number, Wish { explicit: true, ..Wish::to(&target) });
        }
        let mut kept_up: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for number in 0..60 {
            world.publish_all(client, "topic:x/1", &[message(number, Flags::PERSISTENT)]);
            let shard = world.random.below(shards);
            keeping.take(&mut world, shard);
            if number % 3 == 0 {
                keeping.settle_down(&mut world);
            }
            if number == 30 {
                let queue = durable_queue("39").unwrap();
                ask(&mut world, client, Operation::DeleteSubscription { queue });
            }
            for message in std::mem::take(&mut world.clients[client].received) {
                let name = message.path.strip_prefix("dsub/").unwrap().to_owned();
                kept_up.entry(name).or_default().push(message.body.parse().unwrap());
                world.settle(client, &message, Outcome::Accept);
            }
        }
        for _ in 0..3 {
            keeping.settle_down(&mut world);
            for message in std::mem::take(&mut world.clients[client].received) {
                let name = message.path.strip_prefix("dsub/").unwrap().to_owned();
                kept_up.entry(name).or_default().push(message.body.parse().unwrap());
                world.settle(client, &message, Outcome::Accept);
            }
        }
        let all: Vec<usize> = (0..60).collect();
        assert!(kept_up.len() == 10 && kept_up.values().all(|numbers| *numbers == all));
        assert_eq!(keeping.queued(), 29 * 60, "10 have all, one is removed");
        keeping.crash(&mut world);

        let shards = 1 + ((seed + 1) % 3) as usize;
        let mut world = World::new(seed + 100, BrokerOptions { epoch: 2, shards, ..options });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        assert_eq!(used(&world), 0, "nothing is read before somebody wants it");
        world.publish_all(client, "topic:x/1", &[message(60, Flags::PERSISTENT)]);
        keeping.settle_down(&mut world);
        let got = consume_all(&mut world, &mut keeping, client);
        let all: Vec<usize> = (0..=60).collect();
        assert_eq!(got.len(), 39);
        for (name, numbers) in got {
            let lags = name.parse::<usize>().unwrap() >= 10;
            assert_eq!(numbers, if lags { &all[..] } else { &all[60..] }, "{name}");
        }
        assert_eq!((used(&world), keeping.queued()), (0, 0));
    });
}
