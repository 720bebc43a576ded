//! Purging queues and moving messages: in slices, with nothing lost on the way.

use super::*;

#[test]
fn a_purge_takes_what_was_ready_and_matches() {
    for_seeds(0..12, |seed| {
        let options = BrokerOptions { shards: 1 + (seed % 3) as usize, ..BrokerOptions::default() };
        let mut world = World::new(seed, options);
        let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
        fill(&mut world, ann, "jobs", 1_000);
        let wish = Wish { explicit: true, window: Some(5), ..Wish::to("queue:jobs") };
        world.subscribe(eve, 0, wish);
        world.quiesce();
        let red = purged(tell(&mut world, ann, purge("jobs", selector(RED))));
        assert_eq!(red, 334 - 2, "two of the five in flight are red");
        assert_eq!(purged(tell(&mut world, ann, purge("jobs", selector(RED)))), 0);
        let held = world.clients[eve].received.clone();
        assert_eq!(held.len(), 5);
        assert_eq!(purged(tell(&mut world, ann, purge("jobs", None))), 666 - 3);
        for message in &held {
            world.settle(eve, message, Outcome::Accept);
        }
        world.quiesce();
        let metrics = world.metrics();
        assert_eq!((metrics.queue_messages, metrics.queue_bytes), (0, 0));
        assert!(world.brokers.iter().map(|it| it.metrics().messages_purged).sum::<u64>() == 995);
        world.end();
        world.sweep();
    });
}

#[test]
fn a_long_purge_lets_others_on() {
    let mut options = BrokerOptions::default();
    options.queue_default.bytes_max = 1 << 30;
    let mut world = World::new(1, options);
    let [ann, eve] = ["ann", "eve"].map(|name| world.connect(0, name));
    fill(&mut world, ann, "jobs", 200_000);
    for selector in [selector("colour = 'green'"), selector(RED), None] {
        let spent = world.metrics().work;
        let token = ask(&mut world, ann, purge("jobs", selector));
        let (mut turns, mut before) = (0, world.brokers[0].metrics().work);
        let mut sent = 0;
        while answer(&world, ann, token).is_none() {
            world.now.time = world.now.time + Span::from_millis(1);
            world.work(0);
            let now = world.brokers[0].metrics().work;
            assert!(now - before <= (2 << 20) + 2 * (64 << 10), "one turn spent {}", now - before);
            before = now;
            turns += 1;
            // Somebody else's message is taken between two turns, and is not purged.
            sent += 1;
            world.publish(eve, "queue:jobs", "new");
            world.publish(eve, "queue:other", "x");
        }
        assert!(turns >= 2, "{turns} turns, {} units", world.metrics().work - spent);
        let there = show(&mut world, ann, "jobs").unwrap().entry.messages;
        assert!(there >= sent, "what has come meanwhile stays");
    }
    assert!(show(&mut world, ann, "jobs").unwrap().entry.messages < 1_000);
}

#[test]
fn messages_move_in_their_order_between_any_two_homes() {
    for_seeds(0..24, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.queue_default.bytes_max = 1 << 30;
        let mut world = World::new(seed, options);
        let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
        let from = path_at("from", world.random.below(shards), shards);
        let to = path_at("to", world.random.below(shards), shards);
        fill(&mut world, ann, &from, 2_000);
        let some = MoveMessages { selector: selector(RED), limit: Some(300), ..moving(&from, &to) };
        let result = moved(tell(&mut world, ann, move_by(some)));
        assert_eq!((result.messages, result.kept, result.refused), (300, 0, None));
        let red: Vec<String> = (0..900).step_by(3).map(|number| number.to_string()).collect();
        let got = |world: &mut World, queue: &str| {
            let got = consume_all(world, eve, 0, queue);
            got.into_iter().map(|message| message.body).collect::<Vec<_>>()
        };
        assert_eq!(got(&mut world, &to), red);
        let rest = moved(tell(&mut world, ann, move_by(moving(&from, &to))));
        assert_eq!(rest.messages, 1_700);
        let others = (0..2_000).filter(|number| number % 3 > 0 || *number >= 900);
        let others: Vec<String> = others.map(|number| number.to_string()).collect();
        assert_eq!(got(&mut world, &to), others);
        assert!(got(&mut world, &from).is_empty());
        let none = MoveMessages { limit: Some(0), ..moving(&from, &to) };
        let nothing = moved(tell(&mut world, ann, move_by(none)));
        assert_eq!((nothing.messages, nothing.kept), (0, 0));
        world.end();
        world.sweep();
    });
}

#[test]
fn what_the_other_queue_cannot_take_stays_where_it_was() {
    for_seeds(0..12, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.queue_default.bytes_max = 20_000;
        let mut world = World::new(seed, options);
        let [ann, bob, eve] = ["ann", "bob", "eve"].map(|name| connect(&mut world, name));
        let from = path_at("from", world.random.below(shards), shards);
        let to = path_at("to", world.random.below(shards), shards);
        fill(&mut world, ann, &from, 800);
        fill(&mut world, bob, &to, 600);
        let result = moved(tell(&mut world, ann, move_by(moving(&from, &to))));
        let code = result.refused.as_ref().map(|close| close.code);
        assert_eq!(code, Some(CloseCode::QueueFull), "{result:?}");
        let stay = show(&mut world, ann, &from).unwrap().entry;
        assert_eq!((stay.messages + result.messages, stay.in_flight), (800, 0));
        let there = consume_all(&mut world, eve, 0, &to).len() as u64;
        assert_eq!(there, 600 + result.messages);
        let left: Vec<usize> = consume_all(&mut world, eve, 1, &from)
            .iter()
            .map(|message| message.body.parse().unwrap())
            .collect();
        assert_eq!(left, (result.messages as usize..800).collect::<Vec<_>>());
    });
}

/// Lets a consumer reject what it gets until it is dead.
fn kill(world: &mut World, client: usize, queue: &str) {
    let wish = Wish { explicit: true, ..Wish::to(&format!("queue:{queue}")) };
    let mut seen = world.clients[client].received.len();
    world.subscribe(client, 90, wish);
    world.quiesce();
    loop {
        let news = world.clients[client].received.split_off(seen);
        if news.is_empty() {
            break;
        }
        for message in news {
            world.settle(client, &message, Outcome::Reject);
        }
        world.quiesce();
        seen = world.clients[client].received.len().min(seen);
    }
    world.unsubscribe(client, 90);
    world.quiesce();
}

#[test]
fn dead_letters_go_back_to_where_they_came_from_as_new() {
    for_seeds(0..12, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.queue_default.redeliveries_max = 2;
        options.queue_default.dead_letter = "dead".into();
        let mut world = World::new(seed, options);
        let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
        let queues = ["a", "b", "c"];
        for queue in queues {
            for number in 0..20 {
                let message = coloured(format!("{queue}{number}"), number % 3 == 0);
                world.publish_all(ann, &format!("queue:{queue}"), &[message]);
            }
            world.quiesce();
            kill(&mut world, eve, queue);
        }
        // One that does not say where it came from.
        world.publish(ann, "queue:dead", "stray");
        world.quiesce();
        assert_eq!(show(&mut world, ann, "dead").unwrap().entry.messages, 61);
        let page = page(&mut world, ann, peeking("dead")).unwrap();
        let first = page.messages[0].run.message(page.messages[0].place).unwrap().properties;
        for (name, value) in [
            ("dead-letter-queue", "a"),
            ("dead-letter-reason", "redeliveries"),
            ("dead-letter-redeliveries", "3"),
            ("dead-letter-time", &world.now.wall_ms.to_string()),
        ] {
            assert_eq!(properties::find(first, name).as_deref(), Some(value), "{name}");
        }
        let one = MoveMessages { limit: Some(1), ..redriving("dead") };
        assert_eq!(moved(tell(&mut world, ann, move_by(one))).messages, 1);
        let result = moved(tell(&mut world, ann, move_by(redriving("dead"))));
        assert_eq!((result.messages, result.kept), (59, 1));
        assert_eq!(result.refused.unwrap().code, CloseCode::BadDestination);
        for queue in queues {
            let got = consume_all(&mut world, eve, 0, queue);
            let bodies: Vec<&str> = got.iter().map(|message| &*message.body).collect();
            let wanted: Vec<String> = (0..20).map(|number| format!("{queue}{number}")).collect();
            assert_eq!(bodies, wanted);
            for message in &got {
                assert_eq!(message.redeliveries, 0);
                assert!(property(message, "colour").is_some());
                assert!(!String::from_utf8_lossy(&message.properties).contains("dead-letter"));
            }
        }
        // To another queue all of them may go.
        let to = MoveMessages { to: Some(path("rescue")), ..redriving("dead") };
        assert_eq!(moved(tell(&mut world, ann, move_by(to))).messages, 1);
        assert_eq!(consume_all(&mut world, eve, 1, "rescue").len(), 1);
        world.end();
        world.sweep();
    });
}

#[test]
fn a_dead_letter_goes_only_where_its_requester_may_send() {
    let mut options = BrokerOptions { shards: 2, ..BrokerOptions::default() };
    options.queue_default.redeliveries_max = 1;
    options.queue_default.dead_letter = "dead".into();
    options.rules = Rules::new(vec![
        rule(&[Action::Send, Action::Receive, Action::Browse], "eve", "**"),
        rule(&[Action::Manage], "max", "dead"),
        rule(&[Action::Send], "max", "a"),
    ]);
    let mut world = World::new(3, options);
    let [eve, max] = ["eve", "max"].map(|name| connect(&mut world, name));
    for queue in ["a", "b"] {
        world.publish(eve, &format!("queue:{queue}"), queue);
        world.quiesce();
        kill(&mut world, eve, queue);
    }
    let result = moved(tell(&mut world, max, move_by(redriving("dead"))));
    assert_eq!((result.messages, result.kept), (1, 1));
    assert_eq!(result.refused.unwrap().code, CloseCode::NotAuthorised);
    assert_eq!(show(&mut world, eve, "dead").unwrap().entry.messages, 1);
    assert_eq!(consume_all(&mut world, eve, 0, "a").len(), 1);
}

#[test]
fn nothing_is_moved_to_a_temporary_queue() {
    let mut world = World::new(5, BrokerOptions { shards: 2, ..BrokerOptions::default() });
    let [ann, eve] = ["ann", "eve"].map(|name| connect(&mut world, name));
    let session = world.clients[eve].session;
    let name = world.brokers[session.shard.index()].temporary_name(session);
    let own = format!("temp/{name}/r");
    // A publisher may write the property by which dead letters go back.
    let forged =
        Outgoing { properties: format!("dead-letter-queue:{own}\n"), ..Outgoing::new("forged") };
    world.publish_all(ann, "queue:jobs", &[forged]);
    world.quiesce();
    let result = moved(tell(&mut world, ann, move_by(redriving("jobs"))));
    assert_eq!((result.messages, result.kept), (0, 1));
    assert_eq!(result.refused.unwrap().code, CloseCode::BadDestination);
    let refused = tell(&mut world, ann, move_by(moving("jobs", &own)));
    assert_eq!(refused.unwrap_err(), CloseCode::BadDestination);
    assert_eq!(consume_all(&mut world, eve, 0, "jobs").len(), 1);
}

#[test]
fn what_a_lost_shard_has_not_answered_for_is_where_it_was() {
    for_seeds(0..40, |seed| {
        let mut options = BrokerOptions { shards: 3, ..BrokerOptions::default() };
        options.queue_default.bytes_max = 1 << 30;
        let mut world = World::new(seed, options);
        let ann = world.connect(0, "ann");
        let (from, to) = (path_at("from", 1, 3), path_at("to", 2, 3));
        fill(&mut world, ann, &from, 1_500);
        let token = ask(&mut world, ann, move_by(moving(&from, &to)));
        for _ in 0..world.random.below(20) {
            world.deliver_envelope();
        }
        let done = answer(&world, ann, token).is_some();
        world.lose(2);
        world.deliver_envelopes();
        let result = moved(answer(&world, ann, token).expect("it is answered"));
        let entry = show(&mut world, ann, &from).unwrap().entry;
        assert_eq!((entry.messages + result.messages, entry.in_flight), (1_500, 0), "{result:?}");
        if !done && result.messages < 1_500 {
            assert_eq!(result.refused.unwrap().code, CloseCode::PeerLost);
        }
        let got = consume_all(&mut world, ann, 0, &from);
        let bodies: Vec<u64> = got.iter().map(|message| message.body.parse().unwrap()).collect();
        assert_eq!(bodies, (result.messages..1_500).collect::<Vec<_>>());
    });
}

#[test]
fn moves_and_consumers_at_once_lose_and_double_nothing() {
    for_seeds(0..150, |seed| {
        let shards = 1 + (seed % 3) as usize;
        let mut options = BrokerOptions { shards, ..BrokerOptions::default() };
        options.queue_default.bytes_max = 3_000;
        options.queue_default.redeliveries_max = 2;
        options.queue_default.dead_letter = "dead".into();
        let mut world = World::new(seed, options);
        let clients: Vec<usize> = (0..3).map(|_| connect(&mut world, "eve")).collect();
        let queues = ["a", "b", "c", "dead"];
        let (mut published, mut seen) = (0, vec![0; 3]);
        let mut accepted = BTreeSet::new();
        let mut held: Vec<(usize, Received)> = Vec::new();
        let mut look = |world: &mut World, held: &mut Vec<(usize, Received)>| {
            for client in &clients {
                let news = world.clients[*client].received.len();
                for at in std::mem::replace(&mut seen[*client], news)..news {
                    held.push((*client, world.clients[*client].received[at].clone()));
                }
            }
        };
        for _ in 0..200 {
            let client = *world.random.pick(&clients);
            let queue = *world.random.pick(&queues);
            let other = *world.random.pick(&queues);
            match world.random.below(16) {
                0..=2 if !world.clients[client].paused && queue != "dead" => {
                    for _ in 0..3 {
                        let red = published % 3 == 0;
                        let message = coloured(published.to_string(), red);
                        world.publish_all(client, &format!("queue:{queue}"), &[message]);
                        published += 1;
                    }
                }
                3 => {
                    let key = world.random.below(4) as u32;
                    let wish = Wish { window: Some(3), explicit: true, ..Wish::to("queue:*") };
                    let wish = Wish { targets: vec![format!("queue:{queue}")], ..wish };
                    let left = |(who, it): &(usize, Received)| *who != client || it.key != key;
                    world.unsubscribe(client, key);
                    held.retain(left);
                    world.deliver_envelopes();
                    look(&mut world, &mut held);
                    held.retain(left);
                    world.subscribe(client, key, wish);
                }
                4..=7 if !held.is_empty() => {
                    let place = world.random.below(held.len());
                    let (client, message) = held.swap_remove(place);
                    if world.random.one_in(3) {
                        world.settle(client, &message, Outcome::Reject);
                    } else {
                        let body: u64 = message.body.parse().unwrap();
                        assert!(accepted.insert(body), "{body} twice");
                        world.settle(client, &message, Outcome::Accept);
                    }
                }
                8 | 9 if queue != other => {
                    let limit = world.random.one_in(2).then_some(4);
                    let red = world.random.one_in(3).then(|| selector(RED)).flatten();
                    let asked = MoveMessages { limit, selector: red, ..moving(queue, other) };
                    ask(&mut world, client, move_by(asked));
                }
                10 => {
                    ask(&mut world, client, move_by(redriving("dead")));
                }
                11 => {
                    ask(&mut world, client, pause(queue, true));
                }
                12 => {
                    ask(&mut world, client, pause(queue, false));
                }
                _ => {
                    world.deliver_envelope();
                    world.pull(client);
                }
            }
            look(&mut world, &mut held);
        }
        for client in &clients {
            world.close(*client);
        }
        world.deliver_envelopes();
        let last = connect(&mut world, "last");
        for queue in queues {
            let result = tell(&mut world, last, pause(queue, false));
            assert!(matches!(result, Ok(_) | Err(CloseCode::QueueUnknown)), "{result:?}");
        }
        for (key, queue) in (0..).zip(queues) {
            for message in consume_all(&mut world, last, key, queue) {
                let body: u64 = message.body.parse().unwrap();
                assert!(accepted.insert(body), "{body} twice");
            }
        }
        assert_eq!(accepted.len() as u64, published, "nothing is lost");
        let metrics = world.metrics();
        assert_eq!((metrics.queue_messages, metrics.queue_bytes), (0, 0));
        world.end();
        world.sweep();
    });
}
