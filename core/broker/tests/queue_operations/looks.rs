//! Looking at queues and at the messages in them, and pausing them; and who may do what.

use super::*;

/// `eve` sends; `ann` looks; `ron` reads; `max` manages below `jobs` and may send to `jobs/b` alone.
fn guarded(seed: u64) -> World {
    use Action::{Browse, Manage, Receive, Send};
    let mut options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
    options.rules = Rules::new(vec![
        rule(&[Send, Receive], "eve", "**"),
        rule(&[Browse], "ann", "jobs/**"),
        rule(&[Receive], "ron", "jobs/**"),
        rule(&[Manage], "max", "jobs/**"),
        rule(&[Send], "max", "jobs/b"),
    ]);
    World::new(seed, options)
}

#[test]
fn each_operation_takes_its_right_and_no_other() {
    for_seeds(0..9, |seed| {
        let mut world = guarded(seed);
        let [eve, ann, ron, max] =
            ["eve", "ann", "ron", "max"].map(|name| connect(&mut world, name));
        for queue in ["jobs/a", "jobs/b", "other", "user/eve/own"] {
            world.publish(eve, &format!("queue:{queue}"), "x");
        }
        world.quiesce();
        let query =
            |queue: &str| Operation::Queue(QueueQuery { path: path(queue), after: 0, limit: 0 });
        let peek = |queue: &str| Operation::Peek(Box::new(peeking(queue)));
        let to = |from: &str, to: &str| move_by(moving(from, to));
        // What is asked, and who may have it.
        for (operation, allowed) in [
            (query("jobs/a"), vec![ann]),
            (query("other"), vec![]),
            (query("user/eve/own"), vec![eve]),
            (peek("jobs/a"), vec![eve, ron]),
            (peek("other"), vec![eve]),
            (peek("user/eve/own"), vec![eve]),
            (pause("jobs/a", true), vec![max]),
            (pause("jobs/a", false), vec![max]),
            (pause("other", true), vec![]),
            (pause("$sys/a", true), vec![]),
            (to("jobs/a", "jobs/b"), vec![max]),
            (to("jobs/a", "jobs/c"), vec![]),
            (to("other", "jobs/b"), vec![]),
            (move_by(redriving("jobs/a")), vec![max]),
            (purge("jobs/a", None), vec![max]),
            (purge("other", None), vec![]),
            (purge("user/eve/own", None), vec![eve]),
            (purge("temp/x/y", None), vec![]),
        ] {
            for client in [eve, ann, ron, max] {
                let result = tell(&mut world, client, operation.clone());
                let may = allowed.contains(&client);
                let denied = matches!(result, Err(CloseCode::NotAuthorised));
                assert_eq!(denied, !may, "{operation:?} by {client}: {result:?}");
            }
        }
    });
}

#[test]
fn what_is_not_there_is_said() {
    for_seeds(0..6, |seed| {
        let options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        let mut world = World::new(seed, options);
        let ann = connect(&mut world, "ann");
        for operation in [
            Operation::Queue(QueueQuery { path: path("none"), after: 0, limit: 0 }),
            Operation::Peek(Box::new(peeking("none"))),
            purge("none", None),
            move_by(moving("none", "b")),
            move_by(redriving("none")),
            pause("none", false),
            pause("none", true),
        ] {
            let result = tell(&mut world, ann, operation.clone());
            assert!(matches!(result, Err(CloseCode::QueueUnknown)), "{operation:?}: {result:?}");
        }
    });
}

#[test]
fn a_queue_is_shown_with_its_options_and_consumers_page_by_page() {
    for_seeds(0..6, |seed| {
        let mut options =
            BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        options.queue_default.redeliveries_max = 7;
        let mut world = World::new(seed, options);
        let ann = connect(&mut world, "ann");
        world.publish(ann, "queue:jobs", "12345");
        world.advance(Span::from_millis(70));
        world.publish(ann, "queue:jobs", "1");
        let mut sessions = BTreeSet::new();
        for number in 0..5 {
            let client = connect(&mut world, "eve");
            let wish = Wish {
                selector: (number > 0).then_some(RED),
                explicit: true,
                window: Some(1),
                ..Wish::to(if number == 4 { "queue:jo*" } else { "queue:jobs" })
            };
            world.subscribe(client, number, wish);
            sessions.insert((world.clients[client].session, number));
        }
        world.quiesce();
        let all = show(&mut world, ann, "jobs").unwrap();
        let entry = QueueEntry {
            path: path("jobs"),
            messages: 1,
            delayed: 0,
            groups: 0,
            in_flight: 1,
            bytes: all.entry.bytes,
            swapped: 0,
            swapped_bytes: 0,
            consumers: 5,
            browsers: 0,
            full: false,
            paused: false,
            topics: None,
            patterns: Vec::new(),
            selector: None,
            oldest_ms: Some(0),
            // Who came first has made it.
            owner: all.entry.owner.clone(),
        };
        assert_eq!(all.entry, entry);
        assert_eq!(all.settings.redeliveries_max, 7);
        assert_eq!(all.settings.dead_letter, Some(path("dlq/jobs")));
        assert_eq!((all.consumers.len(), all.next), (5, None));
        let with = |consumer: &&tiderace_wire::ConsumerEntry| consumer.selector.is_some();
        assert_eq!(all.consumers.iter().filter(with).count(), 4);
        assert_eq!(all.consumers.iter().map(|it| it.in_flight).sum::<u64>(), 1);
        // In pages of two, each is there once.
        let (mut after, mut found) = (0, BTreeSet::new());
        loop {
            let query = QueueQuery { path: path("jobs"), after, limit: 2 };
            let result = tell(&mut world, ann, Operation::Queue(query)).unwrap();
            let OperationResult::Queue(part) = result else { panic!("{result:?}") };
            assert!(part.consumers.len() <= 2);
            for consumer in &part.consumers {
                assert!(found.insert((consumer.session, consumer.subscription.0)));
            }
            let Some(next) = part.next else { break };
            assert!(next > after);
            after = next;
        }
        assert_eq!(found, sessions);
        // The list says the same, and only what its pattern names.
        world.publish(ann, "queue:other", "x");
        world.quiesce();
        let from = BrowseCursor::default();
        let mut listed = Vec::new();
        let mut browse = Browse {
            what: Browsable::Queues,
            from,
            limit: 0,
            patterns: vec![Pattern::parse("j*").unwrap()],
        };
        loop {
            let result = tell(&mut world, ann, Operation::Browse(browse.clone())).unwrap();
            let OperationResult::Listing(listing) = result else { panic!("{result:?}") };
            listed.extend(listing.entries);
            let Some(next) = listing.next else { break };
            browse.from = next;
        }
        assert_eq!(listed, [ListingEntry::Queue(entry)]);
    });
}

#[test]
fn a_look_shows_messages_and_leaves_them_where_they_are() {
    for_seeds(0..6, |seed| {
        let options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        let mut world = World::new(seed, options);
        let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
        fill(&mut world, ann, "jobs", 250);
        let all: Vec<String> = (0..250).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&mut world, eve, peeking("jobs")), all);
        assert_eq!(bodies(&mut world, eve, Peek { limit: 7, ..peeking("jobs") }), all);
        let red = Peek { selector: selector(RED), limit: 9, ..peeking("jobs") };
        let every: Vec<String> = (0..250).step_by(3).map(|number| number.to_string()).collect();
        assert_eq!(bodies(&mut world, eve, red), every);
        // One is in flight, one was rejected, and one is over.
        let late = world.now.wall_ms + 10;
        let expiring = Outgoing { expires_ms: Some(late), ..Outgoing::new("late") };
        world.publish_all(ann, "queue:small", &[expiring]);
        world.publish(ann, "queue:small", "first");
        world.publish(ann, "queue:small", "second");
        world.advance(Span::from_millis(20));
        let wish = Wish { explicit: true, window: Some(2), ..Wish::to("queue:small") };
        world.subscribe(eve, 0, wish);
        world.quiesce();
        let got = world.clients[eve].received.clone();
        assert_eq!(got.len(), 2, "{got:?}");
        world.settle(eve, &got[0], Outcome::Reject);
        world.unsubscribe(eve, 0);
        world.quiesce();
        let page = page(&mut world, eve, peeking("small")).unwrap();
        let shown: Vec<(u64, u32)> =
            page.messages.iter().map(|it| (it.position, it.redeliveries)).collect();
        assert_eq!(shown.iter().map(|(_, count)| *count).max(), Some(1), "{shown:?}");
        assert_eq!(
            shown.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
            [got[0].sequence, got[1].sequence]
        );
        assert!(page.messages.iter().all(|message| message.age_ms == 20));
        assert_eq!(consume_all(&mut world, eve, 1, "jobs").len(), 250, "all are there");
    });
}

#[test]
fn bodies_are_cut_where_their_text_allows_it() {
    let mut world = World::new(1, BrokerOptions::default());
    let ann = world.connect(0, "ann");
    let json = Outgoing {
        properties: "a:b\ncontent-type:application/json\n".into(),
        ..Outgoing::new(format!("\"{}\"", "é".repeat(5_000)))
    };
    world.publish_all(ann, "queue:jobs", &[json, Outgoing::new("short")]);
    world.quiesce();
    let cut = |world: &mut World, body_bytes| {
        let page = page(world, ann, Peek { body_bytes, ..peeking("jobs") }).unwrap();
        let of = |place: usize| {
            let it = &page.messages[place];
            let message = it.run.message(it.place).unwrap();
            (it.cut, message.body.len(), String::from_utf8(message.properties.to_vec()).unwrap())
        };
        (of(0), of(1).0)
    };
    let text = || "a:b\ncontent-type:text/plain\n".to_owned();
    assert_eq!(cut(&mut world, 0), ((Some(10_002), 4_095, text()), None));
    assert_eq!(cut(&mut world, 4_097), ((Some(10_002), 4_097, text()), None));
    let whole = "a:b\ncontent-type:application/json\n".to_owned();
    assert_eq!(cut(&mut world, u32::MAX), ((None, 10_002, whole), None));
    assert_eq!(cut(&mut world, 1), ((Some(10_002), 1, text()), Some(5)));
}

#[test]
fn a_paused_queue_takes_and_does_not_give() {
    for_seeds(0..9, |seed| {
        let options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        let mut world = World::new(seed, options);
        let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
        world.subscribe(eve, 0, Wish { selector: Some(RED), ..Wish::to("queue:jobs") });
        world.subscribe(eve, 1, Wish { window: Some(3), explicit: true, ..Wish::to("queue:jobs") });
        world.quiesce();
        assert!(matches!(tell(&mut world, ann, pause("jobs", true)), Ok(OperationResult::Done)));
        fill(&mut world, ann, "jobs", 10);
        world.advance(Span::from_secs(1));
        world.quiesce();
        assert!(world.clients[eve].received.is_empty());
        let entry = show(&mut world, ann, "jobs").unwrap().entry;
        assert_eq!((entry.paused, entry.messages, entry.oldest_ms), (true, 10, Some(1_000)));
        let paused = |world: &World| -> u64 {
            world.brokers.iter().map(|broker| broker.metrics().queues_paused).sum()
        };
        assert_eq!(paused(&world), 1);
        tell(&mut world, ann, pause("jobs", false)).unwrap();
        for _ in 0..10 {
            for message in world.clients[eve].received.clone().iter().filter(|it| it.key == 1) {
                world.settle(eve, message, Outcome::Accept);
            }
            world.quiesce();
        }
        let got: BTreeSet<String> =
            world.clients[eve].received.iter().map(|message| message.body.clone()).collect();
        assert_eq!((got.len(), paused(&world)), (10, 0));
        world.end();
        world.sweep();
    });
}
