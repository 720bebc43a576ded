//! Temporary destinations: one session listens, those that were told the name send, and nothing is left.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::{self, tell};
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Flags, Meta, Operation, Run};

/// A node on which ann and bob may send requests, and nobody else may do anything.
fn world(seed: u64) -> World {
    let rule = Rule {
        allow: true,
        actions: [Action::Send, Action::Receive].into_iter().collect(),
        who: vec![Who::User("ann".into()), Who::User("bob".into())],
        paths: vec![Pattern::parse("requests").unwrap()],
        kind: None,
    };
    let deny = Rule {
        allow: false,
        actions: Action::ALL.into_iter().map(|(_, action)| action).collect(),
        who: vec![Who::All],
        paths: vec![Pattern::parse("temp/**").unwrap()],
        kind: None,
    };
    let shards = 1 + (seed % 3) as usize;
    let rules = Rules::new(vec![rule, deny]);
    let options = BrokerOptions { shards, rules, temporary_secret: 7, ..BrokerOptions::default() };
    World::new(seed, BrokerOptions { temporary_bytes_max: 10_000, ..options })
}

fn anonymous(world: &mut World, shard: usize) -> usize {
    let client = world.open(shard % world.brokers.len());
    world.verified(client, Ok(Principal::anonymous()));
    client
}

fn bodies(world: &mut World, client: usize) -> Vec<String> {
    world.quiesce();
    world.clients[client].received.drain(..).map(|message| message.body).collect()
}

fn refusals(world: &mut World, client: usize) -> Vec<CloseCode> {
    world.quiesce();
    world.clients[client].refused.drain(..).map(|(_, code)| code).collect()
}

#[test]
fn only_its_session_listens_and_who_knows_the_name_sends() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let ann = asking::connect(&mut world, "ann");
        let (again, bob) = (asking::connect(&mut world, "ann"), asking::connect(&mut world, "bob"));
        let (eve, nobody) = (asking::connect(&mut world, "eve"), anonymous(&mut world, 2));
        let own = world.temporary(ann);
        let (queue, topic) = (format!("queue:{own}/r"), format!("topic:{own}/t"));
        // The others try first, and once it is there.
        for _ in 0..2 {
            for thief in [again, bob, eve, nobody] {
                for (target, key) in [
                    (queue.clone(), 0),
                    (topic.clone(), 1),
                    (format!("service:{own}/s"), 2),
                    (format!("topic:{own}/*"), 3),
                    (format!("queue:{own}/**"), 4),
                    ("topic:temp/**".into(), 5),
                    ("queue:temp/*/r".into(), 6),
                ] {
                    world.subscribe(thief, key, Wish { exclusive: true, ..Wish::to(&target) });
                    assert_eq!(refusals(&mut world, thief), [CloseCode::NotOwner], "{target}");
                }
            }
            world.subscribe(ann, 0, Wish::to(&queue));
            world.subscribe(ann, 1, Wish::to(&topic));
            refusals(&mut world, ann);
        }
        for (sender, at) in [ann, again, bob, eve, nobody].into_iter().zip(0..) {
            world.publish(sender, &queue, &format!("queue {at}"));
            world.publish(sender, &topic, &format!("topic {at}"));
        }
        let mut heard = bodies(&mut world, ann);
        heard.sort();
        let sent = |kind: &str| (0..5).map(|at| format!("{kind} {at}")).collect::<Vec<_>>();
        assert_eq!(heard, [sent("queue"), sent("topic")].concat());
        for other in [again, bob, eve, nobody] {
            assert_eq!(bodies(&mut world, other), [""; 0]);
            assert_eq!(refusals(&mut world, other), []);
        }
        world.end();
        world.sweep();
    });
}

#[test]
fn names_are_not_guessed_and_what_nobody_has_keeps_nothing() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, mal) = (asking::connect(&mut world, "ann"), anonymous(&mut world, 1));
        let (own, theirs) = (world.temporary(ann), world.temporary(mal));
        assert_ne!(own, theirs);
        // What a neighbour's name tells of a session is who it is, not its secret.
        let session = world.clients[ann].session;
        let guessed = format!("temp/{}", tiderace_wire::TemporaryName::new(session, 7));
        for path in ["temp/1/reply", "temp/a", "temp/a/b/c"] {
            world.publish(mal, &format!("queue:{path}"), "x");
            world.publish(mal, &format!("topic:{path}"), "x");
            world.subscribe(mal, 0, Wish::to(&format!("queue:{path}")));
            let said = refusals(&mut world, mal);
            assert_eq!(said.len(), 3, "{path}: {said:?}");
        }
        world.subscribe(mal, 0, Wish::to(&format!("queue:{guessed}/r")));
        assert_eq!(refusals(&mut world, mal), [CloseCode::NotOwner]);
        for at in 0..100 {
            world.publish(mal, &format!("queue:{guessed}/{at}"), "x");
            world.publish(mal, &format!("topic:{own}/{at}"), "x");
        }
        world.deliver_envelopes();
        let metrics = world.metrics();
        assert_eq!((metrics.queues, metrics.topics, metrics.dropped_temporary), (0, 0, 200));
        assert_eq!(refusals(&mut world, mal), []);
        // The session ends: what comes later goes nowhere.
        world.publish(mal, &format!("queue:{own}/r"), "waits");
        world.deliver_envelopes();
        assert!(world.metrics().queue_bytes > 0);
        world.close(ann);
        world.publish(mal, &format!("queue:{own}/r"), "late");
        world.deliver_envelopes();
        assert_eq!((world.metrics().queues, world.metrics().queue_bytes), (0, 0));
        // Nor does it reach the session that has its place now.
        let next = world.connect(world.clients[ann].shard, "bob");
        assert_eq!(world.clients[next].session.slot, world.clients[ann].session.slot);
        assert_ne!(world.temporary(next), own);
        world.publish(mal, &format!("queue:{own}/r"), "late");
        assert_eq!(bodies(&mut world, next), [""; 0]);
        world.end();
    });
}

#[test]
fn nothing_is_kept_locked_or_made_there() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let (ann, nobody) = (asking::connect(&mut world, "ann"), anonymous(&mut world, 0));
        let own = world.temporary(ann);
        world.subscribe(ann, 0, Wish::to(&format!("topic:{own}/t")));
        world.quiesce();
        for path in [format!("{own}/t"), format!("{own}/new"), "temp/1/x".into()] {
            let mut kept = Outgoing::new("kept");
            kept.flags = Flags::RETAIN;
            let run = |flags| {
                let to = crate::support::destination(&format!("topic:{path}"));
                Run::single(to, world.now.time, b"", b"kept", Meta { flags, expires_ms: None })
            };
            let will = Operation::Will(Some(Box::new(run(Flags::RETAIN))));
            let name = asking::path(&path);
            let operations = [
                asking::create(&path, "", None),
                asking::create(&path, r#"{"owner":"ann"}"#, Some("x")),
                asking::update(&path, "x", None),
                asking::update(&path, "x", Some(tiderace_wire::Condition::Absent)),
                Operation::Lock { name: name.clone(), timeout: Span::ZERO },
                Operation::Claim { path: name.clone() },
                will,
            ];
            for client in [ann, nobody] {
                for operation in &operations {
                    let said = tell(&mut world, client, operation.clone());
                    let refused = [CloseCode::NotAuthorised, CloseCode::BadDestination];
                    assert!(refused.contains(&said.unwrap_err()), "{operation:?}");
                }
                world.publish_all(client, &format!("topic:{path}"), std::slice::from_ref(&kept));
                assert_eq!(refusals(&mut world, client).len(), operations.len() + 1);
            }
        }
        assert_eq!(bodies(&mut world, ann), [""; 0]);
        let metrics = world.metrics();
        assert_eq!((metrics.retained, metrics.retained_bytes), (0, 0));
        // A will without a value is a message like any other.
        let to = crate::support::destination(&format!("topic:{own}/t"));
        let run = Run::single(to, world.now.time, b"", b"gone", Meta::default());
        tell(&mut world, nobody, Operation::Will(Some(Box::new(run)))).unwrap();
        world.close(nobody);
        assert_eq!(bodies(&mut world, ann), ["gone"]);
        world.end();
    });
}

#[test]
fn what_waits_for_a_session_is_bounded_and_holds_nobody_back() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (asking::connect(&mut world, "ann"), asking::connect(&mut world, "bob"));
        let own = world.temporary(ann);
        let to = |at: usize| format!("queue:{own}/{at}");
        let wish = Wish { window: Some(1), explicit: true, ..Wish::to(&to(0)) };
        world.subscribe(ann, 0, wish);
        for at in 0..1_000 {
            world.publish(bob, &to(at % 300), &"x".repeat(100));
        }
        world.deliver_envelopes();
        let metrics = world.metrics();
        assert!(metrics.queue_bytes <= 10_000 + 200, "{}", metrics.queue_bytes);
        assert!(metrics.queues <= 256 && metrics.dropped_temporary > 800);
        assert!(!world.clients[bob].paused);
        // What was taken makes room again.
        world.unsubscribe(ann, 0);
        for at in 0..256 {
            world.subscribe(ann, at, Wish::to(&to(at as usize)));
        }
        let taken = bodies(&mut world, ann).len();
        assert!(taken > 50, "{taken}");
        world.publish(bob, &to(1), &"y".repeat(20_000));
        assert_eq!(bodies(&mut world, ann).len(), 1, "one message alone may be larger");
        world.subscribe(ann, 300, Wish::to(&to(900)));
        assert_eq!(refusals(&mut world, ann), [CloseCode::TooManySubscriptions]);
        world.end();
        assert_eq!((world.metrics().queues, world.metrics().queue_bytes), (0, 0));
    });
}
