//! What is told of one topic, over one to three shards: what its home keeps, and how many subscriptions there are.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::support::asking::{connect, create, path, tell};
use crate::support::upstream::upstream;
use crate::support::{Wish, World, for_seeds};
use tiderace_base::CloseCode;
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{Fetch, Operation, OperationResult, TopicDetails};

fn rule(actions: &[Action], who: &str, path: &str) -> Rule {
    Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(path).unwrap()],
        kind: None,
    }
}

/// `boss` does all; `eve` may subscribe to what is not hidden and browse nothing; `oli` may browse below `fx` and subscribe to nothing.
fn world(seed: u64) -> World {
    use Action::{Browse, Create, Publish, Subscribe};
    let mut options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    options.rules = Rules::new(vec![
        rule(&[Browse, Create, Publish, Subscribe], "boss", "**"),
        rule(&[Subscribe], "eve", "fx/*"),
        rule(&[Browse], "oli", "fx/**"),
    ]);
    World::new(seed, options)
}

fn shown(world: &mut World, client: usize, topic: &str) -> Result<TopicDetails, CloseCode> {
    match tell(world, client, Operation::Topic { path: path(topic) })? {
        OperationResult::Topic(topic) => Ok(*topic),
        other => panic!("{other:?}"),
    }
}

fn counts(world: &mut World, client: usize, topic: &str) -> (bool, u64, u64) {
    let topic = shown(world, client, topic).unwrap();
    (topic.entry.is_some(), topic.exact, topic.by_pattern)
}

#[test]
fn subscriptions_of_all_shards_are_counted_by_the_way_in_which_they_name_a_topic() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let boss = connect(&mut world, "boss");
        // On whatever shards: each has some of them.
        let eves: Vec<usize> = (0..5).map(|_| connect(&mut world, "eve")).collect();
        for eve in &eves {
            world.subscribe(*eve, 0, Wish::to("topic:fx/a"));
            world.subscribe(*eve, 1, Wish::to("topic:**"));
        }
        world.subscribe(boss, 0, Wish::to("topic:fx/**"));
        world.quiesce();
        // It is not there yet, and nobody has looked for who listens to it.
        assert_eq!(counts(&mut world, boss, "fx/a"), (false, 5, 6));
        // What eve may not see is not brought to her.
        assert_eq!(counts(&mut world, boss, "fx/deep/b"), (false, 0, 1));
        tell(&mut world, boss, create("fx/a", "{}", Some("1.5"))).unwrap();
        let topic = shown(&mut world, boss, "fx/a").unwrap();
        let entry = topic.entry.unwrap();
        assert_eq!((topic.exact, topic.by_pattern, entry.version), (5, 6, 1));
        assert!(entry.spec.is_some() && entry.value.is_some());
        world.unsubscribe(eves[0], 0);
        world.close(eves[1]);
        world.quiesce();
        assert_eq!(counts(&mut world, boss, "fx/a"), (true, 3, 5));
    });
}

#[test]
fn who_may_browse_a_topic_sees_all_but_its_value() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let [boss, eve, oli] = ["boss", "eve", "oli"].map(|name| connect(&mut world, name));
        for topic in ["fx/a", "fx/deep/b", "other"] {
            tell(&mut world, boss, create(topic, "{}", Some("1"))).unwrap();
        }
        assert_eq!(counts(&mut world, oli, "fx/a"), (true, 0, 0));
        for (client, topic) in [(eve, "fx/a"), (oli, "other"), (oli, "$sys/sessions")] {
            let refused = shown(&mut world, client, topic).unwrap_err();
            assert_eq!(refused, CloseCode::NotAuthorised, "{topic}");
        }
        let mut listed = |client, values| {
            let selector = vec![Pattern::parse("**").unwrap()];
            let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values, specs: true };
            let Ok(OperationResult::Page(page)) =
                tell(&mut world, client, Operation::Fetch(Box::new(fetch)))
            else {
                panic!("a page")
            };
            let paths = page.topics.iter().map(|entry| entry.path.to_string());
            paths.collect::<Vec<String>>().join(" ")
        };
        assert_eq!([listed(oli, false), listed(oli, true)], ["fx/a fx/deep/b", ""]);
        assert_eq!([listed(eve, false), listed(eve, true)], ["fx/a", "fx/a"]);
    });
}

#[test]
fn what_comes_from_an_upstream_is_named_as_that_with_the_subscriptions_here() {
    let upstreams = vec![upstream("source", &["fx/**"])];
    let mut world =
        World::new(1, BrokerOptions { epoch: 1, upstreams, ..BrokerOptions::default() });
    let ann = connect(&mut world, "ann");
    world.subscribe(ann, 1, Wish::to("topic:fx/a"));
    world.quiesce();
    let topic = shown(&mut world, ann, "fx/a").unwrap();
    assert_eq!((topic.upstream.as_deref(), topic.exact), (Some("source"), 1));
    assert_eq!(shown(&mut world, ann, "own").unwrap().upstream, None);
}
