//! Rules, limits and credentials that change while clients are there: who ends, who goes on, and what they are told.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;

use crate::support::asking::connect;
use crate::support::reviewing::believing as change;
use crate::support::upstream::upstream;
use crate::support::{Notice, Outgoing, Wish, World, for_seeds};
use tiderace_base::{ClientLimits, CloseCode, Span};
use tiderace_broker::{
    AccessChange, Action, Bearer, BrokerOptions, CredentialId, LimitPer, LimitRule, Principal,
    Rule, Rules, UpstreamTopics, Who,
};
use tiderace_topics::Pattern;
use tiderace_wire::Flags;

fn options(seed: u64, rules: Rules) -> BrokerOptions {
    BrokerOptions { shards: 1 + (seed % 3) as usize, rules, ..BrokerOptions::default() }
}

fn rule(allow: bool, path: &str, who: &str) -> Rule {
    let actions = [Action::Publish, Action::Subscribe, Action::Receive, Action::Send];
    Rule {
        allow,
        actions: actions.into_iter().collect(),
        who: vec![if who == "*" { Who::All } else { Who::User(who.into()) }],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: None,
    }
}

/// What was told since, as `+path` and `-path`.
fn told(world: &mut World, client: usize) -> Vec<String> {
    world.quiesce();
    let sign = |notice: &Notice| if notice.joined.is_some() { '+' } else { '-' };
    let notices = world.clients[client].notices.drain(..);
    let mut told: Vec<_> =
        notices.map(|notice| format!("{}{}", sign(&notice), notice.path)).collect();
    told.sort();
    told
}

fn bodies(world: &World, client: usize) -> Vec<String> {
    world.clients[client].received.iter().map(|message| message.body.clone()).collect()
}

#[test]
fn who_lost_a_right_ends_and_patterns_show_what_the_new_rules_allow() {
    for_seeds(0..9, |seed| {
        let before = vec![rule(true, "**", "*"), rule(false, "gold/*", "bob")];
        let mut world = World::new(seed, options(seed, Rules::new(before)));
        let names = ["ann", "bob", "bob", "bob", "eve"];
        let all = names.map(|name| connect(&mut world, name));
        let [ann, watcher, exact, queue, eve] = all;
        for path in ["fx/1", "gold/1", "silver/1"] {
            world.publish(ann, &format!("topic:{path}"), "1");
        }
        world.quiesce();
        let notices = Wish { targets: vec!["topic:**".into()], notices: true, ..Wish::default() };
        world.subscribe(watcher, 0, notices);
        world.subscribe(exact, 0, Wish::to("topic:silver/1"));
        world.subscribe(queue, 0, Wish::to("queue:silver/q"));
        world.subscribe(eve, 0, Wish::to("topic:silver/1"));
        assert_eq!(told(&mut world, watcher), ["+fx/1", "+silver/1"]);
        world.change_access(change(vec![rule(true, "**", "*"), rule(false, "silver/*", "bob")]));
        world.review_all();
        assert_eq!(told(&mut world, watcher), ["+gold/1", "-silver/1"]);
        for client in [exact, queue] {
            assert_eq!(world.clients[client].closed, Some(CloseCode::NotAuthorised), "{client}");
        }
        for client in [ann, watcher, eve] {
            assert_eq!(world.clients[client].closed, None, "{client}");
        }
        world.publish(ann, "topic:silver/1", "hidden");
        world.publish(ann, "topic:gold/1", "shown");
        world.quiesce();
        world.drain(watcher);
        world.drain(eve);
        assert!(bodies(&world, watcher).contains(&"shown".to_owned()));
        assert!(!bodies(&world, watcher).contains(&"hidden".to_owned()));
        assert!(bodies(&world, eve).contains(&"hidden".to_owned()));
    });
}

#[test]
fn what_is_asked_for_before_the_review_is_held_to_the_new_rules() {
    for_seeds(0..6, |seed| {
        let mut world = World::new(seed, options(seed, Rules::new(vec![rule(true, "**", "*")])));
        let ann = connect(&mut world, "ann");
        let first = world.publish(ann, "topic:a", "1");
        world.quiesce();
        assert!(world.is_confirmed(ann, first));
        world.change_access(change(vec![rule(true, "b", "*")]));
        let new = connect(&mut world, "ann");
        let allowed = world.publish(new, "topic:b", "1");
        let refused = world.publish(new, "topic:a", "2");
        world.quiesce();
        assert!(world.is_confirmed(new, allowed) && !world.is_confirmed(new, refused));
        // It has been allowed there before, and nobody has looked at it yet.
        let refused = world.publish(ann, "topic:a", "2");
        world.quiesce();
        assert!(!world.is_confirmed(ann, refused));
        world.review_all();
        let refused = world.publish(ann, "topic:a", "3");
        let allowed = world.publish(ann, "topic:b", "2");
        world.quiesce();
        assert!(world.is_confirmed(ann, allowed) && !world.is_confirmed(ann, refused));
    });
}

#[test]
fn of_two_changes_soon_after_another_both_count() {
    let open = || vec![rule(true, "**", "*")];
    let closed = || vec![rule(true, "b", "*"), rule(true, "**", "ann")];
    let mut world = World::new(1, options(0, Rules::new(open())));
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    let value = || Outgoing { flags: Flags::RETAIN, ..Outgoing::new("1") };
    world.publish_all(ann, "topic:a", &[value()]);
    world.quiesce();
    let notices = Wish { targets: vec!["topic:**".into()], notices: true, ..Wish::default() };
    world.subscribe(bob, 0, notices);
    assert_eq!(told(&mut world, bob), ["+a"]);
    // Nobody has looked at the session between the two, and what was hidden meanwhile he does not have.
    world.change_access(change(closed()));
    world.publish_all(ann, "topic:a", &[Outgoing { body: "2".into(), ..value() }]);
    world.quiesce();
    world.change_access(change(open()));
    world.review_all();
    assert_eq!(told(&mut world, bob), ["+a"]);
    assert_eq!(bodies(&world, bob), ["1", "2"]);
    world.change_access(change(open()));
    world.change_access(change(closed()));
    world.review_all();
    assert_eq!(told(&mut world, bob), ["-a"]);
}

#[test]
fn a_topic_that_is_shown_comes_with_its_value_once_and_one_that_is_hidden_no_more() {
    let shown = || vec![rule(true, "**", "*")];
    let hidden = || vec![rule(true, "**", "*"), rule(false, "gold/*", "bob")];
    for_seeds(0..500, |seed| {
        let mut world = World::new(seed, options(seed, Rules::new(hidden())));
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let mut newest = 0;
        let mut publish = |world: &mut World| {
            newest += 1;
            let value = Outgoing { flags: Flags::RETAIN, ..Outgoing::new(newest.to_string()) };
            world.publish_all(ann, "topic:gold/1", &[value]);
            newest.to_string()
        };
        publish(&mut world);
        world.quiesce();
        let (targets, recoverable) = (vec!["topic:**".into()], true);
        let wish = Wish { targets, notices: true, recoverable, ..Wish::default() };
        world.subscribe(bob, 0, wish);
        world.quiesce();
        assert_eq!(bodies(&world, bob), [""; 0]);
        let mut last = publish(&mut world);
        for rules in [shown(), hidden(), shown()] {
            let shows = rules.len() == 1;
            let before = bodies(&world, bob).len();
            for _ in 0..world.random.below(3) {
                world.deliver_envelope();
            }
            world.change_access(change(rules));
            for _ in 0..world.random.below(4) {
                if world.random.one_in(3) {
                    last = publish(&mut world);
                }
                world.deliver_envelope();
            }
            world.review_all();
            for _ in 0..world.random.below(4) {
                if world.random.one_in(3) {
                    last = publish(&mut world);
                }
                world.deliver_envelope();
            }
            // What had not been taken is not to come behind `left`.
            let notices = world.clients[bob].notices.drain(..).collect::<Vec<_>>();
            world.quiesce();
            let got = &bodies(&world, bob)[before..];
            let mut once = got.to_vec();
            once.dedup();
            assert_eq!(once, got, "twice");
            let left = notices.iter().find(|notice| notice.left.is_some());
            match shows {
                true => assert_eq!(got.last(), Some(&last)),
                false => assert_eq!(left.map(|left| left.behind - before), Some(got.len())),
            }
        }
    });
}

#[test]
fn who_comes_back_when_rights_have_changed_is_told_that_something_may_be_missing() {
    let hidden = || vec![rule(true, "**", "*"), rule(false, "gold/*", "bob")];
    for_seeds(0..20, |seed| {
        let mut world = World::new(seed, options(seed, Rules::new(hidden())));
        let ann = connect(&mut world, "ann");
        for path in ["topic:gold/1", "topic:fx/1"] {
            let value = Outgoing { flags: Flags::RETAIN, ..Outgoing::new("1") };
            world.publish_all(ann, path, &[value]);
        }
        let come = |world: &mut World, name: &str, since| {
            let client = connect(world, name);
            let wish = Wish { since, recoverable: true, ..Wish::to("topic:**") };
            let token = world.subscribe(client, 0, wish);
            world.quiesce();
            let told = world.clients[client].recovered.get(&token).map(|(complete, _)| *complete);
            let position = world.clients[client].position.clone();
            world.close(client);
            (told, bodies(world, client).len(), position)
        };
        let (_, _, bobs) = come(&mut world, "bob", None);
        let (_, _, eves) = come(&mut world, "eve", None);
        world.change_access(change(vec![rule(true, "**", "*")]));
        let (told, count, _) = come(&mut world, "bob", Some(bobs.clone()));
        assert_eq!((told, count), (Some(false), 2), "the change is under way");
        world.review_all();
        world.quiesce();
        for _ in 0..2 {
            world.advance(Span::from_secs(11));
        }
        let (told, count, position) = come(&mut world, "bob", Some(bobs));
        assert_eq!((told, count), (Some(false), 2));
        assert_eq!(come(&mut world, "bob", Some(position)).0, Some(true), "he has all of it");
        assert_eq!(come(&mut world, "eve", Some(eves)).0, Some(true), "it does not concern her");
    });
}

#[test]
fn credentials_that_are_not_accepted_any_more_end_their_sessions() {
    let known = |number: u64| CredentialId(CredentialId::VERIFIED_FROM + number);
    let verify = BrokerOptions { verify_logins: true, ..BrokerOptions::default() };
    let mut world = World::new(1, BrokerOptions { shards: 2, ..verify });
    let login = |world: &mut World, name: &str, credential| {
        let client = world.connect(world.clients.len() % 2, name);
        let groups = ["old".into()].into();
        let principal = Principal { credential, groups, ..Principal::named(name) };
        world.verified(client, Ok(principal));
        client
    };
    let ann = login(&mut world, "ann", known(0));
    let bob = login(&mut world, "bob", known(1));
    let eve = login(&mut world, "eve", known(2));
    let elsewhere = login(&mut world, "kim", CredentialId::LASTING);
    let nobody = world.connect(0, "");
    world.verified(nobody, Ok(Principal::anonymous()));
    world.quiesce();
    world.subscribe(eve, 0, Wish::to("topic:a"));
    let described = |group: &str| Bearer::Described { groups: [group.into()].into(), host: None };
    let members = Rule { who: vec![Who::Group("new".into())], ..rule(true, "**", "*") };
    world.change_access(AccessChange {
        verify_logins: true,
        rules: Some(Rules::new(vec![members])),
        credentials: [(known(0), described("new")), (known(2), described("old"))].into(),
        limits: Vec::new(),
    });
    world.review_all();
    world.quiesce();
    let closed = |client: usize| world.clients[client].closed;
    assert_eq!(closed(ann), None);
    assert_eq!(closed(bob), Some(CloseCode::LoginExpired));
    assert_eq!(closed(eve), Some(CloseCode::NotAuthorised), "she may not have what she listens to");
    assert_eq!(closed(elsewhere), None);
    assert_eq!(closed(nobody), Some(CloseCode::LoginExpired));
    // His login had been verified before the change, and is answered after it.
    let late = login(&mut world, "bob", known(1));
    assert_eq!(world.clients[late].name, None);
    assert!(world.clients[late].refused.iter().any(|(_, code)| *code == CloseCode::LoginFailed));
    let new = login(&mut world, "ann", known(0));
    let token = world.publish(new, "topic:a", "2");
    world.quiesce();
    assert!(world.is_confirmed(new, token), "she has the groups of the configuration");
    // Her groups are what they are now.
    let token = world.publish(ann, "topic:a", "1");
    world.quiesce();
    assert!(world.is_confirmed(ann, token));
    let refused = world.publish(elsewhere, "topic:a", "1");
    world.quiesce();
    assert!(!world.is_confirmed(elsewhere, refused));
}

#[test]
fn a_name_that_was_believed_is_none_once_logins_are_verified() {
    let mut world = World::new(1, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let admin = connect(&mut world, "admin");
    let rules = Some(Rules::new(vec![rule(true, "**", "admin")]));
    world.change_access(AccessChange { verify_logins: true, rules, ..AccessChange::default() });
    world.review_all();
    assert_eq!(world.clients[admin].closed, Some(CloseCode::LoginExpired));
}

#[test]
fn many_sessions_are_looked_at_some_at_a_time_and_each_once() {
    let mut world = World::new(1, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let clients: Vec<_> = (0..5_000).map(|at| connect(&mut world, &format!("n{at}"))).collect();
    // One that has very many subscriptions, and ends of sessions between.
    for key in 0..6_000 {
        world.subscribe(clients[7], key, Wish::to(&format!("topic:t{key}")));
    }
    for client in clients.iter().step_by(3).skip(3) {
        world.close(*client);
    }
    world.quiesce();
    world.change_access(change(vec![rule(true, "**", "*")]));
    let (mut seen, mut turns) = (BTreeSet::new(), 0);
    while world.brokers[0].is_reviewing() {
        let reviewed = world.review(0);
        assert!(reviewed.len() <= 512, "{}", reviewed.len());
        turns += 1;
        for session in reviewed {
            assert!(seen.insert(session), "twice");
        }
    }
    assert!(turns >= 10, "{turns}");
    let open = world.clients.iter().filter(|client| client.open).count();
    assert_eq!(seen.len(), open);
}

#[test]
fn limits_of_backlogs_hold_from_then_on() {
    let mut world = World::new(1, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let limits = ClientLimits { backlog_bytes: 4096, ..ClientLimits::default() };
    let limit = LimitRule { who: vec![Who::All], per: LimitPer::User, limits };
    let ann = connect(&mut world, "ann");
    let session = world.clients[ann].session;
    world.change_access(AccessChange {
        limits: vec![limit.clone()],
        ..change(vec![rule(true, "**", "*")])
    });
    let broker = &world.brokers[0];
    let of: Vec<_> = broker.options().limits_of(broker.principal_of(session).unwrap()).collect();
    assert_eq!(of, [&limit]);
}

#[test]
fn a_consumer_of_another_nodes_queue_goes_on_with_other_rules_as_who_it_was() {
    let queues = vec![Pattern::parse("jobs/**").unwrap()];
    let upstream = UpstreamTopics { queues, write: true, ..upstream("source", &["fx/**"]) };
    let rules = |path: &str| vec![rule(true, path, "*")];
    let upstreams = vec![upstream];
    let base = options(0, Rules::new(rules("**")));
    let mut world = World::new(1, BrokerOptions { upstreams, ..base });
    let ann = connect(&mut world, "ann");
    world.subscribe(ann, 0, Wish::to("queue:jobs/a"));
    world.quiesce();
    world.change_access(change(rules("jobs/*")));
    world.review_all();
    assert_eq!(world.clients[ann].closed, None);
    world.change_access(change(rules("fx/*")));
    world.review_all();
    assert_eq!(world.clients[ann].closed, Some(CloseCode::NotAuthorised));
}
