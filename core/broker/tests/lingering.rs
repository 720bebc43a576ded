//! Subscriptions at an upstream that nobody here needs any more, and what is asked for again.

#![allow(clippy::unwrap_used)]

use crate::support::upstream::upstream;
use crate::support::{Wish, World, destination};
use tiderace_base::{ShardId, Span, Time};
use tiderace_broker::{BrokerOptions, Principal};
use tiderace_wire::{
    Command, Flags, FromUpstream, Meta, Numbering, Run, SubscriptionKey, ToUpstream,
    UpstreamNumbers,
};

fn say(world: &mut World, link: usize, said: FromUpstream) {
    world.command(link, Command::Upstream(Box::new(said)));
    world.quiesce();
}

/// The subscription that was asked for last.
fn asked(world: &mut World, link: usize) -> SubscriptionKey {
    let asked = world.clients[link].asked_upstream.pop().unwrap();
    let ToUpstream::Subscribe { key, .. } = asked else { panic!("{asked:?}") };
    key
}

/// The value of a topic that has had five messages.
fn value(key: SubscriptionKey) -> FromUpstream {
    let meta = Meta { flags: Flags::RETAIN, expires_ms: None };
    let mut run = Run::single(destination("topic:fx/a"), Time::ZERO, b"", b"1", meta);
    run.set_version(5);
    let numbering = Numbering::new(20, ShardId(0));
    run.set_upstream(Some(UpstreamNumbers { numbering, first: 9, reached: 9 }));
    FromUpstream::Messages { key, run }
}

#[test]
fn a_value_that_was_dropped_comes_again_although_it_has_not_changed() {
    let upstreams = vec![upstream("source", &["fx/**"])];
    let options = BrokerOptions { epoch: 1, upstreams, ..BrokerOptions::default() };
    let mut world = World::new(1, options);
    let link = world.open(0);
    world.verified(link, Ok(Principal::server()));
    say(&mut world, link, FromUpstream::Up { upstream: 0, epoch: 20 });
    let person = world.connect(0, "ann");
    for round in 1..=3 {
        world.subscribe(person, 1, Wish::to("topic:fx/a"));
        world.quiesce();
        let key = asked(&mut world, link);
        say(&mut world, link, value(key));
        say(&mut world, link, FromUpstream::Complete { key });
        assert_eq!(world.clients[person].received.len(), round, "round {round}");
        world.unsubscribe(person, 1);
        world.quiesce();
        world.advance(Span::from_millis(400));
        world.quiesce();
        let ended = world.clients[link].asked_upstream.pop();
        assert!(matches!(ended, Some(ToUpstream::Unsubscribe { .. })), "{ended:?}");
        say(&mut world, link, FromUpstream::Ended { key });
    }
}
