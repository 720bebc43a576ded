//! Locks, claims and topics that go with their sessions: what is asked for more than once, given up
//! while it is waited for, or refused, over one to three shards.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::field_reassign_with_default)]

use crate::support::asking::{answer, ask, connect, create, path, remove, tell, update};
use crate::support::{World, for_seeds};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::BrokerOptions;
use tiderace_topics::Pattern;
use tiderace_wire::{Condition, Fetch, Operation, OperationResult, Token};

fn world(seed: u64) -> World {
    World::new(seed, BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() })
}

fn lock(timeout: u64) -> Operation {
    Operation::Lock { name: path("leader"), timeout: Span::from_secs(timeout) }
}

fn unlock() -> Operation {
    Operation::Unlock { name: path("leader") }
}

fn fence(world: &World, client: usize, token: Token) -> u64 {
    match answer(world, client, token) {
        Some(Ok(OperationResult::Locked { fence })) => fence,
        other => panic!("{other:?}"),
    }
}

fn refusal(world: &World, client: usize, token: Token) -> CloseCode {
    answer(world, client, token).unwrap().unwrap_err()
}

fn under(world: &mut World, client: usize) -> bool {
    let locked = Some(Condition::Locked(path("leader")));
    tell(world, client, update("state", "x", locked)).is_ok()
}

fn known(world: &mut World, client: usize, selector: &str) -> Vec<String> {
    let selector = vec![Pattern::parse(selector).unwrap()];
    let fetch = Fetch { selector, after: None, limit: 0, depth: 0, values: false, specs: false };
    match tell(world, client, Operation::Fetch(Box::new(fetch))) {
        Ok(OperationResult::Page(page)) => {
            page.topics.iter().map(|it| it.path.to_string()).collect()
        }
        other => panic!("{other:?}"),
    }
}

/// Ann holds the lock, and Bob has asked for it like that.
fn held(seed: u64, timeout: &[u64]) -> (World, usize, usize, Vec<Token>) {
    let mut world = world(seed);
    let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
    tell(&mut world, ann, lock(0)).unwrap();
    let tokens = timeout.iter().map(|timeout| ask(&mut world, bob, lock(*timeout))).collect();
    world.quiesce();
    (world, ann, bob, tokens)
}

/// A client that comes when Bob has gone gets the lock.
fn is_free_after(world: &mut World, bob: usize) {
    world.close(bob);
    world.quiesce();
    let carol = connect(world, "carol");
    assert!(tell(world, carol, lock(0)).is_ok(), "nobody is there who holds it");
}

#[test]
fn who_asks_twice_gets_one_lock_and_gives_it_back() {
    for_seeds(0..12, |seed| {
        let (mut world, ann, bob, tokens) = held(seed, &[60, 60]);
        tell(&mut world, ann, unlock()).unwrap();
        assert_eq!(fence(&world, bob, tokens[0]), fence(&world, bob, tokens[1]));
        assert!(under(&mut world, bob));
        if seed % 2 == 0 {
            tell(&mut world, bob, unlock()).unwrap();
            assert!(!under(&mut world, bob));
            assert!(tell(&mut world, ann, lock(0)).is_ok());
            tell(&mut world, ann, unlock()).unwrap();
        }
        is_free_after(&mut world, bob);
    });
}

#[test]
fn who_asks_twice_and_goes_gets_nothing() {
    for_seeds(0..12, |seed| {
        let (mut world, ann, bob, _) = held(seed, &[60, 60]);
        world.close(bob);
        tell(&mut world, ann, unlock()).unwrap();
        is_free_after(&mut world, bob);
    });
}

#[test]
fn an_impatient_request_does_not_spoil_one_that_waits() {
    for_seeds(0..12, |seed| {
        for impatient in [0, 1] {
            let (mut world, ann, bob, tokens) = held(seed, &[60, impatient]);
            world.advance(Span::from_secs(2));
            world.quiesce();
            assert_eq!(refusal(&world, bob, tokens[1]), CloseCode::LockHeld);
            tell(&mut world, ann, unlock()).unwrap();
            fence(&world, bob, tokens[0]);
            assert!(under(&mut world, bob));
            is_free_after(&mut world, bob);
        }
    });
}

#[test]
fn a_session_that_gives_up_waiting_is_answered() {
    for_seeds(0..12, |seed| {
        let (mut world, ann, bob, tokens) = held(seed, &[60]);
        assert!(tell(&mut world, bob, unlock()).is_err());
        assert_eq!(refusal(&world, bob, tokens[0]), CloseCode::LockNotHeld);
        tell(&mut world, ann, unlock()).unwrap();
        is_free_after(&mut world, bob);
    });
}

#[test]
fn who_holds_as_much_as_may_be_can_give_it_back() {
    let mut world = world(0);
    let ann = world.connect(0, "ann");
    let claim = |n: usize| Operation::Claim { path: path(&format!("c/{n}")) };
    for n in 0..10_000 {
        ask(&mut world, ann, claim(n));
    }
    world.quiesce();
    assert_eq!(tell(&mut world, ann, claim(10_000)).unwrap_err(), CloseCode::TooManyTopics);
    assert!(tell(&mut world, ann, create("other", "{}", None)).is_ok());
    assert!(tell(&mut world, ann, Operation::Release { path: path("c/7") }).is_ok());
    assert!(tell(&mut world, ann, claim(10_000)).is_ok());
}

#[test]
fn what_was_refused_is_not_held() {
    let mut world = world(1);
    let ann = connect(&mut world, "ann");
    for n in 0..10_000 {
        ask(&mut world, ann, create(&format!("t/{n}"), r#"{"removal":"session clothes"}"#, None));
    }
    world.quiesce();
    assert_eq!(world.clients[ann].refused.len(), 10_000);
    assert!(tell(&mut world, ann, lock(0)).is_ok());
}

#[test]
fn claims_and_fences_leave_no_topics_behind() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let ann = connect(&mut world, "ann");
        tell(&mut world, ann, lock(0)).unwrap();
        for n in 0..10 {
            let claimed = path(&format!("c/{n}"));
            tell(&mut world, ann, Operation::Claim { path: claimed.clone() }).unwrap();
            tell(&mut world, ann, Operation::Release { path: claimed }).unwrap();
        }
        assert!(under(&mut world, ann));
        tell(&mut world, ann, remove("state")).unwrap();
        world.end();
        world.sweep();
        assert_eq!(world.metrics().topics, 0);
    });
}

#[test]
fn a_topic_that_an_update_made_goes_with_its_session_too() {
    for_seeds(0..6, |seed| {
        let mut world = world(seed);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        let Operation::Update(mut made) = update("mine", "1", None) else { panic!() };
        made.spec = Some(br#"{"removal":"session closes"}"#[..].into());
        tell(&mut world, ann, Operation::Update(made)).unwrap();
        world.advance(Span::from_secs(6));
        assert_eq!(known(&mut world, bob, "mine"), ["mine"]);
        world.close(ann);
        world.quiesce();
        for _ in 0..3 {
            world.advance(Span::from_secs(6));
            world.quiesce();
        }
        assert!(known(&mut world, bob, "mine").is_empty());
    });
}

#[test]
fn what_is_refused_makes_no_topic() {
    for_seeds(0..6, |seed| {
        let mut options = BrokerOptions::default();
        options.shards = 1 + (seed % 3) as usize;
        options.messages_bytes_max = 10_000;
        let mut world = World::new(seed, options);
        let (ann, bob) = (connect(&mut world, "ann"), connect(&mut world, "bob"));
        tell(&mut world, ann, Operation::Claim { path: path("x") }).unwrap();
        let Operation::Update(mut claimed) = update("x", "1", None) else { panic!() };
        claimed.spec = Some(b"{}"[..].into());
        let claimed = tell(&mut world, bob, Operation::Update(claimed));
        assert_eq!(claimed.unwrap_err(), CloseCode::TopicClaimed);
        let claimed = tell(&mut world, bob, create("x", "{}", Some("1")));
        assert_eq!(claimed.unwrap_err(), CloseCode::TopicClaimed);
        let large = "x".repeat(20_000);
        for spec in ["{}", r#"{"history":5,"retain":true}"#] {
            let full = tell(&mut world, bob, create("y", spec, Some(&large)));
            assert_eq!(full.unwrap_err(), CloseCode::MemoryFull);
        }
        assert!(known(&mut world, bob, "**").is_empty());
    });
}

#[test]
fn without_a_store_fences_rise_with_the_clock_however_many_locks_are_taken() {
    let fences = |wall_ms: u64, count: usize| {
        let mut world = World::new(1, BrokerOptions::default());
        world.now.wall_ms = wall_ms;
        let client = world.connect(0, "ann");
        let mut last = 0;
        for _ in 0..count {
            let lock = Operation::Lock { name: path("lock"), timeout: Span::ZERO };
            let Ok(OperationResult::Locked { fence }) = tell(&mut world, client, lock) else {
                panic!()
            };
            assert!(fence > last);
            last = fence;
            tell(&mut world, client, Operation::Unlock { name: path("lock") }).unwrap();
        }
        last
    };
    // Ten thousand locks in a tenth of a second, and a restart.
    let before = fences(1_700_000_000_000, 10_000);
    assert!(fences(1_700_000_000_100, 1) > before);
}
