//! Owners: they publish and subscribe to what is theirs whatever the rules say, and nobody else does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::{self, connect, tell};
use crate::support::{Wish, World, for_seeds};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Operation, Position};

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
            let to = crate::support::destination(path);
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

fn allow(actions: &[Action], who: &str, paths: &str) -> Rule {
    Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(paths).unwrap()],
        kind: None,
    }
}

/// Ann may do everything below `priv` and `user`; mal may publish and subscribe below `m`, and create
/// below `user` and `make`.
fn guarded(seed: u64) -> World {
    let every = [Action::Create, Action::Publish, Action::Subscribe];
    let rules = Rules::new(vec![
        allow(&every, "ann", "priv/**"),
        allow(&every, "ann", "user/**"),
        allow(&every, "ann", "make/**"),
        allow(&every, "mal", "m/**"),
        allow(&[Action::Create], "mal", "user/**"),
        allow(&[Action::Create], "mal", "make/**"),
    ]);
    let shards = 1 + (seed % 3) as usize;
    World::new(seed, BrokerOptions { shards, rules, ..BrokerOptions::default() })
}

fn made_with(path: &str, spec: &str, body: &str) -> Operation {
    let Operation::Update(mut update) = asking::update(path, body, None) else { panic!() };
    update.spec = Some(spec.as_bytes().into());
    Operation::Update(update)
}

#[test]
fn naming_an_owner_is_no_way_around_the_rules() {
    for_seeds(0..12, |seed| {
        let mut world = guarded(seed);
        let (ann, mal) = (connect(&mut world, "ann"), connect(&mut world, "mal"));
        let mine = r#"{"owner":"mal"}"#;
        let tries = || {
            [
                asking::create("priv/new", mine, None),
                asking::create("priv/new", mine, Some("forged")),
                made_with("priv/new", mine, "forged"),
                asking::create("user/ann/new", mine, None),
                made_with("user/ann/new", mine, "forged"),
            ]
        };
        // Never known, known to a subscriber alone, published to, and removed again.
        for step in 0..4 {
            match step {
                1 => drop(world.subscribe(ann, 7, Wish::to("topic:priv/new"))),
                2 => drop(world.publish(ann, "topic:priv/new", "CONFIDENTIAL")),
                3 => remove(&mut world, ann, "priv/new"),
                _ => {}
            }
            world.quiesce();
            for attempt in tries() {
                let refused = tell(&mut world, mal, attempt.clone());
                assert_eq!(refused.unwrap_err(), CloseCode::NotAuthorised, "{step} {attempt:?}");
            }
        }
        // All at once, without waiting for answers.
        for attempt in tries() {
            asking::ask(&mut world, mal, attempt);
        }
        world.publish(mal, "topic:priv/new", "forged");
        world.subscribe(mal, 0, Wish::to("topic:priv/new"));
        asking::ask(&mut world, mal, Operation::Claim { path: asking::path("priv/new") });
        world.quiesce();
        bodies(&mut world, ann);
        world.publish(ann, "topic:priv/new", "CONFIDENTIAL");
        assert_eq!(bodies(&mut world, ann), ["CONFIDENTIAL"]);
        assert_eq!(bodies(&mut world, mal), [""; 0]);
        world.end();
    });
}

#[test]
fn nobody_owns_what_is_private_to_others() {
    for_seeds(0..12, |seed| {
        let mut world = guarded(seed);
        let (ann, mal) = (connect(&mut world, "ann"), connect(&mut world, "mal"));
        // Mal may create there. What it made, ann then uses.
        create(&mut world, mal, "user/mal/x", "mal");
        tell(&mut world, mal, asking::create("user/ann/x", "", None)).unwrap();
        let theirs = asking::create("user/ann/y", r#"{"owner":"mal"}"#, None);
        assert_eq!(tell(&mut world, mal, theirs).unwrap_err(), CloseCode::NotAuthorised);
        // However a specification came to be there, such as by an administrator's mistake.
        let history = r#"{"owner":"ann","history":5}"#;
        tell(&mut world, ann, asking::create("user/mal/z", history, None)).unwrap_err();
        tell(&mut world, ann, asking::create("user/ann/z", history, None)).unwrap();
        world.publish(ann, "topic:user/ann/z", "CONFIDENTIAL");
        world.quiesce();
        let query = || {
            Operation::History(Box::new(tiderace_wire::HistoryQuery {
                path: asking::path("user/ann/z"),
                from: tiderace_wire::Replay::Last(5),
                to: None,
                limit: 0,
                amended: false,
            }))
        };
        assert!(tell(&mut world, ann, query()).is_ok());
        assert_eq!(tell(&mut world, mal, query()).unwrap_err(), CloseCode::NotAuthorised);
        world.end();
    });
}

#[test]
fn a_first_value_is_published_by_those_who_may_publish() {
    for_seeds(0..6, |seed| {
        let mut world = guarded(seed);
        let mal = connect(&mut world, "mal");
        let forged = asking::create("make/a", "", Some("forged"));
        assert_eq!(tell(&mut world, mal, forged).unwrap_err(), CloseCode::NotAuthorised);
        tell(&mut world, mal, asking::create("make/a", "", None)).unwrap();
        let own = r#"{"owner":"mal"}"#;
        tell(&mut world, mal, asking::create("make/b", own, Some("mine"))).unwrap();
        tell(&mut world, mal, made_with("make/c", own, "mine")).unwrap();
        world.end();
    });
}

#[test]
fn a_topic_that_changes_hands_under_way_is_not_shown_to_who_owned_it() {
    for_seeds(0..48, |seed| {
        let mut world = guarded(seed);
        let (ann, mal) = (connect(&mut world, "ann"), connect(&mut world, "mal"));
        create(&mut world, mal, "make/a", "mal");
        // All under way at once; the seed decides which shard hears of what when.
        let recoverable = seed % 2 == 0;
        let wish = Wish { recoverable, notices: true, ..Wish::to("topic:make/a") };
        world.subscribe(mal, 0, wish);
        for _ in 0..seed % 7 {
            world.deliver_envelope();
        }
        asking::ask(&mut world, ann, asking::remove("make/a"));
        for _ in 0..seed % 5 {
            world.deliver_envelope();
        }
        let theirs = asking::create("make/a", r#"{"owner":"ann"}"#, Some("CONFIDENTIAL"));
        asking::ask(&mut world, ann, theirs);
        world.publish(ann, "topic:make/a", "CONFIDENTIAL");
        let heard = bodies(&mut world, mal);
        assert!(!heard.iter().any(|body| body == "CONFIDENTIAL"), "{heard:?}");
        let joined: Vec<_> =
            world.clients[mal].notices.iter().filter_map(|it| it.joined.as_ref()).collect();
        assert!(joined.iter().all(|spec| spec.owner.as_deref() != Some("ann")), "{joined:?}");
        world.end();
    });
}

/// Mal owns one topic and may listen to some others: a subscription to both shows no more than two would.
#[test]
fn owning_one_target_shows_nothing_of_the_others() {
    for_seeds(0..24, |seed| {
        let mut world = guarded(seed);
        let (ann, mal) = (connect(&mut world, "ann"), connect(&mut world, "mal"));
        create(&mut world, mal, "make/a", "mal");
        for path in ["priv/x", "make/x"] {
            tell(&mut world, ann, made_with(path, "", "CONFIDENTIAL")).unwrap();
        }
        tell(&mut world, mal, made_with("make/a", r#"{"owner":"mal"}"#, "mine")).unwrap();
        let targets = vec!["topic:make/a".into(), "topic:**".into()];
        let since = (seed % 3 == 0).then(|| Position::new(world.epoch));
        let recoverable = since.is_some();
        let replay = (seed % 3 == 1).then_some(tiderace_wire::Replay::Last(5));
        let wish = Wish { targets, since, recoverable, replay, notices: true, ..Wish::default() };
        let both = world.subscribe(mal, 0, wish);
        world.quiesce();
        assert!(world.is_confirmed(mal, both));
        world.publish(ann, "topic:priv/x", "CONFIDENTIAL");
        assert_eq!(bodies(&mut world, mal), ["mine"]);
        let joined: Vec<_> = world.clients[mal].notices.iter().map(|it| it.path.clone()).collect();
        assert_eq!(joined, ["make/a"]);
        world.end();
    });
}

/// Mal makes a topic of a name under which ann has published, and asks for what came before.
#[test]
fn an_owner_is_not_shown_what_was_published_under_the_name_before() {
    for_seeds(0..24, |seed| {
        let mut world = guarded(seed);
        let (ann, mal) = (connect(&mut world, "ann"), connect(&mut world, "mal"));
        let recoverable = Wish { recoverable: true, ..Wish::to("topic:make/a") };
        world.subscribe(ann, 0, recoverable.clone());
        world.quiesce();
        tell(&mut world, ann, made_with("make/a", "", "CONFIDENTIAL")).unwrap();
        world.publish(ann, "topic:make/a", "CONFIDENTIAL");
        world.quiesce();
        remove(&mut world, ann, "make/a");
        create(&mut world, mal, "make/a", "mal");
        world.publish(mal, "topic:make/a", "mine");
        world.quiesce();
        let since = Some(Position::new(world.epoch));
        world.subscribe(mal, 0, Wish { since, ..recoverable });
        let heard = bodies(&mut world, mal);
        assert!(!heard.iter().any(|body| body == "CONFIDENTIAL"), "{heard:?}");
        world.end();
    });
}
