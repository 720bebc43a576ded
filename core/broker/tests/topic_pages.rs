//! Topics listed a page at a time, over one to three shards: what a page holds, where it ends, and where the next one begins.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::cell::Cell;

use crate::support::asking::{
    answer, ask, create, fetch, listed, page, path, remove, tell, update,
};
use crate::support::{World, for_seeds};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::{Fetch, Operation, OperationResult};

fn world(seed: u64) -> World {
    World::new(seed, BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() })
}

/// All that a client lists of a selector, a page after another, and how long the pages were.
fn list_all(world: &mut World, client: usize, first: Fetch) -> (Vec<Path>, Vec<usize>) {
    let (mut found, mut sizes, mut after) = (Vec::new(), Vec::new(), None);
    loop {
        let page = page(world, client, Fetch { after, ..first.clone() });
        assert_eq!(page.more, page.next.is_some());
        found.extend(page.topics.iter().map(|entry| entry.path.clone()));
        sizes.push(page.topics.len());
        match page.next {
            Some(next) => after = Some(next),
            None => return (found, sizes),
        }
    }
}

#[test]
fn a_page_goes_on_where_the_last_one_ended() {
    for_seeds(0..24, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        let mut wanted: Vec<String> = (0..57).map(|n| format!("t/{}/{n}", n % 5)).collect();
        for name in &wanted {
            ask(&mut world, ann, update(name, "v", None));
        }
        ask(&mut world, ann, update("other", "v", None));
        world.quiesce();
        wanted.sort();
        let limit = 1 + world.random.below(20) as u32;
        let (found, sizes) = list_all(&mut world, ann, fetch("t/**", limit, None));
        assert!(sizes.iter().all(|&size| size <= limit as usize));
        assert_eq!(found.iter().map(Path::as_str).collect::<Vec<_>>(), wanted);
        let shallow = Fetch { depth: 2, ..fetch("t/**", 0, None) };
        let shallow = page(&mut world, ann, shallow);
        assert_eq!(listed(&shallow), ["t/0", "t/1", "t/2", "t/3", "t/4"]);
    });
}

#[test]
fn a_long_page_is_whole_although_it_comes_in_rounds() {
    for_seeds(0..9, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        let mut paths = std::collections::BTreeSet::new();
        for _ in 0..1_500 {
            let mut name = "t".to_owned();
            for _ in 0..2 + world.random.below(3) {
                name += ["/0", "/1", "/1-"][world.random.below(3)];
                name += &world.random.below(7).to_string();
            }
            ask(&mut world, ann, create(&name, "{}", None));
            paths.insert(path(&name));
        }
        world.quiesce();
        let all: Vec<Path> = paths.iter().cloned().collect();
        for limit in [128, 129, 300 + world.random.below(500) as u32, 0, 20_000] {
            let size = if limit == 0 { 1_000 } else { (limit as usize).min(1_000) };
            let depth = world.random.below(5);
            let shown = |path: &Path| {
                let levels: Vec<&str> = path.as_str().split('/').collect();
                let levels = levels.get(..depth).filter(|_| depth > 0).unwrap_or(&levels);
                self::path(&levels.join("/"))
            };
            let mut wanted: Vec<Path> = all.iter().map(shown).collect();
            wanted.sort();
            wanted.dedup();
            let first = Fetch { depth: depth as u32, ..fetch("t/**", limit, None) };
            let (found, sizes) = list_all(&mut world, ann, first);
            assert_eq!(found, wanted, "depth {depth}, {limit} a page");
            let (_, full) = sizes.split_last().unwrap();
            assert!(full.iter().all(|&of| of == size), "depth {depth}, {limit} a page: {sizes:?}");
        }
    });
}

#[test]
fn what_is_there_all_the_time_is_listed_once_whatever_comes_and_goes_meanwhile() {
    let (came, went) = (Cell::new(0), Cell::new(0));
    for_seeds(0..24, |seed| {
        let mut world = World::new(
            seed,
            BrokerOptions { shards: 2 + (seed % 2) as usize, ..BrokerOptions::default() },
        );
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        let stays: Vec<Path> = (0..600).map(|number| path(&format!("t/{number:03}"))).collect();
        let guests: Vec<Path> = (0..200).map(|number| path(&format!("t/{number:03}/x"))).collect();
        for topic in stays.iter().chain(&guests[..100]) {
            ask(&mut world, ann, create(topic.as_str(), "", None));
        }
        world.quiesce();
        let first = Operation::Fetch(Box::new(fetch("t/**", 0, None)));
        let token = ask(&mut world, ann, first);
        let mut passes = 0;
        while answer(&world, ann, token).is_none() {
            passes += 1;
            assert!(passes < 10_000, "the page does not come");
            if passes % 4 == 0 {
                let number = world.random.below(guests.len());
                let name = guests[number].as_str();
                let operation = if number < 100 { remove(name) } else { create(name, "", None) };
                ask(&mut world, bob, operation);
            }
            world.deliver_envelope();
            for shard in 0..world.brokers.len() {
                world.work(shard);
            }
            world.pull(ann);
        }
        let Some(Ok(OperationResult::Page(page))) = answer(&world, ann, token) else {
            panic!("no page")
        };
        assert!(!page.more);
        let listed: Vec<&Path> = page.topics.iter().map(|entry| &entry.path).collect();
        assert!(listed.is_sorted_by(|left, right| left < right), "nothing twice, all in order");
        came.set(came.get() + guests[100..].iter().filter(|it| listed.contains(it)).count());
        went.set(went.get() + guests[..100].iter().filter(|it| !listed.contains(it)).count());
        let found: Vec<Path> =
            listed.into_iter().filter(|topic| stays.contains(topic)).cloned().collect();
        assert_eq!(found, stays);
    });
    assert!(came.get() > 0 && went.get() > 0, "{came:?} {went:?}");
}

#[test]
fn a_home_makes_one_slice_in_a_turn_of_a_page() {
    let mut world = World::new(1, BrokerOptions { shards: 1, ..BrokerOptions::default() });
    let ann = world.connect(0, "ann");
    for number in 0..2_000 {
        ask(&mut world, ann, create(&format!("t/{number}"), "", None));
    }
    world.quiesce();
    let token = ask(&mut world, ann, Operation::Fetch(Box::new(fetch("t/**", 0, None))));
    let mut turns = 0;
    while answer(&world, ann, token).is_none() {
        turns += 1;
        assert!(turns < 1_000, "the page does not come");
        world.work(0);
        world.pull(ann);
    }
    // Of 1,000 topics, 128 a slice.
    assert_eq!(turns, 8);
}

#[test]
fn a_page_of_which_a_home_is_lost_between_rounds_is_refused() {
    let (whole, refused) = (Cell::new(0), Cell::new(0));
    for_seeds(0..40, |seed| {
        let mut world = World::new(seed, BrokerOptions { shards: 3, ..BrokerOptions::default() });
        let ann = world.connect(0, "ann");
        for number in 0..700 {
            ask(&mut world, ann, create(&format!("t/{number}"), "", None));
        }
        world.quiesce();
        let token = ask(&mut world, ann, Operation::Fetch(Box::new(fetch("t/**", 0, None))));
        for _ in 0..world.random.below(40) {
            world.deliver_envelope();
            world.work(0);
        }
        world.lose(1);
        world.quiesce();
        world.pull(ann);
        match answer(&world, ann, token) {
            Some(Ok(OperationResult::Page(page))) => {
                assert_eq!(page.topics.len(), 700);
                whole.set(whole.get() + 1);
            }
            Some(Err(code)) => {
                assert_eq!(code, CloseCode::PeerLost);
                refused.set(refused.get() + 1);
            }
            other => panic!("{other:?}"),
        }
    });
    assert!(whole.get() > 0 && refused.get() > 0, "{whole:?} {refused:?}");
}

#[test]
fn a_page_ends_when_it_is_many_bytes() {
    for seed in 0..3 {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        for number in 0..900 {
            let name = format!("t/{number:03}");
            ask(&mut world, ann, update(&name, &"v".repeat(3 << 10), None));
        }
        let schema =
            format!(r#"{{"type":"json","schema":{{"description":"{}"}}}}"#, "d".repeat(3 << 10));
        for number in 0..900 {
            ask(&mut world, ann, create(&format!("s/{number:03}"), &schema, None));
        }
        world.quiesce();
        for (selector, values) in [("t/**", true), ("s/**", false)] {
            let first = Fetch { values, ..fetch(selector, 0, None) };
            let (found, sizes) = list_all(&mut world, ann, first);
            assert_eq!(found.len(), 900);
            assert!(sizes.iter().all(|size| size * (3 << 10) <= (1 << 20)), "{sizes:?}");
            assert_eq!(sizes.len(), 3, "{sizes:?}");
            let bare = Fetch { values: false, specs: false, ..fetch(selector, 0, None) };
            assert_eq!(list_all(&mut world, ann, bare).1, [900]);
        }
    }
}

#[test]
fn a_page_ends_although_all_that_homes_look_at_is_hidden() {
    let rule = |who: &str, pattern: &str| Rule {
        allow: true,
        actions: [Action::Subscribe, Action::Create].into_iter().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(pattern).unwrap()],
        kind: None,
    };
    let rules = Rules::new(vec![rule("ann", "**"), rule("bob", "z/**")]);
    for shards in 1..=3 {
        let options = BrokerOptions { rules: rules.clone(), shards, ..BrokerOptions::default() };
        let mut world = World::new(1, options);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        for number in 0..10_000 {
            ask(&mut world, ann, create(&format!("a/{number}"), "", None));
        }
        let shown: Vec<Path> = (0..40).map(|number| path(&format!("z/{number}"))).collect();
        for topic in &shown {
            ask(&mut world, ann, create(topic.as_str(), "", None));
        }
        world.quiesce();
        let (found, sizes) = list_all(&mut world, bob, fetch("**", 0, None));
        let mut wanted = shown.clone();
        wanted.sort();
        assert_eq!(found, wanted);
        // At one home a page looks at 8,192 topics.
        assert_eq!(shards == 1, sizes == [0, 40], "{sizes:?}");
        let first = Fetch { depth: 1, ..fetch("**", 0, None) };
        assert_eq!(list_all(&mut world, bob, first).0, [path("z")]);
    }
}

#[test]
fn branches_are_listed_once_whatever_the_pages() {
    for_seeds(0..60, |seed| {
        let deny = Rule {
            allow: false,
            actions: [Action::Subscribe].into_iter().collect(),
            who: vec![Who::User("bob".into())],
            paths: vec![Pattern::parse("t/*/0/**").unwrap()],
            kind: None,
        };
        let allow = Rule {
            allow: true,
            actions: [Action::Subscribe, Action::Create].into_iter().collect(),
            who: vec![Who::All],
            paths: vec![Pattern::parse("**").unwrap()],
            kind: None,
        };
        let rules = Rules::new(vec![deny, allow]);
        let shards = 1 + (seed % 3) as usize;
        let mut world =
            World::new(seed, BrokerOptions { shards, rules, ..BrokerOptions::default() });
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        let mut paths = std::collections::BTreeSet::new();
        for _ in 0..60 {
            let mut name = "t".to_owned();
            for _ in 0..1 + world.random.below(4) {
                // A name that a byte before the separator ends stands behind all below the shorter one.
                name += ["/0", "/1", "/1-", "/2"][world.random.below(4)];
            }
            tell(&mut world, ann, create(&name, "{}", None)).unwrap();
            paths.insert(path(&name));
        }
        for (client, hides) in [(ann, false), (bob, true)] {
            let depth = 1 + world.random.below(4) as u32;
            let mut wanted: Vec<Path> = Vec::new();
            for path in &paths {
                let levels: Vec<&str> = path.as_str().split('/').collect();
                if hides && levels.get(2) == Some(&"0") {
                    continue;
                }
                let shown = levels.get(..depth as usize).unwrap_or(&levels).join("/");
                wanted.push(self::path(&shown));
            }
            wanted.sort();
            wanted.dedup();
            let limit = 1 + world.random.below(6) as u32;
            let first = Fetch { depth, ..fetch("t/**", limit, None) };
            let (found, _) = list_all(&mut world, client, first);
            assert_eq!(found, wanted, "depth {depth}, {limit} a page");
        }
    });
}
