//! A shard ends for good: what waits for it is answered, what its sessions had is given back, and the others go on.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use crate::support::asking::{answer, ask, create, path, tell, update};
use crate::support::{Outgoing, Wish, World, destination, for_seeds, path_at};
use crate::viewing::Node;
use tiderace_base::{CloseCode, ShardId, Span};
use tiderace_broker::{BrokerOptions, Effects, NodeId, Place, Rules, SlowConsumer};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Browsing, Change, Command, ExchangeKey, Fetch, Flags, Operation, Outcome, SubscriptionKey,
    Update,
};

const SHARDS: usize = 3;

fn options() -> BrokerOptions {
    BrokerOptions { shards: SHARDS, ..BrokerOptions::default() }
}

/// A path with its home on that shard.
fn at(prefix: &str, home: usize) -> String {
    path_at(prefix, home, SHARDS)
}

fn codes(world: &World, client: usize) -> Vec<CloseCode> {
    world.clients[client].refused.iter().map(|(_, code)| *code).collect()
}

fn lock(name: &str, timeout: Span) -> Operation {
    Operation::Lock { name: path(name), timeout }
}

fn fetch(selector: &str) -> Operation {
    let selector = vec![Pattern::parse(selector).unwrap()];
    let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values: true, specs: true };
    Operation::Fetch(Box::new(fetch))
}

/// All that a session can wait for, asked of homes on a shard.
fn ask_everything(world: &mut World, client: usize, home: usize, base: u32) {
    let (topic, queue) = (format!("topic:{}", at("t", home)), format!("queue:{}", at("q", home)));
    world.publish(client, &topic, "x");
    world.publish(client, &queue, "x");
    world.subscribe(client, base, Wish::to(&topic));
    world.subscribe(client, base + 1, Wish::to(&queue));
    world.subscribe(client, base + 2, Wish { recoverable: true, ..Wish::to("topic:**") });
    world.subscribe(client, base + 3, Wish { confirm_values: true, ..Wish::to("topic:**") });
    world.subscribe(client, base + 4, Wish::to(&format!("service:{}", at("s", home))));
    world.subscribe(client, base + 5, Wish { notices: true, ..Wish::to("topic:**") });
    let topic = at("made", home);
    ask(world, client, create(&topic, "{}", Some("1")));
    ask(world, client, update(&topic, "2", None));
    ask(world, client, lock(&at("l", home), Span::ZERO));
    ask(world, client, fetch("?.*"));
    world.unsubscribe(client, base + 1);
}

#[test]
fn what_is_asked_of_a_lost_home_is_answered() {
    for_seeds(0..200, |seed| {
        let mut world = World::new(seed, options());
        let client = world.connect(0, "client");
        ask_everything(&mut world, client, 1, 0);
        for _ in 0..world.random.below(40) {
            world.deliver_envelope();
        }
        world.lose(1);
        world.quiesce();
        assert_eq!(world.unanswered(client), [0u32; 0], "asked before");
        let only = codes(&world, client);
        assert!(only.iter().all(|code| *code == CloseCode::PeerLost), "{only:?}");
        ask_everything(&mut world, client, 1, 10);
        world.call(client, 1, &at("s", 1), "hello", true);
        world.quiesce();
        assert_eq!(world.unanswered(client), [0u32; 0], "asked after");
        assert_eq!(world.clients[client].ended, [(ExchangeKey::caller(1), CloseCode::PeerLost)]);
        world.clients[client].ended.clear();
        ask_everything(&mut world, client, 2, 20);
        world.quiesce();
        assert_eq!(world.unanswered(client), [0u32; 0], "asked of others");
        world.end();
    });
}

#[test]
fn what_the_sessions_of_a_lost_place_held_is_given_back() {
    for_seeds(0..100, |seed| {
        let mut world = World::new(seed, options());
        let (lost, other) = (world.connect(1, "lost"), world.connect(0, "other"));
        let (name, topic, queue) = (at("l", 2), at("t", 2), format!("queue:{}", at("q", 0)));
        ask(&mut world, lost, lock(&name, Span::ZERO));
        ask(&mut world, lost, Operation::Claim { path: path(&topic) });
        let fleeting = at("fleeting", 0);
        let spec = r#"{"removal":"session closes"}"#;
        let made = ask(&mut world, lost, create(&fleeting, spec, Some("1")));
        world.subscribe(lost, 0, Wish { explicit: true, ..Wish::to(&queue) });
        world.subscribe(lost, 1, Wish { recoverable: true, ..Wish::to("topic:**") });
        world.quiesce();
        let waits = ask(&mut world, other, lock(&name, Span::from_secs(600)));
        world.publish(other, &queue, "job");
        world.quiesce();
        assert!(answer(&world, other, waits).is_none(), "somebody else has it");
        assert!(matches!(answer(&world, lost, made), Some(Ok(_))));
        world.lose(1);
        world.quiesce();
        assert!(matches!(answer(&world, other, waits), Some(Ok(_))), "the next one has the lock");
        let claim = ask(&mut world, other, Operation::Claim { path: path(&topic) });
        world.subscribe(other, 0, Wish::to(&queue));
        world.quiesce();
        assert!(matches!(answer(&world, other, claim), Some(Ok(_))), "nobody has claimed it");
        let bodies: Vec<&str> =
            world.clients[other].received.iter().map(|message| &*message.body).collect();
        assert_eq!(bodies, ["job"], "it came back to its queue");
        world.end();
        for _ in 0..3 {
            world.advance(Span::from_secs(100));
            world.deliver_envelopes();
        }
        assert_eq!(world.metrics().topics, 0, "the topic went with its session");
    });
}

#[test]
fn publishers_do_not_wait_for_a_lost_place() {
    for_seeds(0..50, |seed| {
        let mut options = options();
        options.queue_default.bytes_max = 500;
        options.backlog_bytes_high = 2_000;
        options.backlog_bytes_low = 500;
        Arc::make_mut(&mut options.topic_default).slow_consumer = SlowConsumer::Block;
        let mut world = World::new(seed, options);
        let (writer, slow) = (world.connect(0, "writer"), world.connect(1, "slow"));
        let waiter = world.connect(0, "waiter");
        let topic = format!("topic:{}", at("t", 2));
        world.subscribe(slow, 0, Wish::to(&topic));
        world.deliver_envelopes();
        for _ in 0..20 {
            world.publish(writer, &topic, &"x".repeat(400));
            world.deliver_envelopes();
        }
        assert!(world.clients[writer].paused, "a subscriber is slow");
        for _ in 0..5 {
            world.publish(waiter, &format!("queue:{}", at("q", 1)), &"x".repeat(400));
            world.deliver_envelopes();
        }
        assert!(world.clients[waiter].paused, "a queue is full");
        world.lose(1);
        world.deliver_envelopes();
        assert!(!world.clients[writer].paused, "the slow subscriber has gone");
        assert!(!world.clients[waiter].paused, "the queue has gone");
        world.end();
    });
}

#[test]
fn both_sides_of_exchanges_with_a_lost_place_hear_of_it() {
    for_seeds(0..200, |seed| {
        let mut world = World::new(seed, options());
        let service = at("s", 2);
        let target = format!("service:{service}");
        let (here, there) = (world.connect(0, "here"), world.connect(1, "there"));
        let serves = world.random.one_in(2);
        let (caller, responder) = if serves { (there, here) } else { (here, there) };
        world.subscribe(responder, 0, Wish { window: Some(2), ..Wish::to(&target) });
        world.deliver_envelopes();
        for number in 1..=4 {
            world.call(caller, number, &service, "hello", false);
        }
        for _ in 0..world.random.below(30) {
            world.deliver_envelope();
            world.pull(responder);
        }
        world.lose(1);
        world.quiesce();
        let metrics = world.metrics();
        assert_eq!((metrics.exchanges, metrics.exchanges_served), (0, 0));
        assert_eq!(metrics.calls_waiting, 0);
        let ended = &world.clients[here].ended;
        let code = if serves { CloseCode::CallerGone } else { CloseCode::ResponderGone };
        let nobody = CloseCode::NoResponder;
        assert!(ended.iter().all(|(_, ended)| *ended == code || *ended == nobody), "{ended:?}");
        assert_eq!(ended.len(), if serves { ended.len() } else { 4 }, "each call once");
        world.end();
        world.sweep();
    });
}

#[test]
fn sessions_of_a_lost_place_show_no_more() {
    for_seeds(0..20, |seed| {
        let mut world = World::new(seed, BrokerOptions { sessions_shown: true, ..options() });
        for client in 0..30 {
            world.connect(client % SHARDS, "client");
        }
        world.quiesce();
        assert_eq!(world.metrics().retained, 30);
        world.lose(1);
        world.quiesce();
        let living = world.living();
        let shows = |client: &usize| {
            let topic = format!("topic:$sys/sessions/{}", world.clients[*client].session);
            destination(&topic).home(SHARDS).index() != 1
        };
        let shown = living.iter().filter(|client| shows(client)).count();
        assert_eq!(world.metrics().retained, shown as u64);
    });
}

#[test]
fn what_views_made_of_a_lost_homes_topics_is_taken_back() {
    for_seeds(0..50, |seed| {
        let mut node = Node::with(seed, BrokerOptions { shards: SHARDS, ..options() });
        let lost = 1;
        let source = (0..)
            .map(|number| format!("n{number}"))
            .find(|name| {
                let home =
                    |path: String| destination(&format!("topic:{path}")).home(SHARDS).index();
                home(format!("in/{name}")) == lost && home(format!("out/{name}")) == 0
            })
            .unwrap();
        node.put("v", "map in/* to out/<path(1)>");
        node.set(&format!("in/{source}"), "1");
        node.rest();
        assert_eq!(node.value(&format!("out/{source}")).as_deref(), Some("1"));
        node.world.lose(lost);
        node.rest();
        assert_eq!(node.value(&format!("out/{source}")), None);
    });
}

#[test]
fn what_was_deferred_for_the_sessions_of_a_lost_place_is_not_done() {
    let mut world = World::new(1, options());
    let (lost, other) = (world.connect(1, "lost"), world.connect(0, "other"));
    let (large, name) = (at("large", 2), at("l", 2));
    let body = format!(r#"{{"x":"{}"}}"#, "x".repeat(1_000_000));
    tell(&mut world, other, update(&large, &body, None)).unwrap();
    for _ in 0..4 {
        let change = Change::Merge(br#"{"n":1}"#[..].into());
        let (path, flags) = (path(&large), Flags::NONE);
        let update = Update { path, change, properties: None, flags, condition: None, spec: None };
        ask(&mut world, lost, Operation::Update(Box::new(update)));
    }
    ask(&mut world, lost, lock(&name, Span::ZERO));
    while world.deliver_envelope_between(1, 2) {}
    assert!(world.brokers[2].has_deferred());
    world.lose(1);
    world.tell_loss(1, 2);
    let metrics = world.brokers[2].metrics();
    assert_eq!((metrics.work_waiting, metrics.work_waiting_bytes), (0, 0));
    let locked = tell(&mut world, other, lock(&name, Span::ZERO));
    assert!(locked.is_ok(), "nobody has the lock");
    world.end();
}

#[test]
fn an_owner_does_not_wait_for_a_lost_home() {
    let options = BrokerOptions { rules: Rules::new(vec![]), ..options() };
    let mut world = World::new(1, options);
    let ann = world.connect(0, "ann");
    let token = world.subscribe(ann, 0, Wish::to(&format!("topic:{}", at("t", 1))));
    world.lose(1);
    world.quiesce();
    assert_eq!(world.clients[ann].refused, [(Some(token), CloseCode::PeerLost)]);
    world.end();
}

#[test]
fn snapshots_go_on_without_a_lost_place_and_not_for_it() {
    for_seeds(0..100, |seed| {
        let mut options = options();
        options.backlog_bytes_low = 16_000;
        let mut world = World::new(seed, options);
        let (writer, lost) = (world.connect(0, "writer"), world.connect(1, "lost"));
        let reader = world.connect(0, "reader");
        for (prefix, home) in [("gone", 1), ("here", 2)] {
            let names = (0..).map(|number| format!("{prefix}/{number}"));
            let topics = names.map(|name| format!("topic:{name}"));
            for topic in topics.filter(|it| destination(it).home(SHARDS).index() == home).take(60) {
                let body = "x".repeat(1_000);
                let kept = Outgoing { flags: Flags::RETAIN, ..Outgoing::new(body) };
                world.publish_all(writer, &topic, &[kept]);
            }
        }
        world.deliver_envelopes();
        world.subscribe(lost, 0, Wish::to("topic:here/*"));
        for key in 0..8 {
            world.subscribe(reader, key, Wish::to("topic:gone/*"));
        }
        for _ in 0..30 + world.random.below(60) {
            world.deliver_envelope();
            world.pull(reader);
        }
        world.lose(1);
        world.deliver_envelopes();
        assert_eq!(world.brokers[2].metrics().snapshots, 0, "its own shard had asked for it");
        world.subscribe(reader, 9, Wish::to("topic:here/*"));
        world.quiesce();
        let came = world.clients[reader].received.iter().filter(|message| message.key == 9);
        assert_eq!(came.count(), 60);
        assert_eq!(world.metrics().snapshots, 0);
        world.end();
    });
}

#[test]
fn a_place_that_is_no_shard_of_this_node_takes_nothing_along() {
    let mut world = World::new(1, options());
    let (reader, writer) = (world.connect(0, "reader"), world.connect(0, "writer"));
    let topic = format!("topic:{}", at("t", 0));
    world.subscribe(reader, 0, Wish::to(&topic));
    world.quiesce();
    for place in [Place { node: NodeId(1), shard: ShardId(0) }, Place::here(ShardId(64))] {
        world.brokers[0].peer_lost(world.now, place, &mut Effects::default());
        world.quiesce();
        world.publish(writer, &topic, "goes on");
        world.quiesce();
        assert_eq!(world.clients[reader].received.len(), 1, "{place}");
        world.clients[reader].received.clear();
    }
}

/// Something that a client does.
fn step(world: &mut World, client: usize, keys: &mut u32) {
    let home = world.random.below(SHARDS);
    let (topic, queue) = (format!("topic:{}", at("t", home)), format!("queue:{}", at("q", home)));
    let service = at("s", home);
    *keys += 1;
    match world.random.below(12) {
        0 | 1 => drop(world.publish(client, &topic, "x")),
        2 => drop(world.publish_all(
            client,
            &topic,
            &[Outgoing { flags: Flags::RETAIN, ..Outgoing::new("kept") }],
        )),
        3 | 4 => drop(world.publish(client, &queue, "job")),
        5 => drop(world.subscribe(client, *keys, Wish::to(&topic))),
        6 => {
            let recoverable = world.random.one_in(2);
            let wish = Wish { recoverable, credit: Some(2), ..Wish::to("topic:**") };
            world.subscribe(client, *keys, Wish { confirm_values: !recoverable, ..wish });
        }
        7 => {
            let ways = [None, None, Some(Browsing::ToEnd), Some(Browsing::Following)];
            let browsing = *world.random.pick(&ways);
            world.subscribe(client, *keys, Wish { explicit: true, browsing, ..Wish::to(&queue) });
        }
        8 => drop(world.subscribe(client, *keys, Wish::to(&format!("service:{service}")))),
        9 => world.call(client, *keys, &service, "hello", true),
        10 => {
            let key = world.random.below(*keys as usize) as u32;
            world
                .command(client, Command::Unsubscribe { key: SubscriptionKey(key), confirm: None });
        }
        _ => {
            let operation = match world.random.below(4) {
                0 => lock(&at("l", home), Span::ZERO),
                1 => update(&at("u", home), "1", None),
                2 => Operation::Remove { selector: vec![Pattern::parse("?.*").unwrap()] },
                _ => fetch("?.*"),
            };
            ask(world, client, operation);
        }
    }
}

/// Takes what waits, settles it, and answers calls.
fn take_everything(world: &mut World) {
    loop {
        world.quiesce();
        let mut did = false;
        for client in world.living() {
            for message in std::mem::take(&mut world.clients[client].received) {
                if world.random.one_in(2) {
                    world.settle(client, &message, Outcome::Accept);
                    did = true;
                }
            }
            for heard in std::mem::take(&mut world.clients[client].heard) {
                if heard.exchange.first {
                    world.send_exchange(client, heard.exchange.key, "answer", true);
                    did = true;
                }
            }
        }
        if !did {
            return;
        }
    }
}

#[test]
fn nothing_waits_for_a_lost_place_whatever_went_on() {
    for_seeds(0..1_000, |seed| {
        let mut world = World::new(seed, options());
        for client in 0..2 * SHARDS {
            world.connect(client % SHARDS, "client");
        }
        let mut keys = 0;
        let lost = world.random.below(SHARDS);
        let when = 20 + world.random.below(60);
        for turn in 0..100 {
            if turn == when {
                world.lose(lost);
            }
            let living = world.living();
            let client = *world.random.pick(&living);
            step(&mut world, client, &mut keys);
            for _ in 0..world.random.below(4) {
                world.deliver_envelope();
            }
            if world.random.one_in(4) {
                world.pull(client);
            }
        }
        take_everything(&mut world);
        for client in world.living() {
            assert_eq!(world.unanswered(client), [0u32; 0], "client {client}");
            assert!(!world.clients[client].paused, "client {client}");
        }
        let metrics = world.metrics();
        assert_eq!((metrics.exchanges, metrics.exchanges_served), (0, 0));
        assert_eq!((metrics.calls_waiting, metrics.snapshots), (0, 0));
        let living = world.living();
        for home in (0..SHARDS).filter(|home| *home != lost) {
            let topic = format!("topic:{}", at("after", home));
            keys += 1;
            world.subscribe(living[0], keys, Wish::to(&topic));
            world.deliver_envelopes();
            world.publish(living[1], &topic, "goes on");
            world.quiesce();
            let came = |it: &crate::support::Received| it.key == keys && it.body == "goes on";
            assert!(world.clients[living[0]].received.iter().any(came), "shard {home} goes on");
        }
        let last = world.connect((lost + 1) % SHARDS, "last");
        keys += 1;
        world.end_all_but(last);
        world.subscribe(last, keys, Wish::to("queue:**"));
        ask(&mut world, last, Operation::Remove { selector: vec![Pattern::parse("?.*").unwrap()] });
        world.quiesce();
        world.end();
        world.sweep();
        assert_eq!((world.metrics().topics, world.metrics().queues), (0, 0));
    });
}
