//! Operations that take many turns: none goes on for ever, or for a session that has ended, and no session has all places.

use super::*;
use crate::support::asking::{create, remove};

/// As many as a session may have under way at one home.
const OF_SESSION_MAX: usize = 16;

#[test]
fn what_comes_later_is_not_meant_by_the_next_part_of_a_move() {
    for_seeds(0..12, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut world = World::new(seed, BrokerOptions { shards, ..BrokerOptions::default() });
        let [ann, bob] = ["ann", "bob"].map(|name| connect(&mut world, name));
        fill(&mut world, bob, "from", 300);
        let (mut gone, mut up_to) = (0, None);
        for part in 0.. {
            assert!(part < 10, "it goes on for ever");
            let asked = MoveMessages { limit: Some(50), up_to, ..moving("from", "to") };
            let result = moved(tell(&mut world, ann, move_by(asked)));
            gone += result.messages;
            assert!(up_to.is_none_or(|known| known == result.up_to));
            up_to = Some(result.up_to);
            if result.messages < 50 {
                break;
            }
            fill(&mut world, bob, "from", 60);
        }
        assert_eq!(gone, 300);
        let left = show(&mut world, ann, "from").unwrap().entry.messages;
        let purge = Operation::Purge { path: path("from"), selector: None, up_to };
        assert_eq!(purged(tell(&mut world, ann, purge)), 0, "all of these came later");
        assert_eq!(purged(tell(&mut world, ann, super::purge("from", None))), left);
    });
}

#[test]
fn a_session_has_a_part_of_the_places_for_long_operations() {
    let mut options = BrokerOptions { shards: 2, ..BrokerOptions::default() };
    options.queue_default.bytes_max = 1 << 30;
    let mut world = World::new(1, options);
    let [ann, bob] = ["ann", "bob"].map(|name| world.connect(0, name));
    let (from, to) = (path_at("from", 0, 2), path_at("to", 1, 2));
    fill(&mut world, ann, &from, 6_000);
    for number in 0..10 {
        tell(&mut world, ann, create(&path_at(&format!("t{number}/"), 0, 2), "{}", None)).unwrap();
    }
    // The other home does not answer.
    for _ in 0..OF_SESSION_MAX {
        let token = ask(&mut world, ann, move_by(moving(&from, &to)));
        assert!(answer(&world, ann, token).is_none());
    }
    for operation in [move_by(moving(&from, &to)), purge(&from, None)] {
        let token = ask(&mut world, ann, operation);
        assert_eq!(answer(&world, ann, token).unwrap().unwrap_err(), CloseCode::TooMuchWork);
    }
    let token = ask(&mut world, bob, purge(&from, selector(RED)));
    world.work(0);
    assert!(answer(&world, bob, token).unwrap().is_ok(), "others have places");
    // What is asked of every home is refused where there is no place.
    assert_eq!(tell(&mut world, ann, remove("none/*")).unwrap_err(), CloseCode::TooMuchWork);
    // The other home has answered meanwhile.
    assert!(tell(&mut world, ann, remove("none/*")).is_ok());
    assert!(purged(tell(&mut world, ann, purge(&to, None))) > 3_000);
}

#[test]
fn what_takes_long_ends_with_its_session() {
    for shards in 1..=2 {
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.queue_default.bytes_max = 1 << 30;
        let mut world = World::new(1, options);
        let eve = world.connect(0, "eve");
        let queue = path_at("jobs", 0, shards);
        fill(&mut world, eve, &queue, 100_000);
        for number in 0..3_000 {
            let topic = path_at(&format!("t/{number}/"), 0, shards);
            ask(&mut world, eve, create(&topic, "{}", None));
        }
        world.deliver_envelopes();
        let topics = world.metrics().topics;
        let to = path_at("to", shards - 1, shards);
        for operation in
            [purge(&queue, selector(RED)), move_by(moving(&queue, &to)), remove("t/**")]
        {
            // Some begin and some have to wait.
            let ann = world.connect(shards - 1, "ann");
            for _ in 0..6 {
                ask(&mut world, ann, operation.clone());
            }
            while (0..shards).any(|from| world.deliver_envelope_between(from, 0)) {}
            world.close(ann);
            world.deliver_envelopes();
        }
        let left = show(&mut world, eve, &queue).unwrap().entry;
        assert!(left.messages > 40_000 && left.in_flight == 0, "{left:?} over {shards} shards");
        assert!(world.metrics().topics > topics / 3, "{} topics", world.metrics().topics);
        assert_eq!(world.metrics().work_waiting, 0);
        // Every place is free again.
        for _ in 0..300 {
            tell(&mut world, eve, remove("none/*")).unwrap();
        }
        world.end();
    }
}

#[test]
fn a_queue_that_is_not_there_is_paused_only_if_the_configuration_names_it() {
    for_seeds(0..9, |seed| {
        let mut options =
            BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        let own = options.queue_default.clone();
        for pattern in ["named/one", "some/*"] {
            let (pattern, options_of) = (Pattern::parse(pattern).unwrap(), own.clone());
            options.queue_policies.push(QueuePolicy { pattern, options: options_of });
        }
        let mut world = World::new(seed, options);
        let ann = connect(&mut world, "ann");
        for (queue, is_made) in
            [("named/one", true), ("some/x", false), ("other", false), ("user/ann/x", false)]
        {
            let result = tell(&mut world, ann, pause(queue, true));
            assert_eq!(result.err(), (!is_made).then_some(CloseCode::QueueUnknown), "{queue}");
        }
        assert_eq!(world.metrics().queues, 1);
        // One that is there is kept for its pause, but not if it is private: its owner needs no rule for that, and may
        // have any number of names.
        for queue in ["other", "user/ann/x"] {
            world.publish(ann, &format!("queue:{queue}"), "x");
            world.quiesce();
            tell(&mut world, ann, pause(queue, true)).unwrap();
            assert_eq!(purged(tell(&mut world, ann, purge(queue, None))), 1);
        }
        for _ in 0..3 {
            world.advance(Span::from_secs(60));
        }
        for (queue, is_kept) in [("named/one", true), ("other", true), ("user/ann/x", false)] {
            let shown = show(&mut world, ann, queue);
            assert_eq!(shown.map(|details| details.entry.paused).ok(), is_kept.then_some(true));
        }
        assert_eq!(world.metrics().queues, 2);
    });
}
