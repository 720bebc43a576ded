//! Virtual hosts: tenants with the same names do not see one another, and who is in none sees them all.

use std::sync::Arc;

use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Browsable, Browse, BrowseCursor, Command, Condition, Credentials, DurableSubscription,
    ExchangeKey, Fetch, Flags, ListingEntry, MoveMessages, NamedHost, Operation, OperationResult,
    Outcome, Peek, QueueQuery, VirtualHost, VirtualHosts, durable_queue, properties,
};

use crate::support::asking::{ask, create, path, remove, tell, update};
use crate::support::{Outgoing, Wish, World, for_seeds, property};

const HOSTS: [&str; 2] = ["shop", "bank"];

fn hosts(is_closed: bool) -> VirtualHosts {
    let host = |name: &str| VirtualHost {
        name: name.into(),
        hosts: vec![format!("{name}.example").into()],
    };
    VirtualHosts::new(HOSTS.map(host).to_vec(), is_closed)
}

pub fn options(seed: u64) -> BrokerOptions {
    let shards = 1 + (seed % 3) as usize;
    BrokerOptions { shards, virtual_hosts: hosts(false), ..BrokerOptions::default() }
}

/// A client that names a host and logs in by a name.
pub fn connect(world: &mut World, login: &str, host: &str) -> usize {
    let shards = world.brokers.len();
    let shard = world.random.below(shards);
    let client = world.open(shard);
    let (login, host) = (Some(login.to_owned()), Some(host.to_owned()));
    let credentials = Credentials { login, host, ..Credentials::default() };
    world.command(client, Command::Login(credentials));
    client
}

/// One of each host, and one of the whole tree; all have one name.
pub fn three(world: &mut World) -> [usize; 3] {
    ["shop.example", "BANK.example:61613", "127.0.0.1"].map(|host| connect(world, "ann", host))
}

pub fn got(world: &mut World, client: usize) -> Vec<(String, String)> {
    world.quiesce();
    let received = std::mem::take(&mut world.clients[client].received);
    let mut got: Vec<_> = received.into_iter().map(|it| (it.path, it.body)).collect();
    got.sort();
    got
}

pub fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(path, body)| ((*path).to_owned(), (*body).to_owned())).collect()
}

#[test]
fn tenants_see_their_own_topics_and_who_is_in_none_sees_all() {
    for_seeds(0..12, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        for client in [shop, bank, all] {
            world.subscribe(client, 0, Wish::to("topic:**"));
            world.subscribe(client, 1, Wish::to("topic:fx/a"));
        }
        world.quiesce();
        for (client, body) in [(shop, "s"), (bank, "b"), (all, "w")] {
            world.publish(client, "topic:fx/a", body);
        }
        for (client, body) in [(shop, "s"), (bank, "b")] {
            assert_eq!(got(&mut world, client), pairs(&[("fx/a", body), ("fx/a", body)]));
        }
        let seen = got(&mut world, all);
        let whole = [("@bank/fx/a", "b"), ("@shop/fx/a", "s"), ("fx/a", "w"), ("fx/a", "w")];
        assert_eq!(seen, pairs(&whole));
        // Who tries to climb out stays below.
        for name in ["topic:@bank/fx/a", "topic:@shop/fx/a"] {
            world.publish(shop, name, "x");
        }
        assert_eq!(got(&mut world, bank), []);
        assert_eq!(got(&mut world, shop), pairs(&[("@bank/fx/a", "x"), ("@shop/fx/a", "x")]));
        assert_eq!(got(&mut world, all).len(), 2);
        world.publish(all, "topic:@bank/fx/a", "by hand");
        assert_eq!(got(&mut world, bank).len(), 2);
        world.end();
        world.sweep();
    });
}

#[test]
fn values_lists_and_locks_are_those_of_the_host() {
    for_seeds(0..9, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        for (client, body) in [(shop, "1"), (bank, "2")] {
            tell(&mut world, client, create("a/b/c", r#"{"type":"json"}"#, Some(body))).unwrap();
            tell(&mut world, client, Operation::Lock { name: path("l"), timeout: Span::ZERO })
                .unwrap();
            let held = Some(Condition::Locked(path("l")));
            tell(&mut world, client, update("a/b/c", body, held)).unwrap();
        }
        let mut fetch = |client: usize, depth| {
            let fetch = Fetch {
                selector: vec![Pattern::parse("**").unwrap()],
                after: Some(path("a")),
                limit: 10,
                depth,
                values: true,
                specs: false,
            };
            let page = tell(&mut world, client, Operation::Fetch(Box::new(fetch))).unwrap();
            let OperationResult::Page(page) = page else { panic!("{page:?}") };
            let value = |run: &tiderace_wire::Run| run.message(0).unwrap().body.to_vec();
            page.topics
                .iter()
                .map(|it| (it.path.to_string(), it.value.as_deref().map(value)))
                .collect::<Vec<_>>()
        };
        assert_eq!(fetch(shop, 0), [("a/b/c".to_owned(), Some(b"1".to_vec()))]);
        assert_eq!(fetch(bank, 0), [("a/b/c".to_owned(), Some(b"2".to_vec()))]);
        assert_eq!(fetch(bank, 2), [("a/b".to_owned(), None)]);
        assert_eq!(fetch(all, 0), []);
        let removed = tell(&mut world, shop, remove("**")).unwrap();
        assert!(matches!(removed, OperationResult::Removed { topics: 1 }), "{removed:?}");
        for operation in [Operation::Views, Operation::Sessions(Box::default())] {
            let refused = tell(&mut world, shop, operation).unwrap_err();
            assert_eq!(refused, CloseCode::NotAuthorised);
        }
        world.end();
    });
}

pub fn browse(world: &mut World, client: usize, what: Browsable) -> Result<Vec<String>, CloseCode> {
    let (mut from, mut names) = (BrowseCursor::default(), Vec::new());
    loop {
        let browse = Browse { what, from, limit: 0, patterns: Vec::new() };
        let page = tell(world, client, Operation::Browse(browse))?;
        let OperationResult::Listing(page) = page else { panic!("{page:?}") };
        for entry in page.entries {
            match entry {
                ListingEntry::Queue(queue) => names.push(queue.path.to_string()),
                ListingEntry::Service(service) => {
                    names.extend(service.names.iter().map(ToString::to_string));
                }
                ListingEntry::Session(session) => panic!("{session:?}"),
            }
        }
        let Some(next) = page.next else { break };
        from = next;
    }
    names.sort();
    Ok(names)
}

#[test]
fn queues_with_one_name_are_several_and_operations_stay_within() {
    for_seeds(0..12, |seed| {
        let mut options = options(seed);
        options.queue_default.redeliveries_max = 1;
        let mut world = World::new(seed, options);
        let [shop, bank, all] = three(&mut world);
        for (client, body) in [(shop, "s"), (bank, "b"), (all, "w")] {
            world.publish(client, "queue:jobs", body);
            world.publish(client, "queue:jobs", body);
        }
        world.quiesce();
        let found = browse(&mut world, shop, Browsable::Queues).unwrap();
        assert_eq!(found, ["jobs"]);
        let found = browse(&mut world, all, Browsable::Queues).unwrap();
        assert_eq!(found, ["@bank/jobs", "@shop/jobs", "jobs"]);
        let refused = browse(&mut world, shop, Browsable::Sessions);
        assert_eq!(refused, Err(CloseCode::NotAuthorised));

        // A message that fails is dead in its host, says where it was as its host does, and goes back there.
        world.subscribe(
            shop,
            0,
            Wish { explicit: true, window: Some(1), ..Wish::to("queue:jobs") },
        );
        world.quiesce();
        for _ in 0..2 {
            let message = world.clients[shop].received.pop().unwrap();
            assert_eq!((&*message.path, &*message.body), ("jobs", "s"));
            world.settle(shop, &message, Outcome::Reject);
            world.quiesce();
        }
        world.unsubscribe(shop, 0);
        world.quiesce();
        world.clients[shop].received.clear();
        let found = browse(&mut world, shop, Browsable::Queues).unwrap();
        assert_eq!(found, ["dlq/jobs", "jobs"]);
        let peek =
            Peek { path: path("dlq/jobs"), from: 0, limit: 0, body_bytes: 0, selector: None };
        let page = tell(&mut world, shop, Operation::Peek(Box::new(peek))).unwrap();
        let OperationResult::Messages(page) = page else { panic!("{page:?}") };
        let dead = page.messages[0].run.message(page.messages[0].place).unwrap();
        let origin = properties::find(dead.properties, "dead-letter-queue");
        assert_eq!(origin.as_deref(), Some("jobs"));
        let query = QueueQuery { path: path("jobs"), after: 0, limit: 0 };
        let shown = tell(&mut world, shop, Operation::Queue(query)).unwrap();
        let OperationResult::Queue(shown) = shown else { panic!("{shown:?}") };
        assert_eq!(shown.entry.path, path("jobs"));
        assert_eq!(shown.settings.dead_letter, Some(path("dlq/jobs")));
        // A forged origin leads nowhere else.
        let properties = "dead-letter-queue:@bank/jobs\n".to_owned();
        let forged = Outgoing { properties, ..Outgoing::new("forged") };
        world.publish_all(shop, "queue:dlq/jobs", &[forged]);
        world.quiesce();
        let redrive = MoveMessages {
            from: path("dlq/jobs"),
            to: None,
            redrive: true,
            selector: None,
            limit: None,
            up_to: None,
        };
        // Who sees the whole tree may do it as well.
        let (client, from) =
            if seed % 2 == 0 { (shop, "dlq/jobs") } else { (all, "@shop/dlq/jobs") };
        let redrive = MoveMessages { from: path(from), ..redrive };
        let moved = tell(&mut world, client, Operation::Move(Box::new(redrive))).unwrap();
        let OperationResult::Moved(moved) = moved else { panic!("{moved:?}") };
        assert_eq!((moved.messages, moved.kept), (2, 0));
        let found = browse(&mut world, shop, Browsable::Queues).unwrap();
        assert!(found.contains(&"@bank/jobs".to_owned()), "{found:?}");

        // What is moved, paused and purged is the own.
        let forth = MoveMessages {
            from: path("@bank/jobs"),
            to: Some(path("jobs")),
            redrive: false,
            selector: None,
            limit: None,
            up_to: None,
        };
        tell(&mut world, shop, Operation::Move(Box::new(forth))).unwrap();
        tell(&mut world, shop, Operation::PauseQueue { path: path("jobs"), on: true }).unwrap();
        world.subscribe(bank, 0, Wish::to("queue:jobs"));
        assert_eq!(got(&mut world, bank), pairs(&[("jobs", "b"), ("jobs", "b")]));
        let purge = Operation::Purge { path: path("jobs"), selector: None, up_to: None };
        let purged = tell(&mut world, shop, purge).unwrap();
        let is_all = matches!(purged, OperationResult::Purged { messages: 3, .. });
        assert!(is_all, "{purged:?}");
        world.subscribe(all, 0, Wish::to("queue:jobs"));
        assert_eq!(got(&mut world, all), pairs(&[("jobs", "w"), ("jobs", "w")]));
        world.end();
    });
}

#[test]
fn durable_subscriptions_of_one_name_gather_in_each_host() {
    for_seeds(0..12, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        let made = || DurableSubscription {
            queue: durable_queue("audit").unwrap(),
            topics: vec![Pattern::parse("fx/**").unwrap()],
            selector: None,
        };
        for client in [shop, bank, all] {
            tell(&mut world, client, Operation::CreateSubscription(Box::new(made()))).unwrap();
        }
        for (client, body) in [(shop, "s"), (bank, "b"), (all, "w")] {
            world.publish(client, "topic:fx/a", body);
        }
        world.quiesce();
        let found = browse(&mut world, bank, Browsable::Queues).unwrap();
        assert_eq!(found, ["dsub/audit"]);
        let found = browse(&mut world, all, Browsable::Queues).unwrap();
        assert_eq!(found, ["dsub/@bank/audit", "dsub/@shop/audit", "dsub/audit"]);
        for (client, body) in [(shop, "s"), (bank, "b"), (all, "w")] {
            world.subscribe(client, 0, Wish::to("queue:dsub/audit"));
            world.quiesce();
            let received = std::mem::take(&mut world.clients[client].received);
            let [message] = &received[..] else { panic!("{received:?}") };
            assert_eq!((&*message.path, &*message.body), ("dsub/audit", body));
            assert_eq!(property(message, "source-topic").as_deref(), Some("fx/a"));
        }
        let query = QueueQuery { path: path("dsub/audit"), after: 0, limit: 0 };
        let shown = tell(&mut world, shop, Operation::Queue(query)).unwrap();
        let OperationResult::Queue(shown) = shown else { panic!("{shown:?}") };
        assert_eq!(shown.entry.topics.as_deref(), Some("fx/**"));
        for client in [shop, bank, all] {
            world.unsubscribe(client, 0);
        }
        world.quiesce();
        let gone = Operation::DeleteSubscription { queue: durable_queue("audit").unwrap() };
        tell(&mut world, shop, gone).unwrap();
        let found = browse(&mut world, all, Browsable::Queues).unwrap();
        assert_eq!(found, ["dsub/@bank/audit", "dsub/audit"]);
        world.end();
    });
}

#[test]
fn calls_wills_and_private_topics_stay_in_their_host() {
    for_seeds(0..12, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        for client in [shop, bank] {
            world.subscribe(client, 0, Wish { window: Some(9), ..Wish::to("service:price") });
        }
        world.quiesce();
        assert_eq!(browse(&mut world, bank, Browsable::Services).unwrap(), ["price"]);
        let found = browse(&mut world, all, Browsable::Services).unwrap();
        assert_eq!(found, ["@bank/price", "@shop/price"]);
        let caller = connect(&mut world, "bob", "shop.example");
        world.call(caller, 1, "price", "how much?", true);
        world.quiesce();
        assert_eq!(world.clients[bank].heard, []);
        let heard = world.clients[shop].heard.pop().unwrap();
        assert_eq!((&*heard.path, &*heard.body), ("price", "how much?"));
        world.send_exchange(shop, heard.exchange.key, "7", true);
        world.quiesce();
        let answer = world.clients[caller].heard.pop().unwrap();
        assert_eq!((&*answer.path, &*answer.body), ("price", "7"));
        let deep = vec!["x"; tiderace_base::limits::PATH_DEPTH_MAX].join("/");
        world.call(caller, 2, &deep, "?", true);
        let ended = (ExchangeKey::caller(2), CloseCode::BadDestination);
        assert_eq!(world.clients[caller].ended, [ended]);
        world.publish(caller, &format!("topic:{deep}"), "?");
        world.subscribe(caller, 7, Wish::to(&format!("topic:{deep}")));
        let codes = world.clients[caller].refused.iter().map(|(_, code)| *code);
        assert_eq!(codes.collect::<Vec<_>>(), [CloseCode::BadDestination; 2]);

        // A will is published where its client was.
        world.subscribe(bank, 1, Wish::to("topic:gone"));
        world.subscribe(all, 1, Wish::to("topic:@shop/gone"));
        world.quiesce();
        let destination = crate::support::destination("topic:gone");
        let meta = tiderace_wire::Meta { flags: Flags::NONE, expires_ms: None };
        let will = tiderace_wire::Run::single(destination, world.now.time, b"", b"bye", meta);
        tell(&mut world, caller, Operation::Will(Some(Box::new(will)))).unwrap();
        world.close(caller);
        assert_eq!(got(&mut world, bank), []);
        assert_eq!(got(&mut world, all), pairs(&[("@shop/gone", "bye")]));

        // `~` is below the host, and private there, also from who sees the whole tree.
        let eve = connect(&mut world, "eve", "shop.example");
        let outside = connect(&mut world, "eve", "127.0.0.1");
        world.subscribe(shop, 3, Wish::to("topic:user/ann/inbox"));
        world.subscribe(bank, 3, Wish::to("topic:user/ann/inbox"));
        world.subscribe(outside, 0, Wish::to("topic:**"));
        let refused = world.subscribe(eve, 0, Wish::to("topic:user/ann/inbox"));
        let other = world.subscribe(outside, 1, Wish::to("topic:@shop/user/ann/inbox"));
        world.quiesce();
        for (client, token) in [(eve, refused), (outside, other)] {
            let last = world.clients[client].refused.pop();
            assert_eq!(last, Some((Some(token), CloseCode::NotAuthorised)));
        }
        world.publish(eve, "topic:user/ann/inbox", "hello");
        world.quiesce();
        world.clients[outside].received.retain(|message| !message.path.contains("gone"));
        assert_eq!(got(&mut world, shop), pairs(&[("user/ann/inbox", "hello")]));
        assert_eq!(got(&mut world, bank), []);
        assert_eq!(got(&mut world, outside), []);
        world.end();
    });
}

#[test]
fn temporary_destinations_are_the_sessions_and_take_replies_from_its_host() {
    for_seeds(0..9, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, _] = three(&mut world);
        let other = connect(&mut world, "bob", "shop.example");
        let own = format!("{}/r", world.temporary(shop));
        let token = world.subscribe(shop, 0, Wish::to(&format!("queue:{own}")));
        world.quiesce();
        assert!(world.is_confirmed(shop, token));
        world.publish(other, &format!("queue:{own}"), "reply");
        assert_eq!(got(&mut world, shop), pairs(&[(&own, "reply")]));
        let stolen = world.subscribe(bank, 0, Wish::to(&format!("queue:{own}")));
        world.quiesce();
        let refused = world.clients[bank].refused.pop();
        assert_eq!(refused, Some((Some(stolen), CloseCode::NotOwner)));
        world.end();
    });
}

#[test]
fn presence_and_what_is_missing_are_told_of_the_own_topics() {
    for_seeds(0..9, |seed| {
        let mut world = World::new(seed, options(seed));
        let [shop, bank, all] = three(&mut world);
        for client in [shop, bank] {
            tell(&mut world, client, create("room", r#"{"presence":true}"#, None)).unwrap();
            world.subscribe(client, 0, Wish::to("topic:$sys/presence/room/*"));
            world.subscribe(client, 1, Wish::to("topic:$sys/missing/**"));
        }
        world.quiesce();
        world.subscribe(shop, 2, Wish::to("topic:room"));
        world.subscribe(bank, 3, Wish::to("topic:nowhere"));
        world.quiesce();
        let shown: Vec<String> = got(&mut world, shop).into_iter().map(|(path, _)| path).collect();
        let session = world.clients[shop].session;
        assert_eq!(shown, [format!("$sys/presence/room/{session}")]);
        let missing: Vec<String> =
            got(&mut world, bank).into_iter().map(|(path, _)| path).collect();
        assert_eq!(missing, ["$sys/missing/nowhere"]);
        assert_eq!(got(&mut world, all), []);
        world.end();
    });
}

#[test]
fn nobody_gets_into_a_host_that_is_not_his_or_out_of_the_own() {
    let closed = || BrokerOptions { virtual_hosts: hosts(true), ..BrokerOptions::default() };
    let verifying = |mut options: BrokerOptions| {
        options.verify_logins = true;
        World::new(1, options)
    };
    let principal = |host: Option<&str>| {
        let host = host.map(Arc::from);
        Principal { host, ..Principal::named("ann") }
    };
    let login = |world: &mut World, host: Option<&str>, bound: Option<&str>| {
        let client = world.open(0);
        let host = host.map(str::to_owned);
        world.command(client, Command::Login(Credentials { host, ..Credentials::default() }));
        world.verified(client, Ok(principal(bound)));
        client
    };
    for (is_closed, named, bound, level) in [
        (false, Some("shop.example"), None, Some("@shop/a")),
        (false, Some("shop.example"), Some("shop"), Some("@shop/a")),
        (false, None, Some("shop"), Some("@shop/a")),
        (false, Some("bank.example"), Some("shop"), None),
        (false, Some("/"), Some("shop"), None),
        (false, Some("/"), None, Some("a")),
        (false, None, None, Some("a")),
        (true, Some("/"), None, None),
        (true, None, None, None),
        (true, Some("bank.example"), None, Some("@bank/a")),
        (true, Some("bank.example"), Some("*"), Some("a")),
    ] {
        let options = BrokerOptions { virtual_hosts: hosts(is_closed), ..closed() };
        let mut world = verifying(options);
        let watcher = login(&mut world, None, Some("*"));
        world.subscribe(watcher, 0, Wish::to("topic:**"));
        let client = login(&mut world, named, bound);
        world.publish(client, "topic:a", "x");
        let seen: Vec<String> = got(&mut world, watcher).into_iter().map(|(it, _)| it).collect();
        assert_eq!(seen.first().map(String::as_str), level, "{named:?} {bound:?}");
        let refused = world.clients[client].refused.first().map(|(_, code)| *code);
        let expected = level.is_none().then_some(CloseCode::WrongHost);
        assert_eq!(refused, expected, "{named:?} {bound:?}");
    }

    // The host of the request counts if the protocol names none, and neither counts after the login.
    let mut world = verifying(closed());
    let watcher = login(&mut world, None, Some("*"));
    world.subscribe(watcher, 0, Wish::to("topic:**"));
    let client = world.open(0);
    let session = world.clients[client].session;
    world.brokers[0].name_host(session, "shop.example:7800");
    world.command(client, Command::Login(Credentials::default()));
    world.verified(client, Ok(principal(None)));
    world.brokers[0].name_host(session, "bank.example");
    let host = Some("bank.example".to_owned());
    world.command(client, Command::Login(Credentials { host, ..Credentials::default() }));
    world.verified(client, Ok(principal(None)));
    world.publish(client, "topic:a", "x");
    assert_eq!(got(&mut world, watcher), pairs(&[("@shop/a", "x")]));
    assert_eq!(world.brokers[0].principal_name(session).as_deref(), Some("@shop/ann"));
    for bound in ["bank", "*"] {
        world.command(client, Command::Login(Credentials::default()));
        world.verified(client, Ok(principal(Some(bound))));
        let refused = world.clients[client].refused.pop();
        assert_eq!(refused, Some((None, CloseCode::WrongHost)), "{bound}");
    }
    world.publish(client, "topic:b", "y");
    assert_eq!(got(&mut world, watcher), pairs(&[("@shop/b", "y")]));
    assert_eq!(hosts(false).named("shop.example"), NamedHost::Known("shop".into()));
    let unanswered = ask(&mut world, client, Operation::Session);
    world.quiesce();
    assert!(world.clients[client].operated.contains_key(&unanswered));
}
