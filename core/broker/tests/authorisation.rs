//! Who may do what, as clients meet it: logins, refusals and what wildcards show.

#![allow(clippy::unwrap_used, clippy::field_reassign_with_default)]

use crate::support::{Outgoing, Wish, World, destination};
use tiderace_base::{Close, CloseCode};
use tiderace_broker::{Action, BrokerOptions, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Command, Commands, Credentials, Flags, Kind, Meta};

fn rule(allow: bool, actions: &[Action], who: &str, path: &str, kind: Option<Kind>) -> Rule {
    let who = match who {
        "*" => Who::All,
        name => Who::User(name.into()),
    };
    let paths = vec![Pattern::parse(path).unwrap()];
    Rule { allow, actions: actions.iter().copied().collect(), who: vec![who], paths, kind }
}

/// `ann` reads `fx` except its secrets and works on `jobs`; `boss` does everything.
fn world(shards: usize) -> World {
    use Action::{Publish, Receive, Send, Subscribe};
    let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
    options.rules = Rules::new(vec![
        rule(true, &[Publish, Subscribe, Send, Receive], "boss", "**", None),
        rule(true, &[Subscribe], "ann", "fx/**", Some(Kind::Topic)),
        rule(false, &[Subscribe], "ann", "fx/secret/**", None),
        rule(true, &[Publish], "ann", "fx/ann", Some(Kind::Topic)),
        rule(true, &[Receive], "ann", "jobs/**", Some(Kind::Queue)),
        rule(true, &[Receive], "eve", "**", Some(Kind::Queue)),
        rule(false, &[Receive], "eve", "jobs/secret", None),
    ]);
    World::new(1, options)
}

fn bodies(world: &World, client: usize) -> Vec<&str> {
    let mut bodies: Vec<&str> =
        world.clients[client].received.iter().map(|message| &*message.body).collect();
    bodies.sort_unstable();
    bodies
}

fn refusals(world: &mut World, client: usize) -> Vec<(Option<u32>, CloseCode)> {
    world.deliver_envelopes();
    std::mem::take(&mut world.clients[client].refused)
}

#[test]
fn nothing_but_a_login_is_taken_before_the_login() {
    let mut world = world(2);
    let client = world.open(0);
    world.publish(client, "topic:fx/a", "x");
    world.subscribe(client, 0, Wish::to("topic:fx/a"));
    world.unsubscribe(client, 0);
    assert_eq!(refusals(&mut world, client), [(None, CloseCode::LoginRequired); 3]);
    assert!(world.clients[client].confirmed.is_empty());
    assert_eq!((world.metrics().subscriptions, world.has_envelopes()), (0, false));
}

#[test]
fn a_login_waits_for_its_verification() {
    let options = BrokerOptions { verify_logins: true, ..BrokerOptions::default() };
    let mut world = World::new(1, options);
    let clients: Vec<usize> = (0..3).map(|_| world.connect(0, "ann")).collect();
    let credentials = Credentials { login: Some("ann".into()), ..Credentials::default() };
    let asked: Vec<_> = clients
        .iter()
        .map(|client| (world.clients[*client].session, credentials.clone()))
        .collect();
    assert_eq!(world.verify, asked);
    world.publish(clients[0], "topic:t", "x");
    assert_eq!(refusals(&mut world, clients[0]), [(None, CloseCode::LoginRequired)]);

    let ann = Principal::named("Ann");
    world.verified(clients[0], Ok(ann.clone()));
    assert_eq!(world.clients[clients[0]].name.as_deref(), Some("Ann"));
    let token = world.publish(clients[0], "topic:t", "x");
    assert!(world.is_confirmed(clients[0], token));

    world.verified(clients[1], Err(Close::from(CloseCode::LoginFailed)));
    assert_eq!(refusals(&mut world, clients[1]), [(None, CloseCode::LoginFailed)]);
    world.publish(clients[1], "topic:t", "x");
    assert_eq!(refusals(&mut world, clients[1]), [(None, CloseCode::LoginRequired)]);

    world.close(clients[2]);
    let next = world.open(0);
    assert_eq!(world.clients[next].session.slot, world.clients[clients[2]].session.slot);
    world.verified(clients[2], Ok(ann));
    assert_eq!(world.clients[next].name, None, "the answer was for another session");
    world.publish(next, "topic:t", "x");
    assert_eq!(refusals(&mut world, next), [(None, CloseCode::LoginRequired)]);
}

#[test]
fn a_refused_publication_is_blamed_on_its_first_message() {
    let mut world = world(2);
    let ann = world.connect(0, "ann");
    for first_asks in [true, false] {
        let mut commands = Commands::new();
        for (index, token) in [(0, 7), (1, 8)] {
            commands.message(&destination("topic:fx/a"));
            let asks = index == 1 || first_asks;
            commands.publish(b"x", Meta::default(), asks.then_some(token));
        }
        world.commands(ann, &mut commands);
        let blamed = first_asks.then_some(7);
        // And every other that asks is answered as well.
        let refused = [blamed, Some(8)].map(|token| (token, CloseCode::NotAuthorised));
        assert_eq!(refusals(&mut world, ann), refused);
    }
    for to in ["queue:fx/ann", "queue:jobs/a", "topic:other"] {
        let token = world.publish(ann, to, "x");
        assert_eq!(refusals(&mut world, ann), [(Some(token), CloseCode::NotAuthorised)], "{to}");
    }
    assert_eq!(world.metrics().denied, 5);
    let token = world.publish(ann, "topic:fx/ann", "x");
    world.deliver_envelopes();
    assert!(world.is_confirmed(ann, token), "what is allowed goes on");
    let token = world.publish(ann, "topic:fx/a", "x");
    assert_eq!(refusals(&mut world, ann), [(Some(token), CloseCode::NotAuthorised)]);
}

#[test]
fn a_subscription_is_refused_as_a_whole() {
    let mut world = world(2);
    let (ann, eve) = (world.connect(0, "ann"), world.connect(1, "eve"));
    let both = vec!["topic:fx/a".to_owned(), "topic:other".to_owned()];
    let rows = [
        (ann, Wish::to("topic:fx/secret/a")),
        (ann, Wish::to("topic:other")),
        (ann, Wish::to("queue:fx/a")),
        (ann, Wish { targets: both, ..Wish::default() }),
        (ann, Wish::to("queue:**")),
        (eve, Wish::to("queue:jobs/secret")),
        (eve, Wish::to("queue:jobs/*")),
        (eve, Wish::to("topic:**")),
    ];
    for (client, wish) in rows {
        let token = world.subscribe(client, 0, wish.clone());
        let expected = [(Some(token), CloseCode::NotAuthorised)];
        assert_eq!(refusals(&mut world, client), expected, "{wish:?}");
    }
    assert_eq!((world.metrics().subscriptions, world.has_envelopes()), (0, false));
    assert_eq!(world.metrics().denied, 8);
    for (key, target) in [(0, "topic:fx/a"), (1, "queue:jobs/*"), (2, "topic:**")] {
        let token = world.subscribe(ann, key, Wish::to(target));
        world.deliver_envelopes();
        assert!(world.is_confirmed(ann, token), "{target}");
    }
    let token = world.subscribe(ann, 2, Wish::to("topic:fx/a"));
    assert_eq!(refusals(&mut world, ann), [(Some(token), CloseCode::DuplicateSubscription)]);
}

#[test]
fn a_wildcard_shows_no_more_than_its_parts() {
    for shards in 1..=4 {
        let mut world = world(shards);
        let (boss, ann) = (world.connect(0, "boss"), world.connect(shards - 1, "ann"));
        let paths = ["fx/a", "fx/secret/a", "other/a", "fx/b/c"];
        let publish = |world: &mut World| {
            for path in paths {
                let mut message = Outgoing::new(path);
                message.flags = Flags::RETAIN;
                world.publish_all(boss, &format!("topic:{path}"), &[message]);
            }
            world.quiesce();
        };
        publish(&mut world);
        world.subscribe(ann, 0, Wish::to("topic:**"));
        world.quiesce();
        assert_eq!(bodies(&world, ann), ["fx/a", "fx/b/c"], "retained");
        world.clients[ann].received.clear();
        publish(&mut world);
        assert_eq!(bodies(&world, ann), ["fx/a", "fx/b/c"], "live");
        world.end();
    }
}

#[test]
fn a_session_may_have_so_many_subscriptions() {
    let mut world =
        World::new(1, BrokerOptions { subscriptions_max: 2, ..BrokerOptions::default() });
    let client = world.connect(0, "");
    assert_eq!(world.clients[client].name.as_deref(), Some("anonymous"));
    for key in 0..3 {
        world.subscribe(client, key, Wish::to("topic:t"));
    }
    assert_eq!(refusals(&mut world, client), [(Some(3), CloseCode::TooManySubscriptions)]);
    assert_eq!((world.metrics().subscriptions, world.metrics().denied), (2, 0));
    world.command(client, Command::Login(Credentials::default()));
    world.end();
}

/// Rules under which `reader` may do what `ann` may and nothing on queues.
fn refreshing(shards: usize) -> World {
    use Action::{Publish, Receive, Serve, Subscribe};
    let mut options = BrokerOptions { shards, verify_logins: true, ..BrokerOptions::default() };
    options.rules = Rules::new(vec![
        rule(true, &[Publish, Subscribe, Receive, Serve], "ann", "**", None),
        rule(true, &[Subscribe], "reader", "fx/**", Some(Kind::Topic)),
    ]);
    World::new(1, options)
}

fn principal(name: &str) -> Principal {
    Principal::named(name)
}

fn verified(world: &mut World, client: usize, name: &str) {
    world.command(client, Command::Login(Credentials::default()));
    world.verified(client, Ok(principal(name)));
}

#[test]
fn a_second_login_that_fails_changes_nothing() {
    let mut world = refreshing(2);
    let ann = world.open(0);
    verified(&mut world, ann, "ann");
    world.command(ann, Command::Login(Credentials::default()));
    world.verified(ann, Err(Close::from(CloseCode::LoginFailed)));
    assert_eq!(refusals(&mut world, ann), [(None, CloseCode::LoginFailed)]);
    let token = world.publish(ann, "topic:fx/a", "x");
    world.deliver_envelopes();
    assert!(world.is_confirmed(ann, token), "she still is who she was");
    assert_eq!(world.clients[ann].closed, None);
}

#[test]
fn a_second_login_takes_away_what_was_allowed_before() {
    for shards in 1..=3 {
        let mut world = refreshing(shards);
        let (writer, client) = (world.open(0), world.open(shards - 1));
        verified(&mut world, writer, "ann");
        verified(&mut world, client, "ann");
        world.subscribe(client, 0, Wish::to("topic:**"));
        world.subscribe(client, 1, Wish::to("topic:fx/a"));
        let publish = |world: &mut World| {
            for path in ["fx/a", "other"] {
                world.publish(writer, &format!("topic:{path}"), path);
            }
            world.quiesce();
        };
        world.deliver_envelopes();
        world.publish(client, "topic:fx/a", "fx/a");
        publish(&mut world);
        assert_eq!(bodies(&world, client), ["fx/a", "fx/a", "fx/a", "fx/a", "other"]);
        world.clients[client].received.clear();
        verified(&mut world, client, "reader");
        assert_eq!(world.clients[client].name.as_deref(), Some("reader"));
        assert_eq!(world.clients[client].closed, None);
        publish(&mut world);
        assert_eq!(bodies(&world, client), ["fx/a", "fx/a"], "patterns show less");
        let token = world.publish(client, "topic:fx/a", "x");
        assert_eq!(refusals(&mut world, client), [(Some(token), CloseCode::NotAuthorised)]);
        world.end();
    }
}

#[test]
fn a_second_login_ends_a_session_that_listens_to_what_it_may_not() {
    let lost =
        ["topic:other", "queue:fx/a", "queue:**", "topic:user/ann/x", "service:fx/a", "service:**"];
    for target in lost {
        let mut world = refreshing(2);
        let client = world.open(0);
        verified(&mut world, client, "ann");
        world.subscribe(client, 0, Wish::to("topic:fx/a"));
        world.subscribe(client, 1, Wish::to(target));
        world.deliver_envelopes();
        verified(&mut world, client, "ann");
        assert_eq!(world.clients[client].closed, None, "nothing has changed");
        verified(&mut world, client, "reader");
        assert_eq!(world.clients[client].closed, Some(CloseCode::NotAuthorised), "{target}");
        assert_eq!(world.clients[client].name.as_deref(), Some("ann"), "no second welcome");
        world.end();
    }
}

#[test]
fn private_topics_are_shown_to_their_owners_only() {
    for shards in 1..=4 {
        let options = BrokerOptions { shards, ..BrokerOptions::default() };
        let mut world = World::new(1, options);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(shards - 1, "bob"));
        let publish = |world: &mut World| {
            for path in ["user/ann/x", "user/bob/x", "group/ops/x", "open/x"] {
                let mut message = Outgoing::new(path);
                message.flags = Flags::RETAIN;
                world.publish_all(bob, &format!("topic:{path}"), &[message]);
            }
            world.quiesce();
        };
        publish(&mut world);
        for (client, name) in [(ann, "ann"), (bob, "bob")] {
            for (key, target) in [(0, "**"), (1, "user/*/x"), (2, "*/*/x"), (3, "u*/**")] {
                world.subscribe(client, key, Wish::to(&format!("topic:{target}")));
            }
            world.subscribe(client, 4, Wish::to(&format!("topic:user/{name}/*")));
        }
        world.quiesce();
        for when in ["retained", "live"] {
            assert_eq!(bodies(&world, ann), ["open/x", "user/ann/x"], "{when}");
            assert_eq!(bodies(&world, bob), ["open/x", "user/bob/x"], "{when}");
            world.clients[ann].received.clear();
            world.clients[bob].received.clear();
            publish(&mut world);
        }
        for target in
            ["topic:user/ann/x", "topic:user/ann/*", "queue:user/ann/q", "topic:group/ops/x"]
        {
            let token = world.subscribe(bob, 9, Wish::to(target));
            let expected = [(Some(token), CloseCode::NotAuthorised)];
            assert_eq!(refusals(&mut world, bob), expected, "{target}");
        }
        let token = world.subscribe(ann, 9, Wish::to("queue:user/ann/q"));
        world.subscribe(bob, 10, Wish::to("queue:**"));
        world.quiesce();
        assert!(world.is_confirmed(ann, token));
        world.unsubscribe(ann, 9);
        world.publish(bob, "queue:user/ann/q", "for ann");
        world.quiesce();
        assert!(!bodies(&world, bob).contains(&"for ann"));
        world.subscribe(ann, 9, Wish::to("queue:user/ann/q"));
        world.quiesce();
        assert!(bodies(&world, ann).contains(&"for ann"));
        world.end();
    }
}
