//! How topics feed durable subscriptions: very many of them, with places that answer late or are lost, and publishers that
//! do not wait for answers.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;

use crate::support::asking::{ask, tell};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds, path_at, property};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, DurableOptions};
use tiderace_topics::Pattern;
use tiderace_wire::{DurableSubscription, Flags, Operation, durable_queue};

fn options(shards: usize) -> BrokerOptions {
    let durables =
        DurableOptions { configured: Vec::new(), count_max: 10_000, per_principal_max: 10_000 };
    BrokerOptions { durables, shards, ..BrokerOptions::default() }
}

fn create(name: &str, topics: &[&str]) -> Operation {
    Operation::CreateSubscription(Box::new(DurableSubscription {
        queue: durable_queue(name).unwrap(),
        topics: topics.iter().map(|topic| Pattern::parse(topic).unwrap()).collect(),
        selector: None,
    }))
}

fn delete(name: &str) -> Operation {
    Operation::DeleteSubscription { queue: durable_queue(name).unwrap() }
}

fn persistent(body: &str) -> Outgoing {
    Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) }
}

/// The name of a subscription whose queue has its home on that shard.
fn name_at(home: usize, shards: usize, number: usize) -> String {
    let path = path_at(&format!("dsub/{number}-"), home, shards);
    path.strip_prefix("dsub/").unwrap().to_owned()
}

/// What each subscription has got, by its name: the bodies in the order of delivery.
fn consume_all(world: &mut World, client: usize) -> BTreeMap<String, Vec<String>> {
    world.subscribe(client, 1, Wish::to("queue:dsub/*"));
    world.quiesce();
    let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for message in std::mem::take(&mut world.clients[client].received) {
        let name = message.path.strip_prefix("dsub/").unwrap().to_owned();
        got.entry(name).or_default().push(message.body);
    }
    got
}

/// More subscriptions of one home than are fed in one turn.
const MANY: usize = 1_300;

#[test]
fn very_many_subscriptions_get_each_message_once_and_in_order_over_several_turns() {
    for shards in 1..=2 {
        let mut world = World::new(shards as u64, options(shards));
        let client = world.connect(0, "ann");
        for number in 0..MANY {
            tell(&mut world, client, create(&name_at(shards - 1, shards, number), &["x/*"]))
                .unwrap();
        }
        for number in 0..5 {
            world.publish(client, "topic:x/1", &number.to_string());
        }
        // Nothing waits for it: others have their turns between the slices.
        while world.deliver_envelope_between(0, shards - 1) {}
        let feeding = &world.brokers[shards - 1];
        assert!(feeding.has_work(), "one turn feeds {MANY} subscriptions");
        let fed = feeding.metrics().messages_fed;
        assert!(fed < 5 * MANY as u64, "{fed}");
        // What begins now is not for what was published before.
        let late = name_at(shards - 1, shards, MANY);
        tell(&mut world, client, create(&late, &["x/*"])).unwrap();
        world.publish(client, "topic:x/1", "5");
        world.quiesce();
        let got = consume_all(&mut world, client);
        assert_eq!(got.len(), MANY + 1);
        for (name, bodies) in got {
            let all = ["0", "1", "2", "3", "4", "5"];
            assert_eq!(bodies, if name == late { &all[5..] } else { &all }, "{name}");
        }
        world.end();
    }
}

#[test]
fn one_that_ends_while_it_is_fed_is_gone_and_another_of_its_name_begins_empty() {
    let mut world = World::new(1, options(1));
    let client = world.connect(0, "ann");
    let names: Vec<String> = (0..MANY).map(|number| name_at(0, 1, number)).collect();
    for name in &names {
        tell(&mut world, client, create(name, &["x"])).unwrap();
    }
    world.publish(client, "topic:x", "before");
    ask(&mut world, client, delete(&names[MANY - 1]));
    ask(&mut world, client, create(&names[MANY - 1], &["x"]));
    // One that is changed keeps what was on its way.
    ask(&mut world, client, create(&names[MANY - 2], &["x", "y"]));
    world.publish(client, "topic:x", "behind");
    world.quiesce();
    let got = consume_all(&mut world, client);
    assert_eq!(got[&names[MANY - 1]], ["behind"]);
    assert_eq!(got[&names[MANY - 2]], ["before", "behind"]);
    assert_eq!(got[&names[0]], ["before", "behind"]);
}

#[test]
fn a_publisher_is_confirmed_when_the_last_of_very_many_is_stored_and_refused_if_one_is_not() {
    for shards in 1..=2 {
        let mut keeping = Keeping::default();
        let mut world = World::new(1, BrokerOptions { epoch: 1, ..options(shards) });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        for number in 0..MANY {
            ask(&mut world, client, create(&name_at(shards - 1, shards, number), &["x"]));
        }
        keeping.settle_down(&mut world);
        let token = world.publish_all(client, "topic:x", &[persistent("1")]);
        world.quiesce();
        assert!(!world.is_confirmed(client, token), "nothing is stored");
        keeping.settle_down(&mut world);
        assert!(world.is_confirmed(client, token), "over {shards} shards");
        assert_eq!(keeping.queued(), MANY);
        // The first slice is stored, and the others are not.
        let token = world.publish_all(client, "topic:x", &[persistent("2")]);
        while world.deliver_envelope_between(0, shards - 1) {}
        world.work(shards - 1);
        keeping.take(&mut world, shards - 1);
        while keeping.answer(&mut world, shards - 1) {}
        keeping.full = true;
        keeping.settle_down(&mut world);
        let refused: Vec<_> = world.clients[client].refused.iter().map(|it| it.0).collect();
        assert!(refused.contains(&Some(token)) && !world.is_confirmed(client, token));
        keeping.full = false;
        for _ in 0..4 {
            world.advance(Span::from_secs(2));
            keeping.settle_down(&mut world);
        }
        let token = world.publish_all(client, "topic:x", &[persistent("3")]);
        keeping.settle_down(&mut world);
        assert!(world.is_confirmed(client, token), "the store has room again");
    }
}

#[test]
fn whom_a_second_request_for_the_same_subscription_answers_can_rely_on_it_too() {
    let mut keeping = Keeping::default();
    let mut world = World::new(3, BrokerOptions { epoch: 3, ..options(3) });
    keeping.restore(&mut world);
    let [ann, bob] = ["ann", "bob"].map(|name| world.connect(0, name));
    let first = ask(&mut world, ann, create("a", &["x/*"]));
    let second = ask(&mut world, bob, create("a", &["x/*"]));
    world.quiesce();
    let is_answered =
        |world: &World, client: usize, token| world.clients[client].operated.contains_key(&token);
    assert!(!is_answered(&world, ann, first), "it is not stored");
    assert!(!is_answered(&world, bob, second), "nor is it for the second one");
    keeping.settle_down(&mut world);
    assert!(is_answered(&world, ann, first) && is_answered(&world, bob, second));
}

#[test]
fn the_second_answer_comes_when_every_home_has_heard_of_the_subscription() {
    for_seeds(0..50, |seed| {
        let mut world = World::new(seed, options(3));
        let [ann, bob] = ["ann", "bob"].map(|name| world.connect(0, name));
        ask(&mut world, ann, create("a", &["x/*"]));
        let second = ask(&mut world, bob, create("a", &["x/*"]));
        while !world.clients[bob].operated.contains_key(&second) {
            assert!(world.deliver_envelope(), "it is not answered");
            world.drain(bob);
        }
        for home in 0..3 {
            world.publish(bob, &format!("topic:{}", path_at("x/", home, 3)), "1");
        }
        world.quiesce();
        assert_eq!(consume_all(&mut world, ann)["a"].len(), 3);
    });
}

#[test]
fn nobody_waits_for_a_place_that_is_lost() {
    for_seeds(0..100, |seed| {
        let mut keeping = Keeping::default();
        let mut world = World::new(seed, BrokerOptions { epoch: 9, ..options(3) });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        for home in 0..3 {
            ask(&mut world, client, create(&name_at(home, 3, home), &["**"]));
        }
        keeping.settle_down(&mut world);
        let topics = [0, 1].map(|home| format!("topic:{}", path_at("x/", home, 3)));
        let publish = |world: &mut World| {
            for topic in &topics {
                world.publish_all(client, topic, &[persistent("1")]);
            }
        };
        publish(&mut world);
        ask(&mut world, client, create(&name_at(0, 3, 7), &["y"]));
        for _ in 0..world.random.below(20) {
            world.deliver_envelope();
        }
        world.lose(2);
        publish(&mut world);
        for _ in 0..world.random.below(20) {
            world.deliver_envelope();
        }
        keeping.settle_down(&mut world);
        publish(&mut world);
        ask(&mut world, client, create(&name_at(1, 3, 8), &["y"]));
        keeping.settle_down(&mut world);
        assert_eq!(world.unanswered(client), [0u32; 0]);
        let last = world.clients[client].tokens;
        let is_refused =
            world.clients[client].refused.iter().any(|(token, _)| *token == Some(last));
        assert!(!is_refused, "a subscription begins without the place that is lost");
    });
}

#[test]
fn publishers_wait_while_very_many_answers_wait_for_other_places() {
    let mut world = World::new(1, options(2));
    let client = world.connect(0, "ann");
    tell(&mut world, client, create(&name_at(1, 2, 0), &["x"])).unwrap();
    let topic = format!("topic:{}", path_at("x/", 0, 2));
    tell(&mut world, client, create(&name_at(1, 2, 1), &["x/*"])).unwrap();
    for number in 0..4_200 {
        world.publish_all(client, &topic, &[persistent(&number.to_string())]);
    }
    assert!(world.clients[client].paused, "the other place has heard of none");
    world.quiesce();
    assert!(!world.clients[client].paused);
    assert_eq!(world.unanswered(client), [0u32; 0]);
}

#[test]
fn whom_publishes_without_a_receipt_waits_as_well_and_hears_that_the_store_has_refused() {
    let mut keeping = Keeping::default();
    let mut world = World::new(1, BrokerOptions { epoch: 1, ..options(2) });
    keeping.restore(&mut world);
    let client = world.connect(0, "ann");
    let topic = format!("topic:{}", path_at("x/", 0, 2));
    ask(&mut world, client, create(&name_at(1, 2, 0), &["x/*"]));
    keeping.settle_down(&mut world);
    let large = persistent(&"x".repeat(1 << 20));
    for _ in 0..15 {
        world.publish_unasked(client, &topic, &large);
    }
    assert!(!world.clients[client].paused);
    world.publish_unasked(client, &topic, &large);
    assert!(world.clients[client].paused, "the other place has 16 MiB to take");
    keeping.settle_down(&mut world);
    assert!(!world.clients[client].paused);
    assert!(world.clients[client].refused.is_empty());
    assert_eq!(keeping.queued(), 16);
}

#[test]
fn whom_publishes_without_a_receipt_hears_that_the_store_has_refused_what_was_to_survive() {
    for home in 0..2 {
        let mut keeping = Keeping::default();
        let mut world = World::new(1, BrokerOptions { epoch: 1, ..options(2) });
        keeping.restore(&mut world);
        let client = world.connect(0, "ann");
        let topic = format!("topic:{}", path_at("x/", 0, 2));
        ask(&mut world, client, create(&name_at(home, 2, 0), &["x/*"]));
        keeping.settle_down(&mut world);
        keeping.full = true;
        world.publish_unasked(client, &topic, &Outgoing::new("need not survive"));
        world.publish_unasked(client, &topic, &persistent("lost"));
        keeping.settle_down(&mut world);
        assert_eq!(world.clients[client].refused, [(None, CloseCode::StoreUnavailable)]);
    }
}

#[test]
fn messages_of_a_group_go_to_one_consumer_although_they_were_published() {
    let mut world = World::new(1, options(2));
    let publisher = world.connect(0, "ann");
    tell(&mut world, publisher, create("a", &["x"])).unwrap();
    let consumers: Vec<usize> = (0..3).map(|it| world.connect(it % 2, "reader")).collect();
    for consumer in &consumers {
        world.subscribe(*consumer, 1, Wish { window: Some(100), ..Wish::to("queue:dsub/a") });
    }
    world.quiesce();
    for number in 0..60 {
        let mut message = Outgoing::new(number.to_string());
        message.properties = format!("message_group:{}\n", number % 6);
        world.publish_all(publisher, "topic:x", &[message]);
    }
    world.quiesce();
    let mut owners: BTreeMap<String, usize> = BTreeMap::new();
    for consumer in &consumers {
        for message in std::mem::take(&mut world.clients[*consumer].received) {
            let group = property(&message, "message_group").unwrap();
            assert_eq!(*owners.entry(group).or_insert(*consumer), *consumer);
        }
    }
    assert_eq!(owners.len(), 6);
}

#[test]
fn each_message_of_a_batch_has_its_own_group() {
    for mirrored in [false, true] {
        let mut options = options(1);
        options.queue_default.policy.mirrored = mirrored;
        let mut world = World::new(1, options);
        let publisher = world.connect(0, "ann");
        let queue = if mirrored { "queue:x" } else { "queue:dsub/a" };
        if !mirrored {
            tell(&mut world, publisher, create("a", &["x"])).unwrap();
        }
        let consumers: Vec<usize> = (0..2).map(|_| world.connect(0, "reader")).collect();
        for consumer in &consumers {
            world.subscribe(*consumer, 1, Wish { window: Some(100), ..Wish::to(queue) });
        }
        world.quiesce();
        // None for the first, and what looks like one in the body of every other.
        let messages = (0..40).map(|number| Outgoing {
            properties: if number == 0 { String::new() } else { "message_group:g\n".to_owned() },
            ..Outgoing::new("no\nmessage_group:other\n")
        });
        world.publish_all(publisher, "topic:x", &messages.collect::<Vec<_>>());
        world.quiesce();
        let of_group = |consumer: &usize| {
            let received = world.clients[*consumer].received.iter();
            received.filter(|it| property(it, "message_group").is_some()).count()
        };
        let mut counts: Vec<usize> = consumers.iter().map(of_group).collect();
        counts.sort_unstable();
        assert_eq!(counts, [0, 39], "mirrored: {mirrored}");
    }
}

#[test]
fn what_subscriptions_take_in_the_indexes_counts_and_is_given_back() {
    let mut options = options(3);
    options.messages_bytes_max = 4 << 20;
    let mut world = World::new(1, options);
    let client = world.connect(0, "ann");
    let deep = |number: usize| format!("{number}/{}**", "a/".repeat(50));
    let mut made = Vec::new();
    let refused = (0..1_000).find_map(|number| {
        let topics: Vec<String> = (0..64).map(|at| deep(number * 64 + at)).collect();
        let topics: Vec<&str> = topics.iter().map(String::as_str).collect();
        let name = name_at(0, 3, number);
        match tell(&mut world, client, create(&name, &topics)) {
            Ok(_) => made.push(name),
            Err(code) => return Some(code),
        }
        None
    });
    assert_eq!(refused, Some(CloseCode::MemoryFull));
    for name in made {
        tell(&mut world, client, delete(&name)).unwrap();
    }
    world.end();
}

/// What the test knows of one subscription.
#[derive(Debug, Default)]
struct Known {
    /// What it gathers for certain, if it is there.
    topics: Option<Pattern>,
    /// Under way: which token, and what holds when it is answered.
    asked: Option<(usize, u32, Option<Pattern>)>,
    /// The numbers of messages that it has to have.
    due: Vec<usize>,
}

/// Begins, changes and ends subscriptions at random, while others publish: what is published between the answer and the end
/// is there, once, and the messages of each publisher to one topic are in their order.
#[test]
fn everything_that_is_published_after_the_answer_is_gathered_once_and_in_order() {
    const PATTERNS: [&str; 3] = ["t/*", "t/1", "?t/[02]"];
    for_seeds(0..300, |seed| {
        let shards = 1 + (seed % 4) as usize;
        let mut world = World::new(seed, options(shards));
        let clients: Vec<usize> = (0..3).map(|it| world.connect(it % shards, "ann")).collect();
        let mut known: [Known; 3] = Default::default();
        let mut topics: Vec<(usize, String)> = Vec::new();
        let mut gathered = 0;
        for _ in 0..100 {
            let client = *world.random.pick(&clients);
            let at = world.random.below(known.len());
            match world.random.below(8) {
                0 if known[at].asked.is_none() => {
                    let text = *world.random.pick(&PATTERNS);
                    let token = ask(&mut world, client, create(&at.to_string(), &[text]));
                    // What is on its way is for what is asked for now, or not.
                    known[at].due.retain(|number| *number < gathered);
                    known[at].topics = None;
                    known[at].asked = Some((client, token, Some(Pattern::parse(text).unwrap())));
                }
                1 if known[at].asked.is_none() && known[at].topics.is_some() => {
                    let token = ask(&mut world, client, delete(&at.to_string()));
                    known[at] = Known { asked: Some((client, token, None)), ..Known::default() };
                }
                2..=4 => {
                    let topic = format!("t/{}", world.random.below(3));
                    let number = topics.len();
                    world.publish(client, &format!("topic:{topic}"), &number.to_string());
                    let path = tiderace_topics::Path::parse(&topic).unwrap();
                    let is_for =
                        |it: &&mut Known| it.topics.as_ref().is_some_and(|of| of.matches(&path));
                    known.iter_mut().filter(is_for).for_each(|it| it.due.push(number));
                    topics.push((client, topic));
                }
                5 if world.random.below(4) == 0 => {
                    world.quiesce();
                    gathered = topics.len();
                }
                _ => drop(world.deliver_envelope()),
            }
            clients.iter().for_each(|client| world.drain(*client));
            for it in &mut known {
                if let Some((client, token, topics)) = it.asked.take() {
                    match world.clients[client].operated.contains_key(&token) {
                        true => it.topics = topics,
                        false => it.asked = Some((client, token, topics)),
                    }
                }
            }
        }
        world.quiesce();
        let got = consume_all(&mut world, clients[0]);
        for (at, it) in known.iter().enumerate() {
            let bodies = got.get(&at.to_string()).cloned().unwrap_or_default();
            let numbers: Vec<usize> = bodies.iter().map(|body| body.parse().unwrap()).collect();
            for due in &it.due {
                assert_eq!(numbers.iter().filter(|it| *it == due).count(), 1, "{due} for {at}");
            }
            let mut last: BTreeMap<&(usize, String), usize> = BTreeMap::new();
            for number in numbers {
                let before = last.insert(&topics[number], number);
                assert!(before.is_none_or(|before| before < number), "{number} after {before:?}");
            }
        }
    });
}
