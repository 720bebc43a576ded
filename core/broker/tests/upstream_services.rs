//! Calls of an edge whose connection to the source the test plays: how long they wait, where they go, and how many there may be.

#![allow(clippy::unwrap_used)]

use crate::support::nodes::edge_world;
use crate::support::{Outgoing, Wish, World};
use tiderace_base::{CloseCode, Span};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_wire::{Command, ExchangeKey, FromUpstream, ToUpstream};

/// An edge whose connection the test plays, and a client of it.
fn played(number: u64) -> (World, usize, usize) {
    let mut world = edge_world(number, BrokerOptions::default());
    let client = world.connect(0, "ann");
    let shard = (number % world.brokers.len() as u64) as usize;
    let link = world.open(shard);
    world.verified(link, Ok(Principal::server()));
    (world, client, link)
}

fn say(world: &mut World, link: usize, said: FromUpstream) {
    world.command(link, Command::Upstream(Box::new(said)));
}

fn ended(world: &mut World, client: usize) -> Vec<(u32, CloseCode)> {
    world.quiesce();
    let ended = std::mem::take(&mut world.clients[client].ended);
    ended.into_iter().map(|(key, code)| (key.number, code)).collect()
}

#[test]
fn calls_wait_for_an_upstream_as_long_as_subscriptions_and_go_in_order() {
    let (mut world, client, link) = played(1);
    world.call(client, 1, "fx/a", "one", true);
    world.call(client, 2, "fx/a", "two", true);
    assert_eq!(ended(&mut world, client), []);
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    assert_eq!(ended(&mut world, client), []);
    assert!(world.clients[link].heard.is_empty(), "it is not known whether calls are taken");
    say(&mut world, link, FromUpstream::Calls { taken: true });
    world.quiesce();
    let heard: Vec<&str> = world.clients[link].heard.iter().map(|row| &*row.body).collect();
    assert_eq!(heard, ["one", "two"]);
    assert_eq!(world.metrics().upstream_exchanges, 2);
    // What the session has taken is lost with it, and nobody knows what came of it.
    world.close(link);
    let mut lost = ended(&mut world, client);
    lost.sort_unstable_by_key(|(number, _)| *number);
    assert_eq!(lost, [(1, CloseCode::OutcomeUnknown), (2, CloseCode::OutcomeUnknown)]);
    world.call(client, 3, "fx/a", "three", true);
    world.cancel(client, ExchangeKey::caller(3));
    world.call(client, 4, "fx/a", "four", true);
    for _ in 0..12 {
        assert_eq!(ended(&mut world, client), []);
        world.advance(Span::from_millis(40));
    }
    world.advance(Span::from_millis(40));
    assert_eq!(ended(&mut world, client), [(4, CloseCode::UpstreamAway)]);
    world.call(client, 5, "fx/a", "five", true);
    assert_eq!(ended(&mut world, client), [(5, CloseCode::UpstreamAway)]);
    let metrics = world.metrics();
    assert_eq!((metrics.upstream_calls, metrics.upstream_calls_unknown), (2, 2));
    assert_eq!(metrics.upstream_calls_refused, 2);
    world.end();
}

#[test]
fn a_call_that_the_session_had_not_taken_was_not_passed_on() {
    let (mut world, client, link) = played(1);
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    say(&mut world, link, FromUpstream::Calls { taken: true });
    world.call(client, 1, "fx/a", "one", true);
    world.deliver_envelopes();
    world.close(link);
    assert_eq!(ended(&mut world, client), [(1, CloseCode::UpstreamAway)]);
    world.end();
}

#[test]
fn an_upstream_that_takes_no_calls_is_not_called() {
    let (mut world, client, link) = played(2);
    world.call(client, 1, "fx/a", "one", true);
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    say(&mut world, link, FromUpstream::Calls { taken: false });
    world.call(client, 2, "fx/a", "two", true);
    assert_eq!(
        ended(&mut world, client),
        [(1, CloseCode::TopicElsewhere), (2, CloseCode::TopicElsewhere)]
    );
    // Other services are this node's own, and so are those that its clients serve.
    world.call(client, 3, "own", "three", true);
    assert_eq!(ended(&mut world, client), [(3, CloseCode::NoResponder)]);
    let server = world.connect(0, "server");
    world.subscribe(server, 1, Wish::to("service:fx/*"));
    world.quiesce();
    world.call(client, 4, "fx/a", "four", true);
    world.quiesce();
    assert_eq!(world.clients[server].heard.len(), 1);
}

#[test]
fn who_serves_here_gets_the_calls_and_those_that_waited_for_the_upstream() {
    let (mut world, client, link) = played(0);
    world.call(client, 1, "fx/a", "one", true);
    world.quiesce();
    let server = world.connect(0, "server");
    let wish = || Wish { window: Some(1), ..Wish::to("service:fx/a") };
    world.subscribe(server, 1, wish());
    world.quiesce();
    world.advance(Span::from_millis(50));
    world.quiesce();
    assert_eq!(world.clients[server].heard.len(), 1);
    // While it has no room, others wait for it; when it goes, they go to the upstream.
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    say(&mut world, link, FromUpstream::Calls { taken: true });
    world.call(client, 2, "fx/a", "two", true);
    world.quiesce();
    assert!(world.clients[link].heard.is_empty());
    // The upstream is told what is served, and that it is no more.
    world.advance(Span::from_millis(50));
    world.quiesce();
    let asked: Vec<ToUpstream> = world.clients[link].asked_upstream.drain(..).collect();
    let [ToUpstream::Serve { key: 0, target }] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(target.name(), "fx/a");
    world.unsubscribe(server, 1);
    world.quiesce();
    assert_eq!(world.clients[link].heard.len(), 1);
    assert_eq!(world.clients[link].heard[0].body, "two");
    world.advance(Span::from_millis(50));
    world.quiesce();
    let asked = &world.clients[link].asked_upstream;
    assert!(matches!(asked[..], [ToUpstream::ServeNoMore { key: 0 }]), "{asked:?}");
    // A call of the upstream never goes back to it.
    world.call(link, 7, "fx/a", "from above", true);
    world.quiesce();
    assert_eq!(world.clients[link].ended, [(ExchangeKey::caller(7), CloseCode::NoResponder)]);
}

#[test]
fn one_session_cannot_take_all_places() {
    let (mut world, client, link) = played(3);
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    say(&mut world, link, FromUpstream::Calls { taken: true });
    for number in 0..2_050 {
        world.call_with(client, number, "fx/a", b"x", (true, Span::ZERO, Some(1)));
    }
    let refused = [(2_048, CloseCode::TooManyCalls), (2_049, CloseCode::TooManyCalls)];
    assert_eq!(ended(&mut world, client), refused);
    // Others are served, and so are its own topics.
    let other = world.connect(1 % world.brokers.len(), "bob");
    world.call(other, 1, "fx/a", "bob's", true);
    world.quiesce();
    let last = world.clients[link].heard.last().unwrap();
    assert_eq!(last.body, "bob's");
    let (key, body) = (last.exchange.key, "for bob");
    world.send_exchange(link, key, body, true);
    world.quiesce();
    assert_eq!(world.clients[other].heard[0].body, body);
    let token = world.publish_all(other, "topic:own", &[Outgoing::new("1")]);
    world.quiesce();
    assert!(world.is_confirmed(other, token));
    world.end();
}

#[test]
fn patterns_are_served_above_as_far_as_they_are_the_upstreams() {
    let (mut world, _, link) = played(1);
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 9 });
    say(&mut world, link, FromUpstream::Calls { taken: true });
    let server = world.connect(0, "server");
    let wishes = ["service:fx/a/*", "service:own", "service:**", "service:*/b", "topic:fx/b"];
    let tokens = world.subscribe_all(server, wishes.into_iter().map(Wish::to).collect());
    world.quiesce();
    assert!(world.is_confirmed(server, tokens[0]));
    world.advance(Span::from_millis(50));
    world.quiesce();
    let asked = world.clients[link].asked_upstream.iter();
    let mut names: Vec<&str> = asked
        .filter_map(|asked| match asked {
            ToUpstream::Serve { target, .. } => Some(target.name()),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["fx/**", "fx/a/*"]);
}
