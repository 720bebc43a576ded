//! Operations on topics, over one to three shards: what is created, changed, listed, locked, removed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;

use crate::support::asking::{answer, ask, create, fetch, listed, page, path, tell, update};
use crate::support::{Outgoing, Wish, World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{Action, BrokerOptions, Rule, Rules, Who};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Change, Comparison, Condition, Destination, Flags, Kind, Meta, NewValue, Operation,
    OperationResult, Run, Token, Update, ValueType,
};

fn world(seed: u64) -> World {
    World::new(seed, BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() })
}

fn version(result: Result<OperationResult, CloseCode>) -> Result<u64, CloseCode> {
    match result? {
        OperationResult::Updated { version } => Ok(version),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_topic_is_created_once_and_holds_what_it_says() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        let spec = r#"{"type":"json","retain":true}"#;
        let made = tell(&mut world, ann, create("a/b", spec, Some("[1]")));
        assert!(matches!(made, Ok(OperationResult::Created { existed: false })), "{made:?}");
        let again = tell(&mut world, ann, create("a/b", spec, None));
        assert!(matches!(again, Ok(OperationResult::Created { existed: true })), "{again:?}");
        let other = tell(&mut world, ann, create("a/b", r#"{"type":"string"}"#, None));
        assert_eq!(other.unwrap_err(), CloseCode::TopicExists);
        let wrong = tell(&mut world, ann, create("a/c", r#"{"typ":"string"}"#, None));
        assert_eq!(wrong.unwrap_err(), CloseCode::BadSpecification);
        let reserved = tell(&mut world, ann, create("$sys/mine", "", None));
        assert_eq!(reserved.unwrap_err(), CloseCode::TopicReadOnly);

        let bad = world.publish(ann, "topic:a/b", "{");
        let good = world.publish(ann, "topic:a/b", "[2]");
        world.quiesce();
        assert!(!world.is_confirmed(ann, bad) && world.is_confirmed(ann, good));
        assert_eq!(world.clients[ann].refused.last().unwrap().1, CloseCode::BadValue);
        // A number in CBOR, which happens to be one in JSON.
        let said = |kind: &str| Outgoing {
            properties: format!("content-type:{kind}\n"),
            ..Outgoing::new("1")
        };
        let cbor = world.publish_all(ann, "topic:a/b", &[said("application/cbor")]);
        let bytes = world.publish_all(ann, "topic:x/d", &[said("application/cbor")]);
        world.quiesce();
        assert!(!world.is_confirmed(ann, cbor), "a topic of type json does not take it");
        assert!(world.is_confirmed(ann, bytes), "one of any type does");
        let page = page(&mut world, ann, fetch("a/**", 0, None));
        assert_eq!(listed(&page), ["a/b"]);
        let entry = &page.topics[0];
        assert_eq!(entry.spec.as_ref().unwrap().value, ValueType::Json);
        assert_eq!(entry.value.as_ref().unwrap().message(0).unwrap().body, b"[2]");
        assert_eq!(entry.version, entry.value.as_ref().unwrap().version());
    });
}

#[test]
fn updates_depend_on_what_the_topic_is() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        let at = |version| Some(Condition::Version(version));
        let first =
            version(tell(&mut world, ann, update("x", "1", Some(Condition::Absent)))).unwrap();
        let taken = version(tell(&mut world, ann, update("x", "2", Some(Condition::Absent))));
        assert_eq!(taken, Err(CloseCode::ConditionFailed));
        let second = version(tell(&mut world, ann, update("x", "2", at(first)))).unwrap();
        assert_eq!(second, first + 1);
        let stale = version(tell(&mut world, ann, update("x", "3", at(first))));
        assert_eq!(stale, Err(CloseCode::ConditionFailed));
        let both = Condition::All(vec![
            Condition::Present,
            Condition::Any(vec![Condition::Version(first), Condition::Value(b"2"[..].into())]),
        ]);
        assert_eq!(version(tell(&mut world, ann, update("x", "4", Some(both)))), Ok(second + 1));
        let patch = Update {
            path: path("nothing"),
            change: Change::Merge(b"{}"[..].into()),
            properties: None,
            flags: Flags::NONE,
            condition: None,
            spec: None,
        };
        let nothing = tell(&mut world, ann, Operation::Update(Box::new(patch)));
        assert_eq!(nothing.unwrap_err(), CloseCode::TopicUnknown);
    });
}

#[test]
fn removed_topics_are_gone_and_their_listeners_hear_it() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        for name in ["a/1", "a/2", "b/1"] {
            ask(&mut world, ann, create(name, r#"{"type":"int64"}"#, Some("7")));
        }
        world.subscribe(bob, 0, Wish::to("topic:**"));
        world.quiesce();
        assert_eq!(world.clients[bob].received.len(), 3);
        let selector = vec![Pattern::parse("a/**").unwrap()];
        let removed = tell(&mut world, ann, Operation::Remove { selector: selector.clone() });
        assert!(matches!(removed, Ok(OperationResult::Removed { topics: 2 })), "{removed:?}");
        let last: Vec<_> =
            world.clients[bob].received[3..].iter().map(|m| m.path.clone()).collect();
        assert_eq!(last.len(), 2, "{last:?}");
        assert_eq!(listed(&page(&mut world, ann, fetch("**", 0, None))), ["b/1"]);
        let again = tell(&mut world, ann, Operation::Remove { selector });
        assert!(matches!(again, Ok(OperationResult::Removed { topics: 0 })));
        // What it held values to is gone with it.
        assert!(version(tell(&mut world, ann, update("a/1", "no number", None))).is_ok());
        let reads = world.clients[bob].received.last().unwrap().body.clone();
        assert_eq!(reads, "no number");
    });
}

#[test]
fn a_lock_has_one_holder_and_passes_on_in_order() {
    for_seeds(0..24, |seed| {
        let mut world = world(seed);
        let shards = world.brokers.len();
        let lock = |timeout| Operation::Lock { name: path("leader"), timeout };
        let sessions: Vec<usize> = (0..4).map(|n| world.connect(n % shards, "ann")).collect();
        let fence = |world: &World, client: usize, token| match answer(world, client, token) {
            Some(Ok(OperationResult::Locked { fence })) => Some(fence),
            None => None,
            other => panic!("{other:?}"),
        };
        let first = ask(&mut world, sessions[0], lock(Span::ZERO));
        world.quiesce();
        let held = fence(&world, sessions[0], first).unwrap();
        assert_eq!(
            tell(&mut world, sessions[1], lock(Span::ZERO)).unwrap_err(),
            CloseCode::LockHeld
        );
        let waiting: Vec<Token> = sessions[1..]
            .iter()
            .map(|client| {
                let token = ask(&mut world, *client, lock(Span::from_secs(60)));
                world.quiesce();
                token
            })
            .collect();
        let under = |world: &mut World, client| {
            let locked = Some(Condition::Locked(path("leader")));
            version(tell(world, client, update("state", "x", locked)))
        };
        assert!(under(&mut world, sessions[0]).is_ok());
        assert_eq!(under(&mut world, sessions[1]), Err(CloseCode::LockNotHeld));
        world.close(sessions[0]);
        world.quiesce();
        let next = fence(&world, sessions[1], waiting[0]).unwrap();
        assert!(next > held);
        assert_eq!(fence(&world, sessions[2], waiting[1]), None);
        assert!(under(&mut world, sessions[1]).is_ok());
        assert!(tell(&mut world, sessions[1], Operation::Unlock { name: path("leader") }).is_ok());
        assert_eq!(under(&mut world, sessions[1]), Err(CloseCode::LockNotHeld));
        assert!(fence(&world, sessions[2], waiting[1]).unwrap() > next);
        // Who has waited long enough is told so, and does not get it later.
        world.advance(Span::from_secs(61));
        world.quiesce();
        let told = answer(&world, sessions[3], waiting[2]).unwrap();
        assert_eq!(told.unwrap_err(), CloseCode::LockHeld);
        world.close(sessions[2]);
        world.quiesce();
        assert!(under(&mut world, sessions[3]).is_err());
        assert!(matches!(
            tell(&mut world, sessions[3], lock(Span::ZERO)),
            Ok(OperationResult::Locked { .. })
        ));
    });
}

#[test]
fn a_claimed_topic_has_one_publisher() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        let claim = || Operation::Claim { path: path("price") };
        assert!(tell(&mut world, ann, claim()).is_ok());
        assert_eq!(tell(&mut world, bob, claim()).unwrap_err(), CloseCode::TopicClaimed);
        let refused = world.publish(bob, "topic:price", "1");
        let taken = world.publish(ann, "topic:price", "2");
        world.quiesce();
        assert!(!world.is_confirmed(bob, refused) && world.is_confirmed(ann, taken));
        assert_eq!(
            version(tell(&mut world, bob, update("price", "3", None))),
            Err(CloseCode::TopicClaimed)
        );
        world.close(ann);
        world.quiesce();
        assert!(tell(&mut world, bob, claim()).is_ok());
        assert!(version(tell(&mut world, bob, update("price", "3", None))).is_ok());
    });
}

#[test]
fn a_will_is_published_when_its_session_ends() {
    for_seeds(0..12, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        world.subscribe(bob, 0, Wish::to("topic:wills"));
        let destination = Destination { kind: Kind::Topic, path: path("wills") };
        let run = Run::single(destination, world.now.time, b"", b"gone", Meta::default());
        assert!(tell(&mut world, ann, Operation::Will(Some(Box::new(run)))).is_ok());
        assert!(world.clients[bob].received.is_empty());
        world.close(ann);
        world.quiesce();
        assert_eq!(world.clients[bob].received[0].body, "gone");
    });
}

#[test]
fn rules_and_owners_decide_who_may() {
    let rule = |actions: &[Action], who, place: &str| Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![who],
        paths: vec![Pattern::parse(place).unwrap()],
        kind: None,
    };
    let ann = Who::User("ann".into());
    let rules = Rules::new(vec![
        rule(&[Action::Create, Action::Publish, Action::Subscribe], ann, "**"),
        rule(&[Action::Create], Who::All, "own/**"),
        rule(&[Action::Subscribe], Who::All, "open/**"),
    ]);
    let mut world = World::new(7, BrokerOptions { shards: 3, rules, ..BrokerOptions::default() });
    let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
    assert!(tell(&mut world, ann, create("closed/a", "", Some("1"))).is_ok());
    assert!(tell(&mut world, ann, create("open/a", "", Some("1"))).is_ok());
    assert_eq!(
        tell(&mut world, bob, create("open/b", "", None)).unwrap_err(),
        CloseCode::NotAuthorised
    );
    assert_eq!(listed(&page(&mut world, bob, fetch("**", 0, None))), ["open/a"]);
    let mine = r#"{"owner":"bob"}"#;
    assert!(tell(&mut world, bob, create("own/b", mine, None)).is_ok());
    assert!(version(tell(&mut world, bob, update("own/b", "2", None))).is_ok());
    assert_eq!(
        version(tell(&mut world, bob, update("open/a", "2", None))),
        Err(CloseCode::NotAuthorised)
    );
    let theirs = tell(&mut world, bob, create("own/c", r#"{"owner":"eve"}"#, None));
    assert_eq!(theirs.unwrap_err(), CloseCode::NotAuthorised);
    assert_eq!(listed(&page(&mut world, bob, fetch("**", 0, None))), ["open/a", "own/b"]);
}

#[test]
fn topics_of_one_kind_share_one_specification() {
    let mut world = world(0);
    let ann = world.connect(0, "ann");
    for n in 0..3 {
        assert!(
            tell(&mut world, ann, create(&format!("s/{n}"), r#"{"type":"json"}"#, None)).is_ok()
        );
    }
    let page = page(&mut world, ann, fetch("s/*", 0, None));
    let specs: Vec<_> = page.topics.iter().map(|entry| entry.spec.clone().unwrap()).collect();
    assert!(specs.iter().all(|spec| Arc::ptr_eq(spec, &specs[0])));
}

fn change(name: &str, change: Change, condition: Option<Condition>) -> Operation {
    let Operation::Update(mut update) = update(name, "", condition) else { unreachable!() };
    update.change = change;
    Operation::Update(update)
}

#[test]
fn a_value_is_changed_by_patch_merge_and_delta() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let ann = world.connect(0, "ann");
        let value = |world: &mut World| {
            let page = page(world, ann, fetch("doc", 0, None));
            let run = page.topics[0].value.clone().unwrap();
            String::from_utf8(run.message(0).unwrap().body.to_vec()).unwrap()
        };
        tell(&mut world, ann, create("doc", r#"{"type":"json"}"#, Some(r#"{"a":1,"b":[2]}"#)))
            .unwrap();
        let patch = Change::Patch(br#"[{"op":"add","path":"/b/-","value":3}]"#[..].into());
        let at = |comparison, value: &str| {
            let value = value.as_bytes().into();
            Some(Condition::Place { pointer: "/a".into(), comparison, value })
        };
        let least = at(Comparison::GreaterOrEqual, "2");
        let too_small = tell(&mut world, ann, change("doc", patch.clone(), least));
        assert_eq!(too_small.unwrap_err(), CloseCode::ConditionFailed);
        tell(&mut world, ann, change("doc", patch, at(Comparison::Equal, "1.0"))).unwrap();
        assert_eq!(value(&mut world), r#"{"a":1,"b":[2,3]}"#);
        let merge = Change::Merge(br#"{"a":null,"c":"x"}"#[..].into());
        let version = version(tell(&mut world, ann, change("doc", merge, None))).unwrap();
        let before = value(&mut world);
        assert_eq!(before, r#"{"b":[2,3],"c":"x"}"#);
        let mut delta = Vec::new();
        (tiderace_delta::Codec::named("tiderace").unwrap().encode)(
            before.as_bytes(),
            br#"{"b":[2,4],"c":"x"}"#,
            &mut delta,
            usize::MAX,
        );
        let delta: Box<[u8]> = delta.into();
        let stale = Change::Delta { codec: 1, base: version - 1, delta: delta.clone() };
        let stale = tell(&mut world, ann, change("doc", stale, None));
        assert_eq!(stale.unwrap_err(), CloseCode::ConditionFailed);
        tell(
            &mut world,
            ann,
            change("doc", Change::Delta { codec: 1, base: version, delta }, None),
        )
        .unwrap();
        assert_eq!(value(&mut world), r#"{"b":[2,4],"c":"x"}"#);
        for bad in [&b"[{\"op\":\"remove\",\"path\":\"/zz\"}]"[..], b"{", b"[{}]"] {
            let refused = tell(&mut world, ann, change("doc", Change::Patch(bad.into()), None));
            assert_eq!(refused.unwrap_err(), CloseCode::BadPatch);
        }
    });
}

#[test]
fn values_fit_the_schema_of_their_topic() {
    let mut world = world(1);
    let ann = world.connect(0, "ann");
    let spec = r#"{"type":"json","schema":{"type":"object","required":["bid"],"properties":{"bid":{"type":"number","minimum":0}}}}"#;
    assert!(tell(&mut world, ann, create("q", spec, Some(r#"{"bid":1}"#))).is_ok());
    assert!(version(tell(&mut world, ann, update("q", r#"{"bid":2.5}"#, None))).is_ok());
    for bad in [r#"{"bid":-1}"#, "{}", "7", "{"] {
        let refused = version(tell(&mut world, ann, update("q", bad, None)));
        assert_eq!(refused, Err(CloseCode::BadValue), "{bad}");
    }
    let merge = change("q", Change::Merge(br#"{"bid":null}"#[..].into()), None);
    assert_eq!(tell(&mut world, ann, merge).unwrap_err(), CloseCode::BadValue);
}

#[test]
fn topics_are_removed_when_their_specification_says_so() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (world.connect(0, "ann"), world.connect(0, "bob"));
        let made = |removal: &str| format!(r#"{{"removal":"{removal}"}}"#);
        for (name, removal) in [
            ("a/quiet", "no updates for 10s"),
            ("a/unheard", "no subscribers for 10s"),
            ("a/old", "after 25s"),
            ("a/both", "no updates for 10s and no subscribers for 10s"),
            ("a/mine", "session closes"),
        ] {
            tell(&mut world, ann, create(name, &made(removal), Some("1"))).unwrap();
        }
        world.subscribe(bob, 0, Wish::to("topic:a/both"));
        world.subscribe(bob, 1, Wish::to("topic:a/unheard"));
        let pass = |world: &mut World, seconds| {
            for _ in 0..seconds {
                world.advance(Span::from_secs(1));
                world.quiesce();
            }
        };
        let there = |world: &mut World| {
            let page = page(world, bob, fetch("a/**", 0, None));
            listed(&page).into_iter().map(|path| path[2..].to_owned()).collect::<Vec<_>>()
        };
        pass(&mut world, 6);
        version(tell(&mut world, ann, update("a/quiet", "2", None))).unwrap();
        pass(&mut world, 6);
        assert_eq!(there(&mut world), ["both", "mine", "old", "quiet", "unheard"]);
        pass(&mut world, 10);
        assert_eq!(there(&mut world), ["both", "mine", "old", "unheard"]);
        world.unsubscribe(bob, 1);
        world.close(ann);
        pass(&mut world, 8);
        assert_eq!(there(&mut world), ["both", "unheard"]);
        pass(&mut world, 12);
        assert_eq!(there(&mut world), ["both"]);
        let heard = &world.clients[bob].received;
        assert!(!heard.iter().any(|message| message.path == "a/both" && message.body.is_empty()));
    });
}

#[test]
fn what_depends_on_a_value_needs_the_right_to_subscribe() {
    let rule = |actions: &[Action], who: &str, place: &str| Rule {
        allow: true,
        actions: actions.iter().copied().collect(),
        who: vec![Who::User(who.into())],
        paths: vec![Pattern::parse(place).unwrap()],
        kind: None,
    };
    let every = [Action::Create, Action::Publish, Action::Subscribe];
    let rules = Rules::new(vec![
        rule(&every, "ann", "**"),
        rule(&[Action::Create, Action::Publish], "mal", "**"),
    ]);
    let mut world = World::new(3, BrokerOptions { shards: 2, rules, ..BrokerOptions::default() });
    let (ann, mal) = (world.connect(0, "ann"), world.connect(1, "mal"));
    tell(&mut world, ann, create("price", "", Some(r#"{"price":7}"#))).unwrap();
    tell(&mut world, ann, create("log", r#"{"type":"timeseries"}"#, Some("1"))).unwrap();
    for client in [ann, mal] {
        let lock = Operation::Lock { name: path("lock"), timeout: Span::ZERO };
        tell(&mut world, client, lock).unwrap();
        let place = |value: &str| Condition::Place {
            pointer: "/price".into(),
            comparison: Comparison::Greater,
            value: value.as_bytes().into(),
        };
        let conditions = [
            Condition::Absent,
            Condition::Present,
            Condition::Version(1),
            Condition::Value(b"{\"price\":7}"[..].into()),
            place("1"),
            place("9"),
            Condition::Locked(path("lock")),
            Condition::All(vec![place("1")]),
            Condition::Any(vec![Condition::Absent]),
        ];
        let changes = [
            Change::Patch(br#"[{"op":"test","path":"/none","value":0}]"#[..].into()),
            Change::Patch(br#"[{"op":"remove","path":"/none"}]"#[..].into()),
            Change::Merge(b"{}"[..].into()),
            Change::Delta { codec: 1, base: 1, delta: b""[..].into() },
        ];
        let conditional = conditions.into_iter().map(|it| update("price", "{}", Some(it)));
        let changed = changes.into_iter().map(|change| {
            let Operation::Update(mut update) = update("price", "", None) else { panic!() };
            update.change = change;
            Operation::Update(update)
        });
        let value = NewValue { body: b"2"[..].into(), ..NewValue::default() };
        let amend = Operation::Amend { path: path("log"), version: 99, value };
        for operation in conditional.chain(changed).chain([amend]) {
            let said = tell(&mut world, client, operation.clone());
            let refused = matches!(said, Err(CloseCode::NotAuthorised));
            assert_eq!(refused, client == mal, "{operation:?}: {said:?}");
        }
        tell(&mut world, client, Operation::Unlock { name: path("lock") }).unwrap();
        assert!(tell(&mut world, client, update("price", r#"{"price":7}"#, None)).is_ok());
    }
}
