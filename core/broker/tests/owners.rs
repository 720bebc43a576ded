//! Owners: they publish and subscribe to what is theirs whatever the rules say, and nobody else does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod support;

use support::asking::{self, connect, tell};
use support::{Wish, World, for_seeds};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;

fn world(seed: u64) -> World {
    let create = Rule {
        allow: true,
        actions: [Action::Create].into_iter().collect(),
        who: vec![Who::All],
        paths: vec![Pattern::parse("**").unwrap()],
        kind: None,
    };
    let rules = Rules::new(vec![create]);
    let shards = 1 + (seed % 3) as usize;
    World::new(seed, BrokerOptions { shards, rules, ..BrokerOptions::default() })
}

fn create(world: &mut World, client: usize, path: &str, owner: &str) {
    let spec = format!(r#"{{"owner":"{owner}"}}"#);
    tell(world, client, asking::create(path, &spec, None)).unwrap();
}

fn remove(world: &mut World, client: usize, path: &str) {
    tell(world, client, asking::remove(path)).unwrap();
}

fn bodies(world: &mut World, client: usize) -> Vec<String> {
    world.quiesce();
    world.clients[client].received.drain(..).map(|message| message.body).collect()
}

fn refused(world: &mut World, client: usize) -> Vec<(Option<u32>, CloseCode)> {
    world.quiesce();
    std::mem::take(&mut world.clients[client].refused)
}

#[test]
fn owners_need_no_rule() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let shard = world.random.below(world.brokers.len());
        let nobody = world.open(shard);
        world.verified(nobody, Ok(Principal { name: "ann".into(), ..Principal::anonymous() }));
        create(&mut world, ann, "fx/1", "ann");
        create(&mut world, ann, "fx/2", "ann");
        create(&mut world, bob, "fx/3", "bob");
        let published = world.publish(ann, "topic:fx/1", "first");
        world.subscribe(ann, 0, Wish::to("topic:fx/1"));
        let both =
            Wish { targets: vec!["topic:fx/1".into(), "topic:fx/2".into()], ..Wish::default() };
        let both = world.subscribe(ann, 1, both);
        world.quiesce();
        assert!(world.is_confirmed(ann, published) && world.is_confirmed(ann, both));
        assert_eq!(refused(&mut world, ann), []);
        world.publish(ann, "topic:fx/1", "second");
        world.publish(ann, "topic:fx/2", "third");
        let mut heard = bodies(&mut world, ann);
        heard.sort();
        assert_eq!(heard, ["second", "second", "third"]);

        let denied = |token| (Some(token), CloseCode::NotAuthorised);
        for client in [bob, nobody] {
            let (said, heard) = (
                world.publish(client, "topic:fx/1", "x"),
                world.subscribe(client, 0, Wish::to("topic:fx/1")),
            );
            let mut expected = vec![denied(said), denied(heard)];
            let mut refused = refused(&mut world, client);
            expected.sort_by_key(|(token, _)| *token);
            refused.sort_by_key(|(token, _)| *token);
            assert_eq!(refused, expected);
        }
        let mixed =
            Wish { targets: vec!["topic:fx/1".into(), "topic:fx/3".into()], ..Wish::default() };
        let mixed = world.subscribe(ann, 2, mixed);
        let pattern = world.subscribe(ann, 3, Wish::to("queue:fx/1"));
        let unknown = world.publish(ann, "topic:fx/9", "x");
        let mut refused = refused(&mut world, ann);
        refused.sort_by_key(|(token, _)| *token);
        assert_eq!(refused, [denied(mixed), denied(pattern), denied(unknown)]);
        // The key is free again.
        world.subscribe(ann, 2, Wish::to("topic:fx/1"));
        world.quiesce();
        world.publish(ann, "topic:fx/1", "fourth");
        assert_eq!(bodies(&mut world, ann), ["fourth", "fourth", "fourth"]);
        world.end();
    });
}

#[test]
fn who_owns_it_no_longer_hears_no_more() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        create(&mut world, ann, "fx", "ann");
        world.subscribe(ann, 0, Wish::to("topic:fx"));
        world.quiesce();
        remove(&mut world, ann, "fx");
        create(&mut world, bob, "fx", "bob");
        bodies(&mut world, ann);
        world.publish(bob, "topic:fx", "secret");
        assert_eq!(bodies(&mut world, ann), [""; 0]);
        remove(&mut world, bob, "fx");
        create(&mut world, ann, "fx", "ann");
        bodies(&mut world, ann);
        world.publish(ann, "topic:fx", "mine");
        assert_eq!(bodies(&mut world, ann), ["mine"]);
        world.end();
    });
}

#[test]
fn what_waits_for_an_owner_can_be_ended() {
    for_seeds(0..24, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        create(&mut world, ann, "fx", "ann");
        for client in [ann, bob] {
            let begun = world.subscribe(client, 0, Wish::to("topic:fx"));
            let ended = world.unsubscribe(client, 0);
            let again = world.subscribe(client, 0, Wish::to("topic:fx"));
            world.quiesce();
            assert!(world.is_confirmed(client, ended));
            let refused = refused(&mut world, client);
            let answered = |token| {
                let no = refused.iter().filter(|(of, _)| *of == Some(token)).count();
                usize::from(world.is_confirmed(client, token)) + no
            };
            assert_eq!((answered(begun), answered(again)), (1, 1));
            assert_eq!(world.is_confirmed(client, again), client == ann);
        }
        world.publish(ann, "topic:fx", "once");
        assert_eq!(bodies(&mut world, ann), ["once"]);
        assert_eq!(bodies(&mut world, bob), [""; 0]);
        world.subscribe(bob, 1, Wish::to("topic:fx"));
        world.end();
    });
}

#[test]
fn an_owner_leaves_a_will_that_others_may_not() {
    for_seeds(0..24, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let (eye, nobody) = (connect(&mut world, "ann"), connect(&mut world, ""));
        for name in ["fx/1", "fx/2", "fx/3"] {
            create(&mut world, ann, name, "ann");
            world.subscribe(eye, name.as_bytes()[3].into(), Wish::to(&format!("topic:{name}")));
        }
        world.quiesce();
        let will = |path: &str| {
            let meta = tiderace_wire::Meta::default();
            let to = support::destination(path);
            let run =
                tiderace_wire::Run::single(to, Default::default(), b"", path.as_bytes(), meta);
            tiderace_wire::Operation::Will(Some(Box::new(run)))
        };
        for (client, path) in [(bob, "topic:fx/1"), (nobody, "topic:fx/1"), (ann, "queue:fx/1")] {
            let refused = tell(&mut world, client, will(path)).unwrap_err();
            assert_eq!(refused, CloseCode::NotAuthorised, "{path}");
        }
        // What was accepted last counts, also if the one before has not been answered yet.
        let first = asking::ask(&mut world, ann, will("topic:fx/1"));
        let second = asking::ask(&mut world, ann, will("topic:fx/2"));
        let third = asking::ask(&mut world, ann, will("topic:gold"));
        world.quiesce();
        assert!(asking::answer(&world, ann, third).unwrap().is_err());
        let mut accepted = [first, second].map(|token| asking::answer(&world, ann, token).unwrap());
        assert!(accepted.iter_mut().all(|answer| answer.is_ok()));
        tell(&mut world, ann, will("topic:fx/3")).unwrap();
        world.close(ann);
        world.close(bob);
        assert_eq!(bodies(&mut world, eye), ["topic:fx/3"]);
        world.end();
    });
}

#[test]
fn credit_counts_while_the_owner_is_asked_for() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let ann = connect(&mut world, "ann");
        create(&mut world, ann, "fx/1", "ann");
        world.subscribe(ann, 0, Wish { credit: Some(1), ..Wish::to("topic:fx/1") });
        world.credit(ann, 0, 2);
        world.quiesce();
        for body in ["1", "2", "3", "4"] {
            world.publish(ann, "topic:fx/1", body);
        }
        assert_eq!(bodies(&mut world, ann), ["1", "2", "3"]);
    });
}
