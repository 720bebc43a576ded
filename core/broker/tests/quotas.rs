//! What one principal may have in queues, over one to four shards, with a store and over crashes: it is bounded, its
//! publishers are told why, and others go on.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use crate::queue_operations::{move_by, moving, show};
use crate::support::asking::{ask, tell};
use crate::support::keeping::Keeping;
use crate::support::{Outgoing, Wish, World, for_seeds, path_at};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, QueuePolicy};
use tiderace_queues::{FullPolicy, QueueOptions, Quota, Quotas};
use tiderace_topics::Pattern;
use tiderace_wire::{
    Command, Commands, DurableSubscription, Flags, Meta, MoveMessages, Operation, OperationResult,
    Outcome, durable_queue,
};

const BYTES_MAX: u64 = 20_000;
const QUEUES_MAX: usize = 3;

/// Ann and Eve may have little; the names of others may have more.
fn options(shards: usize) -> BrokerOptions {
    let usual = Quota { bytes_max: BYTES_MAX, queues_max: QUEUES_MAX };
    let roomy = Quota { bytes_max: 0, queues_max: 0 };
    let quotas = Quotas { usual, of: vec![("root".into(), roomy)] };
    BrokerOptions { shards, quotas, ..BrokerOptions::default() }
}

fn kilobyte(flags: Flags) -> Outgoing {
    Outgoing { flags, ..Outgoing::new("x".repeat(1_000)) }
}

/// Sends a message and lets homes tell each other what they have: whether it was taken.
fn send(world: &mut World, client: usize, queue: &str, flags: Flags) -> bool {
    let token = world.publish_all(client, &format!("queue:{queue}"), &[kilobyte(flags)]);
    world.quiesce();
    for _ in 0..2 {
        world.advance(Span::from_millis(50));
        world.quiesce();
    }
    let is_taken = world.is_confirmed(client, token);
    let refused = (Some(token), CloseCode::AccountFull);
    assert_eq!(world.clients[client].refused.contains(&refused), !is_taken);
    assert!(!world.clients[client].paused, "nobody waits");
    is_taken
}

/// Rejects whatever it gets until nothing comes.
fn reject_all(world: &mut World, client: usize) {
    while !world.clients[client].received.is_empty() {
        for message in std::mem::take(&mut world.clients[client].received) {
            world.settle(client, &message, Outcome::Reject);
        }
        world.quiesce();
    }
}

/// Queues of the same first letter at each home.
fn queues_at_homes(prefix: &str, shards: usize) -> Vec<String> {
    (0..shards).map(|home| path_at(prefix, home, shards)).collect()
}

fn held(world: &mut World, client: usize, queue: &str) -> u64 {
    show(world, client, queue).unwrap().account.unwrap().0
}

#[test]
fn the_queues_of_a_principal_hold_no_more_than_it_may_on_all_shards_together() {
    for_seeds(0..8, |seed| {
        let shards = 1 + (seed % 4) as usize;
        let mut world = World::new(seed, options(shards));
        let ann = world.connect(0, "ann");
        let eve = world.connect(shards - 1, "eve");
        let queues = queues_at_homes("a", shards);
        let mut sent = 0;
        while send(&mut world, ann, &queues[sent % shards], Flags::NONE) {
            sent += 1;
            assert!(sent < 40, "it is not bounded");
        }
        assert!((15..=19).contains(&sent), "{sent} messages of a kilobyte and what they take");
        for queue in &queues {
            assert!(!send(&mut world, ann, queue, Flags::NONE), "whichever of them");
            assert!((15_000..=BYTES_MAX).contains(&held(&mut world, ann, queue)));
        }
        assert!(!send(&mut world, ann, "a-new-one", Flags::NONE));
        let owned = show(&mut world, ann, &queues[0]).unwrap().entry.owner;
        assert_eq!(owned.as_deref(), Some("ann"));
        let own = queues_at_homes("e", shards);
        assert!(own.iter().all(|queue| send(&mut world, eve, queue, Flags::NONE)));
        // A queue counts for its owner, and not for who sends there.
        assert!(!send(&mut world, eve, &queues[0], Flags::NONE));
        assert!(send(&mut world, ann, &own[0], Flags::NONE));
        assert!(world.metrics().account_refused >= 3 + shards as u64);
        // When some are gone from any of its queues, there is room in all.
        world.subscribe(
            eve,
            0,
            Wish { explicit: true, ..Wish::to(&format!("queue:{}", queues[0])) },
        );
        world.quiesce();
        for message in world.clients[eve].received.clone().iter().take(2) {
            world.settle(eve, message, Outcome::Accept);
        }
        world.quiesce();
        for _ in 0..3 {
            world.advance(Span::from_millis(50));
            world.quiesce();
        }
        let last = queues.last().unwrap();
        assert!(send(&mut world, ann, last, Flags::NONE));
        world.end();
    });
}

#[test]
fn owners_and_what_they_hold_are_known_again_after_a_crash() {
    for_seeds(0..8, |seed| {
        let mut keeping = Keeping::default();
        let mut kept = Vec::new();
        for life in 0..3 {
            // Another number of shards, so that queues have other homes.
            let shards = 1 + ((seed + life) % 4) as usize;
            let options = BrokerOptions { epoch: life + 1, ..options(shards) };
            let mut world = World::new(seed, options);
            keeping.restore(&mut world);
            let [ann, eve] = [0, shards - 1].map(|shard| world.connect(shard, "ann"));
            for _ in 0..2 {
                world.advance(Span::from_millis(50));
                world.quiesce();
            }
            if life == 0 {
                for number in 0.. {
                    let queue = ["a", "b", "c"][number % 3];
                    let token = world.publish_all(
                        ann,
                        &format!("queue:{queue}"),
                        &[kilobyte(Flags::PERSISTENT)],
                    );
                    world.quiesce();
                    keeping.finish(&mut world);
                    world.quiesce();
                    for _ in 0..2 {
                        world.advance(Span::from_millis(50));
                        world.quiesce();
                    }
                    if !world.is_confirmed(ann, token) {
                        break;
                    }
                    kept.push(queue);
                }
                assert!((15..=19).contains(&kept.len()), "{}", kept.len());
            }
            for queue in ["a", "b", "c"] {
                let shown = show(&mut world, ann, queue).unwrap();
                assert_eq!(shown.entry.owner.as_deref(), Some("ann"), "life {life}");
                // What a record takes in the store is not quite what it takes in memory.
                assert!(shown.account.unwrap().0 >= 15_000, "{:?} in life {life}", shown.account);
            }
            // There is room for one more message or none.
            let more = (0..10).filter(|_| {
                let token = world.publish_all(eve, "queue:a", &[kilobyte(Flags::PERSISTENT)]);
                world.quiesce();
                keeping.finish(&mut world);
                world.quiesce();
                world.is_confirmed(eve, token)
            });
            assert!(more.count() <= 3, "life {life}");
            keeping.finish(&mut world);
            keeping.crash(&mut world);
        }
    });
}

#[test]
fn nobody_has_more_queues_than_he_may_at_a_shard_however_they_are_made() {
    let durable = |name: &str| {
        let topics = vec![Pattern::parse("fx/**").unwrap()];
        let queue = durable_queue(name).unwrap();
        Operation::CreateSubscription(Box::new(DurableSubscription {
            queue,
            topics,
            selector: None,
        }))
    };
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    assert!(send(&mut world, ann, "sent", Flags::NONE));
    world.subscribe(ann, 0, Wish::to("queue:consumed"));
    assert!(tell(&mut world, ann, durable("gathered")).is_ok());
    for queue in ["sent", "consumed", "dsub/gathered"] {
        let owner = show(&mut world, ann, queue).unwrap().entry.owner;
        assert_eq!(owner.as_deref(), Some("ann"), "{queue}");
    }
    assert!(!send(&mut world, ann, "sent-too", Flags::NONE));
    let token = world.subscribe(ann, 1, Wish::to("queue:consumed-too"));
    world.quiesce();
    assert!(world.clients[ann].refused.contains(&(Some(token), CloseCode::AccountFull)));
    assert_eq!(tell(&mut world, ann, durable("gathered-too")).err(), Some(CloseCode::AccountFull));
    assert_eq!(world.metrics().queues, 3, "what was refused is not there");
    // Those that are there go on, and others are not concerned.
    assert!(send(&mut world, ann, "sent", Flags::NONE));
    world.subscribe(ann, 2, Wish::to("queue:sent"));
    let eve = world.connect(0, "eve");
    assert!(send(&mut world, eve, "of-another", Flags::NONE));
    let root = world.connect(0, "root");
    for number in 0..10 {
        assert!(send(&mut world, root, &format!("any/{number}"), Flags::NONE));
    }
    let end = Operation::DeleteSubscription { queue: durable_queue("gathered").unwrap() };
    assert!(tell(&mut world, ann, end).is_ok());
    assert!(send(&mut world, ann, "sent-too", Flags::NONE), "one has gone");
    world.end();
}

#[test]
fn the_configuration_may_say_whose_a_queue_is() {
    let mut options = options(2);
    let own = QueueOptions { owner: Some("shared".into()), ..options.queue_default.clone() };
    options.queue_policies =
        vec![QueuePolicy { pattern: Pattern::parse("orders/**").unwrap(), options: own }];
    let mut world = World::new(1, options);
    let [ann, eve] = [0, 1].map(|shard| world.connect(shard, ["ann", "eve"][shard]));
    while send(&mut world, ann, "orders/new", Flags::NONE) {}
    let shown = show(&mut world, ann, "orders/new").unwrap();
    assert_eq!(shown.entry.owner.as_deref(), Some("shared"));
    assert!(!send(&mut world, eve, "orders/new", Flags::NONE));
    assert!(send(&mut world, ann, "own", Flags::NONE), "she has nothing of her own yet");
    // A temporary queue is bounded by its session.
    let temporary = world.temporary(ann);
    world.publish(ann, &format!("queue:{temporary}/x"), "x");
    world.quiesce();
    assert_eq!(show(&mut world, ann, "own").unwrap().entry.owner.as_deref(), Some("ann"));
}

#[test]
fn dead_letters_count_for_the_owner_of_their_queue_and_what_is_moved_for_who_moves_it() {
    for shards in 1..=3 {
        let mut options = options(shards);
        options.queue_default.redeliveries_max = 1;
        let mut world = World::new(shards as u64, options);
        let [ann, eve] = ["ann", "eve"].map(|name| world.connect(0, name));
        for _ in 0..4 {
            assert!(send(&mut world, ann, "a", Flags::NONE));
        }
        let before = held(&mut world, ann, "a");
        world.subscribe(eve, 0, Wish { explicit: true, ..Wish::to("queue:a") });
        world.quiesce();
        for _ in 0..2 {
            for message in std::mem::take(&mut world.clients[eve].received) {
                world.settle(eve, &message, Outcome::Reject);
            }
            world.quiesce();
        }
        for _ in 0..3 {
            world.advance(Span::from_millis(50));
            world.quiesce();
        }
        let dead = show(&mut world, eve, "dlq/a").unwrap();
        assert_eq!((dead.entry.messages, dead.entry.owner.as_deref()), (4, Some("ann")));
        assert!(dead.account.unwrap().0 >= before, "{shards}");
        // Eve takes them, as far as she may.
        let moved = tell(&mut world, eve, move_by(moving("dlq/a", "e")));
        let Ok(OperationResult::Moved(result)) = moved else { panic!("{moved:?}") };
        assert_eq!((result.messages, result.kept), (4, 0));
        assert_eq!(show(&mut world, eve, "e").unwrap().entry.owner.as_deref(), Some("eve"));
        world.unsubscribe(eve, 0);
        while send(&mut world, ann, "a", Flags::NONE) {}
        let moved = tell(&mut world, eve, move_by(moving("a", "e")));
        let Ok(OperationResult::Moved(result)) = moved else { panic!("{moved:?}") };
        let refused = result.refused.as_ref().map(|close| close.code);
        assert!(result.kept == 0 || refused == Some(CloseCode::AccountFull), "{result:?}");
        world.end();
    }
}

/// Sends all in one transaction, to each queue so many messages of so many bytes: whether it was taken. If not, nothing
/// of it is there.
fn together(world: &mut World, client: usize, parts: &[(&str, usize, usize)]) -> bool {
    let before = (world.metrics().queue_messages, world.metrics().queues);
    let refused = world.clients[client].refused.len();
    let mut commands = Commands::new();
    commands.push(Command::Together(true));
    for (queue, messages, bytes) in parts {
        commands.message(&crate::support::destination(&format!("queue:{queue}")));
        for _ in 0..*messages {
            commands.publish("x".repeat(*bytes).as_bytes(), Meta::default(), None);
        }
    }
    commands.push(Command::Together(false));
    world.commands(client, &mut commands);
    world.quiesce();
    let after = (world.metrics().queue_messages, world.metrics().queues);
    let refused = &world.clients[client].refused[refused..];
    if refused.is_empty() {
        let all = parts.iter().map(|(_, messages, _)| *messages as u64).sum::<u64>();
        assert_eq!(after.0, before.0 + all, "all of it: {parts:?}");
        return true;
    }
    assert!(refused.iter().all(|it| *it == (None, CloseCode::AccountFull)), "{refused:?}");
    assert_eq!(after, before, "nothing of it: {parts:?}");
    false
}

#[test]
fn a_transaction_is_refused_as_a_whole() {
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    while send(&mut world, ann, "a", Flags::NONE) {}
    assert!(!together(&mut world, ann, &[("b", 1, 5), ("a", 1, 2_000)]));
    assert!(show(&mut world, ann, "b").is_err());
}

#[test]
fn a_transaction_is_asked_for_what_all_its_queues_get_together() {
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    assert!(together(&mut world, ann, &[("a", 1, 100), ("b", 1, 100)]));
    // Each of them would have room for its own part.
    assert!(!together(&mut world, ann, &[("a", 1, 15_000), ("b", 1, 15_000)]));
    assert!(!together(&mut world, ann, &[("a", 1, 9_000), ("b", 1, 9_000), ("c", 1, 9_000)]));
    assert!(together(&mut world, ann, &[("a", 1, 9_000), ("b", 1, 9_000)]));
    assert!(!together(&mut world, ann, &[("a", 1, 1_000), ("b", 1, 1_000)]));
}

#[test]
fn a_transaction_is_asked_for_all_that_one_new_queue_gets() {
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    let nine = ("a", 1, 9_000);
    assert!(!together(&mut world, ann, &[nine, nine, nine]));
    assert!(!together(&mut world, ann, &[("a", 1, 15_000), ("b", 1, 15_000)]));
    assert!(together(&mut world, ann, &[nine, nine]));
}

#[test]
fn a_transaction_is_asked_for_all_queues_that_it_makes() {
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    assert!(together(&mut world, ann, &[("a", 1, 1), ("b", 1, 1)]));
    assert!(!together(&mut world, ann, &[("a", 1, 1), ("c", 1, 1), ("d", 1, 1)]));
    assert!(together(&mut world, ann, &[("a", 1, 1), ("c", 1, 1), ("c", 1, 1)]));
    let eve = world.connect(0, "eve");
    assert!(!together(&mut world, eve, &[("1", 1, 1), ("2", 1, 1), ("3", 1, 1), ("4", 1, 1)]));
}

#[test]
fn a_transaction_is_asked_for_what_its_messages_take_beside_their_bytes() {
    let mut world = World::new(1, options(1));
    let ann = world.connect(0, "ann");
    let many = [("a", 400, 1), ("b", 400, 1), ("a", 400, 1), ("b", 400, 1)];
    assert!(together(&mut world, ann, &[("a", 1, 1), ("b", 1, 1)]));
    assert!(!together(&mut world, ann, &many));
    assert!(together(&mut world, ann, &many[..2]));
    assert!(held(&mut world, ann, "a") <= BYTES_MAX);
}

#[test]
fn what_one_owner_has_is_redriven_and_moved_in_a_full_account() {
    for shards in 1..=3 {
        let mut options = options(shards);
        options.queue_default.redeliveries_max = 1;
        let mut world = World::new(shards as u64, options);
        let ann = world.connect(0, "ann");
        let mut sent = 0;
        while send(&mut world, ann, "a", Flags::NONE) {
            sent += 1;
        }
        world.subscribe(ann, 0, Wish { explicit: true, ..Wish::to("queue:a") });
        world.quiesce();
        reject_all(&mut world, ann);
        world.unsubscribe(ann, 0);
        world.advance(Span::from_millis(50));
        world.quiesce();
        assert!(!send(&mut world, ann, "a", Flags::NONE), "the account is full");
        let redrive = MoveMessages { to: None, redrive: true, ..moving("dlq/a", "a") };
        for asked in [redrive, moving("a", "b")] {
            let moved = tell(&mut world, ann, move_by(asked));
            let Ok(OperationResult::Moved(result)) = moved else { panic!("{moved:?}") };
            assert_eq!((result.messages, result.kept), (sent, 0), "{shards}: {result:?}");
        }
        // For another one they are asked for.
        let eve = world.connect(0, "eve");
        while send(&mut world, eve, "e", Flags::NONE) {}
        let moved = tell(&mut world, eve, move_by(moving("b", "e")));
        let Ok(OperationResult::Moved(result)) = moved else { panic!("{moved:?}") };
        assert_eq!(result.refused.as_ref().map(|close| close.code), Some(CloseCode::AccountFull));
        world.end();
    }
}

#[test]
fn dead_letters_of_many_queues_together_count_for_nobody() {
    // In a virtual host they stay there, whatever host the option says.
    for (template, queue, dead) in [
        ("dead", "a", "dead"),
        ("dead", "@shop/a", "@shop/dead"),
        ("@bank/dead", "@shop/a", "@shop/dead"),
    ] {
        for shards in 1..=2 {
            count_for_nobody(shards, template, (queue, dead));
        }
    }
}

fn count_for_nobody(shards: usize, template: &str, (queue, dead): (&str, &str)) {
    let mut options = options(shards);
    options.queue_default.redeliveries_max = 1;
    options.queue_default.dead_letter = template.into();
    let mut world = World::new(shards as u64, options);
    let ann = world.connect(0, "ann");
    assert!(send(&mut world, ann, queue, Flags::NONE));
    world.subscribe(ann, 0, Wish { explicit: true, ..Wish::to(&format!("queue:{queue}")) });
    world.quiesce();
    reject_all(&mut world, ann);
    assert!(send(&mut world, ann, dead, Flags::NONE));
    let dead = show(&mut world, ann, dead).unwrap().entry;
    assert_eq!((dead.messages, dead.owner.as_deref()), (2, None), "{template} {queue} {shards}");
    world.end();
}

#[test]
fn who_changes_a_durable_subscription_does_not_become_its_owner() {
    let mut keeping = Keeping::default();
    for life in 0..2 {
        let mut world = World::new(life, BrokerOptions { epoch: life + 1, ..options(1) });
        keeping.restore(&mut world);
        let [ann, eve] = ["ann", "eve"].map(|name| world.connect(0, name));
        for (client, topic) in [(ann, "fx/**"), (eve, "fx/EUR")].iter().take(2 - life as usize * 2)
        {
            let queue = durable_queue("all").unwrap();
            let topics = vec![Pattern::parse(topic).unwrap()];
            let about = DurableSubscription { queue, topics, selector: None };
            let create = Operation::CreateSubscription(Box::new(about));
            ask(&mut world, *client, create);
            world.quiesce();
            keeping.finish(&mut world);
            world.quiesce();
        }
        let owner = show(&mut world, eve, "dsub/all").unwrap().entry.owner;
        assert_eq!(owner.as_deref(), Some("ann"), "life {life}");
        keeping.finish(&mut world);
        keeping.crash(&mut world);
    }
}

#[test]
fn a_durable_subscription_drops_what_is_too_much_for_its_owner() {
    let mut world = World::new(1, options(2));
    let [ann, eve] = [0, 1].map(|shard| world.connect(shard, ["ann", "eve"][shard]));
    let topics = vec![Pattern::parse("fx/**").unwrap()];
    let about =
        DurableSubscription { queue: durable_queue("all").unwrap(), topics, selector: None };
    let created = tell(&mut world, ann, Operation::CreateSubscription(Box::new(about)));
    assert!(created.is_ok());
    for number in 0..100 {
        let message = Outgoing::new(format!("{number:04}{}", "x".repeat(1_000)));
        let token = world.publish_all(eve, "topic:fx/EUR", &[message]);
        world.quiesce();
        assert!(world.is_confirmed(eve, token), "who publishes knows nothing of it");
    }
    let shown = show(&mut world, ann, "dsub/all").unwrap();
    assert!((15..=20).contains(&shown.entry.messages), "{}", shown.entry.messages);
    assert!(shown.account.unwrap().0 <= BYTES_MAX + 1_500);
    world.subscribe(ann, 0, Wish::to("queue:dsub/all"));
    world.quiesce();
    let last = world.clients[ann].received.last().unwrap();
    assert!(last.body.starts_with("0099"), "the oldest are dropped");
}

#[test]
fn what_lay_at_a_place_that_is_lost_counts_no_more() {
    let mut world = World::new(7, options(2));
    let ann = world.connect(0, "ann");
    let queues = queues_at_homes("a", 2);
    while send(&mut world, ann, &queues[1], Flags::NONE) {}
    assert!(!send(&mut world, ann, &queues[0], Flags::NONE));
    world.lose(1);
    world.quiesce();
    assert!(send(&mut world, ann, &queues[0], Flags::NONE));
}

#[test]
fn a_queue_that_drops_takes_what_comes() {
    let mut options = options(1);
    options.queue_default.policy.full = FullPolicy::DropHead;
    let mut world = World::new(1, options);
    let ann = world.connect(0, "ann");
    for _ in 0..50 {
        assert!(send(&mut world, ann, "a", Flags::NONE));
    }
    let metrics = world.metrics();
    assert_eq!(metrics.dropped_head + metrics.queue_messages, 50);
    assert!(held(&mut world, ann, "a") <= BYTES_MAX);
}
