//! Virtual hosts: what leads out of one is refused, and what does not belong to it is told to nobody there.

#![allow(clippy::unwrap_used)]

use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, DurableOptions, Principal, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Browsable, Command, Credentials, DurableSubscription, Fetch, MoveMessages, Operation,
    OperationResult, Outcome, Peek, durable_queue, properties,
};

use crate::support::asking::{create, path, tell};
use crate::support::{Outgoing, Wish, World, for_seeds};
use crate::virtual_hosts::{browse, connect, got, options, pairs, three};

fn subscription(name: &str, topics: &str) -> Operation {
    let topics = vec![Pattern::parse(topics).unwrap()];
    let queue = durable_queue(name).unwrap();
    Operation::CreateSubscription(Box::new(DurableSubscription { queue, topics, selector: None }))
}

fn fetch(selector: &str) -> Operation {
    let selector = vec![Pattern::parse(selector).unwrap()];
    let (values, specs) = (true, false);
    Operation::Fetch(Box::new(Fetch { selector, after: None, limit: 0, depth: 0, values, specs }))
}

fn move_all(from: &str, to: Option<&str>) -> Operation {
    Operation::Move(Box::new(MoveMessages {
        from: path(from),
        to: to.map(path),
        redrive: to.is_none(),
        selector: None,
        limit: None,
        up_to: None,
    }))
}

#[test]
fn no_pattern_of_a_host_is_told_who_is_in_another_or_what_is_missing_there() {
    for_seeds(0..6, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        tell(&mut world, bank, create("room", r#"{"presence":true}"#, None)).unwrap();
        world.subscribe(bank, 0, Wish::to("topic:room"));
        let open = [
            "$sys/*/@bank/**",
            "$sys/*/**",
            "$sys/m*/**",
            "$sys/*e/@bank/room/*",
            r"?\$sys/(presence|missing)/@bank/.*",
            r"?\$sys/.*/.*/**",
            "$sys/**",
        ];
        for (pattern, key) in open.into_iter().zip((10..).step_by(2)) {
            let target = format!("topic:{pattern}");
            world.subscribe(shop, key, Wish::to(&target));
            world.subscribe(shop, key + 1, Wish { notices: true, ..Wish::to(&target) });
            for operation in [fetch(pattern), subscription("all", pattern)] {
                let refused = tell(&mut world, shop, operation).unwrap_err();
                assert_eq!(refused, CloseCode::BadDestination, "{pattern}");
            }
        }
        // What is spelled out is of the own host, and a first level that is not is no way below $sys.
        for (pattern, key) in
            ["$sys/presence/**", "$sys/missing/@bank/**", "**", "*/*/**"].into_iter().zip(100..)
        {
            let target = format!("topic:{pattern}");
            world.subscribe(shop, key, Wish { notices: true, ..Wish::to(&target) });
            tell(&mut world, shop, subscription(&format!("s{key}"), pattern)).unwrap();
            let page = tell(&mut world, shop, fetch(pattern)).unwrap();
            assert!(matches!(&page, OperationResult::Page(page) if page.topics.is_empty()));
        }
        world.quiesce();
        world.subscribe(bank, 1, Wish::to("topic:nowhere"));
        world.subscribe(bank, 2, Wish::to("topic:room"));
        world.quiesce();
        let told = &world.clients[shop];
        assert_eq!(told.refused.len(), 4 * open.len());
        assert!(told.refused.iter().all(|(_, code)| *code == CloseCode::BadDestination));
        assert!(told.received.is_empty(), "{:?}", told.received);
        assert!(told.notices.iter().all(|notice| !notice.path.contains("bank")));
        for key in 100..104 {
            let peek = Peek {
                path: path(&format!("dsub/s{key}")),
                from: 0,
                limit: 0,
                body_bytes: 0,
                selector: None,
            };
            let page = tell(&mut world, shop, Operation::Peek(Box::new(peek))).unwrap();
            let OperationResult::Messages(page) = page else { panic!("{page:?}") };
            assert_eq!(page.messages.len(), 0, "{key}");
        }
        // Who sees the whole tree asks for all.
        tell(&mut world, all, fetch("$sys/**")).unwrap();
        world.end();
    });
}

#[test]
fn the_level_of_a_host_by_itself_is_told_to_nobody_there() {
    for_seeds(0..6, |seed| {
        // Users may be bound to a host that the configuration has no names for, where the level may be named.
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(
            seed,
            BrokerOptions { shards, verify_logins: true, ..BrokerOptions::default() },
        );
        let mut login = |host: Option<&str>| {
            let client = world.open(0);
            world.command(client, Command::Login(Credentials::default()));
            let host = host.map(Into::into);
            let name: std::sync::Arc<str> = "ann".into();
            let ann = Principal { host, ..Principal::named(name) };
            world.verified(client, Ok(ann));
            client
        };
        let (shop, all) = (login(Some("shop")), login(None));
        world.subscribe(shop, 0, Wish { notices: true, ..Wish::to("topic:**") });
        world.subscribe(shop, 1, Wish::to("queue:**"));
        tell(&mut world, shop, subscription("audit", "**")).unwrap();
        for name in ["@shop", "@shop/a"] {
            tell(&mut world, all, create(name, "{}", Some("1"))).unwrap();
            world.publish(all, &format!("topic:{name}"), "2");
        }
        world.publish(all, "queue:@shop", "3");
        world.publish(all, "queue:@shop/a", "4");
        let told = got(&mut world, shop);
        assert!(told.contains(&("a".to_owned(), "2".to_owned())), "{told:?}");
        assert!(told.contains(&("a".to_owned(), "4".to_owned())), "{told:?}");
        assert!(told.iter().all(|(name, _)| !name.contains("shop")), "{told:?}");
        assert!(world.clients[shop].notices.iter().all(|notice| !notice.path.contains("shop")));
        let page = tell(&mut world, shop, fetch("**")).unwrap();
        let OperationResult::Page(page) = page else { panic!("{page:?}") };
        let names: Vec<&str> = page.topics.iter().map(|topic| topic.path.as_str()).collect();
        assert_eq!(names, ["a"]);
        world.subscribe(shop, 2, Wish::to("queue:dsub/audit"));
        let gathered = got(&mut world, shop);
        assert!(gathered.iter().all(|(_, body)| body != "3"), "{gathered:?}");
        assert!(gathered.len() <= 2, "{gathered:?}");
        world.end();
    });
}

#[test]
fn names_that_would_be_others_in_a_host_are_refused_in_the_whole_tree() {
    let mut world = World::new(1, options(1));
    let [shop, _, all] = three(&mut world);
    for (name, is_refused) in [
        ("topic:@shop", true),
        ("queue:@shop", true),
        ("queue:@shop/dsub/a", true),
        ("queue:dsub/@shop", true),
        ("topic:@shop/temp/a/b", true),
        ("topic:@shop/$sys/a", true),
        ("topic:@ann", false),
        ("topic:@shop/a", false),
        ("queue:dsub/@shop/a", false),
    ] {
        world.publish(all, name, "x");
        world.subscribe(all, 7, Wish::to(name));
        world.quiesce();
        let refused = std::mem::take(&mut world.clients[all].refused);
        let is_bad = |code: &CloseCode| *code == CloseCode::BadDestination;
        let bad = refused.iter().filter(|(_, code)| is_bad(code)).count();
        assert_eq!(bad > 0, is_refused, "{name}: {refused:?}");
    }
    for operation in [create("@shop", "{}", None), move_all("a", Some("@shop/dsub/a"))] {
        assert_eq!(tell(&mut world, all, operation).unwrap_err(), CloseCode::BadDestination);
    }
    // In a host the same text is a name like others.
    world.subscribe(shop, 0, Wish::to("topic:@shop"));
    world.publish(shop, "topic:@shop", "x");
    assert_eq!(got(&mut world, shop), pairs(&[("@shop", "x")]));
}

#[test]
fn dead_letters_that_are_moved_out_of_their_host_go_back_into_it() {
    for_seeds(0..9, |seed| {
        let mut options = options(seed);
        options.queue_default.redeliveries_max = 1;
        let mut world = World::new(seed, options);
        let [shop, bank, all] = three(&mut world);
        world.publish(shop, "queue:jobs", "dead");
        let explicit = Wish { explicit: true, window: Some(1), ..Wish::to("queue:jobs") };
        world.subscribe(shop, 0, explicit);
        for _ in 0..2 {
            world.quiesce();
            let message = world.clients[shop].received.pop().unwrap();
            world.settle(shop, &message, Outcome::Reject);
        }
        world.quiesce();
        world.unsubscribe(shop, 0);
        let forged = |name: &str| {
            let properties = format!("dead-letter-queue:{name}\ndead-letter-queue:x\n");
            Outgoing { properties, ..Outgoing::new("forged") }
        };
        world.publish_all(shop, "queue:dlq/jobs", &[forged("@bank/jobs")]);
        world.quiesce();
        let origins = |world: &mut World, queue: &str| {
            let path = path(queue);
            let peek = Peek { path, from: 0, limit: 0, body_bytes: 0, selector: None };
            let page = tell(world, all, Operation::Peek(Box::new(peek))).unwrap();
            let OperationResult::Messages(page) = page else { panic!("{page:?}") };
            let messages = page.messages.iter().map(|it| it.run.message(it.place).unwrap());
            messages
                .map(|it| properties::find(it.properties, "dead-letter-queue").map(String::from))
                .collect::<Vec<_>>()
        };
        let some = |name: &str| Some(name.to_owned());
        tell(&mut world, all, move_all("@shop/dlq/jobs", Some("archive"))).unwrap();
        assert_eq!(origins(&mut world, "archive"), [some("@shop/jobs"), some("@shop/@bank/jobs")]);
        match seed % 3 {
            0 => {}
            // Back in their host they say so as they did.
            1 => {
                tell(&mut world, all, move_all("archive", Some("@shop/again"))).unwrap();
                assert_eq!(origins(&mut world, "@shop/again"), [some("jobs"), some("@bank/jobs")]);
                tell(&mut world, all, move_all("@shop/again", Some("archive"))).unwrap();
            }
            // In another host there is no name for where they were.
            _ => {
                tell(&mut world, all, move_all("archive", Some("@bank/other"))).unwrap();
                assert_eq!(origins(&mut world, "@bank/other"), [None, None]);
                world.end();
                return;
            }
        }
        tell(&mut world, all, move_all("archive", None)).unwrap();
        let mut queues = browse(&mut world, all, Browsable::Queues).unwrap();
        queues.retain(|name| name.ends_with("jobs"));
        assert!(!queues.contains(&"jobs".to_owned()), "{queues:?}");
        assert!(!queues.contains(&"@bank/jobs".to_owned()), "{queues:?}");
        for (client, name, bodies) in [(shop, "jobs", &[("jobs", "dead")][..]), (bank, "jobs", &[])]
        {
            world.subscribe(client, 1, Wish::to(&format!("queue:{name}")));
            assert_eq!(got(&mut world, client), pairs(bodies));
        }
        world.end();
    });
}

#[test]
fn nobody_logs_in_under_the_name_of_the_server() {
    for host in ["", "shop.example"] {
        let mut world = World::new(1, options(1));
        let client = connect(&mut world, "*", host);
        world.publish(client, "topic:$sys/a", "x");
        world.quiesce();
        let refused: Vec<_> = world.clients[client].refused.iter().map(|(_, code)| *code).collect();
        assert_eq!(refused.first(), Some(&CloseCode::LoginFailed), "{host:?}");
        assert_eq!(world.clients[client].name, None);
    }
}

#[test]
fn durable_subscriptions_of_one_name_are_counted_for_each_host() {
    let durables = DurableOptions { per_principal_max: 1, ..DurableOptions::default() };
    let mut world = World::new(0, BrokerOptions { durables, ..options(0) });
    for client in three(&mut world) {
        tell(&mut world, client, subscription("one", "a")).unwrap();
        let second = tell(&mut world, client, subscription("two", "a"));
        assert_eq!(second.unwrap_err(), CloseCode::TooManySubscriptions);
    }
}

#[test]
fn an_owner_is_one_of_the_host_of_the_topic() {
    let mut world = World::new(1, options(1));
    let [shop, _, all] = three(&mut world);
    let owned = r#"{"owner":"ann"}"#;
    tell(&mut world, shop, create("a", owned, Some("1"))).unwrap();
    tell(&mut world, shop, create("user/ann/a", "{}", Some("1"))).unwrap();
    // Nobody owns what is private to another, there as elsewhere.
    for (client, name) in [(shop, "user/bob/a"), (all, "@shop/user/bob/b"), (all, "user/bob/c")] {
        for owner in [owned, r#"{"owner":"cat"}"#] {
            let refused = tell(&mut world, client, create(name, owner, Some("1")));
            assert_eq!(refused.unwrap_err(), CloseCode::NotAuthorised, "{name} {owner}");
        }
    }

    let rule = |allow, action, paths: &[&str]| Rule {
        allow,
        actions: match action {
            Some(action) => [action].into_iter().collect(),
            None => Action::ALL.into_iter().map(|(_, action)| action).collect(),
        },
        who: vec![Who::All],
        paths: paths.iter().map(|text| Pattern::parse(text).unwrap()).collect(),
        kind: None,
    };
    let rules = vec![rule(true, None, &[]), rule(false, Some(Action::Publish), &["**"])];
    let mut world = World::new(1, BrokerOptions { rules: Rules::new(rules), ..options(1) });
    let [shop, _, all] = three(&mut world);
    tell(&mut world, shop, create("a", owned, None)).unwrap();
    tell(&mut world, all, create("a", owned, None)).unwrap();
    for (client, name, is_owner) in
        [(shop, "topic:a", true), (all, "topic:@shop/a", false), (all, "topic:a", true)]
    {
        world.publish(client, name, "x");
        world.quiesce();
        let refused = world.clients[client].refused.pop().map(|(_, code)| code);
        assert_eq!(refused, (!is_owner).then_some(CloseCode::NotAuthorised), "{name}");
    }
}
