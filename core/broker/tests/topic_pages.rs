//! Topics listed a page at a time, over one to three shards: what a page holds, where it ends, and where the next one begins.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use crate::support::asking::{ask, create, fetch, listed, page, path, tell, update};
use crate::support::{World, for_seeds};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::{Path, Pattern};
use tiderace_wire::Fetch;

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
fn a_page_ends_when_its_values_are_many_bytes() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    for number in 0..400 {
        ask(&mut world, ann, update(&format!("t/{number:03}"), &"v".repeat(8 << 10), None));
    }
    world.quiesce();
    let (found, sizes) = list_all(&mut world, ann, fetch("t/**", 0, None));
    assert_eq!(found.len(), 400);
    assert!(sizes.iter().all(|size| size * (8 << 10) <= (1 << 20) + (8 << 10)), "{sizes:?}");
    assert_eq!(sizes.len(), 4, "{sizes:?}");
    let bare = Fetch { values: false, ..fetch("t/**", 0, None) };
    assert_eq!(list_all(&mut world, ann, bare).1, [400]);
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
    let mut world = World::new(1, BrokerOptions { rules, ..BrokerOptions::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    for number in 0..9_000 {
        ask(&mut world, ann, create(&format!("a/{number}"), "", None));
    }
    ask(&mut world, ann, create("z/1", "", None));
    world.quiesce();
    let (found, sizes) = list_all(&mut world, bob, fetch("**", 0, None));
    assert_eq!(found, [path("z/1")]);
    assert_eq!(sizes, [0, 1]);
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
