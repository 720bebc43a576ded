//! What consumers and senders of an edge are told, one case after the other.

use super::nodes::{Nodes, operation};
use crate::support::{Outgoing, Wish, for_seeds};
use tiderace_base::CloseCode;
use tiderace_wire::{Browsing, Command, Commands, OperationResult, Outcome, Settle};

fn explicit(window: u32, target: &str) -> Wish {
    Wish { explicit: true, window: Some(window), ..Wish::to(target) }
}

#[test]
fn two_edges_share_a_queue_and_a_slow_consumer_holds_its_prefetch_alone() {
    for_seeds(0..30, |seed| {
        let mut nodes = Nodes::new(seed, 2);
        let slow = nodes.edges[0].world.connect(0, "ann");
        nodes.edges[0].world.subscribe(slow, 1, explicit(2, "queue:q/a"));
        let fast: Vec<usize> = (0..2).map(|at| nodes.edges[at].world.connect(0, "bob")).collect();
        for (edge, client) in nodes.edges.iter_mut().zip(&fast) {
            edge.world.subscribe(*client, 1, Wish::to("queue:q/a"));
        }
        nodes.settle();
        let sender = nodes.edges[1].world.connect(0, "cid");
        let mut tokens = Vec::new();
        for number in 0..40 {
            tokens.push(nodes.edges[1].world.publish(sender, "queue:q/a", &format!("{number}")));
            nodes.settle();
        }
        assert!(tokens.iter().all(|token| nodes.edges[1].world.is_confirmed(sender, *token)));
        assert_eq!(nodes.bodies(0, slow).len(), 2);
        let (one, other) = (nodes.bodies(0, fast[0]).len(), nodes.bodies(1, fast[1]).len());
        assert_eq!(one + other, 38);
        assert!(one > 8 && other > 8, "the work is not divided: {one} and {other}");
        nodes.end();
    });
}

#[test]
fn one_consumer_gets_messages_in_order_with_their_properties_and_settles_them_there() {
    for_seeds(0..30, |seed| {
        let mut nodes = Nodes::new(seed, 1);
        let world = &mut nodes.edges[0].world;
        let consumer = world.connect(world.brokers.len() - 1, "ann");
        world.subscribe(consumer, 1, explicit(3, "queue:q/a"));
        let sender = world.connect(0, "bob");
        for number in 0..20 {
            let mut message = Outgoing::new(format!("{number}"));
            message.properties = format!("number:{number}\n");
            world.publish_all(sender, "queue:q/a", &[message]);
        }
        nodes.settle();
        for number in 0..20 {
            let world = &mut nodes.edges[0].world;
            let all = world.clients[consumer].received.clone();
            assert_eq!(all.len(), (number + 3).min(20));
            let message = &all[number];
            assert_eq!(message.body, number.to_string());
            assert_eq!(message.properties, format!("number:{number}\n").as_bytes());
            let token = world.settle(consumer, message, Outcome::Accept);
            nodes.settle();
            assert!(nodes.edges[0].world.is_confirmed(consumer, token));
        }
        assert_eq!(nodes.source.metrics().queue_messages, 0);
        nodes.end();
    });
}

#[test]
fn after_a_loss_a_consumer_is_there_again_and_hears_what_its_settling_came_to() {
    let mut nodes = Nodes::new(3, 1);
    let consumer = nodes.edges[0].world.connect(0, "ann");
    nodes.edges[0].world.subscribe(consumer, 1, explicit(2, "queue:q/a"));
    let sender = nodes.source.connect(0, "bob");
    for body in ["a", "b", "c"] {
        nodes.source.publish(sender, "queue:q/a", body);
    }
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer), ["a", "b"]);
    nodes.cut(0);
    nodes.settle();
    let world = &mut nodes.edges[0].world;
    let before = world.clients[consumer].received.clone();
    let token = world.settle(consumer, &before[0], Outcome::Accept);
    nodes.settle();
    let refused = &nodes.edges[0].world.clients[consumer].refused;
    assert_eq!(refused[..], [(Some(token), CloseCode::DeliveryLost)]);
    // However long that takes.
    (0..40).for_each(|_| nodes.advance(50));
    nodes.heal(0);
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer), ["a", "b", "a", "b"]);
    let world = &mut nodes.edges[0].world;
    let again = world.clients[consumer].received[2..].to_vec();
    assert_eq!(again[0].redeliveries, 1, "its consumer most likely had it");
    let token = world.settle(consumer, &again[0], Outcome::Accept);
    nodes.settle();
    assert!(nodes.edges[0].world.is_confirmed(consumer, token));
    assert_eq!(nodes.bodies(0, consumer)[4..], ["c"]);
    nodes.end();
    assert_eq!(nodes.source.metrics().queue_messages, 2);
}

#[test]
fn what_a_client_has_not_been_given_when_the_connection_is_lost_is_not_given_to_it() {
    let mut nodes = Nodes::new(3, 1);
    let consumer = nodes.edges[0].world.connect(0, "ann");
    let wish = Wish { credit: Some(1), ..explicit(8, "queue:q/a") };
    nodes.edges[0].world.subscribe(consumer, 1, wish);
    nodes.settle();
    let sender = nodes.source.connect(0, "bob");
    for body in ["a", "b"] {
        nodes.source.publish(sender, "queue:q/a", body);
    }
    // It comes to the edge, and not to its client.
    for _ in 0..50 {
        nodes.source.quiesce();
        nodes.pump(0);
        nodes.edges[0].world.deliver_envelopes();
    }
    assert_eq!(nodes.bodies(0, consumer).len(), 0);
    nodes.cut(0);
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer).len(), 0);
    nodes.heal(0);
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer), ["a"], "its credit is as it was");
    nodes.edges[0].world.credit(consumer, 1, 1);
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer), ["a", "b"]);
    nodes.end();
}

#[test]
fn both_fences_are_asked_and_what_is_not_passed_on_says_so() {
    let mut nodes = Nodes::new(1, 1);
    let client = nodes.edges[0].world.connect(0, "ann");
    let mut key = 0;
    let mut refusal = |nodes: &mut Nodes, wish: Wish| {
        key += 1;
        let token = nodes.edges[0].world.subscribe(client, key, wish);
        nodes.settle();
        let world = &nodes.edges[0].world;
        let refused = world.clients[client].refused.last().copied();
        assert_eq!(refused.map(|(token, _)| token), Some(Some(token)));
        refused.map(|(_, code)| code)
    };
    for queue in ["queue:q/denied", "queue:q/fenced"] {
        assert_eq!(refusal(&mut nodes, Wish::to(queue)), Some(CloseCode::NotAuthorised));
    }
    let both = || vec!["queue:q/a".to_owned(), "queue:own".to_owned()];
    let elsewhere = Some(CloseCode::QueueElsewhere);
    assert_eq!(refusal(&mut nodes, Wish { targets: both(), ..Wish::default() }), elsewhere);
    assert_eq!(refusal(&mut nodes, Wish::to("queue:**")), elsewhere);
    // In a transaction.
    let world = &mut nodes.edges[0].world;
    world.subscribe(client, 50, explicit(1, "queue:q/a"));
    world.publish(client, "queue:q/a", "x");
    nodes.settle();
    let world = &mut nodes.edges[0].world;
    let message = world.clients[client].received[0].clone();
    let (sent, settled) = (world.token(client), world.token(client));
    let mut commands = Commands::new();
    commands.push(Command::Together(true));
    commands.message(&crate::support::destination("queue:q/a"));
    commands.publish(b"y", Default::default(), Some(sent));
    commands.push(Command::Settle(Settle {
        key: tiderace_wire::SubscriptionKey(50),
        home: message.home,
        ranges: vec![(message.sequence, message.sequence)],
        outcome: Outcome::Accept,
        confirm: Some(settled),
    }));
    commands.push(Command::Together(false));
    world.commands(client, &mut commands);
    nodes.settle();
    let refused = &nodes.edges[0].world.clients[client].refused;
    let last: Vec<_> = refused.iter().rev().take(2).map(|(token, code)| (*token, *code)).collect();
    assert!(last.contains(&(Some(sent), CloseCode::QueueElsewhere)), "{last:?}");
    assert!(last.contains(&(Some(settled), CloseCode::QueueElsewhere)), "{last:?}");
    // Its own queues are its own.
    let world = &mut nodes.edges[0].world;
    world.subscribe(client, 60, Wish::to("queue:own"));
    world.publish(client, "queue:own", "z");
    nodes.settle();
    assert_eq!(nodes.bodies(0, client).last(), Some(&"z"));
    nodes.end();
}

#[test]
fn operations_on_queues_are_done_there_and_what_reads_them_is_refused() {
    let mut nodes = Nodes::new(2, 1);
    let client = nodes.edges[0].world.connect(0, "ann");
    for number in 0..5 {
        nodes.edges[0].world.publish(client, "queue:q/a", &number.to_string());
    }
    nodes.settle();
    let operate = |nodes: &mut Nodes, text: &str| {
        let world = &mut nodes.edges[0].world;
        let token = world.token(client);
        world.command(client, Command::Operate { token, operation: operation(text) });
        nodes.settle();
        let known = &nodes.edges[0].world.clients[client];
        let refused = known.refused.iter().find(|(known, _)| *known == Some(token));
        known.operated.get(&token).cloned().ok_or(refused.map(|(_, code)| *code))
    };
    let moved = operate(&mut nodes, r#"{"do":"move","from":"q/a","to":"q/b","limit":2}"#);
    assert!(matches!(moved, Ok(OperationResult::Moved(moved)) if moved.messages == 2));
    let purged = operate(&mut nodes, r#"{"do":"purge","path":"q/a"}"#);
    assert!(matches!(purged, Ok(OperationResult::Purged { messages: 3, .. })), "{purged:?}");
    let paused = operate(&mut nodes, r#"{"do":"pause","path":"q/b"}"#);
    assert!(matches!(paused, Ok(OperationResult::Done)), "{paused:?}");
    let reader = nodes.source.connect(0, "reader");
    nodes.source.subscribe(reader, 1, Wish::to("queue:q/b"));
    nodes.settle();
    assert!(nodes.source.clients[reader].received.is_empty(), "it is paused");
    let resumed = operate(&mut nodes, r#"{"do":"resume","path":"q/b"}"#);
    assert!(matches!(resumed, Ok(OperationResult::Done)), "{resumed:?}");
    assert_eq!(nodes.source.clients[reader].received.len(), 2);
    let unknown = operate(&mut nodes, r#"{"do":"purge","path":"q/none"}"#);
    assert_eq!(unknown.err(), Some(Some(CloseCode::QueueUnknown)));
    for text in [
        r#"{"do":"peek","path":"q/b"}"#,
        r#"{"do":"queue","path":"q/b"}"#,
        r#"{"do":"move","from":"q/b","to":"own"}"#,
        r#"{"do":"move","from":"own","to":"q/b"}"#,
    ] {
        let refused = operate(&mut nodes, text);
        assert_eq!(refused.err(), Some(Some(CloseCode::QueueElsewhere)), "{text}");
    }
    nodes.end();
}

#[test]
fn a_full_queue_refuses_what_edges_pass_on_and_its_consumers_go_on() {
    let mut nodes = Nodes::with(0, 1, |options| {
        options.queue_default.policy.messages_max = 3;
    });
    let client = nodes.edges[0].world.connect(0, "ann");
    let mut refused = 0;
    for number in 0..20 {
        nodes.edges[0].world.publish(client, "queue:q/a", &number.to_string());
        nodes.settle();
        let all = &nodes.edges[0].world.clients[client].refused;
        assert!(all.iter().all(|(_, code)| *code == CloseCode::QueueFull), "{all:?}");
        refused = all.len();
    }
    assert!(refused > 10, "{refused}");
    let link = nodes.edges[0].link.as_ref().unwrap().source;
    assert!(!nodes.source.clients[link].paused, "its consumers would wait for its publishers");
    let consumer = nodes.edges[0].world.connect(0, "bob");
    nodes.edges[0].world.subscribe(consumer, 1, Wish::to("queue:q/a"));
    nodes.settle();
    assert_eq!(nodes.bodies(0, consumer).len(), 20 - refused);
    let token = nodes.edges[0].world.publish(client, "queue:q/a", "more");
    nodes.settle();
    assert!(nodes.edges[0].world.is_confirmed(client, token));
    nodes.end();
}

#[test]
fn who_browses_sees_the_queue_once_and_ends_with_the_connection() {
    let mut nodes = Nodes::new(4, 1);
    let world = &mut nodes.edges[0].world;
    let client = world.connect(0, "ann");
    for body in ["a", "b"] {
        world.publish(client, "queue:q/a", body);
    }
    let browse = |how| Wish { browsing: Some(how), ..Wish::to("queue:q/a") };
    world.subscribe(client, 1, browse(Browsing::ToEnd));
    nodes.settle();
    assert_eq!(nodes.bodies(0, client), ["a", "b"]);
    assert_eq!(nodes.edges[0].world.clients[client].browsed, [(1, 2)]);
    nodes.edges[0].world.subscribe(client, 2, browse(Browsing::Following));
    nodes.settle();
    assert_eq!(nodes.bodies(0, client), ["a", "b", "a", "b"]);
    nodes.cut(0);
    nodes.settle();
    let known = &nodes.edges[0].world.clients[client];
    let away = CloseCode::UpstreamAway;
    assert_eq!(
        (&known.subscriptions_ended[..], &known.refused[..]),
        (&[(1, away), (2, away)][..], &[][..])
    );
    nodes.heal(0);
    nodes.settle();
    assert_eq!(nodes.bodies(0, client).len(), 4, "nobody browses any more");
    assert_eq!(nodes.source.metrics().queue_messages, 2);
    nodes.end();
}

#[test]
fn a_consumer_waits_for_an_upstream_that_is_away_and_not_for_ever() {
    let mut nodes = Nodes::new(5, 1);
    nodes.settle();
    nodes.cut(0);
    let client = nodes.edges[0].world.connect(0, "ann");
    let first = nodes.edges[0].world.subscribe(client, 1, Wish::to("queue:q/a"));
    (0..4).for_each(|_| nodes.advance(50));
    nodes.heal(0);
    nodes.settle();
    assert!(nodes.edges[0].world.is_confirmed(client, first));
    nodes.cut(0);
    let second = nodes.edges[0].world.subscribe(client, 2, Wish::to("queue:q/a"));
    for _ in 0..12 {
        nodes.advance(50);
        nodes.settle();
    }
    let third = nodes.edges[0].world.subscribe(client, 3, Wish::to("queue:q/a"));
    nodes.settle();
    let away = |token| (Some(token), CloseCode::UpstreamAway);
    assert_eq!(nodes.edges[0].world.clients[client].refused, [away(second), away(third)]);
    // One that takes no consumers is of no use for the first either.
    nodes.heal_with(0, false);
    nodes.settle();
    let known = &nodes.edges[0].world.clients[client];
    assert_eq!(known.refused.len(), 2);
    assert_eq!(known.subscriptions_ended, [(1, CloseCode::QueueElsewhere)]);
    nodes.end();
}
