//! Lists of sessions, queues and services, over one to three shards: who may have them, page by page.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::asking::{connect, tell};
use crate::support::{Wish, World, for_seeds};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Browsable, Browse, BrowseCursor, Kind, Listing, ListingEntry, Operation, OperationResult,
};

/// Places that one page looks at, as the module says.
const LOOKED_AT_MAX: usize = 1_024;

fn rule(actions: &[Action], who: &str, path: &str, kind: Option<Kind>) -> Rule {
    Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(path).unwrap()],
        kind,
    }
}

/// `boss` does and sees all; `ann` may browse below `jobs`; `eve` works and may browse nothing.
fn world(seed: u64) -> World {
    use Action::{Browse, Call, Monitor, Receive, Send, Serve};
    let mut options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    options.rules = Rules::new(vec![
        rule(&[Browse, Call, Receive, Send, Serve], "boss", "**", None),
        rule(&[Browse], "boss", "$sys/sessions", Some(Kind::Topic)),
        rule(&[Browse], "ann", "jobs/**", None),
        rule(&[Call, Receive, Send, Serve], "eve", "**", None),
        rule(&[Monitor], "eve", "$sys/sessions", None),
    ]);
    World::new(seed, options)
}

fn page(world: &mut World, client: usize, browse: Browse) -> Result<Listing, CloseCode> {
    match tell(world, client, Operation::Browse(browse))? {
        OperationResult::Listing(page) => Ok(*page),
        other => panic!("{other:?}"),
    }
}

/// What an entry is told from others by.
fn name(entry: &ListingEntry) -> String {
    match entry {
        ListingEntry::Session(session) => format!("{:?} {}", session.id, session.name),
        ListingEntry::Queue(queue) => queue.path.to_string(),
        ListingEntry::Service(service) => service.names.join(" "),
    }
}

/// All pages of a list; `between` is done after each page.
fn all(
    world: &mut World,
    client: usize,
    what: Browsable,
    limit: u32,
    mut between: impl FnMut(&mut World),
) -> Vec<ListingEntry> {
    let mut from = BrowseCursor::default();
    let mut found = Vec::new();
    loop {
        let listing =
            page(world, client, Browse { what, from, limit, patterns: Vec::new() }).unwrap();
        assert_eq!(listing.what, what);
        assert!(
            listing.entries.len()
                <= Browse { what, from, limit, patterns: Vec::new() }.entries_max()
        );
        found.extend(listing.entries);
        between(world);
        match listing.next {
            Some(next) => assert!(std::mem::replace(&mut from, next) < next),
            None => return found,
        }
    }
}

fn names(entries: &[ListingEntry]) -> Vec<String> {
    let mut names: Vec<String> = entries.iter().map(name).collect();
    names.sort_unstable();
    names
}

#[test]
fn lists_show_what_the_rules_let_one_browse() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let [boss, ann, eve] = ["boss", "ann", "eve"].map(|name| connect(&mut world, name));
        for queue in ["jobs/a", "jobs/b", "orders", "user/eve/own"] {
            world.publish(eve, &format!("queue:{queue}"), "x");
        }
        world.subscribe(boss, 0, Wish::to("queue:jobs/a"));
        world.subscribe(eve, 1, Wish::to("service:jobs/print"));
        world.subscribe(eve, 2, Wish::to("service:scan"));
        world.subscribe(boss, 3, Wish::to("service:jobs/**"));
        world.quiesce();
        let shown = |world: &mut World, client, what| {
            names(&all(world, client, what, 0, |_| {})).join(", ")
        };
        assert_eq!(shown(&mut world, boss, Browsable::Queues), "jobs/a, jobs/b, orders");
        assert_eq!(shown(&mut world, ann, Browsable::Queues), "jobs/a, jobs/b");
        assert_eq!(shown(&mut world, boss, Browsable::Services), "jobs/**, jobs/print, scan");
        assert_eq!(shown(&mut world, ann, Browsable::Services), "jobs/**, jobs/print");
        assert_eq!(all(&mut world, boss, Browsable::Sessions, 0, |_| {}).len(), 3);
        assert_eq!(all(&mut world, eve, Browsable::Sessions, 0, |_| {}).len(), 3, "may monitor");
        for (client, what) in
            [(ann, Browsable::Sessions), (eve, Browsable::Queues), (eve, Browsable::Services)]
        {
            let browse =
                Browse { what, from: BrowseCursor::default(), limit: 0, patterns: Vec::new() };
            assert_eq!(page(&mut world, client, browse), Err(CloseCode::NotAuthorised));
        }
    });
}

#[test]
fn entries_say_how_each_stands() {
    let mut world = world(1);
    let (boss, eve) = (world.connect(0, "boss"), world.connect(0, "eve"));
    world.publish(eve, "queue:jobs/a", "12345");
    world.publish(eve, "queue:jobs/a", "12345");
    world.subscribe(eve, 0, Wish::to("service:scan"));
    world.quiesce();
    let queues = all(&mut world, boss, Browsable::Queues, 0, |_| {});
    let [ListingEntry::Queue(queue)] = &queues[..] else { panic!("{queues:?}") };
    assert_eq!((queue.messages, queue.consumers, queue.full), (2, 0, false));
    assert!(queue.bytes >= 10, "{queue:?}");
    let services = all(&mut world, boss, Browsable::Services, 0, |_| {});
    let [ListingEntry::Service(service)] = &services[..] else { panic!("{services:?}") };
    assert_eq!((service.session, service.open), (world.clients[eve].session, 0));
    assert!(service.prefetch > 0);
    let sessions = all(&mut world, boss, Browsable::Sessions, 0, |_| {});
    let of_eve = sessions.iter().find_map(|entry| match entry {
        ListingEntry::Session(session) if &*session.name == "eve" => Some(session.state),
        _ => None,
    });
    assert_eq!(of_eve.unwrap().subscriptions, 1);
}

#[test]
fn what_stays_is_listed_once_whatever_comes_and_goes() {
    for_seeds(0..40, |seed| {
        let mut world = world(seed);
        let boss = world.connect(0, "boss");
        let mut others: BTreeMap<usize, bool> = BTreeMap::new();
        for _ in 0..30 {
            let client = connect(&mut world, "eve");
            let stays = world.random.below(2) == 0;
            others.insert(client, stays);
        }
        world.quiesce();
        let mut going: Vec<usize> =
            others.iter().filter(|(_, stays)| !**stays).map(|(client, _)| *client).collect();
        let found = all(&mut world, boss, Browsable::Sessions, 3, |world| {
            if let Some(client) = going.pop() {
                world.close(client);
            }
            connect(world, "eve");
            world.quiesce();
        });
        let mut seen = BTreeSet::new();
        for entry in &found {
            assert!(seen.insert(name(entry)), "listed twice: {entry:?}");
        }
        for (client, stays) in others {
            let id = world.clients[client].session;
            assert!(!stays || seen.contains(&format!("{id:?} eve")), "left out: {id:?}");
        }
    });
}

#[test]
fn a_page_looks_at_a_bounded_part_and_holds_bounded_bytes() {
    let mut world = World::new(3, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let boss = world.connect(0, "boss");
    let long = "x".repeat(400);
    for queue in 0..3 * LOOKED_AT_MAX {
        world.publish(boss, &format!("queue:{long}/{queue}"), "x");
        if queue % 64 == 0 {
            world.quiesce();
        }
    }
    world.quiesce();
    let from = BrowseCursor::default();
    let browse = Browse { what: Browsable::Queues, from, limit: u32::MAX, patterns: Vec::new() };
    let first = page(&mut world, boss, browse).unwrap();
    let bytes: usize = first.entries.iter().map(ListingEntry::bytes).sum();
    assert!(bytes <= (64 << 10) + 1_024, "{bytes} bytes");
    assert!(first.next.is_some());
    // Sessions that have gone leave places at which nothing is: pages are empty there, and go on.
    let clients: Vec<usize> = (0..2 * LOOKED_AT_MAX).map(|_| world.connect(0, "eve")).collect();
    world.quiesce();
    let last = world.connect(0, "last");
    clients.into_iter().for_each(|client| world.close(client));
    world.quiesce();
    let mut pages = 0;
    let found = all(&mut world, boss, Browsable::Sessions, 0, |_| pages += 1);
    assert_eq!(found.len(), 2);
    assert!(found.iter().any(|entry| name(entry).ends_with("last")), "{last}: {found:?}");
    assert_eq!(pages, 1 + 2 * LOOKED_AT_MAX / LOOKED_AT_MAX);
}

#[test]
fn a_page_asks_the_rules_for_a_bounded_number_of_names() {
    let mut world = world(0);
    let [boss, ann, eve] = ["boss", "ann", "eve"].map(|name| connect(&mut world, name));
    let names = |number: usize| (0..64).map(move |at| format!("service:{number}/{at}")).collect();
    for number in 0..2 * LOOKED_AT_MAX / 64 {
        let wish = Wish { targets: names(number), ..Wish::default() };
        world.subscribe(eve, number as u32, wish);
    }
    world.quiesce();
    // Nothing may be shown, but for that the rules are asked for each name.
    let from = BrowseCursor::default();
    let browse = Browse { what: Browsable::Services, from, limit: 0, patterns: Vec::new() };
    let first = page(&mut world, ann, browse).unwrap();
    assert_eq!((first.entries.len(), first.next.is_some()), (0, true));
    let found = all(&mut world, boss, Browsable::Services, 0, |_| {});
    assert_eq!(found.len(), 2 * LOOKED_AT_MAX / 64);
}

#[test]
fn a_cursor_that_leads_nowhere_is_refused_or_the_end() {
    let mut world = world(0);
    let boss = world.connect(0, "boss");
    let at = |shard, slot| BrowseCursor { shard: tiderace_base::ShardId(shard), slot };
    let browse = |from| Browse { what: Browsable::Queues, from, limit: 0, patterns: Vec::new() };
    let refused = page(&mut world, boss, browse(at(9, 0)));
    assert_eq!(refused, Err(CloseCode::BadOperation));
    let behind = page(&mut world, boss, browse(at(0, u32::MAX))).unwrap();
    assert_eq!((behind.entries, behind.next), (vec![], None));
}
