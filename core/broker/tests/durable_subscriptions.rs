//! Durable subscriptions: queues that topics feed, whether anybody is connected or not, over one to four shards and a store that answers
//! late, has no room, or is behind a crash.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::support::asking::{ask, tell, update};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Received, Wish, World, for_seeds, path_at, property};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_filter::Selector;
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{
    Browsable, Browse, Destination, DurableSubscription, Flags, Kind, ListingEntry, Meta,
    Operation, OperationResult, Outcome, Run, Token, durable_queue,
};

fn options(shards: usize) -> BrokerOptions {
    BrokerOptions { shards, ..BrokerOptions::default() }
}

fn durable(name: &str, topics: &[&str], selector: Option<&str>) -> DurableSubscription {
    DurableSubscription {
        queue: durable_queue(name).unwrap(),
        topics: topics.iter().map(|topic| Pattern::parse(topic).unwrap()).collect(),
        selector: selector.map(|text| Selector::parse(text).unwrap()),
    }
}

fn create(name: &str, topics: &[&str]) -> Operation {
    Operation::CreateSubscription(Box::new(durable(name, topics, None)))
}

fn delete(name: &str) -> Operation {
    Operation::DeleteSubscription { queue: durable_queue(name).unwrap() }
}

fn bodies(world: &World, client: usize) -> Vec<String> {
    world.clients[client].received.iter().map(|message| message.body.clone()).collect()
}

fn persistent(body: &str) -> Outgoing {
    Outgoing { flags: Flags::PERSISTENT, ..Outgoing::new(body) }
}

/// How the queue of a subscription stands, if it is there.
fn shown(world: &mut World, client: usize, name: &str) -> Option<(u64, Option<Arc<str>>)> {
    let mut from = Default::default();
    loop {
        let patterns = vec![Pattern::parse(&format!("dsub/{name}")).unwrap()];
        let browse = Browse { what: Browsable::Queues, from, limit: 0, patterns };
        let Ok(OperationResult::Listing(listing)) = tell(world, client, Operation::Browse(browse))
        else {
            panic!("no list")
        };
        if let Some(ListingEntry::Queue(queue)) = listing.entries.first() {
            return Some((queue.messages, queue.topics.clone()));
        }
        from = listing.next?;
    }
}

#[test]
fn messages_are_gathered_while_nobody_is_connected_in_the_order_of_their_topics() {
    for shards in 1..=4 {
        let mut world = World::new(shards as u64, options(shards));
        let publisher = world.connect(0, "publisher");
        assert!(tell(&mut world, publisher, create("audit", &["fx/*", "gold"])).is_ok());
        let topics: Vec<String> = (0..shards).map(|home| path_at("fx/", home, shards)).collect();
        for number in 0..5 {
            for topic in topics.iter().map(|topic| format!("topic:{topic}")) {
                world.publish(publisher, &topic, &number.to_string());
            }
            world.publish(publisher, "topic:silver", "never");
            world.publish(publisher, "topic:gold", &number.to_string());
        }
        world.quiesce();
        let (messages, about) = shown(&mut world, publisher, "audit").unwrap();
        assert_eq!((messages as usize, &*about.unwrap()), (5 * (shards + 1), "fx/*,gold"));

        let consumers: Vec<usize> = (0..2).map(|it| world.connect(it % shards, "reader")).collect();
        for consumer in &consumers {
            let window = Some(2);
            let wish = Wish { window, explicit: true, ..Wish::to("queue:dsub/audit") };
            world.subscribe(*consumer, 1, wish);
        }
        let mut got: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for _ in 0..100 {
            world.quiesce();
            for consumer in &consumers {
                let all: Vec<Received> = std::mem::take(&mut world.clients[*consumer].received);
                for message in all {
                    let topic = property(&message, "source-topic").unwrap();
                    got.entry(topic).or_default().push(message.body.clone());
                    world.settle(*consumer, &message, Outcome::Accept);
                }
            }
        }
        assert_eq!(got.len(), shards + 1);
        for (topic, mut numbers) in got {
            // They are shared, so only each one's part is in order.
            numbers.sort();
            assert_eq!(numbers, ["0", "1", "2", "3", "4"], "{topic} over {shards} shards");
        }
    }
}

#[test]
fn it_ends_when_nobody_consumes_from_it_and_gathers_no_more() {
    let mut world = World::new(1, options(3));
    let client = world.connect(0, "ann");
    tell(&mut world, client, create("a", &["x/**"])).unwrap();
    world.publish(client, "topic:x/1", "1");
    world.subscribe(client, 1, Wish::to("queue:dsub/a"));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["1"]);
    let refused = tell(&mut world, client, delete("a"));
    assert_eq!(refused.unwrap_err(), CloseCode::SubscriptionInUse);
    world.unsubscribe(client, 1);
    world.publish(client, "topic:x/1", "2");
    world.quiesce();
    assert_eq!(shown(&mut world, client, "a").unwrap().0, 1);
    tell(&mut world, client, delete("a")).unwrap();
    world.publish(client, "topic:x/1", "3");
    world.quiesce();
    assert_eq!(shown(&mut world, client, "a"), None);
    assert_eq!(tell(&mut world, client, delete("a")).unwrap_err(), CloseCode::QueueUnknown);
    world.end();
}

#[test]
fn nobody_consumes_from_one_that_is_not_there_or_sends_to_it() {
    for_seeds(0..20, |seed| {
        let mut world = World::new(seed, options(3));
        let client = world.connect((seed % 3) as usize, "ann");
        let unknown = CloseCode::QueueUnknown;
        world.subscribe(client, 1, Wish::to("queue:dsub/a"));
        world.publish(client, "queue:dsub/a", "straight");
        // By a pattern one waits for those that come.
        world.subscribe(client, 2, Wish::to("queue:dsub/*"));
        world.quiesce();
        let refused: Vec<_> = world.clients[client].refused.iter().map(|it| it.1).collect();
        assert_eq!(refused, [unknown, unknown]);
        assert_eq!(shown(&mut world, client, "a"), None);
        // The key is free, and together with what makes it, consuming from it is no error.
        ask(&mut world, client, create("a", &["x"]));
        world.subscribe(client, 1, Wish::to("queue:dsub/a"));
        world.quiesce();
        world.publish(client, "queue:dsub/a", "straight");
        world.publish(client, "topic:x", "1");
        world.quiesce();
        assert_eq!(world.clients[client].received.len(), 2);
        assert_eq!(world.clients[client].refused.len(), 2);
        world.end();
    });
}

#[test]
fn another_pattern_of_the_same_name_keeps_what_is_there_and_gathers_anew() {
    let mut world = World::new(1, options(2));
    let client = world.connect(1, "ann");
    tell(&mut world, client, create("a", &["old"])).unwrap();
    world.publish(client, "topic:old", "1");
    world.quiesce();
    tell(&mut world, client, create("a", &["new/*"])).unwrap();
    tell(&mut world, client, create("a", &["new/*"])).unwrap();
    for topic in ["topic:old", "topic:new/1"] {
        world.publish(client, topic, topic);
    }
    world.subscribe(client, 1, Wish::to("queue:dsub/a"));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["1", "topic:new/1"]);
}

#[test]
fn a_selector_chooses_before_anything_is_kept() {
    let mut world = World::new(1, options(2));
    let client = world.connect(0, "ann");
    let about = durable("a", &["x"], Some("colour = 'red' AND \"source-topic\" IS NULL"));
    let made = Operation::CreateSubscription(Box::new(about));
    tell(&mut world, client, made).unwrap();
    for colour in ["red", "blue", "red"] {
        let mut message = Outgoing::new(colour);
        message.properties = format!("colour:{colour}\n");
        world.publish_all(client, "topic:x", &[message]);
    }
    world.quiesce();
    assert_eq!(shown(&mut world, client, "a").unwrap().0, 2);
}

#[test]
fn nobody_gathers_what_the_rules_do_not_let_subscribe() {
    let rule = |actions: &[Action], name: &str, of: &str| Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(name.into())],
        paths: vec![Pattern::parse(of).unwrap()],
        kind: None,
    };
    let rules = Rules::new(vec![
        rule(&[Action::Create], "ann", "dsub/**"),
        rule(&[Action::Subscribe], "ann", "fx/**"),
        rule(&[Action::Subscribe], "bob", "fx/**"),
    ]);
    let mut world = World::new(1, BrokerOptions { rules, ..options(2) });
    let [ann, bob] = ["ann", "bob"].map(|name| world.connect(0, name));
    let denied = CloseCode::NotAuthorised;
    for topics in [&["**"][..], &["fx/**", "gold"], &["temp/a/b"], &["user/bob/**"]] {
        assert_eq!(tell(&mut world, ann, create("a", topics)).unwrap_err(), denied, "{topics:?}");
    }
    assert_eq!(tell(&mut world, bob, create("b", &["fx/**"])).unwrap_err(), denied);
    tell(&mut world, ann, create("a", &["fx/**"])).unwrap();
    assert_eq!(tell(&mut world, bob, delete("a")).unwrap_err(), denied);
}

#[test]
fn a_principal_has_a_bounded_number() {
    let mut options = options(1);
    options.durables.per_principal_max = 2;
    options.durables.count_max = 3;
    let mut world = World::new(1, options);
    let [ann, bob] = ["ann", "bob"].map(|name| world.connect(0, name));
    for name in ["1", "2"] {
        tell(&mut world, ann, create(name, &["x"])).unwrap();
    }
    let most = CloseCode::TooManySubscriptions;
    assert_eq!(tell(&mut world, ann, create("3", &["x"])).unwrap_err(), most);
    tell(&mut world, ann, create("2", &["y"])).unwrap();
    tell(&mut world, bob, create("3", &["x"])).unwrap();
    assert_eq!(tell(&mut world, bob, create("4", &["x"])).unwrap_err(), most);
    tell(&mut world, ann, delete("1")).unwrap();
    tell(&mut world, bob, create("4", &["x"])).unwrap();
    for name in ["2", "3", "4"] {
        tell(&mut world, bob, delete(name)).unwrap();
    }
    world.end();
}

#[test]
fn one_that_is_full_drops_what_is_oldest_and_holds_no_publisher_back() {
    let mut options = options(2);
    options.queue_default.policy.messages_max = 10;
    let mut world = World::new(1, options);
    let client = world.connect(0, "ann");
    tell(&mut world, client, create("a", &["x"])).unwrap();
    for number in 0..100 {
        let token = world.publish(client, "topic:x", &number.to_string());
        world.quiesce();
        assert!(world.is_confirmed(client, token) && !world.clients[client].paused);
    }
    world.subscribe(client, 1, Wish::to("queue:dsub/a"));
    world.quiesce();
    let last: Vec<String> = (90..100).map(|number| number.to_string()).collect();
    assert_eq!(bodies(&world, client), last);
}

#[test]
fn a_full_one_drops_whatever_its_policy_and_holds_nobody_back() {
    use tiderace_queues::FullPolicy::{Block, DropHead, DropTail, Reject};
    for (full, kept) in
        [(Block, "9697989900"), (Reject, "9697989900"), (DropHead, "9697989900"), (DropTail, "")]
    {
        let mut options = options(2);
        options.queue_default.policy.messages_max = 5;
        options.queue_default.policy.full = full;
        let mut world = World::new(1, options);
        let client = world.connect(0, "ann");
        tell(&mut world, client, create("a", &["x"])).unwrap();
        for number in 0..101 {
            let token = world.publish(client, "topic:x", &format!("{:02}", number % 100));
            world.quiesce();
            assert!(world.is_confirmed(client, token) && !world.clients[client].paused, "{full:?}");
        }
        world.subscribe(client, 1, Wish::to("queue:dsub/a"));
        world.quiesce();
        let kept = if full == DropTail { "0001020304" } else { kept };
        assert_eq!(bodies(&world, client).concat(), kept, "{full:?}");
    }
}

#[test]
fn what_was_there_before_is_not_gathered_and_wills_and_updates_are() {
    let mut world = World::new(1, options(2));
    let [ann, bob] = [0, 1].map(|shard| world.connect(shard, "ann"));
    let retained = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("before") };
    world.publish_all(ann, "topic:x/value", &[retained]);
    world.quiesce();
    tell(&mut world, ann, create("a", &["x/*"])).unwrap();
    tell(&mut world, ann, update("x/value", "\"set\"", None)).unwrap();
    let remove = Outgoing { flags: Flags::RETAIN_REMOVE, ..Outgoing::new("") };
    world.publish_all(ann, "topic:x/value", &[remove]);
    let will = Run::single(
        Destination { kind: Kind::Topic, path: Path::parse("x/will").unwrap() },
        world.now.time,
        b"",
        b"\"gone\"",
        Meta::default(),
    );
    tell(&mut world, bob, Operation::Will(Some(Box::new(will)))).unwrap();
    world.close(bob);
    world.quiesce();
    world.subscribe(ann, 1, Wish::to("queue:dsub/a"));
    world.quiesce();
    assert_eq!(bodies(&world, ann), ["\"set\"", "\"gone\""]);
}

#[test]
fn one_of_the_configuration_is_there_from_the_start_and_nobody_ends_it() {
    let mut options = options(3);
    options.durables.configured = vec![Arc::new(durable("a", &["x/*"], None))];
    let mut world = World::new(1, options);
    let client = world.connect(0, "ann");
    let in_use = CloseCode::SubscriptionInUse;
    assert_eq!(&*shown(&mut world, client, "a").unwrap().1.unwrap(), "x/*");
    assert_eq!(tell(&mut world, client, delete("a")).unwrap_err(), in_use);
    assert_eq!(tell(&mut world, client, create("a", &["y"])).unwrap_err(), in_use);
    world.publish(client, "topic:x/1", "1");
    world.sweep();
    world.subscribe(client, 1, Wish::to("queue:dsub/a"));
    world.quiesce();
    assert_eq!(bodies(&world, client), ["1"]);
}

/// One life of the server after another.
fn live(seed: u64, keeping: &mut Keeping) -> World {
    let shards = 1 + (seed % 4) as usize;
    let mut world = World::new(seed, BrokerOptions { epoch: seed, ..options(shards) });
    keeping.restore(&mut world);
    world
}

#[test]
fn it_survives_a_restart_empty_or_not_with_another_number_of_shards() {
    let mut keeping = Keeping::default();
    let mut world = live(1, &mut keeping);
    let client = world.connect(0, "ann");
    let tokens = ["empty", "full", "gone", "other"]
        .map(|name| ask(&mut world, client, create(name, &["x/**"])));
    keeping.settle_down(&mut world);
    for token in tokens {
        assert!(world.clients[client].operated.contains_key(&token));
    }
    ask(&mut world, client, delete("gone"));
    ask(&mut world, client, create("empty", &["y"]));
    ask(&mut world, client, create("other", &["z"]));
    world.publish_all(client, "topic:x/1", &[persistent("1")]);
    world.publish(client, "topic:x/1", "not kept");
    keeping.settle_down(&mut world);
    keeping.crash(&mut world);

    let mut world = live(4, &mut keeping);
    let client = world.connect(0, "ann");
    for (name, topics) in [("empty", "y"), ("full", "x/**"), ("other", "z")] {
        assert_eq!(&*shown(&mut world, client, name).unwrap().1.unwrap(), topics);
    }
    assert_eq!(shown(&mut world, client, "gone"), None);
    let token = world.publish_all(client, "topic:y", &[persistent("2")]);
    keeping.settle_down(&mut world);
    assert!(world.is_confirmed(client, token));
    world.subscribe(client, 1, Wish::to("queue:dsub/*"));
    keeping.settle_down(&mut world);
    let mut got = bodies(&world, client);
    got.sort();
    assert_eq!(got, ["1", "2"]);
}

#[test]
fn a_publisher_is_confirmed_when_the_store_of_each_home_has_its_message() {
    for shards in 2..=4 {
        let mut keeping = Keeping::default();
        let mut world = live(shards - 1, &mut keeping);
        let shards = shards as usize;
        let client = world.connect(0, "ann");
        // One at each home.
        let names: Vec<String> = (0..shards).map(|home| path_at("dsub/", home, shards)).collect();
        for name in &names {
            ask(&mut world, client, create(name.strip_prefix("dsub/").unwrap(), &["x"]));
        }
        keeping.settle_down(&mut world);
        let token = world.publish_all(client, "topic:x", &[persistent("1")]);
        let free = world.publish(client, "topic:x", "2");
        world.quiesce();
        assert!(world.is_confirmed(client, free), "what need not survive waits for nothing");
        for shard in 0..shards {
            assert!(!world.is_confirmed(client, token), "before shard {shard} of {shards}");
            keeping.take(&mut world, shard);
            while keeping.answer(&mut world, shard) {}
            world.quiesce();
        }
        keeping.settle_down(&mut world);
        assert!(world.is_confirmed(client, token), "over {shards} shards");
        assert_eq!(keeping.queued(), shards);

        keeping.full = true;
        let token = world.publish_all(client, "topic:x", &[persistent("3")]);
        keeping.settle_down(&mut world);
        assert!(!world.is_confirmed(client, token));
        let refused: Vec<_> = world.clients[client].refused.iter().map(|it| it.0).collect();
        assert!(refused.contains(&Some(token)), "{refused:?}");
    }
}

/// What the test knows of one message.
#[derive(Debug, Default)]
struct Known {
    confirmed: bool,
    settled: BTreeSet<String>,
    received: BTreeMap<String, usize>,
}

const NAMES: [&str; 3] = ["a", "b", "c"];
const TOPICS: [&str; 4] = ["t/1", "t/2", "t/3", "t/4"];

/// Publishes, consumes and crashes at random: what was confirmed comes to each subscription, and what was settled and
/// confirmed does not come again.
#[test]
fn nothing_confirmed_is_lost_and_nothing_settled_comes_again_whatever_crashes() {
    for_seeds(0..300, |seed| {
        let mut keeping = Keeping::default();
        let mut known: Vec<Known> = Vec::new();
        for life in 0..3 {
            let mut world = live(seed + life, &mut keeping);
            let shards = world.brokers.len();
            let clients: Vec<usize> =
                (0..3).map(|it| world.connect(it % shards, "somebody")).collect();
            if life == 0 {
                for name in NAMES {
                    ask(&mut world, clients[0], create(name, &["t/*"]));
                }
                keeping.settle_down(&mut world);
            }
            play(&mut world, &mut keeping, &clients, &mut known);
            if life < 2 {
                keeping.crash(&mut world);
                continue;
            }
            // All that is left is consumed.
            for (key, name) in (50..).zip(NAMES) {
                let wish = Wish::to(&format!("queue:dsub/{name}"));
                for client in &clients {
                    for key in 1..=NAMES.len() as u32 {
                        world.unsubscribe(*client, key);
                    }
                }
                world.subscribe(clients[0], key, wish);
            }
            keeping.settle_down(&mut world);
            note(&mut world, &clients, &mut known);
            for (number, message) in known.iter().enumerate() {
                for name in NAMES.iter().filter(|_| message.confirmed) {
                    assert!(message.received.contains_key(*name), "{number} is lost for {name}");
                }
            }
        }
    });
}

type Held = Vec<(usize, String, usize, Received)>;

/// Takes note of what clients have got: by subscription, each message.
fn note(world: &mut World, clients: &[usize], known: &mut [Known]) -> Held {
    let mut held = Vec::new();
    for client in clients {
        for message in std::mem::take(&mut world.clients[*client].received) {
            let number: usize = message.body.parse().unwrap();
            let at = if message.key >= 50 { message.key - 50 } else { message.key - 1 };
            let name = NAMES[at as usize].to_owned();
            let message_known = &mut known[number];
            assert!(!message_known.settled.contains(&name), "{number} came again to {name}");
            *message_known.received.entry(name.clone()).or_default() += 1;
            held.push((*client, name, number, message));
        }
    }
    held
}

fn play(world: &mut World, keeping: &mut Keeping, clients: &[usize], known: &mut Vec<Known>) {
    let mut held: Held = Vec::new();
    let mut published: BTreeMap<(usize, Token), usize> = BTreeMap::new();
    let mut settled: BTreeMap<(usize, Token), (usize, String)> = BTreeMap::new();
    let mut consuming = BTreeSet::new();
    for _ in 0..60 {
        let client = *world.random.pick(clients);
        match world.random.below(8) {
            0 | 1 => {
                let topic = format!("topic:{}", world.random.pick(&TOPICS));
                let body = known.len().to_string();
                known.push(Known::default());
                let token = world.publish_all(client, &topic, &[persistent(&body)]);
                published.insert((client, token), known.len() - 1);
            }
            2 => {
                let at = world.random.below(NAMES.len());
                if consuming.insert((client, at)) {
                    let target = format!("queue:dsub/{}", NAMES[at]);
                    let wish = Wish { explicit: true, window: Some(3), ..Wish::to(&target) };
                    world.subscribe(client, at as u32 + 1, wish);
                }
            }
            3 | 4 if !held.is_empty() => {
                let at = world.random.below(held.len());
                let (client, name, number, message) = held.swap_remove(at);
                let token = world.settle(client, &message, Outcome::Accept);
                settled.insert((client, token), (number, name));
            }
            5 => {
                let shard = world.random.below(world.brokers.len());
                keeping.take(world, shard);
                keeping.answer(world, shard);
                keeping.give_loaded(world, shard);
            }
            6 => world.quiesce(),
            _ => {
                world.deliver_envelope();
            }
        }
        for client in clients {
            world.drain(*client);
        }
        held.extend(note(world, clients, known));
        published.retain(|(client, token), number| {
            let confirmed = world.is_confirmed(*client, *token);
            known[*number].confirmed |= confirmed;
            !confirmed
        });
        settled.retain(|(client, token), (number, name)| {
            let confirmed = world.is_confirmed(*client, *token);
            if confirmed {
                known[*number].settled.insert(name.clone());
            }
            !confirmed
        });
    }
}

#[test]
fn a_subscription_to_everything_gathers_nothing_private() {
    let mut options = options(2);
    options.sessions_shown = true;
    let mut world = World::new(1, options);
    let client = world.connect(0, "ann");
    tell(&mut world, client, create("all", &["**"])).unwrap();
    tell(&mut world, client, create("own", &["user/ann/*"])).unwrap();
    for topic in ["topic:user/ann/x", "topic:user/bob/x", "topic:open"] {
        world.publish(client, topic, topic);
    }
    world.connect(1, "bob");
    world.quiesce();
    for (name, expected) in [("all", 1), ("own", 1)] {
        assert_eq!(shown(&mut world, client, name).unwrap().0, expected, "{name}");
    }
}
